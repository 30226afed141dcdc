//! The checks that run tests instead of the release build: the promises at scale, their
//! sabotage, and mutants of the code that keeps them.

mod big_tree;
mod commands;
mod edits;
mod escape;
mod files;
mod hostile;
mod lifecycle;
mod mutants;
mod output;
mod ripgrep;
mod sabotage;
mod search;

use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::cargo;
use crate::figure::Figure;
use crate::process::{Outcome, Stop};
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(crate) use sabotage::stale;

/// One proof: a value that must be within its target.
pub(super) struct Proof {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// How much of it, unless `--n` says otherwise.
    n: u64,
    target: f64,
    prove: fn(&Workspace, &mut Ui<'_>, &mut Run) -> Result<f64, Stop>,
}

/// How a proof is to run, and what it tells beside its value.
struct Run {
    n: u64,
    /// The seed, for the proof that uses one to take.
    seed: u64,
    is_seeded: bool,
    more: Value,
}

/// The proofs, a list for each topic.
const TOPICS: [&[Proof]; 4] = [lifecycle::PROOFS, files::PROOFS, search::PROOFS, commands::PROOFS];

/// Returns every proof.
pub(super) fn all() -> impl Iterator<Item = &'static Proof> {
    TOPICS.into_iter().flatten()
}

/// Runs the proof that is named, if one is: `NAME [--n N] [--seed S]`.
pub(super) fn run(workspace: &Workspace, ui: &mut Ui<'_>, args: &[String]) -> Option<Outcome> {
    let (name, options) = args.split_first()?;
    let proof = all().find(|proof| proof.name == name)?;
    let run = parse(proof, options);
    Some(run.and_then(|run| proof.run(workspace, ui, run)))
}

/// Runs every proof as it is.
pub(super) fn run_all(workspace: &Workspace, ui: &mut Ui<'_>) -> Outcome {
    let outcomes = all().map(|proof| {
        let run = parse(proof, &[]);
        run.and_then(|run| proof.run(workspace, ui, run))
    });
    // All of them, though one fails.
    outcomes.collect::<Vec<_>>().into_iter().collect()
}

impl Proof {
    fn run(&self, workspace: &Workspace, ui: &mut Ui<'_>, mut run: Run) -> Outcome {
        let id = self.name;
        ui.note(format_args!("{id}: {}", self.what));
        let start = Instant::now();
        let proved = (self.prove)(workspace, ui, &mut run);
        let secs = start.elapsed().as_secs_f64();
        if let Some(why) = proved.as_ref().err().and_then(Stop::why) {
            ui.note(format_args!("{id}: {why}"));
        }
        let Run { n, seed, is_seeded, more } = run;
        let seed = is_seeded.then_some(seed);
        Figure { id, value: proved.ok(), target: Some(self.target), n, seed, secs, more }.tell(ui)
    }
}

/// Runs tests and tells how many of them failed.
fn broken(command: &mut Command, run: &mut Run) -> Result<f64, Stop> {
    let (status, broken) = cargo::failed_tests(command)?;
    match (status.success(), broken.len()) {
        (true, 0) => Ok(0.0),
        (false, 0) => Err(Stop::Failed(format!("the tests ended with {status}"))),
        (_, count) => {
            run.more = json!({ "broken": broken });
            Ok(count as f64)
        }
    }
}

fn parse(proof: &Proof, mut options: &[String]) -> Result<Run, Stop> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = now.subsec_nanos().into();
    let mut run = Run { n: proof.n, seed, is_seeded: false, more: json!({}) };
    while let [option, value, rest @ ..] = options {
        let number = value.parse().ok();
        match (option.as_str(), number) {
            ("--n", Some(n)) if n > 0 => run.n = n,
            ("--seed", Some(seed)) => run.seed = seed,
            _ => return Err(usage(proof)),
        }
        options = rest;
    }
    if options.is_empty() { Ok(run) } else { Err(usage(proof)) }
}

fn usage(proof: &Proof) -> Stop {
    Stop::Usage(format!("accept {} [--n N] [--seed S], whole numbers", proof.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_proofs_share_a_name() {
        let names: BTreeSet<_> = all().map(|proof| proof.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn the_command_line_names_n_and_seed() {
        let parsed = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(ToString::to_string).collect();
            parse(&lifecycle::PROOFS[0], &args).ok().map(|run| (run.n, run.seed))
        };
        assert_eq!(parsed(&["--n", "5", "--seed", "7"]), Some((5, 7)));
        assert_eq!(parsed(&[]).map(|(n, _)| n), Some(1_000_000));
        for wrong in [&["--n"][..], &["--n", "0"], &["--n", "x"], &["5"], &["--seed", "-1"]] {
            assert_eq!(parsed(wrong), None);
        }
    }
}
