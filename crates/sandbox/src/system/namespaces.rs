//! The processes of a sandbox with namespaces.
//!
//! - The *holder* is the helper. It stays outside of all namespaces, so that the command can
//!   neither see nor signal it. It maps the user, waits, and removes placeholders at the end.
//! - The *init process* is the first process of the process namespace. It builds the mounts, starts
//!   the command and reaps orphans. When it ends, the kernel kills every process of the namespace.
//! - The command is a child of the init process.
//!
//! The init process dies with the holder, and the holder ends with the process that started it.

use std::fs::{self, File};
use std::io::{self, IoSlice, PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socket_with,
};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions,
    WaitOptions, fchdir, getpid, pidfd_open, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, wait, waitid, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::StepResult as _;
use super::command::{
    CommandLine, SETUP_FAILED, SharedNetwork, has_original_parent, restrict_self,
};
use super::limits::{KILL_GRACE, LEFT_OVER_GRACE, SWEEP_INTERVAL};
use super::mount_plan::{FolderIdentity, LayerUseCount, PreMountSnapshot, WritableFolder};
use super::order::{AfterSetup, HelperReport, ReportWriter, SandboxOrder};
use super::placeholders::Placeholders;
use super::rules::LandlockRules;
use super::sys::{self, Fork};
use super::{lockdown, mounts, sockets};
use crate::command::SandboxCleanupReport;
use crate::error::{SetupFailure, SetupStep};
use crate::policy::NetworkAccess;

/// The namespaces of a sandbox.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// The namespaces that the commands of a session share.
const NETWORK_NAMESPACES: libc::c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNET;

/// Signal that the kernel sends to the holder when the process that started the holder is gone.
const PARENT_DIED: Signal = Signal::USR2;

/// Signals that a terminal sends to the holder, the init process and the command alike.
const FROM_TERMINAL: [Signal; 2] = [Signal::INT, Signal::QUIT];

/// Signals to the command that are blocked during the set-up, so that none of them is lost. Each
/// process of the sandbox passes on the signals that arrived before the next process existed. The
/// last process receives the signals before it becomes the command, and is then ended by them.
const DEFERRED: [Signal; 5] =
    [Signal::TERM, Signal::HUP, PARENT_DIED, FROM_TERMINAL[0], FROM_TERMINAL[1]];

/// Process id of the init process, as the holder sees it.
static INIT: AtomicI32 = AtomicI32::new(0);

/// Runs the helper until the sandbox has ended, and returns its exit code.
pub(super) fn run(order: &SandboxOrder, command: &CommandLine, report: &ReportWriter) -> i32 {
    let result = SandboxHolder::start(order, command, report).map(|holder| holder.wait(report));
    match result {
        Ok(CommandEnd::Code(code)) => code,
        Ok(CommandEnd::Signal(signal)) => die_by_signal(signal),
        Err(failure) => {
            report.send(&HelperReport::Failed(failure));
            SETUP_FAILED
        }
    }
}

/// How the command ended.
enum CommandEnd {
    Code(i32),
    Signal(i32),
}

/// Ends this process by the same signal that ended the command.
fn die_by_signal(signal: i32) -> i32 {
    let limit = Some(lockdown::NO_CORE_DUMP);
    let _ = setrlimit(Resource::Core, Rlimit { current: limit, maximum: limit });
    if let Some(named) = Signal::from_named_raw(signal) {
        sys::reset_signal(named);
    }
    sys::kill(getpid().as_raw_nonzero().get(), signal);
    128 + signal
}

struct SandboxHolder {
    init: Pid,
    status: PipeReader,
    placeholders: Placeholders,
}

impl SandboxHolder {
    fn start(
        order: &SandboxOrder,
        command: &CommandLine,
        report: &ReportWriter,
    ) -> Result<Self, SetupFailure> {
        install_signal_handlers();
        die_with_parent(order)?;
        let cwd = FolderIdentity::from_current_directory().step(SetupStep::WorkingDirectory)?;
        let known =
            |path: &PathBuf| FolderIdentity::from_path(path).step_at(SetupStep::Folder, path);
        let writable = WritableFolder::record_all(&order.policy)?;
        let tmp = order.policy.tmp.as_ref().map(known).transpose()?;
        let in_use = writable.iter().map(|writable| &writable.folder);
        let in_use = in_use.chain(&tmp).chain([&cwd]).map(|folder| folder.path.as_path());
        let in_use: Vec<_> = in_use.chain(order.policy.home.as_deref()).collect();
        let sockets = sockets::find_connectable_sockets(&in_use)?;
        let layer_use = LayerUseCount::from_after_setup(order.then);
        let plan = PreMountSnapshot { writable, layer_use, tmp, cwd, sockets };
        let (status, status_writer) = pipe().step(SetupStep::Helper)?;
        let (go_reader, go) = pipe().step(SetupStep::Helper)?;
        let holder = pidfd_open(getpid(), PidfdFlags::empty()).step(SetupStep::Helper)?;
        let writable: Vec<_> = plan.writable_paths().map(Path::to_owned).collect();
        let namespaces = match &command.network {
            Some(network) => {
                join(network, order)?;
                NAMESPACES & !NETWORK_NAMESPACES
            }
            None if order.policy.network == NetworkAccess::Host => NAMESPACES & !libc::CLONE_NEWNET,
            None => NAMESPACES,
        };
        let init = match sys::fork_into_namespaces(namespaces).step(SetupStep::Namespaces)? {
            Fork::Child => {
                drop((status, go));
                let init = Init { order, command, report, plan, status: status_writer, holder };
                sys::exit_now(init.run(go_reader));
            }
            Fork::Parent(init) => init,
        };
        deliver_signals_to(init);
        drop((status_writer, go_reader));
        let mut holder = Self { init, status, placeholders: Placeholders::default() };
        let begun = match &command.network {
            Some(_) => Ok(()),
            None => map_user(init).step(SetupStep::UserMap),
        };
        match begun
            .and_then(|()| holder.release_init_and_create_placeholders(order, &writable, &go))
        {
            Ok(()) => Ok(holder),
            Err(failure) => {
                sys::kill(init.as_raw_nonzero().get(), libc::SIGKILL);
                holder.wait(report);
                Err(failure)
            }
        }
    }

    /// Starts the work of the init process, and creates the placeholders while the init process
    /// builds the mounts.
    fn release_init_and_create_placeholders(
        &mut self,
        order: &SandboxOrder,
        writable: &[PathBuf],
        mut go: &PipeWriter,
    ) -> Result<(), SetupFailure> {
        go.write_all(&[0]).and_then(|()| replace_streams_by_null()).step(SetupStep::Helper)?;
        self.placeholders = Placeholders::create(&order.policy, writable)?;
        go.write_all(&[0]).step(SetupStep::Helper)
    }

    /// Waits for the end of the sandbox.
    fn wait(mut self, report: &ReportWriter) -> CommandEnd {
        // The init process is not reaped yet, so until `INIT` is cleared, its id cannot belong to
        // another process.
        let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = retry_on_intr(|| waitid(WaitId::Pid(self.init), exited));
        INIT.store(0, Ordering::Relaxed);
        let ended = retry_on_intr(|| waitpid(Some(self.init), WaitOptions::empty()));
        self.placeholders.remove();
        let code = ended.ok().flatten().and_then(|(_, status)| status.exit_status());
        let mut numbers = [0; 8];
        if self.status.read_exact(&mut numbers).is_err() {
            return match code {
                // The init process has reported the failure.
                Some(code) => CommandEnd::Code(code),
                None => CommandEnd::Signal(libc::SIGKILL),
            };
        }
        let [a, b, c, d, e, f, g, h] = numbers;
        let left_over = usize::try_from(u32::from_ne_bytes([e, f, g, h])).unwrap_or_default();
        report.send(&HelperReport::Ended(SandboxCleanupReport { left_over }));
        let status = i32::from_ne_bytes([a, b, c, d]);
        if libc::WIFSIGNALED(status) {
            CommandEnd::Signal(libc::WTERMSIG(status))
        } else {
            CommandEnd::Code(libc::WEXITSTATUS(status))
        }
    }
}

/// Makes this process end with the process that started it.
fn die_with_parent(order: &SandboxOrder) -> Result<(), SetupFailure> {
    set_parent_process_death_signal(Some(PARENT_DIED)).step(SetupStep::Helper)?;
    if has_original_parent(order) {
        return Ok(());
    }
    Err(SetupFailure::new(SetupStep::Helper, Errno::SRCH))
}

/// Enters a network that other commands share. This process keeps the mounts of the host, so it can
/// still remove placeholders.
fn join(network: &SharedNetwork, order: &SandboxOrder) -> Result<(), SetupFailure> {
    for (namespace, kind) in
        [(&network.user, LinkNameSpaceType::User), (&network.network, LinkNameSpaceType::Network)]
    {
        move_into_link_name_space(namespace.as_fd(), Some(kind)).step(SetupStep::Namespaces)?;
    }
    // The kernel clears the parent death signal when a process enters a user namespace.
    die_with_parent(order)
}

/// Creates a network, and keeps it until standard input is closed.
pub(super) fn create_and_hold_network(report: &ReportWriter) -> i32 {
    match try_hold_network(report) {
        Ok(()) => 0,
        Err(failure) => {
            report.send(&HelperReport::Failed(failure));
            SETUP_FAILED
        }
    }
}

fn try_hold_network(report: &ReportWriter) -> Result<(), SetupFailure> {
    // This process ends when its input is closed. It has no parent death signal, because the thread
    // that started it may end earlier.
    install_signal_handlers();
    let (mut go_reader, go) = pipe().step(SetupStep::Helper)?;
    let member = match sys::fork_into_namespaces(NETWORK_NAMESPACES).step(SetupStep::Namespaces)? {
        Fork::Child => {
            drop(go);
            [Signal::TERM, Signal::HUP, PARENT_DIED].into_iter().for_each(sys::reset_signal);
            sys::unblock_signals(&DEFERRED);
            if go_reader.read_exact(&mut [0]).is_ok() {
                match switch_on_loopback().and_then(|()| send_listener()) {
                    Ok(()) => {
                        report.send(&HelperReport::Started);
                        report.send(&HelperReport::Network(std::process::id()));
                        drop(io::stdin().read(&mut [0]));
                    }
                    Err(failure) => report.send(&HelperReport::Failed(failure)),
                }
            }
            sys::exit_now(0);
        }
        Fork::Parent(member) => member,
    };
    deliver_signals_to(member);
    let mapped = map_user(member).step(SetupStep::UserMap);
    let begun = mapped.and_then(|()| (&go).write_all(&[0]).step(SetupStep::Helper));
    if begun.is_err() {
        sys::kill(member.as_raw_nonzero().get(), libc::SIGKILL);
    }
    let _ = retry_on_intr(|| waitpid(Some(member), WaitOptions::empty()));
    begun
}

/// Sends a listening socket of this process's loopback interface over standard input, which is a
/// socket.
fn send_listener() -> Result<(), SetupFailure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).step(SetupStep::Loopback)?;
    let descriptors = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(io::stdin().as_fd(), &[IoSlice::new(&[0])], &mut control, SendFlags::empty())
        .step(SetupStep::Loopback)?;
    Ok(())
}

fn switch_on_loopback() -> Result<(), SetupFailure> {
    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(io::Error::from)
        .and_then(|socket| sys::switch_on_loopback(socket.as_fd()))
        .step(SetupStep::Loopback)
}

/// Installs handlers that pass signals on to the sandbox after [`deliver_signals_to`] was called.
/// The signals do not end the holder itself, which ends after the sandbox.
fn install_signal_handlers() {
    extern "C" fn terminate_init(_: libc::c_int) {
        signal_init(libc::SIGTERM);
    }
    extern "C" fn kill_init(_: libc::c_int) {
        signal_init(libc::SIGKILL);
    }
    // The terminal sends these signals to the command, too.
    extern "C" fn ignore_signal(_: libc::c_int) {}
    fn signal_init(signal: libc::c_int) {
        let init = INIT.load(Ordering::Relaxed);
        if init > 0 {
            sys::kill(init, signal);
        }
    }
    sys::block_signals(&DEFERRED);
    sys::handle_signal(Signal::TERM, terminate_init);
    sys::handle_signal(Signal::HUP, terminate_init);
    sys::handle_signal(PARENT_DIED, kill_init);
    FROM_TERMINAL.into_iter().for_each(|signal| sys::handle_signal(signal, ignore_signal));
    // A report to a closed pipe must not end this process, because the process must still remove
    // placeholders.
    sys::handle_signal(Signal::PIPE, ignore_signal);
    sys::reset_signal(Signal::CHILD);
}

/// Makes the handlers signal the init process, and delivers the signals that arrived before the
/// init process existed.
fn deliver_signals_to(init: Pid) {
    INIT.store(init.as_raw_nonzero().get(), Ordering::Relaxed);
    forward_pending_terminal_signals(init);
    sys::unblock_signals(&DEFERRED);
}

/// Sends the pending signals of the terminal to a process that did not exist when they were sent.
fn forward_pending_terminal_signals(process: Pid) {
    let pending = FROM_TERMINAL.into_iter().filter(|signal| sys::is_signal_pending(*signal));
    pending.for_each(|signal| sys::kill(process.as_raw_nonzero().get(), signal.as_raw()));
}

/// Maps every user and group of this process's user namespace to itself. If this process may not
/// map other users or groups, maps only its own.
fn map_user(init: Pid) -> io::Result<()> {
    let folder = PathBuf::from(format!("/proc/{}", init.as_raw_nonzero()));
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let map_all = |file: &str| {
        // Only root may map other users and groups.
        uid.is_root()
            && identity_map_lines(file).and_then(|map| fs::write(folder.join(file), map)).is_ok()
    };
    if !map_all("gid_map") {
        fs::write(folder.join("setgroups"), "deny")?;
        fs::write(folder.join("gid_map"), format!("{gid} {gid} 1"))?;
    }
    if !map_all("uid_map") {
        fs::write(folder.join("uid_map"), format!("{uid} {uid} 1"))?;
    }
    Ok(())
}

/// Returns the lines that map all users or groups of this process's user namespace to themselves.
fn identity_map_lines(file: &str) -> io::Result<String> {
    let map = fs::read_to_string(Path::new("/proc/self").join(file))?;
    let lines = map.lines().filter_map(|line| {
        let mut numbers = line.split_ascii_whitespace();
        let (first, count) = (numbers.next()?, numbers.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    });
    Ok(lines.collect())
}

/// Closes the command's streams in this process: a reader of the command's output waits until
/// no process can write to it any more.
fn replace_streams_by_null() -> io::Result<()> {
    let null = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok(dup2_stderr(&null)?)
}

struct Init<'a> {
    order: &'a SandboxOrder,
    command: &'a CommandLine,
    report: &'a ReportWriter,
    plan: PreMountSnapshot,
    status: PipeWriter,
    holder: OwnedFd,
}

impl Init<'_> {
    fn run(self, mut go: PipeReader) -> i32 {
        if go.read_exact(&mut [0]).is_err() {
            return SETUP_FAILED;
        }
        // The pipe stays open until a failure is reported. Otherwise the holder would report a
        // broken pipe.
        match self.set_up(&mut go).and_then(|rules| self.start_command(rules)) {
            Ok(Some(command)) => self.supervise(command),
            Ok(None) => {
                self.report.send(&HelperReport::Started);
                0
            }
            Err(failure) => {
                self.report.send(&HelperReport::Failed(failure));
                SETUP_FAILED
            }
        }
    }

    fn set_up(&self, go: &mut PipeReader) -> Result<Option<LandlockRules>, SetupFailure> {
        set_parent_process_death_signal(Some(Signal::KILL)).step(SetupStep::Helper)?;
        if has_ended(&self.holder) {
            return Err(SetupFailure::new(SetupStep::Helper, Errno::SRCH));
        }
        extern "C" fn terminate_all(_: libc::c_int) {
            sys::kill(-1, libc::SIGTERM);
        }
        sys::handle_signal(Signal::TERM, terminate_all);
        // The first process of a process namespace ignores these signals.
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, PARENT_DIED] {
            sys::reset_signal(signal);
        }
        // A shared network has its loopback interface already.
        if self.order.policy.network == NetworkAccess::None && self.command.network.is_none() {
            switch_on_loopback()?;
        }
        mounts::build(&self.order.policy, &self.plan, || go.read_exact(&mut [0]))?;
        let cwd = self.plan.open_working_directory().and_then(|cwd| Ok(fchdir(&cwd)?));
        cwd.step_at(SetupStep::WorkingDirectory, &self.plan.cwd.path)?;
        let mut writable: Vec<_> = self.plan.writable_paths().map(Path::to_owned).collect();
        writable.extend(fs::canonicalize("/tmp").ok());
        // If a folder could not be combined with its changes, its mount is read-only, whatever this
        // rule permits.
        let changed = self.order.policy.copy_on_write.iter();
        writable.extend(changed.filter_map(|folder| fs::canonicalize(&folder.path).ok()));
        LandlockRules::for_namespaces(&self.order.policy, &writable)
    }

    /// Starts the command. If nothing is to be started, restricts this process instead, and returns
    /// `None`.
    fn start_command(&self, rules: Option<LandlockRules>) -> Result<Option<Pid>, SetupFailure> {
        if self.order.then != AfterSetup::Exec {
            return restrict_self(self.order, rules).map(|()| None);
        }
        let (mut failure, failure_writer) = pipe().step(SetupStep::Exec)?;
        let deferred: Vec<_> =
            DEFERRED.into_iter().filter(|it| sys::is_signal_pending(*it)).collect();
        let command = match sys::fork().step(SetupStep::Exec)? {
            Fork::Child => {
                // This process sends the signals to itself, because it might end before the init
                // process could send them.
                deferred.into_iter().for_each(sys::raise);
                let failure = match restrict_self(self.order, rules) {
                    Ok(()) => self.command.exec(),
                    Err(failure) => failure,
                };
                if let Ok(json) = serde_json::to_vec(&failure) {
                    drop((&failure_writer).write_all(&json));
                }
                sys::exit_now(SETUP_FAILED);
            }
            Fork::Parent(command) => command,
        };
        forward_pending_terminal_signals(command);
        sys::unblock_signals(&DEFERRED);
        drop(failure_writer);
        // The pipe is closed without a message when the command runs.
        let mut json = Vec::new();
        failure.read_to_end(&mut json).step(SetupStep::Exec)?;
        if let Ok(failure) = serde_json::from_slice(&json) {
            return Err(failure);
        }
        Ok(Some(command))
    }

    /// Waits for the command and for the processes that it leaves behind.
    fn supervise(self, command: Pid) -> i32 {
        self.report.send(&HelperReport::Started);
        let released = replace_streams_by_null().and_then(|()| {
            set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            lockdown::drop_capabilities()
        });
        sys::close_descriptors(3, &[self.status.as_fd()]);
        let (status, is_gone) = match released {
            Ok(()) => wait_for_command(command),
            Err(_) => (libc::SIGKILL, true),
        };
        let left_over = if is_gone { 0 } else { end_left_over() };
        let mut numbers = status.to_ne_bytes().to_vec();
        numbers.extend(u32::try_from(left_over).unwrap_or(u32::MAX).to_ne_bytes());
        drop((&self.status).write_all(&numbers));
        // Exits without running destructors, because the owners of the closed descriptors would
        // close them again.
        sys::exit_now(0)
    }
}

/// Returns whether the process to which a pidfd refers has ended.
fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    !matches!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}

/// Waits until the command ends, and returns its status and whether no other process is left.
fn wait_for_command(command: Pid) -> (i32, bool) {
    loop {
        match retry_on_intr(|| wait(WaitOptions::empty())) {
            Ok(Some((pid, status))) if pid == command => {
                return (status.as_raw(), reap_others_within(Duration::ZERO));
            }
            Ok(_) => {}
            Err(_) => return (libc::SIGKILL, true),
        }
    }
}

/// Reaps processes until none is left or the time has passed. Returns whether none is left.
fn reap_others_within(time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        match retry_on_intr(|| wait(WaitOptions::NOHANG)) {
            Ok(Some(_)) => {}
            Ok(None) if Instant::now() < deadline => std::thread::sleep(SWEEP_INTERVAL),
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Ends all processes that the command left behind, and returns their number. Processes that ignore
/// SIGTERM are killed by the kernel when this process exits.
fn end_left_over() -> usize {
    if reap_others_within(LEFT_OVER_GRACE) {
        return 0;
    }
    let processes =
        fs::read_dir("/proc").into_iter().flatten().flatten().filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())
        });
    let left_over = processes.count().saturating_sub(1);
    sys::kill(-1, libc::SIGTERM);
    reap_others_within(KILL_GRACE);
    left_over
}
