//! Encoder for Gemini: the reply is a sequence of parts of one candidate, and the last part has the
//! finish reason. Calls are sent in one part and without ids.

use serde_json::{Value, json};

use super::{
    BodyWriter, MockReply, MockStopReason, MockToolCall, ReplyEncoder, arguments_to_json_value,
    usage_or_default,
};

pub(super) struct GeminiEncoder;

impl GeminiEncoder {
    fn push_part(part: &Value, out: &mut BodyWriter) {
        out.push_sse_data(&json!({
            "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
            "modelVersion": "scripted",
        }));
    }
}

impl ReplyEncoder for GeminiEncoder {
    fn encode_text(&mut self, text: &str, out: &mut BodyWriter) {
        Self::push_part(&json!({ "text": text }), out);
    }

    fn encode_thought(&mut self, text: &str, out: &mut BodyWriter) {
        Self::push_part(&json!({"text": text, "thought": true}), out);
    }

    fn encode_call(&mut self, call: &MockToolCall, out: &mut BodyWriter) {
        let call = json!({"name": call.name, "args": arguments_to_json_value(call)});
        Self::push_part(&json!({"functionCall": call, "thoughtSignature": SIGNATURE}), out);
    }

    fn encode_error(&mut self, message: &str, out: &mut BodyWriter) {
        out.push_sse_data(&error_object(503, message));
    }

    fn encode_end(&mut self, stop: MockStopReason, reply: &MockReply, out: &mut BodyWriter) {
        let reason = match stop {
            MockStopReason::MaxTokens => "MAX_TOKENS",
            MockStopReason::Filter => "SAFETY",
            MockStopReason::EndTurn | MockStopReason::ToolCalls | MockStopReason::Nothing => "STOP",
        };
        let usage = usage_or_default(reply);
        out.push_sse_data(&json!({
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

/// Signature of each call. A client must return the signature together with the call.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// Returns the error object with the status word for a status.
pub(super) fn error_object(status: u16, message: &str) -> Value {
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
