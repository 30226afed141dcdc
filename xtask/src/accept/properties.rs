//! Properties that tests hold over random cases, many more of them than in a test run.

use std::process::Command;

use super::Built;
use crate::process::{self, Stop};
use crate::workspace::Workspace;

/// Secrets that leaked, of n random lives of a session with secrets in them; the test stops at
/// the first one, so it is none or nothing is measured.
pub(super) fn sanitize(_: &Built, n: u32) -> Result<f64, Stop> {
    hold("sanitize", "", n)
}

/// Names that a tool does not take back of n file names of any bytes.
pub(super) fn file_names(_: &Built, n: u32) -> Result<f64, Stop> {
    hold("it", "file_names::", n)
}

/// Requests that are not answered once of n random ones, many at once, among closes and
/// disconnects.
pub(super) fn answered(_: &Built, n: u32) -> Result<f64, Stop> {
    hold("it", "requests::every_request", n.div_ceil(REQUESTS_IN_A_CASE))
}

/// How many requests a case of the test has on average, rounded down.
const REQUESTS_IN_A_CASE: u32 = 25;

/// Bytes of files that may not be read which reach result, wire or log in n random sets of edits,
/// and in every tool's failures; the test stops at the first.
pub(super) fn canary(_: &Built, n: u32) -> Result<f64, Stop> {
    hold("it", "canary::", n)
}

/// Names of one list that are silent or asked about beyond the limits that the test sets. The list is
/// the same for every n.
pub(super) fn names(_: &Built, n: u32) -> Result<f64, Stop> {
    hold("rules", "names::", n)
}

/// Command lines that do more than their program's row says, of n random ones for each program. The
/// test prints each of them, and fails if there is one.
pub(super) fn understood(built: &Built, n: u32) -> Result<f64, Stop> {
    let mut cargo = tests("understood", "--ignored --nocapture understood_lines")?;
    cargo.env("UNDERSTOOD_SEED", built.seed.take().next().to_string());
    all_hold("understood", cargo.env("UNDERSTOOD_CASES", n.to_string()))
}

/// Runs the property tests of one test binary whose names hold `filter`, with n cases each.
fn hold(test: &str, filter: &str, n: u32) -> Result<f64, Stop> {
    all_hold(test, tests(test, filter)?.env("PROPTEST_CASES", n.to_string()))
}

/// A command that runs tests of one test binary, optimised.
fn tests(test: &str, words: &str) -> Result<Command, Stop> {
    Ok(Workspace::load()?.cargo(&format!(
        "test --profile laws --workspace --all-features --test {test} -- --quiet {words}"
    )))
}

/// Runs tests, of which there must be some.
fn all_hold(test: &str, cargo: &mut Command) -> Result<f64, Stop> {
    // Standard output is for our line.
    let told = process::capture(cargo)?;
    if told.contains(" 0 passed") {
        return Err(Stop::Failed(format!("{test} has no tests")));
    }
    Ok(0.0)
}
