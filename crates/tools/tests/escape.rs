//! Reads and writes files while another thread replaces directories by links. One link leads out of
//! the project folder. The other link leads to a place inside the project folder that was not
//! inspected.
//!
//! `ESCAPE_TRIES` sets the number of reads and writes. `cargo xtask accept escape` sets one
//! million. For comparison, the same test also opens files as many programs do: it canonicalizes
//! the path, compares the result, and opens it. This control must sometimes read a file outside of
//! the project folder. If this never happens, the directories were not swapped at the right
//! moments, and the test proves nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by them")]

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use acp_tools::files::Durability;
use acp_tools::files::read::read_excerpt;
use acp_tools::files::workspace::WorkspacePath;
use acp_tools::files::write::{PreImage, atomic_write_if_unchanged, read_whole};
use acp_tools::{ToolError, Workspace};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, openat, renameat_with, unlinkat};
use serde_json::json;
use tempfile::TempDir;

const INSIDE: &str = "inside";
const OUTSIDE: &str = "outside";

/// A project folder with directories. Each directory is swapped with a link.
struct SwapRace {
    _outer: TempDir,
    root: PathBuf,
    /// The targets of the links. No file may be read or written there.
    evil: [PathBuf; 2],
    workspace: Workspace,
}

/// The number of attempts with each result.
#[derive(Debug, Default)]
struct EscapeTally {
    done: u64,
    /// Number of attempts that failed, because the file had changed or permission would have been
    /// required.
    refused: u64,
    escaped: u64,
}

#[test]
fn swapped_directories_allow_no_read_or_write_outside() {
    let tries = std::env::var("ESCAPE_TRIES").ok().and_then(|tries| tries.parse().ok());
    let tries = tries.unwrap_or(6_000);
    let race = SwapRace::new();
    let before = race.outside_state();
    let (mut reads, mut writes, mut control) =
        (EscapeTally::default(), EscapeTally::default(), EscapeTally::default());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| race.keep_swapping(&over));
        for number in 0..tries {
            match number % 2 {
                0 => reads.count(race.read(number / 2)),
                _ => writes.count(race.write(number / 2)),
            }
            control.count(race.read_by_canonical_path());
        }
        for _ in 0..CONTROLS {
            if control.escaped > 0 {
                break;
            }
            control.count(race.read_by_canonical_path());
        }
        over.store(true, Ordering::Relaxed);
    });
    // This state differs if a file outside was created, changed or removed.
    let is_touched = race.outside_state() != before;
    writes.escaped += u64::from(is_touched);
    let figure =
        |it: &EscapeTally| json!({ "done": it.done, "refused": it.refused, "escaped": it.escaped });
    let value = reads.escaped + writes.escaped;
    let figures = json!({ "value": value, "reads": figure(&reads), "writes": figure(&writes),
        "control": figure(&control) });
    println!("figures {figures}");
    assert_eq!((reads.escaped, writes.escaped), (0, 0));
    assert!(control.escaped > 0, "nothing was swapped at the right moment");
    for tally in [reads, writes] {
        assert!(tally.done > tries / 100 && tally.refused > 0, "{tally:?}");
    }
}

impl EscapeTally {
    /// Counts an attempt according to the text that it read. `None` means that the attempt was
    /// rejected.
    fn count(&mut self, found: Option<String>) {
        match found.as_deref() {
            None => self.refused += 1,
            Some(OUTSIDE) => self.escaped += 1,
            Some(_) => self.done += 1,
        }
    }
}

impl SwapRace {
    fn new() -> Self {
        let outer = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let around = outer.path().canonicalize().unwrap();
        let root = around.join("root");
        let evil = [around.join("evil"), root.join(".git")];
        let inside = ["dir", "near"].map(|name| root.join(name));
        for (folders, text) in [(&inside, INSIDE), (&evil, OUTSIDE)] {
            for folder in folders {
                fs::create_dir_all(folder.join("deep")).unwrap();
                fs::write(folder.join("file"), text).unwrap();
                fs::write(folder.join("deep/file"), text).unwrap();
            }
        }
        for (link, evil) in ["dir-link", "near-link"].iter().zip(&evil) {
            symlink(evil, root.join(link)).unwrap();
        }
        let workspace = Workspace::new(root.clone(), Vec::new()).unwrap();
        let workspace = workspace.with_durability(Durability::System);
        Self { _outer: outer, root, evil, workspace }
    }

    /// Swaps the directories and the links again and again, with different pauses between two
    /// swaps.
    fn keep_swapping(&self, over: &AtomicBool) {
        let mut paces = PACES.iter().cycle();
        while !over.load(Ordering::Relaxed) {
            for name in ["dir", "near"] {
                let (dir, link) = (self.root.join(name), self.root.join(format!("{name}-link")));
                let _ = renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE);
            }
            let pause = paces.next().copied().unwrap_or_default();
            let since = Instant::now();
            while since.elapsed() < pause {
                std::hint::spin_loop();
            }
        }
    }

    /// Reads a file in one of the ways in which tools read files. Returns its content.
    fn read(&self, number: u64) -> Option<String> {
        let path = PATHS[(number / 3) as usize % PATHS.len()];
        // A path that was not inspected may lead through a link to another place inside the project
        // folder.
        let away = PATHS[(number / 3) as usize % 2];
        match number % 3 {
            0 => text(self.workspace.open_read(&self.workspace.resolve(away).ok()?).ok()?),
            1 => text(self.workspace.open_read(&self.inspected_path(path)?).ok()?),
            _ => read_excerpt(&self.workspace, away, None, None).ok().map(|window| window.text),
        }
        .map(|found| found.trim_end().to_owned())
    }

    /// Replaces a file, or creates a file and then removes it.
    fn write(&self, number: u64) -> Option<String> {
        if number.is_multiple_of(2) {
            let at = self.inspected_path(PATHS[(number / 2) as usize % PATHS.len()])?;
            let found = read_whole(&self.workspace, &at, 99).ok()?;
            if found.bytes() == Some(OUTSIDE.as_bytes()) {
                return Some(OUTSIDE.to_owned());
            }
            self.written(atomic_write_if_unchanged(&self.workspace, &at, INSIDE.as_bytes(), &found))
        } else {
            let name = if number % 4 == 1 { "dir" } else { "near" };
            let held = [self.root.join(name), self.root.join(format!("{name}-link"))];
            let held = held.iter().find_map(|dir| {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                openat(CWD, dir, flags, Mode::empty()).ok()
            })?;
            let at = self.inspected_path(&format!("{name}/new/file"))?;
            let written = atomic_write_if_unchanged(
                &self.workspace,
                &at,
                INSIDE.as_bytes(),
                &PreImage::Missing,
            );
            let _ = unlinkat(&held, "new/file", AtFlags::empty());
            let _ = unlinkat(&held, "new", AtFlags::REMOVEDIR);
            self.written(written)
        }
    }

    fn written(&self, written: Result<(), ToolError>) -> Option<String> {
        written.ok().map(|()| INSIDE.to_owned())
    }

    /// Returns an inspected path. Returns `None` if the path currently leads to another place.
    fn inspected_path(&self, path: &str) -> Option<WorkspacePath> {
        let at = self.workspace.resolve_and_follow_links(path).ok()?;
        let is_there =
            self.workspace.canonicalize(&at).is_ok_and(|at| at.path() == self.root.join(path));
        is_there.then_some(at)
    }

    /// Opens a file as the control does: canonicalizes the path, compares it with the project
    /// folder, and opens it.
    fn read_by_canonical_path(&self) -> Option<String> {
        let path = self.root.join(PATHS[0]);
        let real = path.canonicalize().ok()?;
        if real.starts_with(&self.root) { text(File::open(&path).ok()?) } else { None }
    }

    /// Returns the state of the directories outside of the project folder. The state changes if a
    /// file there is created, changed or removed.
    fn outside_state(&self) -> Vec<(PathBuf, [i64; 4], String)> {
        let mark = |path: &Path| {
            let seen = fs::metadata(path).unwrap();
            let marks = [seen.mtime(), seen.mtime_nsec(), seen.ctime(), seen.ctime_nsec()];
            (path.to_owned(), marks, fs::read_to_string(path).unwrap_or_default())
        };
        let names = ["", "file", "deep", "deep/file"];
        self.evil.iter().flat_map(|evil| names.map(|name| mark(&evil.join(name)))).collect()
    }
}

fn text(file: File) -> Option<String> {
    let mut text = String::new();
    file.take(99).read_to_string(&mut text).ok().map(|_| text)
}

const PATHS: [&str; 4] = ["dir/file", "dir/deep/file", "near/file", "near/deep/file"];

/// Durations of the pauses between two swaps.
const PACES: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_micros(3),
    Duration::from_micros(700),
    Duration::from_micros(20),
    Duration::ZERO,
    Duration::from_micros(150),
    Duration::from_micros(1_500),
];

/// Maximum number of additional attempts that only the control makes.
const CONTROLS: u64 = 2_000_000;
