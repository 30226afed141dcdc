//! Renders the Markdown of a streamed message for a terminal. A block is printed when the block is
//! complete. In a code fence, each line is printed when the line is complete.
//!
//! The parser decodes entities such as `&#27;`, so the decoded text is escaped again.

use anstyle::Style;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::limits::MAX_MARKDOWN_BLOCK_BYTES;
use super::page::Page;
use super::sanitise;

/// The part of a message that is not printed yet.
#[derive(Debug, Default)]
pub(super) struct MarkdownPrinter {
    text: String,
    fence: Option<OpenFence>,
    /// Whether the text continues a block that is already printed in part.
    continues_block: bool,
}

/// A code fence whose lines are being printed.
#[derive(Debug, Clone, Copy)]
struct OpenFence {
    mark: char,
    len: usize,
    /// Number of spaces before the fence. Up to this number of spaces is removed from the start of
    /// each line in the fence.
    indent: usize,
}

impl OpenFence {
    fn from_opening_line(line: &str, indent: usize) -> Option<Self> {
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let len = line.chars().take_while(|letter| *letter == mark).count();
        (len >= 3).then_some(Self { mark, len, indent })
    }

    /// Returns whether a line closes the fence
    /// (<https://spec.commonmark.org/0.31.2/#fenced-code-blocks>).
    fn is_closed_by(self, line: &str) -> bool {
        let fence = line.trim_start_matches(' ');
        let indent = line.len() - fence.len();
        let fence = fence.trim_end();
        indent < 4 && fence.len() >= self.len && fence.chars().all(|letter| letter == self.mark)
    }

    fn print_code_line_of_fence(self, line: &str, page: &mut Page) {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        print_code_line(&line[spaces.min(self.indent)..], page);
    }
}

impl MarkdownPrinter {
    /// Appends a chunk, and prints the blocks that it completes.
    pub(super) fn push_and_print_complete(&mut self, piece: &str, page: &mut Page) {
        self.text.push_str(piece);
        if piece.contains('\n') || self.text.len() > MAX_MARKDOWN_BLOCK_BYTES {
            while self.print_fence_line_or_blocks(page) {}
        }
    }

    /// Prints the remaining text.
    pub(super) fn print_remaining(&mut self, page: &mut Page) {
        let rest = std::mem::take(&mut self.text);
        match self.fence.take() {
            Some(fence) => {
                let lines = rest.lines().filter(|line| !fence.is_closed_by(line));
                lines.for_each(|line| fence.print_code_line_of_fence(line, page));
            }
            None => print_blocks(&rest, std::mem::take(&mut self.continues_block), page),
        }
    }

    /// Prints a line of a fence, or all complete blocks. Returns whether there may be more to
    /// print.
    fn print_fence_line_or_blocks(&mut self, page: &mut Page) -> bool {
        let is_full = self.text.len() > MAX_MARKDOWN_BLOCK_BYTES;
        if let Some(fence) = self.fence {
            let end = self.text.find('\n').map(|end| end + 1);
            let Some(end) = end.or(is_full.then_some(self.text.len())) else { return false };
            let line: String = self.text.drain(..end).collect();
            if fence.is_closed_by(&line) {
                self.fence = None;
            } else {
                fence.print_code_line_of_fence(line.trim_end_matches('\n'), page);
            }
            return true;
        }
        let lines = self.text.rfind('\n').map_or(0, |end| end + 1);
        let (mut complete, fence) = complete_blocks_len_and_fence(&self.text[..lines]);
        // A block that exceeds the limit is printed in parts. It is split after a line if possible,
        // otherwise after a word.
        let is_part = complete == 0 && fence.is_none() && is_full;
        if is_part {
            let words = || self.text.rfind(' ').map_or(self.text.len(), |end| end + 1);
            complete = if lines > 0 { lines } else { words() };
        }
        let done: String = self.text.drain(..complete).collect();
        if !done.is_empty() {
            print_blocks(&done, std::mem::replace(&mut self.continues_block, is_part), page);
        }
        if fence.is_some() {
            self.continues_block = false;
            page.ensure_blank_line();
            let line = self.text.find('\n').map_or(self.text.len(), |end| end + 1);
            self.text.drain(..line);
            self.fence = fence;
        }
        fence.is_some()
    }
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(
        text,
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS,
    )
}

/// Returns the total length in bytes of the complete blocks, and the open fence after them, if
/// there is one.
fn complete_blocks_len_and_fence(text: &str) -> (usize, Option<OpenFence>) {
    let mut depth = 0;
    let mut last = None;
    for (event, range) in parser(text).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    last = Some((tag, range));
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            Event::Rule if depth == 0 => last = None,
            _ => {}
        }
    }
    let Some((tag, range)) = last else { return (text.len(), None) };
    let block = &text[range.clone()];
    let is_blank_behind = text.ends_with("\n\n");
    match tag {
        Tag::Heading { .. } => (text.len(), None),
        Tag::Paragraph | Tag::Table(_) | Tag::HtmlBlock if is_blank_behind => (text.len(), None),
        Tag::CodeBlock(CodeBlockKind::Fenced(_)) => {
            let indent = range.start - text[..range.start].rfind('\n').map_or(0, |end| end + 1);
            let fence =
                block.lines().next().and_then(|line| OpenFence::from_opening_line(line, indent));
            let is_closed = |fence: OpenFence| {
                block.lines().skip(1).last().is_some_and(|it| fence.is_closed_by(it))
            };
            match fence {
                Some(fence) if !is_closed(fence) => (range.start, Some(fence)),
                _ => (text.len(), None),
            }
        }
        _ => (range.start, None),
    }
}

fn print_code_line(line: &str, page: &mut Page) {
    let code = page.palette.code;
    page.write_line_with_ansi_codes(&format!(
        "    {code}{}{code:#}",
        sanitise::escape_message_chunk(line)
    ));
}

/// Prints complete blocks. The first block may be the rest of a block that is already printed in
/// part.
fn print_blocks(text: &str, continues: bool, page: &mut Page) {
    let mut writer = BlockPrinter {
        page,
        letters: Vec::new(),
        styles: Vec::new(),
        margins: Vec::new(),
        lists: Vec::new(),
        code: None,
        rows: Vec::new(),
        links: Vec::new(),
        depth: 0,
        continues: continues && !text.starts_with('\n'),
    };
    parser(text).for_each(|event| writer.handle_markdown_event(event));
    writer.print_wrapped_text();
}

/// The prefixes of the lines of a list item or a quote: one for the first line, and one for all
/// other lines.
struct LinePrefix {
    first: String,
    rest: String,
}

/// Prints blocks from the parser's events.
struct BlockPrinter<'a> {
    page: &'a mut Page,
    /// The text of the block, with a style per character.
    letters: Vec<(Style, char)>,
    styles: Vec<Style>,
    margins: Vec<LinePrefix>,
    /// For each open list, the number of its next item. `None` for an unordered list.
    lists: Vec<Option<u64>>,
    /// Text of a code block.
    code: Option<String>,
    /// Rows of a table.
    rows: Vec<Vec<String>>,
    links: Vec<String>,
    depth: usize,
    /// Whether there is no blank line before the next block.
    continues: bool,
}

impl BlockPrinter<'_> {
    fn handle_markdown_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.push_text(&text),
            },
            Event::Code(text) => self.push_styled_text(self.page.palette.code, &text),
            Event::Html(text) | Event::InlineHtml(text) => self.push_text(&text),
            Event::SoftBreak => self.letters.push((Style::new(), ' ')),
            Event::HardBreak => self.letters.push((Style::new(), '\n')),
            Event::Rule => {
                self.page.ensure_blank_line();
                let (dim, line) = (self.page.palette.dim, "─".repeat(self.page.width.min(40)));
                self.page.write_line_with_ansi_codes(&format!("{dim}{line}{dim:#}"));
            }
            Event::TaskListMarker(is_done) => self.push_text(if is_done { "[x] " } else { "[ ] " }),
            _ => {}
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        let palette = self.page.palette;
        let is_block = !matches!(
            tag,
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. }
        );
        if is_block {
            self.print_wrapped_text();
            if self.depth == 0 && !std::mem::take(&mut self.continues) {
                self.page.ensure_blank_line();
            }
            self.depth += 1;
        }
        match tag {
            Tag::Heading { level: HeadingLevel::H1, .. } => {
                self.styles.push(palette.title);
            }
            Tag::Heading { .. } | Tag::Strong => self.styles.push(palette.bold),
            Tag::Emphasis => self.styles.push(palette.italic),
            Tag::Strikethrough => self.styles.push(palette.strike),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.into_string());
            }
            Tag::BlockQuote(_) => {
                let bar = || "│ ".to_owned();
                self.margins.push(LinePrefix { first: bar(), rest: bar() });
            }
            Tag::List(first) => self.lists.push(first),
            Tag::Item => {
                let first = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(first.chars().count());
                self.margins.push(LinePrefix { first, rest });
            }
            Tag::CodeBlock(_) => self.code = Some(String::new()),
            Tag::TableHead | Tag::TableRow => self.rows.push(Vec::new()),
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => {
                self.styles.pop();
                return;
            }
            TagEnd::Link | TagEnd::Image => {
                let address = self.links.pop().unwrap_or_default();
                let said: String = self.letters.iter().map(|(_, letter)| *letter).collect();
                if !said.ends_with(&address) {
                    self.push_styled_text(self.page.palette.dim, &format!(" ({address})"));
                }
                return;
            }
            TagEnd::TableCell => {
                let cell = self.letters.drain(..).map(|(_, letter)| letter).collect();
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.print_table(),
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                let style = self.page.palette.code;
                for line in code.lines() {
                    let margin = self.take_line_prefix();
                    let line = sanitise::escape_message_chunk(line);
                    self.page
                        .write_line_with_ansi_codes(&format!("{margin}    {style}{line}{style:#}"));
                }
            }
            _ => self.print_wrapped_text(),
        }
        match tag {
            TagEnd::Heading(_) => drop(self.styles.pop()),
            TagEnd::BlockQuote(_) | TagEnd::Item => drop(self.margins.pop()),
            TagEnd::List(_) => drop(self.lists.pop()),
            _ => {}
        }
        self.depth = self.depth.saturating_sub(1);
    }

    fn push_text(&mut self, text: &str) {
        self.push_styled_text(Style::new(), text);
    }

    fn push_styled_text(&mut self, style: Style, text: &str) {
        let style = self
            .styles
            .iter()
            .fold(style, |all, one| all.effects(all.get_effects() | one.get_effects()));
        // The parser has decoded entities, so the text must be escaped again.
        let text = sanitise::escape_message_chunk(text);
        self.letters.extend(text.chars().map(|letter| (style, letter)));
    }

    /// Returns the prefix of the next line.
    fn take_line_prefix(&mut self) -> String {
        let margins = self.margins.iter_mut();
        margins.map(|it| std::mem::replace(&mut it.first, it.rest.clone())).collect()
    }

    /// Prints the text of the block, wrapped at spaces.
    fn print_wrapped_text(&mut self) {
        let letters = std::mem::take(&mut self.letters);
        if letters.iter().all(|(_, letter)| letter.is_whitespace()) {
            return;
        }
        let margin: usize = self.margins.iter().map(|it| it.rest.chars().count()).sum();
        for line in break_into_lines(&letters, self.page.width.saturating_sub(margin)) {
            let margin = self.take_line_prefix();
            self.page
                .write_line_with_ansi_codes(&format!("{margin}{}", format_with_ansi_styles(&line)));
        }
    }

    fn print_table(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns)
            .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|it| display_width(it)).max())
            .map(Option::unwrap_or_default)
            .collect();
        let is_narrow = widths.iter().map(|width| width + 2).sum::<usize>() <= self.page.width + 2;
        for (at, row) in rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| {
                let room = if is_narrow { width - display_width(cell) } else { 0 };
                format!("{cell}{}", " ".repeat(room))
            });
            let separator = if is_narrow { "  " } else { " | " };
            let line = cells.collect::<Vec<_>>().join(separator);
            let style = if at == 0 { self.page.palette.bold } else { Style::new() };
            let margin = self.take_line_prefix();
            self.page.write_line_with_ansi_codes(&format!(
                "{margin}{style}{}{style:#}",
                line.trim_end()
            ));
        }
    }
}

/// Returns the approximate display width of a text in columns.
pub(super) fn display_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Returns the approximate width of a character: 2 for Hangul, ideographs and emoji.
pub(super) fn char_width(letter: char) -> usize {
    match letter {
        '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// Wraps a text at spaces to lines of at most `width` columns. A word that is longer than `width`
/// gets a separate line.
fn break_into_lines(letters: &[(Style, char)], width: usize) -> Vec<Vec<(Style, char)>> {
    let mut lines = Vec::new();
    for line in letters.split(|(_, letter)| *letter == '\n') {
        let (mut current, mut used) = (Vec::new(), 0);
        for word in line.split(|(_, letter)| *letter == ' ').filter(|word| !word.is_empty()) {
            let columns = word.iter().map(|(_, letter)| char_width(*letter)).sum::<usize>();
            if used > 0 && used + 1 + columns > width {
                lines.push(std::mem::take(&mut current));
                used = 0;
            }
            if used > 0 {
                // A space between two words of the same style gets that style, so that the style of
                // a link is not interrupted.
                let before = current.last().map_or(Style::new(), |(style, _)| *style);
                let style = if before == word[0].0 { before } else { Style::new() };
                current.push((style, ' '));
                used += 1;
            }
            current.extend_from_slice(word);
            used += columns;
        }
        lines.push(current);
    }
    lines
}

/// Formats characters with the sequences of their styles.
fn format_with_ansi_styles(letters: &[(Style, char)]) -> String {
    let mut text = String::new();
    for run in letters.chunk_by(|(a, _), (b, _)| a == b) {
        let style = run[0].0;
        let words: String = run.iter().map(|(_, letter)| *letter).collect();
        text.push_str(&format!("{style}{words}{style:#}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::MarkdownPrinter;
    use crate::page::{Page, Palette};

    /// Prints a message that is streamed in `pieces`.
    fn printed(pieces: &[&str], width: usize) -> String {
        let mut page = Page::new("/p".into(), width);
        let mut markdown = MarkdownPrinter::default();
        pieces.iter().for_each(|piece| markdown.push_and_print_complete(piece, &mut page));
        markdown.print_remaining(&mut page);
        page.take_text()
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(printed(&[text], 40), expected.strip_prefix('\n').unwrap_or(expected));
    }

    #[test]
    fn blocks_are_formatted_for_a_terminal() {
        check(
            "# Title\n\nSome **bold** and `code`,\nand a [link](https://a.b/c) here.\n\n\
             - one\n- two\n  - three\n\n1. a\n2. b\n\n> said\n\n---\n\n\
             | a | bb |\n|---|---|\n| ccc | d |\n\n```rust\nfn a() {}\n```\nend",
            "
Title

Some bold and code, and a link
(https://a.b/c) here.

• one
• two
  • three

1. a
2. b

│ said

────────────────────────────────────────

a    bb
ccc  d

    fn a() {}

end
",
        );
    }

    #[test]
    fn styles_are_those_of_the_palette() {
        let mut page = Page::new("/p".into(), 80);
        page.palette = Palette::coloured();
        let mut markdown = MarkdownPrinter::default();
        markdown.push_and_print_complete("a **b *c*** `d`\n", &mut page);
        markdown.print_remaining(&mut page);
        let text = page.take_text();
        assert_eq!(
            text,
            "a \u{1b}[1mb\u{1b}[0m \u{1b}[1m\u{1b}[3mc\u{1b}[0m \u{1b}[36md\u{1b}[0m\n"
        );
    }

    #[test]
    fn a_block_is_printed_as_soon_as_it_is_complete() {
        let mut page = Page::new("/p".into(), 40);
        let mut markdown = MarkdownPrinter::default();
        let mut push = |piece: &str| {
            markdown.push_and_print_complete(piece, &mut page);
            page.take_text()
        };
        assert_eq!(push("one "), "");
        assert_eq!(push("two\n"), "");
        assert_eq!(push("\n"), "one two\n");
        assert_eq!(push("```sh\nls\n"), "\n    ls\n");
        assert_eq!(push("ls -l"), "");
        assert_eq!(push("\n```\nso"), "    ls -l\n");
        assert_eq!(push("\n## head\n"), "\nso\n\nhead\n");
    }

    #[test]
    fn decoded_entities_are_escaped() {
        check("a&#27;[31m &#x202e;b", "a\\u{1b}[31m \\u{202e}b\n");
        check("```\na&#27;\n```", "    a&#27;\n");
    }

    #[test]
    fn a_very_long_block_is_printed_in_parts() {
        let line = "- word\n".repeat(5_000);
        let mut page = Page::new("/p".into(), 40);
        let mut markdown = MarkdownPrinter::default();
        markdown.push_and_print_complete(&line, &mut page);
        assert!(markdown.text.len() <= super::MAX_MARKDOWN_BLOCK_BYTES);
        markdown.print_remaining(&mut page);
        assert_eq!(page.take_text().matches("• word\n").count(), 5_000);
    }

    #[test]
    fn a_long_block_is_split_between_lines_or_else_between_words() {
        let list = "- word\n".repeat(5_000);
        let whole = "• word\n".repeat(5_000);
        for cut in [super::MAX_MARKDOWN_BLOCK_BYTES + 1, 20_000, 20_003, 20_006] {
            let pieces = [&list[..cut], &list[cut..]];
            assert!(printed(&pieces, 40) == whole, "{cut}");
            assert!(printed(&pieces, 40) == printed(&[&list], 40), "{cut}");
        }
        let line = "word ".repeat(5_000);
        let shown = printed(&[&line[..20_002], &line[20_002..]], 40);
        assert_eq!(shown.split_whitespace().filter(|word| *word == "word").count(), 5_000);
        assert!(!shown.contains("\n\n"));
    }

    #[test]
    fn a_streamed_fence_is_printed_as_the_parser_reads_it() {
        for (text, expected) in [
            ("```\na\n    ```\nb\n```\nc", "    a\n        ```\n    b\n\nc\n"),
            ("  ```\n   a\n b\n   ```\nc", "     a\n    b\n\nc\n"),
            ("```\n\t```\n``\n``` x\n````\nc", "    \t```\n    ``\n    ``` x\n\nc\n"),
            ("~~~~\n~~~\n```\n~~~~ \nc", "    ~~~\n    ```\n\nc\n"),
        ] {
            for cut in 0..=text.len() {
                assert_eq!(printed(&[&text[..cut], &text[cut..]], 40), expected, "{cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_word_is_lost_at_any_split_of_a_message(
            lines in prop::collection::vec(prop::sample::select(vec![
                "word", "", "- item", "  - sub", "1. one", "# head", "```", "   ```", "    ```", "````", "~~~", "    code",
                "> quote", "a | b", "--- | ---", "**bold", "x**", "---", "<b>", "&amp;", "[a](b", "é😀",
            ]), 0..12),
            cut in 0..200usize,
        ) {
            let text = lines.join("\n");
            let cut = text.floor_char_boundary(cut.min(text.len()));
            let shown = printed(&[&text[..cut], &text[cut..]], 40);
            prop_assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()));
            for word in ["word", "item", "sub", "one", "head", "code", "quote", "bold", "é😀"] {
                let given = text.matches(word).count();
                prop_assert!(shown.matches(word).count() >= given, "{text:?}: {shown:?}");
            }
        }
    }
}
