//! The steps that run cargo directly.
//!
//! Dependencies are built once per cargo profile. Where cargo allows it, all steps use the same
//! features and the same target folder.

use std::io;
use std::num::NonZero;
use std::process::Stdio;

use crate::process::{TaskResult, run_expecting_success};
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(crate) fn check_format(workspace: &Workspace, _: &mut Ui<'_>, _: &[String]) -> TaskResult {
    run_expecting_success(&mut workspace.cargo_command("fmt --all --check"))
}

/// Lints all targets with all features. Some libraries are also checked alone, with fewer features
/// than the default. A build of the workspace cannot show that a library needs a missing feature,
/// because other members enable this feature. The step `package` checks each library with its
/// default features.
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

pub(crate) fn build_docs(workspace: &Workspace, _: &mut Ui<'_>, _: &[String]) -> TaskResult {
    let mut command = workspace.cargo_command("doc --workspace --no-deps --all-features");
    run_expecting_success(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Property tests that the step `test` runs with many more random cases than the other tests.
///
/// Each of these tests is in one crate, but the command selects the whole workspace with all
/// features, so that cargo builds nothing twice. `cargo xtask accept` runs millions of cases in the
/// cargo profile `laws`.
const LAWS: [&str; 2] = ["--test promises -- lives:: endings::", "--test tools -- edits::"];
/// Number of random cases of each property test in [`LAWS`]. Without optimization, all cases
/// together need about 40 s of CPU time.
const CASES: &str = "2000";

/// Number of tests that run at the same time, per core. The number is greater than 1 because tests
/// mostly wait for processes and timers.
const TESTS_PER_CORE: usize = 2;

/// Runs the doc tests, then the property tests in [`LAWS`] with many cases, and then all tests.
/// Uses nextest for the last run if it is installed.
///
/// The doc tests do not run last: a crate without doc tests prints "0 passed", which looks like the
/// result of the whole run. If the user selects tests, only the selected tests run, so that the
/// result arrives soon.
pub(crate) fn run_tests(workspace: &Workspace, _: &mut Ui<'_>, args: &[String]) -> TaskResult {
    if args.is_empty() {
        run_expecting_success(
            &mut workspace.cargo_command("test --doc --workspace --all-features"),
        )?;
        for tests in LAWS {
            let mut command = workspace.cargo_command("test --workspace --all-features");
            run_expecting_success(
                command.args(tests.split_whitespace()).env("PROPTEST_CASES", CASES),
            )?;
        }
    }
    let mut probe = workspace.cargo_command("nextest --version");
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    if run_expecting_success(&mut probe).is_ok() {
        let mut command = workspace.cargo_command("nextest run --workspace --all-features");
        if args.is_empty() {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
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
