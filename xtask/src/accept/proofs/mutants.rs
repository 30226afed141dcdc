//! Mutants of the code that keeps the promises: [cargo-mutants](https://mutants.rs) changes one
//! place at a time, and a test should notice. `.cargo/mutants.toml` says where.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use super::Run;
use crate::process::{self, Stop};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Returns the percentage that survived. With `--n N`, it tries every N-th mutant only.
pub(super) fn prove(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let mut probe = workspace.cargo("mutants --version");
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    if process::run(&mut probe).is_err() {
        let how = "cargo-mutants is not installed: cargo install --locked cargo-mutants";
        return Err(Stop::Failed(how.to_owned()));
    }
    let folder = workspace.target.join("mutants");
    let mut command = workspace.cargo("mutants --workspace --colors=never --sharding round-robin");
    command.arg("--output").arg(&folder).arg("--shard").arg(format!("0/{}", run.n));
    command.env("RUST_BACKTRACE", "0").stdout(std::io::stderr());
    // Its exit code says that some survived; how many is for the target to judge.
    let status = command.status();
    status.map_err(|error| Stop::Failed(format!("cannot run cargo mutants: {error}")))?;
    let path = folder.join("mutants.out/outcomes.json");
    let text = fs::read_to_string(&path)
        .map_err(|error| Stop::Failed(format!("{}: {error}", path.display())))?;
    let outcomes: Value = serde_json::from_str(&text)
        .map_err(|error| Stop::Failed(format!("{}: {error}", path.display())))?;
    let (counts, survivors) = read(&outcomes);
    for survivor in &survivors {
        ui.note(format_args!("survived: {survivor}"));
    }
    let count = |kind: &str| counts.get(kind).copied().unwrap_or(0);
    let caught = count("CaughtMutant") + count("Timeout");
    let tried = caught + survivors.len();
    run.n = tried as u64;
    run.more = json!({ "caught": caught, "survived": survivors.len() });
    if tried == 0 {
        return Err(Stop::Failed("no mutant was tried".to_owned()));
    }
    Ok(100.0 * survivors.len() as f64 / tried as f64)
}

/// Counts the outcomes by kind, and names the mutants that survived.
fn read(outcomes: &Value) -> (BTreeMap<&str, usize>, Vec<&str>) {
    let mut counts = BTreeMap::new();
    let mut survivors = Vec::new();
    for outcome in outcomes["outcomes"].as_array().into_iter().flatten() {
        let kind = outcome["summary"].as_str().unwrap_or_default();
        *counts.entry(kind).or_default() += 1;
        if kind == "MissedMutant" {
            survivors.extend(outcome["scenario"]["Mutant"]["name"].as_str());
        }
    }
    (counts, survivors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_and_survivors_named() {
        let mutant =
            |name, summary| json!({"scenario": {"Mutant": {"name": name}}, "summary": summary});
        let outcomes = json!({"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            mutant("a", "CaughtMutant"),
            mutant("b", "MissedMutant"),
            mutant("c", "Unviable"),
            mutant("d", "CaughtMutant"),
        ]});
        let (counts, survivors) = read(&outcomes);
        assert_eq!((counts["CaughtMutant"], survivors), (2, vec!["b"]));
    }
}
