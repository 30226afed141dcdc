//! Terminals: as text, as `_meta` events, and as v2 terminal documents.

use acp_types::schema::v1::SessionUpdate;
use acp_types::wire::{self, v1::TerminalDisplay, v1::V1Projection};
use acp_types::{
    Content, Status, TerminalExit, TerminalId, TerminalPatch, TerminalReport, TerminalSize,
    ToolCallPatch, ToolKind,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{id, v1_document};

/// Maximum number of bytes that are kept from the beginning of a terminal's output.
const OUTPUT_HEAD_BYTES: usize = 8 * 1024;

/// Maximum number of bytes that are kept from the end of a terminal's output.
const OUTPUT_TAIL_BYTES: usize = 40 * 1024;

fn shown() -> TerminalId {
    "t".into()
}

fn open() -> TerminalPatch {
    TerminalPatch::for_new_terminal("ls", "/p")
}

fn output(text: &str) -> TerminalPatch {
    TerminalPatch::from_output(text.as_bytes())
}

fn code(code: i32) -> TerminalPatch {
    TerminalPatch::from_exit(TerminalExit { code: Some(code), signal: None })
}

fn killed() -> TerminalPatch {
    TerminalPatch::from_exit(TerminalExit { code: None, signal: Some("SIGKILL".to_owned()) })
}

/// Returns a call that has the given status and shows the terminal.
fn call(status: Status) -> ToolCallPatch {
    ToolCallPatch::for_new_call("terminal", "Run ls", ToolKind::Execute)
        .with_status(status)
        .with_content(vec![Content::Terminal(shown())])
}

fn console(text: &str) -> Value {
    let text = format!("```console\n{text}```");
    json!([{"type": "content", "content": {"type": "text", "text": text}}])
}

/// Checks the content of a call that shows a terminal as text: in its document, in a first report,
/// and in an update.
fn check_text(terminal: &TerminalPatch, status: Status, expected: &Value) {
    let mut report = TerminalReport::new(shown());
    terminal.clone().apply(&mut report);
    assert_eq!(&v1_document(&call(status), Some(&report))["content"], expected, "the document");
    let mut sent = V1Projection::new(TerminalDisplay::Text);
    assert_eq!(sent.updates_for_terminal_patch(&shown(), terminal), []);
    let first = crate::json(&sent.updates_for_call_patch(&id(), call(status)));
    assert_eq!(&first[0]["content"], expected, "the first report");
    if !status.is_final() {
        let mut sent = V1Projection::new(TerminalDisplay::Text);
        drop(sent.updates_for_call_patch(&id(), call(status)));
        let updates = crate::json(&sent.updates_for_terminal_patch(&shown(), terminal));
        assert_eq!(&updates[0]["content"], expected, "an update");
    }
}

#[test]
fn a_terminal_as_text() {
    let lines = "0123456\n".repeat(1_000);
    // 8 bytes per line, and one more for the escape in JSON: the text takes up to 4 KiB as JSON.
    let tail = &lines[lines.len() - 3_408..];
    let running = Status::InProgress;
    let ended = Status::Completed;
    for (terminal, status, expected) in [
        // No patch has been applied yet.
        (TerminalPatch::default(), running, Value::Null),
        (open(), running, console("$ ls\n")),
        // The folder is shown while a permission request is still possible.
        (open(), Status::Pending, console("$ ls\n[in /p]\n")),
        (
            TerminalPatch::for_new_terminal("a\nb", "/\u{202e}p"),
            Status::Pending,
            console("$ a\nb\n[in /$'\\xe2\\x80\\xaep']\n"),
        ),
        (output("a\n"), running, console("a\n")),
        (
            TerminalPatch::for_new_terminal("echo a\u{202e}b \\\n\tc\u{200b}", "/p")
                .then(output("\u{202e}d\n")),
            running,
            console("$ echo a\\u{202e}b \\\n\tc\\u{200b}\nd\n"),
        ),
        (open().then(output("\u{1b}[31ma\u{1b}[0m\r\nb")), running, console("$ ls\na\nb\n")),
        (
            open().then(output(&lines)),
            running,
            console(&format!("$ ls\n\n[… 4592 bytes left out …]\n{tail}")),
        ),
        (open().then(output(&lines)).then(code(0)), ended, console(&format!("$ ls\n{lines}"))),
        (open().then(output("a\n")).then(code(0)), ended, console("$ ls\na\n")),
        (
            open().then(output("a")).then(code(2)),
            Status::Failed,
            console("$ ls\na\n[exit code 2]\n"),
        ),
        (open().then(killed()), Status::Failed, console("$ ls\n[ended by SIGKILL]\n")),
        (open().then(code(1)), running, console("$ ls\n[exit code 1]\n")),
    ] {
        check_text(&terminal, status, &expected);
    }
}

#[test]
fn text_of_an_ended_terminal_is_head_and_tail_around_a_marked_gap() {
    let (head, tail) = ("h".repeat(OUTPUT_HEAD_BYTES), "t".repeat(OUTPUT_TAIL_BYTES));
    let all = format!("{head}{}{tail}", "x".repeat(5_000));
    let expected = format!("{head}\n[… 5000 bytes left out …]\n{tail}\n");
    check_text(&output(&all), Status::Completed, &console(&expected));
}

/// The text of the last update that shows content.
fn shown_text(updates: &Value) -> Option<String> {
    let text = updates[0]["content"][0]["content"]["text"].as_str()?;
    Some(text.to_owned())
}

#[test]
fn terminals_as_text_are_sent_as_long_as_they_change() {
    // A client that merges updates shows the newest line after each piece of output.
    let ordinary = |number: u32| format!("line {number} {}\n", "x".repeat(100));
    let escaped = |number: u32| format!("line {number} {}\n", "\"\\".repeat(100));
    let fences = |number: u32| format!("line {number} {}\n", "`".repeat(900));
    let lines: [&dyn Fn(u32) -> String; 4] = [&ordinary, &escaped, &fences, &ordinary];
    let commands = ["ls", &*"\"\u{202e}".repeat(10_000), "ls", &*"\u{1}".repeat(10_000)];
    for (line, command) in lines.into_iter().zip(commands) {
        let mut sent = V1Projection::new(TerminalDisplay::Text);
        let open = TerminalPatch::for_new_terminal(command, "/p");
        drop(sent.updates_for_terminal_patch(&shown(), &open));
        let pending = call(Status::Pending).with_appended_content(Content::from_text("a note"));
        let first = crate::json(&sent.updates_for_call_patch(&id(), pending));
        // A permission request shows the whole command.
        let whole = command.replace('\u{202e}', "\\u{202e}").replace('\u{1}', "\\u{1}");
        assert!(shown_text(&first).unwrap().contains(&format!("$ {whole}\n")));
        let running = ToolCallPatch::new().with_status(Status::InProgress);
        drop(sent.updates_for_call_patch(&id(), &running));
        for number in 0..200 {
            let update = sent.updates_for_terminal_patch(&shown(), &output(&line(number)));
            let update = crate::json(&update);
            let text = shown_text(&update).unwrap_or_else(|| panic!("line {number} is missing"));
            let newest = text.trim_end_matches(['\n', '`']).lines().last().unwrap();
            let expected = line(number);
            assert!(newest == expected.trim_end_matches(['\n', '`']), "line {number}: {newest}");
            let len = update[0].to_string().len();
            assert!(len <= 5 * 1024, "line {number}: {len}");
        }
    }
}

#[test]
fn terminal_text_is_sent_once_per_change() {
    let mut sent = V1Projection::new(TerminalDisplay::Text);
    drop(sent.updates_for_call_patch(&id(), call(Status::InProgress)));
    for (terminal, expected) in [
        (open(), "$ ls\n"),
        (output("a\n"), "$ ls\na\n"),
        (output("b\n"), "$ ls\na\nb\n"),
        (code(3), "$ ls\na\nb\n[exit code 3]\n"),
    ] {
        assert_eq!(
            crate::json(&sent.updates_for_terminal_patch(&shown(), &terminal)),
            json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c",
                    "content": console(expected)}])
        );
    }
    let end = ToolCallPatch::new().with_status(Status::Failed);
    assert_eq!(
        crate::json(&sent.updates_for_call_patch(&id(), &end)),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}])
    );
}

#[test]
fn a_client_run_terminal_is_sent_only_as_the_clients_id() {
    for surface in [TerminalDisplay::Text, TerminalDisplay::MetaEvents] {
        let mut sent = V1Projection::new(surface);
        assert_eq!(sent.updates_for_terminal_patch(&shown(), &open()), []);
        drop(sent.updates_for_call_patch(&id(), call(Status::Pending)));
        let running = ToolCallPatch::new().with_status(Status::InProgress);
        drop(sent.updates_for_call_patch(&id(), &running));
        let content = json!([{"type": "terminal", "terminalId": "theirs"}]);
        let at_client = TerminalPatch::for_client_terminal("theirs".into());
        assert_eq!(
            crate::json(&sent.updates_for_terminal_patch(&shown(), &at_client)),
            json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": content}])
        );
        let mut report = TerminalReport::new(shown());
        open().then(at_client).then(output("a\n")).then(code(1)).apply(&mut report);
        let document = v1_document(&call(Status::Failed), Some(&report));
        assert_eq!(document["content"], content);
        if surface == TerminalDisplay::Text {
            assert_eq!(sent.updates_for_terminal_patch(&shown(), &output("a\n").then(code(1))), []);
        }
        let end = ToolCallPatch::new().with_status(Status::Failed);
        assert_eq!(
            crate::json(&sent.updates_for_call_patch(&id(), &end)),
            json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}])
        );
    }
}

fn event(name: &str, value: &Value) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": { name: value }})
}

#[test]
fn a_terminal_by_events() {
    for (exit, exit_code, signal) in
        [(code(0), json!(0), Value::Null), (killed(), Value::Null, json!("SIGKILL"))]
    {
        let mut sent = V1Projection::new(TerminalDisplay::MetaEvents);
        assert_eq!(sent.updates_for_terminal_patch(&shown(), &open().then(output("a\n"))), []);
        assert_eq!(
            crate::json(&sent.updates_for_call_patch(&id(), call(Status::Pending))),
            json!([
                {
                    "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run ls",
                    "name": "terminal", "kind": "execute", "status": "pending",
                    "content": [{"type": "terminal", "terminalId": "t"}],
                    "_meta": {"terminal_info": {"terminal_id": "t", "cwd": "/p"}},
                },
                event("terminal_output", &json!({"terminal_id": "t", "data": "a\n"})),
            ])
        );
        let running = ToolCallPatch::new().with_status(Status::InProgress);
        assert_eq!(
            crate::json(&sent.updates_for_call_patch(&id(), &running)),
            json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c",
                    "status": "in_progress"}])
        );
        // Escape sequences are kept; an incomplete character is buffered until its last byte.
        let patch = TerminalPatch::from_output(b"\x1b[1mb\xc3");
        assert_eq!(
            crate::json(&sent.updates_for_terminal_patch(&shown(), &patch)),
            json!([event("terminal_output", &json!({"terminal_id": "t", "data": "\u{1b}[1mb"}))])
        );
        assert_eq!(
            crate::json(&sent.updates_for_terminal_patch(
                &shown(),
                &TerminalPatch::from_output(b"\xa9").then(exit)
            )),
            json!([
                event("terminal_output", &json!({"terminal_id": "t", "data": "é"})),
                event(
                    "terminal_exit",
                    &json!({"terminal_id": "t", "exit_code": exit_code, "signal": signal})
                ),
            ])
        );
        let end = ToolCallPatch::new().with_status(Status::Completed);
        assert_eq!(
            crate::json(&sent.updates_for_call_patch(&id(), &end)),
            json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}])
        );
    }
}

#[test]
fn a_changed_directory_is_sent_until_the_command_writes() {
    let moved = |cwd: &str| TerminalPatch::for_new_terminal("ls", cwd);
    let info = |cwd: &str| event("terminal_info", &json!({"terminal_id": "t", "cwd": cwd}));
    let written = |data: &str| event("terminal_output", &json!({"terminal_id": "t", "data": data}));
    let mut sent = V1Projection::new(TerminalDisplay::MetaEvents);
    assert_eq!(sent.updates_for_terminal_patch(&shown(), &open()), []);
    drop(sent.updates_for_call_patch(&id(), call(Status::Pending)));
    for (patch, expected) in [
        (moved("/p"), json!([])),
        (moved("/p/src"), json!([info("/p/src")])),
        (moved("/p/src"), json!([])),
        // Programs read this value, so characters that JSON can represent are not quoted.
        (moved("/p\u{a0}/$'s'"), json!([info("/p\u{a0}/$'s'")])),
        (moved("/p").then(output("a")), json!([info("/p"), written("a")])),
        (moved("/q").then(output("b")), json!([written("b")])),
    ] {
        assert_eq!(
            crate::json(&sent.updates_for_terminal_patch(&shown(), &patch)),
            expected,
            "{patch:?}"
        );
    }
}

#[test]
fn a_terminal_that_the_first_report_does_not_show_is_text_on_either_surface() {
    for surface in [TerminalDisplay::Text, TerminalDisplay::MetaEvents] {
        let mut sent = V1Projection::new(surface);
        let first = call(Status::Pending).with_content(Vec::new());
        drop(sent.updates_for_call_patch(&id(), &first));
        assert_eq!(sent.updates_for_terminal_patch(&shown(), &open()), []);
        let shows = ToolCallPatch::new().with_appended_content(Content::Terminal(shown()));
        assert_eq!(
            crate::json(&sent.updates_for_call_patch(&id(), &shows)),
            json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c",
                    "content": console("$ ls\n[in /p]\n")}])
        );
    }
}

#[test]
fn output_events_fit_a_message() {
    // JSON escapes a newline as two bytes. This doubles the size of the retained output, so one
    // message cannot contain it.
    let (head, tail) = ("\n".repeat(OUTPUT_HEAD_BYTES), "\n".repeat(OUTPUT_TAIL_BYTES));
    let all = format!("{head}{}{tail}", "\n".repeat(7));
    let mut sent = V1Projection::new(TerminalDisplay::MetaEvents);
    drop(sent.updates_for_call_patch(&id(), call(Status::InProgress)));
    let updates = sent.updates_for_terminal_patch(&shown(), &output(&all));
    assert_eq!(updates.len(), 3);
    let mut data = String::new();
    for update in updates {
        let value = crate::json(&update);
        assert!(value.to_string().len() <= 60 * 1024);
        let piece = &value["_meta"]["terminal_output"]["data"];
        data.push_str(piece.as_str().expect("a piece of output"));
        assert!(matches!(*update, SessionUpdate::ToolCallUpdate(_)));
    }
    assert_eq!(data, format!("{head}\u{1b}[0m\n[… 7 bytes left out …]\n{tail}"));
}

#[test]
fn a_v2_terminal_of_another_agent_may_begin_with_its_output() {
    let mut client_state = acp_types::client_state::v2::V2ClientState::new();
    for (fields, expected) in [
        (json!({"sessionUpdate": "terminal_update", "output": {"data": "aGkK"}}), "hi\n"),
        (json!({"sessionUpdate": "terminal_output_chunk", "data": "aGkK"}), "hi\nhi\n"),
        (json!({"sessionUpdate": "terminal_update", "output": {"data": "aGk="}}), "hi"),
    ] {
        let mut update = fields;
        update["terminalId"] = json!("t");
        client_state.apply_session_update(&serde_json::from_value(update).unwrap());
        let (_, output) = client_state.observed_terminal("t").unwrap();
        assert_eq!(output, expected.as_bytes());
    }
    assert_eq!(client_state.violations(), []);
}

#[test]
fn a_v2_terminal_has_separate_messages() {
    let sent = wire::v2::V2Projection::new();
    let size = TerminalPatch::default().with_size(TerminalSize { cols: 80, rows: 24 });
    for (patch, expected) in [
        (TerminalPatch::default(), json!([])),
        (
            open().then(size),
            json!([{"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls",
                    "cwd": "/p", "size": {"cols": 80, "rows": 24}}]),
        ),
        (
            TerminalPatch::from_output(b"hi\n\xc3"),
            json!([{"sessionUpdate": "terminal_output_chunk", "terminalId": "t",
                    "data": "aGkKww=="}]),
        ),
        (
            code(3),
            json!([{"sessionUpdate": "terminal_update", "terminalId": "t",
                    "exitStatus": {"exitCode": 3}}]),
        ),
        (
            killed(),
            json!([{"sessionUpdate": "terminal_update", "terminalId": "t",
                    "exitStatus": {"signal": "SIGKILL"}}]),
        ),
        (
            open().then(output("hi\n")).then(code(0)),
            json!([
                {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls",
                 "cwd": "/p"},
                {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "aGkK"},
                {"sessionUpdate": "terminal_update", "terminalId": "t",
                 "exitStatus": {"exitCode": 0}},
            ]),
        ),
    ] {
        assert_eq!(crate::json(&sent.updates_for_terminal_patch(&shown(), &patch)), expected);
    }
    let first = crate::json(
        &wire::v2::V2Projection::new().updates_for_call_patch(&id(), &call(Status::Pending)),
    );
    assert_eq!(first[0]["content"], json!([{"type": "terminal", "terminalId": "t"}]));
}

#[test]
fn client_capabilities_select_the_terminal_display() {
    for (meta, expected) in [
        (json!({"terminal_output": true}), TerminalDisplay::MetaEvents),
        (json!({"terminal_output": false}), TerminalDisplay::Text),
        (json!({"terminal_output": "true"}), TerminalDisplay::Text),
        (json!({}), TerminalDisplay::Text),
        (Value::Null, TerminalDisplay::Text),
    ] {
        let capabilities = serde_json::from_value(json!({ "_meta": meta })).unwrap();
        assert_eq!(TerminalDisplay::from_capabilities(&capabilities), expected, "{meta}");
    }
}
