//! Tests of transcripts: the updates of whole sessions, and the resulting page and document.

#![cfg(test)]

mod browser;
mod folding;
mod hostile;
mod limits;
mod session;

use acp_cards::Transcript;
use serde_json::{Value, json};

fn transcript(updates: &[Value]) -> Transcript {
    let mut transcript = Transcript::new("/p");
    for update in updates {
        transcript.add_update(&serde_json::from_value(update.clone()).unwrap());
    }
    transcript
}

fn says(kind: &str, said: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": said}})
}

fn call(id: &str, fields: Value) -> Value {
    with(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "Do"}), fields)
}

fn change(id: &str, fields: Value) -> Value {
    with(json!({"sessionUpdate": "tool_call_update", "toolCallId": id}), fields)
}

fn with(mut value: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("no object") };
    value.as_object_mut().unwrap().extend(fields);
    value
}

fn text(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// Returns the session of a page, without its head, its style and its script.
fn main_part(page: &str) -> &str {
    let start = page.find("<main id=\"session\">").unwrap();
    &page[start..page.find("</main>").unwrap()]
}
