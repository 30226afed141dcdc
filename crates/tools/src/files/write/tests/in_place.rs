//! Tests for programs that write to a file while it is written in place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::SystemTime;

use pretty_assertions::assert_eq;

use super::super::{FileWrite, PreImage, ReplaceOrInPlace, atomic_write_if_unchanged};
use super::stage_file;
use crate::error::ErrorCode;
use crate::files::contents::equals_without_concurrent_change;
use crate::files::workspace::testing::{test_workspace, test_workspace_with_undo};

/// A reader of a file. When it reaches the end of the file, it writes to the beginning of the file.
struct ConcurrentlyWrittenReader<'a>(&'a File, Option<&'a str>);

impl Read for ConcurrentlyWrittenReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(bytes)?;
        if read == 0
            && let Some(text) = self.1.take()
        {
            self.0.write_all_at(text.as_bytes(), 0)?;
        }
        Ok(read)
    }
}

#[test]
fn a_write_during_the_comparison_is_detected() {
    for (meddling, holds) in [(None, true), (Some("late"), false)] {
        let tree = test_workspace(&[("file", "text of ours")]);
        let path = tree.path("file");
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let read = equals_without_concurrent_change(
            &file,
            &mut ConcurrentlyWrittenReader(&file, meddling),
            b"text of ours",
        );
        assert_eq!(read.unwrap(), holds, "{meddling:?}");
    }
}

#[test]
fn a_file_that_was_replaced_by_a_rename_is_not_written_by_its_other_name() {
    let tree = test_workspace(&[("file", "old")]);
    fs::hard_link(tree.path("file"), tree.path("other")).unwrap();
    let at = tree.resolve("file");
    let change = FileWrite::new(&at, Some(b"old"), b"ours");
    let mut staged = stage_file(&tree, change, ReplaceOrInPlace::default(), "beside".into());
    tree.write("theirs", "theirs");
    fs::rename(tree.path("theirs"), tree.path("file")).unwrap();
    let error = staged.apply_if_unchanged().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview));
    drop(staged);
    assert_eq!((tree.read("file"), tree.read("other")), ("theirs".into(), "old".into()));
    assert_eq!(tree.names("."), ["file", "other"]);
}

/// Maximum number of rounds. In one of them, both writers must write at the same time.
const PATIENCE: u32 = 1_000;

/// The size of the file. The other writer waits until the first byte changes. A file of this size
/// takes so long to compare that the other writer can change its last bytes before they are
/// compared.
const BYTES: usize = 1 << 20;

#[test]
fn a_concurrent_write_in_place_is_reported() {
    let tree = test_workspace_with_undo(&[("file", "")]);
    fs::hard_link(tree.path("file"), tree.path("other")).unwrap();
    let (path, is_over) = (tree.path("other"), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = OpenOptions::new().read(true).write(true).open(path).unwrap();
            let (mut first, mut known) = ([0], [0]);
            while !is_over.load(Ordering::Relaxed) {
                if other.read_at(&mut first, 0).is_ok_and(|read| read == 1) && first != known {
                    other.write_all_at(b"theirs", BYTES as u64 - 6).unwrap();
                    known = first;
                }
            }
        });
        let mut seen = PreImage::Bytes(Vec::new());
        let met = (0..PATIENCE).find_map(|round| {
            let ours = vec![b"ab"[round as usize % 2]; BYTES];
            atomic_write_if_unchanged(&tree.workspace, &tree.resolve("file"), &ours, &seen)
                .unwrap();
            let late_writes = tree.workspace.take_late_writes();
            // The other program always writes after this process.
            seen = loop {
                let now = fs::read(tree.path("file")).unwrap();
                if now.ends_with(b"theirs") {
                    break PreImage::Bytes(now);
                }
            };
            late_writes.into_iter().next()
        });
        is_over.store(true, Ordering::Relaxed);
        let met = met.expect("they never met");
        assert_eq!((met.path, met.backup, met.can_be_undone), (tree.path("file"), None, false));
    });
}
