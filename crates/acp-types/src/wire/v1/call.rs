//! An open call, as sent on one connection.

use foldhash::HashMap;
use serde_json::Value;

use super::{SentTerminal, TerminalDisplay, encode, terminal_content};
use crate::limits::{MAX_RESENT_BYTES, MAX_STREAMED_UPDATE_BYTES};
use crate::schema::v1::{
    ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use crate::{CallMeta, Content, ContentPatch, TerminalId, ToolCallId, json, wire};

/// An open call: its content items, and the state that the client holds.
#[derive(Debug)]
pub(super) struct SentCall {
    items: Vec<Content>,
    /// The call in the state that the client holds, without its metadata.
    pub(super) call: ToolCall,
    pub(super) meta: Option<Box<CallMeta>>,
    /// Fields that are too large for a streamed update. These fields are sent with the next report
    /// that is not streamed.
    pub(super) deferred: LargeFields,
    /// Number of bytes of large fields that were sent in streamed updates so far.
    streamed_bytes: usize,
    pub(super) announced: bool,
}

impl SentCall {
    pub(super) fn new(id: &ToolCallId) -> Self {
        Self {
            items: Vec::new(),
            call: ToolCall::new(id.clone(), String::new()),
            meta: None,
            deferred: LargeFields::default(),
            streamed_bytes: 0,
            announced: false,
        }
    }

    /// Updates the items. Returns the encoded content if it differs from the content that the
    /// client holds. `ending` is the last text of a cancelled call; `status` is the current status.
    pub(super) fn apply_and_encode_changed_content(
        &mut self,
        mut patch: ContentPatch,
        ending: Option<String>,
        status: ToolCallStatus,
        shows: &TerminalContext<'_>,
    ) -> Option<Vec<ToolCallContent>> {
        let keeps = patch == ContentPatch::Keep && ending.is_none();
        if let ContentPatch::Set(items) | ContentPatch::Append(items) = &mut patch {
            encode::shorten_changes(items);
        }
        patch.apply(&mut self.items);
        if keeps && self.shown_terminal_ids().next().is_none() {
            return None;
        }
        // The announcement of a call also opens the first terminal of the call.
        let opens = match shows.display {
            TerminalDisplay::MetaEvents if !self.announced => {
                self.shown_terminal_ids().next().cloned()
            }
            _ => None,
        };
        let mut content = encode::encode_content_items(&self.items, shows.meta_key, |id| {
            let terminal = shows.terminals.get(id);
            let is_shown = terminal.is_some_and(|terminal| terminal.announced);
            let surface = match is_shown || opens.as_ref() == Some(id) {
                true => TerminalDisplay::MetaEvents,
                false => TerminalDisplay::Text,
            };
            terminal_content(id, terminal.map(|terminal| &terminal.report), surface, status)
        });
        content.extend(ending.map(ToolCallContent::from));
        self.deferred.content = None;
        (content != self.call.content).then_some(content)
    }

    /// Adds deferred fields to an update, or defers fields that are too large for a streamed
    /// update. Then applies the update to the recorded state of the client.
    ///
    /// If file changes are deferred, an excerpt that fits is sent instead. Some clients do not
    /// merge permission requests into the displayed call. Without the excerpt, these clients would
    /// show no change before the call ends.
    pub(super) fn attach_or_defer_large_fields(
        &mut self,
        update: &mut ToolCallUpdate,
        is_final: bool,
        meta_key: &str,
    ) {
        let held = std::mem::take(&mut self.deferred);
        let large = LargeFields::take_from(&mut update.fields).or_else(held);
        if self.announced && !is_final && !self.admit_large_fields_to_stream(update, &large) {
            if large.content.is_some() {
                update.fields.content =
                    self.unsent_change_excerpt_that_fits(json::serialized_len(update), meta_key);
            }
            self.deferred = large;
        } else {
            large.move_into(&mut update.fields);
        }
        if !self.announced {
            // The first report is the whole call.
            self.call.update(std::mem::take(&mut update.fields));
        } else if !is_final {
            // A finished call is removed, so its large fields are not needed for a comparison.
            self.call.update(update.fields.clone());
        }
    }

    /// Returns an excerpt of the file changes that fits into a streamed update together with `rest`
    /// other bytes. Returns `None` if no excerpt may be sent, or if the client already holds the
    /// excerpt.
    fn unsent_change_excerpt_that_fits(
        &mut self,
        rest: usize,
        meta_key: &str,
    ) -> Option<Vec<ToolCallContent>> {
        // The number of bytes that are sent again is limited.
        if self.streamed_bytes > MAX_RESENT_BYTES {
            return None;
        }
        let room = MAX_STREAMED_UPDATE_BYTES.checked_sub(rest + r#","content":[]"#.len())?;
        let sized_excerpt = |max| {
            let items = encode::encode_excerpt_of_file_changes(&self.items, meta_key, max)?;
            let len = items.len() + items.iter().map(encode::item_json_len).sum::<usize>();
            (len <= room).then_some((len, items))
        };
        // The note about omitted files may not fit beside an excerpt that fills the whole room.
        let (len, items) = sized_excerpt(room).or_else(|| sized_excerpt(room / 2))?;
        if items == self.call.content {
            return None;
        }
        self.streamed_bytes = self.streamed_bytes.saturating_add(len);
        Some(items)
    }

    /// Returns the whole call as the client should hold it, including metadata.
    pub(super) fn merge_deferred_into_full_call(&mut self, meta_key: &str) -> ToolCall {
        let mut held = ToolCallUpdateFields::new();
        std::mem::take(&mut self.deferred).move_into(&mut held);
        self.call.update(held);
        let mut call = self.call.clone();
        call.meta = self.meta.as_ref().map(|meta| meta.to_meta(meta_key));
        call
    }

    /// Returns whether a streamed update may include the large fields in addition to its other
    /// fields.
    fn admit_large_fields_to_stream(&mut self, rest: &ToolCallUpdate, large: &LargeFields) -> bool {
        let large = large.json_len();
        let terminals = self.shown_terminal_ids().count();
        // The line also contains the metadata, with a trace of up to 9 KiB.
        large == 0
            || wire::may_stream_and_count_large_fields(
                json::serialized_len(rest) + large,
                || large,
                terminals,
                &mut self.streamed_bytes,
            )
    }

    /// Returns the terminals that the call shows, in order.
    pub(super) fn shown_terminal_ids(&self) -> impl Iterator<Item = &TerminalId> {
        self.items.iter().filter_map(|item| match item {
            Content::Terminal(id) => Some(id),
            _ => None,
        })
    }
}

/// The fields that may be too large for a streamed update.
#[derive(Debug, Default)]
pub(super) struct LargeFields {
    content: Option<Vec<ToolCallContent>>,
    pub(super) raw_input: Option<Value>,
    pub(super) raw_output: Option<Value>,
}

impl LargeFields {
    fn take_from(fields: &mut ToolCallUpdateFields) -> Self {
        Self {
            content: fields.content.take(),
            raw_input: fields.raw_input.take(),
            raw_output: fields.raw_output.take(),
        }
    }

    fn or_else(self, other: Self) -> Self {
        Self {
            content: self.content.or(other.content),
            raw_input: self.raw_input.or(other.raw_input),
            raw_output: self.raw_output.or(other.raw_output),
        }
    }

    fn move_into(self, fields: &mut ToolCallUpdateFields) {
        fields.content = self.content;
        fields.raw_input = self.raw_input;
        fields.raw_output = self.raw_output;
    }

    /// Returns the number of bytes that these fields add to a JSON object with other fields.
    fn json_len(&self) -> usize {
        let content = self.content.as_deref().map(|items| {
            let commas = items.len().saturating_sub(1);
            r#","content":[]"#.len()
                + commas
                + items.iter().map(encode::item_json_len).sum::<usize>()
        });
        let field = |key: &str, value: &Value| key.len() + json::value_len(value);
        let input = self.raw_input.as_ref().map(|value| field(r#","rawInput":"#, value));
        let output = self.raw_output.as_ref().map(|value| field(r#","rawOutput":"#, value));
        [content, input, output].into_iter().flatten().sum()
    }
}

/// The terminals of a connection, and the form in which they are sent.
pub(super) struct TerminalContext<'a> {
    pub(super) display: TerminalDisplay,
    pub(super) meta_key: &'a str,
    pub(super) terminals: &'a HashMap<TerminalId, SentTerminal>,
}

#[cfg(test)]
mod tests {
    use super::LargeFields;
    use crate::json::serialized_len;
    use crate::schema::v1::{
        ContentBlock, Diff, TextContent, ToolCallContent, ToolCallUpdate, ToolCallUpdateFields,
    };
    use serde_json::json;

    #[test]
    fn computed_length_of_large_fields_equals_the_serialised_length() {
        let text = ToolCallContent::from("a \"b\"\n\u{1b}ä");
        let mut noted = TextContent::new("x");
        noted.meta = json!({"k": 1}).as_object().cloned();
        let all =
            vec![text.clone(), ContentBlock::Text(noted).into(), Diff::new("/a", "new\n").into()];
        let none = ToolCallUpdateFields::new();
        for mut fields in [
            none.clone(),
            none.clone().content(Vec::new()),
            none.clone().content(vec![text]),
            none.clone().raw_input(json!({"a": [1, "b"]})),
            none.clone().raw_output(json!("b")),
            none.content(all).raw_input(json!(null)).raw_output(json!([])),
        ] {
            let rest = ToolCallUpdate::new("c", ToolCallUpdateFields::new());
            let whole = ToolCallUpdate::new("c", fields.clone());
            let expected = serialized_len(&whole) - serialized_len(&rest);
            assert_eq!(LargeFields::take_from(&mut fields).json_len(), expected, "{whole:?}");
        }
    }
}
