//! The folder of one session beneath one of the user's state folder. It knows nothing of what is
//! kept there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// Makes a folder that is its owner's alone. Those beside it that nothing was added to for so long
/// are removed, which nobody waits for.
pub(crate) fn make(folder: &Path, age: Duration) -> io::Result<PathBuf> {
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
    Ok(builder.tempdir_in(folder)?.keep())
}

fn remove_old(folder: &Path, age: Duration) {
    for old in fs::read_dir(folder).into_iter().flatten().flatten() {
        let changed = old.metadata().and_then(|metadata| metadata.modified()).ok();
        let since = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        if since.is_some_and(|since| since > age) {
            drop(fs::remove_dir_all(old.path()));
        }
    }
}
