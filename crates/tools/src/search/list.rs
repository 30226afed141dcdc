//! Lists the entries of a directory and of its subdirectories.

use callboard_text::{grouped_count_with_noun, path_text};
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::error::ToolError;
use crate::files::system::FileKind;
use crate::files::walk::{
    EarlyStop, IgnoredFiles, IsCancelled, SearchBudget, Walk, WalkEntry, WalkOrder,
};
use crate::files::workspace::{Workspace, WorkspacePath, open};
use crate::limits::{MAX_ENTRIES_GATHERED, MAX_ENTRIES_SHOWN, MAX_LIST_DEPTH};
use crate::progress::ProgressThrottle;
use crate::search::EntryPage;

/// The entries of a directory. Directories come before other entries, and entries are ordered by
/// name. Each directory is followed by its own entries.
pub type Listing = EntryPage<ListEntry>;

/// One entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListEntry {
    /// The path relative to the listed directory.
    pub path: PathBuf,
    /// The kind of the entry.
    pub kind: ListEntryKind,
}

/// The kind of an entry in a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListEntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// The size of the file in bytes.
        bytes: u64,
    },
    /// A symbolic link, which is not followed.
    Link {
        /// The path that the link contains.
        target: PathBuf,
    },
    /// A FIFO, socket or device.
    Special,
}

/// The parameters of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListQuery {
    /// The directory to list.
    pub path: String,
    /// Number of levels to show. The default is 1. The maximum is 10.
    pub depth: Option<u32>,
    /// Whether to include entries that `.gitignore` and similar files exclude.
    pub include_ignored: bool,
    /// Number of entries to skip before the first entry that is shown.
    pub offset: u32,
}

impl ListQuery {
    /// Creates the query for a listing of a directory.
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), depth: None, include_ignored: false, offset: 0 }
    }
}

/// Lists a directory, and its subdirectories if requested.
///
/// Hidden files are included, except `.git`. Ignored files are only included on request. After 20
/// s, the listing stops. The result is then partial, and reports the timeout.
///
/// # Errors
///
/// The errors of [`Workspace::resolve`]; `not_found`, `not_a_directory`, `not_permitted`.
pub fn list(
    workspace: &Workspace,
    query: &ListQuery,
    cancel: &IsCancelled<'_>,
) -> Result<Listing, ToolError> {
    list_at(workspace, query, &workspace.resolve(&query.path)?, cancel, &|_| {})
}

/// Lists a directory in the same way as [`list`]. The inspected path `at` replaces the path of the
/// query. Reports the number of entries every
/// [`PROGRESS_INTERVAL`](crate::limits::PROGRESS_INTERVAL).
pub(crate) fn list_at(
    workspace: &Workspace,
    query: &ListQuery,
    at: &WorkspacePath,
    cancel: &IsCancelled<'_>,
    watch: &dyn Fn(usize),
) -> Result<Listing, ToolError> {
    let (mut pace, mut seen) = (ProgressThrottle::begin(), 0);
    let mut count = |_: &WalkEntry| {
        seen += 1;
        if pace.restart_if_due_now() {
            watch(seen);
        }
    };
    let depth = query.depth.unwrap_or(1).clamp(1, MAX_LIST_DEPTH) as usize;
    let (ignored, budget) =
        (IgnoredFiles::include_if(query.include_ignored), SearchBudget::new(cancel));
    let mut walk = Walk::new(workspace, at, depth, WalkOrder::DirectoriesFirst, ignored, budget)?;
    let passed = walk.by_ref().inspect(&mut count).take(query.offset as usize).count();
    let mut entries = Vec::new();
    while entries.len() < MAX_ENTRIES_SHOWN
        && let Some(found) = walk.next()
    {
        count(&found);
        let kind = entry_kind(workspace, &walk.workspace_path(&found.path), found.kind);
        entries.push(ListEntry { path: found.path, kind });
    }
    let left_out = walk.by_ref().inspect(count).take(MAX_ENTRIES_GATHERED).count();
    Ok(EntryPage {
        path: at.path().to_owned(),
        entries,
        skipped_entries: passed,
        omitted_entries: left_out,
        stop: walk
            .early_stop()
            .or((left_out == MAX_ENTRIES_GATHERED).then_some(EarlyStop::LimitReached)),
        unreadable: walk.unreadable_directory_count(),
        truncated_directories: walk.truncated_directory_count(),
    })
}

fn entry_kind(workspace: &Workspace, at: &WorkspacePath, kind: FileKind) -> ListEntryKind {
    match kind {
        FileKind::Directory => ListEntryKind::Directory,
        FileKind::Special => ListEntryKind::Special,
        FileKind::File => ListEntryKind::File {
            bytes: workspace.metadata(at).map_or(0, |metadata| metadata.len()),
        },
        FileKind::Link => ListEntryKind::Link { target: open::read_link(at).unwrap_or_default() },
    }
}

impl Listing {
    /// Returns the offset of the next page, or `None` if this is the last page.
    #[must_use]
    pub fn next_offset(&self) -> Option<usize> {
        (self.omitted_entries > 0).then_some(self.skipped_entries + self.entries.len())
    }

    /// Returns the directory listing as text, one entry per line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for ListEntry { path, kind } in &self.entries {
            let path = path_text(path);
            // Writing to a String cannot fail.
            let _ = match kind {
                ListEntryKind::Directory => writeln!(text, "{path}/"),
                ListEntryKind::File { bytes } => {
                    writeln!(text, "{path} ({})", grouped_count_with_noun(*bytes, "byte", "bytes"))
                }
                ListEntryKind::Link { target } => writeln!(text, "{path} -> {}", path_text(target)),
                ListEntryKind::Special => writeln!(text, "{path} (FIFO, socket or device)"),
            };
        }
        if self.entries.is_empty() {
            text.push_str(match self.skipped_entries {
                0 => "[nothing here, or only what .gitignore hides]\n",
                _ => "[nothing more here]\n",
            });
        }
        text + &self.omission_footer(self.next_offset())
    }
}

#[cfg(test)]
mod tests {
    use super::{EntryPage, ListQuery, Listing, list};
    use crate::error::ErrorCode;
    use crate::files::walk::EarlyStop;
    use crate::files::workspace::testing::{TestWorkspace, test_workspace};
    use crate::limits::MAX_ENTRIES_SHOWN;
    use pretty_assertions::assert_eq;

    fn listed(tree: &TestWorkspace, path: &str, depth: Option<u32>) -> Listing {
        let query = ListQuery { depth, ..ListQuery::new(path) };
        list(&tree.workspace, &query, &|| false).unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_listing_has_directories_first_and_sizes_and_links() {
        let tree = test_workspace(&[
            ("b/c/d.txt", "12345"),
            ("b/.hidden", ""),
            ("a.txt", &"x".repeat(1_234)),
            ("z/", ""),
            (".gitignore", "*.o\n/target/\n!keep.o\n"),
            ("x.o", ""),
            ("keep.o", ""),
            ("target/x", ""),
            ("b/target/x", ""),
            (".git/config", ""),
        ]);
        tree.link("link", "/etc");
        tree.fifo("fifo");
        assert_eq!(
            listed(&tree, ".", None).to_text(),
            "b/\nz/\n.gitignore (21 bytes)\na.txt (1,234 bytes)\nfifo (FIFO, socket or device)\n\
             keep.o (0 bytes)\nlink -> /etc\n"
        );
        assert_eq!(
            listed(&tree, "b", Some(9)).to_text(),
            "c/\nc/d.txt (5 bytes)\ntarget/\ntarget/x (0 bytes)\n.hidden (0 bytes)\n"
        );
        assert_eq!(listed(&tree, "b", Some(0)).entries.len(), 3);
        tree.write("d/e/e/p/e/r/t/h/a/n/t/e/n", "");
        assert_eq!(listed(&tree, "d", Some(99)).entries.len(), 10);
        // If a call names a directory, the directory is listed even if it is ignored.
        assert_eq!(listed(&tree, "target", None).to_text(), "x (0 bytes)\n");
        assert!(listed(&tree, "z", None).to_text().contains("nothing here"));
    }

    #[test]
    fn rules_nearer_to_a_file_overrule_those_above() {
        let tree = test_workspace(&[
            (".gitignore", "*.log\n"),
            (".git/info/exclude", "private\n"),
            ("private", ""),
            ("a.log", ""),
            ("dir/.ignore", "!important.log\n"),
            ("dir/important.log", ""),
            ("dir/other.log", ""),
            ("dir/private", ""),
        ]);
        let text = listed(&tree, "dir", None).to_text();
        assert_eq!(text, ".ignore (15 bytes)\nimportant.log (0 bytes)\n");
        let query = ListQuery { include_ignored: true, ..ListQuery::new(".") };
        let all = list(&tree.workspace, &query, &|| false).unwrap().to_text();
        assert_eq!(all, "dir/\n.gitignore (6 bytes)\na.log (0 bytes)\nprivate (0 bytes)\n");
        let text = listed(&tree, ".", Some(2)).to_text();
        assert!(text.contains("dir/important.log") && !text.contains("other.log"), "{text}");
    }

    #[test]
    fn the_rules_of_the_repository_above_the_root_count() {
        let tree = test_workspace(&[("a.log", ""), ("b", "")]);
        std::fs::create_dir(tree.outer_folder().join(".git")).unwrap();
        std::fs::write(tree.outer_folder().join(".gitignore"), "*.log\n").unwrap();
        assert_eq!(listed(&tree, ".", None).to_text(), "b (0 bytes)\n");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn ignore_files_that_are_no_files_do_no_harm() {
        let tree = test_workspace(&[
            ("a/x", ""),
            ("b/x", ""),
            ("c/x", ""),
            ("d/.gitignore", "[\n\u{0}\nx\n"),
            ("d/x", ""),
        ]);
        tree.fifo("a/.gitignore");
        tree.link("b/.gitignore", "/dev/zero");
        tree.link("c/.gitignore", ".gitignore");
        let listing = listed(&tree, ".", Some(2));
        assert_eq!(listing.entries.len(), 11);
        assert_eq!(listing.unreadable, 0);
    }

    #[test]
    fn a_long_listing_is_cut_and_counted() {
        let tree = test_workspace(&[]);
        for name in 0..MAX_ENTRIES_SHOWN + 7 {
            tree.write(&format!("{name:05}"), "");
        }
        let listing = listed(&tree, ".", None);
        assert_eq!((listing.entries.len(), listing.omitted_entries), (MAX_ENTRIES_SHOWN, 7));
        let more = "[7 more; narrow the path or the pattern, or continue with offset 1000]\n";
        assert!(listing.to_text().ends_with(more));
        let query = ListQuery { offset: 1_000, ..ListQuery::new(".") };
        let rest = list(&tree.workspace, &query, &|| false).unwrap();
        assert_eq!((rest.entries.len(), rest.omitted_entries, rest.next_offset()), (7, 0, None));
        assert_eq!(rest.entries[0].path.to_str(), Some("01000"));
        let query = ListQuery { offset: 1_007, ..ListQuery::new(".") };
        let nothing = list(&tree.workspace, &query, &|| false).unwrap();
        assert_eq!(nothing.to_text(), "[nothing more here]\n");
        let listing = list(&tree.workspace, &ListQuery::new("."), &|| true).unwrap();
        assert_eq!((listing.entries.len(), listing.stop), (0, Some(EarlyStop::Cancelled)));
    }

    #[test]
    fn a_directory_with_too_many_entries_is_not_reported_as_unreadable() {
        let names = |unreadable, cut| {
            let (path, entries) = ("/a".into(), vec![(); 3]);
            EntryPage {
                path,
                entries,
                skipped_entries: 0,
                omitted_entries: 0,
                stop: None,
                unreadable,
                truncated_directories: cut,
            }
        };
        let said = "[2 directories have more than 500,000 entries: the rest is not shown]\n";
        assert_eq!(names(0, 2).omission_footer(None), said);
        assert_eq!(names(2, 0).omission_footer(None), "[2 directories could not be read]\n");
    }

    #[test]
    fn only_directories_are_listed() {
        let tree = test_workspace(&[("file", "")]);
        for (path, code) in [
            ("file", ErrorCode::NotADirectory),
            ("nothing", ErrorCode::NotFound),
            ("..", ErrorCode::OutsideRoots),
        ] {
            let error = list(&tree.workspace, &ListQuery::new(path), &|| false).unwrap_err();
            assert_eq!(error.code(), Some(code), "{path}");
        }
    }
}
