//! The steps that run cargo directly.
//!
//! Dependencies are built once per profile: all steps use the same features and the same target
//! folder where cargo allows it.

use std::io;
use std::num::NonZero;
use std::process::Stdio;

use crate::process::{TaskResult, run_expecting_success};
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(crate) fn check_format(workspace: &Workspace, _: &mut Ui<'_>, _: &[String]) -> TaskResult {
    run_expecting_success(&mut workspace.cargo_command("fmt --all --check"))
}

/// Lints all targets with all features, then checks the libraries with fewer features than the
/// default. The second check is needed because other members enable missing features in a build of
/// the workspace. The step `package` checks each library with its default features.
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

/// Property tests that run with many more random cases than the other tests.
///
/// Each test is in one crate, but the arguments select the whole workspace with all features, so
/// that the build of the test run is reused. `cargo xtask accept` runs millions of cases in the
/// profile `laws`.
const LAWS: [&str; 2] = ["--test promises -- lives:: endings::", "--test tools -- edits::"];
/// Number of random cases of each property test. Without optimization, all cases need about 40 s of
/// CPU time.
const CASES: &str = "2000";

/// Number of tests per core that run at the same time. The number is above 1 because tests mostly
/// wait for processes and timers.
const TESTS_PER_CORE: usize = 2;

/// Runs the doc tests, then the property tests over many random sessions and edits, then all tests,
/// with nextest if it is installed.
///
/// The doc tests run first, because a crate without doc tests prints "0 passed" at its end, which
/// looks like the result of the whole run. If the user selects tests, the doc tests are skipped,
/// because a selection should be quick.
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
        // nextest reports on stderr, but the result of a test run belongs on stdout.
        run_expecting_success(command.args(args).stderr(io::stdout()))
    } else {
        // `--tests` selects every target except the doc tests.
        run_expecting_success(
            workspace.cargo_command("test --workspace --all-features --tests").args(args),
        )
    }
}

/// Returns the failed tests from the output of `cargo test`.
pub(crate) fn parse_failed_tests(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter_map(|line| line.strip_prefix("test "));
    let failed = lines.filter_map(|line| line.strip_suffix(" ... FAILED"));
    failed.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::parse_failed_tests;

    #[test]
    fn failed_tests_are_read_from_what_is_printed() {
        let printed = "running 2 tests\ntest a::b ... ok\ntest c::d ... FAILED\n\nfailures:\n";
        assert_eq!(parse_failed_tests(printed), ["c::d"]);
    }
}
