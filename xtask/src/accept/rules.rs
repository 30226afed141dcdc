//! The laws of permission rules, over as many random rule sets as are asked for.

use super::Built;
use crate::process::Stop;
use crate::workspace::Workspace;

/// How many of the laws are broken by n random rule sets: their order, and a denial more.
///
/// The property test itself runs, optimised; it stops at the first set that breaks a law.
pub(super) fn rules(_: &Built, n: u32) -> Result<f64, Stop> {
    let workspace = Workspace::load()?;
    let mut test = workspace.cargo("test --release -p acp-lifecycle --test rules -- laws::");
    test.env("PROPTEST_CASES", n.to_string());
    let output = test.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| Stop::Failed(format!("cannot run cargo: {error}")))?;
    broken(&String::from_utf8_lossy(&output.stdout))
}

/// Reads what the test program says in the end.
fn broken(said: &str) -> Result<f64, Stop> {
    let result = said.lines().find_map(|line| line.strip_prefix("test result: "));
    match result {
        Some(result) if result.starts_with("ok. 1 passed") => Ok(0.0),
        Some(result) if result.contains(" 1 failed") => Ok(1.0),
        _ => Err(Stop::Failed("the laws were not tested".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::broken;

    #[test]
    fn a_law_is_broken_or_not_or_was_not_tested() {
        let said = |result: &str| format!("running 1 test\n\ntest result: {result}; 0 ignored\n");
        assert_eq!(broken(&said("ok. 1 passed; 0 failed")).ok(), Some(0.0));
        assert_eq!(broken(&said("FAILED. 0 passed; 1 failed")).ok(), Some(1.0));
        for not_tested in [said("ok. 0 passed; 0 failed"), String::new()] {
            broken(&not_tested).unwrap_err();
        }
    }
}
