//! The fields of a tool call in first reports and in updates.

use std::time::{Duration, SystemTime};

use acp_types::wire::{self, v1::TerminalDisplay};
use acp_types::{
    CallCapabilities, CallEndReason, CallMeta, Content, Location, OmittedCounts, Progress, Status,
    ToolCallPatch, ToolKind, TraceContext,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{announce, id, v1_document, v2_document};

/// Checks the messages that both projections send for a sequence of patches. For each patch, each
/// projection sends one array of messages.
fn check(patches: &[(ToolCallPatch, Value, Value)]) {
    let mut v1 = wire::v1::V1Projection::new(TerminalDisplay::Text);
    let mut v2 = wire::v2::V2Projection::new();
    for (patch, as_v1, as_v2) in patches {
        assert_eq!(&crate::json(&v1.updates_for_call_patch(&id(), patch)), as_v1, "v1");
        assert_eq!(&crate::json(&v2.updates_for_call_patch(&id(), patch)), as_v2, "v2");
    }
}

#[test]
fn a_first_report_always_contains_kind_and_status() {
    for (kind, name) in [(ToolKind::Other, "other"), (ToolKind::Edit, "edit")] {
        for (status, status_name) in [(None, "pending"), (Some(Status::Completed), "completed")] {
            let mut sent = wire::v1::V1Projection::new(TerminalDisplay::Text);
            let mut patch = ToolCallPatch::for_new_call("tool", "A title", kind);
            patch.status = status;
            assert_eq!(
                crate::json(&sent.updates_for_call_patch(&id(), patch)),
                json!([{
                    "sessionUpdate": "tool_call", "toolCallId": "c", "title": "A title",
                    "name": "tool", "kind": name, "status": status_name,
                }])
            );
        }
    }
}

#[test]
fn a_complete_lifecycle() {
    check(&[
        (
            announce()
                .with_raw_input(json!({"path": "a"}))
                .with_appended_content(Content::from_text("one")),
            json!([{
                "sessionUpdate": "tool_call", "toolCallId": "c", "title": "A title", "name": "tool",
                "kind": "read", "status": "pending", "rawInput": {"path": "a"},
                "content": [{"type": "content", "content": {"type": "text", "text": "one"}}],
            }]),
            json!([{
                "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "A title",
                "name": "tool", "kind": "read", "status": "pending", "rawInput": {"path": "a"},
                "content": [{"type": "content", "content": {"type": "text", "text": "one"}}],
            }]),
        ),
        (
            ToolCallPatch::new().with_status(Status::InProgress).with_title("Another"),
            json!([{
                "sessionUpdate": "tool_call_update", "toolCallId": "c",
                "title": "Another", "status": "in_progress",
            }]),
            json!([{
                "sessionUpdate": "tool_call_update", "toolCallId": "c",
                "title": "Another", "status": "in_progress",
            }]),
        ),
        (
            ToolCallPatch::new().with_appended_content(Content::from_text("two")),
            json!([{
                "sessionUpdate": "tool_call_update", "toolCallId": "c",
                "content": [
                    {"type": "content", "content": {"type": "text", "text": "one"}},
                    {"type": "content", "content": {"type": "text", "text": "two"}},
                ],
            }]),
            json!([{
                "sessionUpdate": "tool_call_content_chunk", "toolCallId": "c",
                "content": {"type": "content", "content": {"type": "text", "text": "two"}},
            }]),
        ),
        (
            // Values that the client already holds are not sent again.
            ToolCallPatch::new().with_title("Another").with_raw_input(json!({"path": "a"})),
            json!([]),
            json!([]),
        ),
        (
            ToolCallPatch::new().with_content(Vec::new()),
            json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": []}]),
            json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": []}]),
        ),
        (
            ToolCallPatch::new()
                .with_status(Status::Completed)
                .with_raw_output(json!({"lines": 2})),
            json!([{
                "sessionUpdate": "tool_call_update", "toolCallId": "c",
                "status": "completed", "rawOutput": {"lines": 2},
            }]),
            json!([{
                "sessionUpdate": "tool_call_update", "toolCallId": "c",
                "status": "completed", "rawOutput": {"lines": 2},
            }]),
        ),
    ]);
}

#[test]
fn a_rejection_contains_its_reason() {
    for (reason, word) in [(CallEndReason::User, "user"), (CallEndReason::Approver, "approver")] {
        let mut meta = CallMeta::default();
        meta.reason = Some(reason);
        let rejected = ToolCallPatch::new().with_status(Status::Failed).with_meta(meta);
        let update = json!([{
            "sessionUpdate": "tool_call_update", "toolCallId": "c",
            "status": "failed", "_meta": {"callboard": {"reason": word}},
        }]);
        let mut v1 = wire::v1::V1Projection::new(TerminalDisplay::Text);
        let mut v2 = wire::v2::V2Projection::new();
        drop((
            v1.updates_for_call_patch(&id(), announce()),
            v2.updates_for_call_patch(&id(), &announce()),
        ));
        assert_eq!(crate::json(&v1.updates_for_call_patch(&id(), &rejected)), update, "v1");
        assert_eq!(crate::json(&v2.updates_for_call_patch(&id(), &rejected)), update, "v2");
    }
}

#[test]
fn a_cancelled_call_is_failed_in_v1_with_its_reason() {
    let cancelled = |reason| {
        let mut meta = CallMeta::default();
        meta.reason = Some(reason);
        ToolCallPatch::new().with_status(Status::Cancelled).with_meta(meta)
    };
    for (reason, word, sentence) in [
        (CallEndReason::User, "user", "Cancelled by the user."),
        (CallEndReason::Turn, "turn", "Cancelled with its turn."),
        (CallEndReason::Shutdown, "shutdown", "Ended because the session or the agent ended."),
    ] {
        let first = announce().with_content(vec![Content::from_text("one")]);
        let one = json!({"type": "content", "content": {"type": "text", "text": "one"}});
        let why = json!({"type": "content", "content": {"type": "text", "text": sentence}});
        let mut v1 = wire::v1::V1Projection::new(TerminalDisplay::Text);
        let mut v2 = wire::v2::V2Projection::new();
        drop((v1.updates_for_call_patch(&id(), &first), v2.updates_for_call_patch(&id(), &first)));
        assert_eq!(
            crate::json(&v1.updates_for_call_patch(&id(), cancelled(reason))),
            json!([{
                "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed",
                "content": [one, why], "_meta": {"callboard": {"reason": word}},
            }])
        );
        assert_eq!(
            crate::json(&v2.updates_for_call_patch(&id(), &cancelled(reason))),
            json!([{
                "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "cancelled",
                "_meta": {"callboard": {"reason": word}},
            }])
        );
        assert_eq!(v1_document(&first.then(cancelled(reason)), None)["content"], json!([one, why]));
    }
}

#[test]
fn statuses() {
    for (status, v1, v2) in [
        // The default status of v1 is omitted.
        (Status::Pending, Value::Null, json!("pending")),
        (Status::InProgress, json!("in_progress"), json!("in_progress")),
        (Status::Paused, json!("in_progress"), json!("paused")),
        (Status::Completed, json!("completed"), json!("completed")),
        (Status::Failed, json!("failed"), json!("failed")),
        (Status::Cancelled, json!("failed"), json!("cancelled")),
    ] {
        let patch = announce().with_status(status);
        assert_eq!(v1_document(&patch, None)["status"], v1, "{status:?}");
        assert_eq!(v2_document(&patch)["status"], v2, "{status:?}");
        let mut sent = wire::v1::V1Projection::new(TerminalDisplay::Text);
        drop(sent.updates_for_call_patch(&id(), announce()));
        let update = crate::json(
            &sent.updates_for_call_patch(&id(), ToolCallPatch::new().with_status(status)),
        );
        assert_eq!(update[0]["status"], v1, "{status:?}");
        let mut sent = wire::v2::V2Projection::new();
        assert_eq!(
            crate::json(&sent.updates_for_call_patch(&id(), &patch))[0]["status"],
            v2,
            "{status:?}"
        );
    }
}

#[test]
fn kinds() {
    for (kind, word) in [
        (ToolKind::Read, "read"),
        (ToolKind::Edit, "edit"),
        (ToolKind::Delete, "delete"),
        (ToolKind::Move, "move"),
        (ToolKind::Search, "search"),
        (ToolKind::Execute, "execute"),
        (ToolKind::Think, "think"),
        (ToolKind::Fetch, "fetch"),
        (ToolKind::SwitchMode, "switch_mode"),
        (ToolKind::Other, "other"),
    ] {
        let patch = ToolCallPatch::for_new_call("tool", "A title", kind);
        let mut sent = wire::v1::V1Projection::new(TerminalDisplay::Text);
        assert_eq!(crate::json(&sent.updates_for_call_patch(&id(), &patch))[0]["kind"], word);
        let mut sent = wire::v2::V2Projection::new();
        assert_eq!(crate::json(&sent.updates_for_call_patch(&id(), &patch))[0]["kind"], word);
        assert_eq!(v2_document(&patch)["kind"], word);
    }
}

#[test]
fn locations_contain_known_lines() {
    let file = |path| Location::try_new(path).unwrap();
    let patch = announce().with_locations(vec![file("/p/a.rs"), file("/p/b.rs").with_line(7)]);
    let expected = json!([{"path": "/p/a.rs"}, {"path": "/p/b.rs", "line": 7}]);
    assert_eq!(v1_document(&patch, None)["locations"], expected);
    assert_eq!(v2_document(&patch)["locations"], expected);
    let none = json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c", "locations": []}]);
    let mut v1 = wire::v1::V1Projection::new(TerminalDisplay::Text);
    let mut v2 = wire::v2::V2Projection::new();
    assert_eq!(crate::json(&v1.updates_for_call_patch(&id(), &patch))[0]["locations"], expected);
    assert_eq!(crate::json(&v2.updates_for_call_patch(&id(), &patch))[0]["locations"], expected);
    let clear = ToolCallPatch::new().with_locations(Vec::new());
    assert_eq!(crate::json(&v1.updates_for_call_patch(&id(), &clear)), none);
    assert_eq!(crate::json(&v2.updates_for_call_patch(&id(), &clear)), none);
}

#[test]
fn capabilities_are_sent_only_in_v2() {
    let can = |cancel| {
        let mut capabilities = CallCapabilities::default();
        capabilities.cancel = cancel;
        announce().with_capabilities(capabilities)
    };
    for (cancel, expected) in [(true, json!({"cancel": {}})), (false, json!({}))] {
        assert_eq!(v2_document(&can(cancel))["capabilities"], expected);
        let mut sent = wire::v2::V2Projection::new();
        let first = crate::json(&sent.updates_for_call_patch(&id(), &can(cancel)));
        assert_eq!(first[0]["capabilities"], expected);
        assert_eq!(v1_document(&can(cancel), None)["capabilities"], Value::Null);
    }
}

#[test]
fn metadata_is_under_one_key_and_its_trace_at_the_root() {
    let mut meta = CallMeta::default();
    meta.started_at = Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
    meta.duration_ms = Some(30);
    meta.queued_ms = Some(4);
    meta.progress = Some(Progress::new(1.0).with_total(2.0).with_message("half".to_owned()));
    meta.parent = Some("p".to_owned());
    meta.batch = Some("b".to_owned());
    meta.retry_of = Some("r".to_owned());
    meta.reason = Some(CallEndReason::Timeout);
    meta.may_have_acted = Some(true);
    meta.arriving = [("content".to_owned(), 7)].into();
    meta.exit_code = Some(2);
    meta.signal = Some("SIGTERM".to_owned());
    meta.output_bytes = Some(70_000);
    let mut dropped = OmittedCounts::default();
    (dropped.raw_bytes, dropped.redacted) = (6, 2);
    (dropped.items, dropped.locations) = (1, 3);
    meta.dropped = Some(dropped);
    meta.title = Some(json!({"key": "read-file"}));
    meta.trace = TraceContext {
        traceparent: Some("00-1-2-01".to_owned()),
        tracestate: Some("v=1".to_owned()),
        baggage: Some("u=2".to_owned()),
    };
    meta.custom = [("mine".to_owned(), json!(true))].into_iter().collect();
    let object = json!({
        "startedAt": 1500, "durationMs": 30, "queuedMs": 4,
        "progress": {"current": 1.0, "total": 2.0, "message": "half", "percent": 50},
        "parent": "p", "batch": "b", "retryOf": "r", "reason": "timeout",
        "mayHaveActed": true, "arriving": {"content": 7},
        "exitCode": 2, "signal": "SIGTERM", "outputBytes": 70_000,
        "dropped": {"rawBytes": 6, "redacted": 2, "items": 1, "locations": 3},
        "title": {"key": "read-file"}, "mine": true,
    });
    let under = |key: &str| json!({ key: object, "traceparent": "00-1-2-01", "tracestate": "v=1", "baggage": "u=2" });
    let patch = announce().with_meta(meta.clone());
    assert_eq!(v1_document(&patch, None)["_meta"], under("callboard"));
    assert_eq!(v2_document(&patch)["_meta"], under("callboard"));
    let mut v1 = wire::v1::V1Projection::new(TerminalDisplay::Text).with_meta_key("own");
    let mut v2 = wire::v2::V2Projection::new().with_meta_key("own");
    assert_eq!(crate::json(&v1.updates_for_call_patch(&id(), &patch))[0]["_meta"], under("own"));
    assert_eq!(crate::json(&v2.updates_for_call_patch(&id(), &patch))[0]["_meta"], under("own"));
}

#[test]
fn patches_of_ended_or_unannounced_calls_are_dropped() {
    let (mut v1, mut v2) =
        (wire::v1::V1Projection::new(TerminalDisplay::Text), wire::v2::V2Projection::new());
    let end = || ToolCallPatch::new().with_status(Status::Completed);
    let mut progress = CallMeta::default();
    progress.progress = Some(Progress::new(1.0));
    let progress = ToolCallPatch::new().with_meta(progress);
    let running = ToolCallPatch::new().with_status(Status::InProgress);
    let unknown = [running, end(), ToolCallPatch::new(), progress.clone()];
    for patch in &unknown {
        assert_eq!(crate::json(&v1.updates_for_call_patch(&id(), patch)), json!([]), "{patch:?}");
        assert_eq!(crate::json(&v2.updates_for_call_patch(&id(), patch)), json!([]), "{patch:?}");
    }
    assert_eq!((v1.dropped_patch_count(), v2.dropped_patch_count()), (4, 4));
    for patch in [announce(), end()] {
        assert_eq!(v1.updates_for_call_patch(&id(), &patch).len(), 1);
        assert_eq!(v2.updates_for_call_patch(&id(), &patch).len(), 1);
    }
    let late = [announce(), end(), ToolCallPatch::new().with_title("Late"), progress];
    for patch in &late {
        assert_eq!(crate::json(&v1.updates_for_call_patch(&id(), patch)), json!([]), "{patch:?}");
        assert_eq!(crate::json(&v2.updates_for_call_patch(&id(), patch)), json!([]), "{patch:?}");
    }
    assert_eq!((v1.dropped_patch_count(), v2.dropped_patch_count()), (8, 8));
    assert!(v1.permission_request_for_call("s".into(), &id(), Vec::new()).is_none());
    assert!(v2.permission_request_for_call("s".into(), &id(), Vec::new()).is_none());
}
