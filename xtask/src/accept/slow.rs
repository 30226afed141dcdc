//! A call that changes its content a million times, and clients that read slowly or not at all.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::figures::{isolated_command, read_cpu_seconds, read_memory_mib};
use super::output::end_offset_if_pieces_match;
use super::raw_agent::RawAgent;
use super::scratch::ScratchFolders;
use crate::process::TaskError;

/// Delay between two lines that the slow client reads from the agent.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// Minimum number of milliseconds between two updates of one call. An update with a new status may
/// be sent earlier.
const UPDATE_INTERVAL_MS: u64 = 50;

/// Time for which a client reads nothing. After this time, the agent must be idle.
const UNREAD_TIME: Duration = Duration::from_secs(4);

/// Time for which the processor use of the idle agent is measured.
const IDLE_WATCH_TIME: Duration = Duration::from_secs(3);

/// Maximum processor time that the idle agent may use, as a share of [`IDLE_WATCH_TIME`].
const IDLE_SHARE: f64 = 0.02;

/// Maximum time from the end of an agent's input to the exit of the agent.
const EXIT_DEADLINE: Duration = Duration::from_secs(2);

/// Runs a call with n patches, and a client that reads ten lines per second. Returns the growth of
/// the agent's memory in MiB. After each update, the client's view must match the call's output.
pub(super) fn slow_client_memory_growth(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("slow-client")?;
    let mut agent = RawAgent::start(&mut isolated_command(&built.flood, &scratch))?;
    let session = open_session(&mut agent, &scratch)?;
    let before = read_memory_mib(agent.pid(), "VmRSS:")?;
    send_flood_prompt(&mut agent, &session, n.into())?;
    let mut card = ToolCallView::new(u64::from(n));
    let answer = loop {
        let message = agent.wait_for_next_json_line()?;
        if message["id"] == "go" {
            break message;
        }
        card.apply_and_check_update(&message["params"]["update"])?;
        thread::sleep(READ_PAUSE);
    };
    if answer["result"]["stopReason"] != "end_turn" {
        return Err(TaskError::Failed(format!("unexpected response to the turn: {answer}")));
    }
    card.check_final_state()?;
    Ok(read_memory_mib(agent.pid(), "VmHWM:")? - before)
}

/// Starts n agents. Each has a call that never ends, and a client that reads nothing. Returns the
/// maximum resident memory of an agent in MiB. The agent must become idle, and must exit when its
/// input ends.
pub(super) fn non_reading_client_memory(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("never-reading")?;
    let mut most: f64 = 0.0;
    for _ in 0..n {
        let mut agent = RawAgent::start(&mut isolated_command(&built.flood, &scratch))?;
        let session = open_session(&mut agent, &scratch)?;
        send_flood_prompt(&mut agent, &session, 1 << 50)?;
        thread::sleep(UNREAD_TIME);
        let before = read_cpu_seconds(agent.pid())?;
        thread::sleep(IDLE_WATCH_TIME);
        let share = (read_cpu_seconds(agent.pid())? - before) / IDLE_WATCH_TIME.as_secs_f64();
        if share > IDLE_SHARE {
            return Err(TaskError::Failed(format!("not idle: CPU use of {share:.3}")));
        }
        most = most.max(read_memory_mib(agent.pid(), "VmHWM:")?);
        let exit = agent.close_input_and_wait(EXIT_DEADLINE * 2)?;
        if exit > EXIT_DEADLINE {
            return Err(TaskError::Failed(format!("it took {exit:?} to exit")));
        }
    }
    Ok(most)
}

fn open_session(agent: &mut RawAgent, scratch: &ScratchFolders) -> Result<Value, TaskError> {
    let version = json!({"protocolVersion": 1});
    send_request(agent, "initialize", "initialize", &version)?;
    wait_for_response(agent, "initialize")?;
    let params = json!({"cwd": scratch.cwd(), "mcpServers": []});
    send_request(agent, "new", "session/new", &params)?;
    Ok(wait_for_response(agent, "new")?["sessionId"].take())
}

fn send_flood_prompt(agent: &mut RawAgent, session: &Value, patches: u64) -> Result<(), TaskError> {
    let text = format!("tool flood {{\"patches\": {patches}}}");
    let prompt = json!([{"type": "text", "text": text}]);
    send_request(agent, "go", "session/prompt", &json!({"sessionId": session, "prompt": prompt}))
}

fn send_request(
    agent: &mut RawAgent,
    id: &str,
    method: &str,
    params: &Value,
) -> Result<(), TaskError> {
    let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    agent.send_line(request.to_string().as_bytes())
}

fn wait_for_response(agent: &mut RawAgent, id: &str) -> Result<Value, TaskError> {
    loop {
        let mut message = agent.wait_for_next_json_line()?;
        if message["id"] == id {
            return Ok(message["result"].take());
        }
    }
}

/// The client's view of the call, and the call's complete output for comparison.
struct ToolCallView {
    /// Complete output of the call at its end.
    output: String,
    call: Value,
    /// Number of updates that arrived after the status `in_progress` and before the final status.
    between: u64,
}

impl ToolCallView {
    fn new(patches: u64) -> Self {
        let lines = (1..=patches).step_by(2).map(|line| format!("line {line}\n"));
        Self { output: lines.collect(), call: json!({}), between: 0 }
    }

    /// Applies an update to the client's view, and checks the displayed text against the output.
    fn apply_and_check_update(&mut self, update: &Value) -> Result<(), TaskError> {
        match update["sessionUpdate"].as_str() {
            Some("tool_call") => {}
            Some("tool_call_update") => {
                let is_between = self.call["status"] == "in_progress" && update["status"].is_null();
                self.between += u64::from(is_between);
            }
            _ => return Ok(()),
        }
        for field in ["status", "content", "_meta"] {
            if !update[field].is_null() {
                self.call[field] = update[field].clone();
            }
        }
        let shown = self.call["content"][0]["content"]["text"].as_str().unwrap_or_default();
        self.end_offset_if_output_matches(shown).map(drop).ok_or_else(|| {
            let start: String = shown.chars().take(300).collect();
            TaskError::Failed(format!("not in the document: {start}"))
        })
    }

    /// Returns the end offset of the displayed text in the whole output. A gap contains the number
    /// of omitted bytes. Returns `None` if a piece of the text is not at the offset that results
    /// from the gaps before the piece.
    fn end_offset_if_output_matches(&self, shown: &str) -> Option<usize> {
        let view = match shown {
            "" => "",
            shown => shown.strip_prefix("```console\n")?.strip_suffix("```")?,
        };
        let stands = |at: usize, piece: &str| {
            self.output.get(at..).is_some_and(|rest| rest.starts_with(piece))
        };
        end_offset_if_pieces_match(view, stands)
    }

    /// Checks the client's view after the call has ended.
    fn check_final_state(&self) -> Result<(), TaskError> {
        let failed = |what: String| Err(TaskError::Failed(what));
        if self.call["status"] != "completed" {
            return failed(format!("the call ended as {}", self.call["status"]));
        }
        let meta = &self.call["_meta"]["callboard"];
        if !meta["progress"].is_null() {
            return failed(format!("the progress {} is still shown", meta["progress"]));
        }
        let shown = self.call["content"][0]["content"]["text"].as_str().unwrap_or_default();
        if self.end_offset_if_output_matches(shown) != Some(self.output.len())
            || !shown.contains(" bytes left out …]")
        {
            return failed("what is shown in the end is not the whole with its gap".to_owned());
        }
        let ms = meta["durationMs"].as_u64().unwrap_or_default();
        // The first update may be sent at once. Every other update must be sent at least one
        // interval after the update before it.
        if self.between > ms / UPDATE_INTERVAL_MS + 1 {
            return failed(format!("{} updates in {ms} ms", self.between));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(text: &str) -> Result<(), TaskError> {
        let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        let update = json!({"sessionUpdate": "tool_call_update", "content": content});
        ToolCallView::new(6).apply_and_check_update(&update)
    }

    #[test]
    fn updates_closer_than_the_interval_are_an_error() {
        let text = "```console\nline 1\n\n[… 7 bytes left out …]\nline 5\n```";
        let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        for (between, ms, is_right) in [
            (0, 0, true),
            (1, 0, true),
            (2, 49, false),
            (2, 50, true),
            (30, 1472, true),
            (31, 1472, false),
        ] {
            let mut card = ToolCallView::new(6);
            let mut apply = |update: Value| {
                let mut update = update;
                update["sessionUpdate"] = json!("tool_call_update");
                card.apply_and_check_update(&update).unwrap();
            };
            apply(json!({"content": content}));
            apply(json!({"status": "in_progress"}));
            (0..between).for_each(|_| apply(json!({"content": content})));
            let meta = json!({"durationMs": ms});
            apply(json!({"status": "completed", "_meta": {"callboard": meta}}));
            assert_eq!(card.check_final_state().is_ok(), is_right, "{between} in {ms} ms");
            // A finished call must not show progress.
            card.call["_meta"]["callboard"]["progress"] = json!({"current": 6, "total": 6});
            assert!(card.check_final_state().is_err());
        }
    }

    #[test]
    fn displayed_text_must_be_at_the_offsets_that_the_gaps_imply() {
        // The complete output is "line 1\nline 3\nline 5\n".
        for (text, is_right) in [
            ("```console\nline 1\nline 3\nline 5\n```", true),
            ("```console\nline 1\n```", true),
            ("```console\nline 1\n\n[… 7 bytes left out …]\nline 5\n```", true),
            ("```console\n\n[… 14 bytes left out …]\nline 5\n```", true),
            ("```console\n\n[… 13 bytes left out …]\nline 5\n```", false),
            ("```console\nline 2\n```", false),
            ("line 1", false),
        ] {
            assert_eq!(shows(text).is_ok(), is_right, "{text}");
        }
    }
}
