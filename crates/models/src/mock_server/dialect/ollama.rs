//! Encoder for Ollama: each piece is a line of JSON, and the last line has `done`. Calls are sent
//! in one piece and without ids.

use serde_json::{Value, json};

use super::{
    BodyWriter, MockReply, MockStopReason, MockToolCall, ReplyEncoder, arguments_to_json_value,
    usage_or_default,
};

pub(super) struct OllamaEncoder;

fn message_record(message: &Value) -> Value {
    json!({"model": "scripted", "created_at": "2026-01-01T00:00:00Z", "message": message,
        "done": false})
}

impl ReplyEncoder for OllamaEncoder {
    fn encode_text(&mut self, text: &str, out: &mut BodyWriter) {
        out.push_json_line(&message_record(&json!({"role": "assistant", "content": text})));
    }

    fn encode_thought(&mut self, text: &str, out: &mut BodyWriter) {
        out.push_json_line(&message_record(
            &json!({"role": "assistant", "content": "", "thinking": text}),
        ));
    }

    fn encode_call(&mut self, call: &MockToolCall, out: &mut BodyWriter) {
        let calls =
            json!([{"function": {"name": call.name, "arguments": arguments_to_json_value(call)}}]);
        out.push_json_line(&message_record(
            &json!({"role": "assistant", "content": "", "tool_calls": calls}),
        ));
    }

    fn encode_error(&mut self, message: &str, out: &mut BodyWriter) {
        out.push_json_line(&json!({ "error": message }));
    }

    fn encode_end(&mut self, stop: MockStopReason, reply: &MockReply, out: &mut BodyWriter) {
        let usage = usage_or_default(reply);
        let mut last = message_record(&json!({"role": "assistant", "content": ""}));
        last["done"] = json!(true);
        last["done_reason"] =
            json!(if stop == MockStopReason::MaxTokens { "length" } else { "stop" });
        last["prompt_eval_count"] = json!(usage.input);
        last["eval_count"] = json!(usage.output);
        out.push_json_line(&last);
    }
}
