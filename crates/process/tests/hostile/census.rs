//! Enumerates processes.

use std::fs;

use rustix::process::{Pid, Signal, getpid, kill_process};

/// Returns all processes with their folders in `/proc`.
fn all() -> impl Iterator<Item = (Pid, std::path::PathBuf)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| {
        Some((Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?, entry.path()))
    })
}

/// Returns the live processes with `tag` in their arguments. (A zombie process has no arguments.)
fn tagged_processes(tag: &str) -> impl Iterator<Item = Pid> {
    let has = |read: Vec<u8>| memchr::memmem::find(&read, tag.as_bytes()).is_some();
    let found = all().filter(move |(_, folder)| fs::read(folder.join("cmdline")).is_ok_and(has));
    found.map(|(pid, _)| pid)
}

pub(crate) fn count(tag: &str) -> usize {
    tagged_processes(tag).count()
}

pub(crate) fn kill(tag: &str) {
    tagged_processes(tag).for_each(|pid| {
        let _ = kill_process(pid, Signal::KILL);
    });
}

/// Returns the number of zombies among our own children.
pub(crate) fn zombies() -> usize {
    let us = format!(") Z {} ", getpid());
    let is_ours = |stat: Vec<u8>| String::from_utf8_lossy(&stat).contains(&us);
    all().filter(|(_, folder)| fs::read(folder.join("stat")).is_ok_and(is_ours)).count()
}
