//! Edits a file while another program writes to it. No write may be lost. If the other program
//! replaces the file by a rename, its bytes must be in the file, or in the text on which the edit
//! is based. If the other program writes in place after the comparison of the edit, the write must
//! be reported and its bytes must be kept.
//!
//! `RACING_REWRITES` sets the number of rewrites by the other program. `cargo xtask accept racing`
//! sets a higher number than the default.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::hint::spin_loop;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use acp_tools::error::ErrorCode;
use acp_tools::files::Durability;
use acp_tools::files::write::{PreImage, atomic_write_if_unchanged, read_whole};
use acp_tools::{ToolError, Workspace};
use tempfile::TempDir;

/// Returns the minimum number of rewrites by the other program. The default is 200.
fn rewrites() -> u32 {
    let asked = std::env::var("RACING_REWRITES").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(200)
}

/// Maximum number of rounds in which both programs must have written at the same time at least
/// once.
const PATIENCE: u32 = 20_000;

/// A file that the test edits while another thread rewrites it.
struct WriteRace {
    outer: TempDir,
    workspace: Workspace,
    /// Sends the number of a round and a delay to the other thread, which then writes to the file.
    go: Sender<(u32, Duration)>,
    is_written: Receiver<()>,
    other: JoinHandle<()>,
    /// The duration of the last edit.
    took: Cell<Duration>,
}

impl WriteRace {
    /// Starts with an empty file. The other thread calls `write` with the path of the file, the
    /// number of the round, and a delay.
    fn new(write: fn(&Path, u32, Duration)) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("file"), "").unwrap();
        let path = root.join("file");
        let workspace = Workspace::new(root, Vec::new()).unwrap();
        let workspace = workspace.with_durability(Durability::System);
        let workspace = workspace.with_state_folder(&outer.path().join("state"));
        let (go, gone) = channel::<(u32, Duration)>();
        let (written, is_written) = channel();
        let other = thread::spawn(move || {
            for (number, wait) in gone {
                write(&path, number, wait);
                written.send(()).unwrap();
            }
        });
        let took = Cell::default();
        Self { outer, workspace, go, is_written, other, took }
    }

    fn path(&self) -> PathBuf {
        self.workspace.cwd().join("file")
    }

    fn read(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn current_image(&self) -> PreImage {
        read_whole(&self.workspace, &self.workspace.resolve("file").unwrap(), 1 << 20).unwrap()
    }

    /// Edits the file while the other thread writes to it. `seen` is the content that the file had
    /// in the preview.
    fn edit(&self, seen: &PreImage, number: u32) -> (String, Result<(), ToolError>) {
        let ours = format!("{} + ours {number}", text(seen));
        let at = self.workspace.resolve("file").unwrap();
        // In each round, the other thread writes at a different time, which may be before, during
        // or after the edit.
        let part = f64::from(number.wrapping_mul(2_654_435_761)) / f64::from(u32::MAX);
        self.go.send((number, self.took.get().mul_f64(1.5 * part))).unwrap();
        let start = Instant::now();
        let done = atomic_write_if_unchanged(&self.workspace, &at, ours.as_bytes(), seen);
        self.took.set(start.elapsed());
        self.is_written.recv().unwrap();
        if let Err(error) = &done {
            assert_eq!(error.code(), Some(ErrorCode::ChangedSincePreview), "{error}");
        }
        (ours, done)
    }

    fn end(self) {
        drop(self.go);
        self.other.join().unwrap();
        let names = fs::read_dir(self.workspace.cwd()).unwrap().count();
        assert_eq!(names, 1, "something was left beside the file");
        assert_eq!(fs::read_dir(self.outer.path().join("state/journal")).unwrap().count(), 0);
    }
}

fn text(image: &PreImage) -> String {
    String::from_utf8(image.bytes().unwrap().to_vec()).unwrap()
}

fn pause(wait: Duration) {
    let start = Instant::now();
    while start.elapsed() < wait {
        spin_loop();
    }
}

/// Replaces the file up to three times, in the same way as editors that save by a rename.
fn replace(path: &Path, number: u32, wait: Duration) {
    let beside = path.with_file_name("beside");
    for part in 1..=burst_count(number) {
        pause(wait / burst_count(number));
        fs::write(&beside, format!("{number}.{part}")).unwrap();
        fs::rename(&beside, path).unwrap();
    }
}

/// Returns how often the file is replaced in one round.
fn burst_count(number: u32) -> u32 {
    1 + number % 3
}

#[test]
fn no_rewrite_by_a_rename_is_lost() {
    let race = WriteRace::new(replace);
    let (mut written, mut round, mut outcomes) = (0, 0, [0; 2]);
    while written < rewrites() || (outcomes.contains(&0) && round < PATIENCE) {
        round += 1;
        written += burst_count(round);
        let seen = race.current_image();
        let (ours, done) = race.edit(&seen, round);
        let last = format!("{round}.{}", burst_count(round));
        let now = race.read();
        // The last version of the other program is intact. Either it was written after the version
        // of this test, or the edit was rejected. The edit is based on a state before all versions
        // of the other program, so it can never replace one of them.
        assert_eq!(now, last, "ours: {ours:?}, {done:?}");
        outcomes[usize::from(done.is_ok())] += 1;
    }
    assert!(!outcomes.contains(&0), "they never met: {outcomes:?}");
    race.end();
}

/// Opens the file, waits, and then writes to the file that it opened. At this time, the name may
/// refer to another file.
fn overwrite(path: &Path, number: u32, wait: Duration) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    pause(wait);
    write_whole(&file, &format!("theirs {number}"));
}

fn write_whole(file: &File, text: &str) {
    file.write_all_at(text.as_bytes(), 0).unwrap();
    file.set_len(text.len() as u64).unwrap();
}

#[test]
fn every_late_write_in_place_is_reported_and_kept() {
    let race = WriteRace::new(overwrite);
    let (mut round, mut outcomes) = (0, [0; 3]);
    while round < rewrites() || (outcomes.contains(&0) && round < PATIENCE) {
        round += 1;
        let seen = race.current_image();
        let (ours, done) = race.edit(&seen, round);
        let theirs = format!("theirs {round}");
        let late = race.workspace.take_late_writes();
        let now = race.read();
        let outcome = match (done.is_ok(), now == theirs) {
            // The other program wrote before the edit, so the edit was rejected.
            (false, true) => 0,
            // The other program opened the file that the edit had created.
            (true, true) => 1,
            // The other program opened the old file before the edit replaced it.
            (true, false) => {
                assert_eq!(now, ours);
                let [late] = &late[..] else { panic!("{theirs:?} was not told: {late:?}") };
                assert_eq!(late.path, race.path());
                assert_eq!(fs::read_to_string(late.backup.as_ref().unwrap()).unwrap(), theirs);
                2
            }
            (false, false) => panic!("{theirs:?} is lost: {now:?}"),
        };
        if outcome < 2 {
            assert_eq!(late, []);
        }
        outcomes[outcome] += 1;
    }
    assert!(!outcomes.contains(&0), "they never met: {outcomes:?}");
    race.end();
}

/// Undoing the edit restores the late write.
#[test]
fn undo_restores_late_writes() {
    let race = WriteRace::new(overwrite);
    let open = OpenOptions::new().write(true).open(race.path()).unwrap();
    let at = race.workspace.resolve("file").unwrap();
    atomic_write_if_unchanged(&race.workspace, &at, b"ours", &race.current_image()).unwrap();
    assert_eq!(race.workspace.take_late_writes(), []);
    write_whole(&open, "late");
    assert_eq!(race.workspace.take_late_writes().len(), 1);
    assert_eq!(race.workspace.take_late_writes(), [], "it is told once");
    acp_tools::files::undo::UndoPlan::for_last_session_change(&race.workspace)
        .unwrap()
        .run(&race.workspace)
        .unwrap();
    assert_eq!(race.read(), "late");
    race.end();
}
