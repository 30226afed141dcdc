//! Checks the messages that an ACP v1 agent sent in one session: JSON-RPC on stdin, one message per
//! line.
//!
//! Run it with `cargo run -p acp-types --example fold < transcript.jsonl`. The program prints the
//! calls that a client would hold at the end, and every broken rule of order. The program exits
//! with an error if a rule is broken.

use std::error::Error;
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;

use acp_types::observe::v1::V1Observer;
use serde_json::{Value, from_str, from_value};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut observer = V1Observer::new();
    for line in io::stdin().lock().lines() {
        let mut message: Value = from_str(&line?)?;
        let params = message["params"].take();
        match message["method"].as_str() {
            Some("session/update") => {
                observer.apply_session_update(&from_value(params["update"].clone())?);
            }
            Some("session/request_permission") => {
                observer.apply_permission_request(&from_value(params)?);
            }
            None if message["result"]["stopReason"].is_string() => observer.check_calls_ended(),
            _ => {}
        }
    }
    let mut out = io::stdout();
    for call in observer.observed_calls() {
        writeln!(out, "{:?}: {} ({})", call.status, call.title, call.tool_call_id)?;
    }
    for violation in observer.violations() {
        writeln!(out, "broken: {violation}")?;
    }
    Ok(if observer.violations().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
