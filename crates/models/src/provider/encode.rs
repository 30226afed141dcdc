//! Converts a request into the model library's form.

use std::{collections::HashSet, sync::Arc};

use rig_core::{
    completion::{CompletionRequest, GenerationOptions, OnUnsupported},
    message::{
        AssistantContent, AssistantMessage, Audio, AudioMediaType, CallId, DocumentSourceKind,
        Image, ImageMediaType, Message as RigMessage, MimeType as _, Text, ToolCall, ToolFunction,
        ToolName, ToolResult as RigToolResult, ToolResultContent, UserContent,
    },
};

use super::{
    encode_cache::{ConvertedReply, EncodeCache},
    encoded_prefix::PendingBody,
    replay::{self, StoredReply},
};
use crate::{ChatMessage, ContentPart, ModelCapabilities, ModelRequest, ModelToolCall, ToolResult};

/// Encodes a request for the model at `origin` in the library's form. Placeholders replace long
/// texts and the cached messages of the session.
pub(super) fn encode_request(
    request: &ModelRequest,
    origin: &str,
    traits: ModelCapabilities,
    memory: &EncodeCache,
) -> (CompletionRequest, PendingBody) {
    memory.evict_dropped();
    let (encoded, ids, taken) = Default::default();
    let pending_body = memory.take_prefix_for_request(request);
    let mut history = RequestEncoder { origin, traits, memory, pending_body, encoded, ids, taken };
    if !request.system.is_empty() {
        history
            .encoded
            .push(RigMessage::System { content: memory.system_or_placeholder(&request.system) });
    }
    if let Some(mark) = history.pending_body.prefix_placeholder() {
        let mark = UserContent::Text(Text::new(mark));
        history.encoded.push(RigMessage::User { content: vec![mark] });
    }
    for (index, message) in
        request.messages.iter().enumerate().skip(history.pending_body.cached_message_count())
    {
        history.encode_message(index, message);
    }
    let mut completion = CompletionRequest::from(history.encoded)
        .tools(memory.cached_or_encoded_tools(&request.tools))
        .max_tokens(request.max_tokens.map(|tokens| u64::from(tokens.get())))
        .accept_unknown_finish_reasons(true);
    completion.options = GenerationOptions::new().on_unsupported(OnUnsupported::Ignore);
    (completion, history.pending_body)
}

struct RequestEncoder<'a> {
    origin: &'a str,
    traits: ModelCapabilities,
    memory: &'a EncodeCache,
    pending_body: PendingBody,
    encoded: Vec<RigMessage>,
    /// Ids of the calls in the last reply: the session's id and the provider's id of each call.
    ids: Vec<(&'a str, CallId)>,
    /// Provider ids of all calls so far, except the calls in cached messages.
    taken: HashSet<CallId>,
}

impl<'a> RequestEncoder<'a> {
    fn encode_message(&mut self, index: usize, message: &'a Arc<ChatMessage>) {
        let mut long = 0;
        let mut marked = |text: &str| self.memory.text_or_placeholder(message, &mut long, text);
        let encoded = match &**message {
            ChatMessage::User(parts) => encode_user_message(
                parts.iter().map(|part| self.encode_part(part, &mut marked)).collect(),
            ),
            ChatMessage::Context(text) => {
                encode_user_message(vec![UserContent::Text(Text::new(marked(text)))])
            }
            ChatMessage::ToolResults(results) => {
                let results = results.iter().filter_map(|it| self.encode_result(it, &mut marked));
                RigMessage::User { content: results.collect() }
            }
            ChatMessage::Assistant { text, calls, replay, .. } => {
                let (turn, ids) = self.memory.cached_or_converted_reply(message, index, || {
                    let kept = replay.as_ref();
                    let kept =
                        kept.and_then(|it| replay::restore_stored_reply(it, self.origin, calls));
                    let is_taken = |id: &CallId| {
                        self.taken.contains(id) || self.pending_body.has_cached_call_id(id)
                    };
                    let kept = kept.filter(|kept| !has_ids_of_earlier_calls(kept, is_taken));
                    encode_assistant_message(index, kept, text, calls, &mut marked)
                });
                self.pending_body.record_ids_or_disable_caching(index, &ids);
                self.taken.extend(ids.iter().cloned());
                self.ids = calls.iter().map(|call| call.id.as_str()).zip(ids).collect();
                RigMessage::Assistant(turn)
            }
        };
        let is_empty = match &encoded {
            RigMessage::Assistant(turn) => turn.content.is_empty(),
            RigMessage::User { content } => content.is_empty(),
            RigMessage::System { .. } => false,
        };
        if !is_empty {
            self.encoded.push(encoded);
        }
    }

    fn encode_part(
        &self,
        part: &ContentPart,
        marked: &mut impl FnMut(&str) -> String,
    ) -> UserContent {
        let (what, media) = match part {
            ContentPart::Text(text) => return UserContent::Text(Text::new(marked(text))),
            ContentPart::Image { media_type, data } => {
                let media_type = ImageMediaType::from_mime_type(media_type);
                let media_type = media_type.filter(|_| self.traits.images);
                ("An image", media_type.map(|it| encode_image(it, marked(data))))
            }
            ContentPart::Audio { media_type, data } => {
                let media_type = AudioMediaType::from_mime_type(media_type);
                let media_type = media_type.filter(|_| self.traits.audio);
                ("A recording", media_type.map(|it| encode_audio(it, marked(data))))
            }
        };
        media.unwrap_or_else(|| {
            let note = format!("[{what} was here. This model does not accept it.]");
            UserContent::Text(Text::new(note))
        })
    }

    /// Encodes a tool result. The library cannot encode a call without a name, so the result of
    /// such a call is omitted.
    fn encode_result(
        &self,
        result: &ToolResult,
        marked: &mut impl FnMut(&str) -> String,
    ) -> Option<UserContent> {
        let known = self.ids.iter().find(|(id, _)| *id == result.call_id);
        let call = match known {
            Some((_, call)) => call.clone(),
            None => CallId::from_wire(&*result.call_id),
        };
        // Providers reject empty text.
        let text = if result.text.trim().is_empty() { "(nothing)" } else { &result.text };
        let mut content = vec![ToolResultContent::Text(Text::new(marked(text)))];
        // If a dialect does not accept images in results, the library appends the images after the
        // results.
        content.extend(result.parts.iter().filter_map(
            |part| match self.encode_part(part, marked) {
                UserContent::Text(text) => Some(ToolResultContent::Text(text)),
                UserContent::Image(image) => Some(ToolResultContent::Image(image)),
                _ => None,
            },
        ));
        Some(UserContent::ToolResult(RigToolResult {
            call,
            name: ToolName::new(result.name.clone()).ok()?,
            content,
            is_error: result.is_error,
        }))
    }
}

fn encode_image(media_type: ImageMediaType, data: String) -> UserContent {
    let (data, media_type) = (DocumentSourceKind::Base64(data), Some(media_type));
    UserContent::Image(Image { data, media_type, ..Image::default() })
}

fn encode_audio(media_type: AudioMediaType, data: String) -> UserContent {
    let (data, media_type) = (DocumentSourceKind::Base64(data), Some(media_type));
    UserContent::Audio(Audio { data, media_type })
}

fn encode_user_message(mut content: Vec<UserContent>) -> RigMessage {
    let is_blank =
        |part: &UserContent| matches!(part, UserContent::Text(text) if text.text.trim().is_empty());
    content.retain(|part| !is_blank(part));
    if content.is_empty() {
        content.push(UserContent::Text(Text::new("(nothing)")));
    }
    RigMessage::User { content }
}

/// Returns whether an earlier call used one of the stored ids. The library could also make ids
/// unique. However, the library searches from the beginning for each call, which takes quadratic
/// time.
fn has_ids_of_earlier_calls(kept: &StoredReply, is_taken: impl Fn(&CallId) -> bool) -> bool {
    match kept {
        StoredReply::Ids(ids) => ids.iter().any(is_taken),
        StoredReply::Turn(turn) => turn.tool_calls().any(|call| is_taken(&call.id)),
    }
}

/// Encodes a reply. If the provider's own form of the reply is stored, this form is used; otherwise
/// the reply is built from its events. A reply that is built from events has no thoughts, because
/// providers accept only thoughts that they signed. Some models reuse ids, and some providers
/// reject repeated ids. Calls with unknown or repeated ids therefore get new ids from their
/// position in the session.
fn encode_assistant_message(
    index: usize,
    kept: Option<StoredReply>,
    text: &str,
    calls: &[ModelToolCall],
    marked: &mut impl FnMut(&str) -> String,
) -> ConvertedReply {
    let ids = match kept {
        Some(StoredReply::Turn(turn)) => {
            let ids = turn.tool_calls().map(|call| call.id.clone()).collect();
            return (turn, ids);
        }
        // If the library chose an id, the id depends on earlier calls in the request. Such an id is
        // not reused.
        Some(StoredReply::Ids(ids)) if !ids.iter().any(CallId::is_local) => ids,
        _ => (0..calls.len())
            .map(|place| CallId::from_wire(format!("c{index:06}{place:02}")))
            .collect(),
    };
    let text = (!text.trim().is_empty()).then(|| AssistantContent::Text(Text::new(marked(text))));
    let calls = calls.iter().zip(&ids).filter_map(|(call, id)| {
        let name = ToolName::new(call.name.clone()).ok()?;
        // Arguments get no placeholder. Some dialects send arguments as JSON inside a string, so
        // the text would have to be escaped twice.
        let function = ToolFunction::parse(name, &call.arguments);
        Some(AssistantContent::ToolCall(ToolCall::new(id.clone(), function)))
    });
    (AssistantMessage::new(text.into_iter().chain(calls).collect()), ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProviderReplay, provider::Provider};

    fn encode_messages(messages: Vec<ChatMessage>, traits: ModelCapabilities) -> Vec<RigMessage> {
        let messages = Arc::new(messages.into_iter().map(Arc::new).collect());
        let asked = ModelRequest { messages, ..ModelRequest::default() };
        encode_request(&asked, "openai/m", traits, &EncodeCache::new(Provider::OpenAi))
            .0
            .chat_history
    }

    fn reply(text: &str, calls: &[&str], replay: Option<ProviderReplay>) -> ChatMessage {
        let call = |id: &&str| ModelToolCall {
            id: (*id).into(),
            name: "undo".into(),
            arguments: "{}".into(),
        };
        let calls = calls.iter().map(call).collect();
        ChatMessage::Assistant { text: text.into(), thought: "Hm.".into(), calls, replay }
    }

    fn results(ids: &[&str]) -> ChatMessage {
        let result = |id: &&str| ToolResult {
            call_id: (*id).into(),
            name: "undo".into(),
            text: String::new(),
            parts: Vec::new(),
            is_error: true,
        };
        ChatMessage::ToolResults(ids.iter().map(result).collect())
    }

    /// Returns the ids of all calls and results, in order.
    fn ids(encoded: &[RigMessage]) -> Vec<String> {
        let of = |message: &RigMessage| -> Vec<String> {
            match message {
                RigMessage::Assistant(turn) => {
                    turn.tool_calls().map(|call| call.id.wire().into_owned()).collect()
                }
                RigMessage::User { content } => {
                    let result = |part: &UserContent| match part {
                        UserContent::ToolResult(result) => Some(result.call.wire().into_owned()),
                        _ => None,
                    };
                    content.iter().filter_map(result).collect()
                }
                RigMessage::System { .. } => Vec::new(),
            }
        };
        encoded.iter().flat_map(of).collect()
    }

    #[test]
    fn calls_with_repeated_ids_get_unique_ids_and_keep_their_results() {
        let encoded = encode_messages(
            vec![
                reply("", &["a", "b"], None),
                results(&["b", "a"]),
                reply("", &["a"], None),
                results(&["a"]),
            ],
            ModelCapabilities::default(),
        );
        let expected =
            ["c00000000", "c00000001", "c00000001", "c00000000", "c00000200", "c00000200"];
        assert_eq!(ids(&encoded), expected);
    }

    #[test]
    fn replay_data_is_sent_only_to_its_model_with_its_calls() {
        let call = ToolCall::new(
            CallId::from_wire("theirs"),
            ToolFunction::new(ToolName::new("undo").unwrap(), serde_json::Value::Null),
        );
        let turn = AssistantMessage::new(vec![AssistantContent::ToolCall(call)]);
        let items = serde_json::to_value(StoredReply::Turn(turn)).unwrap();
        let replay =
            |origin: &str| Some(ProviderReplay { origin: origin.into(), items: items.clone() });
        let of = |reply| {
            ids(&encode_messages(vec![reply, results(&["a"])], ModelCapabilities::default()))
        };
        assert_eq!(of(reply("", &["a"], replay("openai/m"))), ["theirs", "theirs"]);
        assert_eq!(of(reply("", &["a"], replay("openai/n"))), ["c00000000", "c00000000"]);
        assert_eq!(of(reply("cut", &[], replay("openai/m"))), ["a"]);
        let broken = ProviderReplay { origin: "openai/m".into(), items: "?".into() };
        assert_eq!(of(reply("", &["a"], Some(broken))), ["c00000000", "c00000000"]);
    }

    #[test]
    fn repeated_provider_ids_are_sent_once() {
        let items = serde_json::to_value(StoredReply::Ids(vec![CallId::from_wire("c1")])).unwrap();
        let replay = || Some(ProviderReplay { origin: "openai/m".into(), items: items.clone() });
        let turn = || [reply("", &["a"], replay()), results(&["a"])];
        let encoded =
            encode_messages([turn(), turn(), turn()].concat(), ModelCapabilities::default());
        let expected = ["c1", "c1", "c00000200", "c00000200", "c00000400", "c00000400"];
        assert_eq!(ids(&encoded), expected);
    }

    #[test]
    fn empty_parts_are_omitted_and_unsupported_parts_are_named() {
        let image =
            |kind: &str| ContentPart::Image { media_type: kind.into(), data: "AA==".into() };
        let audio = ContentPart::Audio { media_type: "audio/wav".into(), data: "AA==".into() };
        let parts =
            vec![image("image/png"), image("image/x-odd"), audio, ContentPart::Text(" ".into())];
        let traits = ModelCapabilities { images: true, ..ModelCapabilities::default() };
        let encoded = encode_messages(
            vec![ChatMessage::User(parts), reply(" ", &[], None), ChatMessage::user("")],
            traits,
        );
        let [RigMessage::User { content }, RigMessage::User { content: empty }] = &*encoded else {
            panic!("{encoded:?}")
        };
        assert!(matches!(content[0], UserContent::Image(_)), "{content:?}");
        assert!(
            matches!(&content[1], UserContent::Text(text) if text.text.starts_with("[An image"))
        );
        assert!(
            matches!(&content[2], UserContent::Text(text) if text.text.starts_with("[A recording"))
        );
        assert_eq!(content.len(), 3);
        assert!(matches!(&empty[0], UserContent::Text(text) if !text.text.is_empty()));
    }
}
