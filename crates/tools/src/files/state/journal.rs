//! Which files are on their way, on the disk before they are: after a process was killed, the next
//! one makes all files of its last call the old ones again, and removes what lies beside them.
//!
//! It knows nothing of what is written. A journal is a file of one call, locked as long as its
//! process lives, in three lines: the names, then what tells the files beside the old ones from
//! others, then that all is done. Files are told apart by their identity, never by their time.

mod replay;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::Durability;
use crate::files::state::make_private;
use crate::files::system::{FileId, PinnedDirectory, link_count};
use crate::limits::{MAX_JOURNAL_BYTES, MAX_OPEN_TRIES};

pub(crate) use self::replay::{remove_tree, replay};

/// The journal of one call. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(in crate::files) path: PathBuf,
    file: File,
    bytes: u64,
    is_kept_on_drop: bool,
}

/// One line of a journal.
#[derive(Debug, Serialize, Deserialize)]
enum JournalRecord {
    /// What will be made.
    Begin(Vec<JournalFile>),
    /// All of it is made; from here on it is put in place.
    Ready(Vec<PreparedFile>),
    /// All of it is in its place.
    Done,
}

/// A file and the one beside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::files) struct JournalFile {
    /// The directory, as a name: it may be no text.
    pub(in crate::files) dir: OsString,
    pub(in crate::files) name: OsString,
    pub(in crate::files) temporary: OsString,
    /// The directories that are missing on the way to it, the outermost first.
    pub(in crate::files) made: Vec<OsString>,
    /// The directory of the copies from which it is repaired, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::files) copies: Option<OsString>,
}

/// How a file will be written.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::files) struct PreparedFile {
    pub(in crate::files) way: JournalWriteKind,
    /// What tells the file beside it from others.
    pub(in crate::files) ours: FileId,
    /// What tells the old file from others, if there is one.
    pub(in crate::files) old: Option<FileId>,
    /// The hash of the new content.
    pub(in crate::files) after: [u8; 32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::files) enum JournalWriteKind {
    Add,
    Replace,
    InPlace,
    /// It is out of the way, to be removed when all is done.
    Aside,
}

impl Journal {
    /// Begins a journal in a folder, which is made if need be.
    pub(in crate::files) fn begin(folder: &Path, names: Vec<JournalFile>) -> io::Result<Self> {
        make_private(folder)?;
        for _ in 0..MAX_OPEN_TRIES {
            let file = tempfile::Builder::new().prefix(JOURNAL_PREFIX).tempfile_in(folder)?;
            let (file, path) = file.keep().map_err(|error| error.error)?;
            // Where there are no locks, nobody else begins with what is being written either.
            drop(file.lock());
            // Another process may have found it before it was locked, empty, and removed it.
            if link_count(&file.metadata()?) > 0 {
                let mut journal = Self { path, file, bytes: 0, is_kept_on_drop: false };
                journal.write(&JournalRecord::Begin(names))?;
                return Ok(journal);
            }
        }
        Err(io::Error::other("another process removes it again and again"))
    }

    /// Begins the journal of something that goes out of the way.
    pub(crate) fn begin_quarantine(
        folder: &Path,
        dir: &Path,
        name: &OsStr,
        temporary: &OsStr,
    ) -> io::Result<Self> {
        let [name, temporary] = [name, temporary].map(OsStr::to_owned);
        let (dir, made) = (dir.into(), Vec::new());
        let names = JournalFile { dir, name, temporary, made, copies: None };
        let mut journal = Self::begin(folder, vec![names])?;
        let (way, ours, old, after) = (JournalWriteKind::Aside, (0, 0), None, [0; 32]);
        journal.write_ready(vec![PreparedFile { way, ours, old, after }])?;
        Ok(journal)
    }

    pub(in crate::files) fn write_ready(&mut self, prepared: Vec<PreparedFile>) -> io::Result<()> {
        self.write(&JournalRecord::Ready(prepared))
    }

    pub(crate) fn write_done(&mut self) -> io::Result<()> {
        self.write(&JournalRecord::Done)
    }

    /// Waits until the disk has it, if it is to have anything.
    pub(in crate::files) fn sync(&self, durability: Durability) -> io::Result<()> {
        durability.sync_file(&self.file)
    }

    /// Waits likewise until the disk has its name.
    pub(in crate::files) fn sync_name(&self, durability: Durability) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        durability.sync_directory(&PinnedDirectory::pin(folder)?.open_dir(Path::new(""))?)
    }

    /// Leaves it to the next start, which does what could not be done now.
    pub(crate) fn keep_for_replay(&mut self) {
        self.is_kept_on_drop = true;
    }

    fn write(&mut self, line: &JournalRecord) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.bytes += text.len() as u64;
        if self.bytes > MAX_JOURNAL_BYTES {
            return Err(io::Error::other("it would be too long"));
        }
        self.file.write_all(&text)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.is_kept_on_drop {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Makes the name of a file beside another one, which no other file has.
pub(crate) fn unique_temporary_name() -> OsString {
    temporary_name(call_number(), 0)
}

/// Returns a number for a call that no other one has.
pub(in crate::files) fn call_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Makes the name of a file beside another one, of those of a call.
pub(in crate::files) fn temporary_name(call: u64, number: usize) -> OsString {
    format!("{TEMPORARY_PREFIX}{call:016x}-{number}{TEMPORARY_SUFFIX}").into()
}

/// Returns the name that an old file has while a new one takes its place.
pub(in crate::files) fn old_file_name(temporary: &OsStr) -> OsString {
    let mut name = temporary.to_owned();
    name.push("-old");
    name
}

/// Returns the name of what is to be written in place, beside the copy of what was there.
pub(in crate::files) fn new_content_name(temporary: &OsStr) -> OsString {
    let mut name = temporary.to_owned();
    name.push("-new");
    name
}

const JOURNAL_PREFIX: &str = "call-";
const TEMPORARY_PREFIX: &str = ".acp-tools-";
const TEMPORARY_SUFFIX: &str = ".tmp";
