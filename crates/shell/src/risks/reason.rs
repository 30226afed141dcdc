//! Reasons to ask for permission for a line, as English sentences and as keys.

use std::fmt;

use callboard_text::escape_invisible;

/// A reason to ask for permission for a line: the key of a sentence, and the word of the line that
/// the sentence contains.
///
/// The `Display` output of a reason is an English sentence, such as "`eval` runs a text as a
/// command". For another language, translate the key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RiskReason {
    /// The key of the sentence.
    pub key: &'static str,
    /// The name of the sentence's argument, and its value.
    pub subject: Option<(&'static str, String)>,
}

impl RiskReason {
    pub(super) fn new(key: &'static str) -> Self {
        Self { key, subject: None }
    }

    /// Returns whether effects of the line are unknown, e.g. because its syntax is not understood or
    /// because it runs a text that is known only when it runs. All other reasons are known dangers.
    #[must_use]
    pub fn is_about_unknown_effects(&self) -> bool {
        UNKNOWN_EFFECTS.contains(&self.key)
    }

    pub(super) fn with_subject(self, name: &'static str, text: impl Into<String>) -> Self {
        Self { subject: Some((name, text.into())), ..self }
    }
}

impl fmt::Display for RiskReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = ENGLISH.iter().find(|(key, _)| *key == self.key);
        let sentence = found.map_or(self.key, |(_, sentence)| sentence);
        match (sentence.split_once("{}"), &self.subject) {
            (Some((before, after)), Some((_, word))) => {
                write!(formatter, "{before}`{}`{after}", escape_invisible(word))
            }
            _ => formatter.write_str(sentence),
        }
    }
}

/// The sentence of each key; `{}` is replaced by the word of the line.
const ENGLISH: &[(&str, &str)] = &[
    ("risk-too-long", "it is too long to be parsed"),
    ("risk-too-many-parts", "it has too many parts to be parsed"),
    ("risk-too-deep", "it is nested too deeply to be parsed"),
    ("risk-unclear", "it is incomplete, or contains syntax that is not understood"),
    ("risk-too-many-texts", "it contains too many commands for other shells to be parsed"),
    ("risk-too-many-files", "it names too many files to be checked"),
    ("risk-many-words", "it has too many words to find the program that it runs"),
    ("risk-names-secret", "it names {}, which contains credentials or a history"),
    ("risk-names-process", "it names {}, which shows the data of other programs"),
    (
        "risk-removes-vital",
        "it removes {}, which may be a project folder, a home folder, everything in one of these, \
         data of git, or outside of the project folders",
    ),
    (
        "risk-finds-outside",
        "it runs a program that may change the files below {}, outside of the project folders",
    ),
    ("risk-unknown-program", "the program {} is known only when it runs"),
    ("risk-unknown-removal", "the files that it removes are known only when it runs"),
    ("risk-unknown-script", "the script that it runs is known only when it runs"),
    ("risk-unknown-code", "the text that a shell runs is known only when it runs"),
    ("risk-unknown-target", "the target of its output, {}, is known only when it runs"),
    ("risk-sets-variable", "it sets {}, which may change what programs do"),
    ("risk-sets-unknown", "{} may set or remove variables that change what programs do"),
    ("risk-shell-option", "the option {} changes how the shell runs commands"),
    ("risk-evaluates", "{} may run commands that it contains"),
    ("risk-aliases", "{} changes the commands that the shell runs"),
    ("risk-redefines", "it defines a function {}, which replaces a command of this name"),
    ("risk-other-user", "{} runs a command as another user"),
    ("risk-overwrites", "{} overwrites files or disks permanently"),
    ("risk-overwrites-device", "dd overwrites a device"),
    ("risk-stops-machine", "{} stops the machine"),
    ("risk-runs-later", "{} runs a command later"),
    ("risk-shows-typed", "{} shows or changes the history of typed commands"),
    ("risk-runs-text", "{} runs a text as a command"),
    ("risk-runs-own", "{} runs commands from its script"),
    ("risk-runs-input", "{} runs what it reads"),
    ("risk-publishes", "{} publish cannot be undone"),
    ("risk-lets-write", "chmod lets all users write"),
    ("risk-git-sets", "it sets a program that git runs"),
    ("risk-git-clean", "git clean removes files that git does not track"),
    ("risk-git-push", "git push overwrites or removes branches or tags of the remote"),
    ("risk-git-runs", "git runs a command that the line names"),
    ("risk-shell-first", "a shell runs another file first"),
    ("risk-shell-input", "a shell runs what it reads"),
    ("risk-other-shell", "the commands of {} are not understood"),
    ("risk-shell-unclear", "an option of a shell is not understood"),
];

/// The keys of the reasons that are about unknown effects.
const UNKNOWN_EFFECTS: &[&str] = &[
    "risk-too-long",
    "risk-too-many-parts",
    "risk-too-deep",
    "risk-unclear",
    "risk-too-many-texts",
    "risk-too-many-files",
    "risk-many-words",
    "risk-unknown-program",
    "risk-unknown-script",
    "risk-unknown-code",
    "risk-unknown-target",
    "risk-sets-variable",
    "risk-sets-unknown",
    "risk-shell-option",
    "risk-evaluates",
    "risk-aliases",
    "risk-redefines",
    "risk-runs-text",
    "risk-runs-own",
    "risk-runs-input",
    "risk-git-runs",
    "risk-shell-first",
    "risk-shell-input",
    "risk-other-shell",
    "risk-shell-unclear",
];

#[cfg(test)]
mod tests {
    use super::{ENGLISH, RiskReason, UNKNOWN_EFFECTS};

    #[test]
    fn a_reason_is_a_sentence_with_its_escaped_word() {
        let text = |reason: RiskReason| reason.to_string();
        let runs = RiskReason::new("risk-runs-text").with_subject("name", "e\u{202e}val");
        assert_eq!(text(runs), "`e\\u{202e}val` runs a text as a command");
        assert_eq!(
            text(RiskReason::new("risk-git-runs")),
            "git runs a command that the line names"
        );
    }

    #[test]
    fn each_key_has_a_sentence() {
        let code = [
            include_str!("../risks.rs"),
            include_str!("git.rs"),
            include_str!("code.rs"),
            include_str!("launchers.rs"),
            include_str!("named_files.rs"),
            include_str!("redefinitions.rs"),
            include_str!("removal.rs"),
            include_str!("tables.rs"),
            include_str!("variables.rs"),
            include_str!("../parser.rs"),
        ];
        let texts = code.iter().flat_map(|code| code.split('"'));
        let keys: Vec<_> = texts.filter(|text| text.starts_with("risk-")).collect();
        assert!(keys.len() >= ENGLISH.len(), "{keys:?}");
        for key in keys.into_iter().chain(UNKNOWN_EFFECTS.iter().copied()) {
            assert!(ENGLISH.iter().any(|(known, _)| *known == key), "{key}");
        }
    }
}
