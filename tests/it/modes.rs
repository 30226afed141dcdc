//! The session modes: which calls run without a permission request.

use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;

use crate::harness::CALLBOARD;
use crate::harness::scratch::Scratch;

/// Runs a prompt with `exec` without a terminal. Returns the exit code and the output.
fn exec(scratch: &Scratch, mode: &str, prompt: &str) -> (Option<i32>, String) {
    let mut command = Command::new(CALLBOARD);
    command.args(["exec", "--no-sandbox", "--model", "direct", "--mode", mode, prompt]);
    command.current_dir(scratch.cwd()).env_clear().envs(scratch.env()).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_mode_defines_which_calls_run_without_permission() {
    const REFUSED: Option<i32> = Some(3);
    for (mode, prompt, code, made) in [
        ("ask", "run touch made", REFUSED, false),
        ("ask", "read notes.txt", Some(0), false),
        ("ask-always", "read notes.txt", REFUSED, false),
        ("ask-always", "run touch made", REFUSED, false),
        // The mode denies the call without a permission request. The exit code is that of a failed
        // call, because the user has rejected nothing.
        ("read-only", "run touch made", Some(1), false),
        ("read-only", "read notes.txt", Some(0), false),
        ("accept-edits", "run touch made", REFUSED, false),
        ("accept-edits", "write made\n<<<\nx\n>>>", Some(0), true),
        ("accept-edits", "write notes.txt\n<<<\nx\n>>>", REFUSED, false),
        ("auto", "write notes.txt\n<<<\nx\n>>>", Some(0), false),
        ("accept-edits", "write .git/hooks/pre-commit\n<<<\nx\n>>>", REFUSED, false),
        ("auto", "run touch made", Some(0), true),
        // Dangerous commands need permission even in the mode `auto`.
        ("auto", "run sudo true; touch made", REFUSED, false),
        ("auto", "run (cd sub; touch made); rm -rf *", REFUSED, false),
        ("auto", "run trap -- 'touch made; rm -rf .' EXIT", REFUSED, false),
        // Files outside of the project folders need permission, or are denied.
        ("read-only", "read /etc/passwd", Some(1), false),
        ("ask", "read /etc/passwd", REFUSED, false),
        ("accept-edits", "list ..", REFUSED, false),
        ("auto", "write ../made\n<<<\nx\n>>>", REFUSED, false),
    ] {
        let scratch = Scratch::new();
        let (exit, printed) = exec(&scratch, mode, prompt);
        assert_eq!(exit, code, "{mode} {prompt}: {printed}");
        assert_eq!(scratch.path("made").exists(), made, "{mode} {prompt}: {printed}");
        let was_asked = printed.contains("asks for permission");
        assert_eq!(was_asked, code == REFUSED, "{mode} {prompt}: {printed}");
    }
    assert_eq!(exec(&Scratch::new(), "yolo", "help").0, Some(2));
}
