//! Runs the ripgrep program with the options that match this crate's search.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use acp_tools::limits::MAX_SEARCH_THREADS;
use acp_tools::search::grep::GrepQuery;

use crate::Result;

/// Runs the ripgrep program on a directory. Returns the matching lines, sorted by path and line
/// number, or `None` if ripgrep rejects the pattern.
pub(crate) fn matches(
    rg: &Path,
    query: &GrepQuery,
    tree: &Path,
) -> Result<Option<Vec<(PathBuf, u64)>>> {
    let output = command(rg, query, tree).stderr(Stdio::piped()).output()?;
    // ripgrep exits with code 1 if there is no match, and with code 2 after an error.
    if output.status.code() == Some(2) {
        return Ok(None);
    }
    // If ripgrep stops in a binary file, it prints a message line that has no NUL byte. This line
    // is ignored.
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let mut places: Vec<_> = lines.filter_map(parse_match_line).collect();
    places.sort_unstable();
    Ok(Some(places))
}

/// Runs the ripgrep program until it exits, and returns the number of bytes of its output.
pub(crate) fn run(rg: &Path, query: &GrepQuery, tree: &Path) -> Result<usize> {
    Ok(command(rg, query, tree).output()?.stdout.len())
}

fn command(rg: &Path, query: &GrepQuery, tree: &Path) -> Command {
    let threads = thread::available_parallelism().map_or(1, Into::into).min(MAX_SEARCH_THREADS);
    let mut command = Command::new(rg);
    command.current_dir(tree).stdin(Stdio::null());
    command.args(["--no-config", "--hidden", "--no-require-git", "--no-ignore-global"]);
    command.args(["--no-ignore-parent", "--glob=!.git", "--crlf", "--no-mmap", "--color=never"]);
    command.args(["--line-number", "--no-heading", "--with-filename", "--null"]);
    command.arg(format!("--threads={threads}"));
    for (is_set, flag) in [
        (!query.case_sensitive, "--ignore-case"),
        (query.literal, "--fixed-strings"),
        (query.word, "--word-regexp"),
        (query.multiline, "--multiline"),
    ] {
        command.args(is_set.then_some(flag));
    }
    command.arg(format!("--regexp={}", query.pattern)).arg("./");
    command
}

fn parse_match_line(line: &[u8]) -> Option<(PathBuf, u64)> {
    let (path, rest) = line.split_at(line.iter().position(|byte| *byte == 0)?);
    let number = rest[1..].split(|byte| *byte == b':').next()?;
    let path = String::from_utf8_lossy(path);
    let path = path.strip_prefix("./").unwrap_or(&path);
    Some((path.into(), std::str::from_utf8(number).ok()?.parse().ok()?))
}
