//! Files and folders that are the user's alone, and are refused where they are not.

use std::fs::{DirBuilder, File};
use std::io;
use std::path::Path;

/// Makes a folder, and those above it, that nobody else can look into.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Returns whether a folder is there.
///
/// # Errors
///
/// If it is none, or others can change it; whatever looking at it gives.
pub(crate) fn check_folder(folder: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => check_owner(&found).map(|()| true),
        Ok(_) => Err(io::Error::other("it is no folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a file to read it; none where there is none.
///
/// # Errors
///
/// If it is no regular file, a link, or others can change it; whatever opening it gives.
#[cfg(unix)]
pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    use rustix::fs::{Mode, OFlags};

    // Neither a link is followed, nor a pipe waited for.
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
    check_owner(&found)?;
    Ok(Some(file))
}

/// Opens a file to read it; none where there is none.
///
/// Weaker than on Unix: it follows links, and does not ask whose the file is.
///
/// # Errors
///
/// Whatever opening it gives.
#[cfg(not(unix))]
pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn check_owner(found: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if found.mode() & 0o022 != 0 {
        return Err(io::Error::other("others may write it; take that right away (chmod go-w)"));
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "on Unix there is something to refuse")]
fn check_owner(_: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
}
