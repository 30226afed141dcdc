//! OpenAI's chat completions: `choices[0].delta`, then the reason, the usage and `[DONE]`.

use serde_json::{Value, json};

use super::{Call, Out, Piece, Reply, Stop, Voice, fragments};

pub(super) struct Chat {
    id: String,
    has_index: bool,
    calls: usize,
}

impl Chat {
    pub(super) fn new(reply: &Reply, nth: usize) -> Self {
        Self { id: format!("chatcmpl-{nth}"), has_index: !reply.without_index, calls: 0 }
    }

    fn chunk(&self, choices: &Value) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": 0, "model": "scripted",
            "choices": choices})
    }

    fn delta(&self, delta: &Value, out: &mut Out) {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": null}]);
        out.data(&self.chunk(&choices));
    }

    fn call_delta(&self, mut call: Value, out: &mut Out) {
        if self.has_index {
            call["index"] = json!(self.calls);
        }
        self.delta(&json!({"tool_calls": [call]}), out);
    }
}

impl Voice for Chat {
    fn begin(&mut self, out: &mut Out) {
        self.delta(&json!({"role": "assistant", "content": ""}), out);
    }

    fn text(&mut self, text: &str, out: &mut Out) {
        self.delta(&json!({ "content": text }), out);
    }

    fn thought(&mut self, text: &str, out: &mut Out) {
        self.delta(&json!({ "reasoning_content": text }), out);
    }

    fn call(&mut self, call: &Call, out: &mut Out) {
        let mut fragments = fragments(call);
        // Without positions nothing would tell to which call a fragment belongs.
        if !self.has_index {
            fragments = vec![fragments.concat()];
        }
        let first = if self.has_index { String::new() } else { fragments.remove(0) };
        let mut start = json!({"type": "function",
            "function": {"name": call.name, "arguments": first}});
        if let Some(id) = &call.id {
            start["id"] = json!(id);
        }
        self.call_delta(start, out);
        for fragment in fragments {
            out.pause(call);
            self.call_delta(json!({"function": {"arguments": fragment}}), out);
        }
        self.calls += 1;
    }

    fn error(&mut self, message: &str, out: &mut Out) {
        out.data(&json!({"error": {"message": message, "type": "server_error", "code": 500}}));
    }

    fn end(&mut self, stop: Stop, reply: &Reply, out: &mut Out) {
        let reason = match stop {
            Stop::ToolCalls => "tool_calls",
            Stop::MaxTokens => "length",
            Stop::Filter => "content_filter",
            Stop::EndTurn | Stop::Nothing => "stop",
        };
        let choices = json!([{"index": 0, "delta": {}, "finish_reason": reason}]);
        out.data(&self.chunk(&choices));
        if let Some(usage) = reply.usage {
            let mut chunk = self.chunk(&json!([]));
            chunk["usage"] = json!({
                "prompt_tokens": usage.input,
                "completion_tokens": usage.output,
                "total_tokens": usage.input + usage.output,
                "prompt_tokens_details": {"cached_tokens": usage.cached},
                "completion_tokens_details": {"reasoning_tokens": usage.thought},
            });
            out.data(&chunk);
        }
        if !reply.without_marker {
            out.0.push(Piece::Bytes(b"data: [DONE]\n\n".to_vec()));
        }
    }
}
