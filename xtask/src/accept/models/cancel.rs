//! Turns that are cancelled while the model sends a reply, or while the agent waits for it.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::ReleasePrograms;
use super::super::agent::DEADLINE;
use super::super::cancel::percentile_99;
use super::super::model_server::{ModelServerProcess, reply_with_steps};
use super::super::scratch::ScratchFolders;
use super::super::seed::Random;
use super::SessionClient;
use crate::process::TaskError;

/// Maximum additional delay between the cancel point and the cancel, in milliseconds.
const MAX_CANCEL_DELAY_MS: u64 = 20;

/// A point of a turn at which the client cancels the turn.
struct TurnCancelPoint {
    name: &'static str,
    /// The model's answer in an earlier turn of the session, if the point needs an earlier turn.
    before: Option<fn() -> Value>,
    /// The model's answer in the cancelled turn. The answer does not end before the point.
    answer: fn() -> Value,
    /// Returns whether an update shows that the turn has reached the point. `None` if no update
    /// shows this.
    is_there: Option<fn(&Value) -> bool>,
    /// Minimum delay between the point and the cancel, in milliseconds. After this delay, the model
    /// has received the request.
    least_ms: u64,
    /// Whether a request to the model is open at the point. If it is open, the cancel must close
    /// it.
    is_asking: bool,
}

const POINTS: &[TurnCancelPoint] = &[
    TurnCancelPoint {
        name: "while text streams",
        before: None,
        answer: slow_reply,
        is_there: Some(|update| update["sessionUpdate"] == "agent_message_chunk"),
        least_ms: 0,
        is_asking: true,
    },
    TurnCancelPoint {
        name: "while arguments stream",
        before: None,
        answer: || {
            let args = json!({"path": "never.txt", "content": "never ".repeat(5_000)});
            let call = json!({"id": "c1", "name": "write_file", "args": args, "chunk": 20});
            let mut call = json!({ "call": call });
            call["call"]["pause_ms"] = json!(3);
            reply_with_steps(&json!([call]))
        },
        is_there: Some(|update| update["sessionUpdate"] == "tool_call"),
        least_ms: 0,
        is_asking: true,
    },
    TurnCancelPoint {
        name: "while tools run side by side",
        before: None,
        answer: || {
            let sleep = |id: &str| {
                let args = json!({"command": "exec sleep 60"});
                json!({"call": {"id": id, "name": "terminal", "args": args}})
            };
            reply_with_steps(&json!([sleep("a"), sleep("b"), sleep("c")]))
        },
        is_there: Some(|update| update["status"] == "in_progress"),
        least_ms: 0,
        is_asking: false,
    },
    TurnCancelPoint {
        name: "while it waits for another attempt",
        before: None,
        answer: || json!({"status": 503, "headers": {"retry-after": "30"}, "body": {"error": "busy"}}),
        is_there: None,
        least_ms: 0,
        is_asking: false,
    },
    TurnCancelPoint {
        name: "while a summary is written",
        before: Some(|| {
            reply_with_steps(&json!([{"text": "long ago ".repeat(CONTEXT_TOKENS / 2)}]))
        }),
        answer: slow_reply,
        is_there: Some(|update| update["sessionUpdate"] == "agent_thought_chunk"),
        least_ms: 10,
        is_asking: true,
    },
];

/// Context size of the model in tokens. The text of the first turn exceeds it, so that the agent
/// asks for a summary.
const CONTEXT_TOKENS: usize = 32_000;

/// Returns a reply of 2,000 words with a pause after each word.
fn slow_reply() -> Value {
    let words = (0..2_000).flat_map(|_| [json!({"text": "word "}), json!({"pause_ms": 3})]);
    reply_with_steps(&json!(words.collect::<Vec<_>>()))
}

/// Cancels n turns, and returns the 99th percentile of the milliseconds from a cancel to the
/// response of its turn. Every turn must be answered as cancelled after its calls have ended, and
/// an open request to the model must be closed.
pub(in super::super) fn cancel_latency_at_points(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let mut random = built.seed.create_rng();
    let mut latencies = Vec::new();
    let turns = n.div_ceil(POINTS.len() as u32);
    for point in POINTS {
        let scratch = ScratchFolders::new("model-cancel")?;
        scratch
            .write_user_config(&format!("[providers.openai]\ncontext_tokens = {CONTEXT_TOKENS}"))?;
        let of_turn = |_| point.before.into_iter().chain([point.answer]).map(|answer| answer());
        let answers = (0..turns).flat_map(of_turn);
        let mut server = ModelServerProcess::start(built, &scratch, answers)?;
        let mut client = SessionClient::start(&mut server.agent_command(built, &scratch), scratch)?;
        for _ in 0..turns {
            client.replace_with_new_session()?;
            if point.before.is_some() {
                client.run_turn(&["go".to_owned()])?;
                server.wait_for_finished_request()?;
            }
            let latency = run_cancelled_turn(&mut client, &mut server, point, &mut random);
            let latency = latency.map_err(|stop| {
                TaskError::Failed(format!("{}: {}", point.name, stop.message().unwrap_or_default()))
            })?;
            latencies.push(latency.as_secs_f64() * 1000.0);
        }
    }
    Ok(percentile_99(latencies))
}

fn run_cancelled_turn(
    client: &mut SessionClient,
    server: &mut ModelServerProcess,
    point: &TurnCancelPoint,
    random: &mut Random,
) -> Result<Duration, TaskError> {
    let session = json!({"sessionId": client.session});
    let prompt = json!([{"type": "text", "text": "go"}]);
    let params = json!({"sessionId": client.session, "prompt": prompt});
    let mut calls = BTreeMap::new();
    client.agent.send_request("session/prompt", &params)?;
    if !point.is_asking {
        // Waits until the model's first reply is complete, because the point is after this reply.
        server.wait_for_finished_request()?;
    }
    if let Some(is_there) = point.is_there {
        let early =
            client.agent.wait_for_message_or_response("session/prompt", DEADLINE, |message| {
                record_call_status(message, &mut calls);
                is_there(&message["params"]["update"])
            })?;
        if let Some(answer) = early {
            return Err(TaskError::Failed(format!("response {answer} before the cancel point")));
        }
    }
    thread::sleep(Duration::from_millis(point.least_ms + random.next_below(MAX_CANCEL_DELAY_MS)));
    let start = Instant::now();
    client.agent.send_notification("session/cancel", &session)?;
    let answer = client.agent.wait_for_response("session/prompt", DEADLINE, |message| {
        record_call_status(message, &mut calls);
    })?;
    let latency = start.elapsed();
    if answer["stopReason"] != "cancelled" {
        return Err(TaskError::Failed(format!("unexpected response {answer}")));
    }
    let is_open = |status: &&String| !matches!(&***status, "completed" | "failed");
    if let Some(status) = calls.values().find(is_open) {
        return Err(TaskError::Failed(format!("a call did not end: {status}")));
    }
    if point.is_asking && server.wait_for_finished_request()?["was_sent"] != false {
        return Err(TaskError::Failed("the request was read to its end".to_owned()));
    }
    Ok(latency)
}

/// Records the status of the call that a message updates.
fn record_call_status(message: &Value, calls: &mut BTreeMap<String, String>) {
    let update = &message["params"]["update"];
    if let (Some(id), Some(status)) = (update["toolCallId"].as_str(), update["status"].as_str()) {
        calls.insert(id.to_owned(), status.to_owned());
    }
}
