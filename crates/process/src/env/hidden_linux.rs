//! Hides environment variables of this process from other processes: in `/proc/PID/environ` and in
//! its memory.
//!
//! `/proc/PID/environ` shows the part of a process's memory that contained the environment at its
//! start. Hidden variables are therefore copied to another place in memory, and their old place is
//! overwritten with zeros. The process itself keeps all of its variables.

use std::ffi::{CStr, c_char};
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Hides each variable unless `stays` returns true for its name. Returns whether hiding succeeded.
/// Hiding fails if the process has several threads, because another thread may be reading the
/// variables.
pub(crate) fn hide_from_other_processes(stays: impl Fn(&[u8]) -> bool) -> bool {
    // The buffer is longer than any possible line, so one read is enough. This code runs at every
    // start.
    let mut stat = [0; 2048];
    let read = File::open("/proc/self/stat").and_then(|mut file| file.read(&mut stat));
    let stat = String::from_utf8_lossy(&stat[..read.unwrap_or_default()]);
    let Some(ProcessStat { threads: 1, addresses: block }) = ProcessStat::parse(&stat) else {
        return false;
    };
    move_and_zero_variables(&block, stays);
    // From now on only root can read the memory, and a crash leaves no core dump.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok()
}

#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    threads: u32,
    /// The range of addresses whose content the kernel shows in `/proc/PID/environ`.
    addresses: Range<usize>,
}

impl ProcessStat {
    /// Parses the line of `/proc/self/stat`. The numbers come after the program's name, which is in
    /// parentheses and may contain any character.
    fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        let block = number(47)?..number(48)?;
        Some(Self { threads: fields.get(17)?.parse().ok()?, addresses: block })
    }
}

#[expect(unsafe_code, reason = "no safe interface leads to what the system shows")]
fn move_and_zero_variables(block: &Range<usize>, stays: impl Fn(&[u8]) -> bool) {
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: the process has only this thread, so no other thread reads or changes the list.
    let mut entry = unsafe { environ };
    // SAFETY: either `environ` is null, or the list ends with a null pointer.
    while let Some(place) = unsafe { entry.as_mut() }.filter(|place| !place.is_null()) {
        let text = *place;
        if block.contains(&text.addr()) {
            // SAFETY: an entry is a string that ends with a zero byte.
            let shown = unsafe { CStr::from_ptr(text) };
            let name = shown.to_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
            if !stays(name) {
                let bytes = shown.count_bytes();
                // The copy is never freed, because it belongs to the environment from now on.
                *place = shown.to_owned().into_raw();
                // SAFETY: the string had this length, the process's own stack is writable, and no
                // pointer to the string remains.
                unsafe { text.write_bytes(0, bytes) };
            }
        }
        // SAFETY: the current entry was not the end of the list.
        entry = unsafe { entry.add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_parsed_after_any_program_name() {
        let number = |index: usize| match index {
            17 => 3,
            47 => 1000,
            48 => 1200,
            _ => 7,
        };
        let numbers: Vec<_> = (1..50).map(|index| number(index).to_string()).collect();
        let stat = format!("42 (a) 1 (b) S {}\n", numbers.join(" "));
        assert_eq!(
            ProcessStat::parse(&stat),
            Some(ProcessStat { threads: 3, addresses: 1000..1200 })
        );
        assert_eq!(ProcessStat::parse("42 (a) S 7"), None);
        let now = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(!ProcessStat::parse(&now).unwrap().addresses.is_empty());
    }
}
