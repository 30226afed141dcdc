//! Runs the change of a case under strace. This records the file system calls of the change, or
//! makes one of these calls fail.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cases::{BEGIN_MARKER, CrashCase, END_MARKER, RenameSupport};

/// The system call for exchanges, and for renames that never replace a file.
const FLAGGED: &str = "renameat2";

/// One file system call of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemCall {
    pub(crate) name: String,
    /// The position of the call among all calls of the process with the same name, counted from 1.
    number: usize,
}

/// A fault that is injected into a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InjectedFault<'a> {
    Kill,
    Error(&'a str),
}

pub(crate) struct Strace;

impl Strace {
    /// Returns whether strace is installed and may trace processes. Without strace, the tests are
    /// skipped.
    pub(crate) fn is_installed() -> bool {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "true"]).stderr(Stdio::null());
        let is_installed = command.status().is_ok_and(|status| status.success());
        assert!(
            is_installed || std::env::var_os("CRASH_STEP").is_none(),
            "strace is missing, or may not trace"
        );
        is_installed
    }

    /// Runs the change of a case without a fault. Returns its file system calls.
    pub(crate) fn calls(case: &CrashCase, folder: &Path) -> Vec<SystemCall> {
        Self::run(case, folder, None);
        let log = std::fs::read_to_string(folder.join("log")).unwrap();
        let mut counts = HashMap::<_, HashMap<_, usize>>::new();
        let mut calls = Vec::new();
        let mut subject = None;
        for line in log.lines() {
            let Some((process, rest)) = line.trim_start().split_once(' ') else { continue };
            let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
            if !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
                continue;
            }
            let number = counts.entry(process).or_default().entry(name).or_default();
            *number += 1;
            if arguments.contains(END_MARKER) {
                break;
            }
            if subject == Some(process) {
                calls.push(SystemCall { name: name.to_owned(), number: *number });
            }
            if arguments.contains(BEGIN_MARKER) {
                subject = Some(process);
            }
        }
        calls
    }

    /// Runs the change of a case. If `fault` is given, injects it into one call.
    pub(crate) fn run(
        case: &CrashCase,
        folder: &Path,
        fault: Option<(&SystemCall, &InjectedFault<'_>)>,
    ) {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "--seccomp-bpf", "-o"]).arg(folder.join("log"));
        let also = fault.is_none_or(|(call, _)| call.name != FLAGGED);
        if also && case.renames() == RenameSupport::Plain {
            // A file system that supports only plain renames returns this error.
            command.arg(format!("--inject={FLAGGED}:error=EINVAL"));
        }
        match fault {
            None => command.arg("--trace=%file,%desc"),
            Some((SystemCall { name, number }, fault)) => {
                let fault = match fault {
                    InjectedFault::Kill => "signal=KILL".to_owned(),
                    InjectedFault::Error(name) => format!("error={name}"),
                };
                command.arg(format!("--trace={name},{FLAGGED}"));
                command.arg(format!("--inject={name}:{fault}:when={number}"))
            }
        };
        let subject = ["subject", "--exact", "--ignored", "--test-threads=1", "--quiet"];
        command.arg(std::env::current_exe().unwrap()).args(subject);
        command.env("CRASH_CASE", case.name).env("CRASH_FOLDER", folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap();
    }
}
