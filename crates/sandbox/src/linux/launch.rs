//! Starts the helper of a sandbox and receives its reports.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Write as _, pipe};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use super::helper::{self, HELPER_ARGV0};
use super::sys::keep_on_exec;
use crate::error::{SandboxError, SetupFailure};
use crate::isolation::Isolation;
use crate::policy::SandboxPolicy;

/// Path of the program that is started as a helper.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The order of a helper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SandboxOrder {
    pub(super) policy: SandboxPolicy,
    pub(super) isolation: Isolation,
    pub(super) session: CommandSession,
    /// Whether the command is started after the set-up. A probe only sets up.
    pub(super) then: AfterSetup,
    /// Process id of the process that starts the helper.
    pub(super) parent: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AfterSetup {
    Exec,
    Exit,
}

/// The session of processes to which a command belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CommandSession {
    /// The session and the process group of the caller.
    #[default]
    Inherited,
    /// A new session. If standard input, output or error is a terminal that belongs to no session,
    /// it becomes the controlling terminal.
    New,
}

/// A report of the helper, one line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HelperReport {
    /// The command runs.
    Started,
    /// The helper becomes the command now. The command runs if nothing follows.
    Executing,
    Failed(SetupFailure),
    Ended(SandboxEnd),
}

/// What the helper did when the command had ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxEnd {
    /// Number of processes that were still running when the command ended, and were ended. Always 0
    /// without a process namespace.
    pub left_over: usize,
}

/// A command that is started in a sandbox.
///
/// Set arguments, environment, streams and working directory by [`std`](Self::std), then call
/// [`spawn`](Self::spawn). The command is started by a helper, which is another process of this
/// program with the same environment and streams.
#[derive(Debug)]
pub struct SandboxCommand {
    command: Command,
    order: OwnedFd,
    report: (PipeReader, PipeWriter),
}

impl SandboxCommand {
    /// Creates a command for a program, which is searched for in `PATH` if its name has no slash.
    ///
    /// The working directory is passed to the command by descriptor: the command starts in the
    /// folder in which [`Command::current_dir`] (or the caller's own working directory) leads when
    /// the helper starts, and nowhere else.
    ///
    /// # Errors
    /// Returns an error if `main` has not called
    /// [`init_sandbox_helper`](crate::init_sandbox_helper), if the isolation is
    /// [`Isolation::None`], or if the system has no descriptor left.
    pub fn new(
        program: impl AsRef<OsStr>,
        policy: &SandboxPolicy,
        isolation: Isolation,
        session: CommandSession,
    ) -> Result<Self, SandboxError> {
        if isolation == Isolation::None {
            return Err(SandboxError::NoIsolation);
        }
        let mut command = Self::with_order(policy.clone(), isolation, session, AfterSetup::Exec)?;
        command.command.arg(program);
        Ok(command)
    }

    pub(super) fn with_order(
        policy: SandboxPolicy,
        isolation: Isolation,
        session: CommandSession,
        then: AfterSetup,
    ) -> Result<Self, SandboxError> {
        if !helper::is_available() {
            return Err(SandboxError::NotInitialized);
        }
        let order = SandboxOrder { policy, isolation, session, then, parent: std::process::id() };
        let order = order_file(&order)?;
        let report = pipe()?;
        let mut command = Command::new(OWN_PROGRAM);
        command.arg0(HELPER_ARGV0);
        command.arg(format!("{},{}", order.as_raw_fd(), report.1.as_raw_fd()));
        Ok(Self { command, order, report })
    }

    /// Returns the underlying command, to set arguments, environment, streams, the working
    /// directory and hooks before `exec`. Its program and first argument must not be changed.
    pub fn std(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts the command, and returns when it runs.
    ///
    /// The helper ends when the command ends, with the same exit code or signal. If the thread that
    /// calls this function ends earlier, the helper kills the command.
    ///
    /// # Errors
    /// Returns an error if the command did not start. Nothing of the sandbox is left then.
    #[expect(unsafe_code, reason = "the helper must inherit two descriptors")]
    pub fn spawn(mut self) -> Result<SandboxedChild, SandboxError> {
        let kept = [self.order.as_raw_fd(), self.report.1.as_raw_fd()];
        // SAFETY: the hook makes system calls only; it takes no lock and allocates no memory.
        unsafe {
            self.command.pre_exec(move || kept.into_iter().try_for_each(keep_on_exec));
        }
        let mut child = self.command.spawn()?;
        let (reader, writer) = self.report;
        drop(writer);
        let mut reports = SandboxReports(BufReader::new(reader));
        let mut report = reports.read();
        if matches!(report, Some(HelperReport::Executing)) {
            report = reports.read().or(Some(HelperReport::Started));
        }
        let error = match report {
            Some(HelperReport::Started) => return Ok(SandboxedChild { child, reports }),
            Some(HelperReport::Failed(failure)) => SandboxError::Setup(failure),
            _ => SandboxError::HelperKilled,
        };
        // The helper removes its placeholders and then exits by itself.
        drop(child.wait());
        Err(error)
    }
}

/// Writes an order into an anonymous file.
fn order_file(order: &SandboxOrder) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("sandbox-order", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(order)?)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file.into())
}

/// A command that runs in a sandbox.
#[derive(Debug)]
pub struct SandboxedChild {
    child: Child,
    reports: SandboxReports,
}

impl SandboxedChild {
    /// Returns the helper, which ends with the exit code or signal of the command. Killing the
    /// helper ends the command with all its processes, if there is a process namespace.
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
    pub fn wait(mut self) -> io::Result<(ExitStatus, SandboxEnd)> {
        let status = self.child.wait()?;
        Ok((status, self.reports.into_end()))
    }
}

/// The reports of a helper.
#[derive(Debug)]
pub struct SandboxReports(BufReader<PipeReader>);

impl SandboxReports {
    fn read(&mut self) -> Option<HelperReport> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }

    /// Waits for the last report. Without one (the helper was killed, or has no process namespace),
    /// returns the default.
    #[must_use]
    pub fn into_end(mut self) -> SandboxEnd {
        match self.read() {
            Some(HelperReport::Ended(end)) => end,
            _ => SandboxEnd::default(),
        }
    }
}
