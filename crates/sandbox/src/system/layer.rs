//! Reads the folder in which an overlay file system has recorded changes.
//!
//! The kernel marks a removed file by a character device with the number 0, which no command can
//! create. It marks a folder whose former content is removed by an attribute.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, chmodat, fstat, getxattr, openat, statat,
};
use rustix::io::Errno;

use super::limits::MAX_LAYER_DEPTH;
use super::placeholders::is_placeholder;
use super::trees::own_descriptor_path;
use crate::layer::{LayerContent, LayerEntry, LayerEntryKind};

/// Attribute of a folder. The value `y` means that the former content of the folder is removed, `x`
/// that removed files in the folder may be marked by the attribute [`REMOVED`].
const OPAQUE: &str = "user.overlay.opaque";

/// Attribute of an empty file that marks a removed file. Only tools create such files.
const REMOVED: &str = "user.overlay.whiteout";

/// Reads the changes that a command has made to a folder of a
/// [preview](crate::SandboxPolicy::preview), after the command has ended. The attributes of the
/// folder itself are not read.
///
/// Returns at most `max_entries` entries. Links are not followed. Placeholders are skipped. If the
/// command has denied the user access to a file or folder in the layer, the function permits it
/// again; [`LayerEntry::mode`] contains the mode that the command has set. A second call returns
/// the new mode.
///
/// # Errors
/// Returns an error if a folder of the layer cannot be read.
pub fn read_layer(layer: &Path, max_entries: usize) -> io::Result<LayerContent> {
    let mut content = LayerContent { entries: Vec::new(), is_cut: false };
    let upper = open_folder_adding_permissions(CWD, layer.join("upper").as_os_str())?;
    let mut levels = vec![Level::read(upper, PathBuf::new(), false, max_entries, &mut content)?];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.next() else {
            levels.pop();
            continue;
        };
        let stat = statat(&level.folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        if is_placeholder(&stat) {
            continue;
        }
        if content.entries.len() >= max_entries {
            content.is_cut = true;
            break;
        }
        let path = level.path.join(&name);
        let (kind, folder) = level.classify_and_open_if_folder(&name, &stat)?;
        let mode = if kind == LayerEntryKind::Removed { 0 } else { stat.st_mode & 0o7777 };
        let is_opaque = kind == LayerEntryKind::Folder { is_opaque: true };
        content.entries.push(LayerEntry { path: path.clone(), kind, mode });
        match folder {
            Some(_) if levels.len() >= MAX_LAYER_DEPTH => content.is_cut = true,
            Some(folder) => {
                levels.push(Level::read(folder, path, is_opaque, max_entries, &mut content)?);
            }
            None => {}
        }
    }
    Ok(content)
}

/// A folder whose entries are being read.
struct Level {
    folder: OwnedFd,
    path: PathBuf,
    names: IntoIter<OsString>,
    /// Whether the attribute [`REMOVED`] has a meaning in this folder.
    has_marked_files: bool,
    /// Whether the folder hides the content of the real folder. The system does not mark the
    /// folders in such a folder, although they hide the real content too.
    is_opaque: bool,
}

impl Level {
    /// Reads the names in a folder. There may be one name more than entries are permitted.
    fn read(
        folder: OwnedFd,
        path: PathBuf,
        is_opaque: bool,
        max_entries: usize,
        content: &mut LayerContent,
    ) -> io::Result<Self> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if [&b"."[..], b".."].contains(&name) {
                continue;
            }
            if content.entries.len() + names.len() > max_entries {
                content.is_cut = true;
                break;
            }
            names.push(OsStr::from_bytes(name).to_owned());
        }
        names.sort_unstable();
        let has_marked_files = first_attribute_byte(&folder, OPAQUE)? == Some(b'x');
        Ok(Self { folder, path, names: names.into_iter(), has_marked_files, is_opaque })
    }

    /// Returns the kind of an entry, and opens it if it is a folder. Permits the user to read the
    /// entry.
    fn classify_and_open_if_folder(
        &self,
        name: &OsStr,
        stat: &Stat,
    ) -> io::Result<(LayerEntryKind, Option<OwnedFd>)> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let folder = open_folder_adding_permissions(self.folder.as_fd(), name)?;
                let is_opaque =
                    self.is_opaque || first_attribute_byte(&folder, OPAQUE)? == Some(b'y');
                return Ok((LayerEntryKind::Folder { is_opaque }, Some(folder)));
            }
            FileType::CharacterDevice if stat.st_rdev == 0 => LayerEntryKind::Removed,
            FileType::RegularFile
                if !self.has_marked_files
                    && Mode::from_raw_mode(stat.st_mode).contains(Mode::RUSR) =>
            {
                LayerEntryKind::File
            }
            FileType::RegularFile => {
                let file = add_permissions_and_open_path(self.folder.as_fd(), name, Mode::RUSR)?;
                if self.has_marked_files && first_attribute_byte(&file, REMOVED)?.is_some() {
                    LayerEntryKind::Removed
                } else {
                    LayerEntryKind::File
                }
            }
            FileType::Symlink => LayerEntryKind::Link,
            _ => LayerEntryKind::Special,
        };
        Ok((kind, None))
    }
}

/// Opens a folder for reading. Permits the user to read, change and enter it.
fn open_folder_adding_permissions(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let folder = add_permissions_and_open_path(parent, name, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(&folder, ".", flags, Mode::empty())?)
}

/// Opens a file or folder without the right to read it. Adds permissions to its mode.
fn add_permissions_and_open_path(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    wanted: Mode,
) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(parent, name, flags, Mode::empty())?;
    let mode = Mode::from_raw_mode(fstat(&file)?.st_mode);
    if !mode.contains(wanted) {
        // The kernel changes no mode through this descriptor, so the mode is changed by a path.
        chmodat(CWD, own_descriptor_path(file.as_fd()), mode | wanted, AtFlags::empty())?;
    }
    Ok(file)
}

/// Returns the first byte of an attribute, or 0 if its value is empty. Returns `None` if there is
/// no such attribute, or if its value is longer than the kernel's values.
fn first_attribute_byte(file: &OwnedFd, name: &str) -> io::Result<Option<u8>> {
    let mut value = [0];
    match getxattr(own_descriptor_path(file.as_fd()), name, &mut value) {
        Ok(_) => Ok(Some(value[0])),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
