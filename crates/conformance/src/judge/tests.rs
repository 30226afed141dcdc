//! Fault injection: the recorded transcript breaks no rule, and each test edits it so that it
//! breaks one rule.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::ConformanceRule::{self, *};
use super::{RuleViolation, Side, TranscriptJudge};
use crate::limits::{
    MAX_JUDGED_CALLS, MAX_JUDGED_SESSIONS, MAX_OPEN_REQUESTS, MAX_STREAMED_UPDATE_BYTES,
};

/// A recorded session of `callboard`: a turn with three tools, a cancelled turn, and the end of the
/// session.
const RECORDED: &str = include_str!("recorded.jsonl");

/// An edit of the recorded transcript. The first line has the number 1.
#[derive(Clone)]
enum TranscriptEdit {
    /// Replaces the first text with the second text, in the line with this number.
    Replace(usize, &'static str, String),
    /// Inserts a line before the line with this number.
    Insert(usize, Vec<u8>),
    /// Removes the line with this number.
    Remove(usize),
    /// Moves the line with the first number to the place before the line with the second number.
    Move(usize, usize),
}
use TranscriptEdit::{Insert, Move, Remove, Replace};

fn replace(line: usize, from: &'static str, to: &str) -> TranscriptEdit {
    Replace(line, from, to.to_owned())
}

/// Inserts a line of the agent.
fn insert_agent_line(line: usize, message: &Value) -> TranscriptEdit {
    Insert(line, json!({"dir": "out", "msg": message}).to_string().into_bytes())
}

/// Inserts a line of the client.
fn insert_client_line(line: usize, message: &Value) -> TranscriptEdit {
    Insert(line, json!({"dir": "in", "msg": message}).to_string().into_bytes())
}

/// Inserts a request of the agent in the session.
fn insert_agent_request(line: usize, method: &str, mut params: Value) -> TranscriptEdit {
    params["sessionId"] = json!("s1");
    insert_agent_line(
        line,
        &json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": params}),
    )
}

fn session_update_message(session: &str, update: &Value) -> Value {
    let params = json!({"sessionId": session, "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
}

/// Inserts an update of the session.
fn insert_update(line: usize, update: &Value) -> TranscriptEdit {
    insert_agent_line(line, &session_update_message("s1", update))
}

/// Inserts a change of the first call.
fn insert_call_update(line: usize, fields: &Value) -> TranscriptEdit {
    let mut change = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1/call_1"});
    change.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    insert_update(line, &change)
}

fn message_chunk(text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    json!({"sessionUpdate": "agent_message_chunk", "content": content})
}

fn apply_edits(edits: &[TranscriptEdit]) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = RECORDED.lines().map(|line| line.as_bytes().to_vec()).collect();
    for edit in edits {
        match edit {
            Replace(at, from, to) => {
                let line = String::from_utf8(lines[at - 1].clone()).unwrap();
                assert!(line.contains(from), "{line} has no {from}");
                lines[at - 1] = line.replacen(from, to, 1).into_bytes();
            }
            Insert(at, line) => lines.insert(at - 1, line.clone()),
            Remove(at) => drop(lines.remove(at - 1)),
            Move(from, to) => {
                let line = lines.remove(from - 1);
                lines.insert(to - 1, line);
            }
        }
    }
    lines
}

/// Returns the lines as they were sent, without their directions.
fn without_directions(lines: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let unwrap = |line: &Vec<u8>| match serde_json::from_slice::<Value>(line) {
        Ok(Value::Object(mut wrapped)) => match wrapped.remove("msg") {
            Some(Value::String(line)) => line.into_bytes(),
            Some(message) => message.to_string().into_bytes(),
            None => line.clone(),
        },
        _ => line.clone(),
    };
    lines.iter().map(unwrap).collect()
}

fn judge(lines: &[Vec<u8>]) -> Vec<RuleViolation> {
    let mut transcript = TranscriptJudge::new();
    let mut faults: Vec<_> = lines.iter().flat_map(|line| transcript.judge_line(line)).collect();
    faults.extend(transcript.finish_and_report_unanswered());
    faults
}

/// A fault: the broken rule, the line of the violation, and the edits that inject the fault.
type PlantedFault = (ConformanceRule, u64, Vec<TranscriptEdit>);

fn line_faults() -> Vec<PlantedFault> {
    let long = "x".repeat(MAX_STREAMED_UPDATE_BYTES);
    let longest = "x".repeat(1 << 20);
    let bad = |message: Value| vec![insert_agent_line(7, &message)];
    vec![
        (NotUtf8, 7, vec![Insert(7, b"\xff".to_vec())]),
        (NotJson, 7, vec![Insert(7, b"hello".to_vec())]),
        (NotJson, 7, bad(json!("DEBUG: starting"))),
        (NotAMessage, 7, bad(json!([]))),
        (NotJudged, 7, vec![Insert(7, b"[".repeat(100))]),
        (LongLine, 9, vec![Replace(9, "three", longest)]),
        (LongUpdate, 15, vec![Replace(15, "three", long)]),
        (JsonrpcVersion, 8, vec![replace(8, "2.0", "1.0")]),
        (StrayKey, 28, vec![replace(28, "\"id\"", "\"stray\":1,\"id\"")]),
        (BadId, 7, bad(json!({"jsonrpc": "2.0", "id": [], "method": "_x/y"}))),
        (BadMethod, 7, bad(json!({"jsonrpc": "2.0", "id": 1, "method": 17}))),
        (ResultOrError, 40, vec![replace(40, "\"result\":{}", "\"id\":5")]),
        (
            ErrorMessage,
            40,
            vec![replace(40, "\"result\":{}", "\"error\":{\"code\":1,\"message\":\"a\\nb\"}")],
        ),
        (UnknownMethod, 7, bad(json!({"jsonrpc": "2.0", "id": "x", "method": "session/dance"}))),
        (
            WrongSide,
            29,
            vec![insert_agent_line(
                29,
                &json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}),
            )],
        ),
        (WrongForm, 6, vec![replace(6, "\"method\"", "\"id\":7,\"method\"")]),
        (IdReused, 28, vec![Move(28, 30), replace(28, "\"id\":4", "\"id\":3")]),
        (UnaskedAnswer, 7, bad(json!({"jsonrpc": "2.0", "id": 77, "result": {}}))),
        (AnsweredTwice, 7, bad(json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s2"}}))),
        (NeverAnswered, 39, vec![Remove(40)]),
        (Schema, 7, vec![replace(7, "\"title\":\"Read notes.txt\",", "")]),
        (Schema, 28, vec![replace(28, "end_turn", "finished")]),
        (LostField, 8, vec![replace(8, "in_progress", "running")]),
        (LostField, 13, vec![replace(13, "\"priority\"", "\"colour\":1,\"priority\"")]),
        (BeforeInitialize, 1, vec![Remove(1), Remove(1)]),
        (ProtocolVersion, 2, vec![replace(2, "\"protocolVersion\":1", "\"protocolVersion\":2")]),
    ]
}

fn session_faults() -> Vec<PlantedFault> {
    let write = json!({"path": "/project/x", "content": "x"});
    vec![
        (Capability, 7, vec![insert_agent_request(7, "fs/write_text_file", write)]),
        (Capability, 20, vec![replace(1, "\"terminal_output\":true", "\"x\":1")]),
        (
            Capability,
            7,
            vec![insert_update(
                7,
                &json!({"sessionUpdate": "notice", "severity": "info", "title": "x"}),
            )],
        ),
        (
            Capability,
            2,
            vec![replace(2, "\"id\":\"setup\"", "\"type\":\"terminal\",\"id\":\"setup\"")],
        ),
        (
            UnknownSession,
            7,
            vec![insert_agent_line(7, &session_update_message("s2", &message_chunk("x")))],
        ),
        (
            SessionTwice,
            6,
            vec![
                insert_client_line(
                    5,
                    &json!({"jsonrpc": "2.0", "id": 9, "method": "session/new",
                    "params": {"cwd": "/", "mcpServers": []}}),
                ),
                insert_agent_line(
                    6,
                    &json!({"jsonrpc": "2.0", "id": 9, "result": {"sessionId": "s1"}}),
                ),
            ],
        ),
        (AfterClose, 41, vec![insert_update(41, &message_chunk("x"))]),
        (OutsideTurn, 29, vec![insert_update(29, &message_chunk("x"))]),
        (NotCancelled, 38, vec![replace(38, "cancelled", "end_turn")]),
        (
            PromptOrder,
            8,
            vec![
                insert_client_line(
                    7,
                    &json!({"jsonrpc": "2.0", "id": 9, "method": "session/prompt",
                    "params": {"sessionId": "s1", "prompt": []}}),
                ),
                insert_agent_line(
                    8,
                    &json!({"jsonrpc": "2.0", "id": 9, "result": {"stopReason": "end_turn"}}),
                ),
            ],
        ),
        (PlanEntry, 13, vec![replace(13, "Look", " ")]),
        (
            PlanPartial,
            14,
            vec![insert_update(
                14,
                &json!({"sessionUpdate": "plan", "entries":
                [{"content": "Look", "priority": "medium", "status": "completed"}]}),
            )],
        ),
    ]
}

/// Faults of modes and options: the session begins with one mode and two options.
fn choice_faults() -> Vec<PlantedFault> {
    let offer = |edits: Vec<TranscriptEdit>| [vec![replace(4, "\"s1\"", OFFERED)], edits].concat();
    let set = |method: &str, params: Value| {
        let mut params = params;
        params["sessionId"] = json!("s1");
        let set = request(9, method, params);
        offer(vec![
            insert_client_line(5, &set),
            insert_agent_line(6, &result(9.into(), json!({"configOptions": []}))),
        ])
    };
    let mode = |id: &str| {
        insert_update(5, &json!({"sessionUpdate": "current_mode_update", "currentModeId": id}))
    };
    vec![
        (
            NotOffered,
            4,
            offer(vec![replace(4, "\"currentModeId\":\"ask\"", "\"currentModeId\":\"no\"")]),
        ),
        (
            NotOffered,
            4,
            offer(vec![replace(4, "\"currentValue\":\"big\"", "\"currentValue\":\"no\"")]),
        ),
        (NotOffered, 4, offer(vec![replace(4, "\"id\":\"size\"", "\"id\":\"model\"")])),
        (NotOffered, 5, offer(vec![mode("no")])),
        (NotOffered, 5, set("session/set_mode", json!({"modeId": "no"}))),
        (
            NotOffered,
            5,
            set("session/set_config_option", json!({"configId": "model", "value": "no"})),
        ),
        (
            NotOffered,
            5,
            set("session/set_config_option", json!({"configId": "no", "value": "big"})),
        ),
    ]
}

/// The modes, an option with plain values, and an option with groups of values.
const OFFERED: &str = r#""s1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"}]},"configOptions":[{"id":"model","name":"Model","type":"select","currentValue":"big","options":[{"value":"big","name":"Big"}]},{"id":"size","name":"Size","type":"select","currentValue":"a","options":[{"group":"g","name":"G","options":[{"value":"a","name":"A"}]}]}]"#;

#[test]
fn offered_modes_and_options_may_be_selected() {
    let mode =
        insert_update(5, &json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}));
    let params = json!({"sessionId": "s1", "configId": "size", "value": "a"});
    let set = insert_client_line(6, &request(9, "session/set_config_option", params));
    let answer = insert_agent_line(7, &result(9.into(), json!({"configOptions": []})));
    let edits = [replace(4, "\"s1\"", OFFERED), mode, set, answer];
    assert_eq!(judge(&apply_edits(&edits)), []);
}

fn call_faults() -> Vec<PlantedFault> {
    vec![
        (CallUnannounced, 7, vec![Remove(7)]),
        (
            CallTwice,
            8,
            vec![insert_update(
                8,
                &json!({"sessionUpdate": "tool_call",
            "toolCallId": "t1/call_1", "title": "Read"}),
            )],
        ),
        (CallAfterEnd, 10, vec![insert_call_update(10, &json!({"title": "Read it"}))]),
        (StatusBack, 9, vec![insert_call_update(9, &json!({"status": "pending"}))]),
        (StatusSkipped, 8, vec![Remove(8)]),
        (CallOpenAtAnswer, 27, vec![Remove(14)]),
        (EmptyUpdate, 8, vec![insert_call_update(8, &json!({}))]),
        (EmptyUpdate, 27, vec![replace(27, "Done.", "")]),
        (
            ArrayResent,
            9,
            vec![insert_call_update(9, &json!({"locations": [{"path": "/project/notes.txt"}]}))],
        ),
        (NoTitle, 7, vec![replace(7, "Read notes.txt", " ")]),
        (RelativePath, 7, vec![replace(7, "/project/notes.txt", "notes.txt")]),
        (RelativePath, 15, vec![replace(15, "/project/notes.txt", "./notes.txt")]),
        (RelativePath, 3, vec![replace(3, "/project", "project")]),
        (LineZero, 15, vec![replace(15, "\"line\":2", "\"line\":0")]),
        (PermissionUnknownCall, 16, vec![replace(16, "t1/call_3", "t1/call_9")]),
        (
            PermissionOptions,
            21,
            vec![replace(21, "\"optionId\":\"reject\"", "\"optionId\":\"allow\"")],
        ),
        (
            PermissionKinds,
            21,
            vec![replace(21, "\"kind\":\"reject_always\"", "\"kind\":\"allow_always\"")],
        ),
        (UnknownOption, 17, vec![replace(17, "\"optionId\":\"allow\"", "\"optionId\":\"yes\"")]),
        (RanUnpermitted, 17, vec![Move(18, 17)]),
        (
            RanUnpermitted,
            18,
            vec![replace(17, "\"optionId\":\"allow\"", "\"optionId\":\"reject\"")],
        ),
        (
            RanUnpermitted,
            23,
            vec![replace(
                22,
                "\"result\":{\"outcome\":{\"outcome\":\"selected\",\
            \"optionId\":\"allow\"}}",
                "\"error\":{\"code\":1,\"message\":\"no\"}",
            )],
        ),
        (TerminalUnknown, 20, vec![replace(20, "\"terminal_info\"", "\"terminal_inf\"")]),
        (
            TerminalTwice,
            25,
            vec![replace(
                25,
                "\"terminal_exit\"",
                "\"terminal_info\":{\"terminal_id\":\"t1/call_4\"},\"terminal_exit\"",
            )],
        ),
        (TerminalAfterExit, 25, vec![Move(24, 25)]),
        (
            TerminalLeft,
            42,
            vec![
                replace(
                    1,
                    "\"clientCapabilities\":{",
                    "\"clientCapabilities\":{\"terminal\":true,",
                ),
                insert_agent_request(30, "terminal/create", json!({"command": "true"})),
                insert_client_line(31, &result("x".into(), json!({"terminalId": "t"}))),
            ],
        ),
    ]
}

fn all_planted_faults() -> Vec<PlantedFault> {
    line_faults()
        .into_iter()
        .chain(session_faults())
        .chain(choice_faults())
        .chain(call_faults())
        .collect()
}

#[test]
fn the_recorded_transcript_breaks_no_rule_with_and_without_directions() {
    assert_eq!(judge(&apply_edits(&[])), []);
    assert_eq!(judge(&without_directions(&apply_edits(&[]))), []);
}

#[test]
fn every_planted_fault_is_found_by_its_rule_in_its_line() {
    let mut missed = Vec::new();
    for (rule, line, edits) in all_planted_faults() {
        let lines = apply_edits(&edits);
        for (how, lines) in
            [("with directions", lines.clone()), ("raw", without_directions(&lines))]
        {
            // Without directions, the sender is inferred from the method.
            if rule == WrongSide && how == "raw" {
                continue;
            }
            let faults = judge(&lines);
            if faults.first().map(|fault| (fault.rule, fault.line)) != Some((rule, line)) {
                missed.push((rule, line, how, faults));
            }
        }
    }
    assert_eq!(missed, []);
}

#[test]
fn every_rule_has_a_planted_fault() {
    let planted: BTreeSet<_> = all_planted_faults().into_iter().map(|(rule, ..)| rule).collect();
    let all: BTreeSet<_> = ConformanceRule::all().iter().copied().collect();
    assert_eq!(all.difference(&planted).collect::<Vec<_>>(), [&PermissionOptions; 0]);
}

#[test]
fn a_violation_names_its_side_and_its_call() {
    let call = judge(&apply_edits(&[replace(7, "/project/notes.txt", "no\u{202e}tes")]));
    let [fault] = &call[..] else { panic!("{call:#?}") };
    assert_eq!((fault.side, fault.tool_call_id.as_deref()), (Side::Agent, Some("t1/call_1")));
    assert_eq!(
        fault.to_string(),
        "7: relative-path: agent: call t1/call_1: a location with the path \"no\\u{202e}tes\""
    );
    let client = judge(&apply_edits(&[replace(3, "/project", "project")]));
    assert_eq!(client[0].side, Side::Client);
}

/// Returns the first messages of a connection. The client supports files and terminals, and the
/// agent can load sessions.
fn start() -> Vec<Value> {
    let client = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
    let params = json!({"protocolVersion": 1, "clientCapabilities": client});
    let agent = json!({"loadSession": true});
    vec![
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
        json!({"jsonrpc": "2.0", "id": 0,
            "result": {"protocolVersion": 1, "agentCapabilities": agent}}),
    ]
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn result(id: Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn broken_rules(messages: &[Value]) -> Vec<(ConformanceRule, u64)> {
    let lines: Vec<_> = messages.iter().map(|line| line.to_string().into_bytes()).collect();
    judge(&lines).iter().map(|fault| (fault.rule, fault.line)).collect()
}

#[test]
fn both_sides_may_use_the_same_ids_and_released_terminals_end() {
    let terminal = json!({"sessionId": "s1", "terminalId": "t"});
    let shows = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
        "content": [{"type": "terminal", "terminalId": "t"}]});
    let status = |status: &str| {
        let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"});
        let mut update = session_update_message("s1", &update);
        update["params"]["update"]["status"] = json!(status);
        update
    };
    let mut messages = start();
    messages.extend([
        request(1, "session/new", json!({"cwd": "/", "mcpServers": []})),
        result(1.into(), json!({"sessionId": "s1"})),
        request(0, "session/prompt", json!({"sessionId": "s1", "prompt": []})),
        session_update_message(
            "s1",
            &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T"}),
        ),
        status("in_progress"),
        request(0, "terminal/create", json!({"sessionId": "s1", "command": "true"})),
        result(0.into(), json!({"terminalId": "t"})),
        session_update_message("s1", &shows),
        request(1, "terminal/wait_for_exit", terminal.clone()),
        result(1.into(), json!({"exitCode": 0, "signal": null})),
        request(2, "terminal/release", terminal.clone()),
        result(2.into(), json!(null)),
        status("completed"),
        result(0.into(), json!({"stopReason": "end_turn"})),
    ]);
    assert_eq!(broken_rules(&messages), []);
    messages.insert(14, request(3, "terminal/output", terminal));
    messages.insert(15, result(3.into(), json!({"output": "", "truncated": false})));
    // The released terminal is shown again. Clients refuse such an update.
    let mut again = shows.clone();
    again["content"].as_array_mut().unwrap().push(json!({"type": "terminal", "terminalId": "t"}));
    messages.insert(16, session_update_message("s1", &again));
    assert_eq!(
        broken_rules(&messages),
        [(TerminalUnknown, 15), (TerminalUnknown, 17), (TerminalUnknown, 17)]
    );
    messages.truncate(10);
    messages.remove(8);
    assert_eq!(broken_rules(&messages)[0], (TerminalUnknown, 9));
}

#[test]
fn the_history_of_a_session_is_replayed_outside_of_turns() {
    let load = json!({"sessionId": "s1", "cwd": "/", "mcpServers": []});
    let mut messages = start();
    messages.extend([
        request(1, "session/load", load),
        session_update_message("s1", &message_chunk("What was said.")),
        result(1.into(), json!({})),
    ]);
    assert_eq!(broken_rules(&messages), []);
    messages.push(session_update_message("s1", &message_chunk("And more.")));
    assert_eq!(broken_rules(&messages), [(OutsideTurn, 6)]);
}

#[test]
fn the_request_of_an_extension_has_updates_like_a_turn() {
    let plan = json!({"sessionUpdate": "plan", "entries": []});
    let mut messages = start();
    messages.extend([
        request(1, "session/new", json!({"cwd": "/", "mcpServers": []})),
        result(1.into(), json!({"sessionId": "s1"})),
        request(2, "session/new", json!({"cwd": "/", "mcpServers": []})),
        result(2.into(), json!({"sessionId": "s2"})),
        request(3, "_other/rewind", json!({"sessionId": "s1"})),
        session_update_message("s1", &plan),
        session_update_message("s2", &plan),
        result(3.into(), json!({})),
        session_update_message("s1", &plan),
    ]);
    assert_eq!(broken_rules(&messages), [(OutsideTurn, 9), (OutsideTurn, 11)]);
}

fn load(id: u64) -> Value {
    request(id, "session/load", json!({"sessionId": "s1", "cwd": "/", "mcpServers": []}))
}

fn load_error(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "Held"}})
}

#[test]
fn a_failed_load_opens_no_session_and_leaves_an_open_one_as_it_was() {
    let chunk = || session_update_message("s1", &message_chunk("Hello."));
    let mut messages = start();
    messages.extend([load(1), load_error(1), chunk()]);
    assert_eq!(broken_rules(&messages), [(AfterClose, 5)]);
    let mut messages = start();
    messages.extend([
        request(1, "session/new", json!({"cwd": "/", "mcpServers": []})),
        result(1.into(), json!({"sessionId": "s1"})),
        request(2, "session/prompt", json!({"sessionId": "s1", "prompt": []})),
        load(3),
        load_error(3),
        chunk(),
        result(2.into(), json!({"stopReason": "end_turn"})),
    ]);
    assert_eq!(broken_rules(&messages), []);
}

#[test]
fn updates_of_a_running_turn_count_although_loads_of_its_session_fail() {
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read", "kind": "read",
        "status": "in_progress"
    });
    let shown = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "c",
        "content": [{"type": "terminal", "terminalId": "unknown"}]
    });
    let ended =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"});
    let mut messages = start();
    messages.extend([
        request(1, "session/new", json!({"cwd": "/", "mcpServers": []})),
        result(1.into(), json!({"sessionId": "s1"})),
        request(2, "session/prompt", json!({"sessionId": "s1", "prompt": []})),
        load(3),
        session_update_message("s1", &call),
        // Neither the turn nor the replay has opened this terminal.
        session_update_message("s1", &shown),
        load(4),
        load_error(3),
        load_error(4),
        session_update_message("s1", &ended),
        result(2.into(), json!({"stopReason": "end_turn"})),
    ]);
    assert_eq!(broken_rules(&messages), [(TerminalUnknown, 8)]);
}

#[test]
fn a_running_turn_continues_after_its_session_was_loaded_again() {
    let chunk = || session_update_message("s1", &message_chunk("Hello."));
    let mut messages = start();
    messages.extend([
        request(1, "session/new", json!({"cwd": "/", "mcpServers": []})),
        result(1.into(), json!({"sessionId": "s1"})),
        request(2, "session/prompt", json!({"sessionId": "s1", "prompt": []})),
        load(3),
        chunk(),
        result(3.into(), json!({})),
        chunk(),
        result(2.into(), json!({"stopReason": "end_turn"})),
    ]);
    assert_eq!(broken_rules(&messages), []);
    messages.push(chunk());
    assert_eq!(broken_rules(&messages), [(OutsideTurn, 11)]);
}

#[test]
fn many_unanswered_loads_of_a_session_need_no_more_memory_than_one() {
    let mut messages = start();
    messages.extend([
        request(1, "session/new", json!({"cwd": "/", "mcpServers": []})),
        result(1.into(), json!({"sessionId": "s1"})),
    ]);
    // If a state were kept for each load, dropping all of these states would overflow the stack.
    messages.extend((2..100_000).map(load));
    broken_rules(&messages);
}

#[test]
fn more_sessions_calls_and_terminals_than_are_kept_are_no_violations() {
    let mut messages = start();
    let sessions = MAX_JUDGED_SESSIONS as u64 + 1;
    for id in 1..=sessions {
        messages.push(request(id, "session/new", json!({"cwd": "/", "mcpServers": []})));
        messages.push(result(id.into(), json!({"sessionId": format!("s{id}")})));
    }
    // The judge has dropped the oldest session.
    messages.push(request(500, "session/prompt", json!({"sessionId": "s1", "prompt": []})));
    messages.push(session_update_message("s1", &message_chunk("Hello.")));
    messages.push(result(500.into(), json!({"stopReason": "end_turn"})));
    // The judge drops the oldest call and the oldest terminal of the newest session.
    let newest = format!("s{sessions}");
    messages.push(request(501, "session/prompt", json!({"sessionId": newest, "prompt": []})));
    for number in 0..=MAX_JUDGED_CALLS {
        let terminal = json!({"terminal_id": format!("t{number}")});
        messages.push(session_update_message(
            &newest,
            &json!({"sessionUpdate": "tool_call", "toolCallId": format!("c{number}"),
                "title": "Run", "status": "in_progress", "_meta": {"terminal_info": terminal},
                "content": [{"type": "terminal", "terminalId": format!("t{number}")}]}),
        ));
    }
    for number in 0..=MAX_JUDGED_CALLS {
        messages.push(session_update_message(
            &newest,
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("c{number}"),
                "status": "completed",
                "content": [{"type": "terminal", "terminalId": format!("t{number}")},
                    {"type": "content", "content": {"type": "text", "text": "done"}}]}),
        ));
    }
    // Output of a dropped terminal, and a request about it.
    let output = json!({"terminal_output": {"terminal_id": "t0", "data": "x"}});
    messages.push(session_update_message(
        &newest,
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "other", "status": "completed",
            "_meta": output}),
    ));
    let release = json!({"sessionId": newest, "terminalId": "t0"});
    messages.push(
        json!({"jsonrpc": "2.0", "id": "r", "method": "terminal/release", "params": release}),
    );
    messages.push(result(501.into(), json!({"stopReason": "end_turn"})));
    let broken: BTreeSet<_> = broken_rules(&messages).into_iter().map(|(rule, _)| rule).collect();
    let wrong = [UnknownSession, CallUnannounced, TerminalUnknown, CallOpenAtAnswer];
    assert!(wrong.iter().all(|rule| !broken.contains(rule)), "{broken:?}");
}

#[test]
fn unanswered_requests_with_one_id_are_limited() {
    let mut messages = start();
    let same = request(1, "session/list", json!({}));
    messages.extend(std::iter::repeat_n(same, MAX_OPEN_REQUESTS + 1));
    let broken = broken_rules(&messages);
    assert!(broken.iter().any(|(rule, _)| *rule == NotJudged), "{broken:?}");
}

#[test]
fn a_deleted_session_is_closed_and_a_fork_is_a_new_session() {
    let mut messages = start();
    messages.extend([
        request(1, "session/new", json!({"cwd": "/", "mcpServers": []})),
        result(1.into(), json!({"sessionId": "s1"})),
        request(2, "session/fork", json!({"sessionId": "s1", "cwd": "/", "mcpServers": []})),
        result(2.into(), json!({"sessionId": "s2"})),
        request(3, "session/prompt", json!({"sessionId": "s2", "prompt": []})),
        session_update_message("s2", &message_chunk("Hello.")),
        result(3.into(), json!({"stopReason": "end_turn"})),
        request(4, "session/delete", json!({"sessionId": "s2"})),
        result(4.into(), json!({})),
        session_update_message("s2", &message_chunk("Hello.")),
    ]);
    let broken: Vec<_> =
        broken_rules(&messages).into_iter().filter(|(rule, _)| *rule != Capability).collect();
    assert_eq!(broken, [(AfterClose, 12)]);
}

#[test]
fn truncated_and_malformed_lines_never_panic() {
    let lines = apply_edits(&[]);
    for at in 0..lines.len() {
        for cut in [1, lines[at].len() / 3, lines[at].len() / 2, lines[at].len() - 2] {
            let mut lines = lines.clone();
            lines[at].truncate(cut);
            assert_ne!(judge(&lines), [], "line {at} cut at {cut}");
        }
        let mut lines = lines.clone();
        lines[at] = serde_json::to_vec(&null_at(&lines[at], at)).unwrap();
        judge(&lines);
    }
}

/// Returns the message with one value replaced by null.
fn null_at(line: &[u8], seed: usize) -> Value {
    let mut line: Value = serde_json::from_slice(line).unwrap();
    let params = &mut line["msg"]["params"];
    if let Some(object) = params.as_object_mut() {
        let key = object.keys().nth(seed % object.len()).cloned();
        object.insert(key.unwrap(), Value::Null);
    }
    line
}
