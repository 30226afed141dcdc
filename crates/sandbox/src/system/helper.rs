//! The helper: another process of this program that sets up a sandbox and starts the command in it.

use std::env::args_os;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::command::{
    CommandLine, SETUP_FAILED, SharedNetwork, has_original_parent, restrict_self,
};
use super::order::{
    AfterSetup, HELPER_ARGV0, HelperReport, ReportWriter, SandboxOrder, set_can_start_helper,
};
use super::rules::LandlockRules;
use super::{namespaces, sys};
use crate::isolation::Isolation;

/// Becomes the helper of a sandbox if this process was started as one, and returns otherwise.
///
/// Call this function first in `main`, before any thread is started. A helper is another process of
/// the same program, so no second program must be installed.
pub fn run_if_sandbox_helper() {
    let mut args = args_os();
    if args.next().is_some_and(|name| name == HELPER_ARGV0) {
        run(args);
    }
    set_can_start_helper();
}

fn run(args: impl Iterator<Item = OsString>) -> ! {
    match read_order(args) {
        Ok((order, command, report)) => run_order(&order, &command, &report),
        Err(_) => sys::exit_now(SETUP_FAILED),
    }
}

/// Carries out an order. This process must have no other thread.
pub(super) fn run_order(order: &SandboxOrder, command: &CommandLine, report: &ReportWriter) -> ! {
    // The command must not inherit other descriptors.
    let mut kept = vec![report.descriptor()];
    let network = command.network.iter();
    kept.extend(network.flat_map(|shared| [shared.user.as_fd(), shared.network.as_fd()]));
    sys::close_descriptors(3, &kept);
    sys::exit_now(match order.isolation {
        Isolation::Namespaces if order.then == AfterSetup::HoldNetwork => {
            namespaces::create_and_hold_network(report)
        }
        Isolation::Namespaces => namespaces::run(order, command, report),
        Isolation::Landlock | Isolation::None => run_without_namespaces(order, command, report),
    })
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
    let (mut order, report) =
        (File::from(open(order)?), ReportWriter::new(File::from(open(report)?)));
    let mut json = Vec::new();
    order.read_to_end(&mut json)?;
    drop(order);
    let mut order: SandboxOrder = serde_json::from_slice(&json)?;
    let network = order.network.map(|numbers| {
        Ok::<_, io::Error>(SharedNetwork {
            user: sys::inherited_descriptor(numbers.user)?,
            network: sys::inherited_descriptor(numbers.network)?,
        })
    });
    let network = network.transpose()?;
    let command = CommandLine {
        program: args.next().unwrap_or_default(),
        args: args.collect(),
        environment: std::mem::take(&mut order.environment),
        network,
    };
    Ok((order, command, report))
}

fn run_without_namespaces(
    order: &SandboxOrder,
    command: &CommandLine,
    report: &ReportWriter,
) -> i32 {
    // `exec` keeps this setting, so the kernel also kills the command when the caller is gone.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() || !has_original_parent(order) {
        return SETUP_FAILED;
    }
    let result = LandlockRules::for_landlock_only(&order.policy).and_then(|rules| {
        restrict_self(order, Some(rules))?;
        match order.then {
            AfterSetup::Exec => {
                report.send(&HelperReport::Executing);
                Err(command.exec())
            }
            AfterSetup::Exit | AfterSetup::HoldNetwork => Ok(()),
        }
    });
    report.send(&match result {
        Ok(()) => HelperReport::Started,
        Err(failure) => HelperReport::Failed(failure),
    });
    SETUP_FAILED
}
