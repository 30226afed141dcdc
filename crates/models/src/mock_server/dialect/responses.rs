//! Encoder for OpenAI's Responses: each item is added, extended and completed. The complete
//! response is the last event.

use std::mem;

use serde_json::{Value, json};

use super::{
    BodyWriter, MockReply, MockStopReason, MockToolCall, ReplyEncoder, split_call_arguments,
};

pub(super) struct ResponsesEncoder {
    id: String,
    /// Completed items.
    items: Vec<Value>,
    /// Kind and text of the open item.
    open: Option<(&'static str, String)>,
    events: usize,
}

impl ResponsesEncoder {
    pub(super) fn new(nth: usize) -> Self {
        Self { id: format!("resp_{nth}"), items: Vec::new(), open: None, events: 0 }
    }

    fn push_event(&mut self, kind: &str, mut data: Value, out: &mut BodyWriter) {
        data["type"] = json!(format!("response.{kind}"));
        data["sequence_number"] = json!(self.events);
        self.events += 1;
        out.push_sse_event(&data);
    }

    fn response_object(&self, status: &str) -> Value {
        json!({"id": self.id, "object": "response", "created_at": 0, "status": status,
            "model": "scripted", "output": self.items, "error": null, "incomplete_details": null})
    }

    fn current_item_id(&self) -> String {
        format!("{}_{}", self.id.replacen("resp", "item", 1), self.items.len())
    }

    fn start_item(&mut self, item: &Value, out: &mut BodyWriter) {
        self.finish_open_item(out);
        let index = self.items.len();
        self.push_event("output_item.added", json!({"output_index": index, "item": item}), out);
    }

    fn item_object(&self, kind: &str, text: &str, is_done: bool) -> Value {
        let id = self.current_item_id();
        let status = if is_done { "completed" } else { "in_progress" };
        let parts = |kind: &str| match is_done {
            true => json!([{"type": kind, "text": text}]),
            false => json!([]),
        };
        if kind == "reasoning" {
            json!({"type": kind, "id": id, "summary": parts("summary_text"),
                "encrypted_content": "c2NyaXB0ZWQ="})
        } else {
            json!({"type": kind, "id": id, "role": "assistant", "status": status,
                "content": parts("output_text")})
        }
    }

    fn append_text(&mut self, kind: &'static str, text: &str, out: &mut BodyWriter) {
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.finish_open_item(out);
            let item = self.item_object(kind, "", false);
            self.start_item(&item, out);
            self.open = Some((kind, String::new()));
            if kind == "message" {
                let part = json!({"type": "output_text", "text": "", "annotations": []});
                self.push_part_event(
                    "content_part.added",
                    "content_index",
                    json!({ "part": part }),
                    out,
                );
            } else {
                let part = json!({"type": "summary_text", "text": ""});
                let added = "reasoning_summary_part.added";
                self.push_part_event(added, "summary_index", json!({ "part": part }), out);
            }
        }
        if let Some((_, open_text)) = &mut self.open {
            open_text.push_str(text);
        }
        let (event, index) = match kind {
            "message" => ("output_text.delta", "content_index"),
            _ => ("reasoning_summary_text.delta", "summary_index"),
        };
        self.push_part_event(event, index, json!({ "delta": text }), out);
    }

    fn push_part_event(&mut self, event: &str, index: &str, mut data: Value, out: &mut BodyWriter) {
        data["item_id"] = json!(self.current_item_id());
        data["output_index"] = json!(self.items.len());
        data[index] = json!(0);
        self.push_event(event, data, out);
    }

    /// Completes the open item, if there is one.
    fn finish_open_item(&mut self, out: &mut BodyWriter) {
        let Some((kind, text)) = self.open.take() else { return };
        let (event, index) = match kind {
            "message" => ("output_text.done", "content_index"),
            _ => ("reasoning_summary_text.done", "summary_index"),
        };
        self.push_part_event(event, index, json!({ "text": text }), out);
        let item = self.item_object(kind, &text, true);
        self.finish_item(item, out);
    }

    fn finish_item(&mut self, item: Value, out: &mut BodyWriter) {
        let index = self.items.len();
        self.push_event("output_item.done", json!({"output_index": index, "item": item}), out);
        self.items.push(item);
    }
}

impl ReplyEncoder for ResponsesEncoder {
    fn encode_start(&mut self, out: &mut BodyWriter) {
        let response = self.response_object("in_progress");
        self.push_event("created", json!({ "response": response }), out);
        self.push_event("in_progress", json!({ "response": response }), out);
    }

    fn encode_text(&mut self, text: &str, out: &mut BodyWriter) {
        self.append_text("message", text, out);
    }

    fn encode_thought(&mut self, text: &str, out: &mut BodyWriter) {
        self.append_text("reasoning", text, out);
    }

    fn encode_call(&mut self, call: &MockToolCall, out: &mut BodyWriter) {
        self.finish_open_item(out);
        let mut item = json!({"type": "function_call", "id": self.current_item_id(), "name": call.name,
            "arguments": "", "status": "in_progress"});
        if let Some(id) = &call.id {
            item["call_id"] = json!(id);
        }
        self.start_item(&item, out);
        let place = json!({"item_id": self.current_item_id(), "output_index": self.items.len()});
        for fragment in split_call_arguments(call) {
            out.push_fragment_pause(call);
            let mut data = place.clone();
            data["delta"] = json!(fragment);
            self.push_event("function_call_arguments.delta", data, out);
        }
        let mut data = place;
        data["arguments"] = json!(call.arguments_text());
        self.push_event("function_call_arguments.done", data, out);
        item["arguments"] = json!(call.arguments_text());
        item["status"] = json!("completed");
        self.finish_item(item, out);
    }

    fn encode_error(&mut self, message: &str, out: &mut BodyWriter) {
        let mut response = self.response_object("failed");
        response["error"] = json!({"code": "server_error", "message": message});
        self.push_event("failed", json!({ "response": response }), out);
    }

    fn encode_end(&mut self, stop: MockStopReason, reply: &MockReply, out: &mut BodyWriter) {
        self.finish_open_item(out);
        let reason = match stop {
            MockStopReason::MaxTokens => Some("max_output_tokens"),
            MockStopReason::Filter => Some("content_filter"),
            MockStopReason::EndTurn | MockStopReason::ToolCalls | MockStopReason::Nothing => None,
        };
        let kind = if reason.is_some() { "incomplete" } else { "completed" };
        let mut response = self.response_object(kind);
        if let Some(reason) = reason {
            response["incomplete_details"] = json!({ "reason": reason });
        }
        if let Some(usage) = reply.usage {
            response["usage"] = json!({
                "input_tokens": usage.input,
                "input_tokens_details": {"cached_tokens": usage.cached},
                "output_tokens": usage.output,
                "output_tokens_details": {"reasoning_tokens": usage.thought},
                "total_tokens": usage.input + usage.output,
            });
        }
        mem::take(&mut self.items);
        self.push_event(kind, json!({ "response": response }), out);
    }
}
