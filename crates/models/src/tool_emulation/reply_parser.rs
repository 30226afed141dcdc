//! Incremental parser for replies in the emulated tool-call format.

use std::mem;

use serde_json::Value;

use super::super::{ModelEvent, ModelStopReason, ModelToolCall};
use crate::limits::{MAX_ARGUMENT_BYTES, MAX_FORM_DETECTION_BYTES};

/// Converts a streamed reply into text and calls.
pub(super) struct ReplyParser {
    /// Id of the call, if the reply has a call.
    id: String,
    state: ReplyState,
    has_called: bool,
}

enum ReplyState {
    /// Neither the field `text` nor the field `tool` has been received yet.
    Undecided(String),
    /// The form of the reply is still unknown after [`MAX_FORM_DETECTION_BYTES`]. Such a reply is
    /// parsed when it is complete.
    Buffered(String),
    /// The reply is not in the format.
    PlainText,
    /// The parser is inside the string of `text`. The buffer may end within an escape sequence.
    Text(String),
    /// The parser is inside the object of `arguments`.
    Arguments(ObjectNesting),
    /// The object is complete. Text after the object is ignored.
    Done,
}

/// A position inside a JSON object.
#[derive(Default)]
struct ObjectNesting {
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

impl ReplyParser {
    pub(super) fn with_call_id(id: String) -> Self {
        Self { id, state: ReplyState::Undecided(String::new()), has_called: false }
    }

    /// Converts an event of the model into events for the session.
    pub(super) fn parse_event(&mut self, event: ModelEvent) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        match event {
            ModelEvent::Text(text) => self.push_text(&text, &mut events),
            // Replay data belongs to items that are never sent back in this format.
            ModelEvent::Replay(_) => {}
            ModelEvent::Stop(stop) => {
                let is_whole =
                    matches!(stop, ModelStopReason::EndTurn | ModelStopReason::ToolCalls);
                self.handle_reply_end(is_whole, &mut events);
                let has_called = is_whole && self.has_called;
                events.push(ModelEvent::Stop(if has_called {
                    ModelStopReason::ToolCalls
                } else {
                    stop
                }));
            }
            ModelEvent::Error(error) => {
                self.handle_reply_end(false, &mut events);
                events.push(ModelEvent::Error(error));
            }
            other => events.push(other),
        }
        events
    }

    fn push_text(&mut self, text: &str, events: &mut Vec<ModelEvent>) {
        match &mut self.state {
            ReplyState::Undecided(seen) => {
                seen.push_str(text);
                self.detect_reply_form(events);
            }
            ReplyState::Buffered(seen) => {
                seen.push_str(text);
                self.pass_on_as_text_if_too_long(events);
            }
            ReplyState::PlainText => events.push(ModelEvent::Text(text.to_owned())),
            ReplyState::Text(rest) => {
                rest.push_str(text);
                self.emit_complete_chars(events);
            }
            ReplyState::Arguments(nesting) => {
                let end = nesting.find_object_end(text);
                let fragment = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
                self.push_arguments(fragment, end.is_some(), events);
            }
            ReplyState::Done => {}
        }
    }

    /// Detects the form of the reply from the text received so far.
    fn detect_reply_form(&mut self, events: &mut Vec<ModelEvent>) {
        let ReplyState::Undecided(seen) = &self.state else { return };
        let started = seen.trim_start();
        if !started.is_empty() && !started.starts_with('{') {
            events.push(ModelEvent::Text(seen.clone()));
            self.state = ReplyState::PlainText;
        } else if let Some(rest) = strip_token_sequence(started, &["{", "\"text\"", ":", "\""]) {
            self.state = ReplyState::Text(rest.to_owned());
            self.emit_complete_chars(events);
        } else if let Some((name, rest)) =
            strip_token_sequence(started, &["{", "\"tool\"", ":"]).and_then(parse_json_string)
            && let Some(rest) = strip_token_sequence(rest, &[",", "\"arguments\"", ":"])
            && rest.trim_start().starts_with('{')
        {
            let rest = rest.trim_start().to_owned();
            self.emit_call_start(name, events);
            self.state = ReplyState::Arguments(ObjectNesting::default());
            self.push_text(&rest, events);
        } else if seen.len() > MAX_FORM_DETECTION_BYTES {
            // Searching again after each piece of the reply would take quadratic time.
            self.state = ReplyState::Buffered(seen.clone());
            self.pass_on_as_text_if_too_long(events);
        }
    }

    /// Passes the whole reply on as text if it is too long for a call.
    fn pass_on_as_text_if_too_long(&mut self, events: &mut Vec<ModelEvent>) {
        if let ReplyState::Buffered(seen) = &mut self.state
            && seen.len() > MAX_ARGUMENT_BYTES
        {
            events.push(ModelEvent::Text(mem::take(seen)));
            self.state = ReplyState::PlainText;
        }
    }

    fn emit_call_start(&mut self, name: String, events: &mut Vec<ModelEvent>) {
        self.has_called = true;
        events.push(ModelEvent::CallStart { id: self.id.clone(), name });
    }

    fn push_arguments(&mut self, fragment: &str, is_end: bool, events: &mut Vec<ModelEvent>) {
        let (id, fragment) = (self.id.clone(), fragment.to_owned());
        events.push(ModelEvent::CallArguments { id, fragment });
        if is_end {
            self.state = ReplyState::Done;
            events.push(ModelEvent::CallEnd { id: self.id.clone() });
        }
    }

    /// Emits the characters of the string `text` that are complete so far.
    fn emit_complete_chars(&mut self, events: &mut Vec<ModelEvent>) {
        let ReplyState::Text(rest) = &mut self.state else { return };
        let (whole, is_end) = complete_json_chars_len(rest);
        let read: String = rest.drain(..whole).collect();
        let text = serde_json::from_str(&format!("\"{read}\"")).unwrap_or(read);
        if !text.is_empty() {
            events.push(ModelEvent::Text(text));
        }
        if is_end {
            self.state = ReplyState::Done;
        }
    }

    /// Handles the buffered rest at the end of the reply.
    fn handle_reply_end(&mut self, is_whole: bool, events: &mut Vec<ModelEvent>) {
        match mem::replace(&mut self.state, ReplyState::Done) {
            ReplyState::Undecided(seen) | ReplyState::Buffered(seen) => {
                self.parse_complete_reply(seen, is_whole, events);
            }
            // The session reports incomplete arguments to the model, as it does for every model.
            ReplyState::Arguments(_) => events.push(ModelEvent::CallEnd { id: self.id.clone() }),
            ReplyState::Text(rest) if !rest.is_empty() => events.push(ModelEvent::Text(rest)),
            ReplyState::Text(_) | ReplyState::PlainText | ReplyState::Done => {}
        }
    }

    /// Parses a complete reply whose fields are in another order, or which is not in the format.
    fn parse_complete_reply(&mut self, seen: String, is_whole: bool, events: &mut Vec<ModelEvent>) {
        let reply: Value = serde_json::from_str(&seen).unwrap_or_default();
        if let Some(name) = reply["tool"].as_str().filter(|_| is_whole) {
            let arguments = match &reply["arguments"] {
                Value::Null => String::new(),
                arguments => arguments.to_string(),
            };
            self.has_called = true;
            let call = ModelToolCall { id: self.id.clone(), name: name.to_owned(), arguments };
            events.extend(ModelEvent::call_events(call, usize::MAX));
        } else if let Some(text) = reply["text"].as_str() {
            events.push(ModelEvent::Text(text.to_owned()));
        } else if !seen.is_empty() {
            events.push(ModelEvent::Text(seen));
        }
    }
}

impl ObjectNesting {
    /// Returns the position after the end of the object, if the object ends in this text.
    fn find_object_end(&mut self, text: &str) -> Option<usize> {
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

/// Returns the text after a sequence of tokens, which may be preceded by white space.
fn strip_token_sequence<'a>(text: &'a str, tokens: &[&str]) -> Option<&'a str> {
    tokens.iter().try_fold(text, |text, token| text.trim_start().strip_prefix(token))
}

/// Parses a complete JSON string. Returns the string and the text after it.
fn parse_json_string(text: &str) -> Option<(String, &str)> {
    let rest = text.trim_start().strip_prefix('"')?;
    let (whole, is_end) = complete_json_chars_len(rest);
    let read = serde_json::from_str(&format!("\"{}\"", rest.get(..whole)?)).ok()?;
    is_end.then_some((read, rest.get(whole + 1..)?))
}

/// Returns the length in bytes of the complete characters inside a JSON string. Also returns
/// whether the string's closing quote follows them.
fn complete_json_chars_len(text: &str) -> (usize, bool) {
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

/// Returns the length of an escape sequence in bytes, including the second half of a surrogate
/// pair. Returns `None` if the escape sequence is incomplete.
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
