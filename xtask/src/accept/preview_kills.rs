//! Kills agents while they apply the changes of a preview, beside an editor that writes a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::ReleasePrograms;
use super::allowing_client::AllowingClient;
use super::figures::isolated_command;
use super::mcp_left::flatten_join_result;
use super::scratch::ScratchFolders;
use super::seed::Random;
use crate::process::TaskError;

/// Number of agents that run at the same time.
const AGENTS: u32 = 2;
/// Number of agents of which some must be killed before the changes are applied, and some after
/// that.
const MANY_AGENTS: u32 = 100;
/// Number of files that the command changes, except for the file of the editor.
const FILES: usize = 12;
/// Maximum delay from the answer that allows the changes to the kill. The application takes about
/// as long.
const MAX_KILL_DELAY_MICROS: u64 = 40_000;
/// Maximum delay from the start of a turn to the write of the editor.
const MAX_WRITE_DELAY_MICROS: u64 = 300_000;
/// The name of the file that both the command and the editor write.
const EDITED: &str = "edited";
/// The command that is previewed. It changes and removes files, and adds a file in a folder.
const COMMAND: &str =
    "run sed -i s/old/new/ file* edited; rm removed; mkdir added; echo new > added/file";

/// The files of a project with their contents, and the folders without content.
type Files = BTreeMap<OsString, String>;

/// The state of a project after the repair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RepairedProjectState {
    Old,
    New,
    Mixed,
}

/// Kills n agents, each at a random moment while it applies changes, and starts another agent,
/// which repairs the project. Returns the number of projects that are neither in their old nor in
/// their new state, or that contain other files.
///
/// # Errors
///
/// Returns an error if many agents are killed and all projects are in the same state, so that the
/// kills came too early or too late.
pub(super) fn mixed_projects_after_kills(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let seed = built.seed.get_and_mark_used();
    let states = thread::scope(|threads| {
        let run = |first: u32| {
            threads.spawn(move || {
                let numbers = (first..n).step_by(AGENTS as usize);
                let states = numbers.map(|number| state_after_kill(built, seed, number));
                states.collect::<Result<Vec<_>, TaskError>>()
            })
        };
        let all: Vec<_> = (0..AGENTS).map(run).collect();
        all.into_iter()
            .map(|run| flatten_join_result(run.join()))
            .collect::<Result<Vec<_>, TaskError>>()
    });
    let states = states?.concat();
    let killed = |wanted| states.iter().filter(|state| **state == (true, wanted)).count();
    let (old, new) = (killed(RepairedProjectState::Old), killed(RepairedProjectState::New));
    if n >= MANY_AGENTS && (old == 0 || new == 0) {
        let message =
            format!("of the killed agents, {old} left an old project and {new} a new one");
        return Err(TaskError::Failed(message));
    }
    let is_mixed =
        |(_, state): &&(bool, RepairedProjectState)| *state == RepairedProjectState::Mixed;
    Ok(states.iter().filter(is_mixed).count() as f64)
}

/// Returns whether the agent was killed while it applied the changes, and the state of the project.
fn state_after_kill(
    built: &ReleasePrograms,
    seed: u64,
    number: u32,
) -> Result<(bool, RepairedProjectState), TaskError> {
    let scratch = ScratchFolders::new(&format!("preview-kills-{number}"))?;
    let cannot_use = |error: io::Error| TaskError::Failed(error.to_string());
    let project = scratch.cwd().join("project");
    let (old, new) = (project_files_in_state("old"), project_files_in_state("new"));
    create_project(&project, &old).map_err(cannot_use)?;
    let start = || {
        let mut command = isolated_command(&built.callboard, &scratch);
        command.args(["acp", "--ephemeral", "--model", "direct", "--mode", "ask"]);
        Ok::<_, TaskError>(AllowingClient::start(&mut command, &project)?.with_previews_selected())
    };
    let mut random = Random::new(seed.wrapping_add(number.into()));
    let kill_delay = Duration::from_micros(random.next_below(MAX_KILL_DELAY_MICROS));
    let write_delay = Duration::from_micros(random.next_below(MAX_WRITE_DELAY_MICROS));
    let replaces = random.next_below(2) == 0;
    let client = start()?;
    let was_killed = thread::scope(|threads| {
        let editor = threads.spawn(|| {
            thread::sleep(write_delay);
            write_as_editor(&project, replaces)
        });
        let run = client.run_prompt_until_kill(COMMAND, kill_delay);
        flatten_join_result(editor.join().map(|written| written.map_err(cannot_use))).and(run)
    })?;
    // The first call of the next agent repairs the project. Its sandbox removes the placeholders of
    // a command that ran when its agent was killed.
    start()?.run_prompt("run cat file0")?;
    let mut found = read_project_files(&project).map_err(cannot_use)?;
    let edited = found.remove(&OsString::from(EDITED));
    let is_possible = edited.is_some_and(|text| {
        [
            text_of_repeated_word("old"),
            text_of_repeated_word("new"),
            text_of_repeated_word("editor"),
        ]
        .contains(&text)
    });
    let without_edited = |mut files: Files| {
        files.remove(&OsString::from(EDITED));
        files
    };
    let state = match is_possible {
        true if found == without_edited(old) => RepairedProjectState::Old,
        true if found == without_edited(new) => RepairedProjectState::New,
        _ => RepairedProjectState::Mixed,
    };
    Ok((was_killed, state))
}

fn text_of_repeated_word(word: &str) -> String {
    format!("{word}\n").repeat(2000)
}

/// Returns the files of the project before or after the command.
fn project_files_in_state(state: &str) -> Files {
    let mut files: Files =
        (0..FILES).map(|it| (format!("file{it}").into(), text_of_repeated_word(state))).collect();
    files.insert(EDITED.into(), text_of_repeated_word(state));
    if state == "old" {
        files.insert("removed".into(), text_of_repeated_word("old"));
    } else {
        files.insert("added/file".into(), "new\n".to_owned());
    }
    files
}

fn create_project(project: &Path, files: &Files) -> io::Result<()> {
    fs::create_dir(project)?;
    files.iter().try_for_each(|(name, text)| fs::write(project.join(name), text))
}

/// Writes the file of the editor, in one of the ways in which editors do it.
fn write_as_editor(project: &Path, replaces: bool) -> io::Result<()> {
    let (file, text) = (project.join(EDITED), text_of_repeated_word("editor"));
    if replaces {
        // The other file is outside of the project, so that no preview contains it.
        let other = project.with_extension("editor");
        fs::write(&other, text)?;
        fs::rename(other, file)
    } else {
        fs::write(file, text)
    }
}

/// Reads all files of the project.
fn read_project_files(project: &Path) -> io::Result<Files> {
    let (mut files, mut folders) = (Files::new(), vec![project.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(project).unwrap_or(&path).as_os_str().to_owned();
                // A placeholder of a sandbox is a socket.
                let text = fs::read_to_string(&path).unwrap_or_else(|error| error.to_string());
                files.insert(name, text);
            }
        }
    }
    Ok(files)
}
