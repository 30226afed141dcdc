//! Properties that tests hold over random cases, many more of them than in a test run.

use super::Built;
use crate::process::{self, Stop};
use crate::workspace::Workspace;

/// Secrets that leaked, of n random lives of a session with secrets in them; the test stops at
/// the first one, so it is none or nothing is measured.
pub(super) fn sanitize(_: &Built, n: u32) -> Result<f64, Stop> {
    hold("acp-lifecycle", "sanitize", n)
}

/// Runs the property tests of one test binary with n cases each, optimised.
fn hold(package: &str, test: &str, n: u32) -> Result<f64, Stop> {
    let words = format!("test --release -p {package} --all-features --test {test} -- --quiet");
    let mut cargo = Workspace::load()?.cargo(&words);
    // Standard output is for our line.
    let told = process::capture(cargo.env("PROPTEST_CASES", n.to_string()))?;
    if told.contains(" 0 passed") {
        return Err(Stop::Failed(format!("{test} has no tests")));
    }
    Ok(0.0)
}
