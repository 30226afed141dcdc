//! Detects processes that wait for terminal input.
//!
//! In `/proc`, an ancestor of the same user can read the current system call of a process and the
//! memory to which the call's arguments point.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::process::Pid;

use super::subtree;

/// Returns whether a process, or one of its descendants, waits for input from `terminal`. The
/// process waits in `read`, or in a `select` or `poll` for the terminal alone, as line editors do.
pub(super) fn waits_for_input(leader: Pid, terminal: &Path) -> bool {
    let beneath = subtree::list_descendants(leader).into_iter().map(|process| process.pid);
    beneath.chain([leader]).any(|pid| {
        let process = format!("/proc/{pid}");
        let threads = fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten();
        let mut calls = threads.filter_map(|it| fs::read_to_string(it.path().join("syscall")).ok());
        let waits = |descriptor: u64| {
            let opened = fs::read_link(format!("{process}/fd/{descriptor}"));
            opened.is_ok_and(|opened| opened == terminal || opened == Path::new("/dev/tty"))
        };
        calls.any(|call| awaited_descriptor(&call, pid).is_some_and(waits))
    })
}

/// Returns the file descriptor for which a process waits in a system call. `call` contains the
/// number and the arguments of the system call, as in `0 0x3 0x7ffe 0x400 …`. Returns `None` for a
/// system call that waits for something else, or for several descriptors.
fn awaited_descriptor(call: &str, of: Pid) -> Option<u64> {
    let mut fields = call.split_ascii_whitespace();
    let number: i64 = fields.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let (first, second) = (argument()?, argument()?);
    match number {
        libc::SYS_read | libc::SYS_readv => Some(first),
        // The first argument is one more than the highest descriptor.
        libc::SYS_pselect6 => first.checked_sub(1),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => first.checked_sub(1),
        libc::SYS_ppoll if second == 1 => read_polled_descriptor(of, first),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll if second == 1 => read_polled_descriptor(of, first),
        _ => None,
    }
}

/// Reads the descriptor of the single `pollfd` at `address` in a process's memory. The descriptor
/// is the first four bytes of the `pollfd`.
fn read_polled_descriptor(of: Pid, address: u64) -> Option<u64> {
    let memory = File::open(format!("/proc/{of}/mem")).ok()?;
    let mut descriptor = [0; 4];
    memory.read_exact_at(&mut descriptor, address).ok()?;
    u64::try_from(i32::from_ne_bytes(descriptor)).ok()
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;

    use super::*;

    #[test]
    fn only_calls_that_wait_for_one_descriptor_return_it() {
        let (read, poll, other) = (libc::SYS_read, libc::SYS_ppoll, libc::SYS_wait4);
        // The bytes of the `pollfd` come after another value in memory.
        let polled = [7_i32, 5, 1, -1];
        let address = |index: usize| format!("{:#x}", &raw const polled[index] as usize);
        for (call, expected) in [
            (format!("{read} 0x3 0x7ffe 0x400 0x0 0x0 0x0 0x7ffc 0x7f1"), Some(3)),
            (format!("{} 0x1 0x7ffe 0x0 0x0", libc::SYS_pselect6), Some(0)),
            (format!("{} 0x0 0x0 0x0 0x0", libc::SYS_pselect6), None),
            (format!("{poll} {} 0x1 0x0", address(1)), Some(5)),
            (format!("{poll} {} 0x2 0x0", address(1)), None),
            (format!("{poll} {} 0x1 0x0", address(3)), None),
            (format!("{poll} 0x7 0x1 0x0"), None),
            (format!("{other} 0xffffffff 0x0 0x0"), None),
            ("running".to_owned(), None),
            ("-1 0x7ffe 0x7f00".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(awaited_descriptor(&call, getpid()), expected, "{call}");
        }
    }
}
