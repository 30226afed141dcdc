//! Writes the output of a command with its colours.

use anstyle::{AnsiColor, Color, Effects, Style};
use anstyle_lossy::color_to_ansi;
use anstyle_lossy::palette::WIN10_CONSOLE;
use callboard_text::grouped_count_with_noun;

use super::HtmlPage;
use crate::transcript::output_lines;

impl HtmlPage<'_> {
    /// Appends the command, if there is one, and its output.
    pub(super) fn append_output(&mut self, command: Option<&str>, output: &[u8]) {
        let text = String::from_utf8_lossy(output);
        self.append_html(
            "<pre class=\"output\" tabindex=\"0\" role=\"group\" aria-label=\"Output\">",
        );
        if let Some(command) = command {
            self.append_element("span", "command", &format!("$ {command}"));
            self.append_html("\n");
        }
        for line in output_lines(&text) {
            for (style, words) in line.spans() {
                let classes = classes(*style);
                if classes.is_empty() {
                    self.append_text(words);
                } else {
                    self.append_element("span", &classes.join(" "), words);
                }
            }
            if line.omitted_chars() > 0 {
                let more = line.omitted_chars() as u64;
                let more = grouped_count_with_noun(more, "character", "characters");
                self.append_element("span", "note", &format!(" … {more} left out"));
            }
            self.append_html("\n");
        }
        self.append_html("</pre>\n");
    }
}

/// Returns the CSS classes of a style. A colour of 8 or 24 bits becomes the nearest of the page's
/// 16 colours, which are readable in both themes.
fn classes(style: Style) -> Vec<String> {
    let effects = style.get_effects();
    let colour = |prefix: &str, colour: Color| {
        let nearest: AnsiColor = color_to_ansi(colour, WIN10_CONSOLE);
        format!("{prefix}{}", anstyle::Ansi256Color::from_ansi(nearest).index())
    };
    let (mut text, mut ground) = (
        style.get_fg_color().map(|it| colour("f", it)),
        style.get_bg_color().map(|it| colour("b", it)),
    );
    if effects.contains(Effects::INVERT) {
        text =
            Some(style.get_bg_color().map_or_else(|| "f-ground".to_owned(), |it| colour("f", it)));
        ground =
            Some(style.get_fg_color().map_or_else(|| "b-text".to_owned(), |it| colour("b", it)));
    }
    let effects = [
        (Effects::BOLD, "bold"),
        (Effects::DIMMED, "dim"),
        (Effects::ITALIC, "italic"),
        (Effects::UNDERLINE, "underline"),
        (Effects::STRIKETHROUGH, "strike"),
    ]
    .into_iter()
    .filter(|(effect, _)| effects.contains(*effect))
    .map(|(_, class)| class.to_owned());
    text.into_iter().chain(ground).chain(effects).collect()
}
