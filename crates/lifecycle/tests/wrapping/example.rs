//! Tests of the example `foreign_loop`, which is included from the examples folder.

use std::io;
use std::sync::{Arc, Mutex};

use acp_types::client_state::v1::V1ClientState;
use pretty_assertions::assert_eq;
use serde_json::Value;

#[path = "../../examples/foreign_loop.rs"]
#[expect(dead_code, reason = "the program's `main` prints what is judged here")]
mod foreign_loop;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_foreign_loop_sends_the_messages_of_an_acp_agent() {
    let out = Shared::default();
    foreign_loop::run_scripted_turn(out.clone()).await.unwrap();
    let bytes = out.0.lock().unwrap().clone();
    let mut client_state = V1ClientState::new();
    let mut asked = 0;
    for line in String::from_utf8(bytes).unwrap().lines() {
        let mut message: Value = serde_json::from_str(line).unwrap();
        let params = message["params"].take();
        match message["method"].as_str() {
            Some("session/update") => {
                client_state.apply_session_update(
                    &serde_json::from_value(params["update"].clone()).unwrap(),
                );
            }
            Some("session/request_permission") => {
                asked += 1;
                client_state.apply_permission_request(&serde_json::from_value(params).unwrap());
            }
            _ => client_state.check_calls_ended(),
        }
    }
    assert_eq!(client_state.violations(), []);
    let ended: Vec<_> = client_state
        .observed_calls()
        .map(|call| {
            let kind = serde_json::to_value(call.kind).unwrap();
            let call = serde_json::to_value(call).unwrap();
            let meta = &call["_meta"]["callboard"];
            let text = &call["content"][0]["content"]["text"];
            [&call["toolCallId"], &kind, &call["status"], text, &meta["progress"]["percent"]]
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .collect();
    let rejected = "Rejected by the user. It did not run.";
    assert_eq!(
        ended,
        [
            ["turn1/call_1", "other", "completed", "5", "null"],
            ["turn1/call_2", "fetch", "completed", "3 pages", "null"],
            ["turn1/call_3", "delete", "failed", rejected, "null"],
            ["turn1/call_4", "other", "failed", "there is no tool no_such_tool", "null"],
        ]
    );
    assert_eq!(asked, 3);
}
