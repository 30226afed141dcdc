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

pub(super) const PROOFS: [Proof; 17] = [
    Proof {
        name: "lifecycle",
        what: "tests that break a promise in n random lives and n / 10 random endings of calls",
        n: 1_000_000,
        target: 0.0,
        prove: lifecycle::prove,
    },
    Proof {
        name: "edits",
        what: "tests that find a byte changed outside of n random edits (n / 500 through files)",
        n: 1_000_000,
        target: 0.0,
        prove: edits::prove,
    },
    Proof {
        name: "undone",
        what: "tests that find a trace of n random sequences of changes that were undone",
        n: 10_000,
        target: 0.0,
        prove: files::undone,
    },
    Proof {
        name: "racing",
        what: "tests that find something lost of n rewrites of a file that is edited meanwhile",
        n: 100_000,
        target: 0.0,
        prove: files::racing,
    },
    Proof {
        name: "crash",
        what: "tests that find a file neither old nor new after a death or error at every n-th call",
        n: 1,
        target: 0.0,
        prove: files::crash,
    },
    Proof {
        name: "edit-time",
        what: "time to change one of 100,000 lines, as a multiple of a plain rewrite's, median of n",
        n: 50,
        target: 2.0,
        prove: files::edit_time,
    },
    Proof {
        name: "commands",
        what: "tests that find a command allowed by a rule for another, or one that a shell runs of n \
               random lines and no reader finds",
        n: 20_000,
        target: 0.0,
        prove: commands::prove,
    },
    Proof {
        name: "escape",
        what: "reads and writes outside, of n that race with a directory swapped for a link",
        n: 1_000_000,
        target: 0.0,
        prove: escape::prove,
    },
    Proof {
        name: "grep-same",
        what: "patterns of n that find other lines than the ripgrep program, in 4 source trees",
        n: 500,
        target: 0.0,
        prove: search::same,
    },
    Proof {
        name: "grep-time",
        what: "time of rare patterns over cargo's sources, as a multiple of ripgrep's, n rounds",
        n: 11,
        target: 0.9,
        prove: search::time,
    },
    Proof {
        name: "grep-cap",
        what: "ms to the answer for a pattern that stops at its cap, median of n rounds",
        n: 21,
        target: 50.0,
        prove: search::cap,
    },
    Proof {
        name: "big-tree",
        what: "peak MiB of searching and finding in n files, with loops, FIFOs and a long line",
        n: 1_000_000,
        target: 128.0,
        prove: search::big,
    },
    Proof {
        name: "hostile",
        what: "ms to end one of n hostile trees of processes, p99; nothing is left of any, nor of \
               those of n / 5 agents that are killed",
        n: 1_000,
        target: 500.0,
        prove: hostile::prove,
    },
    Proof {
        name: "soak",
        what: "percent more memory after n commands than after 500, 100 at a time; no descriptor \
               and no thread more",
        n: 10_000,
        target: 5.0,
        prove: hostile::soak,
    },
    Proof {
        name: "output",
        what: "time to record n bytes of a command's output, by that of a bare reading loop",
        n: 1_000_000_000,
        target: 1.3,
        prove: output::prove,
    },
    Proof {
        name: "sabotage",
        what: "patches that break a promise and turn no test red",
        n: 0,
        target: 0.0,
        prove: sabotage::prove,
    },
    Proof {
        name: "mutants",
        what: "percent of the mutants (the n-th part of them) that no test notices",
        n: 1,
        target: 10.0,
        prove: mutants::prove,
    },
];

/// Runs the proof that is named, if one is: `NAME [--n N] [--seed S]`.
pub(super) fn run(workspace: &Workspace, ui: &mut Ui<'_>, args: &[String]) -> Option<Outcome> {
    let (name, options) = args.split_first()?;
    let proof = PROOFS.iter().find(|proof| proof.name == name)?;
    let run = parse(proof, options);
    Some(run.and_then(|run| proof.run(workspace, ui, run)))
}

/// Runs every proof as it is.
pub(super) fn run_all(workspace: &Workspace, ui: &mut Ui<'_>) -> Outcome {
    let outcomes = PROOFS.map(|proof| {
        let run = parse(&proof, &[]);
        run.and_then(|run| proof.run(workspace, ui, run))
    });
    outcomes.into_iter().collect()
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
    use super::*;

    #[test]
    fn the_command_line_names_n_and_seed() {
        let parsed = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(ToString::to_string).collect();
            parse(&PROOFS[0], &args).ok().map(|run| (run.n, run.seed))
        };
        assert_eq!(parsed(&["--n", "5", "--seed", "7"]), Some((5, 7)));
        assert_eq!(parsed(&[]).map(|(n, _)| n), Some(1_000_000));
        for wrong in [&["--n"][..], &["--n", "0"], &["--n", "x"], &["5"], &["--seed", "-1"]] {
            assert_eq!(parsed(wrong), None);
        }
    }
}
