//! Searches a tree that exceeds the search limits. Checks that omitted results are reported, and
//! measures the peak memory.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use acp_tools::Workspace;
use acp_tools::search::find::{NameQuery, find};
use acp_tools::search::grep::{GrepQuery, search};
use serde_json::{Value, json};

use crate::{Result, workspace};

/// Searches the tree for contents and names, and returns the peak memory in MiB. Fails if a result
/// does not report what was omitted.
pub(crate) fn search_and_find(tree: &Path) -> Result<Value> {
    let space = workspace(tree)?;
    let common = print_time("common", || search_to_text(&space, "common"))?;
    if !common.contains("there are more") {
        return Err(format!("common: {common}").into());
    }
    let rare = print_time("rare", || search_to_text(&space, "in no file"))?;
    if !(rare.contains("up to a line that was too long") || rare.contains("at the time limit")) {
        return Err(format!("rare: {rare}").into());
    }
    let mut alone = GrepQuery::new("in no file");
    alone.path = Some("long".to_owned());
    let long = print_time("long", || Ok(search(&space, &alone, &|| false)?.to_text(&space)))?;
    if !long.contains("up to a line that was too long") {
        return Err(format!("long: {long}").into());
    }
    let found =
        print_time("find", || Ok(find(&space, &NameQuery::new("*"), &|| false)?.to_text(&space)))?;
    if !found.contains("at least 20,000 more") {
        return Err(format!("find: {found}").into());
    }
    let mut fuzzy = NameQuery::new("f1");
    fuzzy.pattern_kind = acp_tools::search::find::NamePatternKind::Fuzzy;
    let found = print_time("fuzzy", || Ok(find(&space, &fuzzy, &|| false)?.to_text(&space)))?;
    if !found.contains(" more; narrow") {
        return Err(format!("fuzzy: {found}").into());
    }
    Ok(json!({ "value": peak_mib()? }))
}

fn search_to_text(space: &Workspace, pattern: &str) -> Result<String> {
    Ok(search(space, &GrepQuery::new(pattern), &|| false)?.to_text(space))
}

/// Prints the duration of a search, and the lines of its result that begin with `[`.
fn print_time(what: &str, work: impl FnOnce() -> Result<String>) -> Result<String> {
    let start = Instant::now();
    let text = work()?;
    let last: Vec<_> = text.lines().filter(|line| line.starts_with('[')).collect();
    let secs = start.elapsed().as_secs_f64();
    writeln!(std::io::stderr(), "{what}: {secs:.1} s, {}", last.join(" "))?;
    Ok(text)
}

/// Returns the peak memory of this process.
fn peak_mib() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?;
    Ok(kib.parse::<f64>()? / 1024.0)
}
