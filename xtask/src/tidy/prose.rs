//! Rules for the language of comments and Markdown.

use super::{CheckedFile, TidyRule, Violation};

pub(super) const COMMENT_RULES: &[TidyRule] =
    &[comments_use_plain_words, comments_name_their_subject];
pub(super) const MARKDOWN_RULES: &[TidyRule] = &[markdown_uses_plain_words];

/// Vague phrases, each with advice on how to replace it.
const VAGUE: &[(&str, &str)] = &[
    (concat!("to", "ld"), "say who sends, reports or sets it"),
    (concat!("te", "ll"), "use send, report, show or explain"),
    (concat!("te", "lls"), "use sends, reports, shows or explains"),
    (concat!("tel", "ling"), "use sending, reporting, showing or explaining"),
    (concat!("no", "body"), "name the reader, the caller or the process"),
    (concat!("some", "body"), "name the reader, the caller or the process"),
    (concat!("any", "body"), "name the reader, the caller or the process"),
    (concat!("who", "ever"), "name the reader, the caller or the process"),
    (concat!("of its", " own"), "use `own`, `separate` or nothing"),
    (concat!("knows", " nothing"), "leave it out; `cargo xtask layers` checks dependencies"),
];

/// First words of a comment that delay the name of its subject.
const POSTPONING: &[&str] = &[concat!("Wh", "at"), concat!("Wh", "o"), concat!("That", " which")];

fn comments_use_plain_words(file: &CheckedFile<'_>) -> Vec<Violation> {
    find_vague_phrases(file, file.lines.iter().map(|line| comment_of_line(line)))
}

fn comments_name_their_subject(file: &CheckedFile<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in file.lines.iter().enumerate() {
        let Some(text) = whole_line_comment(line) else { continue };
        let starts = |word: &&&str| starts_with_phrase(text, word);
        if let Some(word) = POSTPONING.iter().find(starts) {
            found.push(file.error_at(index, format!("begins with `{word}`; name the thing first")));
        }
    }
    found
}

fn markdown_uses_plain_words(file: &CheckedFile<'_>) -> Vec<Violation> {
    let mut in_code = false;
    let prose = file.lines.iter().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence { "" } else { line }
    });
    find_vague_phrases(file, prose)
}

fn find_vague_phrases<'a>(
    file: &CheckedFile<'_>,
    lines: impl Iterator<Item = &'a str>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in lines.enumerate() {
        let line = line.to_ascii_lowercase();
        for (phrase, instead) in VAGUE.iter().filter(|(phrase, _)| has_phrase(&line, phrase)) {
            found.push(file.error_at(index, format!("`{phrase}`: {instead}")));
        }
    }
    found
}

/// Returns the comment of a line. The comment is the whole line, or the part after the code.
fn comment_of_line(line: &str) -> &str {
    whole_line_comment(line)
        .or_else(|| line.rsplit_once(" // ").map(|(_, comment)| comment))
        .unwrap_or_default()
}

fn whole_line_comment(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']).trim_start())
}

fn starts_with_phrase(text: &str, phrase: &str) -> bool {
    text.strip_prefix(phrase).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

fn has_phrase(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        !line[..at].ends_with(char::is_alphanumeric) && starts_with_phrase(&line[at..], phrase)
    })
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::check;

    #[test]
    fn vague_words_of_comments_are_found_and_code_is_left_alone() {
        let text = concat!(
            "//! A file.\n/// The model is to",
            "ld.\nlet to",
            "ld = 1; // no",
            "body\n",
            "let text = \"to",
            "ld\"; // a retold untold stall\n"
        );
        check("a.rs", text, &[(2, concat!("`to", "ld`")), (3, concat!("`no", "body`"))]);
    }

    #[test]
    fn a_comment_does_not_begin_with_a_pronoun() {
        let text = concat!("//! A file.\n    /// Wh", "at it is.\n// Wh", "oever\n// Whole.\n");
        let vague = concat!("`who", "ever`");
        check("a.rs", text, &[(3, vague), (2, concat!("begins with `Wh", "at`"))]);
    }

    #[test]
    fn markdown_is_checked_outside_of_code() {
        let text = concat!("# A\n\n```sh\nto", "ld\n```\nIt is to", "ld.\n");
        check("a.md", text, &[(6, concat!("`to", "ld`"))]);
    }
}
