//! A tokenizer for Rust code.

/// Splits code into names and punctuation. Comments and string literals are left out.
pub(super) fn tokenize(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = match letter {
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '"' => {
                rest = after_string_literal(rest);
                continue;
            }
            'r' if raw_string_hash_count(rest).is_some() => {
                let end =
                    format!("\"{}", "#".repeat(raw_string_hash_count(rest).unwrap_or_default()));
                let begun = rest.split_once('"').map_or("", |(_, begun)| begun);
                rest = begun.split_once(&end).map_or("", |(_, after)| after);
                continue;
            }
            '\'' => char_literal_len(rest).unwrap_or(1),
            ':' if rest.starts_with("::") => 2,
            letter if is_name_char(letter) => {
                rest.find(|it| !is_name_char(it)).unwrap_or(rest.len())
            }
            letter => letter.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        if !word.trim().is_empty() {
            found.push(word);
        }
        rest = after;
    }
    found
}

/// Returns whether a token is a name, a keyword or a number.
pub(super) fn is_name(word: &str) -> bool {
    word.starts_with(is_name_char)
}

fn is_name_char(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// If a raw string literal begins at the start of `text`, returns the number of its `#` characters.
fn raw_string_hash_count(text: &str) -> Option<usize> {
    let hashes = text[1..].find(|it| it != '#')?;
    text[1 + hashes..].starts_with('"').then_some(hashes)
}

/// Returns the length of a character literal at the start of `text`. Returns `None` for a lifetime.
fn char_literal_len(text: &str) -> Option<usize> {
    let mut letters = text.char_indices().skip(1);
    let (_, first) = letters.next()?;
    let (at, second) = letters.next()?;
    match first {
        '\\' => text[at + 1..].find('\'').map(|end| at + 1 + end + 1),
        _ => (second == '\'').then_some(at + 1),
    }
}

fn after_string_literal(text: &str) -> &str {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '"' => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

/// Removes every item that has the attribute `#[cfg(test)]`.
pub(super) fn without_tests(words: Vec<&str>) -> Vec<&str> {
    const TEST: &[&str] = &["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < words.len() {
        if !words[at..].starts_with(TEST) {
            kept.push(words[at]);
            at += 1;
            continue;
        }
        let mut depth = 0_usize;
        at += TEST.len();
        while at < words.len() {
            match words[at] {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
            if depth == 0 && [";", "}"].contains(&words[at - 1]) {
                break;
            }
        }
    }
    kept
}

/// One path of a `use` item, which may contain several paths in braces.
pub(super) struct UsePath<'a> {
    pub(super) path: Vec<&'a str>,
    /// The name that the path brings into scope: the name after `as`, or the last name of the path.
    pub(super) name: &'a str,
}

/// Parses a path, or several paths in braces. Returns the number of parsed tokens.
pub(super) fn parse_use_tree<'a>(
    words: &[&'a str],
    before: &mut Vec<&'a str>,
    found: &mut Vec<UsePath<'a>>,
) -> usize {
    let (length, mut at) = (before.len(), 0);
    while let Some(&word) = words.get(at) {
        if word == "{" {
            at += 1;
            while let Some(word) = words.get(at).filter(|word| **word != "}") {
                at += if *word == "," { 1 } else { parse_use_tree(&words[at..], before, found) };
            }
            before.truncate(length);
            return at + 1;
        }
        before.push(word);
        at += 1;
        if words.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    let mut name = before.iter().rev().find(|name| **name != "self").copied().unwrap_or_default();
    if let ["as", alias, ..] = words[at..] {
        name = alias;
        at += 2;
    }
    found.push(UsePath { path: before.clone(), name });
    before.truncate(length);
    at
}

#[cfg(test)]
mod tests {
    use super::{parse_use_tree, tokenize, without_tests};

    #[test]
    fn comments_and_texts_are_left_out_and_characters_are_one_word() {
        let code = "a // b\n\"c \\\" d\" r#\"e\"f\"# r\"g\\\" b'{' '\\'' '\\u{7d}' &'h str r#type";
        assert_eq!(
            tokenize(code),
            ["a", "b", "'{'", "'\\''", "'\\u{7d}'", "&", "'", "h", "str", "r", "#", "type"]
        );
    }

    #[test]
    fn code_that_is_compiled_only_for_tests_is_removed() {
        let code = "mod a; #[cfg(test)] mod b; #[cfg(test)] mod c { fn d() {} } mod e;";
        assert_eq!(without_tests(tokenize(code)).join(" "), "mod a ; mod e ;");
    }

    #[test]
    fn a_tree_of_paths_is_read_with_the_names_that_it_gives() {
        let mut found = Vec::new();
        let code = tokenize("a::{b::{self, C as D}, e::*};");
        assert_eq!(parse_use_tree(&code, &mut Vec::new(), &mut found), code.len() - 1);
        let shown = |leaf: &super::UsePath<'_>| format!("{} {}", leaf.path.join("::"), leaf.name);
        let shown: Vec<_> = found.iter().map(shown).collect();
        assert_eq!(shown, ["a::b::self b", "a::b::C D", "a::e::* *"]);
    }
}
