//! A reply in the form, read as it is written. Knows nothing of requests and of the schema.

use std::mem;

use serde_json::Value;

use super::super::{Call, Event, Stop};
use crate::limits::{MAX_ARGUMENT_BYTES, MAX_UNDECIDED_BYTES};

/// Turns what a model writes into text and calls.
pub(super) struct Form {
    /// The id of the call, if there is one.
    id: String,
    state: State,
    has_called: bool,
}

enum State {
    /// What was written so far tells neither text nor a tool.
    Undecided(String),
    /// It does not tell at its beginning; it is read when it is whole.
    Late(String),
    /// It is not in the form.
    Plain,
    /// In the string of `text`; the rest may end within an escape.
    Text(String),
    /// In the object of `arguments`.
    Arguments(Nesting),
    /// All is read; what follows does not count.
    Done,
}

/// Where in a JSON object a text stands.
#[derive(Default)]
struct Nesting {
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

impl Form {
    pub(super) fn new(id: String) -> Self {
        Self { id, state: State::Undecided(String::new()), has_called: false }
    }

    /// Turns what the model says into what it means.
    pub(super) fn hear(&mut self, event: Event) -> Vec<Event> {
        let mut events = Vec::new();
        match event {
            Event::Text(text) => self.read(&text, &mut events),
            // Of items that are not told again in this form.
            Event::Replay(_) => {}
            Event::Stop(stop) => {
                let is_whole = matches!(stop, Stop::EndTurn | Stop::ToolCalls);
                self.end(is_whole, &mut events);
                let has_called = is_whole && self.has_called;
                events.push(Event::Stop(if has_called { Stop::ToolCalls } else { stop }));
            }
            Event::Error(error) => {
                self.end(false, &mut events);
                events.push(Event::Error(error));
            }
            other => events.push(other),
        }
        events
    }

    fn read(&mut self, text: &str, events: &mut Vec<Event>) {
        match &mut self.state {
            State::Undecided(seen) => {
                seen.push_str(text);
                self.decide(events);
            }
            State::Late(seen) => {
                seen.push_str(text);
                self.bound(events);
            }
            State::Plain => events.push(Event::Text(text.to_owned())),
            State::Text(rest) => {
                rest.push_str(text);
                self.say(events);
            }
            State::Arguments(nesting) => {
                let end = nesting.end(text);
                let fragment = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
                self.argue(fragment, end.is_some(), events);
            }
            State::Done => {}
        }
    }

    /// Looks whether what was written tells what it will be.
    fn decide(&mut self, events: &mut Vec<Event>) {
        let State::Undecided(seen) = &self.state else { return };
        let started = seen.trim_start();
        if !started.is_empty() && !started.starts_with('{') {
            events.push(Event::Text(seen.clone()));
            self.state = State::Plain;
        } else if let Some(rest) = after(started, &["{", "\"text\"", ":", "\""]) {
            self.state = State::Text(rest.to_owned());
            self.say(events);
        } else if let Some((name, rest)) = after(started, &["{", "\"tool\"", ":"]).and_then(string)
            && let Some(rest) = after(rest, &[",", "\"arguments\"", ":"])
            && rest.trim_start().starts_with('{')
        {
            let rest = rest.trim_start().to_owned();
            self.call(name, events);
            self.state = State::Arguments(Nesting::default());
            self.read(&rest, events);
        } else if seen.len() > MAX_UNDECIDED_BYTES {
            // To look again with each piece would take ever longer.
            self.state = State::Late(seen.clone());
            self.bound(events);
        }
    }

    /// Takes what is too long for a call as text, of which nothing is left out.
    fn bound(&mut self, events: &mut Vec<Event>) {
        if let State::Late(seen) = &mut self.state
            && seen.len() > MAX_ARGUMENT_BYTES
        {
            events.push(Event::Text(mem::take(seen)));
            self.state = State::Plain;
        }
    }

    fn call(&mut self, name: String, events: &mut Vec<Event>) {
        self.has_called = true;
        events.push(Event::CallStart { id: self.id.clone(), name });
    }

    fn argue(&mut self, fragment: &str, is_end: bool, events: &mut Vec<Event>) {
        let (id, fragment) = (self.id.clone(), fragment.to_owned());
        events.push(Event::CallArguments { id, fragment });
        if is_end {
            self.state = State::Done;
            events.push(Event::CallEnd { id: self.id.clone() });
        }
    }

    /// Says as much of the string of `text` as is there.
    fn say(&mut self, events: &mut Vec<Event>) {
        let State::Text(rest) = &mut self.state else { return };
        let (whole, is_end) = whole_characters(rest);
        let read: String = rest.drain(..whole).collect();
        let text = serde_json::from_str(&format!("\"{read}\"")).unwrap_or(read);
        if !text.is_empty() {
            events.push(Event::Text(text));
        }
        if is_end {
            self.state = State::Done;
        }
    }

    /// Takes what is left at the end of the reply.
    fn end(&mut self, is_whole: bool, events: &mut Vec<Event>) {
        match mem::replace(&mut self.state, State::Done) {
            State::Undecided(seen) | State::Late(seen) => self.late(seen, is_whole, events),
            // What was broken off within it is told by the session, as of any model.
            State::Arguments(_) => events.push(Event::CallEnd { id: self.id.clone() }),
            State::Text(rest) if !rest.is_empty() => events.push(Event::Text(rest)),
            State::Text(_) | State::Plain | State::Done => {}
        }
    }

    /// Takes a reply whose fields stand in another order, or that is not in the form.
    fn late(&mut self, seen: String, is_whole: bool, events: &mut Vec<Event>) {
        let said: Value = serde_json::from_str(&seen).unwrap_or_default();
        if let Some(name) = said["tool"].as_str().filter(|_| is_whole) {
            let arguments = match &said["arguments"] {
                Value::Null => String::new(),
                arguments => arguments.to_string(),
            };
            self.has_called = true;
            let call = Call { id: self.id.clone(), name: name.to_owned(), arguments };
            events.extend(Event::of_call(call, usize::MAX));
        } else if let Some(text) = said["text"].as_str() {
            events.push(Event::Text(text.to_owned()));
        } else if !seen.is_empty() {
            events.push(Event::Text(seen));
        }
    }
}

impl Nesting {
    /// Returns where the object ends in the next text, if it does.
    fn end(&mut self, text: &str) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_string => self.is_escaped = true,
                b'"' => self.is_string = !self.is_string,
                _ if self.is_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Returns what stands behind some tokens that may have white space before them.
fn after<'a>(text: &'a str, tokens: &[&str]) -> Option<&'a str> {
    tokens.iter().try_fold(text, |text, token| text.trim_start().strip_prefix(token))
}

/// Reads a string that is whole; returns it and what stands behind it.
fn string(text: &str) -> Option<(String, &str)> {
    let rest = text.trim_start().strip_prefix('"')?;
    let (whole, is_end) = whole_characters(rest);
    let read = serde_json::from_str(&format!("\"{}\"", rest.get(..whole)?)).ok()?;
    is_end.then_some((read, rest.get(whole + 1..)?))
}

/// How many bytes of the inside of a JSON string hold whole characters, and whether its end stands
/// behind them.
fn whole_characters(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at) {
            None => return (at, false),
            Some(b'"') => return (at, true),
            Some(b'\\') => match escape_len(bytes.get(at..).unwrap_or_default()) {
                Some(len) => at += len,
                None => return (at, false),
            },
            Some(_) => at += 1,
        }
    }
}

/// The bytes of an escape, the two halves of a pair together; none if it is not whole.
fn escape_len(bytes: &[u8]) -> Option<usize> {
    const HIGH: [u8; 4] = *b"89ab";
    match bytes.get(1)? {
        b'u' => {
            let digits = bytes.get(2..6)?;
            let is_high = digits[0].eq_ignore_ascii_case(&b'd')
                && HIGH.contains(&digits[1].to_ascii_lowercase());
            match is_high {
                false => Some(6),
                true if bytes.get(6).is_some_and(|next| *next != b'\\') => Some(6),
                true => bytes.get(..12).map(<[u8]>::len),
            }
        }
        _ => Some(2),
    }
}
