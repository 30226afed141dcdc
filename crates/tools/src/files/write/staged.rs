//! One file on its way: the new one beside the old one, then in its place, and back if need be.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::protection::{Copies, Manner};
use super::{Change, unwritten};
use crate::error::{Code, ToolError};
use crate::files::contents::{fill, holds, holds_quietly, is_other, overwrite};
use crate::files::stamp::Stamp;
use crate::files::state::journal::{self, Prepared, fresh, spare};
use crate::files::state::steps::Deed;
use crate::files::state::undo_store::Undo;
use crate::files::system::{
    Audience, Dir, Identified as _, Identity, Kind, Look, Root, copy_access, links,
};
use crate::files::workspace::{Resolved, Workspace, open};
use crate::limits::EXCHANGE_TRIES;

/// A file that is ready to be written. What lies beside it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Staged<'a> {
    workspace: &'a Workspace,
    change: Change<'a>,
    /// The real place.
    path: PathBuf,
    dir: Dir,
    /// Where the copies lie, if not beside it.
    copies: Option<Dir>,
    manner: Manner,
    name: OsString,
    /// The file beside it: the new one, or a copy of the old one where that is written in place.
    temporary: OsString,
    /// The directories that were made for it.
    made: Vec<Resolved>,
    /// What tells the new file from others, once it is held.
    ours: Identity,
    /// The new file from when it is put in its place, so that what somebody puts there next is
    /// known for another one even if ours is gone.
    held: Option<File>,
    /// The old file, as it was when its content was compared last.
    old: Option<Look>,
    after: Stamp,
    way: Way,
    state: State,
    /// Whether it held something else right after it was written in place.
    is_mixed: bool,
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
    /// It is neither the old one nor the new one, and what lies beside it is needed.
    Stranded,
    /// Nothing is beside it any more.
    Cleaned,
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
    /// Makes the new file beside the old one, which it does not touch. It tells again and again how
    /// many bytes of it are written.
    pub(super) fn new(
        workspace: &'a Workspace,
        change: Change<'a>,
        manner: Manner,
        temporary: OsString,
        filled: &mut dyn FnMut(usize),
    ) -> Result<Self, ToolError> {
        let at = change.at;
        let target = workspace.settle(at)?;
        let (Some(parent), Some(name)) = (target.parent(), target.beneath().file_name()) else {
            return Err(workspace.explain(at, &io::ErrorKind::IsADirectory.into()));
        };
        let (dir, made) = match change.found {
            None => open::create_dirs(workspace, &parent)?,
            Some(_) => match workspace.open_dir(&parent) {
                Err(error) if error.code() == Some(Code::NotFound) => return Err(changed(at)),
                other => (other?, Vec::new()),
            },
        };
        let copies = match (manner.copies, workspace.journal()) {
            (Copies::State, Some(folder)) => {
                let dir = Root::pin(folder).and_then(|root| root.dir(Path::new("")));
                Some(dir.map_err(|error| unwritten(workspace, &error))?)
            }
            _ => None,
        };
        let (path, name) = (target.path().to_owned(), name.to_owned());
        let (state, way, ours, held, old) = (State::Prepared, Way::Add, (0, 0), None, None);
        let after = Stamp::of(change.bytes);
        // From here on what is made is removed whatever happens.
        let mut staged = Self {
            workspace,
            change,
            path,
            dir,
            copies,
            manner,
            name,
            temporary,
            made,
            ours,
            held,
            old,
            after,
            way,
            state,
            is_mixed: false,
        };
        staged.fill(filled).map_err(|trouble| trouble.explained(workspace, at))?;
        Ok(staged)
    }

    fn fill(&mut self, filled: &mut dyn FnMut(usize)) -> Result<(), Trouble> {
        let Some(old) = self.change.found else {
            let temporary = self.dir.create(&self.temporary, Audience::Everyone)?;
            self.ours = self.dir.identity(&self.temporary)?;
            fill(&temporary, self.change.bytes, filled)?;
            return Ok(self.workspace.durability().of(&temporary)?);
        };
        // Opening it for writing asks for the permission that a rename would not need.
        let mut file = match self.dir.change(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(changed(self.change.at).into());
            }
            other => other?,
        };
        let metadata = file.metadata()?;
        open::require_file(self.change.at, &metadata)?;
        open::require_same(self.workspace, self.change.at, &metadata)?;
        self.old = Some(self.dir.look(&self.name)?);
        self.require_old(&mut file)?;
        if self.manner.copies == Copies::Nowhere {
            self.way = Way::InPlace(file);
            return Ok(());
        }
        let temporary = self.beside().create(&self.temporary, Audience::Owner);
        let temporary = temporary.map_err(|error| self.of_copies(error))?;
        self.way = Way::Replace;
        let ours = self.beside().identity(&self.temporary);
        self.ours = ours.map_err(|error| self.of_copies(error))?;
        let is_in_place = self.manner.is_in_place || links(&metadata) > 1;
        if is_in_place || !copy_access(&file, &temporary)? {
            if self.manner.is_exchanged_only {
                self.workspace.note_unexchangeable(&self.path);
                return Err(unexchangeable(self.change.at).into());
            }
            self.way = Way::InPlace(file);
            // Both are beside it, so that a half of each can be told from anything else.
            let copied = self.beside().create(&fresh(&self.temporary), Audience::Owner);
            let copied = copied.and_then(|new| {
                fill(&new, self.change.bytes, filled)?;
                self.workspace.durability().of(&new)?;
                fill(&temporary, old, &mut |_| {})?;
                self.workspace.durability().of(&temporary)
            });
            return copied.map_err(|error| self.of_copies(error));
        }
        fill(&temporary, self.change.bytes, filled)?;
        // Writing may have taken the set-user-id bit away.
        temporary.set_permissions(metadata.permissions())?;
        Ok(self.workspace.durability().of(&temporary)?)
    }

    /// Blames the state folder for an error of the copies, where they lie there.
    fn of_copies(&self, error: io::Error) -> Trouble {
        match self.copies {
            Some(_) => unwritten(self.workspace, &error).into(),
            None => error.into(),
        }
    }

    /// Where its copies lie, and the new file before it is in its place.
    fn beside(&self) -> &Dir {
        self.copies.as_ref().unwrap_or(&self.dir)
    }

    /// Puts the new file in its place, if there still is the old one.
    pub(super) fn commit(&mut self) -> Result<(), ToolError> {
        let done = self.put();
        done.map_err(|trouble| trouble.explained(self.workspace, self.change.at))?;
        if self.state == State::Prepared {
            self.state = State::Written;
        }
        Ok(())
    }

    fn put(&mut self) -> Result<(), Trouble> {
        if let Way::InPlace(file) = &self.way {
            let file = file.try_clone()?;
            return self.overwrite(&file);
        }
        self.held = Some(self.dir.hold(&self.temporary)?);
        match self.way {
            Way::Add => self.add(),
            _ => self.replace(),
        }
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
            Ok(()) => match self.require_old_at(&self.temporary.clone()) {
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
    fn replace_at_once(&mut self) -> Result<(), Trouble> {
        let old = spare(&self.temporary);
        self.require_old_at(&self.name.clone())?;
        if self.dir.link(&self.name, &old).is_err() {
            // Nothing lies beside it then: see `make_again`.
            return Ok(self.dir.replace(&self.temporary, &self.name)?);
        }
        if let Err(error) = self.dir.replace(&self.temporary, &self.name) {
            self.dir.remove(&old)?;
            return Err(error.into());
        }
        if let Err(error) = self.dir.replace(&old, &self.temporary) {
            self.state = State::Stranded;
            self.dir.replace(&old, &self.name)?;
            self.state = State::Prepared;
            return Err(error.into());
        }
        Ok(())
    }

    fn overwrite(&mut self, file: &File) -> Result<(), Trouble> {
        // Who replaced it by a rename has another file there, and this one is none of ours.
        let is_there = self.dir.identity(&self.name).ok() == Some(file.identity()?);
        let old = self.change.found.unwrap_or_default();
        if !is_there || !holds_quietly(file, &mut &*file, old)? {
            return Err(self.changed().into());
        }
        let durability = self.workspace.durability();
        let written = overwrite(file, self.change.bytes).and_then(|()| durability.of(file));
        if written.is_err() {
            // Until it is whole again, the file beside it is the only whole one.
            self.state = State::Stranded;
            overwrite(file, old)?;
            self.state = State::Prepared;
        }
        self.is_mixed = written.is_ok() && is_other(file, self.change.bytes);
        Ok(written?)
    }

    /// Waits until the disk has the names in its directory, unless that is one of those that were
    /// waited for.
    pub(super) fn sync_names(&self, waited: &mut HashSet<Identity>) -> Result<(), ToolError> {
        let mut wait = || match waited.insert(self.dir.itself()?) {
            true => self.workspace.durability().of_names(&self.dir),
            false => Ok(()),
        };
        wait().map_err(|error| self.workspace.explain(self.change.at, &error))
    }

    /// What a journal has to know.
    pub(super) fn prepared(&self) -> Prepared {
        let way = match self.way {
            Way::Add => journal::Manner::Add,
            Way::Replace => journal::Manner::Replace,
            Way::InPlace(_) => journal::Manner::InPlace,
        };
        let old = self.old.map(|old| old.identity);
        Prepared { way, ours: self.ours, old, after: *self.after.as_bytes() }
    }

    pub(super) fn is_in_place(&self) -> bool {
        matches!(self.way, Way::InPlace(_))
    }

    /// Whether somebody else wrote to it while it was written in place: it may hold parts of both.
    pub(super) fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Says that its file is not the one that was seen.
    pub(super) fn changed(&self) -> ToolError {
        changed(self.change.at)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn after(&self) -> Stamp {
        self.after
    }

    /// Keeps the old file, and tells what was done. It is done by now, so what cannot be kept is
    /// told to be lost.
    /// Without `undo`, nothing is kept.
    pub(super) fn kept(&self, undo: Option<&Undo>) -> Vec<Deed> {
        let (path, after) = (self.path.clone(), self.after);
        let Some(old) = self.change.found else {
            let made = self.made.iter().map(|at| Deed::MadeDirectory(at.path().to_owned()));
            return made.chain([Deed::Made { path, after }]).collect();
        };
        let Some(undo) = undo else { return vec![Deed::NotKept { path }] };
        let bytes = old.len() as u64;
        let before = match undo.take(self.beside(), &self.temporary, bytes) {
            Ok(Some(blob)) => {
                if let (Way::Replace, Some(look)) = (&self.way, self.old) {
                    undo.watch(&path, &blob, look, || Stamp::of(old));
                }
                Some(blob)
            }
            Ok(None) => None,
            // What somebody wrote to it late is copied too.
            Err(_) => {
                let copied = undo.copy(self.beside(), &self.temporary);
                copied.or_else(|_| undo.put(old)).ok().flatten()
            }
        };
        vec![match before {
            Some(before) => Deed::Replaced { path, before, after },
            None => Deed::NotKept { path },
        }]
    }

    /// Removes what lies beside the file. Returns whether nothing is left to be put in order.
    pub(super) fn clean(&mut self) -> bool {
        let state = std::mem::replace(&mut self.state, State::Cleaned);
        if state == State::Cleaned {
            return true;
        }
        if self.manner.copies == Copies::Nowhere {
            return true;
        }
        let remove = |name: &OsStr| match self.beside().remove(name) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        };
        // A file that was added has its own name now, and nothing has this one.
        let mut is_clean = state != State::Stranded && remove(&self.temporary);
        if let (Way::InPlace(_), true) = (&self.way, is_clean) {
            is_clean = remove(&fresh(&self.temporary));
        }
        if state != State::Written {
            open::remove_dirs(&self.made);
        }
        is_clean
    }

    /// Makes all as it was before. The error names the file if that cannot be done.
    pub(super) fn roll_back(&mut self) -> Result<(), String> {
        if self.state != State::Written {
            return Ok(());
        }
        let done = match (&self.way, self.change.found) {
            (Way::InPlace(file), Some(old)) => self.unwrite(file, old),
            (Way::Add, _) | (_, None) => self.if_ours(|| self.dir.remove(&self.name)),
            (Way::Replace, Some(old)) => {
                self.swap_back(self.ours).or_else(|error| match error.kind() {
                    io::ErrorKind::Unsupported => {
                        self.if_ours(|| self.dir.replace(&self.temporary, &self.name))
                    }
                    io::ErrorKind::NotFound => self.if_ours(|| self.make_again(old)),
                    _ => Err(error),
                })
            }
        };
        self.state = if done.is_ok() { State::Prepared } else { State::Stranded };
        done.map_err(|error| format!("{} ({error})", self.change.at.given()))
    }

    /// Writes the old file anew, where no second name could be given to it.
    fn make_again(&self, old: &[u8]) -> io::Result<()> {
        let again = self.dir.create(&self.temporary, Audience::Owner)?;
        fill(&again, old, &mut |_| {})?;
        copy_access(&self.dir.open(&self.name)?, &again)?;
        self.workspace.durability().of(&again)?;
        self.dir.replace(&self.temporary, &self.name)
    }

    /// Does something with the file, if it is the one that was put there: any other is newer.
    fn if_ours(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let is_ours = self.dir.identity(&self.name).is_ok_and(|there| there == self.ours);
        if is_ours { change() } else { Ok(()) }
    }

    /// Writes the old bytes, if the new ones are there: what somebody wrote since is newer.
    fn unwrite(&self, file: &File, old: &[u8]) -> io::Result<()> {
        let is_ours = holds_quietly(file, &mut &*file, self.change.bytes)?;
        if is_ours { overwrite(file, old) } else { Ok(()) }
    }

    /// Exchanges the file in its place, which is `put`, for the one beside it.
    ///
    /// Whatever comes out and is not what was put there is newer, so it is put back in turn: who
    /// writes last wins, as without us.
    fn swap_back(&mut self, mut put: Identity) -> io::Result<()> {
        // What was put there is held too, until it is known whether it came out.
        let mut _held;
        for _ in 0..EXCHANGE_TRIES {
            let kept = self.dir.identity(&self.temporary)?;
            let holding = self.dir.hold(&self.temporary);
            match self.dir.exchange(&self.temporary, &self.name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return self.dir.rename(&self.temporary, &self.name);
                }
                other => other?,
            }
            if self.dir.identity(&self.temporary)? == put {
                return Ok(());
            }
            (put, _held) = (kept, holding);
        }
        Err(io::Error::other("it is being written all the time"))
    }

    fn require_old_at(&mut self, name: &OsStr) -> Result<(), Trouble> {
        let Ok(mut file) = self.dir.open(name) else { return Err(changed(self.change.at).into()) };
        if !file.metadata()?.is_file() {
            return Err(changed(self.change.at).into());
        }
        // Before its content: who writes after that is noticed by it.
        self.old = Some(self.dir.look(name)?);
        self.require_old(&mut file)
    }

    fn require_old(&self, file: &mut impl io::Read) -> Result<(), Trouble> {
        let is_old = holds(file, self.change.found.unwrap_or_default())?;
        if is_old { Ok(()) } else { Err(changed(self.change.at).into()) }
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        self.clean();
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

/// Says that a file would be written in place, which the next preview knows.
fn unexchangeable(at: &Resolved) -> ToolError {
    let message = format!(
        "{} can only be written in place, because its owner or attributes cannot be given to \
         another file or it has another name, so nothing was written. Try again",
        at.given()
    );
    ToolError::report(Code::ChangedSincePreview, message)
}

fn dangling(at: &Resolved) -> ToolError {
    let message = format!("{} is a link to a file that does not exist. Write that one", at.given());
    ToolError::report(Code::NotFound, message)
}
