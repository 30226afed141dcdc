//! Checks the messages that an ACP v1 agent sent in one session: JSON-RPC on stdin, one message per
//! line. A line may also state the direction of its message, as in the input of `callboard
//! check-wire`.
//!
//! Run it with `cargo run -p acp-types --example fold < transcript.jsonl`. The program prints the
//! calls that a client would hold at the end, and every broken rule of order. The program exits
//! with an error if a rule is broken, or if no line is a message of an agent.

use std::error::Error;
use std::io::{self, BufRead, Write as _};
use std::process::ExitCode;

use acp_types::client_state::v1::V1ClientState;
use serde_json::{Value, from_str, from_value};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let client_state = fold(io::stdin().lock())?;
    let mut out = io::stdout();
    for call in client_state.observed_calls() {
        writeln!(out, "{:?}: {} ({})", call.status, call.title, call.tool_call_id)?;
    }
    for violation in client_state.violations() {
        writeln!(out, "broken: {violation}")?;
    }
    Ok(if client_state.violations().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fold(transcript: impl BufRead) -> Result<V1ClientState, Box<dyn Error>> {
    let (mut client_state, mut understood) = (V1ClientState::new(), 0);
    for line in transcript.lines() {
        let Some(mut message) = agent_message(&line?) else { continue };
        let params = message["params"].take();
        match message["method"].as_str() {
            Some("session/update") => {
                client_state.apply_session_update(&from_value(params["update"].clone())?);
            }
            Some("session/request_permission") => {
                client_state.apply_permission_request(&from_value(params)?);
            }
            None if message["result"]["stopReason"].is_string() => client_state.check_calls_ended(),
            _ => continue,
        }
        understood += 1;
    }
    if understood == 0 {
        return Err("no line is a message of an ACP agent about a session".into());
    }
    Ok(client_state)
}

/// Returns the message of a line, unless the client sent it.
fn agent_message(line: &str) -> Option<Value> {
    let mut line: Value = from_str(line).ok()?;
    if line["dir"] == "in" {
        return None;
    }
    match line.get_mut("msg").map(Value::take) {
        None => Some(line),
        Some(Value::String(raw)) => from_str(&raw).ok(),
        Some(message) => Some(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
        {"sessionUpdate":"tool_call","toolCallId":"c","title":"Read","status":"completed"}}}"#;

    #[test]
    fn a_line_is_read_with_and_without_its_direction() {
        let call = CALL.replace('\n', "");
        let raw = serde_json::to_string(&call).unwrap();
        for transcript in [
            call.clone(),
            format!("{{\"dir\":\"out\",\"msg\":{call}}}\nno JSON"),
            format!("{{\"dir\":\"out\",\"msg\":{raw}}}"),
        ] {
            let client_state = fold(transcript.as_bytes()).unwrap();
            assert_eq!(client_state.observed_calls().count(), 1, "{transcript}");
        }
    }

    #[test]
    fn a_transcript_without_any_message_of_an_agent_is_an_error() {
        let of_client = format!("{{\"dir\":\"in\",\"msg\":{}}}", CALL.replace('\n', ""));
        for transcript in ["", "no JSON", "{}", &of_client] {
            assert!(fold(transcript.as_bytes()).is_err(), "{transcript}");
        }
    }
}
