//! Copies of the files with protected names, for an isolation that cannot make these files
//! read-only. Changes that a command makes to the files are undone when the command ends.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use callboard_sandbox::is_placeholder_at;

use crate::files::system::{Dir, FileKind, FileVisibility, PinnedDirectory};
use crate::limits::{MAX_PROTECTED_COPY_BYTES, MAX_PROTECTED_COPY_ENTRIES};
use crate::lock::lock;

/// Copies of the files with protected names in the project folders, made before a command starts.
#[derive(Debug)]
pub(super) struct ProtectedCopies {
    copies: Vec<ProtectedCopy>,
    /// Locked while names are restored, because commands that run at the same time share the
    /// copies.
    restoring: Mutex<()>,
}

/// The protected names that a command has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProtectedRestoreOutcome {
    pub(crate) restored: Vec<PathBuf>,
    /// The names whose changes could not be undone.
    pub(crate) failed: Vec<PathBuf>,
}

#[derive(Debug, Clone)]
struct ProtectedCopy {
    root: Arc<ProjectFolder>,
    /// The path in the project folder.
    name: PathBuf,
    content: Content,
}

#[derive(Debug)]
struct ProjectFolder {
    path: PathBuf,
    /// The folder that was at the path before the command.
    folder: Dir,
}

/// The content of one path. Links are not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Missing,
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Link(OsString),
    Folder(BTreeMap<OsString, Self>),
    /// A FIFO, socket or device. Also used if a parent of the path is not a folder. Such content
    /// cannot be restored.
    Special,
}

/// The number of entries and bytes that may still be copied.
struct CopyBudget {
    entries: usize,
    bytes: u64,
}

impl ProtectedCopies {
    /// Copies the content of `paths`. Paths outside of the project folders `roots` are skipped.
    ///
    /// # Errors
    ///
    /// Returns an error if something cannot be read, or if the content is too large.
    pub(super) fn create(
        roots: &[PathBuf],
        paths: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<Self> {
        let mut budget =
            CopyBudget { entries: MAX_PROTECTED_COPY_ENTRIES, bytes: MAX_PROTECTED_COPY_BYTES };
        let open = |path: &PathBuf| Ok(Arc::new(ProjectFolder::open(path)?));
        let roots = roots.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let mut copies = Vec::new();
        for path in paths {
            let within = |root: &Arc<ProjectFolder>| {
                Some((root.clone(), path.strip_prefix(&root.path).ok()?.to_owned()))
            };
            if let Some((root, name)) = roots.iter().find_map(within) {
                let content = root.read(&name, &mut budget)?;
                copies.push(ProtectedCopy { root, name, content });
            }
        }
        Ok(Self { copies, restoring: Mutex::default() })
    }

    /// Restores the paths that have changed. The changed file is kept next to the restored file,
    /// under another name.
    pub(super) fn restore(&self) -> ProtectedRestoreOutcome {
        let _one = lock(&self.restoring);
        let mut names = ProtectedRestoreOutcome::default();
        for copy in &self.copies {
            match copy.restore_if_changed() {
                Ok(false) => {}
                Ok(true) => names.restored.push(copy.original_path()),
                Err(error) => {
                    tracing::error!(%error, path = %copy.name.display(), "cannot be restored");
                    names.failed.push(copy.original_path());
                }
            }
        }
        names
    }

    /// Returns the paths that have changed.
    pub(super) fn find_changed(&self) -> Vec<PathBuf> {
        let changed = self.copies.iter().filter(|copy| copy.is_changed());
        changed.map(ProtectedCopy::original_path).collect()
    }

    /// Returns these copies, except those of some paths.
    pub(super) fn without_paths(self: Arc<Self>, paths: &[PathBuf]) -> Self {
        let mut copies = match Arc::try_unwrap(self) {
            Ok(own) => own.copies,
            Err(shared) => shared.copies.clone(),
        };
        copies.retain(|copy| !paths.contains(&copy.original_path()));
        Self { copies, restoring: Mutex::default() }
    }
}

impl ProtectedCopy {
    fn original_path(&self) -> PathBuf {
        self.root.path.join(&self.name)
    }

    fn is_changed(&self) -> bool {
        // If the content cannot be read, it counts as changed. For example, a command may have made
        // a folder so large that it exceeds the limit.
        let mut budget =
            CopyBudget { entries: MAX_PROTECTED_COPY_ENTRIES, bytes: MAX_PROTECTED_COPY_BYTES };
        self.root.read(&self.name, &mut budget).map_or(true, |now| now != self.content)
    }

    fn restore_if_changed(&self) -> io::Result<bool> {
        if !self.is_changed() {
            return Ok(false);
        }
        let Some(name) = self.name.file_name() else { return Ok(false) };
        let parent = self.root.open_or_create_parent(&self.name)?;
        if parent.entry_kind(name).is_ok() {
            move_aside(&parent, name)?;
        }
        self.content.write(&parent, name)?;
        Ok(true)
    }
}

impl ProjectFolder {
    fn open(path: &Path) -> io::Result<Self> {
        let folder = PinnedDirectory::pin(path)?.open_dir_without_links(Path::new("."))?;
        Ok(Self { path: path.to_owned(), folder })
    }

    /// Reads a path in the folder, one component after the other. Links are not followed.
    fn read(&self, name: &Path, budget: &mut CopyBudget) -> io::Result<Content> {
        // A placeholder counts as a missing file. The sandbox of another running command has
        // created it, so that the command cannot create a file with this name.
        let is_placeholder = |path: &Path| is_placeholder_at(&self.path.join(path));
        let mut deeper: Option<Dir> = None;
        let mut path = PathBuf::new();
        for part in name.parent().into_iter().flat_map(Path::components) {
            let (folder, part) = (deeper.as_ref().unwrap_or(&self.folder), part.as_os_str());
            path.push(part);
            match folder.entry_kind(part) {
                Ok(FileKind::Directory) => deeper = Some(folder.open_dir(part)?),
                Ok(FileKind::Special) if is_placeholder(&path) => return Ok(Content::Missing),
                Ok(_) => return Ok(Content::Special),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Content::Missing);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(last) = name.file_name() else { return Ok(Content::Missing) };
        match Content::read(deeper.as_ref().unwrap_or(&self.folder), last, budget)? {
            Content::Special if is_placeholder(name) => Ok(Content::Missing),
            content => Ok(content),
        }
    }

    /// Opens the folder that contains a path, one component after the other. If a component exists
    /// but is not a folder, it is renamed and a folder is created.
    fn open_or_create_parent(&self, name: &Path) -> io::Result<Dir> {
        let mut folder = self.folder.open_dir(OsStr::new("."))?;
        let parts = name.parent().into_iter().flat_map(Path::components);
        for part in parts {
            let Component::Normal(part) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            match folder.entry_kind(part) {
                Ok(FileKind::Directory) => {}
                Ok(_) => {
                    move_aside(&folder, part)?;
                    folder.create_dir(part)?;
                }
                Err(_) => folder.create_dir(part)?,
            }
            folder = folder.open_dir(part)?;
            // The command may have removed the owner's permissions from the folder.
            folder.allow_owner_to_change()?;
        }
        Ok(folder)
    }
}

/// Renames an entry, so that its content is not lost.
fn move_aside(folder: &Dir, name: &OsStr) -> io::Result<()> {
    // The new name is random, because the command may have created files with names that can be
    // guessed.
    let random = RandomState::new().build_hasher().finish();
    let mut other = name.to_owned();
    other.push(format!("{KEPT_NAME}{random:016x}"));
    folder.rename_to_unused(name, &other)
}

/// A part of the new name of a file that a command changed. The new name is the original name, this
/// text, and a random number.
const KEPT_NAME: &str = ".changed-by-command-";

impl Content {
    fn read(folder: &Dir, name: &OsStr, budget: &mut CopyBudget) -> io::Result<Self> {
        let Ok(metadata) = folder.entry_metadata(name) else { return Ok(Self::Missing) };
        budget.take(1, 0)?;
        Ok(match metadata.kind {
            FileKind::File => {
                budget.take(0, metadata.bytes)?;
                let file = folder.open_file(name)?;
                let mut bytes = Vec::new();
                (&file).take(MAX_PROTECTED_COPY_BYTES).read_to_end(&mut bytes)?;
                Self::File { bytes, mode: mode_of(&file)? }
            }
            FileKind::Link => Self::Link(folder.read_link(name)?),
            FileKind::Directory => {
                let folder = folder.open_dir(name)?;
                let (entries, is_cut) = folder.entries(budget.entries)?;
                if is_cut {
                    return Err(too_large_to_copy_error());
                }
                let read = |name: OsString| {
                    let content = Self::read(&folder, &name, budget)?;
                    Ok((name, content))
                };
                let names = entries.into_iter().map(|entry| entry.name);
                Self::Folder(names.map(read).collect::<io::Result<_>>()?)
            }
            FileKind::Special => Self::Special,
        })
    }

    fn write(&self, folder: &Dir, name: &OsStr) -> io::Result<()> {
        match self {
            Self::Missing | Self::Special => Ok(()),
            Self::File { bytes, mode } => {
                let mut file = folder.create_new_file(name, FileVisibility::Owner)?;
                file.write_all(bytes)?;
                set_mode(&file, *mode)
            }
            Self::Link(target) => folder.create_link(target, name),
            Self::Folder(entries) => {
                folder.create_dir(name)?;
                let folder = folder.open_dir(name)?;
                entries.iter().try_for_each(|(name, content)| content.write(&folder, name))
            }
        }
    }
}

#[cfg(unix)]
fn mode_of(file: &File) -> io::Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(file.metadata()?.permissions().mode())
}

#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(mode & 0o777))
}

#[cfg(not(unix))]
fn mode_of(_: &File) -> io::Result<u32> {
    Ok(0)
}

#[cfg(not(unix))]
fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

impl CopyBudget {
    fn take(&mut self, entries: usize, bytes: u64) -> io::Result<()> {
        let left = self.entries.checked_sub(entries).zip(self.bytes.checked_sub(bytes));
        (self.entries, self.bytes) = left.ok_or_else(too_large_to_copy_error)?;
        Ok(())
    }
}

fn too_large_to_copy_error() -> io::Error {
    io::Error::other("the protected files of the project are too large to be copied")
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns all paths beneath a folder with the content of files, sorted.
    fn tree(root: &Path) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let kind = entry.file_type().unwrap();
                let text = match kind {
                    kind if kind.is_symlink() => {
                        format!("-> {}", fs::read_link(entry.path()).unwrap().display())
                    }
                    kind if kind.is_dir() => {
                        folders.push(entry.path());
                        "folder".to_owned()
                    }
                    _ => fs::read_to_string(entry.path()).unwrap(),
                };
                found.push((entry.path().strip_prefix(root).unwrap().to_owned(), text));
            }
        }
        found.sort();
        found
    }

    fn project(folder: &Path) -> (PathBuf, Vec<PathBuf>) {
        let root = folder.join("root");
        for name in [".git/hooks/pre-push", ".github/workflows/ci.yml", "AGENTS.md", "src/a"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), name).unwrap();
        }
        fs::set_permissions(root.join(".git/hooks/pre-push"), fs::Permissions::from_mode(0o755))
            .unwrap();
        symlink("src", root.join(".vscode")).unwrap();
        let names = [
            ".git/hooks",
            ".github/workflows",
            "AGENTS.md",
            ".vscode",
            ".idea",
            ".envrc",
            ".cargo/config.toml",
        ];
        let paths = names.map(|name| root.join(name)).into();
        (root, paths)
    }

    #[test]
    fn changes_of_protected_names_are_undone_and_kept_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let (root, paths) = project(folder.path());
        let roots = [root.clone()];
        let before = tree(&root);
        let copies = ProtectedCopies::create(&roots, paths.clone()).unwrap();
        assert_eq!(copies.restore(), ProtectedRestoreOutcome::default());

        fs::write(root.join(".git/hooks/pre-push"), "evil").unwrap();
        fs::write(root.join(".git/hooks/pre-commit"), "evil").unwrap();
        fs::remove_file(root.join("AGENTS.md")).unwrap();
        fs::remove_file(root.join(".vscode")).unwrap();
        fs::create_dir_all(root.join(".vscode/tasks")).unwrap();
        fs::write(root.join(".envrc"), "evil").unwrap();
        fs::write(root.join("src/a"), "fine").unwrap();
        let changed = copies.restore();
        let expected = [".git/hooks", "AGENTS.md", ".vscode", ".envrc"];
        assert_eq!(changed.restored, expected.map(|name| root.join(name)));
        assert_eq!(changed.failed, [""; 0].map(PathBuf::from));
        let is_kept = |name: &Path| name.to_string_lossy().contains(KEPT_NAME);
        let after: Vec<_> = tree(&root).into_iter().filter(|(name, _)| !is_kept(name)).collect();
        let mut expected = before;
        expected.iter_mut().filter(|(name, _)| name == Path::new("src/a")).for_each(|entry| {
            "fine".clone_into(&mut entry.1);
        });
        assert_eq!(after, expected);
        let mode = fs::metadata(root.join(".git/hooks/pre-push")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
        let kept = tree(&root).into_iter().filter(|(name, text)| is_kept(name) && text == "evil");
        assert_eq!(kept.count(), 3);
    }

    #[test]
    fn nothing_is_restored_through_a_link_of_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let (root, paths) = project(folder.path());
        let copies = ProtectedCopies::create(std::slice::from_ref(&root), paths).unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir_all(outside.join("workflows")).unwrap();
        fs::rename(root.join(".github"), root.join("moved")).unwrap();
        symlink(&outside, root.join(".github")).unwrap();
        fs::create_dir(root.join("x")).unwrap();
        fs::write(root.join("x/config.toml"), "evil").unwrap();
        symlink("x", root.join(".cargo")).unwrap();
        let restored = copies.restore().restored;
        assert_eq!(restored, [".github/workflows", ".cargo/config.toml"].map(|it| root.join(it)));
        assert!(!root.join(".cargo/config.toml").exists());
        assert_eq!(tree(&outside), [("workflows".into(), "folder".to_owned())]);
        let text = fs::read_to_string(root.join(".github/workflows/ci.yml")).unwrap();
        assert_eq!(text, ".github/workflows/ci.yml");
    }

    #[test]
    fn content_that_is_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (root, paths) = project(folder.path());
        let large = File::create(root.join("AGENTS.md")).unwrap();
        large.set_len(MAX_PROTECTED_COPY_BYTES + 1).unwrap();
        assert!(ProtectedCopies::create(&[root], paths).is_err());
    }
}
