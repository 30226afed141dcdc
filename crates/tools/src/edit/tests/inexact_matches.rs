//! Tests for old texts that do not match exactly.

use pretty_assertions::assert_eq;

use super::*;
use crate::edit::apply_cancellable;

fn apply_inexact(text: &str, edit: Edit) -> (String, MatchKind) {
    let edited = apply(text, &[edit]).unwrap();
    let EditOutcome::Replaced { places: 1, match_kind: rung } = edited.outcomes[0] else {
        panic!("{edited:?}")
    };
    (edited.text, rung)
}

#[test]
fn inexact_matches_are_found_and_their_kind_is_reported() {
    for (text, edit, expected, rung) in [
        // Unchanged lines keep the trailing whitespace of the file, even if the old text has other
        // trailing whitespace.
        ("a  \nb\nc \n", edit("a\nb\n", "a\nx\n"), "a  \nx\nc \n", MatchKind::TrailingWhitespace),
        ("a\nb\nc\n", edit("a \nb\t\n", "a \nx\n"), "a\nx\nc\n", MatchKind::TrailingWhitespace),
        ("a \r\nb\r\n", edit("a\nb", "a\nb\nc"), "a \r\nb\r\nc\r\n", MatchKind::TrailingWhitespace),
        // If the old text ends with whitespace, the match must end at the end of a line.
        ("ab\na\n", edit("a ", "x"), "ab\nx\n", MatchKind::TrailingWhitespace),
        // The last line of the file has no line end.
        ("a\nb", edit("a\nb\n", "a\nx\n"), "a\nx", MatchKind::TrailingWhitespace),
        // If the indentation of all lines differs, the new text is indented in the same way as the
        // file.
        (
            "  fn a() {\n    b();\n\n  }\n",
            edit("fn a() {\n  b();\n\n}\n", "fn a() {\n  c();\n\n  d();\n}\n"),
            "  fn a() {\n    c();\n\n    d();\n  }\n",
            MatchKind::Indentation,
        ),
        (
            "\tif a:\r\n\t\tb\r\n",
            edit("\t\t\tif a:\n\t\t\t\tb\n", "\t\t\tif c:\n\t\t\t\tb\n#end\n"),
            "\tif c:\r\n\t\tb\r\n#end\r\n",
            MatchKind::Indentation,
        ),
        // Quotes, dashes and spaces stay as they are in unchanged text.
        (
            "say(“it’s\u{a0}so”); // a – b\n",
            edit("say(\"it's so\"); // a - b", "say(\"it's not so\"); // a - c"),
            "say(“it’s\u{a0}not so\"); // a - c\n",
            MatchKind::LookalikeCharacters,
        ),
        (
            "let a = \"b\";\n",
            edit("let a = “b”;", "let a = “c”;"),
            "let a = \"c\";\n",
            MatchKind::LookalikeCharacters,
        ),
        // The lines of the file end with `\r`, as on classic Mac OS.
        ("a\rb\rc", edit("a\nb\n", "a\nx\ny\n"), "a\rx\ry\rc", MatchKind::Exact),
    ] {
        assert_eq!(
            apply_inexact(text, edit.clone()),
            (expected.to_owned(), rung),
            "{text:?} {edit:?}"
        );
    }
}

#[test]
fn tabs_and_line_numbers_are_ignored_if_the_match_is_unique() {
    for (text, edit, expected, rung) in [
        (
            "\tif a {\n\t\tb();\n\t}\n",
            edit(
                "    if a {\n        b();\n    }\n",
                "    if a {\n        c();\n        d();\n    }\n",
            ),
            "\tif a {\n\t\tc();\n\t\td();\n\t}\n",
            MatchKind::TabsOrSpaces,
        ),
        // The old text has two spaces instead of each tab, and its first line is not indented.
        (
            "\tif a:\n\t\tb()\n",
            edit("if a:\n    b()", "if a:\n    c()"),
            "\tif a:\n\t\tc()\n",
            MatchKind::TabsOrSpaces,
        ),
        (
            "  if a:\r\n    b()\r\n",
            edit("\tif a:\n\t\tb()\n", "\tif a:\n\t\tb()\n\t\tc()\n"),
            "  if a:\r\n    b()\r\n    c()\r\n",
            MatchKind::TabsOrSpaces,
        ),
        (
            "a\n\tb\n\nc\n",
            edit(
                "     1\ta\n     2\t\tb\n     3\t\n     4\tc",
                "     1\ta\n     2\t\tx\n     3\t\n     4\tc",
            ),
            "a\n\tx\n\nc\n",
            MatchKind::LineNumbers,
        ),
        (
            "one\ntwo\n",
            edit("     2\ttwo\n", "     2\t2\nnew\n"),
            "one\n2\nnew\n",
            MatchKind::LineNumbers,
        ),
        // If the file itself contains line numbers, the match is exact.
        ("     2\ttwo\n", edit("     2\ttwo\n", "     2\t2\n"), "     2\t2\n", MatchKind::Exact),
    ] {
        assert_eq!(
            apply_inexact(text, edit.clone()),
            (expected.to_owned(), rung),
            "{text:?} {edit:?}"
        );
    }
    for (text, old) in [
        ("\tx(1);\n}\n\tx(1);\n", "    x(1);\n"),
        ("\tx(1);\n\t\tx(1);\n", "    x(1);\n"),
        ("one\ntwo\none\n", "     1\tone\n"),
        ("one\ntwo\n", "     1\tone\n     3\ttwo\n"),
        ("\tone two\n", "    one tw"),
        ("\tmax(1)\n", "    ax(1)\n"),
    ] {
        for edit in [edit(old, "y"), all(old, "y"), nth(old, "y", 1)] {
            let reason = expect_error(text, edit);
            assert!(matches!(reason, EditErrorKind::NoMatch { .. }), "{text:?} {old:?} {reason:?}");
        }
    }
}

#[test]
fn weaker_matches_are_whole_lines_or_words() {
    for (text, old) in [
        ("max\nyellow\n", "x \ny"),
        ("max\nyellow\n", "max \ny"),
        ("max\nyellow\n", "x \nyellow"),
        ("émax \ny\n", "max\ny\n"),
        ("max_1\u{a0}b\n", "x_1 b"),
        ("its\u{a0}own\n", "ts own"),
        ("its\u{a0}own\n", "its ow"),
        ("a’b\n", "'"),
        ("  \tab\n\tc\n", "b \n  c"),
    ] {
        for edit in [edit(old, "X \nY"), all(old, "X \nY")] {
            let reason = expect_error(text, edit);
            assert!(matches!(reason, EditErrorKind::NoMatch { .. }), "{text:?} {old:?} {reason:?}");
        }
    }
    assert_eq!(apply_one("let max \nyellow: u8\n", edit("max\nyellow", "m\ny")), "let m\ny: u8\n");
}

/// Each line is equal to many other lines. Therefore a search that compares line by line would take
/// quadratic time.
#[test]
fn an_indentation_is_found_in_time_and_the_search_can_be_cancelled() {
    let line = |n: usize| format!("    x{};\n", n % 3);
    let text: String = (0..200_000).map(line).collect();
    let old: String = (0..1_000).map(|n| line(n)[4..].to_owned()).collect::<String>() + "end\n";
    let steps = std::sync::atomic::AtomicUsize::new(0);
    let count = || {
        steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        false
    };
    let edits = [edit(&old, "x")];
    let reason = apply_cancellable(&text, &edits, &count).unwrap_err().kind;
    assert!(matches!(reason, EditErrorKind::NoMatch { .. }), "{reason:?}");
    let steps = steps.into_inner();
    assert!((50..1_000).contains(&steps), "{steps}");
    for limit in [0, 1, 10, 40] {
        let left = std::sync::atomic::AtomicIsize::new(limit);
        let is_over = || left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) <= 0;
        let reason = apply_cancellable(&text, &edits, &is_over).unwrap_err().kind;
        assert_eq!(reason, EditErrorKind::CancelledOrTimedOut);
    }
}

#[test]
fn an_old_text_that_no_strategy_accepts_is_an_error() {
    for (text, old) in [
        ("  a\n   b\n", "a\nb\n"),
        ("\ta\n   b\n", "  a\n  b\n"),
        ("a b\n", "a  b\n"),
        ("foo(a, b);\n", "foo(a,b);\n"),
        ("ab\n", "a \n"),
        ("a\n", "A\n"),
    ] {
        let reason = expect_error(text, edit(old, "something else\n"));
        assert!(matches!(reason, EditErrorKind::NoMatch { .. }), "{text:?} {old:?} {reason:?}");
    }
}

#[test]
fn several_places_are_ambiguous_for_every_strategy() {
    let text = "  a\n  b\n\n    a\n    b\n\n“c”\n’\n‘\n";
    let is_ambiguous =
        |edit| matches!(expect_error(text, edit), EditErrorKind::Ambiguous { places: 2, .. });
    assert!(is_ambiguous(edit("a\nb", "x\ny")));
    assert!(is_ambiguous(edit("'", "x")));
    assert_eq!(
        apply_one(text, all("a\nb\n", "x\n  y\n")),
        "  x\n    y\n\n    x\n      y\n\n“c”\n’\n‘\n"
    );
    assert_eq!(apply_one(text, nth("'", "x", 2)), text.replace('‘', "x"));
}
