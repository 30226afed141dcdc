//! The names of tools for the model: each is unique, and contains only characters that all providers
//! accept.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::limits::MAX_TOOL_NAME_BYTES;

/// Returns the name of a server's tool for the model, which differs from those in `taken`. The same
/// names give the same result.
pub(crate) fn model_tool_name(server: &str, tool: &str, taken: &BTreeSet<String>) -> String {
    let name = format!("mcp__{}__{}", plain(server), plain(tool));
    if name.len() <= MAX_TOOL_NAME_BYTES && !taken.contains(&name) {
        return name;
    }
    let mut number = 0_u32;
    loop {
        // With the standard keys, the hash is the same in each process.
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

/// Replaces all characters but ASCII letters, digits, `_` and `-`.
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
        assert!(taken.contains("mcp__github_com__search") && taken.contains("mcp__s__a_b"));
    }
}
