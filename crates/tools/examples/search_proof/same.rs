//! Whether the same lines match as for the ripgrep program.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use acp_tools::Workspace;
use acp_tools::limits::{MATCH_OFFSET, MATCHES_MAX};
use acp_tools::search::{Query, search};
use serde_json::{Value, json};

use crate::{Result, patterns, rg, workspace};

/// What this crate finds: all of it, or the first pages.
struct Found {
    places: Vec<(PathBuf, u64)>,
    is_all: bool,
}

/// Counts the searches that differ in at least one tree.
pub(crate) fn count(rg: &Path, seed: u64, n: usize, trees: &[PathBuf]) -> Result<Value> {
    let queries = patterns::of(trees, n, seed);
    let spaces = trees.iter().map(|tree| workspace(tree)).collect::<Result<Vec<_>>>()?;
    let (mut differ, mut lines, mut cut, mut refused) = (0, 0, 0, 0);
    for query in &queries {
        let mut is_same = true;
        for space in &spaces {
            let theirs = rg::matches(rg, query, space.cwd())?;
            let ours = found(space, query);
            is_same &= match (&ours, &theirs) {
                (Ok(ours), Some(theirs)) => {
                    lines += ours.places.len();
                    cut += usize::from(!ours.is_all);
                    let first = theirs.get(..ours.places.len()).unwrap_or_default();
                    ours.places == first && (!ours.is_all || theirs.len() == first.len())
                }
                (Err(_), None) => {
                    refused += 1;
                    true
                }
                (Ok(_), None) | (Err(_), Some(_)) => false,
            };
            if !is_same {
                let told = theirs.map(|theirs| theirs.len());
                let ours = ours.map(|ours| ours.places.len());
                let tree = space.cwd().display();
                writeln!(std::io::stderr(), "{query:?} in {tree}: {ours:?}, rg {told:?}")?;
                break;
            }
        }
        differ += usize::from(!is_same);
    }
    let count = queries.len();
    Ok(json!({
        "value": differ, "patterns": count, "trees": trees.len(), "lines": lines,
        "cut": cut, "refused": refused,
    }))
}

/// Searches page after page, as far as pages go.
fn found(workspace: &Workspace, query: &Query) -> Result<Found> {
    let mut query = Query { max_results: Some(MATCHES_MAX), ..query.clone() };
    let mut places = Vec::new();
    loop {
        let page = search(workspace, &query, &|| false)?;
        for file in &page.files {
            let path = file.path.strip_prefix(workspace.cwd())?;
            places.extend(file.lines.iter().map(|line| (path.to_owned(), line.number)));
        }
        let skipped = page.skipped;
        if page.stop.is_some() || skipped.large + skipped.long_lines + skipped.unreadable > 0 {
            return Err(format!("not whole: {:?} {skipped:?}", page.stop).into());
        }
        let next = page.next_offset().and_then(|next| u32::try_from(next).ok());
        match next.filter(|next| *next <= MATCH_OFFSET) {
            Some(next) => query.offset = next,
            None => return Ok(Found { places, is_all: !page.truncated }),
        }
    }
}
