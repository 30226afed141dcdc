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
use crate::files::system::{Identity, Root, links};
use crate::limits::{JOURNAL_BYTES, OPEN_TRIES};

pub(crate) use self::replay::{remove_tree, replay};

/// The journal of one call. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(in crate::files) path: PathBuf,
    file: File,
    bytes: u64,
    is_left: bool,
}

/// One line of a journal.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// What will be made.
    Begin(Vec<Names>),
    /// All of it is made; from here on it is put in place.
    Ready(Vec<Prepared>),
    /// All of it is in its place.
    Done,
}

/// A file and the one beside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::files) struct Names {
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
pub(in crate::files) struct Prepared {
    pub(in crate::files) way: Manner,
    /// What tells the file beside it from others.
    pub(in crate::files) ours: Identity,
    /// What tells the old file from others, if there is one.
    pub(in crate::files) old: Option<Identity>,
    /// The hash of the new content.
    pub(in crate::files) after: [u8; 32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::files) enum Manner {
    Add,
    Replace,
    InPlace,
    /// It is out of the way, to be removed when all is done.
    Aside,
}

impl Journal {
    /// Begins a journal in a folder, which is made if need be.
    pub(in crate::files) fn begin(folder: &Path, names: Vec<Names>) -> io::Result<Self> {
        make_private(folder)?;
        for _ in 0..OPEN_TRIES {
            let file = tempfile::Builder::new().prefix(CALL).tempfile_in(folder)?;
            let (file, path) = file.keep().map_err(|error| error.error)?;
            // Where there are no locks, nobody else begins with what is being written either.
            drop(file.lock());
            // Another process may have found it before it was locked, empty, and removed it.
            if links(&file.metadata()?) > 0 {
                let mut journal = Self { path, file, bytes: 0, is_left: false };
                journal.write(&Line::Begin(names))?;
                return Ok(journal);
            }
        }
        Err(io::Error::other("another process removes it again and again"))
    }

    /// Begins the journal of something that goes out of the way.
    pub(crate) fn aside(
        folder: &Path,
        dir: &Path,
        name: &OsStr,
        temporary: &OsStr,
    ) -> io::Result<Self> {
        let [name, temporary] = [name, temporary].map(OsStr::to_owned);
        let (dir, made) = (dir.into(), Vec::new());
        let names = Names { dir, name, temporary, made, copies: None };
        let mut journal = Self::begin(folder, vec![names])?;
        let (way, ours, old, after) = (Manner::Aside, (0, 0), None, [0; 32]);
        journal.ready(vec![Prepared { way, ours, old, after }])?;
        Ok(journal)
    }

    pub(in crate::files) fn ready(&mut self, prepared: Vec<Prepared>) -> io::Result<()> {
        self.write(&Line::Ready(prepared))
    }

    pub(crate) fn done(&mut self) -> io::Result<()> {
        self.write(&Line::Done)
    }

    /// Waits until the disk has it, if it is to have anything.
    pub(in crate::files) fn sync(&self, durability: Durability) -> io::Result<()> {
        durability.of(&self.file)
    }

    /// Waits likewise until the disk has its name.
    pub(in crate::files) fn sync_name(&self, durability: Durability) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        durability.of_names(&Root::pin(folder)?.dir(Path::new(""))?)
    }

    /// Leaves it to the next start, which does what could not be done now.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.bytes += text.len() as u64;
        if self.bytes > JOURNAL_BYTES {
            return Err(io::Error::other("it would be too long"));
        }
        self.file.write_all(&text)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.is_left {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Makes the name of a file beside another one, which no other file has.
pub(crate) fn unique() -> OsString {
    temporary(call_number(), 0)
}

/// Returns a number for a call that no other one has.
pub(in crate::files) fn call_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Makes the name of a file beside another one, of those of a call.
pub(in crate::files) fn temporary(call: u64, number: usize) -> OsString {
    format!("{BEGINNING}{call:016x}-{number}{END}").into()
}

/// Returns the name that an old file has while a new one takes its place.
pub(in crate::files) fn spare(temporary: &OsStr) -> OsString {
    let mut name = temporary.to_owned();
    name.push("-old");
    name
}

/// Returns the name of what is to be written in place, beside the copy of what was there.
pub(in crate::files) fn fresh(temporary: &OsStr) -> OsString {
    let mut name = temporary.to_owned();
    name.push("-new");
    name
}

const CALL: &str = "call-";
const BEGINNING: &str = ".acp-tools-";
const END: &str = ".tmp";
