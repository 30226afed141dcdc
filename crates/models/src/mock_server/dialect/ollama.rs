//! Ollama: a line of JSON a piece, the last one `done`; calls come whole and have no ids.

use serde_json::{Value, json};

use super::{Call, Out, Reply, Stop, Voice, usage_or_none, whole};

pub(super) struct Ollama;

fn record(message: &Value) -> Value {
    json!({"model": "scripted", "created_at": "2026-01-01T00:00:00Z", "message": message,
        "done": false})
}

impl Voice for Ollama {
    fn text(&mut self, text: &str, out: &mut Out) {
        out.line(&record(&json!({"role": "assistant", "content": text})));
    }

    fn thought(&mut self, text: &str, out: &mut Out) {
        out.line(&record(&json!({"role": "assistant", "content": "", "thinking": text})));
    }

    fn call(&mut self, call: &Call, out: &mut Out) {
        let calls = json!([{"function": {"name": call.name, "arguments": whole(call)}}]);
        out.line(&record(&json!({"role": "assistant", "content": "", "tool_calls": calls})));
    }

    fn error(&mut self, message: &str, out: &mut Out) {
        out.line(&json!({ "error": message }));
    }

    fn end(&mut self, stop: Stop, reply: &Reply, out: &mut Out) {
        let usage = usage_or_none(reply);
        let mut last = record(&json!({"role": "assistant", "content": ""}));
        last["done"] = json!(true);
        last["done_reason"] = json!(if stop == Stop::MaxTokens { "length" } else { "stop" });
        last["prompt_eval_count"] = json!(usage.input);
        last["eval_count"] = json!(usage.output);
        out.line(&last);
    }
}
