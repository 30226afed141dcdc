//! Compares the search tools with the ripgrep program, which cargo builds for this purpose. Also
//! searches a very large folder tree. The program `crates/tools/examples/search_proof` does the
//! searches and comparisons, and this file prepares its input.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::big_tree::BigTree;
use super::ripgrep;
use super::run::RowRun;
use crate::process::{self, TaskError};
use crate::ui::Ui;

/// Number of source folders that are searched.
const TREES: usize = 4;

/// Searches for `n` patterns. Returns the number of patterns whose results differ from those of
/// ripgrep.
pub(super) fn differences_from_ripgrep(
    run: &mut RowRun<'_>,
    ui: &Ui<'_>,
) -> Result<f64, TaskError> {
    let trees = largest_subfolders(&find_largest_source_folder()?);
    let mut command = build_search_example(run, ui)?;
    // A ripgrep configuration that would hide most matches. The comparison must run ripgrep without
    // it.
    let config = run.workspace.target.join("ripgreprc");
    ripgrep::write_text_file(&config, "--max-count=1\n--glob=!*.rs\n")?;
    command.env("RIPGREP_CONFIG_PATH", config);
    command.arg("same").arg(ripgrep::build_ripgrep(run.workspace, ui)?);
    run.run_for_largest_figure(
        1,
        command.args([run.seed.get_and_mark_used().to_string(), run.n.to_string()]).args(trees),
    )
}

/// Returns the time of a search for rare patterns, divided by the time of ripgrep. The times are
/// measured in `n` rounds.
pub(super) fn time_ratio_to_ripgrep(run: &mut RowRun<'_>, ui: &Ui<'_>) -> Result<f64, TaskError> {
    let mut command = build_search_example(run, ui)?;
    command.arg("time").arg(ripgrep::build_ripgrep(run.workspace, ui)?);
    run.run_for_largest_figure(1, command.arg(run.n.to_string()).arg(find_largest_source_folder()?))
}

/// Searches for several common patterns. Returns the milliseconds to the result of the slowest
/// search.
pub(super) fn common_pattern_latency(run: &mut RowRun<'_>, ui: &Ui<'_>) -> Result<f64, TaskError> {
    let mut command = build_search_example(run, ui)?;
    run.run_for_largest_figure(
        1,
        command.arg("cap").arg(run.n.to_string()).arg(find_largest_source_folder()?),
    )
}

/// Returns the longest time between the cancel and the end of a search, in milliseconds.
pub(super) fn search_cancel_latency(run: &mut RowRun<'_>, ui: &Ui<'_>) -> Result<f64, TaskError> {
    let mut command = build_search_example(run, ui)?;
    command.arg("cancel").args([run.n.to_string(), run.seed.get_and_mark_used().to_string()]);
    run.run_for_largest_figure(1, command.arg(find_largest_source_folder()?))
}

/// Searches for text and for paths in a tree of `n` files. Returns the maximum memory in MiB.
pub(super) fn big_tree_memory(run: &mut RowRun<'_>, ui: &Ui<'_>) -> Result<f64, TaskError> {
    let mut command = build_search_example(run, ui)?;
    ui.print_remark_to_stderr(format_args!("big-tree: makes {} files", run.n));
    let tree = BigTree::create_with_files(&run.workspace.target.join("big-tree"), run.n.into())?;
    run.run_for_largest_figure(1, command.arg("big").arg(tree.path()))
}

/// Builds the program `search_proof`, and returns a command that runs it.
fn build_search_example(run: &RowRun<'_>, ui: &Ui<'_>) -> Result<Command, TaskError> {
    let words = "build --release -p acp-tools --example search_proof";
    ui.print_remark_to_stderr(format_args!("cargo {words}"));
    process::run_expecting_success(&mut run.workspace.cargo_command(words))?;
    Ok(Command::new(run.workspace.target.join("release/examples/search_proof")))
}

/// Returns the largest of the folders in which cargo has unpacked the sources of a registry.
fn find_largest_source_folder() -> Result<PathBuf, TaskError> {
    let registry = ripgrep::registry_source_folder();
    largest_subfolders(&registry)
        .into_iter()
        .next()
        .ok_or_else(|| TaskError::Failed(format!("{} is empty", registry.display())))
}

/// Returns the subfolders that contain the most files, but at most four.
fn largest_subfolders(folder: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut counted: Vec<_> =
        folders.map(|entry| (count_files(&entry.path()), entry.path())).collect();
    counted.sort_unstable();
    counted.into_iter().rev().take(TREES).map(|(_, path)| path).collect()
}

fn count_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => count_files(&entry.path()),
        _ => 1,
    };
    entries.map(count).sum()
}
