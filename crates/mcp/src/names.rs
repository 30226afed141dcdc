//! The names of tools for the model. Each name is unique, and contains only characters that all
//! model providers accept.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::limits::{MAX_SERVER_TOOL_NAME_BYTES, MAX_TOOL_NAME_BYTES};
use crate::requests::SAMPLING;

/// Returns whether a tool's name can be shown in a permission request. The name may contain only
/// characters that the protocol recommends for names of tools, so that it cannot look like a
/// sentence.
pub(crate) fn is_valid_server_tool_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    let is_short = (1..=MAX_SERVER_TOOL_NAME_BYTES).contains(&name.len());
    is_short && name.bytes().all(is_usual) && name != SAMPLING
}

/// Returns the name of a server's tool for the model. The name differs from all names in `taken`,
/// and the same arguments always result in the same name. If a tool of another server could get the
/// same name, a hash is appended, even if that server does not run.
pub(crate) fn model_tool_name(server: &str, tool: &str, taken: &BTreeSet<String>) -> String {
    let name = format!("mcp__{}__{}", plain(server), plain(tool));
    let is_exact = |name: &str| plain(name) == name && !name.contains("__");
    let is_unambiguous = is_exact(server) && is_exact(tool) && !server.ends_with('_');
    if is_unambiguous && name.len() <= MAX_TOOL_NAME_BYTES && !taken.contains(&name) {
        return name;
    }
    let mut number = 0_u32;
    loop {
        // `DefaultHasher::new` uses fixed keys, so the hash is the same in each process.
        let mut hasher = DefaultHasher::new();
        (server, tool, number).hash(&mut hasher);
        let mark = format!("_{:08x}", hasher.finish() & 0xffff_ffff);
        let room = MAX_TOOL_NAME_BYTES - mark.len();
        let unique = format!("{}{mark}", &name[..name.len().min(room)]);
        if !taken.contains(&unique) {
            return unique;
        }
        number += 1;
    }
}

/// Replaces all characters except ASCII letters, digits, `_` and `-` by `_`.
fn plain(name: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    name.chars().map(|letter| if is_plain(&letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn names_are_plain_unique_and_short() {
        let mut taken = BTreeSet::new();
        let long = "x".repeat(200);
        let pairs = [
            ("github.com", "search"),
            ("github_com", "search"),
            ("s", "a\nb"),
            ("s", "a b"),
            ("s", "Größe"),
            (long.as_str(), "one"),
            (long.as_str(), "two"),
        ];
        for (server, tool) in pairs {
            let name = model_tool_name(server, tool, &taken);
            assert!(name.len() <= MAX_TOOL_NAME_BYTES, "{name}");
            assert_eq!(name, plain(&name));
            assert_eq!(name, model_tool_name(server, tool, &taken));
            assert!(taken.insert(name));
        }
        assert!(taken.contains("mcp__github_com__search"));
    }

    #[test]
    fn ambiguous_names_do_not_depend_on_the_servers_that_run() {
        let none = BTreeSet::new();
        let name = |server, tool| model_tool_name(server, tool, &none);
        for ((a, b), (c, d)) in [
            (("a", "b__c"), ("a__b", "c")),
            (("x.y", "t"), ("x_y", "t")),
            (("s", "x.y"), ("s", "x_y")),
            (("a_", "b"), ("a", "_b")),
        ] {
            assert_ne!(name(a, b), name(c, d));
        }
        assert_eq!(name("github", "search_code"), "mcp__github__search_code");
    }

    #[test]
    fn names_that_look_like_text_are_refused() {
        for (name, is_valid) in [
            ("search", true),
            ("repo/search.v2", true),
            ("", false),
            ("search (github) for the issue", false),
            ("Größe", false),
            ("a\nb", false),
            ("sampling/createMessage", false),
        ] {
            assert_eq!(is_valid_server_tool_name(name), is_valid, "{name}");
        }
        assert!(!is_valid_server_tool_name(&"x".repeat(MAX_SERVER_TOOL_NAME_BYTES + 1)));
    }
}
