//! Rules for Rust sources.

use super::{CheckedFile, TidyRule, Violation, ViolationLevel};

pub(super) const RULES: &[TidyRule] = &[
    begins_with_its_doc,
    has_meaningful_name,
    has_limited_length,
    has_no_unfinished_code,
    has_no_tabs_or_trailing_blanks,
    tests_do_not_sleep,
];

/// Maximum number of lines of code in a file. The lines of tests are not counted.
const MAX_LINES: usize = 800;
/// Number of lines of code above which a warning is reported. The lines of tests are not counted.
const MANY_LINES: usize = 500;

/// Names that do not describe the content of a module.
const MEANINGLESS_MODULE_NAMES: &[&str] = &["utils", "helpers", "common", "manager", "misc"];

/// Macro calls that mark unfinished work.
const UNFINISHED_CODE: &[&str] =
    &[concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("db", "g!(")];
/// Words that mark unfinished work. A part of a longer word does not count.
const UNFINISHED_WORDS: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X")];

/// Function calls that wait for a fixed time.
const SLEEPS: &[&str] = &[concat!("thread::", "sleep("), concat!("time::", "sleep(")];

fn begins_with_its_doc(file: &CheckedFile<'_>) -> Vec<Violation> {
    let first = file.lines.iter().position(|line| !line.starts_with("#!")).unwrap_or(0);
    match file.lines.get(first) {
        Some(line) if line.starts_with("//!") => Vec::new(),
        _ => vec![file.error_at(first, "no `//!` on the first line; say what the file is")],
    }
}

fn has_meaningful_name(file: &CheckedFile<'_>) -> Vec<Violation> {
    let stem = file.path.strip_suffix(".rs").unwrap_or(file.path);
    let mut found = Vec::new();
    if stem.ends_with("/mod") {
        found.push(file.error_at(0, "name it after its folder and put it beside that"));
    }
    for name in stem.split('/').filter(|part| MEANINGLESS_MODULE_NAMES.contains(part)) {
        found.push(file.error_at(0, format!("`{name}` says nothing; name it for what it holds")));
    }
    found
}

fn has_limited_length(file: &CheckedFile<'_>) -> Vec<Violation> {
    let code = first_test_line(file);
    if code <= MANY_LINES {
        return Vec::new();
    }
    let weight = if code <= MAX_LINES { ViolationLevel::Warning } else { ViolationLevel::Error };
    let what = "lines of code; find the second noun in it";
    vec![file.violation_at(0, format!("{code} {what}"), weight)]
}

fn has_no_unfinished_code(file: &CheckedFile<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in file.lines.iter().enumerate() {
        let code = UNFINISHED_CODE.iter().filter(|code| line.contains(**code));
        let words = UNFINISHED_WORDS.iter().filter(|word| has_word(line, word));
        for end in code.chain(words) {
            found.push(file.error_at(index, format!("`{end}`: finish it or open an issue")));
        }
    }
    found
}

fn has_no_tabs_or_trailing_blanks(file: &CheckedFile<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in file.lines.iter().enumerate() {
        if line.ends_with(char::is_whitespace) {
            found.push(file.error_at(index, "remove the blanks at the end of the line"));
        } else if line.contains('\t') {
            found.push(file.error_at(index, "replace the tab by spaces, or by \\t in a string"));
        }
    }
    found
}

fn tests_do_not_sleep(file: &CheckedFile<'_>) -> Vec<Violation> {
    let lines = file.lines.iter().enumerate().skip(first_test_line(file));
    lines
        .filter(|(_, line)| SLEEPS.iter().any(|sleep| line.contains(sleep)))
        .map(|(index, _)| file.error_at(index, "a test waits for an event, not for time to pass"))
        .collect()
}

/// Returns the index of the first line of test code. If the file has no test code, returns the
/// number of lines.
fn first_test_line(file: &CheckedFile<'_>) -> usize {
    let path = format!("/{}", file.path);
    if path.contains("/tests/") || path.ends_with("/tests.rs") {
        return 0;
    }
    // If `#[cfg(test)]` is on another item than a module, the lines after the item are not tests.
    let opens_tests = |at: usize| {
        let after = &file.lines[at + 1..];
        let item = after.iter().find(|line| !line.starts_with(['#', ' ', ')']));
        item.is_some_and(|item| item.contains("mod ") && item.ends_with('{'))
    };
    (0..file.lines.len())
        .find(|&at| file.lines[at] == "#[cfg(test)]" && opens_tests(at))
        .unwrap_or(file.lines.len())
}

fn has_word(line: &str, word: &str) -> bool {
    let is_in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_in_word) && !line[at + word.len()..].starts_with(is_in_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::check;

    const TESTS: &str = "#[cfg(test)]\n#[expect(\n    x,\n    reason = \"y\"\n)]\nmod tests {\n";

    fn sleep(kind: &str) -> String {
        format!("    {kind}::{}(d);\n", "sleep")
    }

    #[test]
    fn a_clean_file_passes() {
        check("src/a.rs", "//! A.\n\nfn a() {}\n", &[]);
        check("src/main.rs", "#!/usr/bin/env run\n#![no_std]\n//! A.\n", &[]);
    }

    #[test]
    fn a_file_without_its_doc_is_found() {
        let what = "no `//!`";
        check("src/a.rs", "fn a() {}\n", &[(1, what)]);
        check("src/a.rs", "// A.\n", &[(1, what)]);
        check("src/a.rs", "#![no_std]\n\n//! Late.\n", &[(2, what)]);
        check("src/a.rs", "", &[(1, what)]);
    }

    #[test]
    fn meaningless_module_names_are_found() {
        check("src/a/mod.rs", "//! A.\n", &[(1, "name it after its folder")]);
        check("src/utils.rs", "//! A.\n", &[(1, "`utils` says nothing")]);
        check("tests/it/common/a.rs", "//! A.\n", &[(1, "`common` says nothing")]);
        check("src/common_prefix.rs", "//! A.\n", &[]);
    }

    #[test]
    fn long_files_are_found_but_tests_do_not_count() {
        let lines = |n: usize| format!("//! A.\n{}", "x\n".repeat(n - 1));
        check("src/a.rs", &lines(500), &[]);
        check("src/a.rs", &lines(800), &[(1, "800 lines")]);
        assert_eq!(
            has_limited_length(&CheckedFile::new("a.rs", &lines(800)))[0].level,
            ViolationLevel::Warning
        );
        check("src/a.rs", &lines(801), &[(1, "801 lines")]);
        assert_eq!(
            has_limited_length(&CheckedFile::new("a.rs", &lines(801)))[0].level,
            ViolationLevel::Error
        );

        check("src/a.rs", &format!("//! A.\n{TESTS}{}", lines(900)), &[]);
        check("tests/it/a.rs", &lines(900), &[]);
        check("src/a/tests.rs", &lines(900), &[]);
        let lone = format!("//! A.\n#[cfg(test)]\nmod tests;\n{}", lines(900));
        check("src/a.rs", &lone, &[(1, "903 lines")]);
    }

    #[test]
    fn unfinished_code_is_found() {
        let code = UNFINISHED_CODE.iter().map(|code| format!("{code}x)"));
        let words = UNFINISHED_WORDS.iter().map(|word| format!("// {word}: later"));
        for line in code.chain(words) {
            check("src/a.rs", &format!("//! A.\n{line}\n"), &[(2, "`")]);
        }
        check("src/a.rs", concat!("//! A.\n// /tmp/a.XX", "XX\n"), &[]);
    }

    #[test]
    fn stray_blanks_are_found() {
        check("src/a.rs", "//! A. \n//!\n\tx\n", &[(1, "remove"), (3, "replace")]);
        check("src/a.rs", "//! A.\r\n", &[(1, "remove")]);
    }

    #[test]
    fn tests_that_sleep_are_found_and_other_code_may() {
        for kind in ["thread", "time", "tokio::time"] {
            let line = sleep(kind);
            check("src/a.rs", &format!("//! A.\n{line}"), &[]);
            check("tests/it/a.rs", &format!("//! A.\n{line}"), &[(2, "a test waits")]);
            check("src/a.rs", &format!("//! A.\n{TESTS}{line}}}\n"), &[(8, "a test waits")]);
        }
    }
}
