//! What programs write to a file that was replaced, because they had it open: nobody sees it by its
//! name, but it is kept with the old file.
//!
//! It knows nothing of steps.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::limits::TIME_TICK;
use crate::stamp::{Stamp, Stamping};
use crate::sys::fs::{Dir, Look};
use crate::workspace::Workspace;

/// Something that a program wrote to a file that was replaced before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateWrite {
    /// The file that was meant.
    pub path: PathBuf,
    /// Where the old file lies with what was written to it. Undoing the change restores it.
    pub kept: PathBuf,
}

impl Workspace {
    /// Returns what other programs wrote to files that this session had replaced in the meantime,
    /// each once: they had them open, and what they wrote is in the old ones. It is noticed where
    /// old files are moved to what is kept, so not where that is another file system.
    #[must_use]
    pub fn late_writes(&self) -> Vec<LateWrite> {
        self.undo().late()
    }

    /// Says in a result what [`Self::late_writes`] returns.
    pub(crate) fn tell_late_writes(&self, text: &mut String) {
        for late in self.late_writes() {
            let (path, kept) = (self.display(&late.path), late.kept.display());
            text.push_str(&format!(
                "\nAnother program wrote to {path} just when it was replaced, and does not show in \
                 it. What it wrote lies in {kept}; undoing that change restores it."
            ));
        }
    }
}

/// A file that was replaced, in what is kept.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    name: OsString,
    /// How large it was, and when it was written.
    look: (u64, i128),
    /// What it held, if a write since might have left the same time.
    stamp: Option<Stamp>,
}

impl Watched {
    pub(super) fn new(
        path: &Path,
        name: OsString,
        look: Look,
        old: impl FnOnce() -> Stamp,
    ) -> Self {
        let stamp = (!is_settled(&look)).then(old);
        Self { path: path.to_owned(), name, look: (look.bytes, look.modified), stamp }
    }

    /// Whether it was written since it was looked at last.
    pub(super) fn is_written(&mut self, dir: &Dir) -> io::Result<bool> {
        let look = dir.look(&self.name)?;
        let now = (look.bytes, look.modified);
        let Some(stamp) = self.stamp else {
            return Ok(std::mem::replace(&mut self.look, now) != now);
        };
        let is_settled = is_settled(&look);
        let mut stamping = Stamping::new(dir.open(&self.name)?);
        io::copy(&mut stamping, &mut io::sink())?;
        let found = stamping.stamp();
        (self.look, self.stamp) = (now, found.filter(|_| !is_settled));
        Ok(found != Some(stamp))
    }

    pub(super) fn told(&self, folder: &Path) -> LateWrite {
        LateWrite { path: self.path.clone(), kept: folder.join(&self.name) }
    }
}

/// Whether another write would leave another time.
fn is_settled(look: &Look) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let age = now.map_or(0, |now| now.as_nanos() as i128 - look.modified);
    // Whole seconds are all that some file systems know.
    let is_coarse = look.modified % 1_000_000_000 == 0;
    let tick = if is_coarse { 100 * TIME_TICK } else { TIME_TICK };
    age > tick.as_nanos() as i128
}
