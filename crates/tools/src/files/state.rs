//! The user's state folder: whether it can take what is to be kept. It knows nothing of what that is.

pub(crate) mod journal;
pub(crate) mod late_writes;
pub(crate) mod outputs;
pub(crate) mod session_folder;
pub(crate) mod undo_entry;
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

/// Where a session keeps what it needs later, if it keeps anything.
#[derive(Debug, Default)]
pub(crate) struct StateFolder {
    folder: Option<PathBuf>,
    /// Whether it failed although it was found usable, so that only a write tells.
    has_failed: AtomicBool,
}

/// Why nothing can be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateUnavailable {
    /// There is no state folder.
    NotConfigured,
    /// It cannot be written.
    Unusable { folder: PathBuf, reason: String },
}

impl StateFolder {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()), has_failed: AtomicBool::default() }
    }

    /// Checks that so many bytes can be kept, by what the system says of it. Once it has
    /// [failed](Self::failed) although that said yes, as where a quota is full, by writing a few.
    pub(crate) fn require_space(&self, bytes: u64) -> Result<(), StateUnavailable> {
        let Some(folder) = &self.folder else { return Err(StateUnavailable::NotConfigured) };
        let folders = [UNDO_FOLDER, JOURNAL_FOLDER].map(|name| folder.join(name));
        let writes = self.has_failed.load(Ordering::Relaxed);
        let checked = folders.iter().try_for_each(|folder| {
            make_private(folder)?;
            let dir = PinnedDirectory::pin(folder)?.open_dir(Path::new(""))?;
            dir.require_can_create()?;
            if writes {
                tempfile::tempfile_in(folder)?.write_all(&[0; STATE_PROBE_BYTES])?;
            }
            // A full disk takes a name, too.
            let wanted = bytes.saturating_add(STATE_PROBE_BYTES as u64);
            if dir.free_bytes()? < wanted { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        if writes && checked.is_ok() {
            self.has_failed.store(false, Ordering::Relaxed);
        }
        checked.map_err(|error| self.unavailable(&error))
    }

    /// Notes that it failed although it was found usable, and says why it cannot be written.
    pub(crate) fn record_failure(&self, error: &io::Error) -> StateUnavailable {
        self.has_failed.store(true, Ordering::Relaxed);
        self.unavailable(error)
    }

    fn unavailable(&self, error: &io::Error) -> StateUnavailable {
        match &self.folder {
            Some(folder) => {
                StateUnavailable::Unusable { folder: folder.clone(), reason: error.to_string() }
            }
            None => StateUnavailable::NotConfigured,
        }
    }
}

impl StateUnavailable {
    /// Says why, as the end of a sentence.
    pub(crate) fn note(&self) -> Note {
        match self {
            Self::NotConfigured => Note::new("keeps-nothing"),
            Self::Unusable { folder, reason: why } => {
                Note::new("keeps-nowhere").with("folder", path_text(folder)).with("why", why)
            }
        }
    }
}

impl fmt::Display for StateUnavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.note().fmt(formatter)
    }
}

/// Makes a folder, and those above it that are missing, for its owner alone.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens a list that is added to, for its owner alone.
pub(crate) fn open_private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The folders in it: of what was changed, of what is on its way, of whole outputs.
pub(crate) const UNDO_FOLDER: &str = "undo";
pub(crate) const JOURNAL_FOLDER: &str = "journal";
pub(crate) const OUTPUT_FOLDER: &str = "output";
