//! The entries of the last snapshot of a session, with copies of the files.

mod copies;
mod recordings;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::files::system::{Dir, EntryMetadata, FileKind};
use crate::limits::{MAX_SNAPSHOT_BYTES, MAX_SNAPSHOT_FILE_BYTES};
use crate::lock::lock;

use self::recordings::{Recordings, RunningRecording};

pub(in crate::files) use self::copies::{ContentCopies, ContentCopy};

/// The entries of the last snapshot of a session, whose copies the next snapshot uses.
#[derive(Debug, Default)]
pub(crate) struct SnapshotStore {
    last: Mutex<LastSnapshot>,
    recordings: Arc<Recordings>,
}

#[derive(Debug, Default)]
struct LastSnapshot {
    entries: Arc<SnapshotEntries>,
    copies: Option<Arc<ContentCopies>>,
    /// The last prompt in which the project folders had too many entries.
    too_large_in: Option<u32>,
}

/// Entries by their absolute paths.
pub(in crate::files) type SnapshotEntries = HashMap<PathBuf, SnapshotEntry>;

/// A directory entry in a snapshot.
#[derive(Debug, Clone)]
pub(in crate::files) struct SnapshotEntry {
    pub(in crate::files) metadata: EntryMetadata,
    pub(in crate::files) content: EntryContent,
}

/// The kind of an entry, and its content.
#[derive(Debug, Clone)]
pub(in crate::files) enum EntryContent {
    Directory,
    Link(OsString),
    /// A file. `None` if its content was not copied.
    File(Option<ContentCopy>),
    /// A FIFO, socket or device.
    Special,
}

impl SnapshotStore {
    /// Returns the entries of the last snapshot, and the copies of their files. Starts again in
    /// `folder` without entries if there is no room for more copies, and many are outdated.
    pub(in crate::files) fn last_or_new(
        &self,
        folder: &Path,
    ) -> io::Result<(Arc<SnapshotEntries>, Arc<ContentCopies>)> {
        let mut last = lock(&self.last);
        let copies = match last.copies.clone() {
            Some(copies) if !copies.is_full() || !last.is_restart_useful() => copies,
            _ => {
                let copies = Arc::new(ContentCopies::create(folder)?);
                *last = LastSnapshot { copies: Some(copies.clone()), ..LastSnapshot::default() };
                copies
            }
        };
        Ok((last.entries.clone(), copies))
    }

    /// Returns whether the project folders had too many entries before, in the same prompt.
    pub(in crate::files) fn is_too_large_in_prompt(&self, prompt: u32) -> bool {
        lock(&self.last).too_large_in == Some(prompt)
    }

    /// Records that the project folders have too many entries, and removes all copies.
    pub(in crate::files) fn set_too_large_in_prompt(&self, prompt: u32) {
        *lock(&self.last) = LastSnapshot { too_large_in: Some(prompt), ..LastSnapshot::default() };
    }

    /// Returns whether [`Self::last_or_new`] would start again.
    pub(in crate::files) fn is_restart_due(&self) -> bool {
        let last = lock(&self.last);
        last.copies.as_ref().is_some_and(|it| it.is_full()) && last.is_restart_useful()
    }

    /// Announces a recording, which runs until the returned value is dropped.
    pub(crate) fn begin_recording(&self) -> RunningRecording {
        RunningRecording::begin(&self.recordings)
    }

    /// Waits until the changes of all ended commands are recorded, but no longer than
    /// [`MAX_RECORDING_WAIT`](crate::limits::MAX_RECORDING_WAIT).
    pub(in crate::files) fn wait_for_recordings(&self, is_cancelled: &dyn Fn() -> bool) {
        self.recordings.wait(is_cancelled);
    }

    /// Sets the entries of the last snapshot, unless other copies are in use by now.
    pub(in crate::files) fn set_last_if_copies_current(
        &self,
        entries: Arc<SnapshotEntries>,
        copies: &Arc<ContentCopies>,
    ) {
        let mut last = lock(&self.last);
        if last.copies.as_ref().is_some_and(|used| Arc::ptr_eq(used, copies)) {
            last.entries = entries;
        }
    }
}

impl LastSnapshot {
    /// Returns whether a new file with copies would have room for all contents, or for many more
    /// contents than the current one.
    fn is_restart_useful(&self) -> bool {
        let (mut used, mut needed) = (0, 0);
        for entry in self.entries.values() {
            let EntryContent::File(copy) = &entry.content else { continue };
            used += copy.as_ref().map_or(0, |copy| copy.bytes);
            let bytes = entry.metadata.bytes;
            needed += if bytes > MAX_SNAPSHOT_FILE_BYTES { 0 } else { bytes };
        }
        needed <= MAX_SNAPSHOT_BYTES || used <= MAX_SNAPSHOT_BYTES / 4 * 3
    }
}

impl SnapshotEntry {
    /// Reads an entry. Copies the content of a file if `earlier` has no copy of it. `started` is
    /// the time before the snapshot.
    pub(in crate::files) fn read_and_copy_content(
        dir: &Dir,
        path: &Path,
        metadata: EntryMetadata,
        earlier: Option<&Self>,
        copies: &ContentCopies,
        started: i128,
    ) -> Self {
        let mut entry = Self::read_without_copying(dir, path, metadata);
        if let EntryContent::File(copy) = &mut entry.content {
            *copy = match earlier {
                Some(Self { metadata: before, content: EntryContent::File(Some(copy)) })
                    if *before == metadata && copy.is_settled =>
                {
                    Some(copy.clone())
                }
                _ => {
                    let name = path.file_name().unwrap_or_default();
                    copies.copy_file(dir, name, &metadata, started).ok().flatten()
                }
            };
        }
        entry
    }

    /// Returns whether another look at the same path has found exactly the same entry. A file that
    /// has changed shortly before the snapshot may be the same only by its metadata.
    pub(in crate::files) fn is_surely_same(&self, now: &Self) -> bool {
        match (&self.content, &now.content) {
            (EntryContent::File(copy), EntryContent::File(_)) => {
                self.metadata == now.metadata && copy.as_ref().is_none_or(|copy| copy.is_settled)
            }
            (EntryContent::Link(target), EntryContent::Link(now)) => target == now,
            (EntryContent::Directory, EntryContent::Directory)
            | (EntryContent::Special, EntryContent::Special) => {
                self.metadata.mode == now.metadata.mode
            }
            _ => false,
        }
    }

    /// Reads an entry without the content of a file.
    pub(in crate::files) fn read_without_copying(
        dir: &Dir,
        path: &Path,
        metadata: EntryMetadata,
    ) -> Self {
        let content = match metadata.kind {
            FileKind::Directory => EntryContent::Directory,
            FileKind::File => EntryContent::File(None),
            FileKind::Special => EntryContent::Special,
            FileKind::Link => {
                let target = dir.read_link(path.file_name().unwrap_or_default());
                target.map_or(EntryContent::Special, EntryContent::Link)
            }
        };
        Self { metadata, content }
    }
}
