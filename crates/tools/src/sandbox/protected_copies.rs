//! Copies of protected names, for an isolation that cannot keep them read-only: a change by a command
//! is undone when the command ends.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use crate::files::system::{Dir, FileKind, FileVisibility, PinnedDirectory};
use crate::limits::{MAX_PROTECTED_COPY_BYTES, MAX_PROTECTED_COPY_ENTRIES};

/// The content of protected names in the project folders before a command.
#[derive(Debug)]
pub(super) struct ProtectedCopies {
    copies: Vec<ProtectedCopy>,
}

#[derive(Debug)]
struct ProtectedCopy {
    root: PathBuf,
    /// The path in the project folder.
    name: PathBuf,
    content: Content,
}

/// The content of one path. Links are not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Missing,
    File {
        bytes: Vec<u8>,
        is_executable: bool,
    },
    Link(OsString),
    Folder(BTreeMap<OsString, Self>),
    /// A FIFO, socket or device. It is not created again.
    Special,
}

/// The number of entries and bytes that may still be copied.
struct CopyBudget {
    entries: usize,
    bytes: u64,
}

impl ProtectedCopies {
    /// Copies the content of these paths, each in one of the project folders. Other paths are left
    /// out.
    ///
    /// # Errors
    ///
    /// Returns an error if something cannot be read, or if the content is too large.
    pub(super) fn make(
        roots: &[PathBuf],
        paths: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<Self> {
        let mut budget =
            CopyBudget { entries: MAX_PROTECTED_COPY_ENTRIES, bytes: MAX_PROTECTED_COPY_BYTES };
        let mut copies = Vec::new();
        for path in paths {
            let root = roots.iter().find(|root| path.starts_with(root));
            let Some((root, name)) = root
                .and_then(|root| Some((root.clone(), path.strip_prefix(root).ok()?.to_owned())))
            else {
                continue;
            };
            let content = read_in(&root, &name, &mut budget)?;
            copies.push(ProtectedCopy { root, name, content });
        }
        Ok(Self { copies })
    }

    /// Restores the paths that have changed, and returns them. What is there instead is kept beside
    /// them, under another name.
    pub(super) fn restore(&self) -> Vec<PathBuf> {
        let restore = |copy: &ProtectedCopy| {
            let changed = copy.restore_if_changed().unwrap_or_else(|error| {
                tracing::error!(%error, path = %copy.name.display(), "cannot be restored");
                true
            });
            changed.then(|| copy.root.join(&copy.name))
        };
        self.copies.iter().filter_map(restore).collect()
    }
}

impl ProtectedCopy {
    fn restore_if_changed(&self) -> io::Result<bool> {
        // A folder that a command filled may be too large to be read, and is then different.
        let mut budget =
            CopyBudget { entries: MAX_PROTECTED_COPY_ENTRIES, bytes: MAX_PROTECTED_COPY_BYTES };
        if read_in(&self.root, &self.name, &mut budget).is_ok_and(|now| now == self.content) {
            return Ok(false);
        }
        let Some(name) = self.name.file_name() else { return Ok(false) };
        let parent = open_or_create_parent(&self.root, &self.name)?;
        if parent.entry_kind(name).is_ok() {
            move_aside(&parent, name)?;
        }
        self.content.write(&parent, name)?;
        Ok(true)
    }
}

/// Reads a path in a folder. A path through a link is missing: the link itself is outside.
fn read_in(root: &Path, name: &Path, budget: &mut CopyBudget) -> io::Result<Content> {
    let pinned = PinnedDirectory::pin(root)?;
    let parent = name.parent().unwrap_or(Path::new(""));
    let parent = if parent == Path::new("") { Path::new(".") } else { parent };
    let Ok(folder) = pinned.open_dir_without_links(parent) else { return Ok(Content::Missing) };
    match name.file_name() {
        Some(name) => Content::read(&folder, name, budget),
        None => Ok(Content::Missing),
    }
}

/// Opens the folder that contains a path, step by step. If something else is in the place of a
/// folder, it is moved aside.
fn open_or_create_parent(root: &Path, name: &Path) -> io::Result<Dir> {
    let mut folder = PinnedDirectory::pin(root)?.open_dir_without_links(Path::new("."))?;
    let parts = name.parent().into_iter().flat_map(Path::components);
    for part in parts {
        let Component::Normal(part) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        match folder.entry_kind(part) {
            Ok(FileKind::Directory) => {}
            Ok(_) => {
                move_aside(&folder, part)?;
                folder.create_dir(part)?;
            }
            Err(_) => folder.create_dir(part)?,
        }
        folder = folder.open_dir(part)?;
    }
    Ok(folder)
}

/// Renames an entry, so that its content is not lost.
fn move_aside(folder: &Dir, name: &OsStr) -> io::Result<()> {
    let mut moved = Err(io::ErrorKind::AlreadyExists.into());
    for number in 1..100 {
        let mut other = name.to_owned();
        other.push(format!(".changed-by-command-{number}"));
        moved = folder.rename_to_unused(name, &other);
        match &moved {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            _ => break,
        }
    }
    moved
}

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
                Self::File { bytes, is_executable: crate::files::system::is_executable(&file) }
            }
            FileKind::Link => Self::Link(folder.read_link(name)?),
            FileKind::Directory => {
                let folder = folder.open_dir(name)?;
                let (entries, is_cut) = folder.entries(budget.entries)?;
                if is_cut {
                    return Err(too_large());
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
            Self::File { bytes, is_executable } => {
                folder.create_new_file(name, FileVisibility::Everyone)?.write_all(bytes)?;
                if *is_executable { folder.set_mode(name, 0o755) } else { Ok(()) }
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

impl CopyBudget {
    fn take(&mut self, entries: usize, bytes: u64) -> io::Result<()> {
        let left = self.entries.checked_sub(entries).zip(self.bytes.checked_sub(bytes));
        (self.entries, self.bytes) = left.ok_or_else(too_large)?;
        Ok(())
    }
}

fn too_large() -> io::Error {
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
        let names = [".git/hooks", ".github/workflows", "AGENTS.md", ".vscode", ".idea", ".envrc"];
        let paths = names.map(|name| root.join(name)).into();
        (root, paths)
    }

    #[test]
    fn changes_of_protected_names_are_undone_and_kept_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let (root, paths) = project(folder.path());
        let roots = [root.clone()];
        let before = tree(&root);
        let copies = ProtectedCopies::make(&roots, paths.clone()).unwrap();
        assert_eq!(copies.restore(), [""; 0].map(PathBuf::from));

        fs::write(root.join(".git/hooks/pre-push"), "evil").unwrap();
        fs::write(root.join(".git/hooks/pre-commit"), "evil").unwrap();
        fs::remove_file(root.join("AGENTS.md")).unwrap();
        fs::remove_file(root.join(".vscode")).unwrap();
        fs::create_dir_all(root.join(".vscode/tasks")).unwrap();
        fs::write(root.join(".envrc"), "evil").unwrap();
        fs::write(root.join("src/a"), "fine").unwrap();
        let changed = copies.restore();
        let expected = [".git/hooks", "AGENTS.md", ".vscode", ".envrc"];
        assert_eq!(changed, expected.map(|name| root.join(name)));
        let is_kept = |name: &Path| name.to_string_lossy().contains(".changed-by-command-1");
        let after: Vec<_> = tree(&root).into_iter().filter(|(name, _)| !is_kept(name)).collect();
        let mut expected = before;
        expected.iter_mut().filter(|(name, _)| name == Path::new("src/a")).for_each(|entry| {
            "fine".clone_into(&mut entry.1);
        });
        assert_eq!(after, expected);
        let mode = fs::metadata(root.join(".git/hooks/pre-push")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
        let kept = root.join(".git/hooks.changed-by-command-1/pre-commit");
        assert_eq!(fs::read_to_string(kept).unwrap(), "evil");
    }

    #[test]
    fn nothing_is_restored_through_a_link_of_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let (root, paths) = project(folder.path());
        let copies = ProtectedCopies::make(std::slice::from_ref(&root), paths).unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir_all(outside.join("workflows")).unwrap();
        fs::rename(root.join(".github"), root.join("moved")).unwrap();
        symlink(&outside, root.join(".github")).unwrap();
        assert_eq!(copies.restore(), [root.join(".github/workflows")]);
        assert_eq!(tree(&outside), [("workflows".into(), "folder".to_owned())]);
        let text = fs::read_to_string(root.join(".github/workflows/ci.yml")).unwrap();
        assert_eq!(text, ".github/workflows/ci.yml");
    }

    #[test]
    fn content_that_is_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (root, paths) = project(folder.path());
        let large = fs::File::create(root.join("AGENTS.md")).unwrap();
        large.set_len(MAX_PROTECTED_COPY_BYTES + 1).unwrap();
        assert!(ProtectedCopies::make(&[root], paths).is_err());
    }
}
