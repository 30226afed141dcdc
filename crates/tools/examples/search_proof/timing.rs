//! Measures the search time. Rare patterns are compared with the ripgrep program, and common
//! patterns are searched until the result limit is reached.

use std::path::Path;
use std::time::Instant;

use acp_tools::search::grep::{GrepQuery, search};
use serde_json::{Value, json};

use crate::{Result, rg, workspace};

/// Patterns that have fewer matches in the source code of a crate than the result limit.
const RARE_PATTERNS: [&str; 10] = [
    "fn main\\(\\) -> ExitCode",
    "Sherlock Holmes",
    "\\bsplitmix64\\b",
    "unsafe impl<T> Sync for Arc",
    "quick_?brown_?fox",
    "0xdead_?beef",
    "impl .* for NonZeroU128",
    "(?i)thundering herd",
    "[Ee]xponential back-?off",
    "\\bEWOULDBLOCKED\\b",
];

/// Patterns that reach the result limit within the first few files.
const COMMON_PATTERNS: [&str; 5] = ["fn", "use", "the", "\\w+\\(", "e"];

/// Returns the search time of rare patterns, divided by the time that the ripgrep process needs.
/// Each of the two times is the sum of the medians per pattern, and each median is taken from `n`
/// runs. The runs of this crate and of ripgrep alternate.
pub(crate) fn time_rare_patterns(rg: &Path, n: usize, tree: &Path) -> Result<Value> {
    let space = workspace(tree)?;
    let (mut ours, mut theirs, mut each) = (0.0, 0.0, Vec::new());
    for pattern in RARE_PATTERNS {
        let query = GrepQuery::new(pattern);
        let matches = search(&space, &query, &|| false)?;
        if matches.truncated || matches.stop.is_some() {
            return Err(format!("{pattern} is not rare: {}", matches.count).into());
        }
        let (mut in_process, mut as_process) = (Vec::new(), Vec::new());
        for _ in 0..n {
            in_process.push(millis(|| Ok(search(&space, &query, &|| false).map(drop)?))?);
            as_process.push(millis(|| rg::run(rg, &query, space.cwd()).map(drop))?);
        }
        let (in_process, as_process) = (median(in_process), median(as_process));
        ours += in_process;
        theirs += as_process;
        each.push(json!([pattern, matches.count, in_process.round(), as_process.round()]));
    }
    let (ours_ms, theirs_ms) = (f64::round(ours), f64::round(theirs));
    Ok(json!({ "value": ours / theirs, "ours_ms": ours_ms, "rg_ms": theirs_ms, "each": each }))
}

/// Returns the median search time of the slowest common pattern, in milliseconds.
pub(crate) fn time_common_patterns(n: usize, tree: &Path) -> Result<Value> {
    let space = workspace(tree)?;
    let mut worst: f64 = 0.0;
    for pattern in COMMON_PATTERNS {
        let query = GrepQuery::new(pattern);
        let matches = search(&space, &query, &|| false)?;
        if !matches.truncated {
            return Err(format!("{pattern} is not common: {}", matches.count).into());
        }
        let mut times = Vec::new();
        for _ in 0..n {
            times.push(millis(|| Ok(search(&space, &query, &|| false).map(drop)?))?);
        }
        worst = worst.max(median(times));
    }
    Ok(json!({ "value": worst }))
}

fn millis(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1_000.0)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
