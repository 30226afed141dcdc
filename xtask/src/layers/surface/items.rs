//! Splits the tokens of a module or an `impl` block into items.

use crate::layers::tokens::is_name;

/// An item, split into tokens.
pub(super) struct ItemTokens<'a, 'b> {
    pub(super) keyword: &'a str,
    pub(super) is_public: bool,
    pub(super) name: &'a str,
    /// The tokens after the keyword of the item.
    pub(super) words: &'b [&'a str],
    /// The tokens inside the braces of the item.
    pub(super) body: Option<&'b [&'a str]>,
}

impl<'a> ItemTokens<'a, '_> {
    pub(super) fn signature_tokens(&self) -> Vec<&'a str> {
        match (self.keyword, self.body) {
            ("fn", Some(body)) => self.words[..self.words.len() - body.len() - 2].to_vec(),
            ("const" | "static", _) => {
                self.words.iter().take_while(|word| **word != "=").copied().collect()
            }
            ("struct" | "union", Some(body)) => public_field_tokens(body),
            ("struct", None) => {
                let inside = self.words.iter().position(|word| *word == "(");
                public_field_tokens(&self.words[inside.map_or(self.words.len(), |at| at + 1)..])
            }
            _ => self.words.to_vec(),
        }
    }
}

/// Returns the tokens of the public fields of a struct.
fn public_field_tokens<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let (mut found, mut depth, mut is_public) = (Vec::new(), 0_usize, false);
    for (at, word) in words.iter().enumerate() {
        match *word {
            "(" | "[" | "{" | "<" => depth += 1,
            ">" if at > 0 && words[at - 1] == "-" => {}
            ")" | "]" | "}" | ">" => depth = depth.saturating_sub(1),
            "," if depth == 0 => is_public = false,
            "pub" => is_public = words.get(at + 1) != Some(&"("),
            _ => {}
        }
        if is_public {
            found.push(*word);
        }
    }
    found
}

/// Splits the tokens of a module or an `impl` block into items.
pub(super) fn split_into_items<'a, 'b>(words: &'b [&'a str]) -> Vec<ItemTokens<'a, 'b>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < words.len() {
        let mut is_public = false;
        // Skips attributes, the visibility, and qualifiers of `fn`.
        loop {
            match words[at..] {
                ["#", "[", ..] => at += 1 + bracketed_len(&words[at + 1..]),
                ["#", "!", "[", ..] => at += 2 + bracketed_len(&words[at + 2..]),
                ["pub", "(", ..] => at += 1 + bracketed_len(&words[at + 1..]),
                ["pub", ..] => {
                    is_public = true;
                    at += 1;
                }
                ["const", "fn" | "async" | "unsafe" | "extern", ..]
                | ["async" | "unsafe" | "default" | "extern", ..] => at += 1,
                _ => break,
            }
        }
        let Some(&keyword) = words.get(at) else { break };
        let begin = at + 1;
        let ends_with_brace = !["const", "static", "use", "type"].contains(&keyword);
        let mut body = None;
        while let Some(&word) = words.get(at) {
            if ["(", "[", "{"].contains(&word) {
                let length = bracketed_len(&words[at..]);
                let inside = at + 1..(at + length - 1).max(at + 1);
                at += length;
                if word == "{" && ends_with_brace {
                    body = Some(&words[inside]);
                    break;
                }
                continue;
            }
            at += 1;
            if word == ";" {
                break;
            }
        }
        let name = words[begin..at].iter().find(|word| is_name(word) && **word != "mut");
        let known = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
        let is_known = known.contains(&keyword) || ["mod", "use", "impl"].contains(&keyword);
        if let (Some(&name), true) = (name, is_known) {
            found.push(ItemTokens { keyword, is_public, name, words: &words[begin..at], body });
        }
    }
    found
}

/// Returns the index of the bracket that closes the bracket at the beginning of `words`.
fn bracketed_len(words: &[&str]) -> usize {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate() {
        match *word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    words.len()
}

/// Returns the number of tokens of the generic parameters at the beginning of `words`.
pub(super) fn generics_len(words: &[&str]) -> usize {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate() {
        match *word {
            "<" => depth += 1,
            ">" if at > 0 && words[at - 1] != "-" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return if *word == ">" { at + 1 } else { 0 };
        }
    }
    0
}
