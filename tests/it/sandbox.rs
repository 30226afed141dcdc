//! `callboard sandbox run` and `callboard doctor sandbox`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use crate::harness::CALLBOARD;
use crate::harness::scratch::Scratch;

/// Runs `callboard` in the project folder. Returns its exit code and its output.
pub(crate) fn run(scratch: &Scratch, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(CALLBOARD);
    command.args(args).current_dir(scratch.cwd()).env_clear().envs(scratch.env());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// Returns the names in the project folder.
fn names(scratch: &Scratch) -> BTreeSet<OsString> {
    fs::read_dir(scratch.cwd()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Returns whether the tests can expect a sandbox of namespaces. If the system has no namespaces,
/// prints a report, and fails the test if the variable `SANDBOX_TESTS_REQUIRE` contains
/// `namespaces`.
pub(crate) fn has_namespaces(scratch: &Scratch) -> bool {
    let (_, report) = run(scratch, &["doctor", "sandbox"]);
    let has_them = report.starts_with("Sandbox: namespaces");
    if !has_them {
        eprintln!("not tested, because: {report}");
        let required = std::env::var("SANDBOX_TESTS_REQUIRE").unwrap_or_default();
        assert!(!required.contains("namespaces"), "{report}");
    }
    has_them
}

#[test]
fn doctor_names_the_sandbox_of_this_system_and_how_to_get_a_better_one() {
    let scratch = Scratch::new();
    let (code, report) = run(&scratch, &["doctor", "sandbox"]);
    assert!(report.starts_with("Sandbox: "), "{report}");
    assert_eq!(code == 0, !report.starts_with("Sandbox: none"));
    let refused = report.contains("does not work here");
    assert_eq!(refused, !report.starts_with("Sandbox: namespaces"), "{report}");
}

#[test]
fn a_sandboxed_program_cannot_read_files_that_a_rule_denies_reading() {
    let scratch = Scratch::new();
    if !has_namespaces(&scratch) {
        return;
    }
    let rules = scratch.sessions().with_file_name("permissions");
    fs::create_dir_all(&rules).unwrap();
    let matcher = json!({"path": {"access": "read", "glob": "/**/notes.*"}});
    let rule = json!({"scope": "user", "verdict": "deny", "matcher": matcher});
    fs::write(rules.join("user.json"), json!({"rules": [rule]}).to_string()).unwrap();
    let cat = ["sandbox", "run", "--", "cat", "notes.txt"];
    let (code, text) = run(&scratch, &cat);
    assert!(code == 1 && text.contains("Permission denied"), "{text}");
    fs::write(rules.join("user.json"), "{").unwrap();
    let (code, text) = run(&scratch, &cat);
    assert!(code == 1 && text.contains("user.json"), "{text}");
}

#[test]
fn a_sandboxed_command_works_in_its_project_and_changes_nothing_else() {
    let scratch = Scratch::new();
    if !has_namespaces(&scratch) {
        return;
    }
    let home = Path::new(&scratch.env()["HOME"]).to_owned();
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/id"), "canary-key").unwrap();
    let git = |args: &[&str]| Command::new("git").args(args).current_dir(scratch.cwd()).output();
    assert!(git(&["init", "-q"]).unwrap().status.success());
    let before = names(&scratch);
    let line =
        "git add -A && git -c user.name=a -c user.email=b commit -qm first && git log --oneline
        echo x > AGENTS.md; echo x > .github/workflows/ci.yml; echo x > .git/hooks/pre-commit
        echo x >> .git/config; cat ~/.ssh/id; echo x > ~/new; exit 7";
    let (code, output) = run(&scratch, &["sandbox", "run", "--", "sh", "-c", line]);
    assert_eq!(code, 7, "{output}");
    assert!(output.contains(" first\n") && !output.contains("canary-key"), "{output}");
    for path in ["AGENTS.md", ".github", ".git/hooks/pre-commit"] {
        assert!(!scratch.path(path).exists(), "{path}");
    }
    assert!(!fs::read_to_string(scratch.path(".git/config")).unwrap().contains('x'));
    assert!(!home.join("new").exists());
    // Nothing is left of the placeholders for missing names.
    let status = git(&["status", "--porcelain", "--ignored"]).unwrap();
    assert_eq!(String::from_utf8(status.stdout).unwrap(), "");
    assert_eq!(names(&scratch), before);
}

#[test]
fn a_sandboxed_command_decides_what_ctrl_c_does() {
    let scratch = Scratch::new();
    if !has_namespaces(&scratch) {
        return;
    }
    let line = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let mut command = Command::new(CALLBOARD);
    command.args(["sandbox", "run", "--", "bash", "-c", line]);
    command.current_dir(scratch.cwd()).env_clear().envs(scratch.env());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut shown = String::new();
    output.read_line(&mut shown).unwrap();
    // A terminal sends the signal to all processes of its foreground group.
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    output.read_to_string(&mut shown).unwrap();
    assert_eq!((&*shown, child.wait().unwrap().code()), ("ready\ncaught\n", Some(5)));
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let scratch = Scratch::new();
    let (code, output) = run(&scratch, &["sandbox", "run", "--", "no-such-program"]);
    assert_ne!(code, 0);
    assert!(output.contains("no-such-program") || output.contains("Sandbox: none"), "{output}");
}
