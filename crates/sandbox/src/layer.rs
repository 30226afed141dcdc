//! The content of a layer, i.e. of the folder that contains the changes of a command.

use std::path::PathBuf;

/// The changes in a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerContent {
    /// The changed files and folders. A folder precedes its content, and the names in a folder are
    /// sorted by their bytes.
    pub entries: Vec<LayerEntry>,
    /// Whether entries are missing, because there are too many, or because they are too deep.
    pub is_cut: bool,
}

/// A file or folder in a layer. It need not differ from the real one: the kernel copies a file into
/// the layer when a program opens it for writing, and copies the parent folders of each change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerEntry {
    /// Path relative to the folder of the command.
    pub path: PathBuf,
    /// Kind of the entry.
    pub kind: LayerEntryKind,
    /// Permission bits (`0o7777`) that the command gave to the file or folder; 0 if it is removed.
    pub mode: u32,
}

/// Kind of a [`LayerEntry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerEntryKind {
    /// The command removed the file or folder at this path, or moved it away.
    Removed,
    /// A new or changed folder.
    Folder {
        /// Whether the content of the real folder is removed, so that only the content in the layer
        /// remains. If there is no real folder at the path, the value has no meaning.
        is_opaque: bool,
    },
    /// A new or changed file, with its complete content.
    File,
    /// A new or changed symbolic link.
    Link,
    /// A socket, a pipe or a device.
    Special,
}
