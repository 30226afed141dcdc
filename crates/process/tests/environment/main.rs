//! Secrets in the environment of a program that runs commands. No command may be able to read a
//! secret, not even through `/proc`.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use callboard_process::env::{base_env, hide_env_from_other_processes, own_env};
use callboard_process::run_if_command_helper;
use rustix::process::geteuid;
use tokio_util::sync::CancellationToken;

/// The test framework provides `main`, but functions in this section are called before `main`.
#[used]
#[expect(unsafe_code, reason = "a section is named")]
#[unsafe(link_section = ".init_array")]
static CONCEALED: extern "C" fn() = {
    extern "C" fn init_before_main() {
        run_if_command_helper();
        hide_env_from_other_processes();
    }
    init_before_main
};

/// Number of variables that hold a secret.
const SECRETS: usize = 200;

/// Returns the secret variable number `index`, which one process passes to another. Its name either
/// looks like a secret or is not in the allow list.
fn secret(index: usize, starter: &str) -> (String, String) {
    let words = ["API_KEY", "TOKEN", "SECRET", "PASSWORD", "Cookie", "DATABASE_URL"];
    (format!("{}_{index}", words[index % words.len()]), format!("hidden{starter}-{index}"))
}

/// Shell script that prints every secret in its own environment and in the environments of all
/// processes.
const FIND_SECRETS_SCRIPT: &str = "
    { env; cat /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ 2>/dev/null | tr '\\0' '\\n'; } |
        grep -o \"hidden$STARTER-[a-z0-9]*\" | sort -u
    cat /proc/$PROGRAM/maps >/dev/null 2>&1 && echo memory
    ls /proc/$PROGRAM/fd >/dev/null 2>&1 && echo descriptors
    :";

/// The test body of a copy of this program that was started with secrets.
#[tokio::test]
async fn program() {
    if std::env::var_os("API_KEY_0").is_none() {
        return;
    }
    // Secrets that the other test created are ignored.
    let starter = std::env::var("STARTER").unwrap();
    for (name, value) in (0..SECRETS).map(|index| secret(index, &starter)) {
        assert_eq!(std::env::var(name), Ok(value));
    }
    let mut env = base_env(own_env());
    // A control value that the script must find.
    let control = format!("hidden{starter}-control");
    env.insert("CONTROL".to_owned(), control.clone());
    env.insert("STARTER".to_owned(), starter);
    env.insert("PROGRAM".to_owned(), std::process::id().to_string());
    let line = FIND_SECRETS_SCRIPT.to_owned();
    let cwd = std::env::temp_dir();
    let command = callboard_process::ShellCommand::new(line, cwd, env);
    let mut output = Vec::new();
    let found = |chunk: &[u8]| output.extend_from_slice(chunk);
    let exit =
        callboard_process::run_command(command, CancellationToken::new(), found).await.unwrap();
    assert_eq!(exit.code, Some(0));
    let expected = match geteuid().is_root() {
        // The script can read every process.
        true => format!("{control}\nmemory\ndescriptors\n"),
        false => format!("{control}\n"),
    };
    assert_eq!(String::from_utf8(output).unwrap(), expected);
}

fn start(mut command: Command) {
    let starter = std::process::id().to_string();
    command.envs((0..SECRETS).map(|index| secret(index, &starter))).env("STARTER", &starter);
    command.args(["program", "--exact"]).current_dir("/");
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

#[test]
fn no_command_sees_a_secret() {
    start(Command::new(std::env::current_exe().unwrap()));
}

#[test]
fn no_command_of_an_unprivileged_user_sees_a_secret() {
    if !geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
    start(command);
}
