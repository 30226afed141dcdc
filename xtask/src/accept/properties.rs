//! Properties that tests hold over random cases, many more of them than in a test run.

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

/// Runs the property tests of one test binary whose names hold `filter` with n cases each,
/// optimised.
fn hold(test: &str, filter: &str, n: u32) -> Result<f64, Stop> {
    let words =
        format!("test --profile laws --workspace --all-features --test {test} -- --quiet {filter}");
    let mut cargo = Workspace::load()?.cargo(&words);
    // Standard output is for our line.
    let told = process::capture(cargo.env("PROPTEST_CASES", n.to_string()))?;
    if told.contains(" 0 passed") {
        return Err(Stop::Failed(format!("{test} has no tests")));
    }
    Ok(0.0)
}
