//! Checks that this crate and the ripgrep program find the same matching lines.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use acp_tools::Workspace;
use acp_tools::limits::{MAX_MATCH_OFFSET, MAX_MATCHES_SHOWN};
use acp_tools::search::grep::{GrepQuery, search};
use serde_json::{Value, json};

use crate::{Result, patterns, rg, workspace};

/// The result of a search by this crate: the matching lines, sorted by path and line number.
struct SearchOutcome {
    places: Vec<(PathBuf, u64)>,
    /// The files with more matching lines than the result pages can show. Each entry contains a
    /// file and the number of lines that this crate returned.
    cut: Vec<(PathBuf, usize)>,
}

/// Counts the searches for which this crate and ripgrep find different lines in at least one tree.
pub(crate) fn count_equal_searches(
    rg: &Path,
    seed: u64,
    n: usize,
    trees: &[PathBuf],
) -> Result<Value> {
    let queries = patterns::random_queries(trees, n, seed);
    let spaces = trees.iter().map(|tree| workspace(tree)).collect::<Result<Vec<_>>>()?;
    let (mut differ, mut lines, mut cut, mut refused) = (0, 0, 0, 0);
    for query in &queries {
        let mut is_same = true;
        for space in &spaces {
            let mut theirs = rg::matches(rg, query, space.cwd())?;
            let ours = run_search(space, query, Path::new(""));
            is_same &= match (&ours, &mut theirs) {
                (Ok(ours), Some(theirs)) => {
                    lines += ours.places.len();
                    cut += ours.cut.len();
                    ours.cut
                        .iter()
                        .for_each(|(path, count)| keep_first_matches(theirs, path, *count));
                    ours.places == *theirs
                }
                (Err(_), None) => {
                    refused += 1;
                    true
                }
                (Ok(_), None) | (Err(_), Some(_)) => false,
            };
            if !is_same {
                let rg_count = theirs.map(|theirs| theirs.len());
                let ours = ours.map(|ours| ours.places.len());
                let tree = space.cwd().display();
                writeln!(std::io::stderr(), "{query:?} in {tree}: {ours:?}, rg {rg_count:?}")?;
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

/// Removes all lines of a file from the list, except the first `count` lines.
fn keep_first_matches(places: &mut Vec<(PathBuf, u64)>, path: &Path, count: usize) {
    let mut seen = 0;
    places.retain(|(other, _)| {
        seen += usize::from(other == path);
        other != path || seen <= count
    });
}

/// Searches a whole tree, or the part of a tree at the path `part`. If a directory has more matches
/// than the result pages can show, each of its entries is searched separately.
fn run_search(workspace: &Workspace, query: &GrepQuery, part: &Path) -> Result<SearchOutcome> {
    let folder = workspace.cwd().join(part);
    let is_folder = folder.symlink_metadata()?.is_dir();
    let mut in_part = query.clone();
    in_part.glob = file_glob(part, is_folder);
    let (mut places, is_all) = search_all_pages(workspace, &in_part)?;
    // The glob may also match other paths, for example because of a `?` in it.
    places.retain(|(path, _)| path.starts_with(part));
    if is_all || !is_folder {
        let cut = (!is_all).then(|| (part.to_owned(), places.len()));
        return Ok(SearchOutcome { places, cut: cut.into_iter().collect() });
    }
    let mut all = SearchOutcome { places: Vec::new(), cut: Vec::new() };
    for entry in folder.read_dir()? {
        let inner = run_search(workspace, query, &part.join(entry?.file_name()))?;
        all.places.extend(inner.places);
        all.cut.extend(inner.cut);
    }
    all.places.sort_unstable();
    Ok(all)
}

/// Returns a glob that matches the file at a path, or all entries of the directory at a path.
/// Returns `None` for the whole tree.
fn file_glob(part: &Path, is_folder: bool) -> Option<String> {
    let is_plain =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '/' | '.' | '-' | '_');
    let plain = |letter: char| if is_plain(letter) { letter } else { '?' };
    let glob: String = part.to_string_lossy().chars().map(plain).collect();
    let beneath = if is_folder { "/**" } else { "" };
    (!glob.is_empty()).then(|| glob + beneath)
}

/// Collects the matches of all result pages, up to the maximum offset. Also returns whether these
/// are all matches.
fn search_all_pages(
    workspace: &Workspace,
    query: &GrepQuery,
) -> Result<(Vec<(PathBuf, u64)>, bool)> {
    let mut query = query.clone();
    query.max_results = Some(MAX_MATCHES_SHOWN);
    let mut places = Vec::new();
    loop {
        let page = search(workspace, &query, &|| false)?;
        for file in &page.files {
            let path = file.path.strip_prefix(workspace.cwd())?;
            places.extend(file.lines.iter().map(|line| (path.to_owned(), line.number)));
        }
        let skipped = page.unsearched;
        if page.stop.is_some() || skipped.large + skipped.long_lines + skipped.unreadable > 0 {
            return Err(format!("not whole: {:?} {skipped:?}", page.stop).into());
        }
        let next = page.next_offset().and_then(|next| u32::try_from(next).ok());
        match next.filter(|next| *next <= MAX_MATCH_OFFSET) {
            Some(next) => query.offset = next,
            None => return Ok((places, !page.truncated)),
        }
    }
}
