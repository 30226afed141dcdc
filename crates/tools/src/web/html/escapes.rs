//! Removes escapes of Markdown that are not needed.
//!
//! The converter escapes each piece of text without knowing the text around it. As a result, names
//! such as `max\_size` and types such as `Vec<u8\>` are hard to read and to search for.

/// The processed beginning of a line, without needless escapes.
struct UnescapedLinePrefix {
    text: String,
    /// Whether a character after the text could begin a quote, a list or a heading. The value is
    /// updated with each piece, because scanning the whole text again for each escape would take
    /// quadratic time.
    is_start_of_block: bool,
}

impl UnescapedLinePrefix {
    fn push(&mut self, piece: &str) {
        let is_mark = |it: char| MARKERS.contains(&it) || it == '.' || it.is_ascii_digit();
        self.is_start_of_block = self.is_start_of_block && piece.chars().all(is_mark);
        self.text.push_str(piece);
    }
}

/// Removes needless escapes from a line outside of code blocks.
pub(super) fn without_needless_escapes(line: &str) -> String {
    let text = String::with_capacity(line.len());
    let mut shown = UnescapedLinePrefix { text, is_start_of_block: true };
    // If the line is a heading, it begins with `#` after the markers of quotes and lists.
    let is_heading = line.trim_start_matches(MARKERS).starts_with('#');
    let mut rest = line;
    // If the escape of an opening bracket was removed: the length that `rest` has at the closing
    // bracket.
    let mut bracket_end = None;
    while let Some(at) = rest.find(['\\', '`']) {
        shown.push(&rest[..at]);
        rest = &rest[at..];
        let length = match rest.strip_prefix('\\') {
            None => code_length(rest),
            Some(after) => {
                let escaped = after.chars().next();
                let is_needless = match escaped {
                    Some('_') => is_within_word(&shown.text, after),
                    Some('[') => {
                        bracket_end =
                            bracket_length_unless_markup(&after[1..], shown.is_start_of_block)
                                .map(|it| after.len() - 1 - it);
                        bracket_end.is_some()
                    }
                    Some(']') => bracket_end == Some(rest.len()),
                    Some('>' | '-' | '+' | '=' | '#') => !shown.is_start_of_block,
                    Some('.') => is_heading,
                    _ => false,
                };
                if is_needless {
                    rest = after;
                }
                usize::from(!is_needless) + escaped.map_or(0, char::len_utf8)
            }
        };
        shown.push(&rest[..length]);
        rest = &rest[length..];
    }
    shown.text + rest
}

/// Characters in the markers of quotes and lists.
const MARKERS: &[char] = &[' ', '>', '-'];

/// Returns the length of code in backticks. If the closing backticks are missing, returns the
/// length of the opening backticks.
fn code_length(text: &str) -> usize {
    let run = |text: &str| text.len() - text.trim_start_matches('`').len();
    let open = run(text);
    let mut at = open;
    while let Some(next) = text[at..].find('`') {
        at += next;
        let close = run(&text[at..]);
        at += close;
        if close == open {
            return at;
        }
    }
    open
}

/// Returns whether escaped underscores connect two parts of a word. Only a few consecutive
/// underscores are considered.
fn is_within_word(before: &str, after: &str) -> bool {
    let after = after.trim_start_matches('_');
    let next = after.splitn(8, "\\_").find(|part| !part.is_empty());
    before.trim_end_matches('_').ends_with(char::is_alphanumeric)
        && next.is_some_and(|part| part.starts_with(char::is_alphanumeric))
}

/// Returns the length of a text in brackets that needs no escape. Returns `None` if the brackets
/// could be a link, a task marker or a footnote, or, at the start of a block, the definition of a
/// link target.
fn bracket_length_unless_markup(text: &str, is_start: bool) -> Option<usize> {
    let end = text.find(['[', ']'])?;
    let inner = text[..end].strip_suffix('\\').filter(|_| text[end..].starts_with(']'))?;
    let is_mark = matches!(inner, " " | "x" | "X") || inner.starts_with('^');
    let after = &text[end + 1..];
    let is_link = after.starts_with('(') || is_start && after.starts_with(':');
    (!is_mark && !is_link).then_some(inner.len())
}
