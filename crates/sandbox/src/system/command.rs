//! The last steps of a process that becomes the command.

use std::ffi::OsString;
use std::io::{stderr, stdin, stdout};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, getppid, setsid};

use super::StepResult as _;
use super::order::{SandboxOrder, SystemString};
use super::rules::LandlockRules;
use super::{lockdown, seccomp, sys};
use crate::command::ProcessSession;
use crate::error::{SetupFailure, SetupStep};

/// Exit code of a helper whose set-up failed. The caller reads the reason from the report.
pub(super) const SETUP_FAILED: i32 = 126;

/// The command that a sandbox runs.
pub(super) struct CommandLine {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) environment: Vec<(SystemString, SystemString)>,
    /// The network that the command shares with others.
    pub(super) network: Option<SharedNetwork>,
}

/// A network namespace, and the user namespace that owns it.
pub(super) struct SharedNetwork {
    pub(super) user: OwnedFd,
    pub(super) network: OwnedFd,
}

/// Restricts this process, which is about to become the command or to end.
pub(super) fn restrict_self(
    order: &SandboxOrder,
    rules: Option<LandlockRules>,
) -> Result<(), SetupFailure> {
    if order.session == ProcessSession::New {
        setsid().step(SetupStep::Exec)?;
        for stream in [stdin().as_fd(), stdout().as_fd(), stderr().as_fd()] {
            sys::take_terminal(stream);
        }
    }
    lockdown::limit_resources(&order.policy.limits, order.isolation).step(SetupStep::Limits)?;
    lockdown::drop_capabilities().step(SetupStep::Capabilities)?;
    rules.map_or(Ok(()), LandlockRules::restrict_self)?;
    seccomp::Filters::compile(order.isolation, order.policy.network)
        .and_then(|filters| filters.install())
}

impl CommandLine {
    /// Replaces this process by the command; returns only if that fails.
    pub(super) fn exec(&self) -> SetupFailure {
        let changed =
            [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR2, Signal::CHILD];
        changed.into_iter().for_each(sys::reset_signal);
        // If a signal arrived during the set-up, it ends this process here.
        sys::unblock_signals(&changed);
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let error = command.exec();
        SetupFailure::at(SetupStep::Exec, Path::new(&self.program), error)
    }
}

/// Returns whether the process that started this helper is still alive.
pub(super) fn has_original_parent(order: &SandboxOrder) -> bool {
    // A parent outside of this process namespace is invisible.
    getppid().is_none_or(|parent| parent.as_raw_nonzero().get().unsigned_abs() == order.parent)
}
