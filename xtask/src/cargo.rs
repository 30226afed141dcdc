//! The steps that are cargo's own work.
//!
//! Dependencies are built once a profile: all steps name the same features and the same target
//! folder wherever cargo lets them.

use std::io::{self, Write as _};
use std::process::{Command, ExitStatus, Stdio};

use crate::process::{Outcome, Stop, run};
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
        "check -p acp-lifecycle",
        "check -p callboard-models",
        "check -p callboard-models --no-default-features --features mock-server",
        "check -p acp-cards",
    ] {
        run(&mut workspace.cargo(alone))?;
    }
    Ok(())
}

pub(crate) fn doc(workspace: &Workspace, _: &mut Ui<'_>, _: &[String]) -> Outcome {
    let mut command = workspace.cargo("doc --workspace --no-deps --all-features");
    run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs the doc tests, then the promises over many random lives and edits, then all tests, with
/// nextest where it is installed.
///
/// The doc tests come first because a crate without any closes with "0 passed", which a reader of
/// the last lines would take for the whole. A selection is asked for by someone in a hurry, so it
/// leaves them out.
pub(crate) fn test(workspace: &Workspace, _: &mut Ui<'_>, args: &[String]) -> Outcome {
    if args.is_empty() {
        run(&mut workspace.cargo("test --doc --workspace --all-features"))?;
        run(&mut promises(workspace, "laws", CI_LIVES))?;
        run(&mut edits(workspace, "laws", CI_EDITS))?;
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

/// Random lives in every `cargo xtask test`.
const CI_LIVES: u64 = 100_000;

/// Makes the command that holds `lives` random lives, and a tenth as many random endings of calls,
/// against the promises. Two tests share the lives, and so two cores.
pub(crate) fn promises(workspace: &Workspace, profile: &str, lives: u64) -> Command {
    let mut command = workspace.cargo("test -p acp-lifecycle --all-features --test promises");
    command.args(["--profile", profile, "--", "lives::", "endings::"]);
    command.env("PROPTEST_CASES", lives.div_ceil(2).to_string());
    command
}

/// Random edits of each of the two kinds in every `cargo xtask test`.
const CI_EDITS: u64 = 50_000;

/// Makes the command that holds `edits` exact ones and as many loose ones against their law.
pub(crate) fn edits(workspace: &Workspace, profile: &str, edits: u64) -> Command {
    let mut command = workspace.cargo("test -p acp-tools --all-features --test edits");
    command.args(["--profile", profile]);
    command.env("PROPTEST_CASES", edits.to_string());
    command
}

/// Makes the command that runs one test binary of the tools.
pub(crate) fn tools_test(workspace: &Workspace, test: &str, profile: &str) -> Command {
    let mut command = workspace.cargo("test -p acp-tools --all-features");
    command.args(["--test", test, "--profile", profile]);
    command
}

/// Runs `cargo test`, passes what it prints on to stderr, and returns the tests that failed.
pub(crate) fn failed_tests(command: &mut Command) -> Result<(ExitStatus, Vec<String>), Stop> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Stop::Failed(format!("cannot run cargo: {error}")))?;
    io::stderr().write_all(&output.stdout).ok();
    Ok((output.status, failed(&String::from_utf8_lossy(&output.stdout))))
}

fn failed(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter_map(|line| line.strip_prefix("test "));
    let failed = lines.filter_map(|line| line.strip_suffix(" ... FAILED"));
    failed.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::failed;

    #[test]
    fn failed_tests_are_read_from_what_is_printed() {
        let printed = "running 2 tests\ntest a::b ... ok\ntest c::d ... FAILED\n\nfailures:\n";
        assert_eq!(failed(printed), ["c::d"]);
    }
}
