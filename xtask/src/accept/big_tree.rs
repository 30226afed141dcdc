//! A folder tree of very many files, with special cases for a search: link cycles, FIFOs, and one
//! very long line. The tree is removed on drop.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{self, TaskError};

/// Number of files per folder.
const FILES_PER_FOLDER: u64 = 1_000;

/// Size of the long line in bytes.
const LONG_LINE_BYTES: usize = 500_000_000;

/// Free space (in KiB) that the file system must have, in addition to one free inode per file of
/// the tree.
const SPARE_KIB: u64 = 4 * 1024 * 1024;

pub(super) struct BigTree(PathBuf);

impl BigTree {
    /// Creates a tree of `files` files. Every tenth file has a line of text, and the other files
    /// are empty.
    pub(super) fn create_with_files(path: &Path, files: u64) -> Result<Self, TaskError> {
        fs::remove_dir_all(path).ok();
        let failed = |error: io::Error| TaskError::Failed(format!("{}: {error}", path.display()));
        fs::create_dir_all(path).map_err(failed)?;
        let tree = Self(path.to_owned());
        check_free_space(path, "-i", files + files / 10)?;
        check_free_space(path, "-k", SPARE_KIB)?;
        tree.create_files_and_links(files).map_err(failed)?;
        let folders = (0..files.div_ceil(FILES_PER_FOLDER)).step_by(10);
        let fifos = folders.map(|folder| tree.folder_path(folder).join("fifo"));
        process::run_expecting_success(Command::new("mkfifo").args(fifos))?;
        Ok(tree)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn folder_path(&self, folder: u64) -> PathBuf {
        self.0.join(format!("d{:02}/e{folder:05}", folder % 100))
    }

    fn create_files_and_links(&self, files: u64) -> io::Result<()> {
        for number in 0..files.div_ceil(FILES_PER_FOLDER) {
            let folder = self.folder_path(number);
            fs::create_dir_all(&folder)?;
            symlink("..", folder.join("up"))?;
            symlink("self", folder.join("self"))?;
            symlink("/dev/zero", folder.join("zero"))?;
            for file in number * FILES_PER_FOLDER..files.min((number + 1) * FILES_PER_FOLDER) {
                let text = if file % 10 == 0 { "a common line\n" } else { "" };
                fs::write(folder.join(format!("f{file}")), text)?;
            }
        }
        let mut long = File::create(self.0.join("long"))?;
        let block = vec![b'x'; 1_000_000];
        for _ in 0..LONG_LINE_BYTES / block.len() {
            long.write_all(&block)?;
        }
        Ok(())
    }
}

impl Drop for BigTree {
    fn drop(&mut self) {
        // If the removal fails, the remaining files stay in the target folder.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Checks with `df` that the file system has at least `least` free inodes (`-i`) or KiB (`-k`).
fn check_free_space(path: &Path, what: &str, least: u64) -> Result<(), TaskError> {
    let printed = process::capture_stdout(Command::new("df").arg("-P").arg(what).arg(path))?;
    let left = printed.lines().nth(1).and_then(|line| line.split_whitespace().nth(3));
    match left.and_then(|left| left.parse::<u64>().ok()) {
        Some(left) if left < least => {
            Err(TaskError::Failed(format!("df {what}: {left} left, {least} needed")))
        }
        // Some file systems do not report a number of inodes.
        _ => Ok(()),
    }
}
