//! Machines on which something is missing: a writable folder, `/proc`, or the permission to write
//! large files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use pretty_assertions::assert_eq;

use crate::harness::CALLBOARD;
use crate::harness::scratch::Scratch;

/// Runs a prompt with `exec`, from a shell that first runs the line `first`. Returns the exit code
/// and the output.
fn exec_after(scratch: &Scratch, first: &str, prompt: &str) -> (Option<i32>, String) {
    let exec = "exec \"$1\" exec --model direct --approve-all \"$2\"";
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{first}; {exec}"), "sh", CALLBOARD, prompt]);
    command.current_dir(scratch.cwd()).env_clear().envs(scratch.env()).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), unwrapped_text(&[stdout, stderr].concat()))
}

/// Returns the words of a text on one line, without the borders that wrapped lines have.
fn unwrapped_text(printed: &[u8]) -> String {
    let printed = String::from_utf8_lossy(printed);
    printed
        .split(|letter: char| letter.is_whitespace() || letter == '│')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns whether this user may mount file systems.
fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["-m", "mount", "--bind", "/", "/"]).output();
    let may = tried.is_ok_and(|tried| tried.status.success());
    if !may {
        eprintln!("skipped: this user may not mount anything");
    }
    may
}

/// Runs a prompt with `exec` in a private mount namespace, after the line `mount` has changed the
/// mounts.
fn exec_mounted(scratch: &Scratch, mount: &str, prompt: &str) -> (Option<i32>, String) {
    let exec = "exec \"$1\" exec --model direct --approve-all \"$2\"";
    let line = format!("{mount} || exit 99; {exec}");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &line, "sh", CALLBOARD, prompt]);
    command.current_dir(scratch.cwd()).env_clear().envs(scratch.env()).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), unwrapped_text(&[stdout, stderr].concat()))
}

#[test]
fn only_the_write_of_a_too_large_file_fails() {
    let scratch = Scratch::new();
    // In `sh`, 64 blocks of 512 bytes: a limit of 32 KiB.
    let limited = "ulimit -f 64";
    let write = format!("write notes.txt\n<<<\n{}\n>>>", "x".repeat(40_000));
    let (code, printed) = exec_after(&scratch, limited, &write);
    assert!(code.is_some(), "ended by a signal: {printed}");
    assert!(printed.contains("larger than this process may write"), "{printed}");
    assert_eq!(scratch.snapshot(), scratch.untouched());
    // The limit also applies to the processes of commands.
    let (_, printed) = exec_after(&scratch, limited, "run head -c 100000 /dev/zero > large");
    assert!(printed.contains("SIGXFSZ") || printed.contains("153"), "{printed}");
}

/// The shell removes its current folder.
#[test]
fn a_removed_current_folder_is_named_as_the_cause() {
    let scratch = Scratch::new();
    for (args, is_needed) in [
        (&["sessions"][..], true),
        (&["sessions", "search", "word"], true),
        (&["sessions", "--all"], false),
        (&["sandbox", "run", "--", "true"], true),
        (&["exec", "--model", "direct", "list"], true),
    ] {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "mkdir gone && cd gone && rmdir ../gone; exec \"$0\" \"$@\"",
            CALLBOARD,
        ]);
        command.args(args).current_dir(scratch.cwd()).env_clear().envs(scratch.env());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let printed = unwrapped_text(&[output.stdout, output.stderr].concat());
        let says = printed.contains("the current folder no longer exists");
        // A system without a sandbox reports this first.
        let has_no_sandbox = args[0] == "sandbox" && printed.contains("Sandbox: none");
        assert_eq!(says, is_needed && !has_no_sandbox, "{args:?}: {printed}");
        assert_eq!(output.status.success(), !is_needed, "{args:?}: {printed}");
    }
}

#[test]
fn without_proc_a_command_names_the_cause() {
    if may_mount() {
        let (_, printed) = exec_mounted(&Scratch::new(), "umount -l /proc", "run true");
        assert!(printed.contains("/proc is not mounted"), "{printed}");
    }
}

#[test]
fn a_file_that_is_a_mount_point_is_edited() {
    if !may_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::write(scratch.path("source"), "one\n").unwrap();
    let mount = "mount --bind source notes.txt";
    let (code, printed) = exec_mounted(&scratch, mount, "edit notes.txt\n<<<\none\n===\n1\n>>>");
    assert_eq!((code, scratch.read("source").as_str()), (Some(0), "1\n"), "{printed}");
    assert!(!printed.contains("crash"), "{printed}");
}

#[test]
fn an_unwritable_home_is_reported_and_files_can_still_be_edited() {
    let scratch = Scratch::new();
    fs::write(scratch.path("home"), "").unwrap();
    let home = scratch.path("home");
    let first = format!("unset XDG_STATE_HOME; export HOME={}", home.display());
    let (code, printed) = exec_after(&scratch, &first, "edit notes.txt\n<<<\none\n===\n1\n>>>");
    assert_eq!(
        (code, scratch.read("notes.txt").as_str()),
        (Some(0), "1\ntwo\nthree\n"),
        "{printed}"
    );
    let state = home.join(".local/state/callboard");
    let joined = printed.replace(' ', "");
    assert!(joined.contains(&state.display().to_string()), "{printed}");
}

#[test]
fn a_failed_write_of_the_output_fails_and_a_closed_pipe_does_not() {
    let scratch = Scratch::new();
    for (line, expected) in [
        ("\"$0\" models >/dev/full", 1),
        ("\"$0\" config show >/dev/full", 1),
        ("\"$0\" config path >/dev/full", 1),
        ("\"$0\" exec --model direct 'read notes.txt' >/dev/full", 1),
        ("\"$0\" --help >/dev/full", 1),
        ("\"$0\" --version >/dev/full", 1),
        ("\"$0\" exec --help >/dev/full", 1),
        ("\"$0\" --help >/dev/null", 0),
        ("exec 3>&1; { \"$0\" --help; echo $? >&3; } | :", 0),
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", line, CALLBOARD]).stdin(Stdio::null());
        command.current_dir(scratch.cwd()).env_clear().envs(scratch.env());
        let output = command.output().unwrap();
        let code = match String::from_utf8(output.stdout).unwrap().trim() {
            "" => output.status.code(),
            piped => piped.parse().ok(),
        };
        assert_eq!(code, Some(expected), "{line}");
    }
}

/// Returns every file and folder in a folder, at any depth, that other users can access.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
        if mode & 0o077 != 0 {
            open.push(format!("{} {mode:o}", path.display()));
        }
        if path.is_dir() {
            open.extend(open_to_others(&path));
        }
    }
    open
}

#[test]
fn other_users_have_no_access_to_the_state_folder() {
    let scratch = Scratch::new();
    let home = scratch.cwd().parent().unwrap().join("home");
    fs::create_dir_all(home.join("STATE_HOME/callboard/undo")).unwrap();
    for prompt in ["edit notes.txt\n<<<\none\n===\n1\n>>>", "run seq 20000", "grep o"] {
        exec_after(&scratch, "umask 022", prompt);
    }
    let state = home.join("STATE_HOME/callboard");
    assert!(fs::read_dir(&state).unwrap().count() >= 3);
    let open = open_to_others(&state);
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
}
