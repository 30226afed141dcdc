//! Tests for edits: the changes, the bytes that stay unchanged, and the errors.

mod inexact_matches;

use std::num::NonZeroU32;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::{Edit, EditErrorKind, EditOutcome, MatchKind, Occurrence, apply};
use crate::error::{ErrorCode, ToolError};

fn edit(old: &str, new: &str) -> Edit {
    Edit { old_text: old.into(), new_text: new.into(), occurrence: Occurrence::Only }
}

fn nth(old: &str, new: &str, number: u32) -> Edit {
    Edit { occurrence: Occurrence::Nth(NonZeroU32::new(number).unwrap()), ..edit(old, new) }
}

fn all(old: &str, new: &str) -> Edit {
    Edit { occurrence: Occurrence::All, ..edit(old, new) }
}

fn apply_one(text: &str, edit: Edit) -> String {
    apply(text, &[edit]).unwrap().text
}

fn expect_error(text: &str, edit: Edit) -> EditErrorKind {
    apply(text, &[edit]).unwrap_err().kind
}

#[test]
fn one_place_is_replaced_literally() {
    for (text, edit, expected) in [
        ("a b c", edit("b", "x"), "a x c"),
        ("a b c", edit("b", "$& \\1 $0"), "a $& \\1 $0 c"),
        ("a b c", edit(" b", ""), "a c"),
        ("a.c abc", edit("a.c", "x"), "x abc"),
        ("one\ntwo\n", edit("one\ntwo\n", "1\n"), "1\n"),
        ("one\ntwo", edit("two", "two\n"), "one\ntwo\n"),
        ("äöü", edit("ö", "o"), "äoü"),
        ("", edit("", "new\n"), "new\n"),
        ("\u{feff}", edit("", "new\n"), "\u{feff}new\n"),
        ("\u{feff}a\n", edit("a", "b"), "\u{feff}b\n"),
        ("x x x", nth("x", "y", 2), "x y x"),
        // Places that overlap are not counted.
        ("aaa", nth("aa", "b", 1), "ba"),
        ("aaaa", nth("aa", "b", 2), "aab"),
        ("aaaaa", nth("aa", "b", 2), "aaba"),
        ("  x\n  x\n  x\n  x\n", nth("x\nx\n", "y\n", 2), "  x\n  x\n  y\n"),
        ("x x x", all("x", "xx"), "xx xx xx"),
        ("aaa", all("aa", "b"), "ba"),
    ] {
        assert_eq!(apply_one(text, edit.clone()), expected, "{text:?} {edit:?}");
    }
}

#[test]
fn line_ends_are_those_of_the_place() {
    for (text, edit, expected) in [
        // A line feed of the edit matches CRLF. New lines get the line ends of their neighbouring
        // lines.
        ("a\r\nb\r\nc\r\n", edit("a\nb\n", "a\nx\ny\n"), "a\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb\r\n", edit("b", "b\nc"), "a\r\nb\r\nc\r\n"),
        ("a\r\nb", edit("b", "b\nc"), "a\r\nb\r\nc"),
        ("a\r\nb\r\n", edit("a\n", ""), "b\r\n"),
        ("a\r\nb\r\n", edit("a\n", "a "), "a b\r\n"),
        // Unchanged lines keep their line ends, even inside the match and in a file with mixed line
        // ends.
        ("a\r\nb\nc\r\nd\n", edit("a\nb\nc\nd\n", "a\nb\nx\nd\n"), "a\r\nb\nx\r\nd\n"),
        ("a\nb\r\nc\n", edit("a", "a\nx"), "a\nx\nb\r\nc\n"),
        ("a\nb\r\nc\n", edit("b", "b\nx"), "a\nb\r\nx\r\nc\n"),
        ("x\r\ny\nx\r\nx\n", all("x", "1\n2"), "1\r\n2\r\ny\n1\r\n2\r\n1\n2\n"),
        // New lines get the line ends of the file, regardless of the line ends in the edit.
        ("a\nb\n", edit("a\r\nb", "x\r\ny"), "x\ny\n"),
        ("a\r\nb\r\n", edit("a\r\nb", "x\ny"), "x\r\ny\r\n"),
        ("a\r\nb\r\n", edit("a\nb\r\n", "x\r\ny\nz\r\n"), "x\r\ny\r\nz\r\n"),
        ("a\rb\r", edit("a\rb", "a\rc"), "a\rc\r"),
        ("a\rb\r", edit("a\r\nb", "a\r\nc\nd"), "a\rc\rd\r"),
        // In a file with mixed line ends, an edit that contains CRLF matches only CRLF.
        ("a\nb\r\na\r\nb\n", edit("a\r\nb", "x\r\ny"), "a\nb\r\nx\r\ny\n"),
        // A carriage return that ends no line is matched like any other character.
        ("a\rb\nc\n", edit("a\rb", "a\rd"), "a\rd\nc\n"),
        ("a\rb\r\nc\r\n", all("\r", " "), "a b\r\nc\r\n"),
        // An edit that changes only line ends is applied exactly.
        ("a\r\nb\r\n", edit("a\r\n", "a\n"), "a\nb\r\n"),
        ("a\r\nb\n", all("\r\n", "\n"), "a\nb\n"),
        ("a\nb\r\n", all("\n", "\r\n"), "a\r\nb\r\n"),
        ("a\rb\r", all("\r", "\n"), "a\nb\n"),
    ] {
        let result = apply(text, std::slice::from_ref(&edit));
        assert_eq!(result.map(|done| done.text).as_deref(), Ok(expected), "{text:?} {edit:?}");
    }
}

#[test]
fn line_ends_that_a_file_does_not_have_are_refused() {
    let none = |reason: &EditErrorKind| matches!(reason, EditErrorKind::NoMatch { .. });
    for text in ["a\nb\n", "a\r\nb\r\n", "a\nb\r\n"] {
        for old in ["\r", "a\r", "\rb", "a\rb"] {
            assert!(none(&expect_error(text, all(old, ""))), "{text:?} {old:?}");
        }
        for (old, new) in [("a", "x\ry"), ("a", "x\r"), ("a\r\n", "x\r"), ("a\n", "\r\r\n")] {
            assert_eq!(
                expect_error(text, all(old, new)),
                EditErrorKind::LoneCarriageReturn,
                "{text:?} {old:?}"
            );
        }
    }
    assert!(none(&expect_error("a\nb\n", all("\r\n", ""))));
    assert!(none(&expect_error("a\nb\n\n", all("\r\n\r\n", "\n"))));
    assert_eq!(expect_error("a\nb\n", all("\r\n", "\n")), EditErrorKind::SameExceptLineEnds);
    assert_eq!(expect_error("a\r\nb\r\n", all("\n", "\r\n")), EditErrorKind::SameExceptLineEnds);
    assert_eq!(expect_error("a\nb\n", edit("a\r\nb", "a\nb")), EditErrorKind::SameExceptLineEnds);
}

#[test]
fn several_edits_are_all_done_or_none() {
    let done = apply("a\nb\n", &[edit("a", "b b"), edit("b b", "c"), all("b", "d")]).unwrap();
    assert_eq!(done.text, "c\nd\n");
    assert_eq!(
        done.outcomes,
        [EditOutcome::Replaced { places: 1, match_kind: MatchKind::Exact }; 3]
    );
    let error = apply("a\nb\n", &[edit("a", "x"), edit("nothing", "y")]).unwrap_err();
    assert_eq!((error.edit_number, error.edit_count), (2, 2));
    assert!(error.to_string().starts_with("edit 2 of 2, so none was done: old_text is not"));
}

#[test]
fn an_ambiguous_edit_lists_its_places() {
    let text = "fn a() {\n    x();\n}\nfn b() {\n    x();\n}\n";
    let error = ToolError::from(apply(text, &[edit("x();", "y();")]).unwrap_err());
    assert_eq!(error.code(), Some(ErrorCode::AmbiguousMatch));
    let listed = "\noccurrence 1, line 2:\n     1\tfn a() {\n     2\t    x();\n     3\t}\n\
                  occurrence 2, line 5:\n     4\tfn b() {\n     5\t    x();\n     6\t}";
    assert!(error.to_string().ends_with(listed), "{error}");
    assert!(error.to_string().starts_with("old_text is in 2 places."), "{error}");
    // Overlapping places are ambiguous too.
    assert!(matches!(
        expect_error("aaa", edit("aa", "b")),
        EditErrorKind::Ambiguous { places: 2, .. }
    ));
    let error = ToolError::from(apply("aaaa", &[edit("aa", "b")]).unwrap_err()).to_string();
    assert!(error.starts_with("old_text is in 3 places, some of which overlap. "), "{error}");
    assert!(error.contains("\noccurrence 2, ") && !error.contains("occurrence 3"), "{error}");
    assert_eq!(
        expect_error("aaa", nth("aa", "b", 2)),
        EditErrorKind::NoSuchOccurrence { places: 1 }
    );
    let many = expect_error(&"a\n".repeat(5_000), edit("a", "b"));
    assert!(
        matches!(many, EditErrorKind::Ambiguous { places: 1_000, contexts } if contexts.len() == 10)
    );
    let far = apply_one(&"a\n".repeat(5_000), nth("a", "b", 4_321));
    assert_eq!(far.lines().position(|line| line == "b"), Some(4_320));
    let missing = expect_error("x x", nth("x", "y", 3));
    assert_eq!(missing, EditErrorKind::NoSuchOccurrence { places: 2 });
}

#[test]
fn a_missing_text_is_reported_with_similar_places() {
    let text = "fn one() {\n    call(1);\n}\n\nfn two() {\n\tcall(2);\n}\n\tcall(2);\n";
    for (old, expected) in [
        (
            "fn two() {\n\tcall(3);\n}\n",
            "Lines 5 to 7 are closest, 88 % alike:\n```\nfn two() {\n\tcall(2);\n}\n```\nSend exactly this",
        ),
        // The file and the old text differ in one additional line or one missing line.
        (
            "fn one() {\n    call(1);\n    call(1);\n}\n",
            "\n```\nfn one() {\n    call(1);\n}\n```\n",
        ),
        ("fn two() {\n}\n", "\n```\nfn two() {\n\tcall(2);\n}\n```\n"),
        ("// invented\nfn two() {\n\tcall(2);", "\n```\nfn two() {\n\tcall(2);\n```\n"),
        ("\n\nfn tow() {", "Line 5 is closest, 66 % alike:\n```\nfn two() {\n```\n"),
        ("\n\nfn tow() {", "\nLess alike: line 1 ("),
        ("\n\nfn tow() {", "\nIf this is what you mean, send exactly this as old_text."),
        ("call(22);", "Send exactly this as old_text, and line 6, because it is in the file more"),
        ("completely different", "nor is anything like it"),
    ] {
        let error = ToolError::from(apply(text, &[edit(old, "x")]).unwrap_err());
        assert_eq!(error.code(), Some(ErrorCode::NoMatch));
        assert!(error.to_string().contains(expected), "{old:?}: {error}");
    }
    // Of several places that are equally similar and overlap, only one is reported.
    let lines = |text: &str, old| {
        let EditErrorKind::NoMatch { near_misses: near, .. } = expect_error(text, edit(old, ""))
        else {
            panic!()
        };
        near.iter().map(|near| (near.line, near.last_line)).collect::<Vec<_>>()
    };
    assert_eq!(lines(&"let x = 1;\n".repeat(9), "let x = 2;"), [(1, 1), (4, 4), (7, 7)]);
    let block = "fn x() {\n    a(1);\n}\n".repeat(9);
    assert_eq!(lines(&block, "fn x() {\n    a(2);\n}\n"), [(1, 3), (4, 6), (7, 9)]);
}

#[test]
fn the_report_of_similar_lines_is_correct_for_long_lines() {
    let says = |text: &str, old: &str| apply(text, &[edit(old, "x")]).unwrap_err().to_string();
    let error = says("\ta\n   b\n", "  a\n  b\n");
    assert!(error.contains("closest, identical except for white space"), "{error}");
    // The lines have the same long beginning. A comparison of only their beginnings would miss the
    // difference.
    let line = "one, two, three, ".repeat(40);
    let error = says(&format!("{line}alpha\n"), &format!("{line}omega"));
    assert!(error.contains("99 % alike") && error.contains("alpha"), "{error}");
    let text: String = (1..=300).map(|n| format!("line {n}\n")).collect();
    let old = text.replace("line 240\n", "line\n");
    let error = says(&text, &old);
    assert!(error.contains("Lines 1 to 200 are closest, 99 % alike"), "{error:.200}");
    assert!(error.contains("Only the beginning of old_text was compared"), "{error}");
    // The old text is similar to a part of a long line.
    let text = format!("{line}call(alpha, beta, gamma);{line}\n");
    let error = says(&text, "call(alpha, beta, delta);");
    assert!(error.contains("A part of line 1 is closest, "), "{error}");
    assert!(error.contains("call(alpha, beta, gamma);"), "{error}");
    assert!(error.contains("only a part of line 1") && !error.contains("exactly"), "{error}");
    // The similar place lies after the part of the file that is searched.
    let filler = ("x".repeat(1_023) + "\n").repeat(crate::limits::MAX_NEAR_MISS_FILE_BYTES / 1_024);
    let text = filler + "let value = compute();\n";
    let error = says(&text, "let value = compose();");
    assert!(error.contains("nothing like it was found"), "{error}");
    assert!(error.contains("Only the first 4,194,304 bytes of the file"), "{error}");
}

/// In these texts, almost every place is a candidate, but no place matches.
#[test]
fn each_search_can_be_cancelled() {
    let words = "a b ".repeat(50) + "\n";
    for (text, old) in [
        ("a".repeat(1 << 20), "aa ".to_owned()),
        (words.repeat(4_000), words.replace('b', "c").repeat(60)),
    ] {
        let steps = std::sync::atomic::AtomicUsize::new(0);
        let count = || {
            steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            false
        };
        let edits = [edit(&old, "x")];
        let reason = super::apply_cancellable(&text, &edits, &count).unwrap_err().kind;
        assert!(matches!(reason, EditErrorKind::NoMatch { .. }), "{reason:?}");
        let steps = steps.into_inner();
        assert!((40..20_000).contains(&steps), "{steps}");
    }
}

#[test]
fn a_quote_is_bounded_and_shows_the_difference() {
    let lines = |from, to| (from..=to).map(|n| format!("line number {n}\n")).collect::<String>();
    let near = |text: &str, old: &str| {
        let EditErrorKind::NoMatch { near_misses: near, .. } = expect_error(text, edit(old, "x"))
        else {
            panic!()
        };
        let best = near.into_iter().next().unwrap();
        (best.line, best.last_line, best.quote.unwrap())
    };
    let text = lines(1, 300);
    let (first, last, quote) = near(&text, &lines(51, 150).replace("number 131\n", "nr 131\n"));
    assert_eq!((first, last, quote.line, quote.is_truncated), (51, 150, 111, true));
    assert_eq!(format!("{}\n", quote.text), lines(111, 150));
    let (first, last, quote) = near(&text, &lines(51, 90).replace("number 60\n", "nr 60\n"));
    assert_eq!((first, last, quote.line, quote.is_truncated), (51, 90, 51, false));
    assert_eq!(format!("{}\n", quote.text), lines(51, 90));
    let long = "word ".repeat(10_000);
    let (.., quote) = near(&long, &long.replacen("word", "wort", 1));
    assert!(quote.is_truncated && quote.text.len() <= crate::limits::MAX_QUOTED_BYTES);
    // Even in a very long line, the quote contains the difference.
    let (.., quote) = near(&format!("{long}alpha {long}"), &format!("{long}omega {long}"));
    assert!(quote.is_partial_line && quote.text.contains("alpha"), "{quote:?}");
    let text: String = (10..40).map(|n| format!("{n} {}\n", &long[..1_000])).collect();
    let (first, last, quote) = near(&text, &text.replace("\n38 ", "\n83 "));
    assert_eq!((first, last, quote.is_truncated), (1, 30, true));
    assert!(quote.text.contains("\n38 "), "{}", quote.line);
    // The quoted text occurs at two places that overlap, so it is not unique.
    let text = "call(1);\nother(2);\n".repeat(2) + "call(1);\n";
    let (.., quote) = near(&text, "call(1);\nother(3);\ncall(1);\n");
    assert_eq!((quote.line, quote.is_unique), (1, false));
}

#[test]
fn an_applied_edit_is_recognised_by_whole_lines_and_their_context() {
    let text = "before\nlet answer = 42;\nafter\n}\n}\n";
    let lines = |middle: &str| ["before", middle, "after"].join("\n");
    let made = edit(&lines("let answer = 41;"), &lines("let answer = 42;"));
    let done = apply(text, std::slice::from_ref(&made)).unwrap();
    assert_eq!(
        (&*done.text, &done.outcomes[..]),
        (text, &[EditOutcome::AlreadyApplied { line: 1 }][..])
    );
    // A deletion counts as already applied if the lines before and after the deleted text are
    // adjacent in the file.
    let gone = edit("let answer = 42;\nlet x = 1;\nafter", "let answer = 42;\nafter");
    assert_eq!(apply(text, &[gone]).unwrap().outcomes, [EditOutcome::AlreadyApplied { line: 2 }]);
    for (text, old, new) in [
        // The new text exists, but no surrounding line proves that this edit created it.
        (text, "let answer = 41;", "let answer = 42;"),
        (text, "let answer = 42;\nlet other = 1;", "let answer = 42;"),
        (text, "before\nlet answer = 41;", "before\nlet answer = 42;"),
        (text, "let answer = 41;\nafter", "let answer = 42;\nafter"),
        // The new text is only a part of longer lines.
        ("one before\nlet answer = 42;\nafter\n", &*made.old_text, &*made.new_text),
        ("before\nlet answer = 42;\nafterwards\n", &*made.old_text, &*made.new_text),
        ("let total = compute_all(1, 2);\n", "compute_all(1)", "compute_all(1, 2)"),
        // The lines around the new text occur several times in the file.
        ("}\nlet answer = 42;\n}\n", "}\nlet answer = 41;\n}\n", "}\nlet answer = 42;\n}\n"),
        // The new text occurs twice.
        (&text.repeat(2), &*made.old_text, &*made.new_text),
        (text, "gone", ""),
        (text, "gone\n\n", "\n"),
    ] {
        assert!(
            matches!(expect_error(text, edit(old, new)), EditErrorKind::NoMatch { .. }),
            "{old:?}"
        );
        assert!(
            matches!(expect_error(text, all(old, new)), EditErrorKind::NoMatch { .. }),
            "{old:?}"
        );
    }
    // The error names the edit that failed, and states that its new text already exists.
    let stale = edit("let answer = 41;", "let answer = 42;");
    let error = apply(text, &[edit("before", "first"), stale]).unwrap_err();
    assert_eq!((error.edit_number, error.edit_count), (2, 2));
    let says = "but new_text is, at line 2. If this edit was made before, nothing is left to do";
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn a_meaningless_edit_is_rejected() {
    assert_eq!(expect_error("a", edit("a", "a")), EditErrorKind::SameText);
    assert_eq!(expect_error("a", edit("", "b")), EditErrorKind::EmptyOldText);
    assert!(Occurrence::from_arguments(true, Some(1), None).is_err());
    assert!(Occurrence::from_arguments(false, Some(0), None).is_err());
    assert_eq!(Occurrence::from_arguments(false, None, None).unwrap(), Occurrence::Only);
    assert_eq!(Occurrence::from_arguments(true, None, None).unwrap(), Occurrence::All);
}

#[test]
fn an_edit_that_changes_nothing_is_no_replacement() {
    for (text, edit) in [
        ("a\na\na\n", all("a \n", "a\n")),
        ("“a”\n", edit("\"a\"", "“a”")),
        ("\ta\n", edit("    a\n", "\ta\n")),
    ] {
        let reason = expect_error(text, edit.clone());
        assert_eq!(reason, EditErrorKind::NoEffect, "{text:?} {edit:?}");
    }
    assert_eq!(expect_error("a\na\na\n", all("a", "a")), EditErrorKind::SameText);
    // An edit of several places succeeds if it changes at least one of them.
    let edited = apply("a \na\n", &[all("a \n", "a\n")]);
    assert!(edited.is_ok_and(|edited| edited.text == "a\na\n"));
}

#[test]
fn a_line_number_selects_the_nearest_place() {
    let near = |line| Edit {
        occurrence: Occurrence::NearLine(NonZeroU32::new(line).unwrap()),
        ..edit("a", "x")
    };
    let text = "a\nb\nc\na\nd\na\n";
    for (line, expected) in [
        (1, "x\nb\nc\na\nd\na\n"),
        (2, "x\nb\nc\na\nd\na\n"),
        (3, "a\nb\nc\nx\nd\na\n"),
        (4, "a\nb\nc\nx\nd\na\n"),
        (99, "a\nb\nc\na\nd\nx\n"),
    ] {
        assert_eq!(apply_one(text, near(line)), expected, "{line}");
    }
    assert!(matches!(expect_error(text, near(5)), EditErrorKind::Ambiguous { places: 3, .. }));
    assert!(matches!(expect_error("a a", near(1)), EditErrorKind::Ambiguous { places: 2, .. }));
}

#[test]
fn an_empty_old_text_with_a_line_inserts_before_it() {
    let at = |line, new: &str| Edit {
        occurrence: Occurrence::NearLine(NonZeroU32::new(line).unwrap()),
        ..edit("", new)
    };
    for (text, edit, expected) in [
        ("a\nb\n", at(1, "x\n"), "x\na\nb\n"),
        ("a\nb\n", at(2, "x"), "a\nx\nb\n"),
        ("a\nb\n", at(3, "x\ny\n"), "a\nb\nx\ny\n"),
        // The file still ends with a line end.
        ("a\n", at(2, "new"), "a\nnew\n"),
        ("a\r\nb\r\n", at(3, "x\ny"), "a\r\nb\r\nx\r\ny\r\n"),
        ("a\rb\r", at(3, "x"), "a\rb\rx\r"),
        ("a\nb", at(2, "x\n"), "a\nx\nb"),
        ("a\nb", at(3, "x"), "a\nb\nx"),
        ("a\r\nb\r\n", at(2, "x\ny"), "a\r\nx\r\ny\r\nb\r\n"),
        ("a\rb\r", at(2, "x\r\n"), "a\rx\rb\r"),
        ("a\n\nb\n", at(2, "x\n\n"), "a\nx\n\n\nb\n"),
        ("\u{feff}a\n", at(1, "x"), "\u{feff}x\na\n"),
        ("", at(1, "x"), "x"),
        ("", at(7, "x\n"), "x\n"),
    ] {
        assert_eq!(apply_one(text, edit.clone()), expected, "{text:?} {edit:?}");
    }
    assert_eq!(expect_error("a\nb\n", at(4, "x")), EditErrorKind::NoSuchLine { lines: 2 });
    assert_eq!(expect_error("a\nb", at(4, "x")), EditErrorKind::NoSuchLine { lines: 2 });
    assert_eq!(expect_error("a\n", at(1, "x\ry")), EditErrorKind::LoneCarriageReturn);
    for which in [Occurrence::Only, Occurrence::All, Occurrence::Nth(NonZeroU32::MIN)] {
        assert_eq!(
            expect_error("a\n", Edit { occurrence: which, ..edit("", "x") }),
            EditErrorKind::EmptyOldText
        );
    }
}

#[test]
fn an_existing_insertion_is_not_repeated() {
    let text = "use a;\nuse some_other::thing;\nfn main() {}\n";
    let insert = edit("use a;\n", "use a;\nuse some_other::thing;\n");
    let edited_text = apply(text, std::slice::from_ref(&insert)).unwrap();
    assert_eq!(edited_text.outcomes, [EditOutcome::AlreadyApplied { line: 1 }]);
    assert_eq!(edited_text.text, text);
    // With an explicit occurrence number, an edit is applied even if its new text already exists.
    let twice = Edit { occurrence: Occurrence::Nth(NonZeroU32::MIN), ..insert };
    assert_eq!(apply_one(text, twice).matches("thing").count(), 2);
}

#[test]
fn a_new_text_with_a_placeholder_is_rejected() {
    let new = "fn a() {\n    // ... rest of the code unchanged\n}\n";
    let EditErrorKind::Placeholder { line } = expect_error("fn a() {}\n", edit("fn a() {}\n", new))
    else {
        panic!("it was not refused");
    };
    assert_eq!(line, "// ... rest of the code unchanged");
    let kept = apply_one(new, edit(new, &new.replace("a()", "b()")));
    assert_eq!(kept, new.replace("a()", "b()"));
    // If the file already contains such a line, an edit may add it one more time.
    let more = apply_one(new, edit("fn a() {", "// ... rest of the code unchanged\nfn a() {"));
    assert_eq!(more.matches("unchanged").count(), 2);
}

#[test]
fn too_many_places_are_not_replaced() {
    let text = "a".repeat(100_001);
    assert_eq!(expect_error(&text, all("a", "b")), EditErrorKind::TooManyMatches);
    assert_eq!(expect_error(&text, nth("a", "b", 200_000)), EditErrorKind::TooManyMatches);
    assert_eq!(apply_one(&text[1..], all("a", "b")), "b".repeat(100_000));
}

fn lines() -> impl Strategy<Value = String> {
    let line = "[a-cä\u{feff} ]{0,3}(\n|\r\n|\r)?";
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn all_outside_of_the_match_stays(
        before in lines(),
        after in lines(),
        old in "[a-c]{0,3}(\n|\r\n)?X(\n|\r\n)?[a-c]{0,3}",
        new in "[d-f]{0,3}(\n[d-f]{0,3}){0,3}",
    ) {
        // Exclude texts in which a carriage return and a line feed become adjacent, because they
        // would form a different line end.
        prop_assume!(!(before.ends_with('\r') && old.starts_with('\n')));
        prop_assume!(!(old.ends_with('\r') && after.starts_with('\n')));
        let text = format!("{before}{old}{after}");
        for wanted in [old.clone(), old.replace("\r\n", "\n")] {
            let result = apply_one(&text, edit(&wanted, &new));
            let inner = result.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&after));
            let inner = inner.map(|inner| inner.replace("\r\n", "\n"));
            // A file whose lines end with `\r`, as on classic Mac OS, keeps these line ends.
            let inner = inner.map(|inner| if text.contains('\n') { inner } else { inner.replace('\r', "\n") });
            prop_assert_eq!(inner, Some(new.clone()));
        }
    }

    /// Compares an edit with a simple model. In the model, the file and both texts of the edit have
    /// line feeds only. A carriage return is an ordinary character only if the file itself contains
    /// it.
    #[test]
    fn line_ends_are_those_of_the_file(
        text in "[ab \n\r]{0,12}",
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        old in "([ab]|\n|\r|\r\n){1,5}",
        new in "([abx]|\n|\r|\r\n){0,5}",
        number in 0u32..3,
    ) {
        let which = NonZeroU32::new(number).map_or(Occurrence::All, Occurrence::Nth);
        let text = text.replace('\r', "\n");
        let file = text.replace('\n', end);
        let lf = |part: &str| {
            let part = part.replace("\r\n", "\n");
            // The file determines which bytes end a line.
            if end == "\r" && file.contains('\r') { part.replace('\r', "\n") } else { part }
        };
        let (wanted, with) = (lf(&old), lf(&new));
        let result = apply(&file, &[Edit { old_text: old.clone(), new_text: new.clone(), occurrence: which }]);
        let Ok(edited) = result else { return Ok(()) };
        if wanted == with {
            // An edit that only changes line ends must match exactly.
            prop_assert!(file.contains(&old));
            return Ok(());
        }
        let EditOutcome::Replaced { places, match_kind: MatchKind::Exact } = edited.outcomes[0] else {
            prop_assert!(!text.contains(&wanted) || edited.text == file);
            return Ok(());
        };
        // The edit adds only kinds of line ends that the file already has. Lines are only joined if
        // the old text contains their line end.
        let has = |end: &str| file.contains(end);
        prop_assert!(has("\r") || !edited.text.contains('\r'), "{:?}", edited.text);
        prop_assert!(has("\n") || end == "\n" || !edited.text.contains('\n') || !has("\r"));
        let found = edited.text.replace("\r\n", "\n");
        let found = if end == "\r" { found.replace('\r', "\n") } else { found };
        let expected = match which {
            Occurrence::All => text.replace(&wanted, &with),
            _ => {
                let mut starts = text.match_indices(&wanted).map(|(start, _)| start);
                let start = starts.nth(number as usize - 1).unwrap();
                format!("{}{with}{}", &text[..start], &text[start + wanted.len()..])
            }
        };
        prop_assert_eq!(found, expected, "{} places", places);
        let feeds = |text: &str| text.matches('\n').count();
        prop_assert!(feeds(&old) + old.matches('\r').count() > 0 || feeds(&edited.text) >= feeds(&file));
    }

    #[test]
    fn no_edit_panics(text in lines(), old in lines(), new in lines(), number in 0u32..4) {
        let which = NonZeroU32::new(number).map_or(Occurrence::All, Occurrence::Nth);
        let edit = Edit { old_text: old, new_text: new, occurrence: which };
        drop(apply(&text, &[edit.clone(), Edit { occurrence: Occurrence::Only, ..edit }]));
    }
}

#[test]
fn a_text_that_would_be_too_large_is_not_made() {
    let line = "x".repeat(1 << 20);
    let text = "a\n".repeat(100_000);
    assert_eq!(expect_error(&text, all("a", &line)), EditErrorKind::ResultTooLarge);
    // The edit would add many lines, each with a long indentation.
    let new = "y\n".repeat(1_000);
    let text = format!("{0}a\n{0}b\n", " ".repeat(1 << 20));
    assert_eq!(expect_error(&text, edit("a\nb\n", &new)), EditErrorKind::ResultTooLarge);
    // Each edit alone stays within the limit, but the result of all edits does not.
    let text = "a ".repeat(50);
    let grow = |old: &str, new: &str| all(old, &format!("{new} ").repeat(1_000));
    let edits = [grow("a ", "b"), grow("b ", "c"), grow("c ", "d")];
    let error = apply(&text, &edits).unwrap_err();
    assert_eq!((error.edit_number, error.kind), (2, EditErrorKind::ResultTooLarge));
}
