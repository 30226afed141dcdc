//! File tools of the whole agent: the time of an edit, the size of its updates, and the increase of
//! read times during a turn or session.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::{Value, json};

use super::ReleasePrograms;
use super::agent::{AgentProcess, DEADLINE};
use super::figures::{
    callboard_command, done_and_end_turn_lines, median, open_session, scripted_call,
};
use super::scratch::ScratchFolders;
use crate::process::TaskError;

/// Number of lines of the edited file, and the number of the line that is changed.
const LINES: usize = 100_000;
const CHANGED_LINE: usize = LINES / 2;

/// Delay between two edits, like that of a fast model. The delay is long enough for the two edits
/// to have different timestamps in the file system.
const PAUSE_BETWEEN_EDITS: Duration = Duration::from_millis(50);

/// Returns the time of a turn that changes one line, divided by the time of a plain program that
/// makes the same change. Both times are medians of n rounds, in which the turn and the program run
/// alternately. No permission is requested. The turn and the program both wait until the data is on
/// the disk.
pub(super) fn edit_time_ratio(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let mut editing = EditSession::start(built, "edit-time", n)?;
    let plain = editing.scratch.write_file("plain", &original_text())?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..n {
        thread::sleep(PAUSE_BETWEEN_EDITS);
        let start = Instant::now();
        editing.run_next_edit_turn(|_| ())?;
        ours.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        rewrite_plainly(
            &plain,
            &numbered_line(CHANGED_LINE, round),
            &numbered_line(CHANGED_LINE, round + 1),
        )
        .map_err(|error| TaskError::Failed(format!("{}: {error}", plain.display())))?;
        theirs.push(start.elapsed().as_secs_f64());
    }
    editing.check_edited_file(n)?;
    Ok(median(ours) / median(theirs))
}

/// Runs n edits of one line. Returns the maximum total size of the updates of one edit, in bytes.
pub(super) fn max_update_bytes_per_edit(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let mut editing = EditSession::start(built, "edit-wire", n)?;
    let mut most = 0;
    for _ in 0..n {
        let mut bytes = 0;
        editing.run_next_edit_turn(|message| {
            let kind = &message["params"]["update"]["sessionUpdate"];
            if kind == "tool_call" || kind == "tool_call_update" {
                // The agent serializes messages in the same way and adds a newline, so this is the
                // number of bytes of the line that it sent.
                bytes += message.to_string().len() + 1;
            }
        })?;
        most = most.max(bytes);
    }
    editing.check_edited_file(n)?;
    Ok(most as f64)
}

/// Runs a turn with n reads, one in each reply. Returns the median time of a read in the last
/// quarter of the turn, divided by the median in the first quarter.
pub(super) fn late_to_early_read_ratio(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("read-drift")?;
    scratch.write_file("cwd/a.txt", &"twenty-five bytes a line\n".repeat(100))?;
    let read = json!({"path": "a.txt"});
    let script = (0..n + WARM_UP).map(|_| scripted_call("read_file", &read)).collect::<String>();
    let script = scratch.write_file("script.jsonl", &(script + &done_and_end_turn_lines()))?;
    let model = format!("script:{}", script.display());
    let mut agent = AgentProcess::start(&mut callboard_command(built, &scratch, &model))?;
    let session = open_session(&mut agent, &scratch.cwd())?;
    let (mut last, mut times) = (Instant::now(), Vec::new());
    run_turn_expecting_end_turn(&mut agent, &session, |message| {
        if message["params"]["update"]["status"] == "completed" {
            times.push(last.elapsed().as_secs_f64());
            last = Instant::now();
        }
    })?;
    late_to_early_ratio(&times, n)
}

/// Runs a session of n turns with one read each. Returns the median time of a turn in the last
/// quarter of the session, divided by the median in the first quarter.
pub(super) fn late_to_early_turn_ratio(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("turn-drift")?;
    scratch.write_file("cwd/a.txt", &"twenty-five bytes a line\n".repeat(100))?;
    let mut agent = AgentProcess::start(&mut callboard_command(built, &scratch, "direct"))?;
    let session = open_session(&mut agent, &scratch.cwd())?;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "read a.txt"}]});
    let mut times = Vec::new();
    for _ in 0..n + WARM_UP {
        let (start, mut has_read) = (Instant::now(), false);
        agent.request_and_wait("session/prompt", &prompt, DEADLINE, |message| {
            has_read |= message["params"]["update"]["status"] == "completed";
        })?;
        times.extend(has_read.then(|| start.elapsed().as_secs_f64()));
    }
    late_to_early_ratio(&times, n)
}

/// Returns the median of the last quarter of `times`, divided by the median of the first quarter.
/// The warm-up calls are not included.
fn late_to_early_ratio(times: &[f64], n: u32) -> Result<f64, TaskError> {
    let times = times.get(WARM_UP as usize..).unwrap_or_default();
    if times.len() != n as usize {
        return Err(TaskError::Failed(format!("{} of {n} calls completed", times.len())));
    }
    let quarter = times.len().div_ceil(4);
    let of = |part: &[f64]| median(part.to_vec());
    Ok(of(&times[times.len() - quarter..]) / of(&times[..quarter]))
}

/// Number of warm-up calls, whose times are not used. The warm-up calls open resources that later
/// calls reuse.
const WARM_UP: u32 = 5;

/// An agent with a model that changes one line of a large file in each turn.
struct EditSession {
    agent: AgentProcess,
    session: Value,
    scratch: ScratchFolders,
}

impl EditSession {
    fn start(built: &ReleasePrograms, name: &str, turns: u32) -> Result<Self, TaskError> {
        let scratch = ScratchFolders::new(name)?;
        scratch.write_file("cwd/file", &original_text())?;
        let edit = |round| {
            let (old, new) =
                (numbered_line(CHANGED_LINE, round), numbered_line(CHANGED_LINE, round + 1));
            scripted_call("edit_file", &json!({"path": "file", "old_text": old, "new_text": new}))
                + &done_and_end_turn_lines()
        };
        let script =
            scratch.write_file("script.jsonl", &(0..turns).map(edit).collect::<String>())?;
        let model = format!("script:{}", script.display());
        let mut command = callboard_command(built, &scratch, &model);
        let mut agent = AgentProcess::start(command.args(["--mode", "accept-edits"]))?;
        let session = open_session(&mut agent, &scratch.cwd())?;
        Ok(Self { agent, session, scratch })
    }

    /// Runs one edit, and calls `seen` with every message.
    fn run_next_edit_turn(&mut self, seen: impl FnMut(&Value)) -> Result<(), TaskError> {
        run_turn_expecting_end_turn(&mut self.agent, &self.session, seen)
    }

    /// Checks that the file contains every edit and no other change.
    fn check_edited_file(&self, turns: u32) -> Result<(), TaskError> {
        let expected = original_text()
            .replace(&numbered_line(CHANGED_LINE, 0), &numbered_line(CHANGED_LINE, turns));
        match fs::read_to_string(self.scratch.cwd().join("file")) {
            Ok(text) if text == expected => Ok(()),
            _ => Err(TaskError::Failed("the file does not match the edits".to_owned())),
        }
    }
}

/// Runs the next turn of the model.
fn run_turn_expecting_end_turn(
    agent: &mut AgentProcess,
    session: &Value,
    seen: impl FnMut(&Value),
) -> Result<(), TaskError> {
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let answer = agent.request_and_wait("session/prompt", &prompt, DEADLINE, seen)?;
    match answer["stopReason"] == "end_turn" {
        true => Ok(()),
        false => Err(TaskError::Failed(format!("the turn ended with {answer}"))),
    }
}

/// Edits a file as a simple program would, without permissions or checks.
fn rewrite_plainly(path: &Path, old: &str, new: &str) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let start = memmem::find(&bytes, old.as_bytes()).ok_or(io::ErrorKind::NotFound)?;
    let mut changed = Vec::with_capacity(bytes.len() - old.len() + new.len());
    changed.extend_from_slice(&bytes[..start]);
    changed.extend_from_slice(new.as_bytes());
    changed.extend_from_slice(&bytes[start + old.len()..]);
    let beside = path.with_extension("beside");
    let mut file = File::create(&beside)?;
    file.write_all(&changed)?;
    file.sync_data()?;
    fs::rename(&beside, path)?;
    // The agent also writes the folder to the disk after an edit, so that the new file name is
    // stored.
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

fn original_text() -> String {
    numbered_lines(LINES)
}

/// Returns lines of 72 bytes.
pub(super) fn numbered_lines(count: usize) -> String {
    (0..count).map(|number| numbered_line(number, 0)).collect()
}

/// Returns a line after `round` changes.
pub(super) fn numbered_line(number: usize, round: u32) -> String {
    format!(
        "    let value_{number:06} = compute(argument_{round:04}, {number:06}) + other_term;  //\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_rewrite_changes_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, original_text()).unwrap();
        rewrite_plainly(&path, &numbered_line(CHANGED_LINE, 0), &numbered_line(CHANGED_LINE, 1))
            .unwrap();
        let expected = original_text()
            .replace(&numbered_line(CHANGED_LINE, 0), &numbered_line(CHANGED_LINE, 1));
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        rewrite_plainly(&path, &numbered_line(CHANGED_LINE, 0), "").unwrap_err();
    }
}
