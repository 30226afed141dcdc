//! A queue of the files to search, in the order of their names. Several threads take files from it.
//!
//! Only one thread at a time continues the walk. The other threads search the files in the queue.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::query::FileFilter;
use crate::files::system::{Dir, FileKind};
use crate::files::walk::Walk;
use crate::limits::MAX_QUEUED_FILES;
use crate::lock::lock;

/// A file to search.
pub(super) struct QueuedFile {
    /// The position of the file in the order of the walk, counted from 0.
    pub(super) index: usize,
    /// The path relative to the top directory of the walk.
    pub(super) path: PathBuf,
    dir: Arc<Dir>,
}

impl QueuedFile {
    /// Opens the file relative to the directory in which the walk found it. This directory is
    /// inside the project folder.
    pub(super) fn open(&self) -> io::Result<File> {
        self.dir.open_file(self.path.file_name().unwrap_or(OsStr::new("")))
    }
}

/// A queue of the files to search in a directory and its subdirectories.
pub(super) struct FileQueue<'a> {
    walk: Mutex<WalkState<'a>>,
    ready: Mutex<VecDeque<QueuedFile>>,
    filter: FileFilter,
    /// The top directory of the walk.
    top: PathBuf,
    is_enough: AtomicBool,
    /// Number of files that the walk has found so far.
    found_count: AtomicUsize,
}

struct WalkState<'a> {
    walk: Walk<'a>,
    is_over: bool,
}

impl<'a> FileQueue<'a> {
    pub(super) fn new(walk: Walk<'a>, filter: FileFilter) -> Self {
        let top = walk.absolute(Path::new(""));
        Self {
            top,
            walk: Mutex::new(WalkState { walk, is_over: false }),
            ready: Mutex::default(),
            filter,
            is_enough: AtomicBool::new(false),
            found_count: AtomicUsize::new(0),
        }
    }

    /// Removes the next file from the queue and returns it. Returns `None` after the last file.
    pub(super) fn next(&self) -> Option<QueuedFile> {
        loop {
            if self.is_enough.load(Ordering::Relaxed) {
                return None;
            }
            let (next, left) = self.pop_ready();
            if let Some(next) = next {
                if left < MAX_QUEUED_FILES / 2
                    && let Ok(mut ahead) = self.walk.try_lock()
                {
                    self.fill(&mut ahead);
                }
                return Some(next);
            }
            // Another thread may have filled the queue while this thread waited for the lock.
            let mut ahead = lock(&self.walk);
            if lock(&self.ready).is_empty() {
                if ahead.is_over {
                    return None;
                }
                self.fill(&mut ahead);
            }
        }
    }

    /// Closes the queue. A closed queue returns no more files.
    pub(super) fn close(&self) {
        self.is_enough.store(true, Ordering::Relaxed);
    }

    /// Returns the number of files that were found so far.
    pub(super) fn found_count(&self) -> usize {
        self.found_count.load(Ordering::Relaxed)
    }

    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        self.top.join(path)
    }

    pub(super) fn into_walk(self) -> Walk<'a> {
        self.walk.into_inner().unwrap_or_else(PoisonError::into_inner).walk
    }

    fn pop_ready(&self) -> (Option<QueuedFile>, usize) {
        let mut ready = lock(&self.ready);
        (ready.pop_front(), ready.len())
    }

    fn fill(&self, ahead: &mut WalkState<'_>) {
        while !ahead.is_over && !self.is_enough.load(Ordering::Relaxed) {
            let takes = |path: &Path| self.filter.matches(path);
            let found = ahead.walk.find(|found| found.kind == FileKind::File && takes(&found.path));
            let Some((found, dir)) = found.zip(ahead.walk.current_directory()) else {
                ahead.is_over = true;
                return;
            };
            let place = self.found_count.fetch_add(1, Ordering::Relaxed);
            let mut ready = lock(&self.ready);
            ready.push_back(QueuedFile { index: place, path: found.path, dir });
            if ready.len() >= MAX_QUEUED_FILES {
                return;
            }
        }
    }
}
