//! Write-ahead journals: after a crash, the next start reverts the files of an unfinished call and
//! removes its temporary files.
//!
//! Each call has one journal file. The process that runs the call keeps the journal locked. A
//! journal has three lines: the file names, then the ids of the temporary files, then a mark that
//! the call is complete. Files are compared by their id, never by their time.
//!
//! The journal of a call that only exchanges one file is not synced. An additional line contains
//! the boot in which the call runs. If the system has been restarted since, the file is not
//! reverted, because it is complete in any case, and its call may have been reported as complete.

mod replay;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::Durability;
use crate::files::state::create_private_folder;
#[cfg(all(test, unix))]
use crate::files::system::simulated_file_system;
use crate::files::system::{FileId, PinnedDirectory, boot_id, link_count};
use crate::limits::{MAX_JOURNAL_BYTES, MAX_OPEN_TRIES};

pub(crate) use self::replay::{recover_unlocked_journals, remove_tree};

/// The journal of one call. Dropping the journal removes its file.
#[derive(Debug)]
pub(crate) struct RollbackJournal {
    pub(in crate::files) path: PathBuf,
    file: File,
    bytes: u64,
    /// Whether the call is not reverted after a restart of the system.
    is_bound_to_boot: bool,
    is_kept_on_drop: bool,
}

/// One line of a journal.
#[derive(Debug, Serialize, Deserialize)]
enum JournalRecord {
    /// The files that the call will create.
    Begin(Vec<JournaledFile>),
    /// The id of the boot in which the call runs. In a later boot, the call is not reverted.
    Boot(String),
    /// All temporary files are written. After this record, the files are moved into place.
    Ready(Vec<PlannedWrite>),
    /// All files are in place.
    Done,
}

/// A file and its temporary file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::files) struct JournaledFile {
    /// The path of the directory; it may be invalid UTF-8.
    pub(in crate::files) dir: OsString,
    pub(in crate::files) name: OsString,
    pub(in crate::files) temporary: OsString,
    /// The missing directories above the file, outermost first.
    pub(in crate::files) made: Vec<OsString>,
    /// The directory of the temporary files, e.g. of the copies from which a torn file is repaired.
    /// `None` if this is the directory of the file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::files) copies: Option<OsString>,
}

/// The way in which a file will be written.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::files) struct PlannedWrite {
    pub(in crate::files) way: JournalWriteKind,
    /// The id of the temporary file. For an entry that is moved aside, the id of this entry.
    pub(in crate::files) ours: FileId,
    /// The id of the old file, if an old file exists.
    pub(in crate::files) old: Option<FileId>,
    /// The hash of the new content. For a link, the hash of its target.
    pub(in crate::files) after: [u8; 32],
    /// The kind of an added entry.
    #[serde(default, skip_serializing_if = "JournalEntryKind::is_file")]
    pub(in crate::files) kind: JournalEntryKind,
    /// The mode of a file that is written in place, before and after the write. `None` if the mode
    /// does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::files) modes: Option<(u32, u32)>,
}

/// The kind of an entry that a call adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::files) enum JournalEntryKind {
    #[default]
    File,
    Link,
    Directory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::files) enum JournalWriteKind {
    Add,
    Replace,
    InPlace,
    /// The entry was moved to the temporary name and will be removed at the end.
    Aside,
}

impl PlannedWrite {
    /// Creates the record of a write of a file whose mode does not change.
    pub(in crate::files) fn new(
        way: JournalWriteKind,
        ours: FileId,
        old: Option<FileId>,
        after: [u8; 32],
    ) -> Self {
        Self { way, ours, old, after, kind: JournalEntryKind::File, modes: None }
    }
}

impl JournalEntryKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_file(&self) -> bool {
        *self == Self::File
    }
}

impl RollbackJournal {
    /// Begins a journal in a folder. A missing folder is created.
    pub(in crate::files) fn begin(folder: &Path, names: Vec<JournaledFile>) -> io::Result<Self> {
        #[cfg(all(test, unix))]
        simulated_file_system::before_change()?;
        create_private_folder(folder)?;
        for _ in 0..MAX_OPEN_TRIES {
            let file = tempfile::Builder::new().prefix(JOURNAL_PREFIX).tempfile_in(folder)?;
            let (file, path) = file.keep().map_err(|error| error.error)?;
            // Ignore a failure to lock. On a file system without locks, other processes cannot lock
            // the journal either, so they do not replay it.
            drop(file.lock());
            // Another process may have removed the empty file before this process locked it.
            if link_count(&file.metadata()?) > 0 {
                let mut journal =
                    Self { path, file, bytes: 0, is_bound_to_boot: false, is_kept_on_drop: false };
                journal.append_record(&JournalRecord::Begin(names))?;
                return Ok(journal);
            }
        }
        Err(io::Error::other("another process removes the journal again and again"))
    }

    /// Begins the journal of an entry that is moved to a temporary name.
    pub(crate) fn begin_quarantine(
        folder: &Path,
        dir: &Path,
        name: &OsStr,
        temporary: &OsStr,
    ) -> io::Result<Self> {
        let [name, temporary] = [name, temporary].map(OsStr::to_owned);
        let (dir, made) = (dir.into(), Vec::new());
        let names = JournaledFile { dir, name, temporary, made, copies: None };
        let mut journal = Self::begin(folder, vec![names])?;
        let aside = PlannedWrite::new(JournalWriteKind::Aside, (0, 0), None, [0; 32]);
        journal.write_ready(vec![aside])?;
        Ok(journal)
    }

    pub(in crate::files) fn write_ready(&mut self, prepared: Vec<PlannedWrite>) -> io::Result<()> {
        self.append_record(&JournalRecord::Ready(prepared))
    }

    /// Binds the journal to this boot of the system, unless the system has no boot id. A restart
    /// of the system then ends the call as it is, so each of its files must be complete.
    pub(in crate::files) fn bind_to_boot(&mut self) -> io::Result<()> {
        let Some(boot) = boot_id() else { return Ok(()) };
        self.append_record(&JournalRecord::Boot(boot.to_owned()))?;
        self.is_bound_to_boot = true;
        Ok(())
    }

    /// Records that the call is complete, and waits until a power failure cannot revert the call
    /// any more. Once the record is written, an error is ignored, because the call cannot be
    /// reverted any more.
    pub(crate) fn write_done(&mut self, durability: Durability) -> io::Result<()> {
        self.append_record(&JournalRecord::Done)?;
        if !self.is_bound_to_boot {
            drop(self.sync(durability));
        }
        Ok(())
    }

    /// Waits until the content of the journal is on the disk, if the durability requires it.
    pub(in crate::files) fn sync(&self, durability: Durability) -> io::Result<()> {
        durability.sync_file(&self.file)
    }

    /// Waits until the file name of the journal is on the disk, if the durability requires it.
    pub(in crate::files) fn sync_name(&self, durability: Durability) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        durability.sync_directory(&PinnedDirectory::pin(folder)?.open_dir(Path::new(""))?)
    }

    /// Keeps the journal for the next start, which finishes the work.
    pub(crate) fn keep_for_replay(&mut self) {
        self.is_kept_on_drop = true;
    }

    fn append_record(&mut self, line: &JournalRecord) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.bytes += text.len() as u64;
        if self.bytes > MAX_JOURNAL_BYTES {
            return Err(io::Error::other("the journal would be too long"));
        }
        #[cfg(all(test, unix))]
        simulated_file_system::before_change()?;
        self.file.write_all(&text)
    }
}

impl Drop for RollbackJournal {
    fn drop(&mut self) {
        #[cfg(all(test, unix))]
        if simulated_file_system::before_change().is_err() {
            return;
        }
        if !self.is_kept_on_drop {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Returns a unique name for a temporary file.
pub(crate) fn unique_temporary_name() -> OsString {
    temporary_name(random_call_number(), 0)
}

/// Returns a unique number for a call.
pub(in crate::files) fn random_call_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns the name of one of the temporary files of a call.
pub(in crate::files) fn temporary_name(call: u64, number: usize) -> OsString {
    format!("{TEMPORARY_PREFIX}{call:016x}-{number}{TEMPORARY_SUFFIX}").into()
}

/// Returns the name that the old file has while the new file is moved into place.
pub(in crate::files) fn old_file_name(temporary: &OsStr) -> OsString {
    let mut name = temporary.to_owned();
    name.push("-old");
    name
}

/// Returns the name of the file that holds the new content of a file that is written in place. The
/// copy of the old content is in the same directory.
pub(in crate::files) fn in_place_new_content_name(temporary: &OsStr) -> OsString {
    let mut name = temporary.to_owned();
    name.push("-new");
    name
}

const JOURNAL_PREFIX: &str = "call-";
const TEMPORARY_PREFIX: &str = ".acp-tools-";
const TEMPORARY_SUFFIX: &str = ".tmp";
