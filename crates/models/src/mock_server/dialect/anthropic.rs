//! Encoder for Anthropic's Messages: a sequence of content blocks, each with a start, deltas and a
//! stop.

use serde_json::{Value, json};

use super::{
    BodyWriter, MockReply, MockStopReason, MockToolCall, ReplyEncoder, split_call_arguments,
    usage_or_default,
};

pub(super) struct AnthropicEncoder {
    id: String,
    /// Number of blocks started so far.
    blocks: usize,
    /// Kind of the open block, if a block is open.
    open: Option<&'static str>,
}

impl AnthropicEncoder {
    pub(super) fn new(nth: usize) -> Self {
        Self { id: format!("msg_{nth}"), blocks: 0, open: None }
    }

    fn start_block(&mut self, kind: &'static str, block: &Value, out: &mut BodyWriter) {
        self.stop_open_block(out);
        out.push_sse_event(&json!({"type": "content_block_start", "index": self.blocks,
            "content_block": block}));
        self.open = Some(kind);
        self.blocks += 1;
    }

    fn push_block_delta(&self, delta: &Value, out: &mut BodyWriter) {
        let index = self.blocks.saturating_sub(1);
        out.push_sse_event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }

    fn stop_open_block(&mut self, out: &mut BodyWriter) {
        let Some(kind) = self.open.take() else { return };
        if kind == "thinking" {
            self.push_block_delta(&json!({"type": "signature_delta", "signature": SIGNATURE}), out);
        }
        let index = self.blocks.saturating_sub(1);
        out.push_sse_event(&json!({"type": "content_block_stop", "index": index}));
    }
}

/// Signature of each thought. A client must return the signature together with the thought.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

impl ReplyEncoder for AnthropicEncoder {
    fn encode_start(&mut self, out: &mut BodyWriter) {
        out.push_sse_event(&json!({"type": "message_start", "message": {
            "id": self.id, "type": "message", "role": "assistant", "model": "scripted",
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }}));
        out.push_sse_event(&json!({"type": "ping"}));
    }

    fn encode_text(&mut self, text: &str, out: &mut BodyWriter) {
        if self.open != Some("text") {
            self.start_block("text", &json!({"type": "text", "text": ""}), out);
        }
        self.push_block_delta(&json!({"type": "text_delta", "text": text}), out);
    }

    fn encode_thought(&mut self, text: &str, out: &mut BodyWriter) {
        if self.open != Some("thinking") {
            let block = json!({"type": "thinking", "thinking": "", "signature": ""});
            self.start_block("thinking", &block, out);
        }
        self.push_block_delta(&json!({"type": "thinking_delta", "thinking": text}), out);
    }

    fn encode_call(&mut self, call: &MockToolCall, out: &mut BodyWriter) {
        let mut block = json!({"type": "tool_use", "name": call.name, "input": {}});
        if let Some(id) = &call.id {
            block["id"] = json!(id);
        }
        self.start_block("tool_use", &block, out);
        for fragment in split_call_arguments(call) {
            out.push_fragment_pause(call);
            self.push_block_delta(
                &json!({"type": "input_json_delta", "partial_json": fragment}),
                out,
            );
        }
        self.stop_open_block(out);
    }

    fn encode_error(&mut self, message: &str, out: &mut BodyWriter) {
        out.push_sse_event(&error_object(529, message));
    }

    fn encode_end(&mut self, stop: MockStopReason, reply: &MockReply, out: &mut BodyWriter) {
        self.stop_open_block(out);
        let reason = match stop {
            MockStopReason::ToolCalls => "tool_use",
            MockStopReason::MaxTokens => "max_tokens",
            MockStopReason::Filter => "refusal",
            MockStopReason::EndTurn | MockStopReason::Nothing => "end_turn",
        };
        let usage = usage_or_default(reply);
        out.push_sse_event(&json!({"type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {
                "input_tokens": usage.input - usage.cached.min(usage.input),
                "cache_read_input_tokens": usage.cached,
                "output_tokens": usage.output,
            },
        }));
        if !reply.without_marker {
            out.push_sse_event(&json!({"type": "message_stop"}));
        }
    }
}

/// Returns the error object with the error type for a status.
pub(super) fn error_object(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}
