//! The search beside the ripgrep program, which cargo builds for it, and on a tree that is too
//! large. `crates/tools/examples/search_proof` searches and compares; this makes what it needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::big_tree::BigTree;
use super::{Proof, Run, ripgrep};
use crate::process::{self, Stop};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// The proofs of searching.
pub(super) const PROOFS: &[Proof] = &[
    Proof {
        name: "grep-same",
        what: "patterns of n that find other lines than the ripgrep program, in 4 source trees",
        n: 500,
        target: 0.0,
        prove: same,
    },
    Proof {
        name: "grep-time",
        what: "time of rare patterns over cargo's sources, as a multiple of ripgrep's, n rounds",
        n: 11,
        target: 0.9,
        prove: time,
    },
    Proof {
        name: "grep-cap",
        what: "ms to the answer for a pattern that stops at its cap, median of n rounds",
        n: 21,
        target: 50.0,
        prove: cap,
    },
    Proof {
        name: "grep-cancel",
        what: "ms from a cancel at any moment to the end of its search of cargo's sources, most of n",
        n: 200,
        target: 100.0,
        prove: cancel,
    },
    Proof {
        name: "big-tree",
        what: "peak MiB of searching and finding in n files, with loops, FIFOs and a long line",
        n: 1_000_000,
        target: 128.0,
        prove: big,
    },
];

/// How many source trees are searched.
const TREES: usize = 4;

/// Returns how many of `n` patterns find something else than ripgrep does.
fn same(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    run.is_seeded = true;
    let trees = largest(&sources()?);
    let mut command = example(workspace, ui)?;
    // Nothing of it may count: it would hide most matches.
    let config = workspace.target.join("ripgreprc");
    ripgrep::write(&config, "--max-count=1\n--glob=!*.rs\n")?;
    command.env("RIPGREP_CONFIG_PATH", config);
    command.arg("same").arg(ripgrep::build(workspace, ui)?);
    told(command.args([run.seed, run.n].map(|number| number.to_string())).args(trees), run)
}

/// Returns the time of rare patterns as a multiple of ripgrep's, in `n` rounds.
fn time(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let mut command = example(workspace, ui)?;
    command.arg("time").arg(ripgrep::build(workspace, ui)?);
    told(command.arg(run.n.to_string()).arg(sources()?), run)
}

/// Returns the milliseconds to the answer for the slowest of some common patterns.
fn cap(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let mut command = example(workspace, ui)?;
    told(command.arg("cap").arg(run.n.to_string()).arg(sources()?), run)
}

/// Returns the longest of the milliseconds from a cancel to the end of a search.
fn cancel(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    run.is_seeded = true;
    let mut command = example(workspace, ui)?;
    command.arg("cancel").args([run.n, run.seed].map(|number| number.to_string()));
    told(command.arg(sources()?), run)
}

/// Returns the most MiB that it takes to search and find in a tree of `n` files.
fn big(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let mut command = example(workspace, ui)?;
    ui.note(format_args!("big-tree: makes {} files", run.n));
    let tree = BigTree::make(&workspace.target.join("big-tree"), run.n)?;
    told(command.arg("big").arg(tree.path()), run)
}

fn example(workspace: &Workspace, ui: &mut Ui<'_>) -> Result<Command, Stop> {
    let words = "build --release -p acp-tools --example search_proof";
    ui.note(format_args!("cargo {words}"));
    process::run(&mut workspace.cargo(words))?;
    Ok(Command::new(workspace.target.join("release/examples/search_proof")))
}

/// Runs the example: its `value` is the value, the rest is told beside it.
fn told(command: &mut Command, run: &mut Run) -> Result<f64, Stop> {
    let printed = process::capture(command)?;
    let mut told: Value = serde_json::from_str(&printed)
        .map_err(|error| Stop::Failed(format!("{}: {error}", printed.trim())))?;
    let value = told.as_object_mut().and_then(|told| told.remove("value")?.as_f64());
    run.more = told;
    value.ok_or_else(|| Stop::Failed("there is no value".to_owned()))
}

/// Finds the sources that cargo has unpacked.
fn sources() -> Result<PathBuf, Stop> {
    let registry = ripgrep::registry();
    largest(&registry)
        .into_iter()
        .next()
        .ok_or_else(|| Stop::Failed(format!("{} is empty", registry.display())))
}

/// Returns the folders in a folder that have the most files in them.
fn largest(folder: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut counted: Vec<_> = folders.map(|entry| (files(&entry.path()), entry.path())).collect();
    counted.sort_unstable();
    counted.into_iter().rev().take(TREES).map(|(_, path)| path).collect()
}

fn files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files(&entry.path()),
        _ => 1,
    };
    entries.map(count).sum()
}
