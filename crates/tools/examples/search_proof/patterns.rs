//! Search patterns: a fixed list of difficult patterns, and random patterns from the words of a
//! tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use acp_tools::search::grep::GrepQuery;

use crate::random::Random;

/// Patterns that regex engines often match wrongly: anchors, classes, word and line boundaries,
/// Unicode.
const FIXED_PATTERNS: &[&str] = &[
    "^$",
    "^\\s+$",
    "\\s$",
    "^#\\[",
    "\\}$",
    "^\\}\\s*$",
    "\\bfn\\b",
    "\\w+::\\w+",
    "\\d{4,}",
    "TODO|HACK",
    "(?i)license",
    "[^\\x00-\\x7f]",
    "\\p{Greek}",
    "\\p{Lu}{6,}",
    "é",
    "“|”",
    "unsafe\\s*\\{",
    "impl<.*> .* for",
    "->\\s*Result<",
    "0x[0-9a-fA-F]{8}",
    "\\\\n",
    "\\t\\t\\t\\t",
    "a.{30,40}b",
    "(a|b|c)+d",
    "x*",
    "\\r",
    ".{200}",
    "^pub (fn|struct|enum) \\w+",
    "#!\\[",
    "\"[^\"]{60,}\"",
    "https?://[^\\s\"]+",
    "\\.unwrap\\(\\)",
    "\\?;$",
    "^use ",
    "(?m)^mod",
    "\\A",
    "\\z",
    "[[:punct:]]{5}",
    "\\b\\w{25,}\\b",
    "(?-u:\\xe2)",
    "Copyright \\(c\\)",
];

/// Patterns whose matches may span several lines.
const MULTILINE_PATTERNS: &[&str] = &[
    "\\{\\s*\\}",
    "\\n\\n\\n",
    "fn \\w+\\(\\n",
    "(?s)/\\*.*?\\*/",
    "\\)\\n\\s+where",
    "^$\\n^use",
    "else\\s+if",
    "#\\[cfg\\(test\\)\\]\\nmod",
    "\\r\\n",
    "a\\nb",
];

/// Creates `count` searches. The same seed and trees always give the same searches.
pub(crate) fn random_queries(trees: &[PathBuf], count: usize, seed: u64) -> Vec<GrepQuery> {
    let mut random = Random::new(seed);
    let fixed = FIXED_PATTERNS
        .iter()
        .copied()
        .map(GrepQuery::new)
        .chain(MULTILINE_PATTERNS.iter().copied().map(multiline_query));
    let mut all: Vec<_> = fixed.take(count).collect();
    let words: Vec<_> = trees.iter().flat_map(|tree| words_in_tree(tree)).collect();
    while all.len() < count && !words.is_empty() {
        let mut word = || words[random.below(words.len())].clone();
        let (one, other) = (word(), word());
        all.push(random_query(&one, &other, &mut random));
    }
    all
}

fn random_query(one: &str, other: &str, random: &mut Random) -> GrepQuery {
    let half = &one[..one.len().div_ceil(2)];
    let kind = random.below(12);
    let mut query = match kind {
        0 => GrepQuery::new(format!("{one}(")),
        1 => GrepQuery::new(half),
        2 => GrepQuery::new(one.to_uppercase()),
        3 => GrepQuery::new(format!("{half}\\w*")),
        4 => GrepQuery::new(format!("^\\s*{one}")),
        5 => GrepQuery::new(format!("{one}.*{other}")),
        6 => GrepQuery::new(format!("{one}|{other}")),
        7 => GrepQuery::new(format!("[{half}]{{6,}}")),
        8 => GrepQuery::new(format!("{one}\\W*$")),
        9 => multiline_query(format!("{one}\\W+{other}")),
        10 => multiline_query(format!("\\n\\s*{one}")),
        _ => GrepQuery::new(one),
    };
    (query.literal, query.word) = (kind == 0, kind == 1);
    query.case_sensitive = kind != 2 && random.below(5) > 0;
    query
}

fn multiline_query(pattern: impl Into<String>) -> GrepQuery {
    let mut query = GrepQuery::new(pattern);
    query.multiline = true;
    query
}

/// Returns words that occur in the files of a tree, in sorted order.
fn words_in_tree(tree: &Path) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if words.len() < 20_000
                && let Ok(text) = fs::read_to_string(&path)
            {
                let is_word = |word: &&str| (3..30).contains(&word.len()) && word.is_ascii();
                let parts = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                words.extend(parts.filter(is_word).take(2_000).map(str::to_owned));
            }
        }
    }
    words
}
