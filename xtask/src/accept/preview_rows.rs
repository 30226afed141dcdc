//! The rows for previews of commands, and for recorded changes of commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::RowMeasure::{Failed, Programs};
use super::allowing_client::AllowingClient;
use super::figures::{isolated_command, median, read_memory_mib};
use super::preview_kills::mixed_projects_after_kills;
use super::scratch::ScratchFolders;
use super::{AcceptanceRow, ReleasePrograms};
use crate::process::{TaskError, run_expecting_success};

/// The rows of the command `accept` for previews and recorded changes of commands.
pub(super) const PREVIEW_ROWS: &[AcceptanceRow] = &[
    AcceptanceRow {
        name: "previews",
        what: "failed tests of previews, which compare n random commands with their effects in a \
               copy",
        n: 1000,
        target: Some(0.0),
        measure: Failed(
            "SANDBOX_TESTS_REQUIRE=namespaces PREVIEWED_COMMANDS=n test --profile laws \
             -p callboard --all-features --test it -- previews",
        ),
    },
    AcceptanceRow {
        name: "preview-cost",
        what: "additional ms of a command in this repository that is previewed and then allowed, \
               median of n pairs",
        n: 50,
        target: Some(60.0),
        measure: Programs(extra_preview_ms),
    },
    AcceptanceRow {
        name: "preview-memory",
        what: "peak memory in MiB of an agent that previews a command which changes n files of \
               20,000 bytes",
        n: 500,
        target: Some(64.0),
        measure: Programs(preview_memory),
    },
    AcceptanceRow {
        name: "preview-kills",
        what: "projects in a mixed state after n agents are killed, each at a random moment while it \
               applies the changes of a preview beside an editor, and after the next start",
        n: 1000,
        target: Some(0.0),
        measure: Programs(mixed_projects_after_kills),
    },
    AcceptanceRow {
        name: "recorded",
        what: "failed tests of commands without a preview: after the undo of half of n random commands, \
               the project must be as before",
        n: 1000,
        target: Some(0.0),
        measure: Failed(
            "PREVIEWED_COMMANDS=n test --profile laws -p callboard --all-features --test it -- \
             command_undo",
        ),
    },
    AcceptanceRow {
        name: "record-cost",
        what: "additional ms of a command without a sandbox in this repository, compared with an empty \
               folder, because its changes are recorded, median of n pairs",
        n: 50,
        target: Some(30.0),
        measure: Programs(extra_record_ms),
    },
];

/// Runs a command n times in this repository and n times in an empty folder. Returns the median
/// difference of the times of their turns, in milliseconds.
fn extra_record_ms(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("record")?;
    let empty = scratch.cwd().join("empty");
    fs::create_dir(&empty).map_err(|error| TaskError::Failed(error.to_string()))?;
    // The sandbox also looks through the project after a command.
    let no_sandbox = ["--no-sandbox"];
    let project = clone_repository(&scratch)?;
    let mut recorded = start_agent_in_folder(built, &scratch, &project, &no_sandbox)?;
    let mut other = start_agent_in_folder(built, &scratch, &empty, &no_sandbox)?;
    // The first command copies all files.
    let (_, _) = (time_append_command(&mut recorded)?, time_append_command(&mut other)?);
    let pair = |_| Ok(time_append_command(&mut recorded)? - time_append_command(&mut other)?);
    Ok(median((0..n).map(pair).collect::<Result<_, TaskError>>()?))
}

/// Copies this repository, and starts an agent in the copy.
fn start_agent_in_repository_copy(
    built: &ReleasePrograms,
    scratch: &ScratchFolders,
) -> Result<AllowingClient, TaskError> {
    start_agent_in_folder(built, scratch, &clone_repository(scratch)?, &[])
}

/// Copies this repository, unless there is a copy. Returns the folder of the copy.
fn clone_repository(scratch: &ScratchFolders) -> Result<PathBuf, TaskError> {
    let project = scratch.cwd().join("project");
    if !project.exists() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet"]).arg(repository).arg(&project);
        run_expecting_success(&mut clone)?;
    }
    Ok(project)
}

/// Starts an agent in a folder.
fn start_agent_in_folder(
    built: &ReleasePrograms,
    scratch: &ScratchFolders,
    folder: &Path,
    args: &[&str],
) -> Result<AllowingClient, TaskError> {
    let mut command = isolated_command(&built.callboard, scratch);
    command.args(["acp", "--ephemeral", "--model", "direct", "--mode", "ask"]).args(args);
    AllowingClient::start(&mut command, folder)
}

/// Runs a command n times with a preview and n times without. Returns the median difference of the
/// times of their turns, in milliseconds.
fn extra_preview_ms(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("preview")?;
    let (mut plain, mut previewed) = (
        start_agent_in_repository_copy(built, &scratch)?,
        start_agent_in_repository_copy(built, &scratch)?.with_previews_selected(),
    );
    // The first command creates the network of the session.
    let (_, _) = (time_append_command(&mut plain)?, time_append_command(&mut previewed)?);
    let pair = |_| Ok(time_append_command(&mut previewed)? - time_append_command(&mut plain)?);
    let extra = median((0..n).map(pair).collect::<Result<_, TaskError>>()?);
    let asked = plain.permission_request_count();
    match asked > n && previewed.permission_request_count() == 2 * asked {
        true => Ok(extra),
        false => Err(TaskError::Failed("not each command was previewed".to_owned())),
    }
}

/// Runs a command that changes one file, and returns the milliseconds until its turn has ended.
fn time_append_command(client: &mut AllowingClient) -> Result<f64, TaskError> {
    let begun = Instant::now();
    let ended = client.run_prompt("run echo more >> CHANGELOG.md")?;
    match &ended["status"] {
        status if status == "completed" => Ok(begun.elapsed().as_secs_f64() * 1000.0),
        other => Err(TaskError::Failed(format!("the command has the status {other}"))),
    }
}

/// Previews a command that changes n files, and returns the peak memory of the agent in MiB.
fn preview_memory(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("preview")?;
    let mut client = start_agent_in_repository_copy(built, &scratch)?.with_previews_selected();
    let folder = scratch.cwd().join("project/many");
    let text = "a line of a text file\n".repeat(1000);
    let written = fs::create_dir(&folder).and_then(|()| {
        (0..n).try_for_each(|number| fs::write(folder.join(number.to_string()), &text))
    });
    written.map_err(|error| TaskError::Failed(error.to_string()))?;
    let ended = client.run_prompt("run sed -i s/line/row/ many/*")?;
    if ended["status"] != "completed" {
        return Err(TaskError::Failed(format!("the command ended with {ended}")));
    }
    read_memory_mib(client.pid(), "VmHWM:")
}
