//! Finds files and directories by their names.
//!
//! It knows nothing of what the files hold.

mod fuzzy;

use std::iter::from_fn;
use std::path::{Path, PathBuf};

use acp_types::Location;

use crate::error::ToolError;
use crate::files::system::Kind;
use crate::files::walk::{Budget, Cancel, Ignored, Order, Stop, Walk};
use crate::files::workspace::{Resolved, Workspace};
use crate::limits::{ENTRIES, ENTRIES_GATHERED, MATCH_LOCATIONS};
use crate::progress::Pace;
use crate::search::grep::{Seen, Watch};
use crate::search::{Names, PathGlob};

use self::fuzzy::{Best, Fuzzy};

/// Which names to find, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameQuery {
    /// A glob, or letters for [`NameMatch::Fuzzy`].
    pub pattern: String,
    /// How the pattern is meant.
    pub how: NameMatch,
    /// The directory to search, `cwd` if none.
    pub path: Option<String>,
    /// Whether that is found which `.gitignore` and the like name.
    pub include_ignored: bool,
    /// How many paths to show; 1,000 if not given, which is the most.
    pub max_results: Option<u32>,
    /// How many paths to pass over before the first that is shown; at most 20,000.
    pub offset: u32,
}

/// How a pattern for names is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameMatch {
    /// Without a slash it matches names anywhere; with one it matches paths relative to the
    /// searched directory, where `*` stays in one component and `**` does not.
    Glob,
    /// Letters that come in a path in this order, small ones in either case; the best first.
    Fuzzy,
}

impl NameQuery {
    /// Makes a search by a glob beneath `cwd`.
    #[must_use]
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            how: NameMatch::Glob,
            path: None,
            include_ignored: false,
            max_results: None,
            offset: 0,
        }
    }
}

/// What a search for names found: by a glob in the order of the names, else the best first.
pub type FoundPaths = Names<FoundPath>;

/// One path that a search for names found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundPath {
    /// The path relative to the searched directory.
    pub path: PathBuf,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// Finds what matches a pattern beneath a directory.
///
/// Hidden files are found, what is in `.git` is not, and what `.gitignore` names only if asked for.
/// It takes at most 20 s, then it returns what it has and says so.
///
/// # Errors
///
/// As [`Workspace::resolve`]; `bad_pattern`; `invalid_arguments` for an offset that is too large;
/// `not_found`, `not_a_directory`, `not_permitted`.
pub fn find(
    workspace: &Workspace,
    query: &NameQuery,
    cancel: &Cancel<'_>,
) -> Result<FoundPaths, ToolError> {
    let at = workspace.resolve(query.path.as_deref().unwrap_or("."))?;
    find_at(workspace, query, &at, cancel, &|_| {})
}

/// The same beneath a place that was looked at, whatever path the query has. It tells how far it is
/// every [`PROGRESS_INTERVAL`](crate::limits::PROGRESS_INTERVAL), and by a glob where the first
/// matches are as soon as they are found.
pub(crate) fn find_at(
    workspace: &Workspace,
    query: &NameQuery,
    at: &Resolved,
    cancel: &Cancel<'_>,
    watch: &Watch<'_>,
) -> Result<FoundPaths, ToolError> {
    let offset = query.offset as usize;
    if offset > ENTRIES_GATHERED {
        let message = format!("offset is at most {ENTRIES_GATHERED}; narrow the pattern instead");
        return Err(ToolError::invalid(message));
    }
    let limit = query.max_results.map_or(ENTRIES, |most| most as usize).clamp(1, ENTRIES);
    let mut pattern = match query.how {
        NameMatch::Glob => Either::Glob(PathGlob::parse(&query.pattern)?),
        NameMatch::Fuzzy => Either::Fuzzy(Fuzzy::parse(&query.pattern)?),
    };
    let ignored = Ignored::shown_if(query.include_ignored);
    let budget = Budget::new(cancel);
    let walk = Walk::new(workspace, at, usize::MAX, Order::ByName, ignored, budget)?;
    let (top, pace) = (at.path(), Pace::begin());
    let mut look = Look { walk, top, watch, seen: 0, found: 0, pace };
    let (passed, entries) = match &mut pattern {
        Either::Glob(glob) => look.in_order(glob, offset, limit),
        Either::Fuzzy(fuzzy) => look.by_score(fuzzy, offset, limit),
    };
    let left_out = look.found - passed - entries.len();
    let is_enough = matches!(pattern, Either::Glob(_)) && left_out == ENTRIES_GATHERED;
    Ok(Names {
        path: at.path().to_owned(),
        entries,
        passed,
        left_out,
        stop: look.walk.stop().or(is_enough.then_some(Stop::Enough)),
        unreadable: look.walk.unreadable(),
        cut: look.walk.cut(),
    })
}

enum Either {
    Glob(PathGlob),
    Fuzzy(Fuzzy),
}

/// A walk that counts what it finds, and tells of it.
struct Look<'a> {
    walk: Walk<'a>,
    /// Where it begins, in the words of the session.
    top: &'a Path,
    watch: &'a Watch<'a>,
    /// How many entries it saw, and how many of them match.
    seen: usize,
    found: usize,
    pace: Pace,
}

impl Look<'_> {
    /// Takes the matches as they come, and counts the rest up to a bound.
    fn in_order(
        &mut self,
        glob: &PathGlob,
        offset: usize,
        limit: usize,
    ) -> (usize, Vec<FoundPath>) {
        let next = |look: &mut Self| look.next(|path| glob.matches(path).then_some(()));
        let passed = from_fn(|| next(self)).take(offset).count();
        let mut entries = Vec::new();
        while entries.len() < limit
            && let Some((_, found)) = next(self)
        {
            entries.push(found);
            if entries.len() <= MATCH_LOCATIONS {
                let first = locations(self.top, &entries).collect();
                self.tell(Some(first));
            }
        }
        from_fn(|| next(self)).take(ENTRIES_GATHERED).for_each(drop);
        (passed, entries)
    }

    fn tell(&self, locations: Option<Vec<Location>>) {
        (self.watch)(Seen { files: self.seen, known: None, matches: self.found, locations });
    }

    /// Looks at all, and keeps the best.
    fn by_score(
        &mut self,
        fuzzy: &mut Fuzzy,
        offset: usize,
        limit: usize,
    ) -> (usize, Vec<FoundPath>) {
        let mut best = Best::of(offset + limit);
        while let Some((score, found)) = self.next(|path| fuzzy.score(path)) {
            best.add(score, found);
        }
        (offset.min(self.found), best.into_sorted().skip(offset).collect())
    }

    /// Returns the next match, and what the pattern says of it.
    fn next<T>(&mut self, mut matches: impl FnMut(&Path) -> Option<T>) -> Option<(T, FoundPath)> {
        loop {
            let found = self.walk.next()?;
            self.seen += 1;
            if self.pace.is_due() {
                self.tell(None);
            }
            if let Some(what) = matches(&found.path) {
                self.found += 1;
                let is_directory = found.kind == Kind::Directory;
                return Some((what, FoundPath { path: found.path, is_directory }));
            }
        }
    }
}

impl FoundPaths {
    /// Returns the offset to go on with, if there is more to show.
    #[must_use]
    pub fn next_offset(&self) -> Option<usize> {
        let next = self.passed + self.entries.len();
        (self.left_out > 0 && next <= ENTRIES_GATHERED).then_some(next)
    }

    /// Returns the paths as text, one a line, relative to `cwd` where they are inside of it.
    #[must_use]
    pub fn to_text(&self, workspace: &Workspace) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            text.push_str(&workspace.display(&self.absolute(entry)));
            text.push_str(if entry.is_directory { "/\n" } else { "\n" });
        }
        if self.entries.is_empty() {
            text.push_str(&match self.passed {
                0 => "[no name matches]\n".to_owned(),
                passed => format!("[no more matches: there are {passed}]\n"),
            });
        }
        text + &self.ending(self.next_offset())
    }

    /// Returns the first paths as locations, for a client to follow.
    pub fn locations(&self) -> impl Iterator<Item = Location> {
        locations(&self.path, &self.entries)
    }

    /// Returns the absolute path of an entry.
    #[must_use]
    pub(crate) fn absolute(&self, entry: &FoundPath) -> PathBuf {
        self.path.join(&entry.path)
    }
}

fn locations(top: &Path, entries: &[FoundPath]) -> impl Iterator<Item = Location> {
    let first = entries.iter().take(MATCH_LOCATIONS);
    first.filter_map(|entry| Location::try_new(top.join(&entry.path)).ok())
}

#[cfg(test)]
mod tests;
