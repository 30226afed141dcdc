//! Writes whole files so that each is the old one or the new one, never half of each.
//!
//! It knows nothing of what is written or who permitted it.
//!
//! All new files are made beside the old ones first. Then each is exchanged with the old one, and
//! what came out is compared with what the preview saw: if somebody else wrote it meanwhile, it is
//! exchanged back, so nothing is lost. Where the system cannot exchange, the old one is compared
//! once more and replaced at once. If one file of several cannot be written, those before it are
//! put back.
//!
//! The owner, the mode and the extended attributes (access control lists among them) are kept. A
//! link stays a link: the file it leads to is written. A file with several names (hard links), and
//! one whose owner or attributes cannot be kept, is written in place, from a copy beside it. So are
//! files that cannot be exchanged: one that is mounted by itself, and one in a folder that takes no
//! other files; then the copies lie in the state folder.

mod protection;
mod staged;

use std::collections::HashSet;
use std::io;

use callboard_text::grouped;

use crate::error::{Code, ToolError};
use crate::files::Durability;
use crate::files::state::journal::{Journal, Names, call_number, temporary};
use crate::files::state::steps::{Deed, Step};
use crate::files::system::read_capped;
use crate::files::workspace::{Resolved, Workspace};
use crate::progress::{Far, Watch};

pub(crate) use self::protection::Protection;
use self::protection::{Copies, Manner};
use self::staged::Staged;

/// What was there when a change was previewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreImage {
    /// Nothing.
    Missing,
    /// A file with these bytes.
    Bytes(Vec<u8>),
}

/// A file to be written.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// Where it is.
    pub at: &'a Resolved,
    /// The bytes that the preview saw there; none if there was nothing.
    pub found: Option<&'a [u8]>,
    /// What it shall hold.
    pub bytes: &'a [u8],
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
    let bytes = read_capped(&file, cap).map_err(|error| workspace.explain(at, &error))?;
    bytes.map(PreImage::Bytes).ok_or_else(|| {
        let message = format!("{} has more than {} bytes", at.given(), grouped(cap));
        ToolError::report(Code::TooLarge, message)
    })
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
    write_all(workspace, &[Change { at, found: expected.bytes(), bytes }])
}

/// Writes several files, all or none, as [`atomic_write`] does.
///
/// # Errors
///
/// As [`atomic_write`], for the first file that cannot be written, also because it is given twice;
/// then all are as before. If one of them could not be put back, the error names it.
pub fn write_all(workspace: &Workspace, changes: &[Change<'_>]) -> Result<(), ToolError> {
    let protection = Protection::of(workspace, changes)?;
    write_all_watched(workspace, changes, &protection, &mut |_| {})
}

/// The same, with the protection that was permitted. It reports its progress to `watch`.
pub(crate) fn write_all_watched(
    workspace: &Workspace,
    changes: &[Change<'_>],
    protection: &Protection,
    watch: &mut Watch<'_>,
) -> Result<(), ToolError> {
    let written = commit(workspace, changes, protection, watch)?;
    let undo = protection.is_kept().then(|| workspace.undo());
    let deeds: Vec<_> = written.staged.iter().flat_map(|staged| staged.kept(undo)).collect();
    for deed in undo.map(|_| &deeds).into_iter().flatten() {
        if let Deed::NotKept { path } = deed {
            workspace.undo().note_lost(path);
        }
    }
    workspace.undo().push(Step { deeds });
    Ok(())
}

/// Files that were written, with the old ones still beside them until this is dropped.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    staged: Vec<Staged<'a>>,
    journal: Option<Journal>,
}

/// Writes several files, all or none, and keeps nothing of what was there.
pub(crate) fn commit<'a>(
    workspace: &'a Workspace,
    changes: &[Change<'a>],
    protection: &Protection,
    watch: &mut Watch<'_>,
) -> Result<Written<'a>, ToolError> {
    let call = call_number();
    let manners = protection.manners(workspace, changes)?;
    let journal = match protection.is_kept() {
        true => journal(workspace, changes, &manners, call)?,
        false => None,
    };
    let mut written = Written { staged: Vec::with_capacity(changes.len()), journal };
    let of_bytes = changes.iter().map(|change| change.bytes.len()).sum();
    let of_files = changes.len();
    let mut far = Far { files: 0, of_files, bytes: 0, of_bytes: Some(of_bytes) };
    for (number, (change, manner)) in changes.iter().zip(manners).enumerate() {
        let mut filled = |bytes| watch(Far { bytes: far.bytes + bytes, ..far });
        let temporary = temporary(call, number);
        written.staged.push(Staged::new(workspace, *change, manner, temporary, &mut filled)?);
        far = Far { files: number + 1, bytes: far.bytes + change.bytes.len(), ..far };
        watch(far);
    }
    let Written { staged, journal } = &mut written;
    // One file that is exchanged is the old one or the new one without it, when the power is back.
    let needs_it = staged.len() > 1 || staged.iter().any(Staged::is_in_place);
    let durability = if needs_it { workspace.durability() } else { Durability::System };
    if let Some(journal) = journal {
        let ready = journal.ready(staged.iter().map(Staged::prepared).collect());
        let ready = ready.and_then(|()| journal.sync(durability));
        let ready = ready.and_then(|()| journal.sync_name(durability));
        ready.map_err(|error| unwritten(workspace, &error))?;
    }
    if needs_it {
        // Those beside the files: by them they are made whole again.
        sync_names(staged.iter())?;
    }
    if let Err(error) = put_in_place(staged) {
        let put_back = staged.iter_mut().rev().map(Staged::roll_back);
        let left: Vec<_> = put_back.filter_map(Result::err).collect();
        return Err(left_changed(error, &left));
    }
    if let Some(journal) = journal {
        // Without this line a process that is killed now would put them back, which is as good; but
        // once the call is told as done, no failure of the power may.
        drop(journal.done().and_then(|()| journal.sync(workspace.durability())));
    }
    for staged in staged {
        workspace.stamps().note(staged.path(), staged.after());
        if staged.is_mixed() {
            workspace.undo().note_mixed(staged.path());
        }
    }
    Ok(written)
}

/// Puts files in their places, up to the first that cannot be.
fn put_in_place(staged: &mut [Staged<'_>]) -> Result<(), ToolError> {
    for at in 0..staged.len() {
        // A file can be given twice only if the second one was not seen after the first.
        let (before, rest) = staged.split_at_mut(at);
        let next = &mut rest[0];
        if before.iter().any(|before| before.path() == next.path()) {
            return Err(next.changed());
        }
        next.commit()?;
    }
    // A file that is written in place keeps its name.
    sync_names(staged.iter().filter(|staged| !staged.is_in_place()))
}

/// Waits until the disk has the names in the directories of files.
fn sync_names<'a>(mut staged: impl Iterator<Item = &'a Staged<'a>>) -> Result<(), ToolError> {
    let mut waited = HashSet::new();
    staged.try_for_each(|staged| staged.sync_names(&mut waited))
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        // The last first: a directory that was made for one may hold the ones after it.
        for staged in self.staged.iter_mut().rev() {
            if let (false, Some(journal)) = (staged.clean(), &mut self.journal) {
                journal.leave();
            }
        }
    }
}

impl PreImage {
    /// Returns the bytes, if there was a file.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Missing => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// Begins a journal, where the workspace keeps one.
fn journal(
    workspace: &Workspace,
    changes: &[Change<'_>],
    manners: &[Manner],
    call: u64,
) -> Result<Option<Journal>, ToolError> {
    let Some(folder) = workspace.journal() else { return Ok(None) };
    let names = changes.iter().zip(manners).enumerate().map(|(number, (change, manner))| {
        let real = workspace.real(&workspace.settle(change.at)?);
        let parent = real.parent().zip(real.file_name());
        let is_a_directory = || workspace.explain(change.at, &io::ErrorKind::IsADirectory.into());
        let (dir, name) = parent.ok_or_else(is_a_directory)?;
        let missing = dir.ancestors().take_while(|dir| change.found.is_none() && !dir.exists());
        let mut made: Vec<_> = missing.map(|dir| dir.as_os_str().to_owned()).collect();
        made.reverse();
        let (dir, name, temporary) = (dir.into(), name.to_owned(), temporary(call, number));
        let copies = (manner.copies == Copies::State).then(|| folder.as_os_str().to_owned());
        Ok(Names { dir, name, temporary, made, copies })
    });
    let names = names.collect::<Result<_, ToolError>>()?;
    Journal::begin(folder, names).map(Some).map_err(|error| unwritten(workspace, &error))
}

/// Says that the state folder failed since the change was previewed, which found it usable: another
/// preview finds that it is not.
fn unwritten(workspace: &Workspace, error: &io::Error) -> ToolError {
    let message = format!("nothing was done: {}", workspace.state().failed(error));
    ToolError::report(Code::ChangedSincePreview, message)
}

/// Says why something could not be kept: the state folder is to blame if it takes nothing any more,
/// or if there is no room.
pub(crate) fn explain_kept(workspace: &Workspace, at: &Resolved, error: &io::Error) -> ToolError {
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    match workspace.undo().require_taking() {
        Err(error) => unwritten(workspace, &error),
        Ok(()) if is_full => unwritten(workspace, error),
        Ok(()) => workspace.explain(at, error),
    }
}

/// Adds to an error what could not be put back, if anything.
pub(crate) fn left_changed(error: ToolError, left: &[String]) -> ToolError {
    if left.is_empty() {
        return error;
    }
    // Whatever it was: something was done, so it must not count as something that was not.
    let message = format!("{error}. These could not be put back: {}", left.join(", "));
    ToolError::report(Code::Io, message)
}

#[cfg(test)]
mod tests;
