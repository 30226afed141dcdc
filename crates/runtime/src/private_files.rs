//! Reads and writes files and folders that only the user can change. Other files and folders are
//! refused.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// Creates a folder and its missing parents. Other users have no access to the created folders.
pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Returns whether a folder exists, and checks that only the user can change it.
///
/// # Errors
///
/// Returns an error if the path is not a folder, if another user can change the folder, or if its
/// metadata cannot be read.
fn check_folder_only_user_writes(folder: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => check_only_user_can_write(&found).map(|()| true),
        Ok(_) => Err(io::Error::other("it is not a folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a file in a private folder. Returns `None` if the file does not exist.
///
/// # Errors
///
/// Returns the errors of [`check_folder_only_user_writes`] and [`open_if_only_user_writes`]. Also
/// returns an error if the file has more than `max` bytes.
pub(crate) fn read_if_only_user_writes(
    folder: &Path,
    path: &Path,
    max: u64,
) -> io::Result<Option<Vec<u8>>> {
    if !check_folder_only_user_writes(folder)? {
        return Ok(None);
    }
    open_if_only_user_writes(path)?.map(|file| read_within_limit(file, max)).transpose()
}

/// Reads a file in a private folder that only the user can read. Returns `None` if the file does
/// not exist.
///
/// # Errors
///
/// Returns an error if another user can change the folder, or can change or read the file. Also
/// returns an error if the file has more than `max` bytes, or cannot be opened or read.
pub fn read_secret_file(folder: &Path, path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    if !check_folder_only_user_writes(folder)? {
        return Ok(None);
    }
    let Some(file) = open_if_only_user_writes(path)? else { return Ok(None) };
    check_not_readable_by_others(&file.metadata()?)?;
    read_within_limit(file, max).map(Some)
}

/// Reads a file that the user has written, such as a configuration file. Returns `None` if the file
/// does not exist.
///
/// Configuration files are often symbolic links, so links are followed. Only the permissions of the
/// link's target are checked.
///
/// # Errors
///
/// Returns an error if the file is not a regular file, or if a user other than this user and root
/// can change it. Also returns an error if the file has more than `max` bytes, or cannot be opened
/// or read. If the file or one of its folders is a link without a target, this is an error too,
/// because the user has set up a file that is missing only now, e.g. on a drive that is not
/// mounted.
pub fn read_following_links(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open_regular_file_following_links(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match find_dangling_link(path) {
                Some(link) => Err(dangling_link_error(link)),
                None => Ok(None),
            };
        }
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !is_writable_only_by_root(&found) {
        check_only_user_can_write(&found)?;
    }
    read_within_limit(file, max).map(Some)
}

/// Returns the path or the folder of the path that is a link without a target, if there is one.
fn find_dangling_link(path: &Path) -> Option<&Path> {
    let nearest = path.ancestors().find(|path| path.symlink_metadata().is_ok())?;
    (nearest.is_symlink() && !nearest.exists()).then_some(nearest)
}

fn dangling_link_error(link: &Path) -> io::Error {
    let target = std::fs::read_link(link).unwrap_or_default();
    let (link, target) = (link.display(), target.display());
    io::Error::other(format!("{link} is a link to {target}, which does not exist"))
}

/// Opens a regular file, and follows links. A pipe or a device is refused without blocking.
fn open_regular_file_following_links(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    let file: File = {
        use rustix::fs::{Mode, OFlags};

        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())?.into()
    };
    #[cfg(not(unix))]
    let file = File::open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no file")),
    }
}

fn read_within_limit(file: File, max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(max + 1).read_to_end(&mut text)?;
    if text.len() as u64 > max {
        return Err(io::Error::other(format!("it is over {max} bytes")));
    }
    Ok(text)
}

/// Replaces a file atomically. Only the owner can read the new file.
pub fn replace_file_atomically(folder: &Path, path: &Path, text: &[u8]) -> io::Result<()> {
    write_and_persist(NamedTempFile::new_in(folder)?, path, text)
}

fn write_and_persist(mut file: NamedTempFile, path: &Path, text: &[u8]) -> io::Result<()> {
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Atomically replaces a file that the user has written, such as a configuration file. If the path
/// is a symbolic link, its target is replaced. The file keeps its permissions; only the owner can
/// read a new file.
///
/// # Errors
///
/// Returns an error if the file is read-only or cannot be written. Also returns an error if the
/// path is a link without a target.
pub fn replace_following_links(path: &Path, text: &[u8]) -> io::Result<()> {
    let target = match path.canonicalize() {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            path.to_owned()
        }
        Err(error) => return Err(error),
    };
    let folder = target.parent().ok_or_else(|| io::Error::other("it is no file"))?;
    let file = NamedTempFile::new_in(folder)?;
    match std::fs::metadata(&target) {
        // The user has protected the file. The system would not refuse to replace the file, because
        // a replacement needs only write permission for the folder.
        Ok(found) if found.permissions().readonly() => {
            let why = "it is read-only; make it writable first, e.g. with `chmod u+w`";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(found) => file.as_file().set_permissions(found.permissions())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    write_and_persist(file, &target, text)
}

/// If a folder for files that the user writes does not exist, creates the folder. Locks the folder
/// against other processes that call this function. The lock is held until the returned file is
/// dropped.
pub fn lock_folder_without_lock_file(folder: &Path) -> io::Result<File> {
    create_private_folder(folder)?;
    // The folder itself is locked, because a lock file would be an unexpected file in the user's
    // folder.
    let lock = File::open(folder)?;
    // Some network drives cannot lock folders. Without a lock, only changes at the same moment
    // could be lost.
    drop(lock.lock());
    Ok(lock)
}

/// Creates a folder if it does not exist, and locks it against other processes. The lock is held
/// until the returned file is dropped.
pub fn lock_private_folder(folder: &Path) -> io::Result<File> {
    create_private_folder(folder)?;
    check_folder_only_user_writes(folder)?;
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let lock = options.open(folder.join("lock"))?;
    lock.lock()?;
    Ok(lock)
}

/// Opens a file for reading. Returns `None` if the file does not exist.
///
/// # Errors
///
/// Returns an error if the file is a link or not a regular file, if another user can change it, or
/// if it cannot be opened.
#[cfg(unix)]
fn open_if_only_user_writes(path: &Path) -> io::Result<Option<File>> {
    use rustix::fs::{Mode, OFlags};

    // With these flags, the call does not follow links, and does not block if the file is a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    check_only_user_can_write(&found)?;
    Ok(Some(file))
}

/// Opens a file for reading. Returns `None` if the file does not exist.
///
/// Outside of Unix, this function follows links, and does not check the owner and the permissions.
///
/// # Errors
///
/// Returns an error if the file cannot be opened.
#[cfg(not(unix))]
fn open_if_only_user_writes(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether a file belongs to root and no other user can write to it.
#[cfg(unix)]
fn is_writable_only_by_root(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    found.uid() == 0 && found.mode() & 0o022 == 0
}

#[cfg(not(unix))]
fn is_writable_only_by_root(_: &std::fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn check_only_user_can_write(found: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if found.mode() & 0o022 != 0 {
        return Err(io::Error::other("others may write it; remove that permission (chmod go-w)"));
    }
    Ok(())
}

#[cfg(unix)]
fn check_not_readable_by_others(found: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    if found.mode() & 0o077 != 0 {
        return Err(io::Error::other("others may read it; remove that permission (chmod 600)"));
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "on Unix there is something to refuse")]
fn check_not_readable_by_others(_: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "on Unix there is something to refuse")]
fn check_only_user_can_write(_: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
}
