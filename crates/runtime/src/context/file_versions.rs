//! What the files that the model knows looked like when it came to know them, so that it is told
//! which of them have changed since.
//!
//! It knows nothing of what is in a file: it compares.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use acp_tools::Workspace;

use crate::limits::{MAX_HASHED_FILE_BYTES, MAX_LISTED_FILE_CHANGES, MAX_TRACKED_FILES};

/// What a file looked like at one moment.
#[derive(Clone, Debug)]
pub(super) struct FileVersion {
    len: u64,
    modified: Option<SystemTime>,
    /// The hash of its content; `None` for a file that is too large to be read for this.
    content: Option<u64>,
}

impl PartialEq for FileVersion {
    /// A file that was written anew with the same content is the same.
    fn eq(&self, other: &Self) -> bool {
        let is_untouched = self.modified.is_some() && self.modified == other.modified;
        self.len == other.len
            && match (self.content, other.content) {
                (Some(one), Some(other)) => one == other,
                _ => is_untouched,
            }
    }
}

impl FileVersion {
    /// Looks at a file, if there is one, and returns it from its beginning.
    pub(super) fn open_file(workspace: &Workspace, path: &Path) -> Option<(Self, File)> {
        let mut file = workspace.open_existing_file(path)?;
        let stamp = Self::read_file(&mut file).ok()?;
        Some((stamp, file))
    }

    fn read_file(file: &mut File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let (len, modified) = (metadata.len(), metadata.modified().ok());
        let content =
            if len <= MAX_HASHED_FILE_BYTES { Some(hash_content(file, len)?) } else { None };
        file.rewind()?;
        Ok(Self { len, modified, content })
    }

    /// Returns whether the file is still as it was. One whose size and time are the same is not
    /// read.
    pub(super) fn compare(&mut self, workspace: &Workspace, path: &Path) -> FileComparison {
        let Some(mut file) = workspace.open_existing_file(path) else {
            return FileComparison::Deleted;
        };
        let is_untouched = file.metadata().is_ok_and(|metadata| {
            metadata.len() == self.len
                && self.modified.is_some()
                && metadata.modified().ok() == self.modified
        });
        if is_untouched {
            return FileComparison::Unchanged;
        }
        match Self::read_file(&mut file) {
            Ok(now) if now == *self => {
                // With the new time, so that it is not read again each time.
                *self = now;
                FileComparison::Unchanged
            }
            _ => FileComparison::Changed,
        }
    }
}

/// Whether a file is still as it was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileComparison {
    Unchanged,
    Changed,
    Deleted,
}

/// Hashes what is left of a file of about `len` bytes, but no more than a file may have that is
/// hashed.
fn hash_content(file: &mut File, len: u64) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    // Room for all of it and its end: else it would be read in small pieces.
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0).saturating_add(1));
    file.take(MAX_HASHED_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    hasher.write(&bytes);
    Ok(hasher.finish())
}

/// The files that the model knows, the one it came to know last at the end.
#[derive(Debug, Default)]
pub(crate) struct FileVersions(VecDeque<(PathBuf, FileVersion)>);

impl FileVersions {
    /// Notes what a file looks like that the model has just read or written. Blocks.
    pub(crate) fn record(&mut self, workspace: &Workspace, path: &Path) {
        self.0.retain(|(known, _)| known != path);
        if let Some((stamp, _)) = FileVersion::open_file(workspace, path) {
            if self.0.len() >= MAX_TRACKED_FILES {
                self.0.pop_front();
            }
            self.0.push_back((path.to_owned(), stamp));
        }
    }

    /// Says which files have changed since the model read or wrote them, and forgets these: it
    /// does not know them any more. Blocks.
    pub(crate) fn take_changes(&mut self, workspace: &Workspace) -> Option<String> {
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        self.0.retain_mut(|(path, stamp)| {
            let holds = stamp.compare(workspace, path);
            match holds {
                FileComparison::Unchanged => {}
                FileComparison::Changed => changed.push(workspace.display(path)),
                FileComparison::Deleted => gone.push(workspace.display(path)),
            }
            holds == FileComparison::Unchanged
        });
        let mut news = String::new();
        let what = "These files were changed by somebody else, or by a command, since you read or \
                    wrote them last; read them again before you rely on them:";
        append_list(&mut news, what, &changed);
        append_list(&mut news, "These files, which you have read or written, are gone:", &gone);
        (!news.is_empty()).then_some(news)
    }
}

fn append_list(text: &mut String, what: &str, paths: &[String]) {
    if paths.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(what);
    for path in paths.iter().take(MAX_LISTED_FILE_CHANGES) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n- {path}");
    }
    if let Some(more @ 1..) = paths.len().checked_sub(MAX_LISTED_FILE_CHANGES) {
        let _ = write!(text, "\n- and {more} more");
    }
}

#[cfg(test)]
mod tests;
