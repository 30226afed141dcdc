//! A request in the model library's form.
//!
//! Pure: it knows no connection; what differs between dialects is the library's work.

use std::{collections::HashSet, sync::Arc};

use rig_core::{
    completion::{CompletionRequest, GenerationOptions, OnUnsupported},
    message::{
        AssistantContent, AssistantMessage, Audio, AudioMediaType, CallId, DocumentSourceKind,
        Image, ImageMediaType, Message as Told, MimeType as _, Text, ToolCall, ToolFunction,
        ToolName, ToolResult as Result, ToolResultContent, UserContent,
    },
};

use super::{
    beginning::Telling,
    memory::{Memory, Turn},
    replay::{self, Kept},
};
use crate::{Call, Message, Part, Request, ToolResult, Traits};

/// Puts a request of the model at `origin` into the library's form, with marks for long texts and
/// one for all that is kept of the session's beginning.
pub(super) fn request(
    request: &Request,
    origin: &str,
    traits: Traits,
    memory: &Memory,
) -> (CompletionRequest, Telling) {
    memory.forget();
    let (told, ids, taken) = Default::default();
    let telling = memory.begin(request);
    let mut history = History { origin, traits, memory, telling, told, ids, taken };
    if !request.system.is_empty() {
        history.told.push(Told::System { content: memory.system(&request.system) });
    }
    if let Some(mark) = history.telling.mark() {
        let mark = UserContent::Text(Text::new(mark));
        history.told.push(Told::User { content: vec![mark] });
    }
    for (index, message) in request.messages.iter().enumerate().skip(history.telling.kept()) {
        history.tell(index, message);
    }
    let mut told = CompletionRequest::from(history.told)
        .tools(memory.tools(&request.tools))
        .max_tokens(request.max_tokens.map(|tokens| u64::from(tokens.get())))
        .accept_unknown_finish_reasons(true);
    told.options = GenerationOptions::new().on_unsupported(OnUnsupported::Ignore);
    (told, history.telling)
}

struct History<'a> {
    origin: &'a str,
    traits: Traits,
    memory: &'a Memory,
    telling: Telling,
    told: Vec<Told>,
    /// The ids of the last reply's calls: ours, and those the provider is told.
    ids: Vec<(&'a str, CallId)>,
    /// The ids that the provider is told of all calls so far, but those that are kept.
    taken: HashSet<CallId>,
}

impl<'a> History<'a> {
    fn tell(&mut self, index: usize, message: &'a Arc<Message>) {
        let mut long = 0;
        let mut marked = |text: &str| self.memory.text(message, &mut long, text);
        let told = match &**message {
            Message::User(parts) => {
                user(parts.iter().map(|part| self.part(part, &mut marked)).collect())
            }
            Message::Context(text) => user(vec![UserContent::Text(Text::new(marked(text)))]),
            Message::ToolResults(results) => {
                let results = results.iter().filter_map(|it| self.result(it, &mut marked));
                Told::User { content: results.collect() }
            }
            Message::Assistant { text, calls, replay, .. } => {
                let (turn, ids) = self.memory.turn(message, index, || {
                    let kept = replay.as_ref();
                    let kept = kept.and_then(|it| replay::again(it, self.origin, calls));
                    let is_taken =
                        |id: &CallId| self.taken.contains(id) || self.telling.is_taken(id);
                    let kept = kept.filter(|kept| !repeats(kept, is_taken));
                    assistant(index, kept, text, calls, &mut marked)
                });
                self.telling.learn(index, &ids);
                self.taken.extend(ids.iter().cloned());
                self.ids = calls.iter().map(|call| call.id.as_str()).zip(ids).collect();
                Told::Assistant(turn)
            }
        };
        let is_empty = match &told {
            Told::Assistant(turn) => turn.content.is_empty(),
            Told::User { content } => content.is_empty(),
            Told::System { .. } => false,
        };
        if !is_empty {
            self.told.push(told);
        }
    }

    fn part(&self, part: &Part, marked: &mut impl FnMut(&str) -> String) -> UserContent {
        let (what, media) = match part {
            Part::Text(text) => return UserContent::Text(Text::new(marked(text))),
            Part::Image { media_type, data } => {
                let media_type = ImageMediaType::from_mime_type(media_type);
                let media_type = media_type.filter(|_| self.traits.images);
                ("An image", media_type.map(|it| image(it, marked(data))))
            }
            Part::Audio { media_type, data } => {
                let media_type = AudioMediaType::from_mime_type(media_type);
                let media_type = media_type.filter(|_| self.traits.audio);
                ("A recording", media_type.map(|it| audio(it, marked(data))))
            }
        };
        media.unwrap_or_else(|| {
            let note = format!("[{what} was here, of a kind that this model does not take.]");
            UserContent::Text(Text::new(note))
        })
    }

    /// Tells a result. The library tells no call without a name, and so no result of it.
    fn result(
        &self,
        result: &ToolResult,
        marked: &mut impl FnMut(&str) -> String,
    ) -> Option<UserContent> {
        let known = self.ids.iter().find(|(id, _)| *id == result.call_id);
        let call = match known {
            Some((_, call)) => call.clone(),
            None => CallId::from_wire(&*result.call_id),
        };
        // Providers refuse empty text.
        let text = if result.text.trim().is_empty() { "(nothing)" } else { &result.text };
        let mut content = vec![ToolResultContent::Text(Text::new(marked(text)))];
        // Where a dialect takes no image in a result, the library puts it behind the results.
        content.extend(result.parts.iter().filter_map(|part| match self.part(part, marked) {
            UserContent::Text(text) => Some(ToolResultContent::Text(text)),
            UserContent::Image(image) => Some(ToolResultContent::Image(image)),
            _ => None,
        }));
        Some(UserContent::ToolResult(Result {
            call,
            name: ToolName::new(result.name.clone()).ok()?,
            content,
            is_error: result.is_error,
        }))
    }
}

fn image(media_type: ImageMediaType, data: String) -> UserContent {
    let (data, media_type) = (DocumentSourceKind::Base64(data), Some(media_type));
    UserContent::Image(Image { data, media_type, ..Image::default() })
}

fn audio(media_type: AudioMediaType, data: String) -> UserContent {
    let (data, media_type) = (DocumentSourceKind::Base64(data), Some(media_type));
    UserContent::Audio(Audio { data, media_type })
}

fn user(mut content: Vec<UserContent>) -> Told {
    let is_blank =
        |part: &UserContent| matches!(part, UserContent::Text(text) if text.text.trim().is_empty());
    content.retain(|part| !is_blank(part));
    if content.is_empty() {
        content.push(UserContent::Text(Text::new("(nothing)")));
    }
    Told::User { content }
}

/// Whether ids that are kept are those of earlier calls, too. The library would tell them apart, but
/// looks for a free one from the first again for each call: that many calls would take its square.
fn repeats(kept: &Kept, is_taken: impl Fn(&CallId) -> bool) -> bool {
    match kept {
        Kept::Ids(ids) => ids.iter().any(is_taken),
        Kept::Turn(turn) => turn.tool_calls().any(|call| is_taken(&call.id)),
    }
}

/// A reply: as its provider gave it, where that is kept, else from what was heard. Then its
/// thoughts are left out, because providers take no others than those they signed; and calls whose
/// ids are not known or repeat earlier ones are named by their place in the session, because some
/// models repeat theirs and some providers refuse that.
fn assistant(
    index: usize,
    kept: Option<Kept>,
    text: &str,
    calls: &[Call],
    marked: &mut impl FnMut(&str) -> String,
) -> Turn {
    let ids = match kept {
        Some(Kept::Turn(turn)) => {
            let ids = turn.tool_calls().map(|call| call.id.clone()).collect();
            return (turn, ids);
        }
        // One that the library chose depends on the calls before it.
        Some(Kept::Ids(ids)) if !ids.iter().any(CallId::is_local) => ids,
        _ => (0..calls.len())
            .map(|place| CallId::from_wire(format!("c{index:06}{place:02}")))
            .collect(),
    };
    let text = (!text.trim().is_empty()).then(|| AssistantContent::Text(Text::new(marked(text))));
    let calls = calls.iter().zip(&ids).filter_map(|(call, id)| {
        let name = ToolName::new(call.name.clone()).ok()?;
        // Some dialects write arguments as JSON in a string, so that a mark would stand too deep.
        let function = ToolFunction::parse(name, &call.arguments);
        Some(AssistantContent::ToolCall(ToolCall::new(id.clone(), function)))
    });
    (AssistantMessage::new(text.into_iter().chain(calls).collect()), ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Replay, provider::Provider};

    fn told(messages: Vec<Message>, traits: Traits) -> Vec<Told> {
        let messages = Arc::new(messages.into_iter().map(Arc::new).collect());
        let asked = Request { messages, ..Request::default() };
        request(&asked, "openai/m", traits, &Memory::new(Provider::OpenAi)).0.chat_history
    }

    fn reply(text: &str, calls: &[&str], replay: Option<Replay>) -> Message {
        let call =
            |id: &&str| Call { id: (*id).into(), name: "undo".into(), arguments: "{}".into() };
        let calls = calls.iter().map(call).collect();
        Message::Assistant { text: text.into(), thought: "Hm.".into(), calls, replay }
    }

    fn results(ids: &[&str]) -> Message {
        let result = |id: &&str| ToolResult {
            call_id: (*id).into(),
            name: "undo".into(),
            text: String::new(),
            parts: Vec::new(),
            is_error: true,
        };
        Message::ToolResults(ids.iter().map(result).collect())
    }

    /// The ids of calls and of results, in order.
    fn ids(told: &[Told]) -> Vec<String> {
        let of = |message: &Told| -> Vec<String> {
            match message {
                Told::Assistant(turn) => {
                    turn.tool_calls().map(|call| call.id.wire().into_owned()).collect()
                }
                Told::User { content } => {
                    let result = |part: &UserContent| match part {
                        UserContent::ToolResult(result) => Some(result.call.wire().into_owned()),
                        _ => None,
                    };
                    content.iter().filter_map(result).collect()
                }
                Told::System { .. } => Vec::new(),
            }
        };
        told.iter().flat_map(of).collect()
    }

    #[test]
    fn calls_whose_ids_repeat_are_told_apart_and_keep_their_results() {
        let told = told(
            vec![
                reply("", &["a", "b"], None),
                results(&["b", "a"]),
                reply("", &["a"], None),
                results(&["a"]),
            ],
            Traits::default(),
        );
        let expected =
            ["c00000000", "c00000001", "c00000001", "c00000000", "c00000200", "c00000200"];
        assert_eq!(ids(&told), expected);
    }

    #[test]
    fn a_replay_is_told_to_its_own_model_with_its_own_calls_only() {
        let call = ToolCall::new(
            CallId::from_wire("theirs"),
            ToolFunction::new(ToolName::new("undo").unwrap(), serde_json::Value::Null),
        );
        let turn = AssistantMessage::new(vec![AssistantContent::ToolCall(call)]);
        let items = serde_json::to_value(Kept::Turn(turn)).unwrap();
        let replay = |origin: &str| Some(Replay { origin: origin.into(), items: items.clone() });
        let of = |reply| ids(&told(vec![reply, results(&["a"])], Traits::default()));
        assert_eq!(of(reply("", &["a"], replay("openai/m"))), ["theirs", "theirs"]);
        assert_eq!(of(reply("", &["a"], replay("openai/n"))), ["c00000000", "c00000000"]);
        assert_eq!(of(reply("cut", &[], replay("openai/m"))), ["a"]);
        let broken = Replay { origin: "openai/m".into(), items: "?".into() };
        assert_eq!(of(reply("", &["a"], Some(broken))), ["c00000000", "c00000000"]);
    }

    #[test]
    fn ids_of_the_provider_that_repeat_are_told_once() {
        let items = serde_json::to_value(Kept::Ids(vec![CallId::from_wire("c1")])).unwrap();
        let replay = || Some(Replay { origin: "openai/m".into(), items: items.clone() });
        let turn = || [reply("", &["a"], replay()), results(&["a"])];
        let told = told([turn(), turn(), turn()].concat(), Traits::default());
        let expected = ["c1", "c1", "c00000200", "c00000200", "c00000400", "c00000400"];
        assert_eq!(ids(&told), expected);
    }

    #[test]
    fn nothing_empty_is_told_and_what_is_not_taken_is_named() {
        let image = |kind: &str| Part::Image { media_type: kind.into(), data: "AA==".into() };
        let audio = Part::Audio { media_type: "audio/wav".into(), data: "AA==".into() };
        let parts = vec![image("image/png"), image("image/x-odd"), audio, Part::Text(" ".into())];
        let traits = Traits { images: true, ..Traits::default() };
        let told =
            told(vec![Message::User(parts), reply(" ", &[], None), Message::user("")], traits);
        let [Told::User { content }, Told::User { content: empty }] = &*told else {
            panic!("{told:?}")
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
