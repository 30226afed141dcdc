//! Detects invisible characters, and characters that change the display of other characters.

use std::fmt::Write as _;

/// Returns whether a character is invisible or looks like a space
/// (<https://www.unicode.org/reports/tr36/>). A plain space does not count as invisible.
///
/// The invisible characters are the controls, separators, default-ignorable characters and
/// noncharacters of Unicode. Format characters are invisible too, except those that are drawn
/// around digits. Some blank characters that Unicode classifies as letters or symbols are also
/// invisible.
#[must_use]
#[inline]
pub fn is_invisible(letter: char) -> bool {
    let is_unseen = matches!(letter,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}'
        | '\u{115f}'..='\u{1160}' | '\u{1680}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    // The empty Braille cell, the object replacement character, the null notehead, the Khitan
    // filler.
    let is_blank = matches!(letter, '\u{2800}' | '\u{fffc}' | '\u{1d159}' | '\u{16fe4}');
    let is_none = matches!(letter, '\u{fdd0}'..='\u{fdef}') || u32::from(letter) & 0xfffe == 0xfffe;
    is_unseen || is_blank || is_none
}

/// Returns whether a character should be stripped from the output of a program. Such a character is
/// [invisible](is_invisible), but is neither a control nor a space. Controls and spaces are normal
/// in the output of programs.
#[must_use]
#[inline]
pub fn is_strippable_from_output(letter: char) -> bool {
    // Strip line and paragraph separators, although Unicode classifies them as spaces. Keep the
    // empty Braille cell, although Unicode does not classify it as a space.
    let is_space = letter.is_whitespace() && !matches!(letter, '\u{2028}' | '\u{2029}');
    !letter.is_ascii()
        && is_invisible(letter)
        && !letter.is_control()
        && !is_space
        && letter != '\u{2800}'
}

/// Appends a character. An [invisible](is_invisible) character is escaped as `\u{…}`.
pub fn push_char_escaping_invisible(shown: &mut String, letter: char) {
    if is_invisible(letter) {
        // Writing to a string cannot fail.
        write!(shown, "\\u{{{:x}}}", u32::from(letter)).unwrap_or_default();
    } else {
        shown.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::{is_invisible, is_strippable_from_output};

    #[test]
    fn strippable_characters_are_neither_spaces_nor_controls() {
        for letter in "\u{202e}\u{2066}\u{200b}\u{200d}\u{2028}\u{ad}\u{feff}\u{e0041}".chars() {
            assert!(is_strippable_from_output(letter) && is_invisible(letter), "{letter:?}");
        }
        for letter in "a \t\n\u{1b}\u{85}\u{a0}\u{2003}\u{3000}\u{2800}é😀\u{301}".chars() {
            assert!(!is_strippable_from_output(letter), "{letter:?}");
        }
    }
}
