//! The policy of a sandbox: plain data that a caller builds, and that the helper applies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Files that a sandboxed command may write and read, and its limits.
///
/// All paths are absolute. Paths are bytes, so a name need not be UTF-8. A path may lead through
/// symbolic links. The helper resolves the paths when the command starts, so a policy can be kept
/// for a whole session.
///
/// The default policy permits no write outside a private `/tmp`, hides nothing, and permits no
/// network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SandboxPolicy {
    /// Folders in which the command may change everything except [`read_only`](Self::read_only).
    /// Each of these folders must exist. With a [`preview`](Self::preview), the command changes
    /// only copies of the folders.
    #[serde(with = "paths")]
    pub writable: Vec<PathBuf>,
    /// Files and folders that the command must not change, replace or create, although they are in
    /// writable folders.
    pub read_only: Vec<ReadOnlyPath>,
    /// Files and folders that appear empty or absent. Paths that do not exist are ignored.
    #[serde(with = "paths")]
    pub masked: Vec<PathBuf>,
    /// Exceptions: files and folders that remain readable although a parent folder is hidden.
    /// Hidden folders are [`masked`](Self::masked) folders, [`home`](Self::home), `/tmp` and
    /// `/run`. Paths that do not exist are ignored.
    #[serde(with = "paths")]
    pub readable: Vec<PathBuf>,
    /// Other folders that the command may change, while their content on the disk stays as it is.
    /// This works only with namespaces.
    pub copy_on_write: Vec<CopyOnWriteFolder>,
    /// Writable folders that the command changes only in a copy, so that a caller can
    /// [read](crate::read_layer) the changes before it applies them. If the list is not empty, it
    /// must contain all [`writable`](Self::writable) folders. The command does not start if one of
    /// the copies cannot be made, e.g. because a file system is mounted in the folder, and it never
    /// starts with [`Isolation::Landlock`](crate::Isolation::Landlock).
    ///
    /// Only one command can use a layer. The command cannot see the layers. No layer may be in a
    /// folder of the preview or in [`tmp`](Self::tmp), and `tmp` may not be in a folder of the
    /// preview.
    pub preview: Vec<CopyOnWriteFolder>,
    /// The user's home folder. With [`Isolation::Landlock`](crate::Isolation::Landlock), only its
    /// writable and readable subfolders can be read. With namespaces, the whole folder can be read
    /// except for masked paths.
    #[serde(with = "optional_path")]
    pub home: Option<PathBuf>,
    /// Private folder that takes the place of `/tmp`, so that several commands can share their
    /// temporary files. The folder is also writable at its own path, so that a caller can set
    /// `TMPDIR` to this path. With `None`, each command gets an empty `/tmp` in memory.
    ///
    /// [`Isolation::Landlock`](crate::Isolation::Landlock) cannot show a folder at another path.
    /// With Landlock, the folder is therefore writable only at its own path, and `/tmp` is hidden.
    #[serde(with = "optional_path")]
    pub tmp: Option<PathBuf>,
    /// Access to the network.
    pub network: NetworkAccess,
    /// Limits of resources.
    pub limits: SandboxLimits,
}

impl SandboxPolicy {
    /// Creates a policy with writable folders and nothing else.
    pub fn from_writable_folders(writable: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self { writable: writable.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

/// A file or folder that the command must not change, although it is in a writable folder.
///
/// If the path is a symbolic link, both the link and its target are read-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReadOnlyPath {
    /// Absolute path of the file or folder.
    #[serde(with = "path")]
    pub path: PathBuf,
    /// How the path is protected while nothing exists there.
    pub missing: MissingName,
}

impl ReadOnlyPath {
    /// Creates an entry for a path.
    pub fn new(path: impl Into<PathBuf>, missing: MissingName) -> Self {
        Self { path: path.into(), missing }
    }
}

/// A folder that a command may change, while the changes are written to another folder, the layer.
///
/// In [`SandboxPolicy::copy_on_write`], an entry has no effect if the folder does not exist, or if
/// it is in a writable folder. If the kernel cannot combine the folder with its layer, the command
/// can only read the folder. This happens e.g. in a container, where the layer is on an overlay
/// file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CopyOnWriteFolder {
    /// Absolute path of the folder.
    #[serde(with = "path")]
    pub path: PathBuf,
    /// Absolute path of a folder for the changes, which contains two folders `upper` and `work` on
    /// the same file system. No other command may use this folder at the same time, or write to it.
    #[serde(with = "path")]
    pub layer: PathBuf,
}

impl CopyOnWriteFolder {
    /// Creates an entry for a path, and the folder for its changes.
    pub fn new(path: impl Into<PathBuf>, layer: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), layer: layer.into() }
    }
}

/// How a read-only path is protected while nothing exists there.
///
/// The kernel can mount only over a file or folder that exists. A *placeholder* is therefore
/// created for the time of the command, and removed afterwards. If a parent folder is missing too,
/// the placeholder takes the place of the parent folder. The crate's README describes what other
/// programs see while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MissingName {
    /// The placeholder is an unused socket, because `git add` ignores sockets. The
    /// command sees an empty file.
    Protected,
    /// There is no placeholder, and the command may create the path. Use this variant if the
    /// existence of the name alone changes how a program behaves. The caller can check afterwards
    /// whether the command created the name.
    Unprotected,
}

/// Access of a command to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NetworkAccess {
    /// No access. With namespaces, the command has a separate loopback interface.
    #[default]
    None,
    /// The network of the host, with its loopback interface. A command with this access cannot join
    /// a [`SessionNetwork`](crate::SessionNetwork).
    Host,
}

/// Limits of the resources of one command. `None` means the limit that the caller's process has.
/// The time, the space on disk and the sum of the memory of all processes are not limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SandboxLimits {
    /// Maximum number of processes and threads. At the limit, a process gets an error from the
    /// kernel when it starts another process.
    ///
    /// With namespaces, the commands of a [`SessionNetwork`](crate::SessionNetwork) are counted
    /// together. Before Linux 6.14, root has no limit. Since Linux 6.14, the limit for root is at
    /// least 301 for each command. With [`Isolation::Landlock`](crate::Isolation::Landlock), all
    /// processes of the user are counted. Therefore the number of processes that run on the system
    /// at the start is added to the limit. With Landlock, root has no limit.
    pub processes: Option<u64>,
    /// Maximum size of each file that the command writes, in bytes. `SIGXFSZ` ends a process that
    /// exceeds the limit.
    pub file_bytes: Option<u64>,
    /// Maximum size of the writable private memory of each process, in bytes. Memory that processes
    /// share, e.g. files in memory, does not count.
    pub memory_bytes: Option<u64>,
    /// Maximum size of files in memory, i.e. in `/dev/shm` and in a `/tmp` that the caller did not
    /// provide, in bytes. Each file or folder counts as at least 4096 bytes. Only with namespaces.
    pub tmp_bytes: u64,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self {
            processes: None,
            file_bytes: None,
            memory_bytes: None,
            tmp_bytes: crate::limits::DEFAULT_TMP_BYTES,
        }
    }
}

/// A path in JSON: a string if it is UTF-8, otherwise an array of bytes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum PathForm {
    Text(String),
    Bytes(Vec<u8>),
}

impl PathForm {
    fn new(path: &std::path::Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_encoded_bytes().to_vec()),
        }
    }

    #[cfg_attr(unix, expect(clippy::unnecessary_wraps, reason = "it fails on other systems"))]
    fn into_path<E: serde::de::Error>(self) -> Result<PathBuf, E> {
        match self {
            Self::Text(text) => Ok(text.into()),
            #[cfg(unix)]
            Self::Bytes(bytes) => {
                Ok(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into())
            }
            #[cfg(not(unix))]
            Self::Bytes(_) => Err(E::custom("a path of bytes works only on Unix")),
        }
    }
}

pub(crate) mod path {
    use super::{Deserialize as _, PathBuf, PathForm, Serialize as _};

    pub(crate) fn serialize<S: serde::Serializer>(
        path: &std::path::Path,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        PathForm::new(path).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        PathForm::deserialize(deserializer)?.into_path()
    }
}

mod paths {
    use super::{Deserialize as _, PathBuf, PathForm};

    pub(super) fn serialize<S: serde::Serializer>(
        paths: &[PathBuf],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| PathForm::new(path)))
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        Vec::<PathForm>::deserialize(deserializer)?.into_iter().map(PathForm::into_path).collect()
    }
}

pub(crate) mod optional_path {
    use super::{Deserialize as _, PathBuf, PathForm, Serialize as _};

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(crate) fn serialize<S: serde::Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(PathForm::new).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Option::<PathForm>::deserialize(deserializer)?.map(PathForm::into_path).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn policy_survives_json_with_names_that_are_not_utf8() {
        use std::os::unix::ffi::OsStringExt as _;
        let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/p/\xff\n".to_vec()));
        let mut policy = SandboxPolicy::from_writable_folders([odd.clone(), "/plain".into()]);
        policy.read_only.push(ReadOnlyPath::new(odd.join(".git"), MissingName::Protected));
        policy.home = Some(odd.clone());
        policy.tmp = Some(odd);
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<SandboxPolicy>(&json).unwrap(), policy);
    }

    #[test]
    fn missing_fields_have_their_defaults() {
        assert_eq!(serde_json::from_str::<SandboxPolicy>("{}").unwrap(), SandboxPolicy::default());
    }
}
