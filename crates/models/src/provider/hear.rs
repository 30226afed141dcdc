//! A reply as the model library tells it, turned into the events of a [`Model`](crate::Model).
//!
//! Pure: it knows no dialect and no connection.

use std::{collections::VecDeque, sync::Arc};

use rig_core::{
    completion::{CompletionResponse, FinishReason},
    message::AssistantContent,
    streaming::{PartKind, StreamEvent},
};

use super::{Key, fault, replay};
use crate::{Event, ModelError, Stop, Usage};

/// Hears one reply.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// The position of each call in the reply; its place here tells its id.
    calls: Vec<usize>,
}

impl Hearing {
    /// Hears the next piece.
    pub(super) fn hear(&mut self, event: StreamEvent) -> Option<Event> {
        match event {
            StreamEvent::Start { part, kind: PartKind::ToolCall, name } => {
                self.calls.push(part.index());
                let name = name.map(String::from).unwrap_or_default();
                Some(Event::CallStart { id: replay::call_id(self.calls.len() - 1), name })
            }
            StreamEvent::Text { text, .. } => Some(Event::Text(text)),
            StreamEvent::Reasoning { text, .. } => Some(Event::Thought(text)),
            StreamEvent::Arguments { part, json } => {
                self.id(part.index()).map(|id| Event::CallArguments { id, fragment: json })
            }
            StreamEvent::End { part, content: AssistantContent::ToolCall(_) } => {
                self.id(part.index()).map(|id| Event::CallEnd { id })
            }
            StreamEvent::Start { .. } | StreamEvent::End { .. } => None,
        }
    }

    fn id(&self, part: usize) -> Option<String> {
        let place = self.calls.iter().position(|call| *call == part)?;
        Some(replay::call_id(place))
    }

    /// Hears the end: what is to be told again, what was used, and why it ended.
    pub(super) fn end(
        &self,
        reply: &CompletionResponse,
        origin: &Arc<str>,
        key: Option<&Key>,
    ) -> VecDeque<Event> {
        let stop = match stop(reply) {
            Ok(stop) => stop,
            Err(error) => {
                let error = fault::told(error, key);
                return VecDeque::from([usage(reply), Event::Error(error)]);
            }
        };
        let replay = replay::of(reply, origin).map(Event::Replay);
        replay.into_iter().chain([usage(reply), Event::Stop(stop)]).collect()
    }
}

fn usage(reply: &CompletionResponse) -> Event {
    let usage = &reply.usage;
    Event::Usage(Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cached_tokens: usage.cached_input_tokens,
        cache_written_tokens: usage.cache_creation_input_tokens,
        thought_tokens: usage.reasoning_tokens,
        cost_micros: usage.cost.as_ref().and_then(|cost| micros(cost.total)),
    })
}

fn micros(dollars: f64) -> Option<u64> {
    let micros = (dollars * 1e6).round();
    // A cast from a float saturates.
    (micros.is_finite() && micros >= 0.0).then_some(micros as u64)
}

/// Words in the reasons of filters.
const FILTERS: [&str; 8] =
    ["refusal", "safety", "filter", "blocklist", "prohibited", "recitation", "spii", "sensitive"];

/// Words in the reasons of failures of the provider, or of calls that it could not read.
const FAILURES: [&str; 6] =
    ["malformed", "unexpected_tool", "error", "insufficient_system", "failed", "cancelled"];

fn stop(reply: &CompletionResponse) -> Result<Stop, ModelError> {
    let has_calls = reply.tool_calls().next().is_some();
    let told = reply.error.as_deref();
    match reply.finish_reason() {
        Some(FinishReason::ContentFilter) => Ok(Stop::Refusal),
        Some(FinishReason::Length) => Ok(Stop::MaxTokens),
        Some(FinishReason::Other(reason)) => other(&reason, told, has_calls),
        Some(_) if told.is_some() => Err(fault::transient(fault::CUT_OFF)),
        Some(_) if has_calls => Ok(Stop::ToolCalls),
        Some(_) => Ok(Stop::EndTurn),
        None => Err(fault::transient(fault::CUT_OFF)),
    }
}

/// Judges a reason that is a provider's own.
fn other(reason: &str, told: Option<&str>, has_calls: bool) -> Result<Stop, ModelError> {
    let word = reason.to_lowercase();
    let is = |words: &[&str]| words.iter().any(|known| word.contains(known));
    if is(&FILTERS) {
        return Ok(Stop::Refusal);
    }
    if is(&FAILURES) {
        return Err(match told {
            Some(told) => fault::of_text(told),
            None => fault::transient(format!("the provider ended the reply: {reason}")),
        });
    }
    match told {
        Some(told) => Err(fault::of_text(told)),
        None if has_calls => Ok(Stop::ToolCalls),
        None => Ok(Stop::EndTurn),
    }
}

#[cfg(test)]
mod tests {
    use rig_core::message::{CallId, Origin, Text, ToolCall, ToolFunction, ToolName};
    use serde_json::Value;

    use super::*;
    use crate::Fault;
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
    fn the_reason_of_the_end_is_told_in_our_words() {
        use FinishReason::{ContentFilter, Length, Other, Stop as Natural, ToolCalls};
        let other = |reason: &str| Some(Other(reason.to_owned()));
        for (reason, has_call, error, expected) in [
            (Some(Natural), false, None, Ok(Stop::EndTurn)),
            (Some(Natural), true, None, Ok(Stop::ToolCalls)),
            (Some(ToolCalls), false, None, Ok(Stop::EndTurn)),
            (Some(Length), true, None, Ok(Stop::MaxTokens)),
            (Some(ContentFilter), false, Some("no"), Ok(Stop::Refusal)),
            (other("IMAGE_SAFETY"), false, None, Ok(Stop::Refusal)),
            (other("RECITATION"), false, Some("no"), Ok(Stop::Refusal)),
            (other("MALFORMED_FUNCTION_CALL"), false, None, Err(Fault::Transient)),
            (other("failed"), false, Some("prompt is too long"), Err(Fault::TooLong)),
            (other("something_new"), false, None, Ok(Stop::EndTurn)),
            (other("something_new"), true, None, Ok(Stop::ToolCalls)),
            (None, false, Some("without a finish reason"), Err(Fault::Transient)),
            (Some(Natural), true, Some("a call never finished"), Err(Fault::Transient)),
        ] {
            let reply = reply(reason.clone(), has_call, error);
            let got = stop(&reply).map_err(|error| error.fault);
            assert_eq!(got, expected, "{reason:?} {error:?}");
        }
    }

    #[test]
    fn no_reason_holds_the_key() {
        let key = Key::new("sk-test-secret");
        // Also one that the bound of the text would cut.
        let long = format!("{}sk-test-secret", "a".repeat(limits::MAX_MODEL_ERROR_TEXT - 5));
        for (reason, told) in [("failed", Some("bad sk-test-secret")), ("failed", Some(&*long))]
            .into_iter()
            .chain([("error: sk-test-secret", None)])
        {
            let reason = FinishReason::Other(reason.to_owned());
            let heard = Hearing::default().end(
                &reply(Some(reason), false, told),
                &"openai/m".into(),
                key.as_ref(),
            );
            let Some(Event::Error(error)) = heard.back() else { panic!("{heard:?}") };
            assert!(!error.message.contains("sk-t"), "{error}");
        }
    }

    #[test]
    fn dollars_become_millionths() {
        for (dollars, expected) in
            [(0.0125, Some(12_500)), (0.0, Some(0)), (-1.0, None), (f64::NAN, None)]
        {
            assert_eq!(micros(dollars), expected, "{dollars}");
        }
    }
}
