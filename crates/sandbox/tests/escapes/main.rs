//! Commands that try to escape from their sandbox. After each command, all files outside of the
//! sandbox are compared with their state before the command.
//!
//! As root, all tests run again as an ordinary user. A test that needs a feature that the kernel
//! lacks prints the reason and passes, unless the variable `SANDBOX_TESTS_REQUIRE` names the
//! feature (`namespaces`, `landlock`, `preview`).

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]
#![expect(clippy::print_stderr, reason = "skipped tests and figures are told by it")]

mod attacks;
mod endings;
mod modes;
mod mutations;
mod network;
mod preview;
mod refusals;
mod remembered;
mod table;
mod table_of_files;
mod table_of_system;
mod tools;
mod world;

use std::fs;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use callboard_sandbox::{
    Isolation, ProcessSession, SandboxCommand, SandboxPolicy, probe_isolation,
};

use world::{Snapshot, World};

/// The test framework provides `main`, but functions in this section are called before `main`.
#[used]
#[expect(unsafe_code, reason = "a section is named")]
#[unsafe(link_section = ".init_array")]
static HELPER: extern "C" fn() = {
    extern "C" fn init_before_main() {
        attacks::run_if_asked();
        callboard_sandbox::run_if_sandbox_helper();
        remembered::run_if_asked();
    }
    init_before_main
};

/// Environment variable by which a copy of this program recognizes that it runs as another user.
const AS: &str = "ESCAPES_AS";
/// The other user. It needs no entry in the table of users.
const OTHER_USER: u32 = 12_345;

/// Result of a sandboxed command.
struct Output {
    code: Option<i32>,
    text: String,
}

/// Returns a command that runs a shell line in the project folder of a world.
fn shell(
    world: &World,
    policy: &SandboxPolicy,
    isolation: Isolation,
    line: &str,
) -> SandboxCommand {
    let mut command = SandboxCommand::new("sh", policy, isolation, ProcessSession::New).unwrap();
    command.args(["-c", line]).envs(world.environment());
    command.helper_command().current_dir(&world.project).stdin(std::process::Stdio::null());
    command
}

/// Runs a shell line, and returns its exit code and its output.
fn run(world: &World, policy: &SandboxPolicy, isolation: Isolation, line: &str) -> Output {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = shell(world, policy, isolation, line);
    command.helper_command().stdout(writer.try_clone().unwrap()).stderr(writer);
    let child = command.spawn().unwrap();
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut text).unwrap();
    let (status, _) = child.wait().unwrap();
    Output { code: status.code(), text: String::from_utf8_lossy(&text).into_owned() }
}

/// Returns whether an isolation works here, and prints the reason if it does not. Fails if the
/// variable `SANDBOX_TESTS_REQUIRE` names it.
fn is_supported(isolation: Isolation) -> bool {
    let probe = probe_isolation();
    let refusal = probe.refusals.iter().find(|refusal| refusal.isolation == isolation);
    if let Some(refusal) = refusal {
        eprintln!("SKIPPED: {refusal}");
    }
    let is_missing = isolation == Isolation::Landlock && probe.landlock_abi < 3;
    if is_missing {
        eprintln!("SKIPPED: the kernel has no Landlock, or an old version");
    }
    let is_supported = refusal.is_none() && !is_missing;
    let required = std::env::var("SANDBOX_TESTS_REQUIRE").unwrap_or_default().to_lowercase();
    let is_required = required.contains(&isolation.to_string().to_lowercase());
    assert!(is_supported || !is_required, "{isolation} is required");
    is_supported
}

/// The kinds of isolation that work here.
fn kinds() -> impl Iterator<Item = Isolation> {
    [Isolation::Namespaces, Isolation::Landlock].into_iter().filter(|kind| is_supported(*kind))
}

/// Runs the other tests again as an ordinary user, if the current user may switch to another user.
#[test]
fn all_tests_pass_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() || std::env::var_os(AS).is_some() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(folder.path(), Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    let program = folder.path().join("escapes");
    // Another process copies the program. If this process copied it, a process that another thread
    // starts meanwhile could inherit the copy as a file that is open for writing. The kernel does
    // not execute such a file.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut copy = Command::new(&program);
    copy.uid(OTHER_USER).gid(OTHER_USER).env(AS, OTHER_USER.to_string()).env("HOME", "/");
    copy.current_dir(folder.path());
    assert!(copy.status().unwrap().success());
}

/// Returns one text for each escape that a shell line has achieved.
fn complaints(world: &World, before: &Snapshot, output: &str) -> Vec<String> {
    let mut complaints = before.differences(&world.snapshot());
    if world::SECRETS.iter().any(|secret| output.contains(secret)) {
        complaints.push("a secret was read".to_owned());
    }
    if output.contains("ESCAPED") {
        complaints.push("the line reports success".to_owned());
    }
    complaints.extend(world.connections().map(|what| format!("connected: {what}")));
    complaints
}

#[test]
fn no_line_of_the_table_escapes_from_namespaces() {
    assert_that_no_line_escapes(Isolation::Namespaces);
}

#[test]
fn no_line_of_the_table_escapes_from_landlock() {
    assert_that_no_line_escapes(Isolation::Landlock);
}

fn assert_that_no_line_escapes(isolation: Isolation) {
    if !is_supported(isolation) {
        return;
    }
    let mut failures = Vec::new();
    for escape in table::escapes().filter(|escape| escape.holds_in(isolation)) {
        let world = World::new();
        let before = world.snapshot();
        let output = run(&world, &world.policy(), isolation, escape.line);
        let complaints = complaints(&world, &before, &output.text);
        if !complaints.is_empty() {
            let line = escape.line;
            failures.push(format!("{line}: {complaints:?}\n{}", output.text));
        }
    }
    assert!(failures.is_empty(), "{isolation}:\n{}", failures.join("\n"));
}

#[test]
fn no_system_call_escapes() {
    for isolation in kinds() {
        let world = World::new();
        let before = world.snapshot();
        for name in attacks::names(isolation) {
            let line = format!("exec \"$ATTACK\" attack {name}");
            let output = run(&world, &world.policy(), isolation, &line);
            assert_eq!(output.code, Some(0), "{isolation}, {name}: {}", output.text);
        }
        assert_eq!(before.differences(&world.snapshot()), [""; 0]);
        assert_eq!(world.connections().collect::<Vec<_>>(), [""; 0]);
    }
}

/// Without a sandbox, each line succeeds. A line is skipped if a program is missing, if the user
/// lacks the right, or if the kernel or the file system does not support the operation.
#[test]
fn lines_of_the_table_succeed_outside_of_a_sandbox() {
    let mut failures = Vec::new();
    let mut successes = 0;
    for escape in table::escapes().filter(|escape| escape.has_control) {
        let world = World::new();
        let before = world.snapshot();
        // The output goes to a file and not to a pipe, because reading a pipe would wait for
        // processes that the line leaves behind.
        let mut file = tempfile::tempfile().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", escape.line]).env_clear().envs(world.environment());
        command.current_dir(&world.project).stdin(std::process::Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file.try_clone().unwrap());
        command.status().unwrap();
        let mut text = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text);
        let is_impossible = [
            "not found",
            "not permitted",
            "denied",
            "not supported",
            "not implemented",
            "not available",
        ];
        if !complaints(&world, &before, &text).is_empty() {
            successes += 1;
        } else if is_impossible.iter().any(|reason| text.contains(reason)) {
            eprintln!("SKIPPED: {}: {text}", escape.line);
        } else {
            failures.push(format!("{}: {text}", escape.line));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(successes > 200, "only {successes} lines succeed");
}

/// The attacks succeed without a sandbox, so that the tests above prove something.
#[test]
fn attacks_succeed_outside_of_a_sandbox() {
    let world = World::new();
    for name in ["connect-tcp", "connect-abstract", "connect-path", "signal-other"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["attack", name]).envs(world.environment());
        assert_eq!(command.output().unwrap().status.code(), Some(attacks::ESCAPED), "{name}");
    }
    assert!(world.connections().count() > 0);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn programs_of_32_bits_are_killed() {
    use std::os::unix::process::ExitStatusExt as _;
    let mut command = Command::new(std::env::current_exe().unwrap());
    if !command.arg("call-as-32-bit-program").status().unwrap().success() {
        eprintln!("SKIPPED: the kernel has no 32-bit programs");
        return;
    }
    for isolation in kinds() {
        let world = World::new();
        let line = "exec \"$ATTACK\" call-as-32-bit-program";
        let child = shell(&world, &world.policy(), isolation, line).spawn().unwrap();
        let (status, _) = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{isolation}");
    }
}

#[test]
fn permitted_work_is_done() {
    for isolation in kinds() {
        let world = World::new();
        let policy = world.policy();
        let line = "set -e; echo new > file; mkdir -p deep/er; mv file deep/er/; rm -r deep; \
                    echo x >> src/main.rs; ln -s a b; rm b; echo t > \"$TMPDIR/t\"; \
                    cat \"$HOME/tools/tool\" > /dev/null; echo done > /dev/null; \
                    head -c 1 /dev/urandom > /dev/null; exit 7";
        let output = run(&world, &policy, isolation, line);
        assert_eq!((output.code, output.text.as_str()), (Some(7), ""), "{isolation}");
    }
}

#[test]
fn temporary_folder_of_the_caller_is_shared_by_commands() {
    for isolation in kinds() {
        let world = World::new();
        let mut policy = world.policy();
        policy.tmp = Some(world.private_tmp());
        run(&world, &policy, isolation, "echo shared > \"$TMPDIR/file\"");
        let output = run(&world, &policy, isolation, "cat \"$TMPDIR/file\"");
        assert_eq!(output.text, "shared\n", "{isolation}");
    }
}

#[test]
fn missing_program_is_reported() {
    for isolation in kinds() {
        let world = World::new();
        let mut command = SandboxCommand::new(
            "no-such-program",
            &world.policy(),
            isolation,
            ProcessSession::Inherited,
        )
        .unwrap();
        command.envs([("PATH", "/usr/bin:/bin")]).helper_command().current_dir(&world.project);
        let error = command.spawn().unwrap_err().to_string();
        assert!(error.starts_with("cannot start no-such-program: No such file"), "{error}");
        assert_eq!(world.leftovers(), [""; 0]);
    }
}

#[test]
fn writable_folder_that_does_not_exist_is_reported() {
    for isolation in kinds() {
        let world = World::new();
        let mut policy = world.policy();
        policy.writable.push("/no/such/folder".into());
        let error = shell(&world, &policy, isolation, "true").spawn().unwrap_err().to_string();
        assert!(error.starts_with("cannot open /no/such/folder: No such file"), "{error}");
        assert_eq!(world.leftovers(), [""; 0]);
    }
}

#[test]
fn probe_names_a_reason_for_each_refusal() {
    for refusal in &probe_isolation().refusals {
        assert!(refusal.to_string().contains("does not work here: cannot "), "{refusal}");
    }
}
