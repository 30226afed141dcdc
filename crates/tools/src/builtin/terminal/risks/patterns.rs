//! Guarded files that a pattern in a command line may name.

use std::fs;
use std::path::{Path, PathBuf};

use acp_lifecycle::rules::agent_instruction_names;
use callboard_shell::risks::{NamePattern, PathPattern};

use crate::limits::{MAX_PATTERN_ENTRIES, MIN_KNOWN_NAME_BYTES};

/// Searches for guarded files that match patterns. The search of all patterns of a line reads a
/// limited number of entries of directories.
pub(super) struct PatternSearch<'a> {
    roots: Vec<&'a Path>,
    is_guarded: &'a dyn Fn(&Path) -> bool,
    entries_left: usize,
}

/// The reason why a pattern requires permission.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatternFinding {
    /// The pattern may name this guarded path.
    Guarded(PathBuf),
    TooManyEntries,
}

impl<'a> PatternSearch<'a> {
    /// Creates a search. `roots` are the project folders.
    pub(super) fn new(roots: Vec<&'a Path>, is_guarded: &'a dyn Fn(&Path) -> bool) -> Self {
        Self { roots, is_guarded, entries_left: MAX_PATTERN_ENTRIES }
    }

    /// Returns whether a pattern may name a guarded path, because of the names that are known in
    /// the pattern, or because of an entry of the file system that matches the pattern.
    pub(super) fn find_guarded(&mut self, pattern: &PathPattern) -> Option<PatternFinding> {
        let path = pattern.to_wildcard_path();
        if (self.is_guarded)(&path) || may_be_instructions_in_unknown_folder(pattern) {
            return Some(PatternFinding::Guarded(path));
        }
        let mut waiting = vec![(PathBuf::from("/"), pattern.names())];
        while let Some((folder, names)) = waiting.pop() {
            let Some((name, rest)) = names.split_first() else {
                if (self.is_guarded)(&folder) {
                    return Some(PatternFinding::Guarded(folder));
                }
                continue;
            };
            if let Some(name) = name.as_str_if_literal() {
                waiting.push((folder.join(name), rest));
                continue;
            }
            // A text such as `$X` may name every entry. It does not count as the name of a file of
            // the project only because the project contains guarded files.
            if name.is_unknown() && self.roots.iter().any(|root| root.starts_with(&folder)) {
                continue;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if self.entries_left == 0 {
                    return Some(PatternFinding::TooManyEntries);
                }
                self.entries_left -= 1;
                if name.matches(&entry.file_name().to_string_lossy()) {
                    waiting.push((entry.path(), rest));
                }
            }
        }
        None
    }
}

/// Returns whether a pattern in an unknown folder may name a file that agents follow as
/// instructions. The folder cannot be searched, so the beginning of the name decides.
fn may_be_instructions_in_unknown_folder(pattern: &PathPattern) -> bool {
    let is_folder_unknown = pattern.names().iter().any(NamePattern::is_unknown);
    let Some(name) = pattern.names().last().filter(|_| is_folder_unknown) else { return false };
    name.known_beginning().len() >= MIN_KNOWN_NAME_BYTES
        && agent_instruction_names().any(|known| name.matches(&known))
}

#[cfg(test)]
mod tests {
    use super::{PatternFinding, PatternSearch};
    use callboard_shell::risks::{ShellContext, find_risks};
    use pretty_assertions::assert_eq;

    #[test]
    fn a_search_reads_a_limited_number_of_entries() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let mut place = ShellContext::new(vec![folder.path()]);
        place.cwd = Some(folder.path());
        let risks = find_risks("touch [x-z]", place);
        for (entries_left, expected) in [(2, Some(PatternFinding::TooManyEntries)), (3, None)] {
            let is_guarded = |_: &std::path::Path| false;
            let search = PatternSearch::new(vec![folder.path()], &is_guarded);
            let mut search = PatternSearch { entries_left, ..search };
            assert_eq!(search.find_guarded(&risks.mention_patterns[0]), expected);
        }
    }
}
