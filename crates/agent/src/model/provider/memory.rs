//! What a provider is told of a session's messages, kept from one request to the next.
//!
//! Each request tells the whole session again. The model library copies every text several times
//! on its way into a request and escapes it for JSON each time; long texts would make a request
//! slower with each message before it. So the library is given a short mark in the place of a long
//! text, which no text of a session can hold by accident or intent, because it is chosen when the
//! process starts. [`Memory::fill`] puts the text, escaped once, where the mark stands in the
//! finished request.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use rig_core::message::{AssistantMessage, CallId};

use crate::{limits, model::Message};

/// A reply as the provider is told it, and the ids of its calls, in order.
pub(super) type Turn = (AssistantMessage, Vec<CallId>);

/// What is known of the messages that sessions told one model. Their owner is the session: what
/// nobody holds any more is forgotten.
#[derive(Debug)]
pub(super) struct Memory {
    /// What each mark begins with.
    prefix: String,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the address of the message.
    messages: HashMap<usize, Entry>,
    texts: HashMap<u64, Arc<str>>,
    /// The mark of the next text.
    next: u64,
}

#[derive(Debug)]
struct Entry {
    of: Weak<Message>,
    /// The marks of its long texts, in their order.
    marks: Vec<u64>,
    /// The reply, and its place in the session.
    turn: Option<(usize, Turn)>,
}

/// What closes a mark. JSON leaves it, and all of a mark, as it is.
const END: char = ';';

impl Default for Memory {
    fn default() -> Self {
        // Its keys are random; that is all that is wanted of it.
        let random = RandomState::new();
        let prefix = format!("callboard-{:016x}{:016x}-", random.hash_one(0), random.hash_one(1));
        Self { prefix, known: Mutex::default() }
    }
}

impl Memory {
    /// Returns what the library is to be given for a text: the text itself, or a mark. `index`
    /// counts the long texts of this message.
    pub(super) fn text(&self, of: &Arc<Message>, index: &mut usize, text: &str) -> String {
        if text.len() < limits::LONG_TEXT {
            return text.to_owned();
        }
        let mut known = self.known();
        let known = &mut *known;
        let entry = known.entry(of);
        let mark = match entry.marks.get(*index) {
            Some(mark) => *mark,
            None => known.add(of, text),
        };
        *index += 1;
        format!("{}{mark}{END}", self.prefix)
    }

    /// Returns a reply in the library's form; makes it the first time.
    pub(super) fn turn(
        &self,
        of: &Arc<Message>,
        index: usize,
        make: impl FnOnce() -> Turn,
    ) -> Turn {
        if let Some((at, turn)) = &self.known().entry(of).turn
            && *at == index
        {
            return turn.clone();
        }
        let turn = make();
        self.known().entry(of).turn = Some((index, turn.clone()));
        turn
    }

    /// Forgets the messages that nobody holds any more.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        let Known { messages, texts, .. } = &mut *known;
        messages.retain(|_, entry| {
            let is_held = entry.of.strong_count() > 0;
            if !is_held {
                entry.marks.iter().for_each(|mark| drop(texts.remove(mark)));
            }
            is_held
        });
    }

    /// Puts the texts where their marks stand in a request's body.
    pub(super) fn fill(&self, body: Bytes) -> Bytes {
        let Ok(text) = str::from_utf8(&body) else { return body };
        let mut pieces = text.split(&self.prefix);
        let first = pieces.next().unwrap_or_default();
        if first.len() == text.len() {
            return body;
        }
        let mut filled = Vec::with_capacity(text.len());
        filled.extend_from_slice(first.as_bytes());
        let known = self.known();
        for piece in pieces {
            let marked = piece
                .split_once(END)
                .and_then(|(mark, rest)| Some((known.texts.get(&mark.parse().ok()?)?, rest)));
            if let Some((text, rest)) = marked {
                filled.extend_from_slice(text.as_bytes());
                filled.extend_from_slice(rest.as_bytes());
            }
        }
        Bytes::from(filled)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Returns what is known of a message. Another one may have had its address before.
    fn entry(&mut self, of: &Arc<Message>) -> &mut Entry {
        let address = Arc::as_ptr(of).addr();
        let texts = &mut self.texts;
        let new = || Entry { of: Arc::downgrade(of), marks: Vec::new(), turn: None };
        let entry = self.messages.entry(address).or_insert_with(new);
        if entry.of.strong_count() == 0 {
            entry.marks.iter().for_each(|mark| drop(texts.remove(mark)));
            *entry = new();
        }
        entry
    }

    fn add(&mut self, of: &Arc<Message>, text: &str) -> u64 {
        let mark = self.next;
        self.next += 1;
        let json = serde_json::Value::from(text).to_string();
        // Without its quotes: the library writes those around the mark.
        self.texts.insert(mark, json[1..json.len() - 1].into());
        self.entry(of).marks.push(mark);
        mark
    }
}

#[cfg(test)]
mod tests {
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
        let (memory, message) = (Memory::default(), Arc::new(Message::user("")));
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
    fn what_nobody_holds_is_forgotten() {
        let memory = Memory::default();
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
        let (memory, message) = (Memory::default(), Arc::new(Message::user("")));
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
