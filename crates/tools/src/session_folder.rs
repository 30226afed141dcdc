//! The folder of one session beneath one of the user's state folder. It knows nothing of what is
//! kept there.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// Keeps a folder from being removed; nothing can where folders are not locked.
#[derive(Debug)]
pub(crate) struct Held {
    _locked: Option<File>,
}

/// Makes a folder that is its owner's alone. Those beside it that nothing was added to for so long,
/// and that nobody holds, are removed, which nobody waits for.
pub(crate) fn make(folder: &Path, age: Duration) -> io::Result<(PathBuf, Held)> {
    fs::create_dir_all(folder)?;
    let beside = folder.to_owned();
    let remove = thread::Builder::new().name("old".into());
    // Whoever makes the next one removes them otherwise.
    drop(remove.spawn(move || remove_old(&beside, age)));
    let mut builder = tempfile::Builder::new();
    builder.prefix("session-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o700));
    }
    let made = builder.tempdir_in(folder)?.keep();
    let locked = File::open(&made).ok().filter(|folder| folder.lock_shared().is_ok());
    Ok((made, Held { _locked: locked }))
}

fn remove_old(folder: &Path, age: Duration) {
    for old in fs::read_dir(folder).into_iter().flatten().flatten() {
        let changed = old.metadata().and_then(|metadata| metadata.modified()).ok();
        let since = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        if since.is_some_and(|since| since > age) && !is_held(&old.path()) {
            drop(fs::remove_dir_all(old.path()));
        }
    }
}

/// Whether a session has it, of whatever process.
fn is_held(folder: &Path) -> bool {
    let locked = File::open(folder).map(|folder| folder.try_lock());
    matches!(locked, Ok(Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_folder_goes_once_nobody_holds_it() {
        let (folder, age) = (tempfile::tempdir().unwrap(), Duration::from_secs(60));
        let (path, held) = make(folder.path(), age).unwrap();
        File::open(&path).unwrap().set_modified(SystemTime::now() - 2 * age).unwrap();
        remove_old(folder.path(), age);
        assert!(path.exists());
        drop(held);
        remove_old(folder.path(), age);
        assert!(!path.exists());
    }
}
