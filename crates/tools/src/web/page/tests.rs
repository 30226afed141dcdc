//! Tests of the parts of a page.

mod documentation;

use pretty_assertions::assert_eq;

use super::{PagePart, clean_text};
use crate::web::limits::{MAX_PAGE_LINE_BYTES, MAX_PAGE_PART_BYTES};

fn part(text: &str, offset: usize) -> Option<(String, usize, usize, usize)> {
    let part = PagePart::starting_at_line(text, offset)?;
    Some((part.text, part.first_line, part.last_line, part.total_lines))
}

#[test]
fn parts_begin_at_a_line() {
    assert_eq!(part("a\nb\nc", 0), Some(("a\nb\nc\n".to_owned(), 1, 3, 3)));
    assert_eq!(part("a\nb\nc\n", 2), Some(("b\nc\n".to_owned(), 2, 3, 3)));
    assert_eq!(part("a\nb\nc", 4), None);
    assert_eq!(part("", 1), Some((String::new(), 0, 0, 0)));
    assert_eq!(part("", 2), None);
}

/// Together, the parts are the whole text.
#[test]
fn parts_are_bounded_and_continue() {
    let words: Vec<String> = (0..40_000).map(|number| format!("word{number}")).collect();
    for text in [
        words.join("\n"),
        words.join(" "),
        words.concat(),
        "日本語".repeat(20_000),
        format!("{}\n{}", "x".repeat(MAX_PAGE_LINE_BYTES), "y".repeat(3 * MAX_PAGE_PART_BYTES)),
    ] {
        let (mut whole, mut offset) = (String::new(), 1);
        loop {
            let part = PagePart::starting_at_line(&text, offset).unwrap();
            assert!(part.text.len() <= MAX_PAGE_PART_BYTES && part.first_line == offset);
            assert!(part.text.lines().all(|line| line.len() <= MAX_PAGE_LINE_BYTES));
            whole += &part.text;
            let Some(next) = part.next_offset() else { break };
            let note = format!("; continue with offset {next}]\n");
            assert!(part.note().ends_with(&note), "{}", part.note());
            offset = next;
        }
        assert!(offset > 3);
        assert_eq!(whole.replace('\n', ""), text.replace('\n', ""));
    }
}

#[test]
fn long_lines_are_split_after_a_space() {
    let text = "12345678 ".repeat(MAX_PAGE_LINE_BYTES);
    let part = PagePart::starting_at_line(&text, 2).unwrap();
    assert!(part.text.lines().all(|line| line.starts_with('1') && line.ends_with("8 ")));
}

#[test]
fn hidden_characters_are_removed() {
    let hidden = "a\u{202e}b\u{200b}c\u{e0041}d\u{feff}e\u{1b}[31mf\u{0}";
    assert_eq!(clean_text(hidden.to_owned()), "abcde[31mf");
    let lines = "a\r\nb\rc\n\td\u{a0}é日".to_owned();
    assert_eq!(clean_text(lines), "a\nb\nc\n\td\u{a0}é日");
}
