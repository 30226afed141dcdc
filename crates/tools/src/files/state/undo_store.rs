//! Where what was changed is kept, and the list of what was done. It undoes nothing itself.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

use super::late::{LateWrite, Watched};
use super::steps::{Blob, Deed, Step};
use crate::files::snapshot::Seen;
use crate::files::stamp::Stamp;
use crate::files::state::journal::unique;
use crate::files::state::open_private;
use crate::files::state::session_folder::{self, Held};
use crate::files::system::{Audience, Dir, Look, Root, copy_access};
use crate::limits::{LATE_WATCHED, STATE_LOOK_BYTES, UNDO_BYTES, UNDO_STEPS};
use crate::lock::lock;

/// What was kept of the files that a session changed.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// Where; nowhere, if nothing is kept.
    folder: Option<PathBuf>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// What takes long is done in it without the lock.
    store: Option<Arc<Store>>,
    /// With a number that no other step of the session has or had.
    steps: VecDeque<(u64, Step)>,
    /// What could not be undone of steps: it stays for whoever looks for it.
    left: VecDeque<Step>,
    /// Whether a step was forgotten that nobody was told of.
    has_forgotten: bool,
    bytes: u64,
    /// How many they were when all of the state folder was looked at.
    looked: u64,
    blobs: u64,
    count: u64,
    watched: VecDeque<Watched>,
    /// What could not be kept and nobody was told of.
    lost: Vec<PathBuf>,
    /// What was written late and nobody was told of.
    late: VecDeque<LateWrite>,
}

/// The folder of one session.
#[derive(Debug)]
struct Store {
    dir: Dir,
    path: PathBuf,
    _held: Held,
}

impl Undo {
    /// Keeps what is changed in a folder of its own beneath `folder`.
    pub(crate) fn within(folder: PathBuf) -> Self {
        Self { folder: Some(folder), kept: Mutex::default() }
    }

    /// Whether things can be moved from a directory to where they are kept, if they are.
    pub(crate) fn is_beside(&self, dir: &Dir) -> bool {
        // It is made with the first change, beneath what is there.
        let mut above = self.folder.iter().flat_map(|folder| folder.ancestors());
        let existing = above.find_map(|path| Root::pin(path).ok()?.dir(Path::new("")).ok());
        existing.is_some_and(|existing| existing.is_beside(dir))
    }

    /// Checks that something can be kept, as far as the system tells without trying.
    pub(crate) fn require_taking(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let (store, _) = self.kept().next(folder)?;
        match store.dir.is_removed() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => store.dir.require_taking(),
        }
    }

    /// Moves something into the store. Nothing, if nothing is kept; an error if it cannot be
    /// moved, as to another file system.
    pub(crate) fn take(&self, dir: &Dir, name: &OsStr, bytes: u64) -> io::Result<Option<Blob>> {
        self.with_store(|store, blob| {
            dir.rename_into(name, &store.dir, &blob)?;
            Ok(store.own(blob, bytes))
        })
    }

    /// Copies a file into the store, with its owner, mode and attributes where they can be had.
    pub(crate) fn copy(&self, dir: &Dir, name: &OsStr) -> io::Result<Option<Blob>> {
        self.with_store(|store, blob| {
            let bytes = copy(dir, name, &store.dir, &blob)?;
            Ok(store.own(blob, bytes))
        })
    }

    /// Writes bytes into the store.
    pub(crate) fn put(&self, bytes: &[u8]) -> io::Result<Option<Blob>> {
        self.with_store(|store, blob| {
            store.dir.create(&blob, Audience::Owner)?.write_all(bytes)?;
            Ok(Blob { name: blob, bytes: bytes.len() as u64, mode: None })
        })
    }

    /// Reads what is kept of a file.
    pub(crate) fn read(&self, blob: &Blob) -> io::Result<Vec<u8>> {
        fs::read(self.place(blob).ok_or(io::ErrorKind::NotFound)?)
    }

    /// Returns where something is kept.
    pub(crate) fn place(&self, blob: &Blob) -> Option<PathBuf> {
        Some(self.store().ok()?.path.join(&blob.name))
    }

    /// Returns the same, if something is there.
    pub(crate) fn found(&self, blob: &Blob) -> Option<PathBuf> {
        self.place(blob).filter(|place| place.symlink_metadata().is_ok())
    }

    /// Looks at what is kept.
    pub(crate) fn seen(&self, blob: &Blob) -> io::Result<Seen> {
        Seen::of(&self.store()?.dir, &blob.name)
    }

    /// Moves what is kept to a name that nothing has; by a copy, if it is a file and cannot be
    /// moved.
    pub(crate) fn restore(&self, blob: &Blob, dir: &Dir, name: &OsStr) -> io::Result<()> {
        let store = self.store()?;
        if let Some(mode) = blob.mode {
            store.dir.set_mode(&blob.name, mode)?;
        }
        match store.dir.rename_into(&blob.name, dir, name) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                // Beside its place first: half a file must not have its name.
                let beside = unique();
                let copied = copy(&store.dir, &blob.name, dir, &beside);
                let placed = copied.and_then(|_bytes| dir.rename(&beside, name));
                placed.inspect_err(|_| drop(dir.remove(&beside)))
            }
            done => done,
        }
        .inspect_err(|_| drop(store.dir.take_mode(&blob.name)))
    }

    /// Removes what is kept.
    pub(crate) fn remove(&self, blob: &Blob) {
        if let Ok(store) = self.store() {
            store.remove(&blob.name);
        }
    }

    /// Notices from now on whether something writes to a file that was replaced, and that was so
    /// when it was compared last.
    pub(crate) fn watch(&self, path: &Path, blob: &Blob, look: Look, old: impl FnOnce() -> Stamp) {
        let mut kept = self.kept();
        kept.watched.push_back(Watched::new(path, blob.name.clone(), look, old));
        if kept.watched.len() > LATE_WATCHED {
            kept.watched.pop_front();
        }
    }

    /// Whether there is anything that could be written late.
    pub(crate) fn is_watching(&self) -> bool {
        !self.kept().watched.is_empty()
    }

    /// Looks for what was written since to files that had been replaced.
    pub(crate) fn look_for_late(&self) {
        let Ok(store) = self.store() else { return };
        // Whoever looks meanwhile finds none of these: each is told once.
        let mut watched = mem::take(&mut self.kept().watched);
        let mut late = Vec::new();
        watched.retain_mut(|watched| match watched.is_written(&store.dir) {
            Ok(is_written) => {
                let found = || (watched.path().to_owned(), watched.name().to_owned());
                late.extend(is_written.then(found));
                true
            }
            // It was restored, or is kept no more.
            Err(_) => false,
        });
        let mut kept = self.kept();
        for (path, name) in late {
            let can_be_undone = kept.can_undo(&name);
            let place = store.path.join(name);
            kept.tell(LateWrite { path, kept: Some(place), can_be_undone });
        }
        watched.append(&mut kept.watched);
        let over = watched.len().saturating_sub(LATE_WATCHED);
        kept.watched = watched.split_off(over);
    }

    /// Notes that something else was in a file right after it was written in place.
    pub(crate) fn note_mixed(&self, path: &Path) {
        let path = path.to_owned();
        self.kept().tell(LateWrite { path, kept: None, can_be_undone: false });
    }

    /// Notes that what was in a file before could not be kept, although it should have been.
    pub(crate) fn note_lost(&self, path: &Path) {
        let mut kept = self.kept();
        kept.lost.truncate(LATE_WATCHED);
        kept.lost.push(path.to_owned());
    }

    /// Returns those files, each once.
    pub(crate) fn lost(&self) -> Vec<PathBuf> {
        mem::take(&mut self.kept().lost)
    }

    /// Returns what was found or noted, each once.
    pub(crate) fn late(&self) -> Vec<LateWrite> {
        mem::take(&mut self.kept().late).into()
    }

    /// Remembers a step, and forgets the oldest ones if it is too much.
    pub(crate) fn push(&self, step: Step) {
        if step.deeds.is_empty() || self.folder.is_none() {
            return;
        }
        let mut kept = self.kept();
        if let Some(store) = &kept.store {
            // The list is for people; without it everything can be undone all the same.
            drop(store.note(&step));
        }
        kept.bytes += step.bytes();
        kept.count += 1;
        let number = kept.count;
        kept.steps.push_back((number, step));
        let room = match kept.due_for_sweep() {
            None => UNDO_BYTES,
            Some(store) => {
                // Others take the lock meanwhile, tasks among them.
                drop(kept);
                let surplus = session_folder::surplus(&store.path);
                kept = self.kept();
                kept.looked = kept.bytes.saturating_sub(surplus);
                UNDO_BYTES.min(kept.looked)
            }
        };
        let mut forgotten = Vec::new();
        while kept.is_more_than(room) {
            let Some(oldest) = kept.pop_oldest() else { break };
            kept.bytes = kept.bytes.saturating_sub(oldest.bytes());
            forgotten.push(oldest);
        }
        drop(kept);
        forgotten.iter().flat_map(Step::blobs).for_each(|blob| self.remove(blob));
    }

    /// Returns whether steps were forgotten since this was asked last: they cannot be undone.
    pub(crate) fn has_forgotten(&self) -> bool {
        mem::take(&mut self.kept().has_forgotten)
    }

    /// Returns the last step and its number.
    pub(crate) fn last(&self) -> Option<(u64, Step)> {
        self.kept().steps.back().cloned()
    }

    /// Takes the last step off the list, if it has this number: nobody else undoes it then.
    pub(crate) fn claim(&self, number: u64) -> Option<Step> {
        let mut kept = self.kept();
        let is_last = kept.steps.back().is_some_and(|(last, _)| *last == number);
        let (_, step) = is_last.then(|| kept.steps.pop_back()).flatten()?;
        Some(step)
    }

    /// Puts a step back that was not undone.
    pub(crate) fn give_back(&self, number: u64, step: Step) {
        let mut kept = self.kept();
        let at = kept.steps.partition_point(|(other, _)| *other < number);
        kept.steps.insert(at, (number, step));
    }

    /// Forgets a step that was undone, but for what is `left` of it: that is kept on.
    pub(crate) fn forget(&self, step: &Step, left: Step) {
        let is_left = |blob: &Blob| left.blobs().any(|other| other.name == blob.name);
        let gone: Vec<_> = step.blobs().filter(|blob| !is_left(blob)).collect();
        let mut kept = self.kept();
        kept.bytes = kept.bytes.saturating_sub(gone.iter().map(|blob| blob.bytes).sum());
        if left.blobs().next().is_some() {
            kept.left.push_back(left);
        }
        drop(kept);
        gone.into_iter().for_each(|blob| self.remove(blob));
    }

    fn store(&self) -> io::Result<Arc<Store>> {
        self.kept().store.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// Does something in the store with a new name, if there is a store.
    fn with_store(
        &self,
        make: impl FnOnce(&Store, OsString) -> io::Result<Blob>,
    ) -> io::Result<Option<Blob>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let (store, name) = self.kept().next(folder)?;
        make(&store, name.clone()).inspect_err(|_| store.remove(&name)).map(Some)
    }
}

impl Kept {
    /// Returns the store, if so much was kept that all of the state folder has to be looked at: where
    /// all sessions have too many bytes, this one may have fewer than it has.
    fn due_for_sweep(&mut self) -> Option<Arc<Store>> {
        self.looked = self.looked.min(self.bytes);
        let store = self.store.as_ref().filter(|_| self.bytes >= self.looked + STATE_LOOK_BYTES)?;
        self.looked = self.bytes;
        Some(store.clone())
    }

    fn is_more_than(&self, bytes: u64) -> bool {
        let count = self.left.len() + self.steps.len();
        count > UNDO_STEPS || (self.bytes > bytes && count > 1)
    }

    /// Takes off what is forgotten first: what is undone already as far as it can be.
    fn pop_oldest(&mut self) -> Option<Step> {
        if let Some(left) = self.left.pop_front() {
            return Some(left);
        }
        let (_, oldest) = self.steps.pop_front()?;
        self.has_forgotten = true;
        Some(oldest)
    }

    /// Whether a step holds this, so that it can be restored.
    fn can_undo(&self, name: &OsStr) -> bool {
        self.steps.iter().any(|(_, step)| step.blobs().any(|blob| blob.name == name))
    }

    /// Remembers a late write until somebody is told of it.
    fn tell(&mut self, late: LateWrite) {
        self.late.retain(|other| (&other.path, &other.kept) != (&late.path, &late.kept));
        self.late.push_back(late);
        if self.late.len() > LATE_WATCHED {
            self.late.pop_front();
        }
    }

    /// Returns the store, which is made with the first thing that is kept, and a new name in it.
    fn next(&mut self, folder: &Path) -> io::Result<(Arc<Store>, OsString)> {
        let store = match &self.store {
            Some(store) => store.clone(),
            None => self.store.insert(Arc::new(Store::make(folder)?)).clone(),
        };
        self.blobs += 1;
        Ok((store, self.blobs.to_string().into()))
    }
}

impl Store {
    /// Makes a folder for this session, and removes those that nobody needs any more.
    fn make(folder: &Path) -> io::Result<Self> {
        let (path, held) = session_folder::make(folder)?;
        let dir = Root::pin(&path)?.dir(Path::new(""))?;
        Ok(Self { dir, path, _held: held })
    }

    /// Makes what was brought here its owner's alone. In a directory everything stays as it was:
    /// nobody else gets there.
    fn own(&self, name: OsString, bytes: u64) -> Blob {
        let mode = self.dir.take_mode(&name).ok().flatten();
        Blob { name, bytes, mode }
    }

    fn note(&self, step: &Step) -> io::Result<()> {
        write_step(step, open_private(&self.path.join("steps.jsonl"))?)
    }

    fn remove(&self, name: &OsStr) {
        let path = self.path.join(name);
        // What cannot be removed is removed with the folder, later.
        drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
    }
}

/// Writes a step as one line, in one write, which a kill does not tear.
fn write_step(step: &Step, mut list: impl io::Write) -> io::Result<()> {
    let deeds = Value::from_iter(step.deeds.iter().map(Deed::to_json));
    list.write_all(format!("{deeds}\n").as_bytes())
}

/// Copies a file to a name that nothing has, with its owner, mode and attributes where they can be
/// had; returns how many bytes it has.
fn copy(from: &Dir, name: &OsStr, to: &Dir, as_name: &OsStr) -> io::Result<u64> {
    let mut from = from.open(name)?;
    let mut to = to.create(as_name, Audience::Owner)?;
    let bytes = io::copy(&mut from, &mut to)?;
    copy_access(&from, &to)?;
    to.sync_data()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    /// What each write has.
    struct Writes<'a>(&'a mut Vec<String>);

    impl io::Write for Writes<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_step_is_one_line_and_one_write() {
        let deeds = ["a", "b"].map(|path| Deed::MadeDirectory(path.into())).into();
        let mut writes = Vec::new();
        write_step(&Step { deeds }, Writes(&mut writes)).unwrap();
        let line = "[{\"madeDirectory\":\"a\"},{\"madeDirectory\":\"b\"}]\n";
        assert_eq!(writes, [line]);
    }
}
