//! Terminal screens and transcripts for snapshots. Values that are different in every run are
//! replaced.
//!
//! A test fails if its screen or transcript differs from the snapshot. If the change is intended,
//! run the test with `INSTA_UPDATE=always` and review the diff of the snapshot.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Agent;
use super::scratch::Scratch;

/// Fields whose values are different in every run: times, sizes and ids.
const VARYING: [&str; 8] = [
    "batch",
    "cpuMs",
    "durationMs",
    "messageId",
    "peakBytes",
    "queuedMs",
    "startedAt",
    "updatedAt",
];

/// Number of characters of a session id after the prefix `sess_`.
const SESSION_ID_CHARS: usize = 26;

/// Replaces the paths of the test's folders, session ids, and the durations of calls.
pub(crate) fn normalized(scratch: &Scratch, text: &str) -> String {
    let cwd = scratch.cwd();
    let folder = cwd.parent().unwrap();
    let mut text = text.replace("\r\n", "\n");
    for (path, name) in
        [(&*cwd, "[project]"), (&*folder.join("home"), "[home]"), (folder, "[scratch]")]
    {
        text = text.replace(&path.display().to_string(), name);
    }
    let mut pieces = text.split("sess_");
    let first = pieces.next().unwrap_or_default().to_owned();
    let text = pieces.fold(first, |text, piece| {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        match piece.len() - rest.len() {
            SESSION_ID_CHARS => text + "[session]" + rest,
            _ => text + "sess_" + piece,
        }
    });
    text.lines().map(|line| without_duration(line) + "\n").collect()
}

/// If a line is the last line of a displayed call, replaces the duration at its end.
fn without_duration(line: &str) -> String {
    let is_duration = |text: &str| {
        let number = text.strip_suffix(" ms").or_else(|| text.strip_suffix(" s"));
        number.is_some_and(|number| number.parse::<f64>().is_ok())
    };
    let words = line.rmatch_indices(' ').map(|(at, _)| line.split_at(at + 1));
    match words.take(2).find(|(_, last)| line.starts_with(['✓', '✗']) && is_duration(last)) {
        Some((before, _)) => format!("{before}[time]"),
        None => line.to_owned(),
    }
}

impl Agent {
    /// Runs one turn for each prompt in the first session. Returns the prompts and the agent's
    /// answers.
    pub(crate) async fn dialogue(&mut self, prompts: &[&str]) -> String {
        let mut dialogue = String::new();
        for prompt in prompts {
            let before = self.session().message_text().len();
            assert_eq!(self.turn(prompt).await, "end_turn");
            let answer = &self.session().message_text()[before..];
            dialogue += &format!("> {prompt}\n{}\n\n", answer.trim_end());
        }
        normalized(&self.scratch, &dialogue)
    }

    /// Returns the messages from the first prompt or load on, with one message per line. `→` marks
    /// a message from the client, and `←` a message from the agent.
    ///
    /// Messages are omitted if their timing varies: the list of commands, which may arrive at any
    /// moment, and the progress of a call. The last update of a call shows all fields that have
    /// changed since the call was announced.
    pub(crate) fn wire(&self) -> String {
        let transcript = self.client.transcript();
        let lines = transcript.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let begins = [json!("session/prompt"), json!("session/load")];
        let from_prompt = lines.skip_while(|line| !begins.contains(&line["msg"]["method"]));
        let mut calls = BTreeMap::new();
        let shown = from_prompt.filter_map(|mut line| {
            let arrow = if line["dir"] == "in" { '→' } else { '←' };
            Some(format!("{arrow} {}\n", wire_line(line["msg"].take(), &mut calls)?))
        });
        normalized(&self.scratch, &shown.collect::<String>())
    }
}

type Fields = serde_json::Map<String, Value>;

/// The fields of a call when it was announced, and the fields that were updated later.
#[derive(Default)]
struct Call {
    announced: Fields,
    changed: Fields,
}

/// Returns a message without the fields that address it, such as ids. Returns `None` if the message
/// is omitted.
fn wire_line(mut message: Value, calls: &mut BTreeMap<String, Call>) -> Option<String> {
    replace_varying(&mut message);
    for part in ["result", "error"] {
        if let Some(outcome) = message.get(part) {
            return Some(format!("{part} {outcome}"));
        }
    }
    let method = message["method"].as_str()?.to_owned();
    let Value::Object(mut params) = message["params"].take() else { return Some(method) };
    params.shift_remove("sessionId");
    let Some(Value::Object(mut update)) = params.get_mut("update").map(Value::take) else {
        return Some(format!("{method} {}", Value::Object(params)));
    };
    let kind = update.shift_remove("sessionUpdate")?;
    match kind.as_str()? {
        "available_commands_update" => return None,
        "tool_call" => {
            let call = Call { announced: update.clone(), changed: Fields::new() };
            calls.insert(update["toolCallId"].to_string(), call);
        }
        "tool_call_update" => {
            let status = update.get("status").cloned();
            let call = calls.entry(update["toolCallId"].to_string()).or_default();
            let id = update.shift_remove("toolCallId")?;
            call.changed.extend(update);
            update = Fields::from_iter([("toolCallId".to_owned(), id)]);
            if status.as_ref()? == "in_progress" {
                update.insert("status".to_owned(), status?);
            } else {
                let mut changed = std::mem::take(&mut call.changed);
                changed.retain(|name, value| call.announced.get(name) != Some(&*value));
                changed.sort_keys();
                update.extend(changed);
            }
        }
        _ => {}
    }
    Some(format!("{} {}", kind.as_str()?, Value::Object(update)))
}

fn replace_varying(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if VARYING.contains(&name.as_str()) {
                    *field = format!("[{name}]").into();
                } else {
                    replace_varying(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(replace_varying),
        _ => {}
    }
}
