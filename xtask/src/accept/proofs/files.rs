//! What becomes of files: undone, rewritten by others, left by a process that dies, and how long an
//! edit takes.

use std::process::Command;

use serde_json::json;

use super::{Proof, Run, edits, escape};
use crate::cargo;
use crate::process::{self, Stop};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// The proofs of what reads and changes files.
pub(super) const PROOFS: &[Proof] = &[
    Proof {
        name: "edits",
        what: "tests that find a byte changed outside of n random edits (n / 500 through files)",
        n: 1_000_000,
        target: 0.0,
        prove: edits::prove,
    },
    Proof {
        name: "edit-repair",
        what: "percent of n edits with mistakes that are refused with a region 90 % alike and that \
               the error alone does not put right; none is applied elsewhere than where it was meant",
        n: 2_000,
        target: 10.0,
        prove: edit_repair,
    },
    Proof {
        name: "undone",
        what: "tests that find a trace of n random sequences of changes that were undone",
        n: 10_000,
        target: 0.0,
        prove: undone,
    },
    Proof {
        name: "racing",
        what: "tests that find something lost of n rewrites of a file that is edited meanwhile",
        n: 100_000,
        target: 0.0,
        prove: racing,
    },
    Proof {
        name: "crash",
        what: "tests that find a file neither old nor new after a death or error at every n-th call",
        n: 1,
        target: 0.0,
        prove: crash,
    },
    Proof {
        name: "edit-engine",
        what: "time to change one of 100,000 lines without the agent and without waiting for the \
               disk, as a multiple of a plain rewrite's, median of n",
        n: 50,
        target: 2.0,
        prove: edit_engine,
    },
    Proof {
        name: "escape",
        what: "reads and writes outside, of n that race with a directory swapped for a link",
        n: 1_000_000,
        target: 0.0,
        prove: escape::prove,
    },
];

/// Makes edits with the mistakes of models, and puts right what is refused.
fn edit_repair(ws: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    run.is_seeded = true;
    ui.note(format_args!("edit-repair: seed {}", run.seed));
    let mut command = cargo::tools_test(ws, "edits", "release");
    command.env("EDIT_REPAIRS", run.n.to_string());
    command.env("PROPTEST_RNG_SEED", run.seed.to_string());
    let line = told(command.args(["--", "--nocapture", "repair"]), "edit-repair ")?;
    let (percent, counts) = line.split_once(' ').unwrap_or((&line, ""));
    run.more = json!({ "counts": counts });
    percent.parse().map_err(|_nan| Stop::Failed(format!("it told {line:?}")))
}

/// Undoes random sequences of changes.
fn undone(ws: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    run.is_seeded = true;
    ui.note(format_args!("undone: seed {}", run.seed));
    let mut command = cargo::tools_test(ws, "undo", "laws");
    command.env("PROPTEST_CASES", run.n.to_string());
    command.env("PROPTEST_RNG_SEED", run.seed.to_string());
    super::broken(&mut command, run)
}

/// Edits a file while others rewrite it.
fn racing(ws: &Workspace, _: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let mut command = cargo::tools_test(ws, "racing", "laws");
    command.env("RACING_REWRITES", run.n.to_string());
    super::broken(&mut command, run)
}

/// Kills a process, or makes a call of it fail, at every n-th call of every change.
fn crash(ws: &Workspace, _: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let mut command = cargo::tools_test(ws, "crash", "laws");
    command.env("CRASH_STEP", run.n.to_string());
    super::broken(command.args(["--", "--nocapture"]), run)
}

/// Returns the time of an edit as a multiple of that of a plain program.
fn edit_engine(ws: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let mut command = cargo::tools_test(ws, "edit_time", "laws");
    command.args(["--", "--ignored", "--nocapture"]).env("EDIT_ROUNDS", run.n.to_string());
    let line = told(&mut command, "edit-engine ")?;
    ui.note(format_args!("edit-engine: {line}"));
    let (ratio, times) = line.split_once(' ').unwrap_or((&line, ""));
    run.more = json!({ "times": times });
    ratio.parse().map_err(|_nan| Stop::Failed(format!("it told {line:?}")))
}

/// Runs tests, and returns the rest of the line that begins so.
fn told(command: &mut Command, beginning: &str) -> Result<String, Stop> {
    let printed = process::capture(command)?;
    let line = printed.lines().find_map(|line| Some(line.split_once(beginning)?.1.to_owned()));
    line.ok_or_else(|| Stop::Failed(format!("no test told {beginning}")))
}
