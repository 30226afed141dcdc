//! The cached JSON of the messages at the beginning of a session's next request.
//!
//! Each request contains the whole session. If the model library encoded every message again, the
//! cost of a request would grow with the length of the session. If there is a reply between two
//! messages, the encodings of these messages do not depend on each other. Therefore, the JSON of a
//! message is cached as soon as a later request contains a reply after the message. The library
//! receives one short placeholder message instead of all cached messages, and the cached JSON
//! replaces this placeholder in the encoded body.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    ptr,
    sync::{Arc, Weak},
};

use rig_core::message::CallId;
use serde_json::value::RawValue;

use crate::{ChatMessage, ModelRequest, ToolSpec};

/// Names of the message list in the request bodies of the dialects.
const MESSAGE_FIELDS: [&str; 3] = ["messages", "input", "contents"];

/// The cached messages of one session with one model.
#[derive(Debug)]
pub(super) struct EncodedPrefix {
    system: Weak<str>,
    tools: Weak<[ToolSpec]>,
    /// Messages of the last request, as weak pointers. As long as the weak pointers exist, no other
    /// message can have the same address.
    messages: Vec<Weak<ChatMessage>>,
    /// Number of JSON elements that the messages of the last request became.
    elements: usize,
    encoded: EncodedMessages,
}

/// Messages whose JSON is reused.
#[derive(Debug, Default)]
struct EncodedMessages {
    /// Number of messages.
    messages: usize,
    /// JSON elements of the messages; a comma precedes each element. In some dialects the message
    /// list also contains the system prompt, which is then one of the elements.
    json: Vec<u8>,
    elements: usize,
    /// Ids of the calls in these messages.
    ids: HashSet<CallId>,
}

impl EncodedPrefix {
    /// Creates an empty cache for the session of a request.
    pub(super) fn empty_for_request(request: &ModelRequest) -> Self {
        Self {
            system: Arc::downgrade(&request.system),
            tools: Arc::downgrade(&request.tools),
            messages: Vec::new(),
            elements: 0,
            encoded: EncodedMessages::default(),
        }
    }

    /// Returns whether the session's first message still exists outside of this cache.
    pub(super) fn is_session_alive(&self) -> bool {
        self.messages.first().is_some_and(|first| first.strong_count() > 0)
    }

    /// Returns whether a request begins with the cached messages.
    pub(super) fn is_prefix_of_request(&self, request: &ModelRequest) -> bool {
        ptr::eq(self.system.as_ptr(), Arc::as_ptr(&request.system))
            && ptr::eq(self.tools.as_ptr(), Arc::as_ptr(&request.tools))
            && starts_with_messages(&request.messages, &self.messages[..self.encoded.messages])
            && (self.encoded.messages == 0
                || has_encodable_reply_at(request, self.encoded.messages))
    }

    /// Returns the key of the session: the address of its first message.
    pub(super) fn session_address(&self) -> Option<usize> {
        Some(self.messages.first()?.as_ptr().addr())
    }

    /// Returns the addresses of the cached messages.
    pub(super) fn cached_message_addresses(&self) -> impl Iterator<Item = usize> {
        self.messages[..self.encoded.messages].iter().map(|message| message.as_ptr().addr())
    }

    /// Returns the number of messages that the next request need not encode again. These are the
    /// messages of the previous request, provided that `request` has a reply after them.
    fn next_cacheable_message_count(&self, request: &ModelRequest) -> Option<usize> {
        let next = self.messages.len();
        (next > self.encoded.messages && starts_with_messages(&request.messages, &self.messages))
            .then_some(next)
            .filter(|next| has_encodable_reply_at(request, *next))
    }
}

fn starts_with_messages(messages: &[Arc<ChatMessage>], with: &[Weak<ChatMessage>]) -> bool {
    let is_same =
        |(one, other): (&Arc<ChatMessage>, &Weak<ChatMessage>)| Arc::as_ptr(one) == other.as_ptr();
    messages.len() >= with.len() && messages.iter().zip(with).all(is_same)
}

/// Returns whether the message at `place` is a reply that the library encodes. If the library omits
/// a reply, it merges the messages before and after the reply into one.
fn has_encodable_reply_at(request: &ModelRequest, place: usize) -> bool {
    match request.messages.get(place).map(|message| &**message) {
        Some(ChatMessage::Assistant { text, calls, .. }) => {
            !text.trim().is_empty() || calls.iter().any(|call| !call.name.is_empty())
        }
        _ => false,
    }
}

/// The state of a request between its encoding by the library and the completion of its body.
#[derive(Debug)]
pub(super) struct PendingBody {
    prefix: EncodedPrefix,
    messages: Vec<Weak<ChatMessage>>,
    /// Placeholder for all cached messages; `None` if no message is cached.
    placeholder: Option<String>,
    /// Number of messages that need not be encoded again, and the ids of the calls in these
    /// messages.
    next_cached: Option<(usize, HashSet<CallId>)>,
}

impl PendingBody {
    /// Creates the state. `mark` is the placeholder for the cached messages.
    pub(super) fn new(prefix: EncodedPrefix, request: &ModelRequest, mark: String) -> Self {
        let next_cached =
            prefix.next_cacheable_message_count(request).map(|next| (next, HashSet::new()));
        let placeholder = (prefix.encoded.messages > 0).then_some(mark);
        let messages = request.messages.iter().map(Arc::downgrade).collect();
        Self { prefix, messages, placeholder, next_cached }
    }

    /// Returns the text that the library receives instead of the cached messages.
    pub(super) fn prefix_placeholder(&self) -> Option<&str> {
        self.placeholder.as_deref()
    }

    /// Returns the number of cached messages.
    pub(super) fn cached_message_count(&self) -> usize {
        self.prefix.encoded.messages
    }

    /// Returns whether a cached call has this id.
    pub(super) fn has_cached_call_id(&self, id: &CallId) -> bool {
        self.prefix.encoded.ids.contains(id)
    }

    /// Records the ids of a reply's calls. If the library chose an id, the id depends on earlier
    /// calls. Messages with such an id are not cached.
    pub(super) fn record_ids_or_disable_caching(&mut self, place: usize, ids: &[CallId]) {
        let Some((next, learnt)) = &mut self.next_cached else { return };
        if place >= *next {
            return;
        }
        if ids.iter().all(|id| matches!(id, CallId::Provider(_))) {
            learnt.extend(ids.iter().cloned());
        } else {
            self.next_cached = None;
        }
    }

    /// Inserts the cached messages into a request that the library encoded, and expands the
    /// placeholders of texts by calling `fill`. Returns the complete body and the updated cache, or
    /// `None` if the request has an unexpected form.
    pub(super) fn insert_cached_messages(
        self,
        body: &str,
        fill: impl Fn(&str, &mut Vec<u8>),
    ) -> Option<(Vec<u8>, EncodedPrefix)> {
        let Self { prefix: mut beginning, messages, placeholder: mark, next_cached: next } = self;
        let (array, elements) = find_message_array(body)?;
        let new_elements = match mark {
            // The cached JSON replaces the placeholder and everything before it.
            Some(mark) => {
                let at = elements.iter().position(|element| element.get().contains(&*mark))?;
                &elements[at + 1..]
            }
            None => &elements[..],
        };
        let count = beginning.encoded.elements + new_elements.len();
        let kept = &mut beginning.encoded;
        let mut rest = new_elements;
        if let Some((next, ids)) = next
            && let Some(more) = beginning.elements.checked_sub(kept.elements)
            && let Some((again, new)) = new_elements.split_at_checked(more)
        {
            again
                .iter()
                .for_each(|element| append_expanded_element(element, &mut kept.json, &fill));
            (kept.messages, kept.elements) = (next, kept.elements + more);
            kept.ids.extend(ids);
            rest = new;
        }
        let start = array.get().as_ptr().addr() - body.as_ptr().addr();
        let mut whole = Vec::with_capacity(body.len() + kept.json.len());
        fill(&body[..start], &mut whole);
        let first = whole.len();
        whole.extend_from_slice(&kept.json);
        rest.iter().for_each(|element| append_expanded_element(element, &mut whole, &fill));
        // The opening bracket overwrites the comma before the first element.
        *whole.get_mut(first)? = b'[';
        whole.push(b']');
        fill(&body[start + array.get().len()..], &mut whole);
        (beginning.messages, beginning.elements) = (messages, count);
        Some((whole, beginning))
    }
}

fn append_expanded_element(
    element: &RawValue,
    to: &mut Vec<u8>,
    fill: impl Fn(&str, &mut Vec<u8>),
) {
    to.push(b',');
    fill(element.get(), to);
}

/// Finds the list of messages in a request; returns the list and its elements.
fn find_message_array(body: &str) -> Option<(&RawValue, Vec<&RawValue>)> {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(body).ok()?;
    let array = MESSAGE_FIELDS.iter().find_map(|name| fields.get(*name))?;
    Some((array, serde_json::from_str(array.get()).ok()?))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::limits;
    use crate::provider::{Provider, encode_cache::EncodeCache};

    fn reply() -> ChatMessage {
        let (text, thought) = ("well".to_owned(), String::new());
        ChatMessage::Assistant { text, thought, calls: Vec::new(), replay: None }
    }

    fn request_with(texts: &[&str]) -> ModelRequest {
        let message = |text: &&str| match *text {
            "" => Arc::new(reply()),
            text => Arc::new(ChatMessage::user(text)),
        };
        ModelRequest {
            messages: Arc::new(texts.iter().map(message).collect()),
            ..ModelRequest::default()
        }
    }

    fn first(all: &ModelRequest, count: usize) -> ModelRequest {
        ModelRequest { messages: Arc::new(all.messages[..count].to_vec()), ..all.clone() }
    }

    /// Returns the number of cached messages, and the complete body.
    fn written_request(memory: &EncodeCache, request: &ModelRequest) -> (usize, String) {
        let pending = memory.take_prefix_for_request(request);
        let kept = pending.cached_message_count();
        let mut elements: Vec<_> =
            pending.prefix_placeholder().map(str::to_owned).into_iter().collect();
        for message in &request.messages[kept..] {
            elements.push(match &**message {
                ChatMessage::User(parts) => match &parts[0] {
                    crate::ContentPart::Text(text) => {
                        memory.text_or_placeholder(message, &mut 0, text)
                    }
                    other => panic!("{other:?}"),
                },
                _ => String::new(),
            });
        }
        let body = json!({ "model": "m", "messages": elements, "tools": [] }).to_string();
        let whole = memory.complete_body(pending, &Bytes::from(body)).unwrap();
        (kept, String::from_utf8(whole.to_vec()).unwrap())
    }

    #[test]
    fn messages_followed_by_a_reply_and_a_request_are_cached() {
        let memory = EncodeCache::new(Provider::OpenAi);
        let long = "long".repeat(limits::MIN_CACHED_TEXT_BYTES);
        let all = request_with(&[&long, "note", "", "b", "", "c", "more", "", "d"]);
        let first = |count| first(&all, count);
        for (count, expected_count) in [(2, 0), (4, 0), (4, 2), (6, 2), (7, 4), (9, 4), (9, 7)] {
            let (cached_count, whole) = written_request(&memory, &first(count));
            assert_eq!(cached_count, expected_count, "of {count}");
            let texts = [&long, "note", "", "b", "", "c", "more", "", "d"];
            let expected = json!({ "model": "m", "messages": texts[..count], "tools": [] });
            assert_eq!(whole, expected.to_string());
        }
        assert!(!format!("{memory:?}").contains(&long), "a text is there twice");
    }

    #[test]
    fn another_session_or_changed_session_uses_no_cache() {
        let memory = EncodeCache::new(Provider::OpenAi);
        let request = request_with(&["a", "", "b", "", "c"]);
        let first = |count| first(&request, count);
        let known = || {
            written_request(&memory, &first(1));
            written_request(&memory, &first(3));
            written_request(&memory, &first(5)).0
        };
        assert_eq!(known(), 1);
        assert_eq!(
            written_request(&memory, &ModelRequest { tools: Arc::new([]), ..request.clone() }).0,
            0
        );
        assert_eq!(known(), 1);
        assert_eq!(
            written_request(&memory, &ModelRequest { system: "Be.".into(), ..request.clone() }).0,
            0
        );
        assert_eq!(known(), 1);
        let mut other = request.clone();
        Arc::make_mut(&mut other.messages)[2] = Arc::new(ChatMessage::user("b"));
        assert_eq!(written_request(&memory, &other).0, 0);
        assert_eq!(written_request(&memory, &request_with(&["a", "", "b", "", "c"])).0, 0);
    }

    #[test]
    fn a_request_body_of_unexpected_form_is_rejected() {
        let memory = EncodeCache::new(Provider::OpenAi);
        let request = request_with(&["a", "", "b", "", "c"]);
        for count in [1, 3] {
            written_request(&memory, &first(&request, count));
        }
        let pending = memory.take_prefix_for_request(&request);
        assert!(pending.prefix_placeholder().is_some());
        assert_eq!(
            memory.complete_body(pending, &Bytes::from_static(b"{\"messages\":[\"a\"]}")),
            None
        );
        for body in ["{}", "[]", "{\"messages\":1}", "nonsense"] {
            assert_eq!(
                memory.complete_body(
                    memory.take_prefix_for_request(&request_with(&["a"])),
                    &Bytes::from(body)
                ),
                None,
                "{body}"
            );
        }
    }
}
