//! The steps that run cargo directly.
//!
//! Dependencies are built once per cargo profile. Where cargo allows it, all steps use the same
//! features and the same target folder.

use std::io;
use std::num::NonZero;
use std::process::Stdio;
use std::thread;

use crate::process::{TaskError, TaskResult, run_and_copy_output, run_expecting_success};
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(crate) fn check_format(workspace: &Workspace, _: &mut Ui<'_>, _: &[String]) -> TaskResult {
    run_expecting_success(&mut workspace.cargo_command("fmt --all --check"))
}

/// Lints all targets with all features. Some libraries are also checked alone, with fewer features
/// than the default. A build of the workspace cannot show that a library needs a missing feature,
/// because other members enable this feature. The step `package` checks the libraries with their
/// default features, some of them in groups.
pub(crate) fn lint_and_check_features(
    workspace: &Workspace,
    _: &mut Ui<'_>,
    _: &[String],
) -> TaskResult {
    run_expecting_success(
        &mut workspace
            .cargo_command("clippy --workspace --all-targets --all-features -- -D warnings"),
    )?;
    for alone in [
        "check -p acp-types --no-default-features",
        "check -p acp-types --features v2",
        "check -p acp-lifecycle --no-default-features",
        "check -p callboard-models --no-default-features --features mock-server",
        "check -p acp-store --no-default-features",
        "check -p acp-store --no-default-features --features conformance",
    ] {
        run_expecting_success(&mut workspace.cargo_command(alone))?;
    }
    Ok(())
}

/// Number of tests that run at the same time, per core. The number is greater than 1 because tests
/// mostly wait for processes and timers.
const TESTS_PER_CORE: usize = 2;

/// Runs the doc tests and then all other tests. Uses nextest for the latter if it is installed. If
/// the user selects tests, runs only those, so that the result arrives soon.
pub(crate) fn run_tests(workspace: &Workspace, _: &mut Ui<'_>, args: &[String]) -> TaskResult {
    if args.is_empty() {
        build_tests_and_run_doc_tests(workspace)?;
    }
    let mut probe = workspace.cargo_command("nextest --version");
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    if run_expecting_success(&mut probe).is_ok() {
        let mut command = workspace.cargo_command("nextest run --workspace --all-features");
        if args.is_empty() {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            command.arg(format!("--test-threads={}", cores * TESTS_PER_CORE));
        }
        // nextest writes its report to stderr, but the result of a test run belongs on stdout.
        run_expecting_success(command.args(args).stderr(io::stdout()))
    } else {
        // `--tests` selects every target except the doc tests.
        run_expecting_success(
            workspace.cargo_command("test --workspace --all-features --tests").args(args),
        )
    }
}

/// Builds the other tests while the doc tests run, because the doc tests of one crate after the
/// other do not use all cores.
///
/// The doc tests do not run last: a crate without doc tests prints "0 passed", which looks like the
/// result of the whole run.
fn build_tests_and_run_doc_tests(workspace: &Workspace) -> TaskResult {
    let mut doc_tests = workspace.cargo_command("test --doc --workspace --all-features");
    let mut build = workspace.cargo_command("test --no-run --workspace --all-features");
    thread::scope(|scope| {
        let doc_tests = scope.spawn(|| run_and_copy_output(&mut doc_tests));
        let built = run_expecting_success(&mut build);
        match doc_tests.join() {
            Ok(Ok((status, _))) if status.success() => built,
            Ok(Err(error)) => Err(error),
            _ => Err(TaskError::Failed("a doc test failed".to_owned())),
        }
    })
}

/// Returns the names of the failed tests in the output of `cargo test`.
pub(crate) fn parse_failed_tests(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter_map(|line| line.strip_prefix("test "));
    let failed = lines.filter_map(|line| line.strip_suffix(" ... FAILED"));
    failed.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::parse_failed_tests;

    #[test]
    fn failed_tests_are_parsed_from_the_output() {
        let printed = "running 2 tests\ntest a::b ... ok\ntest c::d ... FAILED\n\nfailures:\n";
        assert_eq!(parse_failed_tests(printed), ["c::d"]);
    }
}
