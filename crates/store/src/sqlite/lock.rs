//! The lock of an open session. The lock is a locked file; the system unlocks the file when the
//! process ends.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use acp_types::schema::v1::SessionId;

use super::files::create_private_folder;
use crate::error::SessionStoreError;
use crate::holder::SessionHolder;
use crate::limits::{LOCK_TRIES, MAX_HOLDER_BYTES};

/// The lock of a session. Until this value is dropped, no other process can open the session.
#[derive(Debug)]
pub(super) struct SessionLock {
    path: PathBuf,
    file: File,
}

impl SessionLock {
    /// Takes the lock of a session, or fails without waiting. `folder` contains all lock files.
    pub(super) fn try_acquire(
        folder: &Path,
        session: &SessionId,
        holder: Option<&SessionHolder>,
    ) -> Result<Self, SessionStoreError> {
        let path = folder.join(&*session.0);
        let failed = |error| SessionStoreError::from_io(&path, error);
        create_private_folder(folder).map_err(failed)?;
        for _ in 0..LOCK_TRIES {
            let mut file = open_lock_file(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = read_holder(file);
                    return Err(SessionStoreError::Held { session: session.clone(), holder });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // A previous holder removes the file when it releases the lock. If the file was removed
            // after it was opened here, it is no longer in the folder, and another try is needed.
            if is_still_at_path(&file, &path) {
                let text = holder.map(SessionHolder::to_json).unwrap_or_default();
                // The content is only information for other processes, so errors are ignored.
                drop(file.set_len(0).and_then(|()| file.write_all(text.as_bytes())));
                return Ok(Self { path, file });
            }
        }
        Err(SessionStoreError::Busy(path))
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // The file is removed before it is unlocked. After the unlock, another process may already
        // use a file of this name.
        drop(fs::remove_file(&self.path));
        // The file is unlocked explicitly. A child process that is just being spawned has a copy of
        // the descriptor, and this copy would otherwise hold the lock.
        drop(self.file.unlock());
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(unix)]
fn is_still_at_path(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let same = |one: &fs::Metadata, other: &fs::Metadata| {
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    };
    let (open, named) = (file.metadata(), fs::symlink_metadata(path));
    open.is_ok_and(|open| named.is_ok_and(|named| same(&open, &named)))
}

/// Returns true, because an open file cannot lose its name on this system.
#[cfg(not(unix))]
fn is_still_at_path(_: &File, _: &Path) -> bool {
    true
}

fn read_holder(file: File) -> Option<SessionHolder> {
    let mut text = String::new();
    file.take(MAX_HOLDER_BYTES).read_to_string(&mut text).ok()?;
    SessionHolder::from_json(&text)
}
