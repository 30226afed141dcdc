//! System calls that try to escape. A copy of this program makes them in the sandbox.

#![expect(unsafe_code, reason = "system calls are made that no interface offers")]

use std::ffi::CString;
use std::io;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;

use callboard_sandbox::{Isolation, probe_isolation};
use libc::c_long;

use crate::mutations;

/// Exit code of an attack that succeeded.
pub(crate) const ESCAPED: i32 = 77;

/// Ends this process after an attack, if it was started for one.
#[expect(clippy::exit, clippy::disallowed_methods, reason = "an attack is no test")]
pub(crate) fn run_if_asked() {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == "mutate").is_some() {
        let mut number = || args.next().unwrap().parse().unwrap();
        mutations::mutate(number(), number());
        std::process::exit(0);
    }
    #[cfg(target_arch = "x86_64")]
    if args.next_if(|arg| arg == "call-as-32-bit-program").is_some() {
        call_as_32_bit_program();
        std::process::exit(0);
    }
    if args.next().as_deref() == Some("attack") {
        let name = args.next().unwrap();
        let result = attack(&name);
        match result {
            Ok(()) => eprintln!("{name} succeeded"),
            Err(ref error) => eprintln!("{name}: {error}"),
        }
        std::process::exit(if result.is_ok() { ESCAPED } else { 0 });
    }
}

/// Names of the attacks that must fail.
pub(crate) fn names(isolation: Isolation) -> impl Iterator<Item = &'static str> {
    let only: &[&str] = match isolation {
        Isolation::Landlock => {
            &["socket-unix", "socket-inet", "socket-netlink", "pair-datagram", "set-user-id"]
        }
        _ => &["chmod-path"],
    };
    let signals = isolation == Isolation::Namespaces || probe_isolation().landlock_abi >= 6;
    let signal = signals.then_some("signal-other");
    BOTH.iter().copied().chain(only.iter().copied()).chain(signal)
}

const BOTH: &[&str] = &[
    "mount",
    "umount",
    "pivot_root",
    "chroot",
    "move_mount",
    "open_tree",
    "fsopen",
    "mount_setattr",
    "unshare-user",
    "unshare-mount",
    "unshare-net",
    "unshare-time",
    "clone-user",
    "clone-high-bits",
    "clone3",
    "setns",
    "ptrace",
    "ptrace-me",
    "process_vm_readv",
    "pidfd_getfd",
    "bpf",
    "keyctl",
    "add_key",
    "userfaultfd",
    "io_uring",
    "perf_event_open",
    "open_by_handle",
    "kexec",
    "init_module",
    "reboot",
    "settimeofday",
    "sethostname",
    "swapon",
    "syslog",
    "fanotify",
    "acct",
    "tiocsti",
    "tiocsti-high-bits",
    "tioclinux",
    "socket-packet",
    "socket-vsock",
    "socket-alg",
    "socket-raw",
    "netlink-audit",
    "x32",
    "connect-tcp",
    "connect-udp",
    "connect-abstract",
    "connect-path",
    "datagram-path",
    "inherited-descriptor",
    "open-parent-memory",
    "setuid-root",
    "regain-capabilities",
];

/// Makes a system call (`getpid`) as 32-bit programs do.
#[cfg(target_arch = "x86_64")]
fn call_as_32_bit_program() {
    // SAFETY: the call changes no memory. A kernel without 32-bit programs ends the process.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_u64 => _, out("r8") _, out("r9") _,
            out("r10") _, out("r11") _);
    }
}

/// Calls a system call, and returns its error.
fn call(number: c_long, args: [c_long; 6]) -> io::Result<()> {
    let [a, b, c, d, e, f] = args;
    // SAFETY: each pointer among the arguments is null, or points to a string that lives longer
    // than the call. What a call could do to this process ends with the process.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Like [`call`], but only a denial by a filter counts as a failure. Other errors mean that the
/// call reached the kernel's code.
fn denied(number: c_long, args: [c_long; 6]) -> io::Result<()> {
    match call(number, args) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
            Err(error)
        }
        other => {
            eprintln!("reached the kernel: {other:?}");
            Ok(())
        }
    }
}

/// Tries to mount one path over another.
pub(crate) fn bind(one: &Path, two: &Path) -> io::Result<()> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let (one, two) = (text(one), text(two));
    let (one, two) = (one.as_ptr() as c_long, two.as_ptr() as c_long);
    call(libc::SYS_mount, [one, two, 0, libc::MS_BIND.cast_signed(), 0, 0])
}

/// Tries to unmount a path.
pub(crate) fn unmount(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    call(libc::SYS_umount2, [path.as_ptr() as c_long, libc::MNT_DETACH.into(), 0, 0, 0, 0])
}

fn text(value: &str) -> CString {
    CString::new(value).unwrap()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

fn other_process() -> c_long {
    variable("OTHER").parse().unwrap()
}

fn flag(value: libc::c_int) -> c_long {
    c_long::from(value)
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn attack(name: &str) -> io::Result<()> {
    let root = text("/");
    let root = root.as_ptr() as c_long;
    let empty = text("");
    let empty = empty.as_ptr() as c_long;
    let none = [0; 6];
    let (at_cwd, terminal) = (flag(libc::AT_FDCWD), 0);
    match name {
        "mount" => denied(libc::SYS_mount, [root, root, 0, flag(libc::MS_BIND as i32), 0, 0]),
        "umount" => denied(libc::SYS_umount2, [empty, 0, 0, 0, 0, 0]),
        "pivot_root" => denied(libc::SYS_pivot_root, [empty, empty, 0, 0, 0, 0]),
        "chroot" => denied(libc::SYS_chroot, [root, 0, 0, 0, 0, 0]),
        "move_mount" => denied(libc::SYS_move_mount, [-1, empty, -1, empty, 0, 0]),
        "open_tree" => denied(libc::SYS_open_tree, [at_cwd, root, 1, 0, 0, 0]),
        "fsopen" => denied(libc::SYS_fsopen, [empty, 0, 0, 0, 0, 0]),
        "mount_setattr" => denied(libc::SYS_mount_setattr, [-1, empty, 0, 0, 0, 0]),
        "unshare-user" => denied(libc::SYS_unshare, [flag(libc::CLONE_NEWUSER), 0, 0, 0, 0, 0]),
        "unshare-mount" => denied(libc::SYS_unshare, [flag(libc::CLONE_NEWNS), 0, 0, 0, 0, 0]),
        "unshare-net" => denied(libc::SYS_unshare, [flag(libc::CLONE_NEWNET), 0, 0, 0, 0, 0]),
        "unshare-time" => denied(libc::SYS_unshare, [0x80, 0, 0, 0, 0, 0]),
        "clone-user" => denied(libc::SYS_clone, [flag(libc::CLONE_NEWUSER), 0, 0, 0, 0, 0]),
        "clone-high-bits" => {
            denied(libc::SYS_clone, [flag(libc::CLONE_NEWUSER) | 1 << 40, 0, 0, 0, 0, 0])
        }
        "clone3" => denied(libc::SYS_clone3, none),
        "setns" => denied(libc::SYS_setns, [-1, 0, 0, 0, 0, 0]),
        "ptrace" => {
            denied(libc::SYS_ptrace, [libc::PTRACE_ATTACH.into(), other_process(), 0, 0, 0, 0])
        }
        "ptrace-me" => denied(libc::SYS_ptrace, none),
        "process_vm_readv" => denied(libc::SYS_process_vm_readv, [other_process(), 0, 0, 0, 0, 0]),
        "pidfd_getfd" => denied(libc::SYS_pidfd_getfd, [-1, 0, 0, 0, 0, 0]),
        "bpf" => denied(libc::SYS_bpf, none),
        "keyctl" => denied(libc::SYS_keyctl, none),
        "add_key" => denied(libc::SYS_add_key, none),
        "userfaultfd" => denied(libc::SYS_userfaultfd, none),
        "io_uring" => denied(libc::SYS_io_uring_setup, none),
        "perf_event_open" => denied(libc::SYS_perf_event_open, none),
        "open_by_handle" => denied(libc::SYS_open_by_handle_at, [-1, 0, 0, 0, 0, 0]),
        "kexec" => denied(libc::SYS_kexec_load, [0, 99, 0, 0, 0, 0]),
        "init_module" => denied(libc::SYS_init_module, [0, 0, empty, 0, 0, 0]),
        "reboot" => denied(libc::SYS_reboot, none),
        "settimeofday" => denied(libc::SYS_settimeofday, none),
        "sethostname" => denied(libc::SYS_sethostname, [0, -1, 0, 0, 0, 0]),
        "swapon" => denied(libc::SYS_swapon, [empty, 0, 0, 0, 0, 0]),
        "syslog" => denied(libc::SYS_syslog, [10, 0, 0, 0, 0, 0]),
        "fanotify" => denied(libc::SYS_fanotify_init, none),
        "acct" => denied(libc::SYS_acct, [empty, 0, 0, 0, 0, 0]),
        "tiocsti" => denied(libc::SYS_ioctl, [terminal, 0x5412, empty, 0, 0, 0]),
        "tiocsti-high-bits" => {
            denied(libc::SYS_ioctl, [terminal, 0x5412 | 1 << 32, empty, 0, 0, 0])
        }
        "tioclinux" => denied(libc::SYS_ioctl, [terminal, 0x541c, empty, 0, 0, 0]),
        "socket-packet" => socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0),
        "socket-vsock" => socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        "socket-alg" => socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        "socket-raw" => socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 1),
        "netlink-audit" => socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT),
        "socket-unix" => socket(libc::AF_UNIX, libc::SOCK_STREAM, 0),
        "socket-inet" => socket(libc::AF_INET, libc::SOCK_STREAM, 0),
        "socket-netlink" => socket(libc::AF_NETLINK, libc::SOCK_RAW, 0),
        "pair-datagram" => [libc::SOCK_DGRAM, libc::SOCK_RAW | libc::SOCK_NONBLOCK]
            .into_iter()
            .try_for_each(|kind| pair(kind).map(drop)),
        "x32" => denied(libc::SYS_getpid | 0x4000_0000, none),
        "connect-tcp" => {
            let port = variable("PORT").parse().unwrap();
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop)
        }
        "connect-udp" => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.send_to(b"x", (Ipv4Addr::new(192, 0, 2, 1), 53)).map(drop)
        }
        "connect-abstract" => {
            let address = SocketAddr::from_abstract_name(variable("ABSTRACT"))?;
            UnixStream::connect_addr(&address).map(drop)
        }
        "connect-path" => UnixStream::connect(variable("SOCKET")).map(drop),
        "datagram-path" => {
            let socket = pair(libc::SOCK_DGRAM)?;
            socket.send_to(b"x", variable("SOCKET")).map(drop)
        }
        "inherited-descriptor" => (3..1000)
            .find(|number| call(libc::SYS_fcntl, [*number, 1, 0, 0, 0, 0]).is_ok())
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into()),
        "open-parent-memory" => {
            let parent = std::os::unix::process::parent_id();
            std::fs::read(format!("/proc/{parent}/environ"))
                .and(std::fs::File::options().write(true).open(format!("/proc/{parent}/mem")))
                .map(drop)
        }
        "signal-other" => call(libc::SYS_kill, [other_process(), libc::SIGCONT.into(), 0, 0, 0, 0]),
        "chmod-path" => {
            let file = text(&format!("{}/file", variable("OUTSIDE")));
            call(libc::SYS_fchmodat, [at_cwd, file.as_ptr() as c_long, 0o777, 0, 0, 0])
        }
        "set-user-id" => {
            let file = text(&format!("{}/src/main.rs", variable("PROJECT")));
            let file = file.as_ptr() as c_long;
            call(libc::SYS_fchmodat, [at_cwd, file, 0o755, 0, 0, 0]).unwrap();
            let calls = [libc::SYS_fchmodat, 452];
            let mut tries = calls.into_iter().flat_map(|call| [(call, 0o4755), (call, 0o2755)]);
            let escaped =
                tries.any(|(call, mode)| denied(call, [at_cwd, file, mode, 0, 0, 0]).is_ok());
            if escaped { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
        }
        "setuid-root" => {
            // An ordinary user tries to become root, and root tries to become another user.
            let is_root = rustix::process::geteuid().is_root();
            call(libc::SYS_setuid, [if is_root { 1 } else { 0 }, 0, 0, 0, 0, 0])
        }
        "regain-capabilities" => {
            let status = std::fs::read_to_string("/proc/self/status")?;
            let bits = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                u64::from_str_radix(line.trim(), 16).unwrap()
            };
            // Only the capabilities that concern permissions of files.
            let kept = if rustix::process::geteuid().is_root() { 0x1b } else { 0 };
            let all = bits("CapPrm:") | bits("CapEff:") | bits("CapInh:") | bits("CapBnd:");
            // The bounding set of an ordinary user has no effect, since privileges cannot be
            // gained.
            let counted = if kept == 0 { bits("CapPrm:") | bits("CapEff:") } else { all };
            let has_no_new_privileges = status.contains("NoNewPrivs:\t1");
            if counted & !kept == 0 && has_no_new_privileges {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Ok(())
        }
        _ => unreachable!("unknown attack {name}"),
    }
}

fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<()> {
    denied(libc::SYS_socket, [flag(family), flag(kind), flag(protocol), 0, 0, 0])
}

/// Creates a connected pair of sockets, and returns one of them.
fn pair(kind: libc::c_int) -> io::Result<UnixDatagram> {
    let mut numbers = [0; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, numbers.as_mut_ptr()) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { <UnixDatagram as std::os::fd::FromRawFd>::from_raw_fd(numbers[0]) })
}
