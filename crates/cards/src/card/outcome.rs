//! Prints the end of a call: the texts that were stored until the end, and the outcome line.

use acp_types::CallEndReason;
use acp_types::schema::v1::ToolCallStatus;
use anstyle::Style;
use callboard_text::{format_duration, head};

use super::{
    Card, HeldBackText, MAX_ENDED_TITLE_BYTES, MAX_EXCERPT_EDGE_LINES, OpenCallState, Page,
    TextExcerpt, TextOwner, UiText, exit_text, sanitise,
};

/// Minimum number of columns of the title in the outcome line.
const MIN_TITLE_COLUMNS: usize = 20;

/// The text of the outcome line after its mark.
struct OutcomeLine {
    title: String,
    reason: String,
    details: String,
    /// Whether the reason was truncated.
    is_reason_truncated: bool,
}

impl Card {
    /// Prints the outcome, and discards the state that is needed only before the end of the call.
    pub(super) fn print_outcome(&mut self, page: &mut Page) {
        self.print_remaining_output(page);
        let has_failed = self.status == ToolCallStatus::Failed;
        let reason = has_failed.then(|| self.resolve_failure_reason(&page.words));
        let is_text = reason.as_ref().is_some_and(|(_, is_text)| *is_text);
        let reason = reason.map(|(reason, _)| reason);
        self.failure = reason.as_ref().map(|reason| format!("{} {reason}", self.title));
        let why = reason.map(|reason| format!("  {reason}")).unwrap_or_default();
        let line = self.fit_outcome_line(page, &why);
        let is_said = |last: &HeldBackText| {
            is_text && !line.is_reason_truncated && last.excerpt.total_line_count() <= 1
        };
        if self.open.texts.last().is_some_and(is_said) {
            self.open.texts.pop();
        }
        self.print_held_back_texts(page);
        // Compute the line again: the title is omitted from the line if printing the texts has also
        // printed the title.
        let line = self.fit_outcome_line(page, &why);
        match page.owner {
            TextOwner::CallHead(_) | TextOwner::Call(_) => page.end_open_line(),
            _ => page.ensure_blank_line(),
        }
        let (mark, style) =
            if has_failed { ("✗ ", page.palette.bad) } else { ("✓ ", page.palette.good) };
        page.write_styled_text(style, mark);
        // The first part directly follows the mark, so its indentation is removed.
        let parts = [
            (Style::new(), line.title),
            (page.palette.bad, line.reason),
            (page.palette.dim, line.details),
        ];
        let mut parts = parts.into_iter().filter(|(_, text)| !text.is_empty()).peekable();
        if parts.peek().is_none() {
            page.write_styled_text(Style::new(), &page.words.text_for_key("completed"));
        }
        for (at, (style, text)) in parts.enumerate() {
            page.write_styled_text(style, if at == 0 { text.trim_start() } else { &text });
        }
        page.write_line("");
        page.owner = TextOwner::Call(self.id.clone());
        self.discard_open_state();
    }

    /// Prints the texts that were stored until the end of the call.
    pub(super) fn print_held_back_texts(&mut self, page: &mut Page) {
        let words = page.words.clone();
        for text in std::mem::take(&mut self.open.texts) {
            if self.printed_completeness(text.hash).is_none() && text.excerpt.total_line_count() > 0
            {
                self.ensure_text_owned_by_call(page);
                page.end_open_line();
                text.excerpt
                    .shown_lines(&words)
                    .for_each(|line| page.write_with_gutter(&format!("{line}\n")));
                self.remember_printed(text.hash, false);
            }
        }
    }

    /// Fits the outcome line into the width. The title is truncated first, then the reason. The
    /// title is omitted if it is already the last title on the page.
    fn fit_outcome_line(&self, page: &Page, why: &str) -> OutcomeLine {
        let details = self.exit_and_duration_text(&page.words);
        let len = |text: &str| text.chars().count();
        let room = page.width.saturating_sub(2 + len(&details));
        let title = if self.is_title_printed_last(page) { "" } else { &*self.title };
        let title =
            sanitise::truncate_line(title, room.saturating_sub(len(why)).max(MIN_TITLE_COLUMNS));
        let room = room.saturating_sub(len(&title));
        let is_cut = len(why) > room;
        let why = if why.is_empty() { String::new() } else { sanitise::truncate_line(why, room) };
        OutcomeLine { title, reason: why, details, is_reason_truncated: is_cut }
    }

    /// Returns the reason why the call failed: the timeout or the exit of its command if there is
    /// one, otherwise the last text of the call. Also returns whether the reason is the last text.
    fn resolve_failure_reason(&mut self, words: &UiText) -> (String, bool) {
        let last = self.open.texts.last_mut().filter(|text| text.excerpt.total_line_count() == 1);
        if let Some(HeldBackText { excerpt, .. }) = last {
            let translated = words.translate_reason(excerpt.first_line().unwrap_or_default());
            *excerpt =
                TextExcerpt::with_line_limits(MAX_EXCERPT_EDGE_LINES, MAX_EXCERPT_EDGE_LINES);
            excerpt.push(&translated);
        }
        let end = &self.open.meta;
        let last = self.open.texts.last();
        let stated_reason =
            last.and_then(|text| text.excerpt.first_line()).filter(|line| !line.is_empty());
        // ACP v1 has no status for a cancelled call. Callboard sends a failed call whose last text
        // is the description of the end reason.
        let sentence = end.reason.map(|reason| words.translate_reason(reason.description()));
        self.is_cancelled = stated_reason.is_some() && stated_reason == sentence.as_deref();
        if self.is_cancelled {
            let why = stated_reason.unwrap_or_default();
            return (words.text_with_variable("cancelled", "why", why), true);
        }
        let (code, signal) = self.exit_status();
        let is_timeout = end.reason == Some(CallEndReason::Timeout);
        let exit = exit_text(code.filter(|code| *code != 0), signal, words).filter(|_| !is_timeout);
        let timeout = sentence.clone().filter(|_| is_timeout);
        let better = timeout.or(exit);
        let is_text = better.is_none() && stated_reason.is_some();
        let why = better.or(stated_reason.map(str::to_owned)).or(sentence);
        let text = why.map_or_else(
            || words.text_for_key("failed"),
            |why| words.text_with_variable("failed-why", "why", why),
        );
        (text, is_text)
    }

    /// Returns the exit of the command, if the command failed, and the duration of the call.
    fn exit_and_duration_text(&self, words: &UiText) -> String {
        let (code, signal) = self.exit_status();
        let is_told = self.status == ToolCallStatus::Failed;
        let exit = exit_text(code.filter(|code| *code != 0), signal, words).filter(|_| !is_told);
        let parts = exit.into_iter().chain(self.duration_ms.map(format_duration));
        parts.map(|part| format!("  {part}")).collect()
    }

    /// Returns the exit of the command from the metadata, or else from its terminal.
    fn exit_status(&self) -> (Option<i64>, Option<&str>) {
        let OpenCallState { meta: end, exit: (code, signal), .. } = &self.open;
        let code = end.exit_code.or(*code).map(i64::from);
        (code, end.signal.as_deref().or(signal.as_deref()))
    }

    fn discard_open_state(&mut self) {
        self.is_ended = true;
        self.open = OpenCallState::default();
        self.title = head(&self.title, MAX_ENDED_TITLE_BYTES).to_owned();
    }
}
