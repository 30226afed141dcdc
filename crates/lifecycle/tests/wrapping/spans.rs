//! Tests of the span of a call, as recorded by a subscriber.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use acp_lifecycle::{Secrets, ToolMiddleware};
use acp_types::{ToolCallPatch, ToolKind};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use super::stage::Stage;

/// Maximum size of a tool's name in bytes.
const MAX_TOOL_NAME_BYTES: usize = 256;

/// The recorded data of one span.
#[derive(Debug, Default)]
struct RecordedSpan {
    name: String,
    parent: Option<u64>,
    fields: BTreeMap<String, String>,
    entered: bool,
    closed: bool,
}

impl Visit for RecordedSpan {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }
}

type Fields = BTreeMap<String, String>;

/// A subscriber that records every span, the warnings about omitted fields, and the other events
/// for debugging.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<RecordedSpan>>>, Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<Fields>>>);

impl Notes {
    fn of(&self, id: &Id, note: impl FnOnce(&mut RecordedSpan)) {
        let index = usize::try_from(id.into_u64() - 1).unwrap();
        note(&mut self.0.lock().unwrap()[index]);
    }
}

impl Subscriber for Notes {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("acp_lifecycle")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut recorded = RecordedSpan {
            name: attributes.metadata().name().to_owned(),
            parent: attributes.parent().map(Id::into_u64),
            ..RecordedSpan::default()
        };
        attributes.record(&mut recorded);
        let mut spans = self.0.lock().unwrap();
        spans.push(recorded);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        self.of(id, |recorded| values.record(recorded));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut recorded = RecordedSpan::default();
        event.record(&mut recorded);
        if let Some(dropped) = recorded.fields.remove("dropped") {
            self.1.lock().unwrap().push(dropped);
        } else if *event.metadata().level() == Level::DEBUG {
            self.2.lock().unwrap().push(recorded.fields);
        }
    }

    fn enter(&self, id: &Id) {
        self.of(id, |recorded| recorded.entered = true);
    }

    fn exit(&self, _: &Id) {}

    fn try_close(&self, id: Id) -> bool {
        self.of(&id, |recorded| recorded.closed = true);
        true
    }
}

async fn tool(name: &str, args: Value) -> Result<String, String> {
    tracing::info!("within the call");
    match name {
        "fail" => Err(format!("a secret: {args}")),
        _ => Ok(format!("a secret: {args}")),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_has_a_span_with_its_end_and_none_of_its_text() {
    let notes = Notes::default();
    let listening = tracing::subscriber::set_default(notes.clone());
    for (name, option, fields) in [
        ("work", "allow", json!({"status": "completed", "kind": "other"})),
        (
            "fail",
            "allow",
            json!({"status": "failed", "reason": "error", "otel.status_code": "ERROR"}),
        ),
        ("edit", "reject", json!({"status": "failed", "reason": "user", "kind": "edit"})),
    ] {
        let stage = Stage::new(Some(option));
        let tools = ToolMiddleware::new(stage.session.clone());
        let args = json!({ "token": "hunter2" });
        drop(tools.call(&"t".into(), "a", name, args, &stage.cancel, tool).await);
        let recorded = notes.0.lock().unwrap().pop().expect("a span");
        assert!(
            recorded.entered
                && recorded.closed
                && recorded.name == "call"
                && recorded.parent.is_none()
        );
        let text = format!("{:?}", recorded.fields);
        assert!(!text.contains("hunter2") && !text.contains("secret"), "{text}");
        for (field, value) in fields.as_object().unwrap() {
            assert_eq!(recorded.fields.get(field).map(String::as_str), value.as_str(), "{name}");
        }
        for (field, value) in
            [("id", "t/a"), ("tool", name), ("queued_ms", "0"), ("duration_ms", "0")]
        {
            assert_eq!(recorded.fields.get(field).map(String::as_str), Some(value), "{name}");
        }
    }
    drop(listening);
}

#[tokio::test(start_paused = true)]
async fn an_invented_tool_name_is_recorded_in_its_displayed_form() {
    let notes = Notes::default();
    let listening = tracing::subscriber::set_default(notes.clone());
    let stage = Stage::new(Some("allow"));
    stage.session.update(|session, _| session.set_secrets(Secrets::new(["hunter2hunter2"])));
    let tools = ToolMiddleware::new(stage.session.clone());
    let name = format!("hunter2hunter2\u{202e}{}", "x".repeat(100_000));
    drop(tools.call(&"t".into(), "a", &name, json!({}), &stage.cancel, tool).await);
    let recorded = notes.0.lock().unwrap().pop().expect("a span");
    let shown = &recorded.fields["tool"];
    assert!(
        shown.starts_with("[redacted]\\u{202e}xx") && shown.len() <= MAX_TOOL_NAME_BYTES,
        "{shown}"
    );
    drop(listening);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_field_is_dropped_and_logged() {
    let notes = Notes::default();
    let listening = tracing::subscriber::set_default(notes.clone());
    let stage = Stage::new(None);
    let patch = ToolCallPatch::for_new_call("work", "Work", ToolKind::Other);
    let open = stage.session.announce_call(&"a".into(), &"t".into(), patch, &stage.cancel).unwrap();
    open.handle().update(ToolCallPatch::new().with_title(" "));
    open.handle().update(ToolCallPatch::new().with_title("Work on"));
    assert_eq!(stage.session.call_report(&"a".into()).unwrap().title, "Work on");
    assert_eq!(*notes.1.lock().unwrap(), ["1"]);
    drop(listening);
}

#[tokio::test(start_paused = true)]
async fn the_start_and_the_end_of_a_call_are_logged() {
    let notes = Notes::default();
    let listening = tracing::subscriber::set_default(notes.clone());
    for (name, option, messages, status, reason) in [
        ("work", "allow", &["call started", "call ended"][..], "completed", None),
        ("edit", "reject", &["call ended"][..], "failed", Some("user")),
    ] {
        let stage = Stage::new(Some(option));
        let tools = ToolMiddleware::new(stage.session.clone());
        let args = json!({ "token": "hunter2" });
        drop(tools.call(&"t".into(), "a", name, args, &stage.cancel, tool).await);
        let recorded = std::mem::take(&mut *notes.2.lock().unwrap());
        let logged: Vec<_> = recorded.iter().map(|event| &*event["message"]).collect();
        assert_eq!(logged, messages);
        let keys = |fields: &Fields| fields.keys().cloned().collect::<Vec<_>>();
        let (end, start) = recorded.split_last().unwrap();
        start.iter().for_each(|start| assert_eq!(keys(start), ["call", "message", "tool"]));
        let mut expected = vec!["call", "duration_ms", "message", "reason", "status", "tool"];
        expected.retain(|key| *key != "reason" || reason.is_some());
        assert_eq!(keys(end), expected);
        for event in &recorded {
            assert_eq!((&*event["call"], &*event["tool"]), ("t/a", name));
        }
        assert_eq!((&*end["status"], end.get("reason").map(String::as_str)), (status, reason));
    }
    drop(listening);
}
