//! Tests of the settings of a session: each setting takes effect and is limited to its maximum.

use std::time::{Duration, Instant, SystemTime};

use acp_lifecycle::{
    CallEnd, CancellationToken, Effects, OutboxItem, Session, SessionConfig, SessionHandle,
    Timestamp, ToolMiddleware,
};
use acp_types::{Content, ToolCallPatch, ToolKind};
use pretty_assertions::assert_eq;
use serde_json::json;

/// Runs one call with 100 bytes of raw input and 100 bytes of content, and returns how many bytes
/// of raw input and of content the final document contains.
fn sizes(config: SessionConfig) -> (usize, usize) {
    let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    let mut session = Session::new("/p").with_config(config);
    let (id, patch) = ("c".into(), ToolCallPatch::for_new_call("x", "X", ToolKind::Other));
    let patch = patch
        .with_raw_input(json!("r".repeat(100)))
        .with_appended_content(Content::from_text("t".repeat(100)));
    session.announce_call(&id, &"t".into(), patch, now);
    session.finish_call(&id, CallEnd::completed(), now);
    let report = session.board().history().get(&id).unwrap();
    let raw = report.raw_input.as_ref().map_or(0, |raw| raw.to_string().len());
    (raw, report.content.iter().map(Content::approximate_json_len).sum())
}

#[test]
fn content_and_raw_values_are_truncated_to_their_settings() {
    let (raw, content) = sizes(SessionConfig::default());
    assert!(raw == 102 && content >= 100, "{raw} and {content}");
    let config = SessionConfig::default();
    assert_eq!(sizes(config.with_max_content_bytes(99)), (raw, 0));
    for (bytes, max) in [(80, 80), (1, 64)] {
        let (raw, same) = sizes(config.with_max_raw_bytes(bytes));
        assert!((max - 10..=max).contains(&raw) && same == content, "{raw} of {bytes}");
    }
    assert_eq!(sizes(config.with_max_content_bytes(0).with_max_raw_bytes(0)), (0, 0));
}

#[test]
fn updates_keep_the_configured_interval() {
    let millis = Duration::from_millis;
    for (interval, expected) in [
        (millis(0), millis(10)),
        (millis(200), millis(200)),
        (Duration::MAX, Duration::from_secs(10)),
    ] {
        let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
        let config = SessionConfig::default().with_update_interval(interval);
        let mut session = Session::new("/p").with_config(config);
        let (id, patch) = ("c".into(), ToolCallPatch::for_new_call("x", "X", ToolKind::Other));
        session.announce_call(&id, &"t".into(), patch, now);
        session.start_call(&id, now);
        while session.poll(now.monotonic).is_some() {}
        session.update_call(&id, ToolCallPatch::new().with_title("Y"), now);
        assert_eq!(session.next_poll_deadline(), Some(now.monotonic + expected));
        assert!(matches!(session.poll(now.monotonic + expected), Some(OutboxItem::ToolCall(..))));
    }
}

#[test]
fn settings_are_clamped_to_their_bounds() {
    let config = SessionConfig::default();
    let largest = config.with_max_content_bytes(usize::MAX).with_max_raw_bytes(usize::MAX);
    assert_eq!(largest, config);
    let text = config.with_max_shown_result_bytes(usize::MAX);
    assert_eq!(text, config.with_max_shown_result_bytes(256 * 1024));
}

#[tokio::test(start_paused = true)]
async fn result_and_error_text_is_truncated_to_its_limits() {
    let base = SessionConfig::default();
    let cut = |shown: usize| format!("{}… and {} more bytes", "x".repeat(shown), 4000 - shown);
    let cases = [
        (base, "x".repeat(4000)),
        (base.with_max_shown_result_bytes(10), cut(10)),
        (base.with_max_shown_result_bytes(0), cut(0)),
        // Two quotes and the count of omitted bytes also use a part of the content size.
        (base.with_max_content_bytes(2000), cut(2000 - 2 - cut(0).len())),
        (base.with_max_content_bytes(2 + cut(0).len()), cut(0)),
    ];
    for ((config, expected), fails) in cases.iter().flat_map(|case| [(case, false), (case, true)]) {
        let session = Session::new("/p").with_config(*config);
        let session = SessionHandle::new(session, SystemTime::now);
        let tools = ToolMiddleware::new(session.clone()).with_effects(|_, _| Effects::empty());
        let cancel = CancellationToken::new();
        let tool = async |_: &str, _| match fails {
            true => Err("x".repeat(4000)),
            false => Ok("x".repeat(4000)),
        };
        let result = tools
            .call(&"t".into(), "a", "x", json!({}), &cancel, |name, args| {
                Box::pin(tool(name, args))
            })
            .await;
        assert_eq!(result.is_err(), fails);
        let whole = result.unwrap_or_else(|ended| ended.text);
        assert_eq!(whole, "x".repeat(4000), "the caller has it whole");
        let call = session.call_report(&"t/a".into()).unwrap();
        assert_eq!(call.content, [Content::from_text(expected)]);
    }
}
