//! Finds placeholder lines. Models write such lines instead of the text that they omit.

/// The characters that begin a comment in common programming languages.
const COMMENT_MARKERS: [&str; 12] =
    ["//", "/*", "{/*", "#", "--", "<!--", "%", ";", "*", "(*", "\"\"\"", "rem "];

/// Nouns that name the omitted text in a placeholder line.
const OMITTED_NOUNS: [&str; 26] = [
    "body",
    "class",
    "code",
    "component",
    "content",
    "contents",
    "everything",
    "field",
    "fields",
    "file",
    "function",
    "functions",
    "implementation",
    "import",
    "imports",
    "lines",
    "logic",
    "method",
    "methods",
    "module",
    "section",
    "stuff",
    "test",
    "tests",
    "text",
    "things",
];

/// Words at the end of a placeholder line, which say that existing text stays unchanged.
const UNCHANGED_ENDINGS: [&str; 12] = [
    "above",
    "before",
    "below",
    "here",
    "omitted",
    "same",
    "unchanged",
    "unmodified",
    "untouched",
    "brevity",
    "remains",
    "stays",
];

/// Words at the beginning of a placeholder line, which refer to existing text.
const REST_BEGINNINGS: [&str; 8] =
    ["existing", "original", "other", "previous", "remaining", "rest", "same", "unchanged"];

/// Returns the first line of `new` that is a placeholder for omitted text, such as the comment `//
/// ... rest of the code unchanged`. If the file itself contains such a line, `new` may contain the
/// line as often as `replaced` does, plus `more` times.
pub(crate) fn find_placeholder_line<'a>(
    new: &'a str,
    file: &str,
    replaced: &str,
    more: usize,
) -> Option<&'a str> {
    if file.trim().is_empty() {
        return None;
    }
    let count = |text: &str, line: &str| text.lines().filter(|other| other.trim() == line).count();
    let is_kept = |line: &str| {
        let more = if count(file, line) > 0 { more } else { 0 };
        count(new, line) <= count(replaced, line) + more
    };
    new.lines().map(str::trim).find(|line| is_placeholder_line(line) && !is_kept(line))
}

fn is_placeholder_line(line: &str) -> bool {
    let has_dots = line.contains("...") || line.contains('…');
    let is_comment = COMMENT_MARKERS.iter().any(|mark| starts_with_ignoring_case(line, mark));
    // Some models omit the comment marker too: `... rest of the file ...`
    let is_bare = line.starts_with("...") || line.starts_with('…') || line.starts_with("[...");
    if !is_comment && !is_bare {
        return false;
    }
    let words: Vec<_> = line
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let mut words: Vec<_> = words.iter().map(String::as_str).collect();
    while let ["the" | "and" | "keep" | "all" | "rem", ..] = words[..] {
        words.remove(0);
    }
    let is = |list: &[&str], word: Option<&&str>| word.is_some_and(|word| list.contains(word));
    let names_rest = is(&REST_BEGINNINGS, words.first());
    let names_thing = words.iter().any(|word| OMITTED_NOUNS.contains(word));
    let stays = is(&UNCHANGED_ENDINGS, words.last());
    match words[..] {
        [] => false,
        ["unchanged" | "omitted"] => true,
        ["rest", "of", ..] if has_dots || (stays && names_thing) => true,
        _ if words.contains(&"unchanged") && has_dots => true,
        _ if names_rest && names_thing => has_dots || (stays && words.len() > 1),
        [.., "omitted", "for", _] | [.., "omitted", "here"] => names_thing,
        _ => names_thing && has_dots && words.contains(&"omitted"),
    }
}

fn starts_with_ignoring_case(line: &str, mark: &str) -> bool {
    line.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark))
}

#[cfg(test)]
mod tests {
    use super::find_placeholder_line;

    /// Searches for placeholders in a text that replaces the whole file.
    fn written<'a>(new: &'a str, file: &str) -> Option<&'a str> {
        find_placeholder_line(new, file, file, 0)
    }

    #[test]
    fn placeholder_lines_are_found() {
        for line in [
            "// ... rest of the code unchanged",
            "// rest of code unchanged",
            "  # ... existing code ...",
            "/* ... existing imports ... */",
            "<!-- rest of the file stays the same -->",
            "{/* ... other methods ... */}",
            "-- the rest of the file remains unchanged",
            "// ... (unchanged) ...",
            "// unchanged",
            "// Remaining implementation here",
            "// … other functions …",
            "... rest of the file ...",
            "# [rest of the function omitted for brevity]",
            "// code omitted for brevity",
            "# keep existing code...",
            "// Rest of method implementation...",
            "// all other fields as before",
            "* ... previous tests ...",
        ] {
            let new = format!("one\n{line}\nfour\n");
            assert_eq!(written(&new, "x"), Some(line.trim()), "{line}");
            assert_eq!(written(&new, "\n"), None, "there is nothing that could be left out");
            let file = format!("x\n  {line}  \n");
            assert_eq!(written(&new, &file), None, "{line}");
            // A new text may contain the line as often as the file does. An edit may add it one
            // more time.
            assert_eq!(written(&new.repeat(2), &file), Some(line.trim()), "{line}");
            assert_eq!(find_placeholder_line(&new, &file, "x", 1), None, "{line}");
            assert_eq!(
                find_placeholder_line(&new.repeat(2), &file, "x", 1),
                Some(line.trim()),
                "{line}"
            );
            assert_eq!(find_placeholder_line(&new.repeat(2), &file, &file, 1), None, "{line}");
            assert_eq!(find_placeholder_line(&new, "x", "x", 1), Some(line.trim()), "{line}");
        }
    }

    #[test]
    fn ordinary_comments_are_no_placeholders() {
        for line in [
            "// ...",
            "...",
            "    ...",
            "// Existing users are asked first.",
            "// The rest of the path is relative.",
            "# Remaining lines follow the same format",
            "# Existing code",
            "let x = ...rest;",
            "return { ...existing, code };",
            "x // rest of the code unchanged",
            "// Other code should use `open` instead.",
            "// Unchanged files are skipped.",
            "// Whether fields may be omitted.",
            "// TODO: test the rest",
            "# 1. same as before",
            "//",
            "",
        ] {
            assert_eq!(written(line, "x"), None, "{line}");
        }
    }
}
