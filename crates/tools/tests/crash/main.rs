//! Interrupts edits of files: at one file system call, the process is killed or receives an error.
//! After the next start, all files of the edit must be old, or all must be new. No temporary file
//! may remain.
//!
//! The tests need strace, which injects the signals and errors. `CRASH_STEP` sets the step between
//! the calls that are tested. `CRASH_CASES` selects some cases; all cases are tested by default.
//! `cargo xtask accept crash` tests every call.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod cases;
mod strace;

use cases::{CASES, CrashCase, FilesState};
use strace::{InjectedFault, Strace, SystemCall};

use std::sync::atomic::{AtomicUsize, Ordering};

/// Errors that are injected into a call. In addition, each call is tested with a signal that kills
/// the process.
const ERRORS: [&str; 5] = ["EIO", "ENOSPC", "EACCES", "EROFS", "EMFILE"];

/// Runs under strace in a separate process. This process applies the change of the case that an
/// environment variable names.
#[test]
#[ignore = "it is the process that is killed; the other tests run it"]
fn subject() {
    let (Ok(case), Ok(folder)) = (std::env::var("CRASH_CASE"), std::env::var("CRASH_FOLDER"))
    else {
        return;
    };
    let case = CASES.iter().find(|known| known.name == case).unwrap();
    // Write the outcome to a file, because the exit code only shows whether this test passed.
    let outcome = case.change(folder.as_ref()).map_err(|error| error.to_string());
    std::fs::write(
        std::path::Path::new(&folder).join("told"),
        outcome.map_or_else(|error| error, |()| "done".to_owned()),
    )
    .unwrap();
}

fn step() -> usize {
    std::env::var("CRASH_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(199)
}

fn cases() -> impl Iterator<Item = &'static CrashCase> {
    let wanted = std::env::var("CRASH_CASES").unwrap_or_default();
    CASES.iter().filter(move |case| {
        wanted.is_empty() || wanted.split(',').any(|wanted| wanted == case.name)
    })
}

/// Runs a case with one fault, and then starts a new process. Asserts that all files are old or
/// that all files are new.
fn require_all_or_nothing(case: &CrashCase, call: &SystemCall, fault: &InjectedFault<'_>) {
    let scene = case.prepare_folder();
    Strace::run(case, scene.path(), Some((call, fault)));
    let outcome = std::fs::read_to_string(scene.path().join("told")).ok();
    let of = |what: &str| format!("{}: {fault:?} at {call:?}: {what}, told {outcome:?}", case.name);
    // The next process repairs the files when it opens the workspace.
    drop(cases::workspace(scene.path()));
    let state = case.state(scene.path());
    match (state, outcome.as_deref()) {
        (FilesState::Broken(what), _) => panic!("{}", of(&what)),
        (FilesState::Old, Some("done")) => panic!("{}", of("nothing was written")),
        (FilesState::New, Some(other)) if other != "done" => panic!("{}", of("all was written")),
        _ => {}
    }
}

#[test]
fn each_file_is_old_or_new_wherever_its_writer_dies() {
    if !Strace::is_installed() {
        return;
    }
    let mut faults = Vec::new();
    for case in cases() {
        let scene = case.prepare_folder();
        let calls = Strace::calls(case, scene.path());
        assert_eq!(case.state(scene.path()), FilesState::New, "{}", case.name);
        assert!(calls.len() > 20, "{} of {}", calls.len(), case.name);
        // The directory entries of the written files must be synced too.
        let syncs = calls.iter().filter(|call| call.name == "fsync").count();
        assert_eq!(syncs > 0, !case.name.ends_with("delete"), "{}", case.name);
        for call in calls {
            let errors = ERRORS.iter().map(|name| InjectedFault::Error(name));
            faults.extend(
                errors.chain([InjectedFault::Kill]).map(|fault| (case, call.clone(), fault)),
            );
        }
    }
    let next = AtomicUsize::new(step() / 2);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((case, call, fault)) =
                    faults.get(next.fetch_add(step(), Ordering::Relaxed))
                {
                    require_all_or_nothing(case, call, fault);
                }
            });
        }
    });
    // This line is only visible if the test runs with `--nocapture`.
    eprintln!("{} faults tried of {}", faults.len().div_ceil(step()), faults.len());
}
