//! The steps that are cargo's own work.
//!
//! Dependencies are built once a profile: all steps name the same features and the same target
//! folder wherever cargo lets them.

use std::io;
use std::process::Stdio;

use crate::process::{Outcome, run};
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(crate) fn fmt(workspace: &Workspace, _: &mut Ui<'_>, _: &[String]) -> Outcome {
    run(&mut workspace.cargo("fmt --all --check"))
}

/// Lints everything with all features, then checks that the libraries stand alone: in the
/// workspace build, features and dependencies of their neighbours hide what they lack.
pub(crate) fn clippy(workspace: &Workspace, _: &mut Ui<'_>, _: &[String]) -> Outcome {
    run(&mut workspace.cargo("clippy --workspace --all-targets --all-features -- -D warnings"))?;
    for alone in [
        "check -p acp-types --no-default-features",
        "check -p acp-types --features v2",
        "check -p acp-lifecycle --no-default-features",
    ] {
        run(&mut workspace.cargo(alone))?;
    }
    Ok(())
}

pub(crate) fn doc(workspace: &Workspace, _: &mut Ui<'_>, _: &[String]) -> Outcome {
    let mut command = workspace.cargo("doc --workspace --no-deps --all-features");
    run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs the doc tests, then all others, with nextest where it is installed.
///
/// The doc tests come first because a crate without any closes with "0 passed", which a reader of
/// the last lines would take for the whole. A selection is asked for by someone in a hurry, so it
/// leaves them out.
pub(crate) fn test(workspace: &Workspace, _: &mut Ui<'_>, args: &[String]) -> Outcome {
    if args.is_empty() {
        run(&mut workspace.cargo("test --doc --workspace --all-features"))?;
    }
    let mut probe = workspace.cargo("nextest --version");
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    if run(&mut probe).is_ok() {
        let mut command = workspace.cargo("nextest run --workspace --all-features");
        // It reports on stderr, but the result of a test run belongs on stdout.
        run(command.args(args).stderr(io::stdout()))
    } else {
        // `--tests` is every target but the doc tests.
        run(workspace.cargo("test --workspace --all-features --tests").args(args))
    }
}
