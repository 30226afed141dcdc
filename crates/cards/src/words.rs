//! The words that are printed around what agents say, in the language of the user.

use std::sync::LazyLock;

use acp_lifecycle::Titles;
use acp_types::Reason;
use acp_types::schema::v1::ToolKind;

/// The words of one language, by their keys.
#[derive(Debug)]
pub struct Words(Titles);

/// The words for agents, which may pass them on to a model.
pub static ENGLISH: LazyLock<Words> = LazyLock::new(|| Words::in_locale("en"));

impl Words {
    /// Reads the words in the language of a locale, else in English.
    pub fn in_locale(locale: &str) -> Self {
        // They are valid, as the tests show; without any, their keys stand for them.
        Self(Titles::negotiate(CATALOGUES, locale).unwrap_or_default())
    }

    /// Says something.
    pub fn say(&self, key: &str) -> String {
        self.0.sentence(key, &[], &[])
    }

    /// Says something with a text in it.
    pub fn say_with(&self, key: &str, name: &str, text: impl Into<String>) -> String {
        self.0.sentence(key, &[(name, text.into())], &[])
    }

    /// Returns the line that stands for lines that are not shown.
    pub(crate) fn more_lines(&self, lines: usize) -> String {
        self.0.sentence("more-lines", &[], &[("lines", lines as u64)])
    }

    /// Returns the words that stand for input that is not shown.
    pub(crate) fn input_bytes(&self, bytes: usize) -> String {
        self.0.sentence("input-bytes", &[], &[("bytes", bytes as u64)])
    }

    /// Returns the words that stand for bytes that are no text, of a media type.
    pub(crate) fn binary(&self, kind: &str, bytes: u64) -> String {
        self.0.sentence("binary", &[("kind", kind.to_owned())], &[("bytes", bytes)])
    }

    /// Returns the word for a kind, none for `other`.
    pub(crate) fn kind(&self, kind: ToolKind) -> String {
        match word_of(kind) {
            "" => String::new(),
            word => self.say(&format!("kind-{}", word.replace('_', "-"))),
        }
    }

    /// Says in this language why a call did not complete, where that is a sentence of the protocol's
    /// or of our own, which agents get in English; else as the agent says it.
    pub(crate) fn reason(&self, said: &str) -> String {
        let ended = || {
            REASONS.iter().find_map(|(reason, key)| {
                let acted = said.strip_prefix(reason.sentence())?.trim_start();
                match acted {
                    "" => Some(self.say(key)),
                    _ if acted == ENGLISH.say(ACTED) => {
                        Some(format!("{} {}", self.say(key), self.say(ACTED)))
                    }
                    _ => None,
                }
            })
        };
        let refused = || {
            SENT.iter().find_map(|key| {
                let before = said.strip_suffix('.')?.strip_suffix(&*ENGLISH.say(key))?;
                Some(format!("{before}{}.", self.say(key)))
            })
        };
        ended().or_else(refused).unwrap_or_else(|| said.to_owned())
    }
}

/// Returns the protocol's word for a kind, none for `other`.
pub(crate) fn word_of(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Think => "think",
        ToolKind::Fetch => "fetch",
        ToolKind::SwitchMode => "switch_mode",
        _ => "",
    }
}

const CATALOGUES: &[(&str, &str)] =
    &[("en", include_str!("../locales/en.ftl")), ("de", include_str!("../locales/de.ftl"))];

const REASONS: [(Reason, &str); 7] = [
    (Reason::User, "reason-user"),
    (Reason::Turn, "reason-turn"),
    (Reason::Permission, "reason-permission"),
    (Reason::Timeout, "reason-timeout"),
    (Reason::Shutdown, "reason-shutdown"),
    (Reason::Error, "reason-error"),
    (Reason::Dropped, "reason-dropped"),
];

const ACTED: &str = "may-have-acted";

/// Errors with which `callboard exec` answers a request that nobody was asked about.
const SENT: [&str; 2] = ["sent-rejected-all", "sent-unasked"];

#[cfg(test)]
mod tests {
    use super::{CATALOGUES, ENGLISH, REASONS, Words};
    use pretty_assertions::assert_eq;

    /// The keys, each with the variables of its message.
    fn keys(messages: &str) -> Vec<(&str, Vec<&str>)> {
        let mut keys: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in messages.lines().filter(|line| !line.starts_with('#')) {
            if let Some((key, _)) = line.split_once(" = ") {
                keys.push((key, Vec::new()));
            }
            let names = line.split('$').skip(1);
            let names = names.map(|rest| rest.split(' ').next().unwrap_or_default());
            if let Some((_, variables)) = keys.last_mut() {
                variables.extend(names);
                variables.sort_unstable();
                variables.dedup();
            }
        }
        keys
    }

    #[test]
    fn each_locale_has_every_word() {
        let (_, english) = CATALOGUES[0];
        for (locale, messages) in CATALOGUES {
            assert_eq!(keys(messages), keys(english), "{locale}");
            let words = Words::in_locale(locale);
            assert!(keys(english).iter().all(|(key, _)| words.0.has(key)), "{locale}");
        }
    }

    #[test]
    fn why_a_call_ended_is_said_in_the_language_of_the_user() {
        let german = Words::in_locale("de");
        for (reason, key) in REASONS {
            assert_eq!(ENGLISH.say(key), reason.sentence());
            assert_eq!(german.reason(reason.sentence()), german.say(key));
            assert_eq!(ENGLISH.reason(reason.sentence()), reason.sentence());
        }
        for (said, expected) in [
            (
                "Cancelled by the user. It may have had effects already.",
                "Vom Benutzer abgebrochen. Es hat vielleicht schon etwas bewirkt.",
            ),
            (
                "Nicht ausgeführt: --deny-all rejects whatever is asked.",
                "Nicht ausgeführt: --deny-all lehnt jede Frage ab.",
            ),
            ("Not permitted. Or so.", "Not permitted. Or so."),
            ("a.txt: no such file", "a.txt: no such file"),
        ] {
            assert_eq!(german.reason(said), expected);
            assert_eq!(ENGLISH.reason(said), said);
        }
    }
}
