//! The command that a shell runs after it expands braces and default values.

use super::patterns::expand_braces;
use crate::limits::MAX_COMMAND_PATHS;
use crate::parser::{ShellWord, SimpleCommand};

/// Returns the command in which braces and default values are expanded: `a b c d` for
/// `a {b,c} ${X:-d}`. Returns `None` if the command has none. Some shells do not expand braces, and
/// a variable may have another value, so the command as it is written must be checked too.
pub(super) fn expanded_command(command: &SimpleCommand) -> Option<SimpleCommand> {
    let SimpleCommand { assignments, array_elements, words, writes, reads, .. } = command;
    let all = [assignments, array_elements, words, writes, reads];
    if !all.into_iter().flatten().any(|word| has_braces(word) || has_defaults(word)) {
        return None;
    }
    let each = |words: &[ShellWord]| words.iter().map(with_defaults).collect();
    Some(SimpleCommand {
        assignments: each(assignments),
        array_elements: expanded_words(array_elements),
        words: expanded_words(words),
        writes: each(writes),
        reads: each(reads),
        ..command.clone()
    })
}

fn has_defaults(word: &ShellWord) -> bool {
    word.text_with_defaults().is_some()
}

fn has_braces(word: &ShellWord) -> bool {
    let has = |mark: &str| word.text.contains(mark);
    word.may_split && has("{") && (has(",") || has(".."))
}

fn with_defaults(word: &ShellWord) -> ShellWord {
    let text = word.text_with_defaults().unwrap_or_else(|| word.text.clone());
    ShellWord { text, ..word.clone() }
}

fn expanded_words(words: &[ShellWord]) -> Vec<ShellWord> {
    let mut expanded = Vec::new();
    for word in words {
        let text = with_defaults(word).text;
        let is_split = word.may_split && has_defaults(word);
        let parts = if is_split { text.split_whitespace().collect() } else { vec![&*text] };
        for part in parts {
            // The checks ask if a command has more words than this.
            let is_expanded = has_braces(word) && expanded.len() <= MAX_COMMAND_PATHS;
            let texts = expand_braces(part).filter(|_| is_expanded);
            let texts = texts.unwrap_or_else(|| vec![part.to_owned()]);
            expanded.extend(texts.into_iter().map(|text| ShellWord { text, ..word.clone() }));
        }
    }
    expanded
}
