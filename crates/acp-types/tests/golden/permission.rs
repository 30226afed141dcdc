//! Permission requests, which repeat all fields of the call.

use acp_types::wire::{self, v1::TerminalDisplay};
use acp_types::{
    CallMeta, Content, Location, PermissionOption, PermissionOptionKind, ToolCallPatch, ToolKind,
};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::id;

fn call() -> ToolCallPatch {
    let mut meta = CallMeta::default();
    meta.queued_ms = Some(4);
    ToolCallPatch::for_new_call("edit_file", "Edit a.rs", ToolKind::Edit)
        .with_raw_input(json!({"path": "a.rs"}))
        .with_locations(vec![Location::try_new("/p/a.rs").unwrap().with_line(3)])
        .with_content(vec![Content::from_text("one")])
        .with_meta(meta)
}

fn options() -> Vec<PermissionOption> {
    vec![
        PermissionOption::new("once", "Allow", PermissionOptionKind::AllowOnce),
        PermissionOption::new("always", "Always", PermissionOptionKind::AllowAlways),
        PermissionOption::new("no", "Reject", PermissionOptionKind::RejectOnce),
        PermissionOption::new("never", "Never", PermissionOptionKind::RejectAlways),
    ]
}

#[test]
fn a_v1_request_repeats_the_call() {
    let mut sent = wire::v1::V1Projection::new(TerminalDisplay::Text);
    drop(sent.updates_for_call_patch(&id(), call()));
    assert_eq!(
        crate::json(&sent.permission_request_for_call("s".into(), &id(), options())),
        json!({
            "sessionId": "s",
            "toolCall": {
                "toolCallId": "c", "title": "Edit a.rs", "name": "edit_file", "kind": "edit",
                "status": "pending", "rawInput": {"path": "a.rs"},
                "locations": [{"path": "/p/a.rs", "line": 3}],
                "content": [{"type": "content", "content": {"type": "text", "text": "one"}}],
                "_meta": {"callboard": {"queuedMs": 4}},
            },
            "options": [
                {"optionId": "once", "name": "Allow", "kind": "allow_once"},
                {"optionId": "always", "name": "Always", "kind": "allow_always"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
                {"optionId": "never", "name": "Never", "kind": "reject_always"},
            ],
        })
    );
}

#[test]
fn a_v1_request_always_contains_kind_and_status() {
    let mut sent = wire::v1::V1Projection::new(TerminalDisplay::Text);
    drop(
        sent.updates_for_call_patch(&id(), ToolCallPatch::for_new_call("x", "X", ToolKind::Other)),
    );
    let call =
        &crate::json(&sent.permission_request_for_call("s".into(), &id(), Vec::new()))["toolCall"];
    assert_eq!((&call["kind"], &call["status"]), (&json!("other"), &json!("pending")));
}

#[test]
fn a_v2_request_has_the_call_as_its_subject() {
    let mut sent = wire::v2::V2Projection::new();
    drop(sent.updates_for_call_patch(&id(), &call()));
    assert_eq!(
        crate::json(&sent.permission_request_for_call("s".into(), &id(), options())),
        json!({
            "sessionId": "s",
            "title": "Edit a.rs",
            "subject": {"type": "tool_call", "toolCall": {
                "toolCallId": "c", "title": "Edit a.rs", "name": "edit_file", "kind": "edit",
                "status": "pending", "rawInput": {"path": "a.rs"},
                "locations": [{"path": "/p/a.rs", "line": 3}],
                "content": [{"type": "content", "content": {"type": "text", "text": "one"}}],
                "_meta": {"callboard": {"queuedMs": 4}},
            }},
            "options": [
                {"optionId": "once", "name": "Allow", "kind": "allow_once"},
                {"optionId": "always", "name": "Always", "kind": "allow_always"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
                {"optionId": "never", "name": "Never", "kind": "reject_always"},
            ],
        })
    );
}

#[test]
fn an_unknown_call_has_no_permission_request() {
    let mut v1 = wire::v1::V1Projection::new(TerminalDisplay::Text);
    assert!(v1.permission_request_for_call("s".into(), &id(), Vec::new()).is_none());
    assert!(
        wire::v2::V2Projection::new()
            .permission_request_for_call("s".into(), &id(), Vec::new())
            .is_none()
    );
}
