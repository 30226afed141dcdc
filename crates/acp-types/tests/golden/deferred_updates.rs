//! Deferred fields: a field that is too large for a streamed update is sent with the final update.

use acp_types::wire;
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use acp_types::{
    CallMeta, Content, FileChange, FileChangeOperation, Hunk, HunkLine, LineTag, Status,
    ToolCallPatch, TraceContext,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{announce, id};

/// Returns a projection that has announced a running call.
fn running() -> V1Projection {
    let mut sent = V1Projection::new(TerminalDisplay::Text);
    drop(sent.updates_for_call_patch(&id(), announce()));
    drop(sent.updates_for_call_patch(&id(), ToolCallPatch::new().with_status(Status::InProgress)));
    sent
}

fn large(letter: &str) -> Value {
    json!({ "text": letter.repeat(65 * 1024) })
}

fn end() -> ToolCallPatch {
    ToolCallPatch::new().with_status(Status::Completed)
}

fn update(fields: Value) -> Value {
    let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"});
    update.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!([update])
}

/// Checks the updates that a running call sends for each patch.
fn check(steps: Vec<(ToolCallPatch, Value)>) {
    let mut sent = running();
    for (patch, expected) in steps {
        let updates = crate::json(&sent.updates_for_call_patch(&id(), &patch));
        // The output of a failed comparison of 65 KB is unreadable.
        let size = |value: &Value| value.to_string().len();
        assert_eq!(size(&updates), size(&expected), "sizes");
        assert!(updates == expected);
    }
}

#[test]
fn each_large_field_waits_for_the_end() {
    let text = "x".repeat(65 * 1024);
    let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    for (patch, field, value) in [
        (ToolCallPatch::new().with_raw_input(large("i")), "rawInput", large("i")),
        (ToolCallPatch::new().with_raw_output(large("o")), "rawOutput", large("o")),
        (
            ToolCallPatch::new().with_appended_content(Content::from_text(text.clone())),
            "content",
            content,
        ),
    ] {
        check(vec![
            (patch.with_title("New"), update(json!({"title": "New"}))),
            (ToolCallPatch::new().with_title("Newer"), update(json!({"title": "Newer"}))),
            (end(), update(json!({"status": "completed", field: value}))),
        ]);
    }
}

#[test]
fn a_large_first_report_and_a_large_end_are_sent_at_once() {
    let mut sent = V1Projection::new(TerminalDisplay::Text);
    let first =
        crate::json(&sent.updates_for_call_patch(&id(), announce().with_raw_input(large("i"))));
    assert!(first[0]["rawInput"] == large("i"));
    check(vec![(
        end().with_raw_output(large("o")),
        update(json!({"status": "completed", "rawOutput": large("o")})),
    )]);
}

#[test]
fn a_permission_request_contains_deferred_fields() {
    let mut sent = running();
    assert!(
        sent.updates_for_call_patch(&id(), ToolCallPatch::new().with_raw_input(large("i")))
            .is_empty()
    );
    let request =
        crate::json(&sent.permission_request_for_call("s".into(), &id(), Vec::new()).unwrap());
    assert!(request["toolCall"]["rawInput"] == large("i"));
    // The deferred content is sent only once.
    assert_eq!(
        crate::json(&sent.updates_for_call_patch(&id(), end())),
        update(json!({"status": "completed"}))
    );
}

#[test]
fn a_small_value_that_replaces_a_deferred_value_is_sent() {
    check(vec![
        (ToolCallPatch::new().with_raw_output(large("o")), json!([])),
        (
            ToolCallPatch::new().with_raw_output(json!({"small": 2})),
            update(json!({"rawOutput": {"small": 2}})),
        ),
        (end(), update(json!({"status": "completed"}))),
    ]);
}

#[test]
fn a_replaced_deferred_value_is_never_sent() {
    let small = || json!({"small": 1});
    check(vec![
        (ToolCallPatch::new().with_raw_output(small()), update(json!({"rawOutput": small()}))),
        (ToolCallPatch::new().with_raw_output(large("o")), json!([])),
        // The client already holds this small value.
        (ToolCallPatch::new().with_raw_output(small()), json!([])),
        (end(), update(json!({"status": "completed"}))),
    ]);
    check(vec![
        (ToolCallPatch::new().with_raw_input(small()), update(json!({"rawInput": small()}))),
        (ToolCallPatch::new().with_raw_input(large("i")), json!([])),
        (ToolCallPatch::new().with_raw_input(small()), json!([])),
        (end(), update(json!({"status": "completed"}))),
    ]);
    let text = || vec![Content::from_text("small")];
    let shown = json!([{"type": "content", "content": {"type": "text", "text": "small"}}]);
    check(vec![
        (ToolCallPatch::new().with_content(text()), update(json!({ "content": shown }))),
        (
            ToolCallPatch::new().with_appended_content(Content::from_text("x".repeat(65 * 1024))),
            json!([]),
        ),
        (ToolCallPatch::new().with_content(text()), json!([])),
        (end(), update(json!({"status": "completed"}))),
    ]);
}

#[test]
fn draft_v2_defers_large_fields_and_keeps_the_order_of_items() {
    let mut sent = wire::v2::V2Projection::new();
    let mut send = |patch: ToolCallPatch| crate::json(&sent.updates_for_call_patch(&id(), &patch));
    let chunk = |text: &str| {
        json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c",
               "content": {"type": "content", "content": {"type": "text", "text": text}}})
    };
    let item = |text: &str| ToolCallPatch::new().with_appended_content(Content::from_text(text));
    let long = "x".repeat(65 * 1024);
    send(announce());
    assert_eq!(send(item("a")), json!([chunk("a")]));
    assert_eq!(send(item(&long)), json!([]));
    assert_eq!(send(item("b")), json!([]));
    assert_eq!(send(ToolCallPatch::new().with_raw_output(large("o"))), json!([]));
    assert_eq!(
        send(ToolCallPatch::new().with_raw_output(json!({"small": 1}))),
        update(json!({"rawOutput": {"small": 1}}))
    );
    let last =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"});
    assert!(send(end()) == json!([chunk(&long), chunk("b"), last]));
}

#[test]
fn a_draft_v2_permission_request_contains_deferred_fields() {
    let mut sent = wire::v2::V2Projection::new();
    drop(sent.updates_for_call_patch(&id(), &announce()));
    let long = Content::from_text("x".repeat(65 * 1024));
    let patch = ToolCallPatch::new().with_content(vec![long]).with_raw_input(large("i"));
    assert!(sent.updates_for_call_patch(&id(), &patch).is_empty());
    assert!(
        sent.updates_for_call_patch(
            &id(),
            &ToolCallPatch::new().with_appended_content(Content::from_text("y"))
        )
        .is_empty()
    );
    let request =
        crate::json(&sent.permission_request_for_call("s".into(), &id(), Vec::new()).unwrap());
    let asked = &request["subject"]["toolCall"];
    assert!(asked["rawInput"] == large("i"));
    assert_eq!(asked["content"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        crate::json(&sent.updates_for_call_patch(&id(), &end())),
        update(json!({"status": "completed"}))
    );
}

/// v1 repeats the whole content for each added item, so updates must become rarer as the content
/// grows.
#[test]
fn resent_bytes_of_growing_content_are_limited() {
    let (mut sent, mut bytes, mut count, mut document) = (running(), 0, 0, 0);
    for number in 0..400 {
        let item = format!("{number:04}{}", "x".repeat(1020));
        document += item.len();
        let updates = sent.updates_for_call_patch(
            &id(),
            ToolCallPatch::new().with_appended_content(Content::from_text(item)),
        );
        count += updates.len();
        bytes += crate::json(&updates).to_string().len();
    }
    bytes += crate::json(&sent.updates_for_call_patch(&id(), end())).to_string().len();
    assert!(bytes <= 3 * document + 64 * 1024, "{bytes} bytes for {document}");
    assert!(count >= 10, "{count} updates");
}

#[test]
fn a_streamed_line_is_bounded_with_its_metadata() {
    let trace = TraceContext {
        baggage: Some(format!("k={}", "v".repeat(8_000))),
        ..TraceContext::default()
    };
    let mut meta = CallMeta::default();
    meta.trace = trace;
    let patch = ToolCallPatch::new().with_raw_output(json!("x".repeat(55 * 1024))).with_meta(meta);
    let v1 = crate::json(&running().updates_for_call_patch(&id(), &patch)).to_string();
    let mut sent = wire::v2::V2Projection::default();
    drop(sent.updates_for_call_patch(&id(), &announce()));
    let v2 = serde_json::to_string(&sent.updates_for_call_patch(&id(), &patch)).unwrap();
    for line in [v1, v2] {
        assert!(line.len() <= 60 * 1024, "{}", line.len());
    }
}

/// Returns a change with `lines` added lines of 100 bytes each.
fn change(path: &str, lines: usize) -> Content {
    let line = HunkLine { tag: LineTag::Added, text: "x".repeat(99) + "\n" };
    let hunks = vec![Hunk { old_start: 0, new_start: 1, lines: vec![line; lines] }];
    Content::Change(FileChange::new(FileChangeOperation::Add, path).with_hunks(hunks))
}

/// Returns the number of diffs and the texts in the first of `updates`. A client that ignores
/// permission requests shows only these items.
fn shown(updates: &Value) -> (usize, Vec<String>) {
    let items = updates[0]["content"].as_array().unwrap();
    let diffs = items.iter().filter(|item| item["type"] == "diff").count();
    let texts = items.iter().filter_map(|item| item["content"]["text"].as_str());
    (diffs, texts.map(str::to_owned).collect())
}

#[test]
fn a_change_too_large_for_an_update_is_sent_as_an_excerpt_with_a_count() {
    let many = (0..200).map(|file| change(&format!("/p/{file}"), 5)).collect();
    for (content, diffs, notes) in [
        (vec![change("/p/a", 1000)], 1, &["/p/a: +454 −0 more lines are not shown."][..]),
        (
            many,
            92,
            &[
                "/p/91: +4 −0 more lines are not shown.",
                "108 more files with +540 −0 lines are not shown.",
            ],
        ),
    ] {
        let mut sent = V1Projection::new(TerminalDisplay::Text);
        drop(sent.updates_for_call_patch(&id(), announce()));
        let patch = ToolCallPatch::new().with_content(content);
        let updates = crate::json(&sent.updates_for_call_patch(&id(), &patch));
        assert!(updates.to_string().len() <= 60 * 1024);
        assert_eq!(shown(&updates), (diffs, notes.iter().map(|note| (*note).to_owned()).collect()));
        assert_eq!(crate::json(&sent.updates_for_call_patch(&id(), &patch)), json!([]));
        // The permission request contains the whole content, and no further update repeats it.
        let request =
            crate::json(&sent.permission_request_for_call("s".into(), &id(), Vec::new()).unwrap());
        assert!(request["toolCall"]["content"].to_string().len() > 90 * 1024);
        assert_eq!(
            crate::json(&sent.updates_for_call_patch(&id(), end())),
            update(json!({"status": "completed"}))
        );
    }
}

#[test]
fn an_excerpt_that_nearly_fills_an_update_leaves_room_for_its_note() {
    let long = "x".repeat(2_000) + "\n";
    for length in (56_000..57_400).step_by(20) {
        let filling = "x".repeat(length) + "\n";
        let items = [("/p/a", filling), ("/p/b", long.clone())].map(|(path, text)| {
            let lines = vec![HunkLine { tag: LineTag::Added, text }];
            let hunks = vec![Hunk { old_start: 0, new_start: 1, lines }];
            FileChange::new(FileChangeOperation::Add, path).with_hunks(hunks).into()
        });
        let patch = ToolCallPatch::new().with_content(items.into());
        let updates = crate::json(&running().updates_for_call_patch(&id(), &patch));
        assert!(updates.to_string().len() <= 60 * 1024);
        assert!(updates[0]["content"].is_array(), "{length}");
    }
}

#[test]
fn whole_texts_too_large_for_an_update_are_sent_as_an_excerpt_with_a_count() {
    let text: String = (0..20_000).map(|number| format!("line {number} of a file\n")).collect();
    let new_text = Some(text);
    let mut change = FileChange::new(FileChangeOperation::Add, "/p/a");
    change.new_text = new_text;
    let updates =
        crate::json(&running().updates_for_call_patch(
            &id(),
            ToolCallPatch::new().with_appended_content(change.into()),
        ));
    assert!(updates.to_string().len() <= 60 * 1024);
    let (diffs, notes) = shown(&updates);
    assert_eq!((diffs, notes.len()), (1, 1), "{notes:?}");
    assert!(notes[0].ends_with(" more lines are not shown."), "{notes:?}");
}

/// Returns the content of the update that a change of a running call causes.
fn excerpt(lines: &[(LineTag, &str)]) -> Value {
    let line = |(tag, text): &(LineTag, &str)| HunkLine { tag: *tag, text: (*text).to_owned() };
    let hunk = Hunk { old_start: 7, new_start: 9, lines: lines.iter().map(line).collect() };
    let change = FileChange::new(FileChangeOperation::Modify, "/p/a").with_hunks(vec![hunk]);
    let patch = ToolCallPatch::new().with_content(vec![change.into()]);
    crate::json(&running().updates_for_call_patch(&id(), &patch))[0]["content"].clone()
}

#[test]
fn an_excerpt_leaves_out_long_context_lines_and_keeps_the_changed_lines() {
    let long = "x".repeat(60 * 1024) + "\n";
    let context = |text| (LineTag::Context, text);
    let [old, new] = [(LineTag::Removed, "old\n"), (LineTag::Added, "new\n")];
    let diff = |start: [u32; 2], old: &str, new: &str| {
        let meta =
            json!({"callboard": {"kind": "modify", "oldStart": start[0], "newStart": start[1]}});
        json!({"type": "diff", "path": "/p/a", "oldText": old, "newText": new, "_meta": meta})
    };
    for (lines, expected) in [
        (
            vec![context("a\n"), context(&long), context("b\n"), old, new, context("c\n")],
            json!([diff([9, 11], "b\nold\nc\n", "b\nnew\nc\n")]),
        ),
        (
            vec![context("a\n"), new, context(&long), old, context(&long)],
            json!([diff([7, 9], "a\n", "a\nnew\n"), diff([9, 12], "old\n", "")]),
        ),
        (
            vec![context("a\n"), old, (LineTag::Added, &long)],
            json!([diff([7, 9], "a\nold\n", "a\n"),
                   {"type": "content", "content":
                    {"type": "text", "text": "/p/a: +1 −0 more line is not shown."}}]),
        ),
        (
            vec![context("a\n"), (LineTag::Removed, &long), new],
            json!([{"type": "content", "content":
                    {"type": "text", "text": "/p/a: +1 −1 more lines are not shown."}}]),
        ),
    ] {
        assert_eq!(excerpt(&lines), expected);
    }
}
