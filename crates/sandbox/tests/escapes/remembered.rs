//! The result that a process remembers of another process.

use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

use callboard_sandbox::{Isolation, probe_isolation, probe_isolation_with_memory};
use pretty_assertions::assert_eq;

/// The variable that contains the path of the file for a process of [`run_if_asked`].
const MEMORY: &str = "ESCAPES_MEMORY";

/// If the variable is set, prints the remembered result and the result of a trial, and exits.
#[expect(clippy::print_stdout, reason = "another process reads it")]
#[expect(clippy::exit, clippy::disallowed_methods, reason = "the process runs no test")]
pub(super) fn run_if_asked() {
    let Some(file) = env::var_os(MEMORY) else { return };
    let remembered = probe_isolation_with_memory(Path::new(&file)).isolation;
    println!("{remembered}, then {}", probe_isolation().isolation);
    process::exit(0);
}

#[test]
fn namespaces_are_remembered_until_they_fail() {
    if probe_isolation().isolation != Isolation::Namespaces {
        return eprintln!("skipped: no namespaces");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("namespaces");
    // A limit that is none of the conditions: with 0, no sandbox works, because the helper gets its
    // order in a file.
    let run = |max_file_size: &str| {
        let script = "trap '' XFSZ; ulimit -f $0; exec \"$1\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, max_file_size]).arg(env::current_exe().unwrap());
        let output = command.env(MEMORY, &file).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };

    assert_eq!(run("unlimited"), "namespaces, then namespaces\n");
    assert_eq!(run("unlimited"), "namespaces, then namespaces\n");
    assert_eq!(run("0"), "namespaces, then none\n");
    assert_eq!(run("0"), "none, then none\n");

    assert_eq!(run("unlimited"), "namespaces, then namespaces\n");
    let conditions = fs::read_to_string(&file).unwrap();
    assert!(conditions.contains("\nSeccomp:"), "{conditions}");
    fs::write(&file, conditions.replace("\nSeccomp:", "\nSeccomp: 7")).unwrap();
    assert_eq!(run("0"), "none, then none\n");
}
