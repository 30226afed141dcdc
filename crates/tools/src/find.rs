//! Finds files and directories by their names.
//!
//! It knows nothing of what the files hold.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::error::{Code, ToolError};
use crate::limits::{ENTRIES, ENTRIES_GATHERED, PATTERN_BYTES};
use crate::list::ending;
use crate::sys::fs::Kind;
use crate::workspace::{Budget, Cancel, Order, Resolved, Stop, Walk, Workspace};

/// What a search for names found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPaths {
    /// The absolute path of the directory that was searched.
    pub path: PathBuf,
    /// At most [`ENTRIES`] paths relative to it, in the order of the names.
    pub entries: Vec<FoundPath>,
    /// How many matches are not shown; at least so many where [`FoundPaths::stop`] is set.
    pub left_out: usize,
    /// Why it did not look at everything, if so.
    pub stop: Option<Stop>,
    /// How many directories could not be read.
    pub unreadable: usize,
}

/// One path that a search for names found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPath {
    /// The path relative to the searched directory.
    pub path: PathBuf,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// Finds what matches a glob beneath a directory, `cwd` if none is given.
///
/// A glob without a slash matches names anywhere; one with a slash matches paths relative to the
/// searched directory, where `*` stays in one component and `**` does not. Hidden files are found,
/// what `.gitignore` names and what is in `.git` is not.
///
/// # Errors
///
/// As [`Workspace::resolve`]; `bad_pattern`; `not_found`, `not_a_directory`, `not_permitted`.
pub fn find(
    workspace: &Workspace,
    pattern: &str,
    path: Option<&str>,
    cancel: &Cancel<'_>,
) -> Result<FoundPaths, ToolError> {
    find_at(workspace, pattern, &workspace.resolve(path.unwrap_or("."))?, cancel)
}

/// The same beneath a place that was looked at.
pub(crate) fn find_at(
    workspace: &Workspace,
    pattern: &str,
    at: &Resolved,
    cancel: &Cancel<'_>,
) -> Result<FoundPaths, ToolError> {
    let glob = PathGlob::parse(pattern)?;
    let budget = Budget::new(cancel);
    let mut walk = Walk::new(workspace, at, usize::MAX, Order::ByName, budget)?;
    let mut matching = walk.by_ref().filter(|found| glob.matches(&found.path));
    let entries = matching
        .by_ref()
        .take(ENTRIES)
        .map(|found| FoundPath { is_directory: found.kind == Kind::Directory, path: found.path })
        .collect();
    let left_out = matching.take(ENTRIES_GATHERED).count();
    Ok(FoundPaths {
        path: at.path().to_owned(),
        entries,
        left_out,
        stop: walk.stop().or((left_out == ENTRIES_GATHERED).then_some(Stop::Enough)),
        unreadable: walk.unreadable(),
    })
}

impl FoundPaths {
    /// Returns the paths as text, one a line, relative to `cwd` where they are inside of it.
    #[must_use]
    pub fn to_text(&self, workspace: &Workspace) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            text.push_str(&workspace.display(&self.absolute(entry)));
            text.push_str(if entry.is_directory { "/\n" } else { "\n" });
        }
        if self.entries.is_empty() {
            text.push_str("[no name matches]\n");
        }
        text + &ending(self.left_out, self.stop, self.unreadable)
    }

    /// Returns the absolute path of an entry.
    #[must_use]
    pub fn absolute(&self, entry: &FoundPath) -> PathBuf {
        self.path.join(&entry.path)
    }
}

/// A glob for names, or for paths if it has a slash.
#[derive(Debug)]
pub(crate) struct PathGlob {
    matcher: GlobMatcher,
    for_names: bool,
}

impl PathGlob {
    pub(crate) fn parse(pattern: &str) -> Result<Self, ToolError> {
        let bad = |why: &str| {
            ToolError::report(Code::BadPattern, format!("the glob {pattern} does not work: {why}"))
        };
        if pattern.len() > PATTERN_BYTES {
            return Err(ToolError::report(Code::BadPattern, "the glob is too long"));
        }
        let glob = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
        if glob.is_empty() {
            return Err(bad("it is empty"));
        }
        if glob.starts_with('/') {
            return Err(bad("it has to be relative to the searched directory, which path sets"));
        }
        let matcher = GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .map_err(|error| bad(&error.kind().to_string()))?
            .compile_matcher();
        Ok(Self { matcher, for_names: !glob.contains('/') })
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        if self.for_names {
            path.file_name().is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PathGlob, find};
    use crate::error::Code;
    use crate::limits::{ENTRIES, PATTERN_BYTES};
    use crate::workspace::Stop;
    use crate::workspace::testing::tree;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_glob_finds_names_or_paths_in_their_order() {
        let tree = tree(&[
            ("src/lib.rs", ""),
            ("src/a/mod.rs", ""),
            ("src/a/x.txt", ""),
            ("src-b.rs", ""),
            (".config/x.rs", ""),
            ("build/out.rs", ""),
            (".gitignore", "build\n"),
            (".git/x.rs", ""),
        ]);
        for (pattern, path, expected) in [
            ("*.rs", None, ".config/x.rs\nsrc/a/mod.rs\nsrc/lib.rs\nsrc-b.rs\n"),
            ("*.rs", Some("src"), "src/a/mod.rs\nsrc/lib.rs\n"),
            ("src/*.rs", None, "src/lib.rs\n"),
            ("./src/*.rs", None, "src/lib.rs\n"),
            ("src/**", None, "src/a/\nsrc/a/mod.rs\nsrc/a/x.txt\nsrc/lib.rs\n"),
            ("**/*.{txt,md}", None, "src/a/x.txt\n"),
            ("a/*", Some("src"), "src/a/mod.rs\nsrc/a/x.txt\n"),
            ("a/", None, "src/a/\n"),
            ("lib", None, "[no name matches]\n"),
            ("LIB.rs", None, "[no name matches]\n"),
        ] {
            let found = find(&tree.workspace, pattern, path, &|| false).unwrap();
            assert_eq!(found.to_text(&tree.workspace), expected, "{pattern}");
        }
    }

    #[test]
    fn a_glob_that_does_not_work_is_explained() {
        for (pattern, expected) in [
            ("[a", "unclosed"),
            ("{a", "unclosed"),
            ("", "empty"),
            ("./", "empty"),
            ("/etc/*", "relative"),
            (&"*".repeat(PATTERN_BYTES + 1), "too long"),
        ] {
            let error = PathGlob::parse(pattern).unwrap_err();
            assert_eq!(error.code(), Some(Code::BadPattern));
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn many_names_are_cut_and_counted() {
        let tree = tree(&[]);
        for name in 0..ENTRIES + 3 {
            tree.write(&format!("{}/{name}", name % 7), "");
        }
        let found = find(&tree.workspace, "*", None, &|| false).unwrap();
        assert_eq!((found.entries.len(), found.left_out, found.stop), (ENTRIES, 10, None));
        let found = find(&tree.workspace, "*", None, &|| true).unwrap();
        assert_eq!((found.entries.len(), found.stop), (0, Some(Stop::Cancelled)));
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_no_text_are_found_all_the_same() {
        use std::os::unix::ffi::OsStrExt as _;

        let tree = tree(&[]);
        let odd = std::ffi::OsStr::from_bytes(b"odd\xff\n.rs");
        std::fs::write(tree.workspace.cwd().join(odd), "").unwrap();
        let found = find(&tree.workspace, "*.rs", None, &|| false).unwrap();
        assert_eq!(found.to_text(&tree.workspace), "odd\u{fffd}\\n.rs\n");
    }
}
