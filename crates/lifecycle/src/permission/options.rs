//! What a client may choose, and what its answer means.

use std::path::Path;

use acp_types::{PermissionOption, PermissionOptionKind};
use callboard_text::{head, visible};

use super::{Answer, Decision};
use crate::effects::Effect;
use crate::limits::{OPTION_BYTES, REASON_BYTES};
use crate::rules::{ArgvPrefix, Matcher, Scope, common, matched};
use crate::title::Titles;

/// An option: what it does, and for how long that is remembered.
struct Choice {
    id: &'static str,
    kind: PermissionOptionKind,
    /// The message that is its name.
    name: &'static str,
    scope: Option<Scope>,
}

/// The id of the option that allows a call this once.
pub(super) const ALLOW_ONCE: &str = "allow";

/// The id of the option that rejects a call this once.
pub(super) const REJECT_ONCE: &str = "reject";

/// Every option, in the order in which clients show them.
///
/// A rejection is remembered for the session; what must never happen is a rule to be written down.
const CHOICES: [Choice; 5] = [
    Choice {
        id: ALLOW_ONCE,
        kind: PermissionOptionKind::AllowOnce,
        name: "allow-once",
        scope: None,
    },
    Choice {
        id: "allow_always",
        kind: PermissionOptionKind::AllowAlways,
        name: "allow-always-session",
        scope: Some(Scope::Session),
    },
    Choice {
        id: "allow_project",
        kind: PermissionOptionKind::AllowAlways,
        name: "allow-always-project",
        scope: Some(Scope::Project),
    },
    Choice {
        id: REJECT_ONCE,
        kind: PermissionOptionKind::RejectOnce,
        name: "reject-once",
        scope: None,
    },
    Choice {
        id: "reject_always",
        kind: PermissionOptionKind::RejectAlways,
        name: "reject-always-session",
        scope: Some(Scope::Session),
    },
];

/// What an answer would remember.
///
/// That is the same effect again and nothing wider: whoever chooses a button has seen one command,
/// not what else begins like it. Only a common command that builds, tests or looks is remembered
/// for the project by its first words, because it is never the same twice.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Memory {
    effects: Vec<Effect>,
    common: Option<ArgvPrefix>,
}

impl Memory {
    pub(crate) fn of(effects: Vec<Effect>) -> Self {
        let common = match &*effects {
            [Effect::Run { command, .. }] => common(command),
            _ => None,
        };
        Self { effects, common }
    }

    /// Returns what the rules of a scope would speak of.
    pub(crate) fn matchers(&self, scope: Scope) -> Vec<Matcher> {
        match &self.common {
            Some(prefix) if scope == Scope::Project => vec![Matcher::Argv(prefix.clone())],
            _ => self.effects.iter().cloned().map(Matcher::Effect).collect(),
        }
    }
}

/// Makes the options of a request. Those that remember name all of what they remember, and for
/// how long; they are left out where that is nothing, or too long to be read on a button.
pub(crate) fn options(
    memory: &Memory,
    scopes: &[Scope],
    display: impl Fn(&Path) -> String,
    titles: &Titles,
) -> Vec<PermissionOption> {
    let name = |choice: &Choice| match choice.scope {
        None => Some(titles.render_whole(choice.name, &[])),
        Some(scope) if scopes.contains(&scope) => {
            let matchers = memory.matchers(scope);
            let words: Vec<_> = matchers.iter().map(|it| matched(it, &display, titles)).collect();
            let words = words.join(", ");
            let is_readable = (1..=OPTION_BYTES).contains(&words.len());
            is_readable.then(|| titles.render_with(choice.name, &[], &[("what", words)]))
        }
        Some(_) => None,
    };
    let option =
        |choice: &Choice| Some(PermissionOption::new(choice.id, name(choice)?, choice.kind));
    CHOICES.iter().filter_map(option).collect()
}

/// Leaves out the options that remember something beyond the session.
pub(crate) fn retain_unstored(options: &mut Vec<PermissionOption>) {
    let stored = CHOICES.iter().filter(|choice| choice.scope.is_some_and(Scope::is_stored));
    let stored: Vec<_> = stored.map(|choice| choice.id).collect();
    options.retain(|option| !stored.contains(&&*option.id));
}

/// Understands an answer. Only the option that was offered and says so allows anything: an
/// unknown option, an error, no answer are all a no.
pub(crate) fn decide(answer: Answer, offered: &[PermissionOption]) -> Decision {
    let (option_id, reason) = match answer {
        Answer::Cancelled => return Decision::Cancelled,
        Answer::Failed(error) => return Decision::Unanswered(error),
        Answer::Selected { option_id, reason } => (option_id, reason.and_then(heard)),
    };
    let is_offered = offered.iter().any(|option| option.id == option_id);
    let choice = CHOICES.iter().find(|choice| is_offered && choice.id == option_id);
    let Some(choice) = choice else { return Decision::Void };
    match choice.kind {
        PermissionOptionKind::AllowOnce | PermissionOptionKind::AllowAlways => {
            Decision::Allowed { remember: choice.scope }
        }
        _ => Decision::Rejected { remember: choice.scope, reason },
    }
}

/// Takes what a user said of a rejection: visible, at most 2 KiB; nothing of an empty text.
pub(crate) fn heard(reason: impl AsRef<str>) -> Option<String> {
    let shown = visible(head(reason.as_ref().trim(), REASON_BYTES));
    let shown = head(&shown, REASON_BYTES);
    (!shown.is_empty()).then(|| shown.to_owned())
}

#[cfg(test)]
#[cfg(feature = "titles")]
mod tests {
    use super::{Memory, options};
    use crate::effects::Effect;
    use crate::limits::OPTION_BYTES;
    use crate::rules::Scope;
    use crate::title::Titles;

    fn names(locale: &str, effect: Effect) -> Vec<String> {
        let memory = Memory::of(vec![effect]);
        let scopes = [Scope::Session, Scope::Project];
        let display = |path: &std::path::Path| path.display().to_string();
        let options = options(&memory, &scopes, display, &Titles::own(locale));
        options.into_iter().map(|option| option.name).collect()
    }

    #[test]
    fn options_are_in_the_language_of_the_session() {
        for (locale, always) in [
            ("de_DE.UTF-8", "Ändern von a.rs in dieser Sitzung immer erlauben"),
            ("fr", "Always allow changing a.rs in this session"),
        ] {
            let names = names(locale, Effect::Write("a.rs".into()));
            assert!(names.iter().any(|name| name == always), "{names:?}");
            let is_english =
                names.iter().all(|name| name.contains("llow") || name.contains("eject"));
            assert_eq!(is_english, locale == "fr", "{names:?}");
        }
    }

    #[test]
    fn a_command_that_no_button_can_show_is_not_remembered_by_one() {
        let command = format!("ls\n{}", "x".repeat(OPTION_BYTES.max(8 << 10)));
        let run = Effect::Run { command, cwd: "/p".into() };
        assert_eq!(names("en", run), ["Allow once", "Reject once"]);
    }
}
