//! What a provider is told of a session's messages, kept from one request to the next.
//!
//! Each request tells the whole session again. The model library copies every text several times
//! on its way into a request and escapes it for JSON each time; long texts would make a request
//! slower with each message before it. So the library is given a short mark in the place of a long
//! text, which no text of a session can hold by accident or intent, because it is chosen when the
//! process starts. [`Memory::fill`] puts the text, escaped once, where the mark stands in the
//! finished request. The schemas of tools, which are the same all the time, are given as marks too:
//! each dialect passes them on as they are. What a session's requests begin with is kept as it was
//! written: [`Beginning`].

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
    beginning::{Beginning, Telling},
};
use crate::{Message, Request, ToolSpec, limits};

/// A reply as the provider is told it, and the ids of its calls, in order.
pub(super) type Turn = (AssistantMessage, Vec<CallId>);

/// What is known of the messages, system prompts and tools that sessions told one model. Their
/// owner is the session: what nobody holds any more is forgotten.
#[derive(Debug)]
pub(super) struct Memory {
    /// What each mark begins with.
    prefix: String,
    /// Whether beginnings are kept.
    keeps: bool,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the address of what they are of.
    entries: HashMap<usize, Entry>,
    texts: HashMap<u64, Kept>,
    /// By the address of a session's first message.
    beginnings: HashMap<usize, Beginning>,
    /// The mark of the next text.
    next: u64,
}

/// What stands for a mark in a request.
#[derive(Debug)]
enum Kept {
    /// What a string of JSON holds between its quotes.
    Text(Box<str>),
    /// A value, in the place of the whole string.
    Json(Box<str>),
}

#[derive(Debug)]
struct Entry {
    of: Owner,
    /// The marks of its long texts, in their order.
    marks: Vec<u64>,
    made: Made,
}

/// Whose texts are kept. While it is here, nothing else gets its address.
#[derive(Clone, Debug)]
enum Owner {
    Message(Weak<Message>),
    System(Weak<str>),
    Tools(Weak<[ToolSpec]>),
}

impl Owner {
    fn is_held(&self) -> bool {
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

/// What was made in the library's form.
#[derive(Debug, Default)]
enum Made {
    #[default]
    Nothing,
    /// A reply, and its place in the session.
    Turn(usize, Turn),
    Tools(Vec<ToolDefinition>),
}

/// What closes a mark. JSON leaves it, and all of a mark, as it is.
const END: char = ';';

impl Memory {
    /// Nothing is known yet of what is told to a provider.
    pub(super) fn new(provider: Provider) -> Self {
        // Its keys are random; that is all that is wanted of it.
        let random = RandomState::new();
        let prefix = format!("callboard-{:016x}{:016x}-", random.hash_one(0), random.hash_one(1));
        // The library numbers the items of this dialect by their places.
        let keeps = provider != Provider::OpenAiResponses;
        Self { prefix, keeps, known: Mutex::default() }
    }

    /// Returns what the library is to be given for a text of a message: the text itself, or a mark.
    /// `index` counts the long texts of this message.
    pub(super) fn text(&self, of: &Arc<Message>, index: &mut usize, text: &str) -> String {
        self.marked(&Owner::Message(Arc::downgrade(of)), index, text)
    }

    /// Returns the same for a system prompt.
    pub(super) fn system(&self, text: &Arc<str>) -> String {
        self.marked(&Owner::System(Arc::downgrade(text)), &mut 0, text)
    }

    fn marked(&self, of: &Owner, index: &mut usize, text: &str) -> String {
        if text.len() < limits::LONG_TEXT {
            return text.to_owned();
        }
        let mut known = self.known();
        let mark = match known.entry(of).marks.get(*index) {
            Some(mark) => *mark,
            None => {
                let json = Value::from(text).to_string();
                // Without its quotes: the library writes those around the mark.
                known.add(of, Kept::Text(json[1..json.len() - 1].into()))
            }
        };
        *index += 1;
        self.mark(mark)
    }

    fn mark(&self, mark: u64) -> String {
        format!("{}{mark}{END}", self.prefix)
    }

    /// Returns a reply in the library's form; makes it the first time.
    pub(super) fn turn(
        &self,
        of: &Arc<Message>,
        index: usize,
        make: impl FnOnce() -> Turn,
    ) -> Turn {
        let of = Owner::Message(Arc::downgrade(of));
        if let Made::Turn(at, turn) = &self.known().entry(&of).made
            && *at == index
        {
            return turn.clone();
        }
        let turn = make();
        self.known().entry(&of).made = Made::Turn(index, turn.clone());
        turn
    }

    /// Returns tools in the library's form, with marks for their schemas; makes them the first
    /// time.
    pub(super) fn tools(&self, tools: &Arc<[ToolSpec]>) -> Vec<ToolDefinition> {
        let of = Owner::Tools(Arc::downgrade(tools));
        let mut known = self.known();
        if let Made::Tools(made) = &known.entry(&of).made {
            return made.clone();
        }
        let made: Vec<_> = tools
            .iter()
            .filter_map(|tool| {
                let name = ToolName::new(tool.name.clone()).ok()?;
                let schema = Kept::Json(tool.input_schema.to_string().into());
                let schema = Value::String(self.mark(known.add(&of, schema)));
                Some(ToolDefinition::new(name, tool.description.clone(), schema))
            })
            .collect();
        known.entry(&of).made = Made::Tools(made.clone());
        made
    }

    /// Takes what is known of the session of a request, for as long as it is on its way.
    pub(super) fn begin(&self, request: &Request) -> Telling {
        let mut known = self.known();
        let first = request.messages.first();
        let begun = first.and_then(|first| known.beginnings.remove(&Arc::as_ptr(first).addr()));
        let begun = begun.filter(|begun| begun.fits(request));
        let mark = self.mark(known.next);
        known.next += 1;
        Telling::new(begun.unwrap_or_else(|| Beginning::new(request)), request, mark)
    }

    /// Writes a request that the library made of a session: with the texts where their marks stand,
    /// and with what was kept of it before. Returns `None` if it is not what was begun.
    pub(super) fn write(&self, telling: Telling, body: &Bytes) -> Option<Bytes> {
        if !self.keeps {
            return Some(self.fill(body.clone()));
        }
        let mut known = self.known();
        let fill = |text: &str, to: &mut Vec<u8>| self.fill_in(&known, text, to);
        let (whole, beginning) = telling.write(str::from_utf8(body).ok()?, fill)?;
        // Their texts are among what is kept.
        beginning.kept().for_each(|message| known.drop_texts(message));
        known.beginnings.insert(beginning.address()?, beginning);
        Some(Bytes::from(whole))
    }

    /// Forgets what nobody holds any more.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        known.beginnings.retain(|_, beginning| beginning.is_held());
        let Known { entries, texts, .. } = &mut *known;
        entries.retain(|_, entry| {
            let is_held = entry.of.is_held();
            if !is_held {
                entry.marks.iter().for_each(|mark| drop(texts.remove(mark)));
            }
            is_held
        });
    }

    /// Puts the texts where their marks stand in a request's body.
    pub(super) fn fill(&self, body: Bytes) -> Bytes {
        let Ok(text) = str::from_utf8(&body) else { return body };
        let mut filled = Vec::with_capacity(text.len());
        self.fill_in(&self.known(), text, &mut filled);
        Bytes::from(filled)
    }

    fn fill_in(&self, known: &Known, text: &str, filled: &mut Vec<u8>) {
        let mut pieces = text.split(&self.prefix);
        filled.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
        for piece in pieces {
            let marked = piece
                .split_once(END)
                .and_then(|(mark, rest)| Some((known.texts.get(&mark.parse().ok()?)?, rest)));
            match marked {
                Some((Kept::Text(text), rest)) => {
                    filled.extend_from_slice(text.as_bytes());
                    filled.extend_from_slice(rest.as_bytes());
                }
                Some((Kept::Json(json), rest)) => {
                    filled.pop_if(|quote| *quote == b'"');
                    filled.extend_from_slice(json.as_bytes());
                    filled.extend_from_slice(rest.strip_prefix('"').unwrap_or(rest).as_bytes());
                }
                None => {}
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Returns what is known of something.
    fn entry(&mut self, of: &Owner) -> &mut Entry {
        let new = || Entry { of: of.clone(), marks: Vec::new(), made: Made::Nothing };
        self.entries.entry(of.address()).or_insert_with(new)
    }

    /// Drops what was made of a message.
    fn drop_texts(&mut self, address: usize) {
        let Some(entry) = self.entries.remove(&address) else { return };
        entry.marks.iter().for_each(|mark| drop(self.texts.remove(mark)));
    }

    fn add(&mut self, of: &Owner, kept: Kept) -> u64 {
        let mark = self.next;
        self.next += 1;
        self.texts.insert(mark, kept);
        self.entry(of).marks.push(mark);
        mark
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long(text: &str) -> String {
        text.repeat(limits::LONG_TEXT)
    }

    fn told(memory: &Memory, message: &Arc<Message>, texts: &[&str]) -> Vec<String> {
        let mut index = 0;
        texts.iter().map(|text| memory.text(message, &mut index, text)).collect()
    }

    #[test]
    fn a_long_text_is_marked_and_filled_in_as_json() {
        let (memory, message) = (Memory::new(Provider::OpenAi), Arc::new(Message::user("")));
        let texts = [&*long("é\"\n\u{1}"), "short", &*long("\\")];
        let marked = told(&memory, &message, &texts);
        assert_eq!(marked[1], "short");
        assert!(marked[0].len() < 100 && marked[0] != marked[2], "{marked:?}");
        assert_eq!(told(&memory, &message, &texts), marked);

        let whole = serde_json::to_string(&texts).unwrap();
        let body = serde_json::to_string(&marked).unwrap();
        assert_eq!(memory.fill(Bytes::from(body)), whole);
        assert_eq!(memory.fill(Bytes::from_static(b"[]")), "[]");
    }

    #[test]
    fn schemas_and_system_prompts_are_marked_and_filled_in_with_no_quotes_around_a_schema() {
        let memory = Memory::new(Provider::OpenAi);
        let schema = json!({"type": "object", "title": long("\"")});
        let tool = ToolSpec {
            name: "greet".into(),
            description: "Greets.".into(),
            input_schema: schema.clone(),
        };
        let (tools, system): (Arc<[_]>, Arc<str>) = ([tool].into(), long("\n").into());
        let told = || json!([memory.tools(&tools), memory.system(&system)]);
        assert!(told().to_string().len() < 500, "{}", told());
        assert_eq!(told(), told());

        let whole =
            json!([[{"name": "greet", "description": "Greets.", "parameters": schema}], *system]);
        let filled = memory.fill(Bytes::from(told().to_string()));
        assert_eq!(serde_json::from_slice::<Value>(&filled).unwrap(), whole);
    }

    #[test]
    fn what_nobody_holds_is_forgotten() {
        let memory = Memory::new(Provider::OpenAi);
        let kept = Arc::new(Message::user(""));
        told(&memory, &kept, &[&long("a")]);
        for _ in 0..3 {
            told(&memory, &Arc::new(Message::user("")), &[&long("b")]);
        }
        memory.forget();
        let marked = told(&memory, &kept, &[&long("a")]);
        assert_eq!(memory.fill(Bytes::from(marked[0].clone())), long("a"));
        assert_eq!(memory.known().texts.len(), 1, "{memory:?}");
    }

    #[test]
    fn a_reply_is_put_into_form_once_for_its_place() {
        let (memory, message) = (Memory::new(Provider::OpenAi), Arc::new(Message::user("")));
        let made = std::cell::Cell::new(0);
        let turn = |index| {
            memory.turn(&message, index, || {
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
