//! Starts the helper of a sandbox and receives its reports.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{
    self, BufRead as _, BufReader, IoSliceMut, PipeReader, PipeWriter, Seek as _, Write as _, pipe,
};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{WaitOptions, waitpid};
use rustix::stdio::dup2_stdin;
use serde::{Deserialize, Serialize};

use super::command::{CommandLine, SETUP_FAILED, SharedNetwork};
use super::helper::run_order;
use super::order::{
    AfterSetup, HELPER_ARGV0, HelperReport, NetworkDescriptors, ReportWriter, SandboxOrder,
    SystemString, can_start_helper,
};
use super::sys::{self, Fork, keep_on_exec};
use crate::command::{ProcessSession, SandboxCleanupReport};
use crate::error::SandboxError;
use crate::isolation::Isolation;
use crate::policy::SandboxPolicy;

/// Path of the program that is started as a helper.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A command that is started in a sandbox.
///
/// Its environment is empty unless it is set by [`envs`](Self::envs). Set streams and the working
/// directory by [`helper_command`](Self::helper_command), then call [`spawn`](Self::spawn). The
/// command is started by a helper, which is another process of this program with the same streams.
#[derive(Debug)]
pub struct SandboxCommand {
    command: Command,
    /// The program that the helper starts, and its arguments.
    words: Vec<OsString>,
    order: SandboxOrder,
    /// The file that the helper reads the order from.
    file: File,
    report: (PipeReader, PipeWriter),
    /// The user namespace and the network namespace that the command joins.
    network: Option<(OwnedFd, OwnedFd)>,
}

impl SandboxCommand {
    /// Creates a command for a program, which is searched for in `PATH` if its name has no slash.
    ///
    /// The working directory is passed to the command by descriptor: the command starts in the
    /// folder to which the path in [`Command::current_dir`] leads when the helper starts. If no
    /// path is set, the command starts in the caller's own working directory. If a parent of the
    /// folder is hidden, e.g. `/tmp`, the policy must name the folder as writable or readable.
    ///
    /// # Errors
    /// Returns an error if `main` has not called
    /// [`run_if_sandbox_helper`](crate::run_if_sandbox_helper), if the isolation is
    /// [`Isolation::None`], or if the system has no descriptor left.
    pub fn new(
        program: impl AsRef<OsStr>,
        policy: &SandboxPolicy,
        isolation: Isolation,
        session: ProcessSession,
    ) -> Result<Self, SandboxError> {
        if isolation == Isolation::None {
            return Err(SandboxError::NoIsolation);
        }
        let mut command =
            Self::without_program(policy.clone(), isolation, session, AfterSetup::Exec)?;
        command.args([program]);
        Ok(command)
    }

    pub(super) fn without_program(
        policy: SandboxPolicy,
        isolation: Isolation,
        session: ProcessSession,
        then: AfterSetup,
    ) -> Result<Self, SandboxError> {
        if !can_start_helper() {
            return Err(SandboxError::NotInitialized);
        }
        let (parent, environment) = (std::process::id(), Vec::new());
        let network = None;
        let order = SandboxOrder { policy, isolation, session, then, parent, environment, network };
        let file = memfd_create("sandbox-order", MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
        let file = File::from(file);
        let report = pipe()?;
        let mut command = Command::new(OWN_PROGRAM);
        command.arg0(HELPER_ARGV0).env_clear();
        command.arg(format!("{},{}", file.as_raw_fd(), report.1.as_raw_fd()));
        Ok(Self { command, words: Vec::new(), order, file, report, network: None })
    }

    /// Adds arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        let words = args.into_iter().map(|word| word.as_ref().to_owned());
        self.words.extend(words);
        self
    }

    /// Adds variables to the environment of the command.
    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> &mut Self {
        let string = |text: OsString| SystemString::new(text);
        let variables = variables.into_iter();
        let variables = variables.map(|(name, value)| (string(name.into()), string(value.into())));
        self.order.environment.extend(variables);
        self
    }

    /// Lets the command share a network with other commands. Without namespaces, there is no
    /// network to share, and the call has no effect. The policy must not permit the network of the
    /// host.
    ///
    /// # Errors
    /// Returns an error if the network does not exist any more.
    pub fn join(&mut self, network: &NetworkHandle) -> io::Result<&mut Self> {
        let open = |name: &str| {
            File::open(format!("/proc/{}/ns/{name}", network.process)).map(OwnedFd::from)
        };
        self.network = Some((open("user")?, open("net")?));
        Ok(self)
    }

    /// Returns the command that starts the helper. Use it to set the streams, the working directory
    /// and hooks before `exec`. The program, the arguments and the environment of this command are
    /// those of the helper; do not change them.
    pub fn helper_command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts the command, and returns when it runs.
    ///
    /// The helper ends when the command ends, with the same exit code or signal. If the thread that
    /// calls this function ends earlier, the helper kills the command.
    ///
    /// # Errors
    /// Returns an error if the command did not start. Nothing of the sandbox is left then.
    #[expect(unsafe_code, reason = "the helper must inherit descriptors")]
    pub fn spawn(mut self) -> Result<SandboxedChild, SandboxError> {
        let mut kept = vec![self.file.as_raw_fd(), self.report.1.as_raw_fd()];
        if self.order.isolation == Isolation::Namespaces {
            let network = self.network.as_ref().map(|(user, network)| NetworkDescriptors {
                user: user.as_raw_fd(),
                network: network.as_raw_fd(),
            });
            kept.extend(network.iter().flat_map(|numbers| [numbers.user, numbers.network]));
            self.order.network = network;
        }
        write_order(&self.file, &self.order)?;
        // SAFETY: the hook makes system calls only; it takes no lock and allocates no memory.
        unsafe {
            self.command.pre_exec(move || kept.iter().copied().try_for_each(keep_on_exec));
        }
        let mut child = self.command.args(self.words).spawn()?;
        let (reader, writer) = self.report;
        drop(writer);
        match SandboxReports::wait_for_start(reader) {
            Ok(reports) => Ok(SandboxedChild { child, reports }),
            Err(error) => {
                // The helper removes its placeholders and then exits by itself.
                drop(child.wait());
                Err(error)
            }
        }
    }

    /// Starts the command like [`spawn`](Self::spawn), but the helper is a fork of this process.
    /// This takes half the time, because no program is loaded. The helper has `stdin` as its
    /// standard input and shares the other streams and the working directory of this process;
    /// changes of the command that [`helper_command`](Self::helper_command) returns have no effect.
    ///
    /// Returns the process id of the helper. The caller must wait for the helper.
    ///
    /// # Errors
    /// Returns an error if the command did not start, or if this process has another thread.
    pub fn fork(mut self, stdin: &OwnedFd) -> Result<(u32, SandboxReports), SandboxError> {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("this process has more than one thread").into());
        }
        let mut words = self.words.into_iter();
        let network = self.network.filter(|_| self.order.isolation == Isolation::Namespaces);
        let command = CommandLine {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            environment: std::mem::take(&mut self.order.environment),
            network: network.map(|(user, network)| SharedNetwork { user, network }),
        };
        let (reader, writer) = self.report;
        let helper = match sys::fork()? {
            Fork::Child => {
                if dup2_stdin(stdin).is_err() {
                    sys::exit_now(SETUP_FAILED);
                }
                let report = ReportWriter::new(OwnedFd::from(writer).into());
                run_order(&self.order, &command, &report)
            }
            Fork::Parent(helper) => helper,
        };
        drop(writer);
        match SandboxReports::wait_for_start(reader) {
            Ok(reports) => Ok((helper.as_raw_nonzero().get().unsigned_abs(), reports)),
            Err(error) => {
                let _ = retry_on_intr(|| waitpid(Some(helper), WaitOptions::empty()));
                Err(error)
            }
        }
    }
}

/// Writes an order into a file, from which a helper then reads it.
fn write_order(mut file: &File, order: &SandboxOrder) -> io::Result<()> {
    file.write_all(&serde_json::to_vec(order)?)?;
    file.rewind()
}

/// A network that the commands of a session share: one loopback interface, and no other host.
///
/// A command that joins the network reaches servers that earlier commands left running, and the
/// [`loopback_listener`](Self::loopback_listener) of the caller. The network exists as long as this
/// value or a command in the network exists.
#[derive(Debug)]
pub struct SessionNetwork {
    /// Process id of the process that holds the network.
    process: u32,
    listener: TcpListener,
    /// The input of the helper. The helper ends when the input is closed.
    input: Option<UnixStream>,
    helper: Child,
}

/// A reference to a [`SessionNetwork`] for another process of the same user. The reference is valid
/// as long as the [`SessionNetwork`] value exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkHandle {
    process: u32,
}

impl SessionNetwork {
    /// Creates a network.
    ///
    /// # Errors
    /// Returns an error if this system has no [`Isolation::Namespaces`].
    pub fn create() -> Result<Self, SandboxError> {
        let (policy, session) = (SandboxPolicy::default(), ProcessSession::Inherited);
        let then = AfterSetup::HoldNetwork;
        let mut command =
            SandboxCommand::without_program(policy, Isolation::Namespaces, session, then)?;
        let (socket, helper_socket) = UnixStream::pair()?;
        command.helper_command().current_dir("/").stdin(OwnedFd::from(helper_socket));
        command.helper_command().stdout(Stdio::null()).stderr(Stdio::null());
        let SandboxedChild { mut child, mut reports } = command.spawn()?;
        let received = match reports.read() {
            Some(HelperReport::Network(process)) => receive_tcp_listener(&socket)
                .map(|listener| (process, listener))
                .map_err(Into::into),
            _ => Err(SandboxError::HelperKilled),
        };
        match received {
            Ok((process, listener)) => {
                Ok(Self { process, listener, input: Some(socket), helper: child })
            }
            Err(error) => {
                drop(socket);
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Returns the socket that listens on the loopback interface of this network. Commands in the
    /// network connect to its [`local_addr`](TcpListener::local_addr), and this process accepts the
    /// connections.
    #[must_use]
    pub fn loopback_listener(&self) -> &TcpListener {
        &self.listener
    }

    /// Returns a reference to the network. With the reference, a process of this user can make a
    /// command [join](SandboxCommand::join) the network.
    #[must_use]
    pub fn handle(&self) -> NetworkHandle {
        NetworkHandle { process: self.process }
    }
}

impl Drop for SessionNetwork {
    fn drop(&mut self) {
        drop(self.input.take());
        // An error means that the helper was reaped already.
        drop(self.helper.wait());
    }
}

/// Receives the listening socket that the helper has created in the network.
fn receive_tcp_listener(socket: &UnixStream) -> io::Result<TcpListener> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let buffer = &mut [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let listener = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(listener.ok_or(io::ErrorKind::UnexpectedEof)?.into())
}

/// A command that runs in a sandbox.
#[derive(Debug)]
pub struct SandboxedChild {
    child: Child,
    reports: SandboxReports,
}

impl SandboxedChild {
    /// Returns the helper, which ends with the exit code or signal of the command. If there is a
    /// process namespace, killing the helper ends the command with all its processes.
    pub fn helper(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Splits the value, for callers that wait for the helper in their own way.
    pub fn into_parts(self) -> (Child, SandboxReports) {
        (self.child, self.reports)
    }

    /// Waits for the end of the command.
    ///
    /// # Errors
    /// Returns the system's error if waiting fails.
    pub fn wait(mut self) -> io::Result<(ExitStatus, SandboxCleanupReport)> {
        let status = self.child.wait()?;
        Ok((status, self.reports.wait_for_cleanup_report().unwrap_or_default()))
    }
}

/// The reports of a helper.
#[derive(Debug)]
pub struct SandboxReports(BufReader<PipeReader>);

impl SandboxReports {
    /// Waits until the command runs.
    fn wait_for_start(reader: PipeReader) -> Result<Self, SandboxError> {
        let mut reports = Self(BufReader::new(reader));
        let mut report = reports.read();
        if matches!(report, Some(HelperReport::Executing)) {
            report = reports.read().or(Some(HelperReport::Started));
        }
        match report {
            Some(HelperReport::Started) => Ok(reports),
            Some(HelperReport::Failed(failure)) => Err(SandboxError::Setup(failure)),
            _ => Err(SandboxError::HelperKilled),
        }
    }

    fn read(&mut self) -> Option<HelperReport> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }

    /// Waits for the last report. Returns `None` if there is no last report, because the helper was
    /// killed or has no process namespace.
    #[must_use]
    pub fn wait_for_cleanup_report(mut self) -> Option<SandboxCleanupReport> {
        match self.read() {
            Some(HelperReport::Ended(end)) => Some(end),
            _ => None,
        }
    }
}
