//! Gemini: parts of a candidate, the reason beside the last; calls come whole and have no ids.

use serde_json::{Value, json};

use super::{Call, Out, Reply, Stop, Voice, usage_or_none, whole};

pub(super) struct Gemini;

impl Gemini {
    fn part(part: &Value, out: &mut Out) {
        out.data(&json!({
            "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
            "modelVersion": "scripted",
        }));
    }
}

impl Voice for Gemini {
    fn text(&mut self, text: &str, out: &mut Out) {
        Self::part(&json!({ "text": text }), out);
    }

    fn thought(&mut self, text: &str, out: &mut Out) {
        Self::part(&json!({"text": text, "thought": true}), out);
    }

    fn call(&mut self, call: &Call, out: &mut Out) {
        let call = json!({"name": call.name, "args": whole(call)});
        Self::part(&json!({"functionCall": call, "thoughtSignature": SIGNATURE}), out);
    }

    fn error(&mut self, message: &str, out: &mut Out) {
        out.data(&error(503, message));
    }

    fn end(&mut self, stop: Stop, reply: &Reply, out: &mut Out) {
        let reason = match stop {
            Stop::MaxTokens => "MAX_TOKENS",
            Stop::Filter => "SAFETY",
            Stop::EndTurn | Stop::ToolCalls | Stop::Nothing => "STOP",
        };
        let usage = usage_or_none(reply);
        out.data(&json!({
            "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "index": 0,
                "finishReason": reason}],
            "usageMetadata": {
                "promptTokenCount": usage.input,
                "cachedContentTokenCount": usage.cached,
                "candidatesTokenCount": usage.output - usage.thought.min(usage.output),
                "thoughtsTokenCount": usage.thought,
                "totalTokenCount": usage.input + usage.output,
            },
            "modelVersion": "scripted",
        }));
    }
}

/// What a call is signed with: a client has to send it back with the call.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// The error object, with the word that a status has.
pub(super) fn error(status: u16, message: &str) -> Value {
    let word = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": word}})
}
