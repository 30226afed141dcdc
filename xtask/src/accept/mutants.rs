//! Mutation tests of the code that keeps the promises. [cargo-mutants](https://mutants.rs) changes
//! one place at a time, and at least one test should then fail. `.cargo/mutants.toml` lists the
//! files.
//!
//! A crate's unit tests are the fastest tests, and detect most mutants. The other tests of the
//! crate run only for mutants that survive the unit tests, and for files without unit tests.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::run::RowRun;
use super::sabotage;
use crate::process::{self, TaskError};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Arguments that select the unit tests, without the tests of code that uses no mutated file. The
/// arguments are passed to every cargo command, because cargo mutants builds the tests before it
/// runs them.
const UNIT_TESTS: &[&str] = &[
    "--cargo-arg=--lib",
    "--cargo-test-arg=--",
    "--cargo-test-arg=--skip=partial_arguments::",
    "--cargo-test-arg=--skip=sanitize::",
    "--cargo-test-arg=--skip=title::",
    "--cargo-test-arg=--skip=wire::",
];
/// Arguments that select the relevant tests of the folders `tests`: `golden`, `laws`, `promises`
/// and `rules`. Each tested crate must have at least one test that matches the pattern.
const OTHER_TESTS: &[&str] = &["--cargo-arg=--test=[glpr]*"];

/// Regular expression of files without unit tests.
const WITHOUT_UNIT_TESTS: &str = "^crates/lifecycle/src/(session|permission/options)";

/// Number of random cases of each property test.
const CASES: &str = "256";

/// The outcome of each mutant. The keys are the names of the mutants.
type MutantOutcomes = BTreeMap<String, MutantOutcome>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MutantOutcome {
    Caught,
    Survived,
    /// The mutant does not build, so it shows nothing about the tests.
    Unviable,
}

/// Tests every N-th mutant (`--n N`), and returns the percentage of mutants that survived.
pub(super) fn surviving_mutants_percent(
    run: &mut RowRun<'_>,
    ui: &Ui<'_>,
) -> Result<f64, TaskError> {
    let workspace = run.workspace;
    let mut probe = workspace.cargo_command("mutants --version");
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    if process::run_expecting_success(&mut probe).is_err() {
        let how = "cargo-mutants is not installed: cargo install --locked cargo-mutants";
        return Err(TaskError::Failed(how.to_owned()));
    }
    let every_nth = ["--sharding=round-robin".to_owned(), format!("--shard=0/{}", run.n)];
    let nth = |files: &str| [&every_nth[..], &[format!("{files}={WITHOUT_UNIT_TESTS}")]].concat();
    let mut outcomes = test_chosen_mutants(workspace, UNIT_TESTS, &nth("--exclude-re"))?;
    let chosen =
        names_of_survivors(&outcomes).map(|name| format!("--re=^{}$", escape_for_regex(name)));
    let chosen: Vec<_> = chosen.collect();
    if !chosen.is_empty() {
        // This run may also test a few mutants that did not survive the first run, because cargo
        // mutants 27 cannot select only the deletion of one field.
        let others = test_chosen_mutants(workspace, OTHER_TESTS, &chosen)?;
        for (name, kind) in
            outcomes.iter_mut().filter(|(_, kind)| **kind == MutantOutcome::Survived)
        {
            *kind = others.get(name).copied().unwrap_or(*kind);
        }
    }
    outcomes.extend(test_chosen_mutants(workspace, OTHER_TESTS, &nth("--re"))?);
    let count = |kind| outcomes.values().filter(|other| **other == kind).count();
    let (caught, survived) = (count(MutantOutcome::Caught), count(MutantOutcome::Survived));
    for name in names_of_survivors(&outcomes) {
        ui.print_remark_to_stderr(format_args!("survived: {name}"));
    }
    run.n = (caught + survived) as u32;
    for (name, count) in
        [("caught", caught), ("survived", survived), ("unviable", count(MutantOutcome::Unviable))]
    {
        run.extra_figures.insert(name.to_owned(), count.into());
    }
    if run.n == 0 {
        return Err(TaskError::Failed("no mutant was tested".to_owned()));
    }
    Ok(100.0 * survived as f64 / run.n as f64)
}

fn names_of_survivors(outcomes: &MutantOutcomes) -> impl Iterator<Item = &str> {
    let survived = outcomes.iter().filter(|(_, kind)| **kind == MutantOutcome::Survived);
    survived.map(|(name, _)| name.as_str())
}

/// Tests the mutants that the arguments `chosen` select, with the tests that `tests` selects.
fn test_chosen_mutants(
    workspace: &Workspace,
    tests: &[&str],
    chosen: &[String],
) -> Result<MutantOutcomes, TaskError> {
    let folder = workspace.target.join("mutated");
    let tree = folder.join("tree");
    sabotage::mirror_git_listed_files(&workspace.root, &tree)?;
    // Deletes the results of an earlier run, so that they are not read as results of this run.
    fs::remove_dir_all(folder.join("mutants.out")).ok();
    let mut command = workspace.cargo_command("mutants --workspace --in-place --colors=never");
    command.arg("--output").arg(&folder).args(tests).args(chosen).current_dir(tree);
    // The builds of the mutants use a separate cargo profile, so that they do not replace other
    // builds in the target folder.
    command.env("CARGO_TARGET_DIR", &workspace.target);
    command.env("RUST_BACKTRACE", "0").env("PROPTEST_CASES", CASES);
    // proptest must not save the random case in which a test failed because of a mutant.
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true").stdout(std::io::stderr());
    let status = command.status();
    let status =
        status.map_err(|error| TaskError::Failed(format!("cannot run cargo mutants: {error}")))?;
    // Surviving mutants and timeouts are not errors here. The row's target limits the percentage of
    // surviving mutants.
    if !matches!(status.code(), Some(0 | EXIT_CODE_SURVIVED | EXIT_CODE_TIMEOUT)) {
        return Err(TaskError::Failed(format!("cargo mutants ended with {status}")));
    }
    let path = folder.join("mutants.out/outcomes.json");
    let failed =
        |error: &dyn fmt::Display| TaskError::Failed(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let outcomes = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    Ok(parse_outcomes(&outcomes))
}

/// Exit codes of cargo mutants if mutants survived, or if a test did not end in time.
const EXIT_CODE_SURVIVED: i32 = 2;
const EXIT_CODE_TIMEOUT: i32 = 3;

fn parse_outcomes(outcomes: &Value) -> MutantOutcomes {
    let outcomes = outcomes["outcomes"].as_array().into_iter().flatten();
    let named = outcomes.filter_map(|outcome| {
        let name = outcome["scenario"]["Mutant"]["name"].as_str()?;
        let kind = match outcome["summary"].as_str()? {
            "CaughtMutant" | "Timeout" => MutantOutcome::Caught,
            "MissedMutant" => MutantOutcome::Survived,
            _ => MutantOutcome::Unviable,
        };
        Some((name.to_owned(), kind))
    });
    named.collect()
}

/// Escapes a name, so that the result is a regular expression that matches only this name.
fn escape_for_regex(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_ascii_punctuation() && !"<>_".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_outcome_of_each_mutant_is_parsed() {
        let mutant =
            |name, summary| json!({"scenario": {"Mutant": {"name": name}}, "summary": summary});
        let outcomes = json!({"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            mutant("a", "CaughtMutant"),
            mutant("b", "MissedMutant"),
            mutant("c", "Unviable"),
            mutant("d", "Timeout"),
        ]});
        let kinds = [
            MutantOutcome::Caught,
            MutantOutcome::Survived,
            MutantOutcome::Unviable,
            MutantOutcome::Caught,
        ];
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(parse_outcomes(&outcomes), names.into_iter().zip(kinds).collect());
    }

    #[test]
    fn a_name_is_escaped() {
        let name = "a_b.rs:1:2: replace f -> Vec<T> with vec![]";
        assert_eq!(escape_for_regex(name), r"a_b\.rs\:1\:2\: replace f \-> Vec<T> with vec\!\[\]");
    }
}
