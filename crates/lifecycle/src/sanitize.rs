//! Redaction and truncation of the displayed parts of a call, both on the wire and in the history.
//!
//! Known secrets, text that has the form of credentials, and values under secret keys are replaced
//! by `[redacted]`. Raw input and output are truncated to a maximum size but keep their JSON shape.
//! The input of a tool, its result for the model, and file diffs are never changed.

use std::path::{Path, PathBuf};

use acp_types::{
    CallMeta, Content, ContentBlock, ContentPatch, Location, Plan, SessionStatePart, TerminalPatch,
    ToolCallPatch, json,
};
use callboard_text::{count_with_noun, head};
use serde_json::{Map, Value};

mod automaton;
mod credentials;
mod encoded_forms;
mod json_budget;
mod secret_keys;
mod secrets;
mod stream_redactor;
mod strip_escapes;

pub use json_budget::truncate_json;
pub use secrets::Secrets;
pub(crate) use stream_redactor::StreamRedactor;

/// The text that replaces a secret.
pub const REDACTION_MARKER: &str = "[redacted]";

/// Counts of redacted and omitted parts of a call. The counts are stored per field, because the
/// count of a field is reset when the field is set again.
#[derive(Debug, Default)]
pub(crate) struct OmissionCounts {
    title: u64,
    pub(crate) is_title_truncated: bool,
    /// Whether only a part of a file change is shown.
    pub(crate) is_change_truncated: bool,
    content: u64,
    locations: u64,
    /// Number of locations that exceed the limit.
    pub(crate) omitted_locations: u64,
    meta: u64,
    raw_input: (u64, u64),
    raw_output: (u64, u64),
}

impl OmissionCounts {
    /// Returns the number of redacted secrets.
    pub(crate) fn redacted_secrets(&self) -> u64 {
        let Self { title, content, locations, meta, raw_input, raw_output, .. } = self;
        title + content + locations + meta + raw_input.0 + raw_output.0
    }

    /// Returns the number of omitted bytes of raw input and raw output.
    pub(crate) fn omitted_raw_bytes(&self) -> u64 {
        self.raw_input.1 + self.raw_output.1
    }

    /// Returns whether anything was redacted or omitted.
    pub(crate) fn has_any(&self) -> bool {
        let cut = self.omitted_raw_bytes() + self.omitted_locations;
        self.is_title_truncated || self.is_change_truncated || self.redacted_secrets() + cut > 0
    }
}

/// Redacts and truncates a patch, and counts the redacted and omitted parts.
///
/// Raw input and raw output are truncated to `raw_bytes` each. If `raw_bytes` is zero, both are
/// omitted.
pub(crate) fn sanitize_patch(
    patch: &mut ToolCallPatch,
    secrets: &Secrets,
    raw_bytes: usize,
    losses: &mut OmissionCounts,
) {
    let mut redactor = Redactor::new(secrets);
    if let Some(name) = &mut patch.name {
        redactor.redact_text(name);
        redactor.take_count();
    }
    // A title or metadata may be set again after it was redacted, and then contains no secrets.
    // Keep the maximum of both counts, so that the earlier count is not lost.
    if let Some(title) = &mut patch.title {
        redactor.redact_text(title);
        losses.title = losses.title.max(redactor.take_count());
    }
    if let Some(meta) = &mut patch.meta {
        redactor.redact_meta(meta);
        losses.meta = losses.meta.max(redactor.take_count());
    }
    match &mut patch.content {
        ContentPatch::Set(items) => {
            redactor.redact_contents(items);
            losses.content = redactor.take_count();
        }
        ContentPatch::Append(items) => {
            redactor.redact_contents(items);
            losses.content += redactor.take_count();
        }
        _ => {}
    }
    if let Some(locations) = &mut patch.locations {
        redactor.redact_locations(locations);
        losses.locations = redactor.take_count();
    }
    sanitize_raw_json(&mut patch.raw_input, &mut redactor, raw_bytes, &mut losses.raw_input);
    sanitize_raw_json(&mut patch.raw_output, &mut redactor, raw_bytes, &mut losses.raw_output);
}

/// Redacts and truncates a raw value. A null value is treated as absent, as in both protocol
/// versions.
fn sanitize_raw_json(
    value: &mut Option<Value>,
    redactor: &mut Redactor<'_>,
    max: usize,
    losses: &mut (u64, u64),
) {
    if let Some(mut shown) = value.take().filter(|value| !value.is_null()) {
        redactor.redact_value(&mut shown, IsUnderSecretKey::No);
        if max == 0 {
            *losses = (redactor.take_count(), json::value_len(&shown) as u64);
            return;
        }
        let (shown, bytes) = truncate_json(shown, max);
        *losses = (redactor.take_count(), bytes);
        *value = Some(shown);
    }
}

/// Truncates a text of a call to the smaller of `bytes` and `room`. `room` is the number of bytes
/// that can still be added to the call's content. A truncated text ends with the number of omitted
/// bytes.
pub(crate) fn truncate_text(text: String, bytes: usize, room: usize) -> String {
    let room = room.saturating_sub("\"\"".len());
    if text.len() <= bytes && json::escaped_string_len(&text) <= room {
        return text;
    }
    let omitted = |shown: &str| {
        let count = (text.len() - shown.len()) as u64;
        format!("… and {}", count_with_noun(count, "more byte", "more bytes"))
    };
    let room = room.saturating_sub(omitted("").len());
    let shown = json::prefix_within_escaped_len(head(&text, bytes), room);
    format!("{shown}{}", omitted(shown))
}

/// Replaces secrets and counts them.
pub(crate) struct Redactor<'a> {
    secrets: &'a Secrets,
    count: u64,
}

/// Whether a value belongs to a secret key, directly or in a nested object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsUnderSecretKey {
    Yes,
    No,
}

impl<'a> Redactor<'a> {
    pub(crate) fn new(secrets: &'a Secrets) -> Self {
        Self { secrets, count: 0 }
    }

    /// Returns the number of secrets that were replaced since the last call of this method.
    pub(crate) fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.count)
    }

    /// Replaces the secrets in a text.
    pub(crate) fn redact_text(&mut self, text: &mut String) {
        if let Some(redacted) = self.redacted_text(text) {
            *text = redacted;
        }
    }

    /// Returns the redacted text, or `None` if the text contains no secrets.
    fn redacted_text(&mut self, text: &str) -> Option<String> {
        let known = strip_escapes::find_with_and_without_escapes(text, |text| {
            self.secrets.find_whole_or_truncated(text)
        });
        let known = self.replace_ranges(text, &known);
        let shaped = strip_escapes::find_with_and_without_escapes(
            known.as_deref().unwrap_or(text),
            credentials::find_credentials,
        );
        let shaped = self.replace_ranges(known.as_deref().unwrap_or(text), &shaped);
        shaped.or(known)
    }

    fn replace_ranges(&mut self, text: &str, ranges: &[std::ops::Range<usize>]) -> Option<String> {
        if ranges.is_empty() {
            return None;
        }
        let is_new = |range: &&std::ops::Range<usize>| text[(*range).clone()] != *REDACTION_MARKER;
        let (mut out, mut at, mut count) = (String::new(), 0, 0);
        for range in ranges.iter().filter(is_new) {
            out.push_str(&text[at..range.start]);
            out.push_str(REDACTION_MARKER);
            (at, count) = (range.end, count + 1);
        }
        self.count += count;
        out.push_str(&text[at..]);
        (count > 0).then_some(out)
    }

    fn redact_value(&mut self, value: &mut Value, is_secret: IsUnderSecretKey) {
        match value {
            Value::String(text)
                if is_secret == IsUnderSecretKey::Yes
                    && !text.is_empty()
                    && text != REDACTION_MARKER =>
            {
                REDACTION_MARKER.clone_into(text);
                self.count += 1;
            }
            Value::String(text) => self.redact_text(text),
            Value::Array(items) => {
                items.iter_mut().for_each(|item| self.redact_value(item, is_secret));
            }
            Value::Object(fields) => self.redact_json_object(fields, is_secret),
            // Replace a number with another number, so that the type of the value does not change.
            Value::Number(number)
                if !self.secrets.is_empty()
                    && self.secrets.contains_secret(number.to_string().as_bytes()) =>
            {
                *value = Value::from(0);
                self.count += 1;
            }
            _ => {}
        }
    }

    fn redact_json_object(&mut self, fields: &mut Map<String, Value>, is_secret: IsUnderSecretKey) {
        for (key, value) in &mut *fields {
            let names =
                if secret_keys::is_secret_key(key) { IsUnderSecretKey::Yes } else { is_secret };
            self.redact_value(value, names);
        }
        if fields.keys().any(|key| self.secrets.contains_secret(key.as_bytes())) {
            for (mut key, value) in std::mem::take(fields) {
                self.redact_text(&mut key);
                while fields.contains_key(&key) {
                    key.push('_');
                }
                fields.insert(key, value);
            }
        }
    }

    /// Replaces the secrets in the parts of a prompt.
    pub(crate) fn redacted_blocks(&mut self, blocks: Vec<ContentBlock>) -> Vec<ContentBlock> {
        let mut items: Vec<_> = blocks.into_iter().map(Content::Block).collect();
        self.redact_contents(&mut items);
        let blocks = items.into_iter().filter_map(|item| match item {
            Content::Block(block) => Some(block),
            _ => None,
        });
        blocks.collect()
    }

    fn redact_contents(&mut self, items: &mut [Content]) {
        for item in items {
            match item {
                Content::Block(ContentBlock::Text(text))
                    if text.meta.is_none() && text.annotations.is_none() =>
                {
                    self.redact_text(&mut text.text);
                }
                // Images and audio contain no text.
                Content::Block(ContentBlock::Image(_) | ContentBlock::Audio(_)) => {}
                Content::Block(block) => {
                    let is_readable = self.redact_serializable(block);
                    if !is_readable {
                        *item = Content::from_text(REDACTION_MARKER);
                    }
                }
                // Redact nothing in a file change, because the change is shown exactly as it will
                // be applied.
                _ => {}
            }
        }
    }

    /// Redacts a value through its JSON form. Returns false if the result cannot be deserialized.
    fn redact_serializable<T>(&mut self, shown: &mut T) -> bool
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
    {
        let before = self.count;
        let Ok(mut value) = serde_json::to_value(&*shown) else { return false };
        self.redact_value(&mut value, IsUnderSecretKey::No);
        if self.count > before {
            let Ok(redacted) = serde_json::from_value(value) else { return false };
            *shown = redacted;
        }
        true
    }

    fn redact_locations(&mut self, locations: &mut Vec<Location>) {
        locations.retain_mut(|location| {
            let Some(path) = self.redacted_path(location.path()) else { return true };
            let line = location.line().map_or(0, u32::from);
            let redacted = Location::try_new(path).map(|location| location.with_line(line));
            redacted.map(|redacted| *location = redacted).is_ok()
        });
    }

    /// Returns the redacted path, or `None` if the path contains no secrets.
    fn redacted_path(&mut self, path: &Path) -> Option<PathBuf> {
        // Do not use the displayed path, because it may contain quotes inside a secret.
        self.redacted_text(&path.to_string_lossy()).map(PathBuf::from)
    }

    fn redact_meta(&mut self, meta: &mut CallMeta) {
        if let Some(message) = meta.progress.as_mut().and_then(|progress| progress.message.as_mut())
        {
            self.redact_text(message);
        }
        if let Some(title) = &mut meta.title {
            self.redact_value(title, IsUnderSecretKey::No);
        }
        meta.arriving.retain(|key, _| !self.secrets.contains_secret(key.as_bytes()));
        self.redact_json_object(&mut meta.custom, IsUnderSecretKey::No);
    }

    /// Redacts the patch of a terminal. A [`StreamRedactor`] redacts the terminal's output
    /// separately.
    pub(crate) fn redact_terminal_command_and_cwd(&mut self, patch: &mut TerminalPatch) {
        if let Some(command) = &mut patch.command {
            self.redact_text(command);
        }
        if let Some(cwd) = patch.cwd.as_deref().and_then(|cwd| self.redacted_path(cwd)) {
            patch.cwd = Some(cwd);
        }
    }

    pub(crate) fn redact_plan(&mut self, plan: &mut Plan) {
        for entry in &mut plan.entries {
            self.redact_text(&mut entry.content);
            entry.id.iter_mut().for_each(|id| self.redact_text(id));
        }
    }

    /// Redacts a part of the session's state. Returns false if the redacted state is invalid and
    /// must not be sent.
    pub(crate) fn redact_state(&mut self, state: &mut SessionStatePart) -> bool {
        self.redact_serializable(state)
    }
}
