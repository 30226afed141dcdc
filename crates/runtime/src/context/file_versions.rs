//! Versions of the files that the model has read or written. The versions show which of these files
//! have changed since.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _, Seek as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use acp_tools::Workspace;
use callboard_text::{path_text, unquote_path};
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_HASHED_FILE_BYTES, MAX_LISTED_FILE_CHANGES, MAX_TRACKED_FILES};

/// The size, the modification time and the content hash of a file at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileVersion {
    len: u64,
    modified: Option<SystemTime>,
    /// Hash of the file's content. `None` if the file is too large to be hashed.
    content: Option<u64>,
}

impl PartialEq for FileVersion {
    /// Two versions with the same content are equal, even if their modification times differ.
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
    /// Opens an existing file, and returns its version. The returned file is at its start.
    pub(super) fn open_with_version(workspace: &Workspace, path: &Path) -> Option<(Self, File)> {
        let mut file = workspace.open_read_if_exists(path)?;
        let stamp = Self::read_version_of_file(&mut file).ok()?;
        Some((stamp, file))
    }

    fn read_version_of_file(file: &mut File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let (len, modified) = (metadata.len(), metadata.modified().ok());
        let content =
            if len <= MAX_HASHED_FILE_BYTES { Some(hash_content(file, len)?) } else { None };
        file.rewind()?;
        Ok(Self { len, modified, content })
    }

    /// Compares the file with this recorded version. If the size and the modification time are the
    /// same, the file is not read.
    pub(super) fn compare_with_file(
        &mut self,
        workspace: &Workspace,
        path: &Path,
    ) -> FileComparison {
        let is_untouched = |metadata: Metadata| {
            metadata.is_file()
                && metadata.len() == self.len
                && self.modified.is_some()
                && metadata.modified().ok() == self.modified
        };
        // Each request compares all known files, and most of them are untouched, so they are not
        // opened for this.
        if fs::symlink_metadata(path).is_ok_and(is_untouched) {
            return FileComparison::Unchanged;
        }
        let Some(mut file) = workspace.open_read_if_exists(path) else {
            return FileComparison::Deleted;
        };
        if file.metadata().is_ok_and(is_untouched) {
            return FileComparison::Unchanged;
        }
        match Self::read_version_of_file(&mut file) {
            Ok(now) if now == *self => {
                // Stores the new time, so that the next comparison does not read the file again.
                *self = now;
                FileComparison::Unchanged
            }
            _ => FileComparison::Changed,
        }
    }
}

/// The result of comparing a file with a recorded version of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileComparison {
    Unchanged,
    Changed,
    Deleted,
}

/// Hashes a file of about `len` bytes from its current position, up to the maximum size of hashed
/// files.
fn hash_content(file: &mut File, len: u64) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    // The extra byte is for the read that detects the end of the file. With a smaller capacity, the
    // file would be read in small pieces.
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0).saturating_add(1));
    file.take(MAX_HASHED_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    hasher.write(&bytes);
    Ok(hasher.finish())
}

/// Versions of the files that the model has read or written. The version that was recorded last is
/// at the end.
#[derive(Debug, Default)]
pub(crate) struct FileVersions(VecDeque<TrackedFile>);

#[derive(Debug)]
struct TrackedFile {
    path: PathBuf,
    /// The version that the model knows. `None` if the message with this version was removed.
    version: Option<FileVersion>,
    /// Number of the prompt in which the model read or wrote the file.
    prompt: u32,
    /// Whether an earlier process recorded the version, so that the tools of this process do not
    /// know the file yet.
    is_restored: bool,
}

/// A file that the model knows, in the form that is stored with a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownFile {
    /// Absolute path, as text.
    path: String,
    version: Option<FileVersion>,
    prompt: u32,
}

impl FileVersions {
    /// Returns the versions in the form that is stored with a session.
    pub(super) fn to_known_files(&self) -> Vec<KnownFile> {
        let known = self.0.iter().map(|file| KnownFile {
            path: path_text(&file.path).into_owned(),
            version: file.version.clone(),
            prompt: file.prompt,
        });
        known.collect()
    }

    /// Restores the versions of a stored session.
    pub(super) fn from_known_files(files: Vec<KnownFile>) -> Self {
        let files = files.into_iter().take(MAX_TRACKED_FILES);
        let files = files.map(|file| TrackedFile {
            path: unquote_path(&file.path).into_owned(),
            version: file.version,
            prompt: file.prompt,
            is_restored: true,
        });
        Self(files.collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records the current version of a file that the model has just read or written in a prompt.
    /// Blocks while it reads the file.
    pub(crate) fn record_current_version(
        &mut self,
        workspace: &Workspace,
        path: &Path,
        prompt: u32,
    ) {
        self.0.retain(|known| known.path != path);
        if let Some((version, _)) = FileVersion::open_with_version(workspace, path) {
            if self.0.len() >= MAX_TRACKED_FILES {
                self.0.pop_front();
            }
            let (path, version) = (path.to_owned(), Some(version));
            self.0.push_back(TrackedFile { path, version, prompt, is_restored: false });
        }
    }

    /// Removes the versions of files that the model read or wrote after the first `prompts`
    /// prompts. These files are reported to the model once.
    pub(crate) fn forget_versions_after_prompt(&mut self, prompts: u32) {
        for file in self.0.iter_mut().filter(|file| file.prompt > prompts) {
            file.version = None;
        }
    }

    /// Marks the files of a restored session as read in the workspace, unless they have changed or
    /// are too large to be hashed. Blocks while it reads files.
    pub(super) fn mark_unchanged_restored_as_read(&mut self, workspace: &Workspace) {
        for TrackedFile { path, version, is_restored, .. } in &mut self.0 {
            if let Some(version) = version.as_mut().filter(|it| it.content.is_some())
                && mem::take(is_restored)
                && version.compare_with_file(workspace, path) == FileComparison::Unchanged
            {
                workspace.mark_as_read(path);
            }
        }
    }

    /// Lists the files that have changed since the model read or wrote them, and the files of
    /// removed prompts. The versions of the listed files are removed, because the model no longer
    /// knows these files. Blocks while it reads files.
    pub(crate) fn take_changes_report(&mut self, workspace: &Workspace) -> Option<String> {
        let (mut changed, mut gone, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
        self.0.retain_mut(|TrackedFile { path, version, .. }| {
            let list = match version {
                Some(version) => match version.compare_with_file(workspace, path) {
                    FileComparison::Unchanged => return true,
                    FileComparison::Changed => &mut changed,
                    FileComparison::Deleted => &mut gone,
                },
                None if workspace.open_read_if_exists(path).is_some() => &mut forgotten,
                None => &mut gone,
            };
            list.push(workspace.display(path));
            false
        });
        let mut news = String::new();
        let what = "These files were changed by the user, another program or a command since you \
                    last read or wrote them; read them again before you rely on them:";
        append_path_list(&mut news, what, &changed);
        append_path_list(
            &mut news,
            "These files, which you have read or written, are gone:",
            &gone,
        );
        let what = "You read or wrote these files in messages that were removed; read them again \
                    before you rely on them:";
        append_path_list(&mut news, what, &forgotten);
        (!news.is_empty()).then_some(news)
    }
}

fn append_path_list(text: &mut String, what: &str, paths: &[String]) {
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
