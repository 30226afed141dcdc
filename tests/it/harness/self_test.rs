//! The harness itself: every broken rule is seen.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use super::client::{Client, Permission};

const SESSION: &str = "s";

/// A client in the middle of a turn with one open call.
fn client() -> Client {
    let mut client = Client::new(Permission::Never);
    client.sent(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/new"}).to_string());
    receive(&mut client, &json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": SESSION}}));
    let prompt = json!({"sessionId": SESSION, "prompt": []});
    let prompt = json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt});
    client.sent(&prompt.to_string());
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T"});
    receive(&mut client, &update(&call));
    client
}

fn receive(client: &mut Client, message: &Value) {
    client.receive(format!("{message}\n").as_bytes());
}

fn update(update: &Value) -> Value {
    let params = json!({"sessionId": SESSION, "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
}

fn change(fields: &Value) -> Value {
    let mut change = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"});
    change.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    update(&change)
}

fn answer(fields: &Value) -> Value {
    let mut answer = json!({"jsonrpc": "2.0"});
    answer.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    answer
}

/// Whether the client accepts these lines, and then the whole.
fn accepts(lines: &[String]) -> bool {
    let mut client = client();
    let accepted = AssertUnwindSafe(|| {
        for line in lines {
            client.receive(line.as_bytes());
        }
        client.judge();
    });
    catch_unwind(accepted).is_ok()
}

#[test]
fn a_turn_by_the_rules_is_accepted() {
    let messages = [
        change(&json!({"status": "in_progress"})),
        change(&json!({"status": "completed", "rawOutput": {"x": 1}})),
        answer(&json!({"id": 2, "result": {"stopReason": "end_turn"}})),
        update(&json!({"sessionUpdate": "available_commands_update", "availableCommands": []})),
    ];
    assert!(accepts(&messages.map(|message| format!("{message}\n"))));
}

#[test]
fn a_broken_rule_is_seen() {
    let text = |bytes: usize| {
        json!({"content": [{"type": "content",
            "content": {"type": "text", "text": "x".repeat(bytes)}}]})
    };
    let ends = json!({"stopReason": "end_turn"});
    let said = json!({"sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "x"}});
    let read = json!({"sessionId": SESSION, "path": "/x"});
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("a batch", vec![json!([])]),
        ("no version", vec![json!({"id": 2, "result": ends})]),
        ("both", vec![answer(&json!({"id": 2, "result": ends, "error": {}}))]),
        ("neither", vec![answer(&json!({"id": 2}))]),
        ("an id of another type", vec![answer(&json!({"id": "2", "result": ends}))]),
        ("an answer to nothing", vec![answer(&json!({"id": 9, "result": {}}))]),
        ("a result without its field", vec![answer(&json!({"id": 2, "result": {}}))]),
        (
            "an unknown key",
            vec![answer(&json!({"id": 2, "result": {"stopReason": "end_turn",
            "x": 1}}))],
        ),
        (
            "two lines in an error",
            vec![answer(&json!({"id": 2,
            "error": {"code": 1, "message": "a\nb"}}))],
        ),
        ("an open call at the end", vec![answer(&json!({"id": 2, "result": ends}))]),
        (
            "an update after the end",
            vec![
                change(&json!({"status": "failed"})),
                answer(&json!({"id": 2, "result": ends})),
                update(&said),
            ],
        ),
        (
            "a change after the call's end",
            vec![change(&json!({"status": "failed"})), change(&json!({"title": "U"}))],
        ),
        ("an unknown status", vec![change(&json!({"status": "cancelled"}))]),
        ("a key that does not belong there", vec![change(&json!({"colour": "red"}))]),
        ("an update that is too long", vec![change(&text(61 << 10))]),
        (
            "a line that is too long",
            vec![change(&json!({"status": "failed",
            "title": "x".repeat(1 << 20)}))],
        ),
        (
            "a method without its capability",
            vec![json!({"jsonrpc": "2.0", "id": "a",
            "method": "fs/read_text_file", "params": read})],
        ),
        (
            "another session",
            vec![json!({"jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": "t", "update": said}})],
        ),
    ];
    for (what, messages) in cases {
        let lines: Vec<_> = messages.iter().map(|message| format!("{message}\n")).collect();
        assert!(!accepts(&lines), "{what}");
    }
    assert!(!accepts(&["no JSON\n".to_owned()]), "a line that is no JSON");
}
