//! Validation of patches: fields that are invalid, too large or read-only are removed and counted.

use acp_types::limits::MAX_FILE_CHANGE_BYTES;
use acp_types::{CallMeta, Content, ContentPatch, ToolCallId, ToolCallPatch, diff};
use callboard_text::escape_invisible_truncated;

use super::{BoardCall, CallBoard};
use crate::call_history::InputHash;
use crate::{limits, sanitize, title};

impl CallBoard {
    /// Removes fields from a patch if they are invalid, read-only or too large.
    pub(super) fn sanitise_patch(
        &mut self,
        id: &ToolCallId,
        mut patch: ToolCallPatch,
    ) -> Option<ToolCallPatch> {
        let Some(call) = self.calls.get_mut(id) else {
            self.counters.late_changes += 1;
            return None;
        };
        // Compute the hash before redaction and truncation, because redaction and truncation may
        // make different inputs equal.
        let input = patch.raw_input.as_ref().filter(|input| !input.is_null()).map(InputHash::new);
        sanitize::sanitize_patch(
            &mut patch,
            &self.secrets,
            self.config.raw_bytes,
            &mut call.losses,
        );
        patch.status = None;
        let mut meaningless =
            clear_field_if_invalid(&mut patch.title, |title| title.trim().is_empty());
        meaningless += clear_field_if_invalid(&mut patch.name, String::is_empty);
        // A title must not contain invisible characters, regardless of its source.
        if let Some(base) = patch.title.take() {
            let (base, is_cut) = escape_invisible_truncated(&base, limits::MAX_TITLE_BYTES);
            call.losses.is_title_truncated |= is_cut;
            call.base_title = base;
            patch.title =
                Some(title::join_title_and_subtitle(&call.base_title, call.subtitle.as_deref()));
        }
        patch.name =
            patch.name.map(|name| escape_invisible_truncated(&name, limits::MAX_TOOL_NAME_BYTES).0);
        if let Some(locations) = &mut patch.locations {
            let cut = locations.len().saturating_sub(limits::MAX_LOCATIONS);
            locations.truncate(limits::MAX_LOCATIONS);
            call.losses.omitted_locations = cut as u64;
        }
        if let Some(meta) = &mut patch.meta {
            call.restore_measured_fields(meta);
        }
        let dropped = call.cap_content(&mut patch.content, self.config.content_bytes);
        self.counters.content_dropped += dropped;
        if let Some(meta) = &mut patch.meta {
            meaningless += self.drop_invalid_meta_fields(id, meta);
        }
        self.counters.fields_dropped += meaningless;
        self.mark_retry(id, input, &mut patch);
        self.report_omissions_in_meta(id, &mut patch);
        Some(patch)
    }

    /// Sets `retry_of` on a call that has the same tool and the same arguments as a failed call.
    ///
    /// While arguments still arrive, the arguments received so far may equal the arguments of a
    /// failed call. If a later fragment makes the arguments differ, `retry_of` is cleared. If the
    /// tool itself has set `retry_of`, the tool's value is kept.
    fn mark_retry(&mut self, id: &ToolCallId, input: Option<InputHash>, patch: &mut ToolCallPatch) {
        let (Some(input), Some(call)) = (input, self.calls.get_mut(id)) else { return };
        call.input = Some(input);
        let name = patch.name.as_ref().unwrap_or(&call.report.name);
        let earlier = self.history.newest_failed(name, input).map(ToString::to_string);
        let reported = &patch.meta.as_deref().unwrap_or(&call.report.meta).retry_of;
        if *reported != earlier && (reported.is_none() || *reported == call.retry_of) {
            let meta = patch.meta.get_or_insert_with(|| Box::new(call.report.meta.clone()));
            meta.retry_of.clone_from(&earlier);
        }
        call.retry_of = earlier;
    }

    /// Removes invalid fields of a call's metadata, and returns how many fields it removed.
    fn drop_invalid_meta_fields(&self, id: &ToolCallId, meta: &mut CallMeta) -> u64 {
        let current = self.calls.get(id).map(|call| &call.report.meta);
        let is_known = |other: &str| *id.0 != *other && self.is_id_used(&ToolCallId::new(other));
        // Keep a parent id that was accepted before, even if the parent call is no longer in the
        // history.
        let parent = current.and_then(|meta| meta.parent.clone());
        let retry_of = current.and_then(|meta| meta.retry_of.clone());
        let stays = |current: &Option<String>, other: &String| current.as_ref() == Some(other);
        clear_field_if_invalid(&mut meta.progress, |progress| !progress.is_finite())
            + clear_field_if_invalid(&mut meta.parent, |other| {
                !stays(&parent, other) && (!is_known(other) || self.is_descendant(other, id))
            })
            + clear_field_if_invalid(&mut meta.retry_of, |other| {
                !stays(&retry_of, other) && !is_known(other)
            })
    }

    /// Reports in the metadata which parts of the call are not shown, unless the metadata already
    /// reports these parts.
    fn report_omissions_in_meta(&self, id: &ToolCallId, patch: &mut ToolCallPatch) {
        let Some(call) = self.calls.get(id) else { return };
        let losses = &call.losses;
        let redacted = losses.redacted_secrets() + self.redacted_secrets_in_terminals(id);
        let meta = patch.meta.as_deref().unwrap_or(&call.report.meta);
        let reported = meta.dropped.clone().unwrap_or_default();
        let mut lost = reported.clone();
        lost.redacted = redacted;
        lost.raw_bytes = losses.omitted_raw_bytes();
        lost.locations = losses.omitted_locations;
        if reported != lost {
            let meta = patch.meta.get_or_insert_with(|| Box::new(call.report.meta.clone()));
            meta.dropped = Some(lost);
        }
    }

    /// Returns whether an open call is a descendant of another call, directly or through other
    /// calls. The loop ends because the board accepts no cycles.
    fn is_descendant(&self, id: &str, other: &ToolCallId) -> bool {
        let parent_of =
            |id: &str| self.calls.get(&ToolCallId::new(id))?.report.meta.parent.as_deref();
        std::iter::successors(parent_of(id), |parent| parent_of(parent))
            .any(|parent| *parent == *other.0)
    }
}

impl BoardCall {
    /// Restores the measured fields and the trace context, because a tool must not change them.
    fn restore_measured_fields(&self, meta: &mut CallMeta) {
        let own = &self.report.meta;
        meta.started_at = own.started_at;
        meta.queued_ms = own.queued_ms;
        meta.duration_ms = own.duration_ms;
        meta.reason = own.reason;
        if !own.trace.is_empty() {
            meta.trace.clone_from(&own.trace);
        }
    }

    /// Shortens file changes that do not fit in a message, and drops the content items that exceed
    /// the call's limits. Returns the number of dropped items.
    fn cap_content(&mut self, content: &mut ContentPatch, max: usize) -> u64 {
        let (items, had) = match content {
            ContentPatch::Set(items) => {
                (self.content_bytes, self.content_dropped) = (0, 0);
                self.losses.is_change_truncated = false;
                (items, 0)
            }
            ContentPatch::Append(items) => (items, self.report.content.len()),
            _ => return 0,
        };
        let mut dropped = 0;
        let mut kept = had;
        items.retain_mut(|item: &mut Content| {
            let room = max.saturating_sub(self.content_bytes).min(MAX_FILE_CHANGE_BYTES);
            if let Content::Change(change) = item {
                if let Some(short) = diff::shorten_change(change, room) {
                    *change = short;
                }
                self.losses.is_change_truncated |= change.unlisted != (0, 0);
            }
            let bytes = item.approximate_json_len();
            let fits = kept < limits::MAX_CONTENT_ITEMS && self.content_bytes + bytes <= max;
            if fits {
                kept += 1;
                self.content_bytes += bytes;
            } else {
                dropped += 1;
            }
            fits
        });
        self.content_dropped += dropped;
        dropped
    }
}

/// Removes a field if it is invalid, and returns the number of removed fields (0 or 1).
fn clear_field_if_invalid<T>(field: &mut Option<T>, is_meaningless: impl Fn(&T) -> bool) -> u64 {
    let had = field.is_some();
    *field = field.take().filter(|value| !is_meaningless(value));
    u64::from(had && field.is_none())
}
