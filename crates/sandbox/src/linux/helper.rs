//! The helper: another process of this program that sets up a sandbox and starts the command in it.

use std::env::args_os;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _, stderr, stdin, stdout};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getppid, setsid};

use super::launch::{AfterSetup, CommandSession, HelperReport, SandboxOrder, SystemString};
use super::rules::Rules;
use super::{lockdown, namespaces, seccomp, sys};
use crate::error::{SetupFailure, SetupStep, StepResult as _};
use crate::isolation::Isolation;

/// The `argv[0]` by which a process recognizes that it is a helper.
pub(super) const HELPER_ARGV0: &str = "callboard-sandbox: starts a command";

/// Exit code of a helper whose set-up failed. The caller reads the reason from the report.
pub(super) const SETUP_FAILED: i32 = 126;

/// Whether [`init_sandbox_helper`] was called in this process. A helper runs the same program, so
/// it then calls the function too.
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

pub(super) fn is_available() -> bool {
    IS_INITIALIZED.load(Ordering::Relaxed)
}

/// Becomes the helper of a sandbox if this process was started as one, and returns otherwise.
///
/// Call this function first in `main`, before any thread is started: a sandbox is set up by another
/// process of the same program, so that no second program must be installed.
pub fn init_sandbox_helper() {
    let mut args = args_os();
    if args.next().is_some_and(|name| name == HELPER_ARGV0) {
        run(args);
    }
    IS_INITIALIZED.store(true, Ordering::Relaxed);
}

/// Sends reports to the process that started the helper.
pub(super) struct ReportWriter(File);

impl ReportWriter {
    pub(super) fn send(&self, report: &HelperReport) {
        if let Ok(mut line) = serde_json::to_vec(report) {
            line.push(b'\n');
            // An error means that nobody waits for the report any more.
            drop((&self.0).write_all(&line));
        }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The command that a sandbox runs.
pub(super) struct CommandLine {
    program: OsString,
    args: Vec<OsString>,
    environment: Vec<(SystemString, SystemString)>,
}

fn run(args: impl Iterator<Item = OsString>) -> ! {
    let code = match read_order(args) {
        Ok((order, command, report)) => match order.isolation {
            Isolation::Namespaces => namespaces::run(&order, &command, &report),
            Isolation::Landlock | Isolation::None => {
                run_without_namespaces(&order, &command, &report)
            }
        },
        Err(_) => SETUP_FAILED,
    };
    sys::exit_now(code)
}

fn read_order(
    mut args: impl Iterator<Item = OsString>,
) -> io::Result<(SandboxOrder, CommandLine, ReportWriter)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let numbers = args.next().ok_or_else(invalid)?.into_string().map_err(|_name| invalid())?;
    let (order, report) = numbers.split_once(',').ok_or_else(invalid)?;
    let open = |number: &str| -> io::Result<OwnedFd> {
        sys::inherited_descriptor(number.parse().map_err(|_error| invalid())?)
    };
    let (mut order, report) = (File::from(open(order)?), ReportWriter(File::from(open(report)?)));
    let mut json = Vec::new();
    order.read_to_end(&mut json)?;
    drop(order);
    // If our parent process left other descriptors open, the command must not inherit them.
    sys::close_descriptors(3, &[report.descriptor()]);
    let mut order: SandboxOrder = serde_json::from_slice(&json)?;
    let command = CommandLine {
        program: args.next().unwrap_or_default(),
        args: args.collect(),
        environment: std::mem::take(&mut order.environment),
    };
    Ok((order, command, report))
}

/// Returns whether the process that started this helper is still alive.
pub(super) fn has_parent(order: &SandboxOrder) -> bool {
    // In a process namespace of its own, the parent may be invisible.
    getppid().is_none_or(|parent| parent.as_raw_nonzero().get().unsigned_abs() == order.parent)
}

fn run_without_namespaces(
    order: &SandboxOrder,
    command: &CommandLine,
    report: &ReportWriter,
) -> i32 {
    if !has_parent(order) {
        return SETUP_FAILED;
    }
    let result = Rules::for_landlock_only(&order.policy).and_then(|rules| {
        restrict_self(order, &rules)?;
        match order.then {
            AfterSetup::Exec => {
                report.send(&HelperReport::Executing);
                Err(command.exec())
            }
            AfterSetup::Exit => Ok(()),
        }
    });
    report.send(&match result {
        Ok(()) => HelperReport::Started,
        Err(failure) => HelperReport::Failed(failure),
    });
    SETUP_FAILED
}

/// Restricts this process, which is about to become the command.
pub(super) fn restrict_self(order: &SandboxOrder, rules: &Rules) -> Result<(), SetupFailure> {
    if order.session == CommandSession::New {
        setsid().step(SetupStep::Exec)?;
        for stream in [stdin().as_fd(), stdout().as_fd(), stderr().as_fd()] {
            sys::take_terminal(stream);
        }
    }
    lockdown::limit_resources(&order.policy.limits, order.isolation).step(SetupStep::Limits)?;
    lockdown::drop_capabilities().step(SetupStep::Capabilities)?;
    rules.restrict_self()?;
    seccomp::Filters::compile(order.isolation).and_then(|filters| filters.install())
}

impl CommandLine {
    /// Replaces this process by the command; returns only if that fails.
    pub(super) fn exec(&self) -> SetupFailure {
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR2] {
            sys::reset_signal(signal);
        }
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let error = command.exec();
        SetupFailure::at(SetupStep::Exec, Path::new(&self.program), error)
    }
}
