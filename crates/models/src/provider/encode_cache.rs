//! A cache of encoded messages. All requests of one session share this cache.
//!
//! Each request contains the whole session. While the model library builds a request, it copies
//! every text several times and escapes it for JSON each time. Long texts would therefore make
//! every later request slower. To avoid this cost, the library receives a short placeholder instead
//! of a long text. The prefix of all placeholders is chosen at random when the cache is created, so
//! that no text of a session can contain a placeholder by accident or by intent.
//! [`EncodeCache::expand_placeholders`] replaces each placeholder in the encoded request by its
//! text, which is escaped only once. Placeholders also replace the schemas of tools, because these
//! rarely change and every dialect sends them unmodified. The messages at the beginning of a
//! session's requests are cached together: see [`EncodedPrefix`].

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use rig_core::{
    completion::ToolDefinition,
    message::{AssistantMessage, CallId, ToolName},
};
use serde_json::Value;

use super::{
    Provider,
    encoded_prefix::{EncodedPrefix, PendingBody},
};
use crate::{ChatMessage, ModelRequest, ToolSpec, limits};

/// A reply in the library's form, and the provider ids of the calls in the reply, in order.
pub(super) type ConvertedReply = (AssistantMessage, Vec<CallId>);

/// The cached messages, system prompts and tools that sessions sent to one model. The session owns
/// the originals. An entry is evicted after its message, prompt or tool list is dropped.
#[derive(Debug)]
pub(super) struct EncodeCache {
    /// Prefix of all placeholders.
    prefix: String,
    /// Whether whole message prefixes are cached.
    caches_prefixes: bool,
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    /// The entries. The key is the memory address of the owner.
    entries: HashMap<usize, CacheEntry>,
    texts: HashMap<u64, CachedTextOrJson>,
    /// The cached prefixes. The key is the memory address of the session's first message.
    prefixes: HashMap<usize, EncodedPrefix>,
    /// Number of the next placeholder.
    next: u64,
}

/// The text or value that replaces a placeholder.
#[derive(Debug)]
enum CachedTextOrJson {
    /// Escaped content of a JSON string, without the quotes.
    Text(Box<str>),
    /// JSON value that replaces the placeholder together with its quotes.
    Json(Box<str>),
}

#[derive(Debug)]
struct CacheEntry {
    owner: WeakTextOwner,
    /// Numbers of the placeholders for the owner's long texts, in order.
    placeholders: Vec<u64>,
    encoded: EncodedReplyOrTools,
}

/// The owner of cached texts, as a weak pointer. As long as the weak pointer exists, no other value
/// can have the owner's address.
#[derive(Clone, Debug)]
enum WeakTextOwner {
    Message(Weak<ChatMessage>),
    System(Weak<str>),
    Tools(Weak<[ToolSpec]>),
}

impl WeakTextOwner {
    fn is_alive(&self) -> bool {
        let holders = match self {
            Self::Message(message) => message.strong_count(),
            Self::System(text) => text.strong_count(),
            Self::Tools(tools) => tools.strong_count(),
        };
        holders > 0
    }

    fn address(&self) -> usize {
        match self {
            Self::Message(message) => message.as_ptr().addr(),
            Self::System(text) => text.as_ptr().addr(),
            Self::Tools(tools) => tools.as_ptr().addr(),
        }
    }
}

/// The encoded form of a message or a tool list that owns cached texts.
#[derive(Debug, Default)]
enum EncodedReplyOrTools {
    #[default]
    Nothing,
    /// A reply, and its position in the session.
    Reply(usize, ConvertedReply),
    Tools(Vec<ToolDefinition>),
}

/// The last character of every placeholder. A placeholder has no character that JSON must escape.
const PLACEHOLDER_END: char = ';';

impl EncodeCache {
    /// Creates an empty cache.
    pub(super) fn new(provider: Provider) -> Self {
        // `RandomState` serves only as a source of random numbers.
        let random = RandomState::new();
        let prefix = format!("callboard-{:016x}{:016x}-", random.hash_one(0), random.hash_one(1));
        // In the Responses dialect, the library numbers all items by their position, so the JSON of
        // an item cannot be reused.
        let caches_prefixes = provider != Provider::OpenAiResponses;
        Self { prefix, caches_prefixes, state: Mutex::default() }
    }

    /// Returns the text of a message, or a placeholder if the text is long. `index` counts the long
    /// texts of this message.
    pub(super) fn text_or_placeholder(
        &self,
        of: &Arc<ChatMessage>,
        index: &mut usize,
        text: &str,
    ) -> String {
        self.text_or_placeholder_for_owner(&WeakTextOwner::Message(Arc::downgrade(of)), index, text)
    }

    /// Returns the text of a system prompt, or a placeholder if the text is long.
    pub(super) fn system_or_placeholder(&self, text: &Arc<str>) -> String {
        self.text_or_placeholder_for_owner(
            &WeakTextOwner::System(Arc::downgrade(text)),
            &mut 0,
            text,
        )
    }

    fn text_or_placeholder_for_owner(
        &self,
        of: &WeakTextOwner,
        index: &mut usize,
        text: &str,
    ) -> String {
        if text.len() < limits::MIN_CACHED_TEXT_BYTES {
            return text.to_owned();
        }
        let mut known = self.lock_state();
        let mark = match known.entry_or_insert_empty(of).placeholders.get(*index) {
            Some(mark) => *mark,
            None => {
                let json = Value::from(text).to_string();
                // The quotes are removed, because the library writes quotes around the placeholder.
                known.add_cached_text(of, CachedTextOrJson::Text(json[1..json.len() - 1].into()))
            }
        };
        *index += 1;
        self.placeholder_for_number(mark)
    }

    fn placeholder_for_number(&self, mark: u64) -> String {
        format!("{}{mark}{PLACEHOLDER_END}", self.prefix)
    }

    /// Returns a reply in the library's form. Only the first call for a reply at a position encodes
    /// it, by calling `make`.
    pub(super) fn cached_or_converted_reply(
        &self,
        of: &Arc<ChatMessage>,
        index: usize,
        make: impl FnOnce() -> ConvertedReply,
    ) -> ConvertedReply {
        let of = WeakTextOwner::Message(Arc::downgrade(of));
        if let EncodedReplyOrTools::Reply(at, turn) =
            &self.lock_state().entry_or_insert_empty(&of).encoded
            && *at == index
        {
            return turn.clone();
        }
        let turn = make();
        self.lock_state().entry_or_insert_empty(&of).encoded =
            EncodedReplyOrTools::Reply(index, turn.clone());
        turn
    }

    /// Returns a list of tools in the library's form, with placeholders for their schemas. Each
    /// list is encoded only once.
    pub(super) fn cached_or_encoded_tools(&self, tools: &Arc<[ToolSpec]>) -> Vec<ToolDefinition> {
        let of = WeakTextOwner::Tools(Arc::downgrade(tools));
        let mut known = self.lock_state();
        if let EncodedReplyOrTools::Tools(made) = &known.entry_or_insert_empty(&of).encoded {
            return made.clone();
        }
        let made: Vec<_> = tools
            .iter()
            .filter_map(|tool| {
                let name = ToolName::new(tool.name.clone()).ok()?;
                let schema = CachedTextOrJson::Json(tool.input_schema.to_string().into());
                let schema =
                    Value::String(self.placeholder_for_number(known.add_cached_text(&of, schema)));
                Some(ToolDefinition::new(name, tool.description.clone(), schema))
            })
            .collect();
        known.entry_or_insert_empty(&of).encoded = EncodedReplyOrTools::Tools(made.clone());
        made
    }

    /// Removes and returns the cached prefix of a request's session. `complete_body` puts the
    /// prefix back.
    pub(super) fn take_prefix_for_request(&self, request: &ModelRequest) -> PendingBody {
        let mut known = self.lock_state();
        let first = request.messages.first();
        let begun = first.and_then(|first| known.prefixes.remove(&Arc::as_ptr(first).addr()));
        let begun = begun.filter(|begun| begun.is_prefix_of_request(request));
        let mark = self.placeholder_for_number(known.next);
        known.next += 1;
        PendingBody::new(
            begun.unwrap_or_else(|| EncodedPrefix::empty_for_request(request)),
            request,
            mark,
        )
    }

    /// Completes the body of a request that the library encoded: inserts the cached messages and
    /// expands the placeholders. Returns `None` if the body does not match the pending request.
    pub(super) fn complete_body(&self, pending: PendingBody, body: &Bytes) -> Option<Bytes> {
        if !self.caches_prefixes {
            return Some(self.expand_placeholders(body.clone()));
        }
        let mut known = self.lock_state();
        let fill =
            |text: &str, to: &mut Vec<u8>| self.append_replacing_placeholders(&known, text, to);
        let (whole, beginning) =
            pending.insert_cached_messages(str::from_utf8(body).ok()?, fill)?;
        // The prefix now contains the texts of these messages.
        beginning.cached_message_addresses().for_each(|message| known.evict_message(message));
        known.prefixes.insert(beginning.session_address()?, beginning);
        Some(Bytes::from(whole))
    }

    /// Evicts all entries whose owner was dropped.
    pub(super) fn evict_dropped(&self) {
        let mut known = self.lock_state();
        known.prefixes.retain(|_, beginning| beginning.is_session_alive());
        let CacheState { entries, texts, .. } = &mut *known;
        entries.retain(|_, entry| {
            let is_held = entry.owner.is_alive();
            if !is_held {
                entry.placeholders.iter().for_each(|mark| drop(texts.remove(mark)));
            }
            is_held
        });
    }

    /// Replaces each placeholder in a request body by its text.
    pub(super) fn expand_placeholders(&self, body: Bytes) -> Bytes {
        let Ok(text) = str::from_utf8(&body) else { return body };
        let mut filled = Vec::with_capacity(text.len());
        self.append_replacing_placeholders(&self.lock_state(), text, &mut filled);
        Bytes::from(filled)
    }

    fn append_replacing_placeholders(&self, known: &CacheState, text: &str, filled: &mut Vec<u8>) {
        let mut pieces = text.split(&self.prefix);
        filled.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
        for piece in pieces {
            let marked = piece
                .split_once(PLACEHOLDER_END)
                .and_then(|(mark, rest)| Some((known.texts.get(&mark.parse().ok()?)?, rest)));
            match marked {
                Some((CachedTextOrJson::Text(text), rest)) => {
                    filled.extend_from_slice(text.as_bytes());
                    filled.extend_from_slice(rest.as_bytes());
                }
                Some((CachedTextOrJson::Json(json), rest)) => {
                    filled.pop_if(|quote| *quote == b'"');
                    filled.extend_from_slice(json.as_bytes());
                    filled.extend_from_slice(rest.strip_prefix('"').unwrap_or(rest).as_bytes());
                }
                None => {}
            }
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    /// Returns the entry of an owner, and creates it if needed.
    fn entry_or_insert_empty(&mut self, of: &WeakTextOwner) -> &mut CacheEntry {
        let new = || CacheEntry {
            owner: of.clone(),
            placeholders: Vec::new(),
            encoded: EncodedReplyOrTools::Nothing,
        };
        self.entries.entry(of.address()).or_insert_with(new)
    }

    /// Evicts the entry of a message.
    fn evict_message(&mut self, address: usize) {
        let Some(entry) = self.entries.remove(&address) else { return };
        entry.placeholders.iter().for_each(|mark| drop(self.texts.remove(mark)));
    }

    fn add_cached_text(&mut self, of: &WeakTextOwner, kept: CachedTextOrJson) -> u64 {
        let mark = self.next;
        self.next += 1;
        self.texts.insert(mark, kept);
        self.entry_or_insert_empty(of).placeholders.push(mark);
        mark
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long(text: &str) -> String {
        text.repeat(limits::MIN_CACHED_TEXT_BYTES)
    }

    fn encoded_texts(
        memory: &EncodeCache,
        message: &Arc<ChatMessage>,
        texts: &[&str],
    ) -> Vec<String> {
        let mut index = 0;
        texts.iter().map(|text| memory.text_or_placeholder(message, &mut index, text)).collect()
    }

    #[test]
    fn a_long_text_becomes_a_placeholder_and_is_expanded_as_json() {
        let (memory, message) =
            (EncodeCache::new(Provider::OpenAi), Arc::new(ChatMessage::user("")));
        let texts = [&*long("é\"\n\u{1}"), "short", &*long("\\")];
        let marked = encoded_texts(&memory, &message, &texts);
        assert_eq!(marked[1], "short");
        assert!(marked[0].len() < 100 && marked[0] != marked[2], "{marked:?}");
        assert_eq!(encoded_texts(&memory, &message, &texts), marked);

        let whole = serde_json::to_string(&texts).unwrap();
        let body = serde_json::to_string(&marked).unwrap();
        assert_eq!(memory.expand_placeholders(Bytes::from(body)), whole);
        assert_eq!(memory.expand_placeholders(Bytes::from_static(b"[]")), "[]");
    }

    #[test]
    fn schemas_and_system_prompts_become_placeholders_and_are_expanded() {
        let memory = EncodeCache::new(Provider::OpenAi);
        let schema = json!({"type": "object", "title": long("\"")});
        let tool = ToolSpec {
            name: "greet".into(),
            description: "Greets.".into(),
            input_schema: schema.clone(),
        };
        let (tools, system): (Arc<[_]>, Arc<str>) = ([tool].into(), long("\n").into());
        let encoded = || {
            json!([memory.cached_or_encoded_tools(&tools), memory.system_or_placeholder(&system)])
        };
        assert!(encoded().to_string().len() < 500, "{}", encoded());
        assert_eq!(encoded(), encoded());

        let whole =
            json!([[{"name": "greet", "description": "Greets.", "parameters": schema}], *system]);
        let filled = memory.expand_placeholders(Bytes::from(encoded().to_string()));
        assert_eq!(serde_json::from_slice::<Value>(&filled).unwrap(), whole);
    }

    #[test]
    fn entries_of_dropped_messages_are_evicted() {
        let memory = EncodeCache::new(Provider::OpenAi);
        let kept = Arc::new(ChatMessage::user(""));
        encoded_texts(&memory, &kept, &[&long("a")]);
        for _ in 0..3 {
            encoded_texts(&memory, &Arc::new(ChatMessage::user("")), &[&long("b")]);
        }
        memory.evict_dropped();
        let marked = encoded_texts(&memory, &kept, &[&long("a")]);
        assert_eq!(memory.expand_placeholders(Bytes::from(marked[0].clone())), long("a"));
        assert_eq!(memory.lock_state().texts.len(), 1, "{memory:?}");
    }

    #[test]
    fn a_reply_is_encoded_once_per_position() {
        let (memory, message) =
            (EncodeCache::new(Provider::OpenAi), Arc::new(ChatMessage::user("")));
        let made = std::cell::Cell::new(0);
        let turn = |index| {
            memory.cached_or_converted_reply(&message, index, || {
                made.set(made.get() + 1);
                (AssistantMessage::default(), Vec::new())
            })
        };
        turn(1);
        turn(1);
        assert_eq!(made.get(), 1);
        turn(2);
        assert_eq!(made.get(), 2);
    }
}
