//! What becomes of an edit whose process is killed, or gets an error, at any of its file system
//! calls: after the next start each file is the old one or the new one, all files of a call alike,
//! and nothing lies beside them.
//!
//! It needs strace, which kills and makes errors. `CRASH_STEP` says that every so manyeth call is
//! tried, and `CRASH_CASES` which changes, all unless it names some; `cargo xtask accept crash`
//! tries every call.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by them")]

mod cases;
mod strace;

use cases::{CASES, CrashCase, FilesState};
use strace::{InjectedFault, Strace, SystemCall};

use std::sync::atomic::{AtomicUsize, Ordering};

/// The errors that a call gets, beside the signal that kills its process.
const ERRORS: [&str; 5] = ["EIO", "ENOSPC", "EACCES", "EROFS", "EMFILE"];

/// What runs beneath strace, in a process of its own: the change of the case that the environment
/// names.
#[test]
#[ignore = "it is the process that is killed; the other tests run it"]
fn subject() {
    let (Ok(case), Ok(folder)) = (std::env::var("CRASH_CASE"), std::env::var("CRASH_FOLDER"))
    else {
        return;
    };
    let case = CASES.iter().find(|known| known.name == case).unwrap();
    // Its end is told by the file system too: the exit code is that of the test.
    let told = case.change(folder.as_ref()).map_err(|error| error.to_string());
    std::fs::write(
        std::path::Path::new(&folder).join("told"),
        told.map_or_else(|error| error, |()| "done".to_owned()),
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

/// Runs a case with one fault, then starts once more, and holds what is there against the law.
fn require_all_or_nothing(case: &CrashCase, call: &SystemCall, fault: &InjectedFault<'_>) {
    let scene = case.prepare_folder();
    Strace::run(case, scene.path(), Some((call, fault)));
    let told = std::fs::read_to_string(scene.path().join("told")).ok();
    let of = |what: &str| format!("{}: {fault:?} at {call:?}: {what}, told {told:?}", case.name);
    // What a process keeps is put in order when the next one begins.
    drop(cases::workspace(scene.path()));
    let state = case.state(scene.path());
    match (state, told.as_deref()) {
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
        // The disk is told to keep the names too, of what is written.
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
    // Told to whoever runs it with --nocapture.
    eprintln!("{} faults tried of {}", faults.len().div_ceil(step()), faults.len());
}
