//! The user's state folder. Checks whether it has enough space for a backup.

mod backup_copy;
pub(crate) mod journal;
pub(crate) mod late_writes;
pub(crate) mod outputs;
pub(crate) mod session_folder;
pub(crate) mod snapshots;
pub(crate) mod undo_entry;
mod undo_folder;
mod undo_log;
pub(crate) mod undo_store;

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::files::system::PinnedDirectory;
use crate::limits::STATE_PROBE_BYTES;
use crate::note::Note;
use callboard_text::path_text;

/// The folder in which sessions store backups, journals and outputs. A workspace may have no such
/// folder.
#[derive(Debug, Default)]
pub(crate) struct StateFolder {
    folder: Option<PathBuf>,
    /// Whether a write failed although the check before it succeeded. After such a failure, each
    /// check also writes some bytes, until a check succeeds.
    has_failed: AtomicBool,
}

/// The reason why the state folder cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateUnavailable {
    /// No state folder is configured.
    NotConfigured,
    /// The folder cannot be written. `reason` is the error of the system.
    Unusable { folder: PathBuf, reason: String },
}

impl StateFolder {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()), has_failed: AtomicBool::default() }
    }

    /// Checks that `bytes` more bytes can be stored in the folder.
    ///
    /// The check relies on the free space that the system reports. A write may still fail, e.g.
    /// because a quota is used up. After [such a failure](Self::record_write_failure), the check
    /// also writes a few bytes.
    pub(crate) fn require_space(&self, bytes: u64) -> Result<(), StateUnavailable> {
        let Some(folder) = &self.folder else { return Err(StateUnavailable::NotConfigured) };
        let folders = [UNDO_FOLDER, JOURNAL_FOLDER].map(|name| folder.join(name));
        let writes = self.has_failed.load(Ordering::Relaxed);
        let checked = folders.iter().try_for_each(|folder| {
            create_private_folder(folder)?;
            let dir = PinnedDirectory::pin(folder)?.open_dir(Path::new(""))?;
            dir.require_can_create()?;
            if writes {
                tempfile::tempfile_in(folder)?.write_all(&[0; STATE_PROBE_BYTES])?;
            }
            // A new file needs some space for its name too.
            let wanted = bytes.saturating_add(STATE_PROBE_BYTES as u64);
            if dir.free_bytes()? < wanted { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        if writes && checked.is_ok() {
            self.has_failed.store(false, Ordering::Relaxed);
        }
        checked.map_err(|error| self.reason_from_error(&error))
    }

    /// Records that a write failed although the check before it succeeded. Returns the reason.
    pub(crate) fn record_write_failure(&self, error: &io::Error) -> StateUnavailable {
        self.has_failed.store(true, Ordering::Relaxed);
        self.reason_from_error(error)
    }

    fn reason_from_error(&self, error: &io::Error) -> StateUnavailable {
        match &self.folder {
            Some(folder) => {
                StateUnavailable::Unusable { folder: folder.clone(), reason: error.to_string() }
            }
            None => StateUnavailable::NotConfigured,
        }
    }
}

impl StateUnavailable {
    /// Returns the reason. Its text is the last part of a sentence.
    pub(crate) fn note(&self) -> Note {
        match self {
            Self::NotConfigured => Note::new("keeps-nothing"),
            Self::Unusable { folder, reason: why } => Note::new("keeps-nowhere")
                .with_text("folder", path_text(folder))
                .with_text("why", why),
        }
    }
}

impl fmt::Display for StateUnavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.note().fmt(formatter)
    }
}

/// Creates a folder and its missing parents, with access for the owner only.
pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens a file for appending, with access for the owner only.
pub(crate) fn open_private_for_append(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The subfolder for backups. `JOURNAL_FOLDER` is the subfolder for the journals of running calls.
/// `OUTPUT_FOLDER` is the subfolder for complete outputs.
pub(crate) const UNDO_FOLDER: &str = "undo";
pub(crate) const JOURNAL_FOLDER: &str = "journal";
pub(crate) const OUTPUT_FOLDER: &str = "output";
