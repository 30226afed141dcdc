//! One file on its way: the new one beside the old one, then in its place, and back if need be.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use super::Change;
use super::journal::{Manner, Prepared, spare};
use crate::error::{Code, ToolError};
use crate::limits::EXCHANGE_TRIES;
use crate::stamp::Stamp;
use crate::sys::fs::{Audience, Dir, Kind, copy_access, links};
use crate::undo::{Deed, Undo};
use crate::workspace::{Resolved, Workspace, require_file};

/// A file that is ready to be written. What lies beside it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Staged<'a> {
    workspace: &'a Workspace,
    change: Change<'a>,
    /// The real place.
    path: PathBuf,
    dir: Dir,
    name: OsString,
    /// The file beside it: the new one, or a copy of the old one where that is written in place.
    temporary: OsString,
    /// The directories that were made for it.
    made: Vec<Resolved>,
    /// What tells the new file from others.
    ours: (u64, u64),
    way: Way,
    state: State,
}

#[derive(Debug)]
enum Way {
    /// Nothing was there.
    Add,
    /// It takes the place of another file.
    Replace,
    /// Its bytes are replaced.
    InPlace(File),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The new file is beside the old one.
    Prepared,
    /// The new file is in its place. The old one is beside it, if there was one.
    Written,
    /// Beside it is what somebody else wrote, and it cannot be put back.
    Stranded,
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

impl Trouble {
    fn explained(self, workspace: &Workspace, at: &Resolved) -> ToolError {
        match self {
            Self::Io(error) => workspace.explain(at, &error),
            Self::Tool(error) => error,
        }
    }
}

impl<'a> Staged<'a> {
    /// Makes the new file beside the old one, which it does not touch.
    pub(super) fn new(
        workspace: &'a Workspace,
        change: Change<'a>,
        temporary: OsString,
    ) -> Result<Self, ToolError> {
        let at = change.at;
        let target = workspace.settle(at)?;
        let (Some(parent), Some(name)) = (target.parent(), target.beneath().file_name()) else {
            return Err(workspace.explain(at, &io::ErrorKind::IsADirectory.into()));
        };
        let (dir, made) = match change.found {
            None => workspace.create_dirs(&parent)?,
            Some(_) => match workspace.open_dir(&parent) {
                Err(error) if error.code() == Some(Code::NotFound) => return Err(changed(at)),
                other => (other?, Vec::new()),
            },
        };
        let audience = if change.found.is_some() { Audience::Owner } else { Audience::Everyone };
        let created =
            dir.create(&temporary, audience).and_then(|file| Ok((dir.identity(&temporary)?, file)));
        let (ours, file) = created.map_err(|error| {
            workspace.remove_dirs(&made);
            workspace.explain(at, &error)
        })?;
        let (path, name) = (target.path().to_owned(), name.to_owned());
        let state = State::Prepared;
        // From here on the file beside it is removed whatever happens.
        let way = Way::Add;
        let mut staged =
            Self { workspace, change, path, dir, name, temporary, made, ours, way, state };
        let filled = staged.fill(&file);
        filled.map_err(|trouble| trouble.explained(workspace, at))?;
        Ok(staged)
    }

    fn fill(&mut self, temporary: &File) -> Result<(), Trouble> {
        if let Some(old) = self.change.found {
            // Opening it for writing asks for the permission that a rename would not need.
            let mut file = match self.dir.change(&self.name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(changed(self.change.at).into());
                }
                other => other?,
            };
            let metadata = file.metadata()?;
            require_file(self.change.at, &metadata)?;
            self.workspace.require_same(self.change.at, &metadata)?;
            self.require_old(&mut file)?;
            self.way = Way::Replace;
            if links(&metadata) > 1 || !copy_access(&file, temporary)? {
                self.way = Way::InPlace(file);
                fill(temporary, old)?;
            } else {
                fill(temporary, self.change.bytes)?;
                // Writing may have taken the set-user-id bit away.
                temporary.set_permissions(metadata.permissions())?;
            }
        } else {
            fill(temporary, self.change.bytes)?;
        }
        Ok(self.workspace.durability().of(temporary)?)
    }

    /// Puts the new file in its place, if there still is the old one.
    pub(super) fn commit(&mut self) -> Result<(), ToolError> {
        let done = match &self.way {
            Way::Add => self.add(),
            Way::Replace => self.replace(),
            Way::InPlace(file) => match file.try_clone() {
                Ok(file) => self.overwrite(&file),
                Err(error) => Err(error.into()),
            },
        };
        done.map_err(|trouble| trouble.explained(self.workspace, self.change.at))?;
        if self.state == State::Prepared {
            self.state = State::Written;
        }
        Ok(())
    }

    fn add(&self) -> Result<(), Trouble> {
        match self.dir.rename(&self.temporary, &self.name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(match self.dir.kind(&self.name)? {
                    Kind::Link => dangling(self.change.at).into(),
                    Kind::Directory => Trouble::Io(io::ErrorKind::IsADirectory.into()),
                    Kind::File | Kind::Special => changed(self.change.at).into(),
                })
            }
            done => Ok(done?),
        }
    }

    fn replace(&mut self) -> Result<(), Trouble> {
        match self.dir.exchange(&self.temporary, &self.name) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.replace_at_once(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(changed(self.change.at).into())
            }
            Err(error) => Err(error.into()),
            Ok(()) => match self.require_old_at(&self.temporary) {
                Ok(()) => Ok(()),
                Err(trouble) => {
                    // Until it is back, the file beside it is the only one that somebody wrote.
                    self.state = State::Stranded;
                    self.swap_back(self.ours)?;
                    self.state = State::Prepared;
                    Err(trouble)
                }
            },
        }
    }

    /// Compares and replaces, for systems that cannot exchange. The old file gets one more name
    /// before, so that it can be put back.
    fn replace_at_once(&self) -> Result<(), Trouble> {
        let old = spare(&self.temporary);
        self.require_old_at(&self.name)?;
        let is_kept = self.dir.link(&self.name, &old).is_ok();
        let replaced = self.dir.replace(&self.temporary, &self.name);
        if is_kept {
            let to = if replaced.is_ok() {
                self.dir.replace(&old, &self.temporary)
            } else {
                self.dir.remove(&old)
            };
            to?;
        }
        Ok(replaced?)
    }

    fn overwrite(&mut self, mut file: &File) -> Result<(), Trouble> {
        file.rewind()?;
        self.require_old(&mut file)?;
        let written = overwrite(file, self.change.bytes);
        if let (Err(_), Some(old)) = (&written, self.change.found) {
            // Until it is whole again, the file beside it is the only whole one.
            self.state = State::Stranded;
            overwrite(file, old)?;
            self.state = State::Prepared;
        }
        written?;
        Ok(self.workspace.durability().of(file)?)
    }

    /// What a journal has to know.
    pub(super) fn prepared(&self) -> Prepared {
        let way = match self.way {
            Way::Add => Manner::Add,
            Way::Replace => Manner::Replace,
            Way::InPlace(_) => Manner::InPlace,
        };
        Prepared { ours: self.ours, way, after: *Stamp::of(self.change.bytes).as_bytes() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.change.bytes
    }

    /// Keeps the old file, and tells what was done. What cannot be kept is left out: that is better
    /// than to write it and say that it was not written.
    pub(super) fn kept(self, undo: &Undo) -> Vec<Deed> {
        let (path, after) = (self.path.clone(), Stamp::of(self.change.bytes));
        let Some(old) = self.change.found else {
            let made = self.made.iter().map(|at| Deed::MadeDirectory(at.path().to_owned()));
            return made.chain([Deed::Made { path, after }]).collect();
        };
        let moved = undo.take(&self.dir, &self.temporary, old.len() as u64);
        let before = moved.or_else(|_| undo.put(old)).ok().flatten();
        before.map(|before| Deed::Replaced { path, before, after }).into_iter().collect()
    }

    /// Makes all as it was before. The error names the file if that cannot be done.
    pub(super) fn roll_back(&mut self) -> Result<(), String> {
        if self.state != State::Written {
            return Ok(());
        }
        let done = match (&self.way, self.change.found) {
            (Way::InPlace(file), Some(old)) => overwrite(file, old),
            (Way::Add, _) | (_, None) => self.dir.remove(&self.name),
            (Way::Replace, Some(_)) => {
                self.swap_back(self.ours).or_else(|error| match error.kind() {
                    io::ErrorKind::Unsupported => self.dir.replace(&self.temporary, &self.name),
                    _ => Err(error),
                })
            }
        };
        self.state = if done.is_ok() { State::Prepared } else { State::Stranded };
        done.map_err(|error| format!("{} ({error})", self.change.at.given()))
    }

    /// Exchanges the file in its place, which is `put`, for the one beside it.
    ///
    /// Whatever comes out and is not what was put there is newer, so it is put back in turn: who
    /// writes last wins, as without us.
    fn swap_back(&mut self, mut put: (u64, u64)) -> io::Result<()> {
        for _ in 0..EXCHANGE_TRIES {
            let kept = self.dir.identity(&self.temporary)?;
            match self.dir.exchange(&self.temporary, &self.name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return self.dir.rename(&self.temporary, &self.name);
                }
                other => other?,
            }
            if self.dir.identity(&self.temporary)? == put {
                return Ok(());
            }
            put = kept;
        }
        self.state = State::Stranded;
        Err(io::Error::other("it is being written all the time"))
    }

    fn require_old_at(&self, name: &OsStr) -> Result<(), Trouble> {
        let Ok(mut file) = self.dir.open(name) else { return Err(changed(self.change.at).into()) };
        if !file.metadata()?.is_file() {
            return Err(changed(self.change.at).into());
        }
        self.require_old(&mut file)
    }

    fn require_old(&self, file: &mut impl io::Read) -> Result<(), Trouble> {
        let old = self.change.found.unwrap_or_default();
        let mut now = Vec::with_capacity(old.len() + 1);
        file.take(old.len() as u64 + 1).read_to_end(&mut now)?;
        if now == old { Ok(()) } else { Err(changed(self.change.at).into()) }
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // A file that was added has its own name now, and nothing has this one.
        if self.state != State::Stranded {
            drop(self.dir.remove(&self.temporary));
        }
        if self.state != State::Written {
            self.workspace.remove_dirs(&self.made);
        }
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

fn fill(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(bytes)
}

pub(super) fn overwrite(file: &File, bytes: &[u8]) -> io::Result<()> {
    fill(file, bytes)?;
    file.set_len(bytes.len() as u64)
}
