//! Converts the model library's stream events into the events of a [`Model`](crate::Model).

use std::{collections::VecDeque, sync::Arc};

use rig_core::{
    completion::{CompletionResponse, FinishReason},
    message::AssistantContent,
    streaming::{PartKind, StreamEvent},
};

use super::{ApiKey, errors, replay};
use crate::{ModelError, ModelEvent, ModelStopReason, TokenUsage};

/// Decodes the events of one reply.
#[derive(Debug, Default)]
pub(super) struct StreamDecoder {
    /// Positions of the calls in the reply. A call's index in this list determines the id of the
    /// call.
    calls: Vec<usize>,
}

impl StreamDecoder {
    /// Decodes the next event of the library.
    pub(super) fn decode_event(&mut self, event: StreamEvent) -> Option<ModelEvent> {
        match event {
            StreamEvent::Start { part, kind: PartKind::ToolCall, name } => {
                self.calls.push(part.index());
                let name = name.map(String::from).unwrap_or_default();
                Some(ModelEvent::CallStart {
                    id: replay::call_id_from_position(self.calls.len() - 1),
                    name,
                })
            }
            StreamEvent::Text { text, .. } => Some(ModelEvent::Text(text)),
            StreamEvent::Reasoning { text, .. } => Some(ModelEvent::Thought(text)),
            StreamEvent::Arguments { part, json } => self
                .find_call_id(part.index())
                .map(|id| ModelEvent::CallArguments { id, fragment: json }),
            StreamEvent::End { part, content: AssistantContent::ToolCall(_) } => {
                self.find_call_id(part.index()).map(|id| ModelEvent::CallEnd { id })
            }
            StreamEvent::Start { .. } | StreamEvent::End { .. } => None,
        }
    }

    fn find_call_id(&self, part: usize) -> Option<String> {
        let place = self.calls.iter().position(|call| *call == part)?;
        Some(replay::call_id_from_position(place))
    }

    /// Returns the last events of a reply: replay data, token usage, and the stop reason or an
    /// error.
    pub(super) fn final_events(
        &self,
        reply: &CompletionResponse,
        origin: &Arc<str>,
        key: Option<&ApiKey>,
    ) -> VecDeque<ModelEvent> {
        let stop = match stop_reason_or_error(reply) {
            Ok(stop) => stop,
            Err(error) => {
                let error = errors::redacted_single_line(error, key);
                return VecDeque::from([usage_event(reply), ModelEvent::Error(error)]);
            }
        };
        let replay = replay::replay_from_reply(reply, origin).map(ModelEvent::Replay);
        replay.into_iter().chain([usage_event(reply), ModelEvent::Stop(stop)]).collect()
    }
}

fn usage_event(reply: &CompletionResponse) -> ModelEvent {
    let usage = &reply.usage;
    ModelEvent::Usage(TokenUsage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cached_tokens: usage.cached_input_tokens,
        cache_written_tokens: usage.cache_creation_input_tokens,
        thought_tokens: usage.reasoning_tokens,
        cost_micros: usage.cost.as_ref().and_then(|cost| dollars_to_micros(cost.total)),
    })
}

fn dollars_to_micros(dollars: f64) -> Option<u64> {
    let micros = (dollars * 1e6).round();
    // A cast from float to integer saturates, so large values are safe.
    (micros.is_finite() && micros >= 0.0).then_some(micros as u64)
}

/// Words in stop reasons that mean that a content filter ended the reply.
const FILTER_REASONS: [&str; 8] =
    ["refusal", "safety", "filter", "blocklist", "prohibited", "recitation", "spii", "sensitive"];

/// Words in stop reasons that mean that the provider failed, or that it could not parse a call.
const FAILURE_REASONS: [&str; 6] =
    ["malformed", "unexpected_tool", "error", "insufficient_system", "failed", "cancelled"];

fn stop_reason_or_error(reply: &CompletionResponse) -> Result<ModelStopReason, ModelError> {
    let has_calls = reply.tool_calls().next().is_some();
    let error_text = reply.error.as_deref();
    match reply.finish_reason() {
        Some(FinishReason::ContentFilter) => Ok(ModelStopReason::Refusal),
        Some(FinishReason::Length) => Ok(ModelStopReason::MaxTokens),
        Some(FinishReason::Other(reason)) => {
            classify_provider_stop_reason(&reason, error_text, has_calls)
        }
        Some(_) if error_text.is_some() => Err(errors::transient_error(errors::CUT_OFF)),
        Some(_) if has_calls => Ok(ModelStopReason::ToolCalls),
        Some(_) => Ok(ModelStopReason::EndTurn),
        None => Err(errors::transient_error(errors::CUT_OFF)),
    }
}

/// Classifies a stop reason that is specific to a provider.
fn classify_provider_stop_reason(
    reason: &str,
    error_text: Option<&str>,
    has_calls: bool,
) -> Result<ModelStopReason, ModelError> {
    let word = reason.to_lowercase();
    let is = |words: &[&str]| words.iter().any(|known| word.contains(known));
    if is(&FILTER_REASONS) {
        return Ok(ModelStopReason::Refusal);
    }
    if is(&FAILURE_REASONS) {
        return Err(match error_text {
            Some(error_text) => errors::classify_failure_text(error_text),
            None => errors::transient_error(format!("the provider ended the reply: {reason}")),
        });
    }
    match error_text {
        Some(error_text) => Err(errors::classify_failure_text(error_text)),
        None if has_calls => Ok(ModelStopReason::ToolCalls),
        None => Ok(ModelStopReason::EndTurn),
    }
}

#[cfg(test)]
mod tests {
    use rig_core::message::{CallId, Origin, Text, ToolCall, ToolFunction, ToolName};
    use serde_json::Value;

    use super::*;
    use crate::ModelErrorKind;
    use crate::limits;

    fn reply(
        reason: Option<FinishReason>,
        has_call: bool,
        error: Option<&str>,
    ) -> CompletionResponse {
        let call = ToolCall::new(
            CallId::from_wire("a"),
            ToolFunction::new(ToolName::new("undo").unwrap(), Value::Null),
        );
        let text = AssistantContent::Text(Text::new("Well."));
        let call = has_call.then_some(AssistantContent::ToolCall(call));
        let origin = Origin::new("api", "provider", "model");
        let content = [text].into_iter().chain(call).collect();
        let mut reply = CompletionResponse::new(content, Default::default(), origin, Value::Null)
            .with_optional_finish_reason(reason)
            .accept_unknown_finish_reasons(true);
        reply.error = error.map(str::to_owned);
        reply
    }

    #[test]
    fn a_stop_reason_of_a_provider_becomes_one_of_ours() {
        use FinishReason::{ContentFilter, Length, Other, Stop as Natural, ToolCalls};
        let other = |reason: &str| Some(Other(reason.to_owned()));
        for (reason, has_call, error, expected) in [
            (Some(Natural), false, None, Ok(ModelStopReason::EndTurn)),
            (Some(Natural), true, None, Ok(ModelStopReason::ToolCalls)),
            (Some(ToolCalls), false, None, Ok(ModelStopReason::EndTurn)),
            (Some(Length), true, None, Ok(ModelStopReason::MaxTokens)),
            (Some(ContentFilter), false, Some("no"), Ok(ModelStopReason::Refusal)),
            (other("IMAGE_SAFETY"), false, None, Ok(ModelStopReason::Refusal)),
            (other("RECITATION"), false, Some("no"), Ok(ModelStopReason::Refusal)),
            (other("MALFORMED_FUNCTION_CALL"), false, None, Err(ModelErrorKind::Transient)),
            (
                other("failed"),
                false,
                Some("prompt is too long"),
                Err(ModelErrorKind::ContextTooLong),
            ),
            (other("something_new"), false, None, Ok(ModelStopReason::EndTurn)),
            (other("something_new"), true, None, Ok(ModelStopReason::ToolCalls)),
            (None, false, Some("without a finish reason"), Err(ModelErrorKind::Transient)),
            (Some(Natural), true, Some("a call never finished"), Err(ModelErrorKind::Transient)),
        ] {
            let reply = reply(reason.clone(), has_call, error);
            let got = stop_reason_or_error(&reply).map_err(|error| error.kind);
            assert_eq!(got, expected, "{reason:?} {error:?}");
        }
    }

    #[test]
    fn no_stop_reason_contains_the_key() {
        let key = ApiKey::from_nonempty_text("sk-test-secret");
        // The text is truncated in the middle of the key.
        let long = format!("{}sk-test-secret", "a".repeat(limits::MAX_ERROR_TEXT_BYTES - 5));
        for (reason, error_text) in
            [("failed", Some("bad sk-test-secret")), ("failed", Some(&*long))]
                .into_iter()
                .chain([("error: sk-test-secret", None)])
        {
            let reason = FinishReason::Other(reason.to_owned());
            let final_events = StreamDecoder::default().final_events(
                &reply(Some(reason), false, error_text),
                &"openai/m".into(),
                key.as_ref(),
            );
            let Some(ModelEvent::Error(error)) = final_events.back() else {
                panic!("{final_events:?}")
            };
            assert!(!error.message.contains("sk-t"), "{error}");
        }
    }

    #[test]
    fn dollars_become_millionths() {
        for (dollars, expected) in
            [(0.0125, Some(12_500)), (0.0, Some(0)), (-1.0, None), (f64::NAN, None)]
        {
            assert_eq!(dollars_to_micros(dollars), expected, "{dollars}");
        }
    }
}
