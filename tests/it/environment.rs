//! Secrets in the environment of the agent: no command can read one, not even through `/proc`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use acp_types::schema::v1::ToolCallStatus;
use pretty_assertions::assert_eq;
use rustix::process::geteuid;

use crate::harness::scratch::Scratch;
use crate::harness::script::{end, run};
use crate::harness::{Agent, CALLBOARD, Options};

/// Number of variables that hold a secret.
const SECRETS: usize = 200;

/// An unprivileged user.
const NOBODY: u32 = 65_534;

/// Returns the prefix of the secrets, which no other process uses.
fn tag() -> String {
    format!("hidden{}", std::process::id())
}

/// Returns the variables; some names look like names of secrets, and the other names are not in the
/// list of allowed variables.
fn secrets() -> impl Iterator<Item = (String, String)> {
    let words = ["API_KEY", "TOKEN", "SECRET", "PASSWORD", "Cookie", "DATABASE_URL"];
    (0..SECRETS).map(move |index| {
        (format!("{}_{index}", words[index % words.len()]), format!("{}-{index}", tag()))
    })
}

/// Returns a command that writes every secret it finds to a file. The command searches its
/// environment and the environments of all processes in `/proc`. A control value shows that the
/// search works.
fn find_secrets_command() -> String {
    let tag = tag();
    format!(
        "CONTROL={tag}-control sh -c '{{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline \
         /proc/[0-9]*/task/*/environ 2>/dev/null | tr \"\\0\" \"\\n\"; }} | \
         grep -o \"{tag}-[a-z0-9][a-z0-9]*\" | sort -u > found'"
    )
}

/// Runs the agent as a user, with a command that searches for the agent's secrets.
async fn check(user: Option<u32>) {
    let scratch = Scratch::new();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Another user has no access to the folder of the program.
    let program = folder.path().join("callboard");
    fs::copy(CALLBOARD, &program).unwrap();
    let model = scratch.model(&[run(&find_secrets_command()), end()].into());
    user.iter().for_each(|user| scratch.give_to(*user));
    let args = ["acp", "--model", &model];
    let mut agent = Agent::start_program(&program, scratch, &args, Options::default(), |command| {
        command.envs(secrets());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
    });
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.call("terminal").status, ToolCallStatus::Completed);
    assert_eq!(agent.scratch.read("found"), format!("{}-control\n", tag()));
    agent.finish().await;
}

#[tokio::test]
async fn no_command_sees_a_secret_of_the_agent() {
    check(None).await;
}

#[tokio::test]
async fn no_command_of_an_unprivileged_user_sees_a_secret_of_the_agent() {
    // Only root can switch to another user; the current user is tested above.
    if geteuid().is_root() {
        check(Some(NOBODY)).await;
    }
}
