//! The end of a call: what was held back, and the line that says how it ended.

use acp_types::schema::v1::ToolCallStatus;
use anstyle::Style;
use callboard_text::{duration, head};

use super::{
    Card, ENDED_TITLE_BYTES, Excerpt, Live, Owner, Page, TEXT_LINES, Text, Words, exit_text, safe,
};

/// Columns of a title that its end does not take away.
const MIN_TITLE: usize = 20;

/// What the last line says behind its mark.
struct LastLine {
    title: String,
    why: String,
    details: String,
    /// Whether the reason did not fit.
    is_cut: bool,
}

impl Card {
    /// Prints the end, and forgets what was needed until then.
    pub(super) fn end(&mut self, page: &mut Page) {
        self.end_output(page);
        let has_failed = self.status == ToolCallStatus::Failed;
        let reason = has_failed.then(|| self.reason(&page.words));
        self.failure = reason.as_ref().map(|reason| format!("{} {reason}", self.title));
        let why = reason.map(|reason| format!("  {reason}")).unwrap_or_default();
        let line = self.last_line(page, &why);
        let is_said = has_failed && !line.is_cut;
        if is_said && self.live.texts.last().is_some_and(|last| last.excerpt.total() <= 1) {
            self.live.texts.pop();
        }
        self.show_texts(page);
        // What was shown may have named the call.
        let line = self.last_line(page, &why);
        match page.owner {
            Owner::Head(_) | Owner::Call(_) => page.fresh(),
            _ => page.blank(),
        }
        let (mark, style) =
            if has_failed { ("✗ ", page.palette.bad) } else { ("✓ ", page.palette.good) };
        page.write(style, mark);
        // What stands first stands behind the mark.
        let parts = [
            (Style::new(), line.title),
            (page.palette.bad, line.why),
            (page.palette.dim, line.details),
        ];
        let mut parts = parts.into_iter().filter(|(_, text)| !text.is_empty()).peekable();
        if parts.peek().is_none() {
            page.write(Style::new(), &page.words.say("completed"));
        }
        for (at, (style, text)) in parts.enumerate() {
            page.write(style, if at == 0 { text.trim_start() } else { &text });
        }
        page.line("");
        page.owner = Owner::Call(self.id.clone());
        self.forget();
    }

    /// Prints the texts that were held back.
    pub(super) fn show_texts(&mut self, page: &mut Page) {
        let words = page.words.clone();
        for text in std::mem::take(&mut self.live.texts) {
            if self.shown(text.hash).is_none() && text.excerpt.total() > 0 {
                self.own(page);
                page.fresh();
                text.excerpt.lines(&words).for_each(|line| page.gutter(&format!("{line}\n")));
                self.remember(text.hash, false);
            }
        }
    }

    /// Fits the last line into the width: first the title gives way, then the reason. No title where
    /// the page says last what this call is called.
    fn last_line(&self, page: &Page, why: &str) -> LastLine {
        let details = self.details(&page.words);
        let len = |text: &str| text.chars().count();
        let room = page.width.saturating_sub(2 + len(&details));
        let title = if self.is_named_last(page) { "" } else { &*self.title };
        let title = safe::cut(title, room.saturating_sub(len(why)).max(MIN_TITLE));
        let room = room.saturating_sub(len(&title));
        let is_cut = len(why) > room;
        let why = if why.is_empty() { String::new() } else { safe::cut(why, room) };
        LastLine { title, why, details, is_cut }
    }

    /// Says why it did not complete: by its last text, else by how its command ended.
    fn reason(&mut self, words: &Words) -> String {
        let last = self.live.texts.last_mut().filter(|text| text.excerpt.total() == 1);
        if let Some(Text { excerpt, .. }) = last {
            let said = words.reason(excerpt.first().unwrap_or_default());
            *excerpt = Excerpt::new(TEXT_LINES, TEXT_LINES);
            excerpt.push(&said);
        }
        let end = &self.live.end;
        let last = self.live.texts.last();
        let said = last.and_then(|text| text.excerpt.first()).filter(|line| !line.is_empty());
        // v1 has no such status; the projection says it by this sentence.
        let sentence = end.reason.map(|reason| words.reason(reason.sentence()));
        self.is_cancelled = said.is_some() && said == sentence.as_deref();
        if self.is_cancelled {
            return words.say_with("cancelled", "why", said.unwrap_or_default());
        }
        let (code, signal) = self.exit();
        let exit = exit_text(code, signal, words);
        let why = said.map(str::to_owned).or(exit).or(sentence);
        why.map_or_else(|| words.say("failed"), |why| words.say_with("failed-why", "why", why))
    }

    /// Returns how its command ended, if that is worth a word, and how long it took.
    fn details(&self, words: &Words) -> String {
        let (code, signal) = self.exit();
        let is_told = self.status == ToolCallStatus::Failed;
        let exit = exit_text(code.filter(|code| *code != 0), signal, words).filter(|_| !is_told);
        let parts = exit.into_iter().chain(self.duration_ms.map(duration));
        parts.map(|part| format!("  {part}")).collect()
    }

    /// Returns how its command ended, as the metadata say, else as its terminal did.
    fn exit(&self) -> (Option<i64>, Option<&str>) {
        let Live { end, exit: (code, signal), .. } = &self.live;
        let code = end.exit_code.or(*code).map(i64::from);
        (code, end.signal.as_deref().or(signal.as_deref()))
    }

    fn forget(&mut self) {
        self.is_ended = true;
        self.live = Live::default();
        self.title = head(&self.title, ENDED_TITLE_BYTES).to_owned();
    }
}
