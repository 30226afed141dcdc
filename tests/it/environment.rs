//! Secrets in the environment of the agent. No command of the agent can read a secret, not even
//! through `/proc`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use acp_types::schema::v1::ToolCallStatus;
use pretty_assertions::assert_eq;
use rustix::process::geteuid;

use crate::harness::scratch::Scratch;
use crate::harness::script::{end, run};
use crate::harness::{Agent, CALLBOARD, Options};

/// Number of environment variables that contain a secret.
const SECRETS: usize = 200;

/// User id of an unprivileged user.
const NOBODY: u32 = 65_534;

/// Returns the prefix of all secrets. No other process uses the same prefix.
fn tag() -> String {
    format!("hidden{}", std::process::id())
}

/// Returns environment variables with secrets. The names of most variables look like names of
/// secrets. All other names are missing in the agent's list of allowed variables.
fn secrets() -> impl Iterator<Item = (String, String)> {
    let words = ["API_KEY", "TOKEN", "SECRET", "PASSWORD", "Cookie", "DATABASE_URL"];
    (0..SECRETS).map(move |index| {
        (format!("{}_{index}", words[index % words.len()]), format!("{}-{index}", tag()))
    })
}

/// Returns a command that searches its environment and the environments of all processes in
/// `/proc`. The command writes every secret that it finds to a file. A control value in the file
/// proves that the search works.
fn find_secrets_command() -> String {
    let tag = tag();
    format!(
        "CONTROL={tag}-control sh -c '{{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline \
         /proc/[0-9]*/task/*/environ 2>/dev/null | tr \"\\0\" \"\\n\"; }} | \
         grep -o \"{tag}-[a-z0-9][a-z0-9]*\" | sort -u > found'"
    )
}

/// Starts the agent as the given user, and runs a command that searches for the agent's secrets.
async fn check(user: Option<u32>) {
    let scratch = Scratch::new();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The program is copied, because another user may have no access to the folder of the built
    // program.
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
    // Only root can switch to another user. The test above covers the current user.
    if geteuid().is_root() {
        check(Some(NOBODY)).await;
    }
}
