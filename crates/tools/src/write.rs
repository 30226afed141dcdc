//! Writes a whole file so that it is the old one or the new one, never half of each.
//!
//! It knows nothing of what is written or who permitted it.
//!
//! The bytes go to a new file beside the old one, which is then renamed over it. The mode is kept,
//! and the owner where that is permitted; extended attributes are not. A link stays a link: the
//! file it leads to is written. A file with several names (hard links) is written in place, as a
//! rename would part it from its other names; if the power fails meanwhile it may be cut short.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _, Seek as _, Write as _};

use crate::error::{Code, ToolError};
use crate::limits::TEMP_TRIES;
use crate::read::grouped;
use crate::sys::fs::{Audience, Dir, Kind, copy_access, links};
use crate::workspace::{Resolved, Workspace, require_file};

/// What was there when a change was previewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreImage {
    /// Nothing.
    Missing,
    /// A file with these bytes.
    Bytes(Vec<u8>),
}

/// Reads a whole file for a preview; nothing is no error.
///
/// # Errors
///
/// As [`Workspace::open_read`], but not `not_found`; `too_large` for a file of more than `cap`
/// bytes.
pub fn read_whole(workspace: &Workspace, at: &Resolved, cap: u64) -> Result<PreImage, ToolError> {
    let file = match workspace.open_read(at) {
        Err(error) if error.code() == Some(Code::NotFound) => return Ok(PreImage::Missing),
        other => other?,
    };
    let mut bytes = Vec::new();
    let read = file.take(cap + 1).read_to_end(&mut bytes);
    read.map_err(|error| workspace.explain(at, &error))?;
    if bytes.len() as u64 > cap {
        let message = format!("{} has more than {} bytes", at.given(), grouped(cap));
        return Err(ToolError::report(Code::TooLarge, message));
    }
    Ok(PreImage::Bytes(bytes))
}

/// Writes a whole file if there still is what the preview saw. Missing directories are made.
///
/// A file that was not there is only ever added: if another one came meanwhile it stays.
///
/// # Errors
///
/// `changed_since_preview`, with nothing written; `is_a_directory`, `not_a_regular_file`,
/// `not_a_directory`; `outside_roots` if a link leads out; `not_permitted`, also for a file that
/// may not be written though it could be replaced; `io`.
pub fn atomic_write(
    workspace: &Workspace,
    at: &Resolved,
    bytes: &[u8],
    expected: &PreImage,
) -> Result<(), ToolError> {
    let target = workspace.settle(at)?;
    let (Some(parent), Some(name)) = (target.parent(), target.beneath().file_name()) else {
        return Err(workspace.explain(at, &io::ErrorKind::IsADirectory.into()));
    };
    let dir = match expected {
        PreImage::Missing => workspace.create_dirs(&parent)?,
        PreImage::Bytes(_) => match workspace.open_dir(&parent) {
            Err(error) if error.code() == Some(Code::NotFound) => return Err(changed(at)),
            other => other?,
        },
    };
    let write = Write { at, dir: &dir, name, bytes };
    write.run(expected).map_err(|error| match error {
        Trouble::Io(error) => workspace.explain(at, &error),
        Trouble::Tool(error) => error,
    })
}

struct Write<'a> {
    at: &'a Resolved,
    dir: &'a Dir,
    name: &'a OsStr,
    bytes: &'a [u8],
}

enum Trouble {
    Io(io::Error),
    Tool(ToolError),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ToolError> for Trouble {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

impl Write<'_> {
    fn run(&self, expected: &PreImage) -> Result<(), Trouble> {
        match expected {
            PreImage::Missing => self.add(),
            PreImage::Bytes(old) => self.modify(old),
        }
    }

    fn add(&self) -> Result<(), Trouble> {
        let temporary = Temporary::create(self.dir, Audience::Everyone)?;
        temporary.fill(self.bytes)?;
        match temporary.rename(self.name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(match self.dir.kind(self.name)? {
                    Kind::Link => dangling(self.at).into(),
                    Kind::Directory => Trouble::Io(io::ErrorKind::IsADirectory.into()),
                    Kind::File | Kind::Special => changed(self.at).into(),
                })
            }
            done => Ok(done?),
        }
    }

    fn modify(&self, old: &[u8]) -> Result<(), Trouble> {
        // Opening it for writing asks for the permission that a rename would not need.
        let mut file = match self.dir.change(self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(changed(self.at).into());
            }
            other => other?,
        };
        let metadata = file.metadata()?;
        require_file(self.at, &metadata)?;
        if links(&metadata) > 1 {
            self.require_unchanged(&mut file, old)?;
            return Ok(self.overwrite(file)?);
        }
        let temporary = self.prepared(&metadata)?;
        // As late as can be: little happens between this look and the rename.
        self.require_unchanged(&mut file, old)?;
        Ok(temporary.replace(self.name)?)
    }

    fn prepared(&self, metadata: &Metadata) -> io::Result<Temporary<'_>> {
        let temporary = Temporary::create(self.dir, Audience::Owner)?;
        copy_access(metadata, &temporary.file)?;
        temporary.fill(self.bytes)?;
        Ok(temporary)
    }

    fn require_unchanged(&self, file: &mut File, old: &[u8]) -> Result<(), Trouble> {
        let mut now = Vec::with_capacity(old.len());
        file.take(old.len() as u64 + 1).read_to_end(&mut now)?;
        if now == old { Ok(()) } else { Err(changed(self.at).into()) }
    }

    fn overwrite(&self, mut file: File) -> io::Result<()> {
        file.rewind()?;
        file.write_all(self.bytes)?;
        file.set_len(self.bytes.len() as u64)?;
        file.sync_data()
    }
}

fn changed(at: &Resolved) -> ToolError {
    let message = format!(
        "{} was changed by something else since this change was prepared, so nothing was written. \
         Read it again",
        at.given()
    );
    ToolError::report(Code::ChangedSincePreview, message)
}

fn dangling(at: &Resolved) -> ToolError {
    let message = format!("{} is a link to a file that does not exist. Write that one", at.given());
    ToolError::report(Code::NotFound, message)
}

/// A new file beside the one that it is for; gone when it is dropped.
struct Temporary<'a> {
    dir: &'a Dir,
    name: OsString,
    file: File,
}

impl<'a> Temporary<'a> {
    fn create(dir: &'a Dir, audience: Audience) -> io::Result<Self> {
        let mut tries = 0;
        loop {
            let random = RandomState::new().build_hasher().finish();
            let name = OsString::from(format!(".acp-tools-{random:016x}.tmp"));
            match dir.create(&name, audience) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => tries += 1,
                other => return Ok(Self { dir, name, file: other? }),
            }
            if tries == TEMP_TRIES {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
        }
    }

    fn fill(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        self.file.sync_data()
    }

    fn rename(self, to: &OsStr) -> io::Result<()> {
        self.dir.rename(&self.name, to)
    }

    fn replace(self, to: &OsStr) -> io::Result<()> {
        self.dir.replace(&self.name, to)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // After the rename nothing has this name any more.
        drop(self.dir.remove(&self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::{PreImage, atomic_write, read_whole};
    use crate::error::{Code, ToolError};
    use crate::workspace::testing::{Tree, tree};
    use pretty_assertions::assert_eq;

    fn write(tree: &Tree, path: &str, text: &str) -> Result<(), ToolError> {
        let at = tree.at(path);
        let seen = read_whole(&tree.workspace, &at, 99)?;
        atomic_write(&tree.workspace, &at, text.as_bytes(), &seen)
    }

    #[test]
    fn files_are_added_with_their_directories_and_replaced() {
        let tree = tree(&[("old", "old")]);
        for path in ["old", "new", "a/b/c/new"] {
            write(&tree, path, "text").unwrap();
            assert_eq!(tree.read(path), "text", "{path}");
        }
        assert_eq!(tree.names("."), ["a", "new", "old"]);
        assert_eq!(tree.names("a/b/c"), ["new"]);
    }

    #[test]
    fn what_the_preview_did_not_see_is_not_overwritten() {
        let tree = tree(&[("file", "other"), ("dir/", "")]);
        let bytes = |text: &str| PreImage::Bytes(text.into());
        for (path, seen, code) in [
            ("file", PreImage::Missing, Code::ChangedSincePreview),
            ("file", bytes("othe"), Code::ChangedSincePreview),
            ("file", bytes("other "), Code::ChangedSincePreview),
            ("gone", bytes("text"), Code::ChangedSincePreview),
            ("gone/too", bytes("text"), Code::ChangedSincePreview),
            ("dir", PreImage::Missing, Code::IsADirectory),
            ("dir", bytes(""), Code::IsADirectory),
            (".", PreImage::Missing, Code::IsADirectory),
            ("file/more", PreImage::Missing, Code::NotADirectory),
        ] {
            let error = atomic_write(&tree.workspace, &tree.at(path), b"new", &seen).unwrap_err();
            assert_eq!(error.code(), Some(code), "{path} {seen:?}");
        }
        assert_eq!(tree.names("."), ["dir", "file"]);
        assert_eq!(tree.read("file"), "other");
    }

    #[test]
    fn a_preview_reads_no_more_than_its_cap() {
        let tree = tree(&[("file", "12345")]);
        let read = |cap| read_whole(&tree.workspace, &tree.at("file"), cap);
        assert_eq!(read(5).unwrap(), PreImage::Bytes(b"12345".to_vec()));
        assert_eq!(read(4).unwrap_err().code(), Some(Code::TooLarge));
        let missing = read_whole(&tree.workspace, &tree.at("a/b"), 9).unwrap();
        assert_eq!(missing, PreImage::Missing);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn modes_links_and_names_stay() {
        use std::fs::{Permissions, hard_link, metadata, read_link, set_permissions};
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

        let tree = tree(&[("script", "old"), ("dir/target", "old"), ("one", "long old text")]);
        set_permissions(tree.path("script"), Permissions::from_mode(0o4755)).unwrap();
        write(&tree, "script", "new").unwrap();
        assert_eq!(metadata(tree.path("script")).unwrap().mode() & 0o7777, 0o4755);

        tree.link("link", "dir/target");
        tree.link("chain", tree.path("link"));
        write(&tree, "chain", "new").unwrap();
        assert_eq!(tree.read("dir/target"), "new");
        assert_eq!(read_link(tree.path("link")).unwrap().to_str(), Some("dir/target"));

        hard_link(tree.path("one"), tree.path("two")).unwrap();
        write(&tree, "one", "new").unwrap();
        assert_eq!(tree.read("two"), "new");
        assert_eq!(metadata(tree.path("two")).unwrap().nlink(), 2);

        // A new file has the mode that any program's new file has.
        tree.write("by-std", "");
        write(&tree, "added", "").unwrap();
        let mode = |path| metadata(tree.path(path)).unwrap().mode();
        assert_eq!(mode("added"), mode("by-std"));
        assert_eq!(tree.names(".").len(), 8);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_is_written_through_links_that_lead_out_or_to_special_files() {
        let tree = tree(&[]);
        tree.link("out", tree.outer().join("secret"));
        tree.link("out-dir", tree.outer());
        tree.link("dangling", "nothing");
        tree.link("dangling-out", tree.outer().join("nothing"));
        tree.fifo("fifo");
        let bytes = PreImage::Bytes(b"secret".to_vec());
        for (path, seen, code) in [
            ("out", &bytes, Code::OutsideRoots),
            ("out", &PreImage::Missing, Code::OutsideRoots),
            ("out-dir/secret", &bytes, Code::OutsideRoots),
            ("out-dir/new", &PreImage::Missing, Code::OutsideRoots),
            ("out-dir/new/new", &PreImage::Missing, Code::OutsideRoots),
            ("dangling", &PreImage::Missing, Code::NotFound),
            ("dangling-out", &PreImage::Missing, Code::NotFound),
            ("fifo", &bytes, Code::NotARegularFile),
        ] {
            let error = atomic_write(&tree.workspace, &tree.at(path), b"new", seen).unwrap_err();
            assert_eq!(error.code(), Some(code), "{path}: {error}");
        }
        assert_eq!(std::fs::read_to_string(tree.outer().join("secret")).unwrap(), "secret");
        let mut names: Vec<_> = std::fs::read_dir(tree.outer()).unwrap().collect();
        assert_eq!(names.drain(..).count(), 3);
        assert_eq!(tree.names(".").len(), 5);
    }
}
