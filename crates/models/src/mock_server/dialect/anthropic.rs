//! Anthropic's Messages: blocks that start, grow and stop, one after the other.

use serde_json::{Value, json};

use super::{Call, Out, Reply, Stop, Voice, fragments, usage_or_none};

pub(super) struct Anthropic {
    id: String,
    /// How many blocks have begun.
    blocks: usize,
    /// The kind of the block that has not stopped.
    open: Option<&'static str>,
}

impl Anthropic {
    pub(super) fn new(nth: usize) -> Self {
        Self { id: format!("msg_{nth}"), blocks: 0, open: None }
    }

    fn start(&mut self, kind: &'static str, block: &Value, out: &mut Out) {
        self.stop(out);
        out.event(&json!({"type": "content_block_start", "index": self.blocks,
            "content_block": block}));
        self.open = Some(kind);
        self.blocks += 1;
    }

    fn delta(&self, delta: &Value, out: &mut Out) {
        let index = self.blocks.saturating_sub(1);
        out.event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }

    fn stop(&mut self, out: &mut Out) {
        let Some(kind) = self.open.take() else { return };
        if kind == "thinking" {
            self.delta(&json!({"type": "signature_delta", "signature": SIGNATURE}), out);
        }
        let index = self.blocks.saturating_sub(1);
        out.event(&json!({"type": "content_block_stop", "index": index}));
    }
}

/// What a thought is signed with: a client has to send it back with the thought.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

impl Voice for Anthropic {
    fn begin(&mut self, out: &mut Out) {
        out.event(&json!({"type": "message_start", "message": {
            "id": self.id, "type": "message", "role": "assistant", "model": "scripted",
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }}));
        out.event(&json!({"type": "ping"}));
    }

    fn text(&mut self, text: &str, out: &mut Out) {
        if self.open != Some("text") {
            self.start("text", &json!({"type": "text", "text": ""}), out);
        }
        self.delta(&json!({"type": "text_delta", "text": text}), out);
    }

    fn thought(&mut self, text: &str, out: &mut Out) {
        if self.open != Some("thinking") {
            let block = json!({"type": "thinking", "thinking": "", "signature": ""});
            self.start("thinking", &block, out);
        }
        self.delta(&json!({"type": "thinking_delta", "thinking": text}), out);
    }

    fn call(&mut self, call: &Call, out: &mut Out) {
        let mut block = json!({"type": "tool_use", "name": call.name, "input": {}});
        if let Some(id) = &call.id {
            block["id"] = json!(id);
        }
        self.start("tool_use", &block, out);
        for fragment in fragments(call) {
            out.pause(call);
            self.delta(&json!({"type": "input_json_delta", "partial_json": fragment}), out);
        }
        self.stop(out);
    }

    fn error(&mut self, message: &str, out: &mut Out) {
        out.event(&error(529, message));
    }

    fn end(&mut self, stop: Stop, reply: &Reply, out: &mut Out) {
        self.stop(out);
        let reason = match stop {
            Stop::ToolCalls => "tool_use",
            Stop::MaxTokens => "max_tokens",
            Stop::Filter => "refusal",
            Stop::EndTurn | Stop::Nothing => "end_turn",
        };
        let usage = usage_or_none(reply);
        out.event(&json!({"type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {
                "input_tokens": usage.input - usage.cached.min(usage.input),
                "cache_read_input_tokens": usage.cached,
                "output_tokens": usage.output,
            },
        }));
        if !reply.without_marker {
            out.event(&json!({"type": "message_stop"}));
        }
    }
}

/// The error object, with the kind that a status has.
pub(super) fn error(status: u16, message: &str) -> Value {
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
