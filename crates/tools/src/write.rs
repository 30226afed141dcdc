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

mod in_place;
mod journal;
mod protection;
mod staged;

use std::collections::HashSet;
use std::io;

use callboard_text::grouped;

use crate::error::{Code, ToolError};
use crate::progress::{Far, Watch};
use crate::sys::fs::read_capped;
use crate::undo::{Deed, Step};
use crate::workspace::{Durability, Resolved, Workspace};

pub(crate) use self::journal::{Journal, remove_tree, replay, unique};
use self::journal::{Names, call_number, temporary};
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
mod tests {
    use super::staged::Staged;
    use super::{
        Change, Manner, PreImage, Protection, atomic_write, read_whole, write_all,
        write_all_watched,
    };
    use crate::error::{Code, ToolError};
    use crate::progress::Far;
    #[cfg(target_os = "linux")]
    use crate::sys::fs::pretence;
    use crate::workspace::Durability;
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

    /// A file system may give the number of a file that is gone to the next one.
    #[cfg(unix)]
    #[test]
    fn who_gets_the_number_of_ours_is_not_taken_for_it() {
        use std::os::unix::fs::MetadataExt as _;

        let tree = tree(&[("file", "old")]);
        let at = tree.at("file");
        let change = Change { at: &at, found: Some(b"old"), bytes: b"ours" };
        let staged =
            Staged::new(&tree.workspace, change, Manner::default(), "beside".into(), &mut |_| {});
        let mut staged = staged.unwrap();
        staged.commit().unwrap();
        let number = |name| std::fs::metadata(tree.path(name)).unwrap().ino();
        let (ours, mut theirs) = (number("file"), String::new());
        for round in 0..100 {
            theirs = format!("theirs {round}");
            std::fs::write(tree.path("theirs"), &theirs).unwrap();
            let has_it = number("theirs") == ours;
            std::fs::rename(tree.path("theirs"), tree.path("file")).unwrap();
            if has_it {
                break;
            }
        }
        staged.roll_back().unwrap();
        assert_eq!(tree.read("file"), theirs);
    }

    #[test]
    fn what_changes_after_the_new_file_was_made_is_not_overwritten() {
        for is_renamed in [false, true] {
            let tree = tree(&[("file", "old")]);
            let at = tree.at("file");
            let change = Change { at: &at, found: Some(b"old"), bytes: b"ours" };
            let staged = Staged::new(
                &tree.workspace,
                change,
                Manner::default(),
                "beside".into(),
                &mut |_| {},
            );
            let mut staged = staged.unwrap();
            let name = if is_renamed { "theirs" } else { "file" };
            tree.write(name, "theirs");
            std::fs::rename(tree.path(name), tree.path("file")).unwrap();
            let error = staged.commit().unwrap_err();
            assert_eq!(error.code(), Some(Code::ChangedSincePreview), "{error}");
            drop(staged);
            assert_eq!(
                (tree.read("file"), tree.names(".")),
                ("theirs".into(), vec!["file".into()])
            );
        }
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

    #[test]
    fn several_files_are_written_all_or_none() {
        let tree = tree(&[("a", "old a"), ("b", "old b")]);
        #[cfg(unix)]
        std::fs::hard_link(tree.path("b"), tree.path("linked")).unwrap();
        let [a, b, new] = ["a", "b", "dir/new"].map(|path| tree.at(path));
        let changes = |seen: &'static [u8]| {
            [
                Change { at: &a, found: Some(b"old a"), bytes: b"new a" },
                Change { at: &new, found: None, bytes: b"new" },
                Change { at: &b, found: Some(seen), bytes: b"new b" },
            ]
        };
        let failed = |changes: &[Change<'_>]| {
            let error = write_all(&tree.workspace, changes).unwrap_err();
            assert_eq!(error.code(), Some(Code::ChangedSincePreview), "{error}");
            assert_eq!((tree.read("a"), tree.read("b")), ("old a".into(), "old b".into()));
            assert!(!tree.path("dir").exists());
        };
        // Nothing is begun if one of them cannot be prepared.
        failed(&changes(b"other"));
        // The third fails when the first two, or three, are written.
        let again = Change { at: &new, found: None, bytes: b"new" };
        let [one, two, three] = changes(b"old b");
        failed(&[one, two, again]);
        failed(&[one, three, two, again]);
        write_all(&tree.workspace, &changes(b"old b")).unwrap();
        let texts = ["a", "b", "dir/new"].map(|path| tree.read(path));
        assert_eq!(texts, ["new a", "new b", "new"]);
        #[cfg(unix)]
        assert_eq!(tree.read("linked"), "new b");
        assert_eq!(tree.names("dir"), ["new"]);
    }

    #[test]
    fn how_far_it_is_is_told_by_files_and_by_bytes() {
        let tree = tree(&[("a", "old")]);
        let tree = Tree { workspace: tree.workspace.with_durability(Durability::System), ..tree };
        let ([a, new], large) = (["a", "new"].map(|path| tree.at(path)), vec![b'x'; 5 << 20]);
        let changes = [
            Change { at: &a, found: Some(b"old"), bytes: b"text" },
            Change { at: &new, found: None, bytes: &large },
        ];
        let mut told = Vec::new();
        let protection = Protection::of(&tree.workspace, &changes).unwrap();
        let mut watch = |far| told.push(far);
        write_all_watched(&tree.workspace, &changes, &protection, &mut watch).unwrap();
        let (piece, all) = (4 << 20, (5 << 20) + 4);
        let expected = [(0, 4), (1, 4), (1, 4 + piece), (1, all), (2, all)];
        let far = |(files, bytes)| Far { files, of_files: 2, bytes, of_bytes: Some(all) };
        assert_eq!(told, expected.map(far));
    }

    #[test]
    fn no_directory_is_left_of_a_way_that_cannot_be_made() {
        let tree = tree(&[]);
        let path = format!("new/{}/file", "x".repeat(300));
        write(&tree, &path, "text").unwrap_err();
        let bytes = Change { at: &tree.at(&path), found: None, bytes: b"text" };
        write_all(&tree.workspace, &[bytes]).unwrap_err();
        assert_eq!(tree.names(".").len(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn attributes_stay() {
        use rustix::fs::{XattrFlags, getxattr, setxattr};

        let tree = tree(&[("file", "old")]);
        let path = tree.path("file");
        if setxattr(&path, "user.note", b"kept", XattrFlags::empty()).is_err() {
            // This file system has none.
            return;
        }
        write(&tree, "file", "new").unwrap();
        let mut value = [0; 9];
        let length = getxattr(&path, "user.note", &mut value[..]).unwrap();
        assert_eq!((&value[..length], tree.read("file").as_str()), (&b"kept"[..], "new"));
    }

    /// Another program replaces the file, by a rename, just while it is being written.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_another_program_writes_meanwhile_is_not_lost() {
        use std::sync::mpsc::channel;

        let tree = tree(&[("file", "0")]);
        let tree = Tree { workspace: tree.workspace.with_durability(Durability::System), ..tree };
        let (path, beside) = (tree.path("file"), tree.path("beside"));
        let (go, gone) = channel::<u32>();
        let (done, is_done) = channel();
        let writer = std::thread::spawn(move || {
            for number in gone {
                for _ in 0..number % 50 {
                    std::hint::spin_loop();
                }
                std::fs::write(&beside, number.to_string()).unwrap();
                std::fs::rename(&beside, &path).unwrap();
                done.send(()).unwrap();
            }
        });
        let (mut ours, mut theirs) = (0, 0);
        for number in 1..=2_000_u32 {
            let seen = read_whole(&tree.workspace, &tree.at("file"), 99).unwrap();
            go.send(number).unwrap();
            let written = atomic_write(&tree.workspace, &tree.at("file"), b"ours", &seen);
            is_done.recv().unwrap();
            match written {
                // It came before them or after them, with what it had seen in between.
                Ok(()) => ours += 1,
                Err(error) => {
                    assert_eq!(error.code(), Some(Code::ChangedSincePreview));
                    theirs += 1;
                }
            }
            assert_eq!(tree.read("file"), number.to_string());
            assert_eq!(tree.names("."), ["file"]);
        }
        drop(go);
        writer.join().unwrap();
        assert!(ours > 0 && theirs > 0, "{ours} {theirs}");
    }

    /// All but a race: what another program writes by a rename between the last comparison and ours
    /// is lost there.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_same_holds_on_file_systems_that_can_do_less() {
        pretence::on_lesser(&[
            files_are_added_with_their_directories_and_replaced,
            who_gets_the_number_of_ours_is_not_taken_for_it,
            what_changes_after_the_new_file_was_made_is_not_overwritten,
            what_the_preview_did_not_see_is_not_overwritten,
            modes_links_and_names_stay,
            nothing_is_written_through_links_that_lead_out_or_to_special_files,
            several_files_are_written_all_or_none,
            no_directory_is_left_of_a_way_that_cannot_be_made,
            attributes_stay,
        ]);
    }
}
