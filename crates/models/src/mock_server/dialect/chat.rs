//! Encoder for OpenAI's chat completions: `choices[0].delta`, finish reason, usage, `[DONE]`.

use serde_json::{Value, json};

use super::{
    BodyPiece, BodyWriter, MockReply, MockStopReason, MockToolCall, ReplyEncoder,
    split_call_arguments,
};

pub(super) struct ChatEncoder {
    id: String,
    has_index: bool,
    calls: usize,
}

impl ChatEncoder {
    pub(super) fn new(reply: &MockReply, nth: usize) -> Self {
        Self { id: format!("chatcmpl-{nth}"), has_index: !reply.without_index, calls: 0 }
    }

    fn chunk_object(&self, choices: &Value) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": 0, "model": "scripted",
            "choices": choices})
    }

    fn push_delta(&self, delta: &Value, out: &mut BodyWriter) {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": null}]);
        out.push_sse_data(&self.chunk_object(&choices));
    }

    fn push_call_delta(&self, mut call: Value, out: &mut BodyWriter) {
        if self.has_index {
            call["index"] = json!(self.calls);
        }
        self.push_delta(&json!({"tool_calls": [call]}), out);
    }
}

impl ReplyEncoder for ChatEncoder {
    fn encode_start(&mut self, out: &mut BodyWriter) {
        self.push_delta(&json!({"role": "assistant", "content": ""}), out);
    }

    fn encode_text(&mut self, text: &str, out: &mut BodyWriter) {
        self.push_delta(&json!({ "content": text }), out);
    }

    fn encode_thought(&mut self, text: &str, out: &mut BodyWriter) {
        self.push_delta(&json!({ "reasoning_content": text }), out);
    }

    fn encode_call(&mut self, call: &MockToolCall, out: &mut BodyWriter) {
        let mut fragments = split_call_arguments(call);
        // Without an index, a client could not assign a fragment to its call.
        if !self.has_index {
            fragments = vec![fragments.concat()];
        }
        let first = if self.has_index { String::new() } else { fragments.remove(0) };
        let mut start = json!({"type": "function",
            "function": {"name": call.name, "arguments": first}});
        if let Some(id) = &call.id {
            start["id"] = json!(id);
        }
        self.push_call_delta(start, out);
        for fragment in fragments {
            out.push_fragment_pause(call);
            self.push_call_delta(json!({"function": {"arguments": fragment}}), out);
        }
        self.calls += 1;
    }

    fn encode_error(&mut self, message: &str, out: &mut BodyWriter) {
        out.push_sse_data(
            &json!({"error": {"message": message, "type": "server_error", "code": 500}}),
        );
    }

    fn encode_end(&mut self, stop: MockStopReason, reply: &MockReply, out: &mut BodyWriter) {
        let reason = match stop {
            MockStopReason::ToolCalls => "tool_calls",
            MockStopReason::MaxTokens => "length",
            MockStopReason::Filter => "content_filter",
            MockStopReason::EndTurn | MockStopReason::Nothing => "stop",
        };
        let choices = json!([{"index": 0, "delta": {}, "finish_reason": reason}]);
        out.push_sse_data(&self.chunk_object(&choices));
        if let Some(usage) = reply.usage {
            let mut chunk = self.chunk_object(&json!([]));
            chunk["usage"] = json!({
                "prompt_tokens": usage.input,
                "completion_tokens": usage.output,
                "total_tokens": usage.input + usage.output,
                "prompt_tokens_details": {"cached_tokens": usage.cached},
                "completion_tokens_details": {"reasoning_tokens": usage.thought},
            });
            out.push_sse_data(&chunk);
        }
        if !reply.without_marker {
            out.0.push(BodyPiece::Bytes(b"data: [DONE]\n\n".to_vec()));
        }
    }
}
