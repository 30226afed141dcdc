//! System calls that no safe interface has.

#![expect(unsafe_code, reason = "no safe interface has these system calls")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::process::{Pid, Signal};

/// Result of a fork.
pub(super) enum Fork {
    Parent(Pid),
    Child,
}

/// Forks this process; the child is the first process of new namespaces of the given kinds.
///
/// This process must have no other thread.
pub(super) fn fork_into_namespaces(flags: libc::c_int) -> io::Result<Fork> {
    // The order of the arguments differs between architectures, but all after the first are zero.
    // SAFETY: without a stack and without CLONE_VM the call is a fork. This process has one thread,
    // so no lock of the allocator is held in the child.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0) };
    fork_result(pid)
}

/// Forks this process, which must have no other thread.
pub(super) fn fork() -> io::Result<Fork> {
    // SAFETY: this process has one thread, so the child may use the allocator.
    fork_result(libc::c_long::from(unsafe { libc::fork() }))
}

fn fork_result(pid: libc::c_long) -> io::Result<Fork> {
    match pid {
        0 => Ok(Fork::Child),
        -1 => Err(io::Error::last_os_error()),
        pid => i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .map(Fork::Parent)
            .ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

/// Ends this process at once, without running the exit handlers of the program from which it was
/// forked.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: the call does not return.
    unsafe { libc::_exit(code) }
}

/// Takes over a descriptor that this process inherited.
pub(super) fn inherited_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call changes only a flag of the descriptor and fails if the descriptor is not
    // open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the program that started this helper passed it for this
    // purpose. Nothing else in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Lets the next program inherit a descriptor. Makes one system call and allocates nothing.
pub(super) fn keep_on_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: the call changes only a flag of the descriptor.
    match unsafe { libc::fcntl(number, libc::F_SETFD, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Closes all descriptors from `first` on, except those in `keep`.
///
/// The caller must not use an owner of a closed descriptor any more, and must not drop it.
pub(super) fn close_descriptors(first: RawFd, keep: &[BorrowedFd<'_>]) {
    let mut kept: Vec<RawFd> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    kept.sort_unstable();
    let close = |from: RawFd, to: libc::c_uint| {
        let from = libc::c_uint::try_from(from).unwrap_or_default();
        if from <= to {
            // SAFETY: by the contract of this function, no descriptor in the range is used again.
            unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
        }
    };
    let mut from = first;
    for fd in kept.into_iter().filter(|fd| *fd >= first) {
        close(from, libc::c_uint::try_from(fd).unwrap_or_default().saturating_sub(1));
        from = fd + 1;
    }
    close(from, libc::c_uint::MAX);
}

/// Attributes of mounts, as bits of the kernel's `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Which mounts [`set_mount_attributes`] changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MountScope {
    One,
    WithSubmounts,
}

/// Sets attributes (`MOUNT_ATTR_*`) of the mount whose root is `mount`.
pub(super) fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    scope: MountScope,
    attributes: u64,
) -> io::Result<()> {
    mount_setattr(mount, scope, &MountAttr { attr_set: attributes, ..MountAttr::default() })
}

/// Stops all exchange of mount events between this mount namespace and others.
pub(super) fn make_mounts_private(root: BorrowedFd<'_>) -> io::Result<()> {
    let attr = MountAttr { propagation: libc::MS_PRIVATE, ..MountAttr::default() };
    mount_setattr(root, MountScope::WithSubmounts, &attr)
}

fn mount_setattr(mount: BorrowedFd<'_>, scope: MountScope, attr: &MountAttr) -> io::Result<()> {
    let mut flags = libc::AT_EMPTY_PATH;
    if scope == MountScope::WithSubmounts {
        flags |= libc::AT_RECURSIVE;
    }
    // SAFETY: the path is an empty C string, and the structure has the layout and the size that the
    // kernel expects.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Switches on the loopback interface of this network namespace.
pub(super) fn switch_on_loopback(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: `ifreq` has only integer fields and arrays of them, for which zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the request is a live `ifreq`, which the kernel reads.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the version of the kernel's Landlock interface; 0 if the kernel has none.
pub(super) fn landlock_abi() -> u32 {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag, the kernel reads no memory of this process.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or_default()
}

/// Returns the major and minor version of the kernel; zeros if they are unknown.
pub(super) fn kernel_version() -> (u32, u32) {
    parse_release(&rustix::system::uname().release().to_string_lossy())
}

fn parse_release(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|char: char| !char.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}

/// Returns the number of processes and threads of the whole system; 0 if it is unknown.
pub(super) fn system_process_count() -> u64 {
    // SAFETY: `sysinfo` has only integer fields, for which zero is a valid value.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer refers to a live value of the right type.
    unsafe { libc::sysinfo(&raw mut info) };
    info.procs.into()
}

/// Sets the handler of a signal. The handler may only call functions that are safe in a signal
/// handler.
pub(super) fn handle_signal(signal: Signal, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the callers pass handlers that only read an atomic and call `kill`.
    unsafe { libc::signal(signal.as_raw(), handler as *const () as libc::sighandler_t) };
}

/// Resets a signal to its default action.
pub(super) fn reset_signal(signal: Signal) {
    // SAFETY: `SIG_DFL` is the default action and not a function of this program.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
}

/// Keeps signals pending until they are unblocked. Child processes inherit the block, but not the
/// pending signals.
pub(super) fn block_signals(signals: &[Signal]) {
    // SAFETY: the set is initialized, and the pointer for the old set may be null.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &signal_set(signals), std::ptr::null_mut()) };
}

/// Unblocks signals, and delivers those that are pending.
pub(super) fn unblock_signals(signals: &[Signal]) {
    // SAFETY: the set is initialized, and the pointer for the old set may be null.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &signal_set(signals), std::ptr::null_mut()) };
}

/// Returns whether a blocked signal has arrived.
pub(super) fn is_signal_pending(signal: Signal) -> bool {
    let mut set = signal_set(&[]);
    // SAFETY: the kernel fills a live set, which is then read.
    unsafe { libc::sigpending(&raw mut set) == 0 && libc::sigismember(&set, signal.as_raw()) == 1 }
}

fn signal_set(signals: &[Signal]) -> libc::sigset_t {
    // SAFETY: `sigset_t` has only integer fields, for which zero is a valid value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is live, and the calls change nothing else.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, signal.as_raw());
        }
    }
    set
}

/// Signals a process by its number. Safe in a signal handler.
pub(super) fn kill(pid: i32, signal: libc::c_int) {
    // SAFETY: the call has no effect on this process's memory.
    unsafe { libc::kill(pid, signal) };
}

/// Signals this process.
pub(super) fn raise(signal: Signal) {
    kill(rustix::process::getpid().as_raw_nonzero().get(), signal.as_raw());
}

/// Gives the terminal at a descriptor to this process's session, if there is one.
pub(super) fn take_terminal(fd: BorrowedFd<'_>) {
    let _ = rustix::process::ioctl_tiocsctty(fd);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_release_of_the_kernel() {
        for (release, version) in [
            ("6.14.0-22-generic", (6, 14)),
            ("5.15.167.4-microsoft-standard-WSL2", (5, 15)),
            ("7.1-rc3", (7, 1)),
            ("6", (0, 0)),
            ("", (0, 0)),
        ] {
            assert_eq!(parse_release(release), version, "{release}");
        }
        assert!(kernel_version() >= (5, 0));
    }
}
