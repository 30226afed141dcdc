//! Tests of the shown fields of a call that contain secrets, field by field, and of the fields that
//! stay unchanged.

use std::time::{Instant, SystemTime};

use acp_lifecycle::{
    Effect, Effects, PermissionSubject, PermitDecision, Secrets, Session, Timestamp, Titles,
};
use acp_types::schema::v1::{
    ContentBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent, TextResourceContents,
};
use acp_types::{
    CallMeta, Content, FileChange, FileChangeOperation, Location, PermissionOptionKind,
    TerminalPatch, ToolCallPatch, ToolKind,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Maximum number of locations of a call.
const MAX_LOCATIONS: usize = 20;

/// Maximum size of a command in a title, in bytes.
const MAX_TITLE_COMMAND_BYTES: usize = 4 * 1024;

const SECRET: &str = "12345678";

/// Returns a session with one announced call that has no content yet.
fn announced() -> (Session, Timestamp) {
    let mut session = Session::new("/p");
    session.set_secrets(Secrets::new([SECRET]));
    let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    let patch = ToolCallPatch::for_new_call("tool", "Do it", ToolKind::Other);
    assert!(session.announce_call(&"c".into(), &"t".into(), patch, now));
    (session, now)
}

fn shown_input(input: Value) -> (Option<Value>, CallMeta) {
    let (mut session, now) = announced();
    session.update_call(&"c".into(), ToolCallPatch::new().with_raw_input(input), now);
    let report = session.board().open_call_report(&"c".into()).unwrap();
    (report.raw_input.clone(), report.meta.clone())
}

#[test]
fn redacted_arguments_keep_their_shape_and_are_counted() {
    for (input, expected, redacted) in [
        (json!({"path": "a", "max_tokens": 5}), json!({"path": "a", "max_tokens": 5}), 0),
        (json!({"password": "x", "n": 1}), json!({"password": "[redacted]", "n": 1}), 1),
        (json!({"apiKey": ["x", 1, null, ""]}), json!({"apiKey": ["[redacted]", 1, null, ""]}), 1),
        (
            json!({"auth_token": {"kind": "x", "deep": {"a": true}}, "b": "c"}),
            json!({"auth_token": {"kind": "[redacted]", "deep": {"a": true}}, "b": "c"}),
            1,
        ),
        (json!(12_345_678), json!(0), 1),
        (json!("-12345678-"), json!("-[redacted]-"), 1),
        (json!({"12345678": 1, "[redacted]": 2}), json!({"[redacted]": 1, "[redacted]_": 2}), 1),
        (json!({"url": "https://a:b@c/d"}), json!({"url": "https://[redacted]@c/d"}), 1),
        (json!({"password": "[redacted]"}), json!({"password": "[redacted]"}), 0),
    ] {
        let (shown, meta) = shown_input(input);
        assert_eq!(shown, Some(expected));
        assert_eq!(meta.dropped.unwrap_or_default().redacted, redacted);
    }
    assert_eq!(shown_input(Value::Null).0, None);
}

#[test]
fn long_arguments_are_truncated_and_omitted_bytes_are_counted() {
    let (shown, meta) = shown_input(json!({"path": "a", "content": "x".repeat(100_000)}));
    let shown = shown.unwrap();
    assert_eq!(shown["path"], "a");
    let content = shown["content"].as_str().unwrap();
    assert!(content.ends_with(" more bytes") && shown.to_string().len() <= 64 * 1024);
    let left_out = json!({"path": "a", "content": "x".repeat(100_000)}).to_string().len()
        - shown.to_string().len();
    assert_eq!(meta.dropped.unwrap().raw_bytes, left_out as u64);
}

/// Returns `count` locations.
fn places(count: usize) -> Vec<Location> {
    (0..count).map(|index| Location::try_new(format!("/p/{index}")).unwrap()).collect()
}

#[test]
fn locations_over_the_limit_are_omitted_and_counted() {
    let (mut session, now) = announced();
    for (given, shown, left_out) in
        [(MAX_LOCATIONS + 3, MAX_LOCATIONS, 3), (MAX_LOCATIONS, MAX_LOCATIONS, 0), (0, 0, 0)]
    {
        session.update_call(&"c".into(), ToolCallPatch::new().with_locations(places(given)), now);
        session.update_call_meta(&"c".into(), |meta| meta.exit_code = Some(1), now);
        let report = session.board().open_call_report(&"c".into()).unwrap();
        let dropped = report.meta.dropped.clone().unwrap_or_default();
        assert_eq!((report.locations.len(), dropped.locations), (shown, left_out));
    }
}

/// Requests permission. Returns the kinds of the permission options, and the last content item that
/// the call shows during the request.
fn asked(
    tell: impl FnOnce(&mut Session, Timestamp),
) -> (Vec<PermissionOptionKind>, Option<Content>) {
    let (mut session, now) = announced();
    tell(&mut session, now);
    let effects = Effects::from(Effect::Write("/p/a".into()));
    let subject = PermissionSubject::for_call("tool", &json!(1), "/p".as_ref(), b"");
    let permit = session.decide_or_ask_permission(&"c".into(), &effects, subject, true, now);
    let PermitDecision::AwaitingAnswer(id) = permit else { panic!("{permit:?}") };
    let request = session.pending_permission_request(id).expect("the client is asked");
    let kinds = request.options.iter().map(|option| option.kind);
    let content = &session.board().open_call_report(&"c".into()).unwrap().content;
    (kinds.collect(), content.last().cloned())
}

#[test]
fn a_call_not_shown_in_full_has_a_note_and_is_allowed_only_once() {
    let note = "Not everything of this call is shown: secrets are hidden, or what is long is cut.";
    let once = [PermissionOptionKind::AllowOnce, PermissionOptionKind::RejectOnce];
    let long = json!({ "content": "x".repeat(100_000) });
    for patch in [
        ToolCallPatch::new().with_raw_input(json!({ "token": "x" })),
        ToolCallPatch::new().with_raw_input(long),
        ToolCallPatch::new().with_title("Send 12345678"),
        ToolCallPatch::new().with_title("x".repeat(3 * MAX_TITLE_COMMAND_BYTES + 1)),
        ToolCallPatch::new().with_appended_content(Content::from_text("12345678")),
        ToolCallPatch::new().with_locations(places(MAX_LOCATIONS + 1)),
    ] {
        let asked = asked(|session, now| session.update_call(&"c".into(), patch, now));
        assert_eq!(asked, (once.to_vec(), Some(Content::from_text(note))));
    }
    let (kinds, content) = asked(|session, now| {
        let open = TerminalPatch::for_new_terminal("echo 12345678", "/p");
        session.announce_terminal(&"c".into(), open, now);
        let patch = ToolCallPatch::new().with_appended_content(Content::Terminal("c".into()));
        session.update_call(&"c".into(), patch, now);
    });
    assert_eq!((kinds, content), (once.to_vec(), Some(Content::from_text(note))));
    let (kinds, content) = asked(|session, now| {
        let patch = ToolCallPatch::new().with_locations(places(MAX_LOCATIONS));
        session.update_call(&"c".into(), patch, now);
    });
    assert_eq!((kinds.len(), content), (4, None));
}

#[test]
fn a_redacted_secret_stays_counted_when_the_metadata_changes() {
    let (kinds, _) = asked(|session, now| {
        session.update_call(&"c".into(), ToolCallPatch::new().with_title("Send 12345678"), now);
        session.update_call(&"c".into(), ToolCallPatch::new().with_title("Send"), now);
        session.update_call_meta(&"c".into(), |meta| meta.exit_code = Some(1), now);
    });
    assert_eq!(kinds.len(), 2);
}

#[test]
fn content_is_redacted_except_for_the_planned_change() {
    let mut change = FileChange::new(FileChangeOperation::Modify, "/p/a");
    change.old_text = Some("old 12345678\n".to_owned());
    change.new_text = Some("new 12345678\n".to_owned());
    let image = ImageContent::new("12345678", "image/png");
    let resource = |text: &str| {
        let text = TextResourceContents::new(text, "file:///a");
        let resource = EmbeddedResourceResource::TextResourceContents(text);
        Content::Block(ContentBlock::Resource(EmbeddedResource::new(resource)))
    };
    let content = vec![
        Content::from_text("a 12345678"),
        Content::Change(change.clone()),
        Content::Block(ContentBlock::Image(image.clone())),
        resource("b 12345678"),
    ];
    let (mut session, now) = announced();
    session.update_call(&"c".into(), ToolCallPatch::new().with_content(content), now);
    let expected = vec![
        Content::from_text("a [redacted]"),
        Content::Change(change),
        Content::Block(ContentBlock::Image(image)),
        resource("b [redacted]"),
    ];
    assert_eq!(session.board().open_call_report(&"c".into()).unwrap().content, expected);
}

#[test]
fn secrets_added_later_are_redacted_from_then_on() {
    let (mut session, now) = announced();
    session.announce_terminal(&"c".into(), TerminalPatch::for_new_terminal("x", "/p"), now);
    session.append_terminal_output(&"c".into(), b"later-secret 1234", now);
    session.set_secrets(Secrets::new([SECRET, "later-secret"]));
    session.append_terminal_output(&"c".into(), b"5678 later-", now);
    session.append_terminal_output(&"c".into(), b"secret", now);
    // Held-back bytes are sent before later bytes, even if the session no longer searches for
    // secrets.
    session.append_terminal_output(&"c".into(), b" 1234", now);
    session.set_secrets(Secrets::default());
    session.append_terminal_output(&"c".into(), b"5678", now);
    session.exit_terminal(&"c".into(), acp_types::TerminalExit::default(), now);
    let output =
        session.board().terminal(&"c".into()).unwrap().output.to_bytes_with_omission_line();
    let output = String::from_utf8_lossy(&output);
    assert_eq!(output, "later-secret [redacted] [redacted] 12345678");
}

#[test]
fn a_partial_secret_before_a_gap_is_redacted() {
    for (before, shown) in [(3, &SECRET[..3]), (4, "[redacted]"), (SECRET.len() - 1, "[redacted]")]
    {
        let (mut session, now) = announced();
        session.announce_terminal(&"c".into(), TerminalPatch::for_new_terminal("x", "/p"), now);
        session.append_terminal_output(&"c".into(), &SECRET.as_bytes()[..before], now);
        session.record_terminal_output_gap(&"c".into(), 70, now);
        session.append_terminal_output(&"c".into(), SECRET.as_bytes(), now);
        session.exit_terminal(&"c".into(), acp_types::TerminalExit::default(), now);
        let output = &session.board().terminal(&"c".into()).unwrap().output;
        let expected = format!("{shown}\n[… 70 bytes left out …]\n[redacted]");
        assert_eq!(String::from_utf8_lossy(&output.to_bytes_with_omission_line()), expected);
        let text = format!("{}\n[... 70 bytes left out ...]\n", &SECRET[..before]);
        let redacted = Secrets::new([SECRET]).redact(&text).into_owned();
        assert!(redacted.starts_with(&format!("{shown}\n[...")), "{redacted}");
    }
}

#[test]
fn the_rest_of_a_truncated_secret_is_redacted() {
    let catalogue = "run = Run `{ $x }`\nshortened = { $start } … ({ $lines } lines)";
    let titles = Titles::parse("en", catalogue).unwrap();
    for shown in 1..SECRET.len() {
        let (mut session, now) = announced();
        let command = format!("{}{SECRET} more", "x".repeat(MAX_TITLE_COMMAND_BYTES - shown));
        let title = titles.render("run", &[("x", command)]);
        session.update_call(&"c".into(), ToolCallPatch::new().with_title(title), now);
        let title = &session.board().open_call_report(&"c".into()).unwrap().title;
        let ends =
            format!("x{} … (1 lines)`", if shown > 3 { "[redacted]" } else { &SECRET[..shown] });
        assert!(title.ends_with(&ends), "{}", &title[MAX_TITLE_COMMAND_BYTES - 20..]);
        assert_eq!(session.board().is_shown_in_full(&"c".into()), shown <= 3);
    }
    let secrets = Secrets::new([SECRET]);
    for (text, expected) in [
        ("a 12345…", "a [redacted]…"),
        ("a 12345 … and 9 more bytes", "a [redacted] … and 9 more bytes"),
        ("a 1234512345…", "a 12345[redacted]…"),
        ("a 12345678…12345678", "a [redacted]…[redacted]"),
        ("a 12345..", "a 12345.."),
        ("a [redacted]…", "a [redacted]…"),
    ] {
        assert_eq!(secrets.redact(text), expected);
    }
}
