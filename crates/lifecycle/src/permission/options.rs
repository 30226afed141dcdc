//! The options of a permission request, and the interpretation of answers.

use std::path::Path;

use acp_types::{PermissionOption, PermissionOptionKind};
use callboard_text::{escape_invisible, head};

use super::{ClientDecision, PermissionAnswer};
use crate::effects::{Effect, Effects};
use crate::limits::{MAX_OPTION_SCOPE_BYTES, MAX_REJECTION_REASON_BYTES};
use crate::rules::{
    ArgvPrefix, Matcher, RuleScope, describe_matcher, prefix_for_permission_option,
};
use crate::title::Titles;

/// A permission option: its kind, its name, and how long the answer is remembered.
struct OptionSpec {
    id: &'static str,
    kind: PermissionOptionKind,
    /// The message id of the option's name.
    message_id: &'static str,
    scope: Option<RuleScope>,
}

/// The id of the option that allows only a preview of a call.
const PREVIEW_ID: &str = "preview";

/// The id of the option that allows a call once.
pub(super) const ALLOW_ONCE_ID: &str = "allow";

/// The id of the option that rejects a call once.
pub(super) const REJECT_ONCE_ID: &str = "reject";

/// Every option, in the order in which clients show them. The preview is the last one, because
/// programs that answer for the user select the first option that allows a call.
///
/// A rejection is remembered for the session at most. For a permanent denial, the user has to write
/// a rule.
const OPTION_SPECS: [OptionSpec; 6] = [
    OptionSpec {
        id: ALLOW_ONCE_ID,
        kind: PermissionOptionKind::AllowOnce,
        message_id: "allow-once",
        scope: None,
    },
    OptionSpec {
        id: "allow_always",
        kind: PermissionOptionKind::AllowAlways,
        message_id: "allow-always-session",
        scope: Some(RuleScope::Session),
    },
    OptionSpec {
        id: "allow_project",
        kind: PermissionOptionKind::AllowAlways,
        message_id: "allow-always-project",
        scope: Some(RuleScope::Project),
    },
    OptionSpec {
        id: REJECT_ONCE_ID,
        kind: PermissionOptionKind::RejectOnce,
        message_id: "reject-once",
        scope: None,
    },
    OptionSpec {
        id: "reject_always",
        kind: PermissionOptionKind::RejectAlways,
        message_id: "reject-always-session",
        scope: Some(RuleScope::Session),
    },
    OptionSpec {
        id: PREVIEW_ID,
        kind: PermissionOptionKind::AllowOnce,
        message_id: "allow-preview",
        scope: None,
    },
];

/// The effects that a remembered answer would cover.
///
/// By default an answer covers exactly the effects of the call, because the user has seen one
/// command and not every command with the same prefix. There is one exception: common commands that
/// build, test or inspect are remembered for the project by their first words. The arguments of
/// such commands differ each time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RememberedEffects {
    effects: Vec<Effect>,
    common_prefix: Option<ArgvPrefix>,
}

impl RememberedEffects {
    pub(crate) fn new(effects: Vec<Effect>) -> Self {
        let common_prefix = match &*effects {
            [Effect::Run { command, .. }] => prefix_for_permission_option(command),
            _ => None,
        };
        Self { effects, common_prefix }
    }

    /// Returns the matchers of the rules that an answer with this scope would add.
    pub(crate) fn matchers(&self, scope: RuleScope) -> Vec<Matcher> {
        match &self.common_prefix {
            Some(prefix) if scope == RuleScope::Project => vec![Matcher::Argv(prefix.clone())],
            _ => self.effects.iter().cloned().map(Matcher::Effect).collect(),
        }
    }
}

/// Creates the options of a request. If an option remembers the answer, its name lists the
/// remembered effects and says for how long. Such an option is omitted if this list is empty or too
/// long for a button. The option for a preview is omitted unless the effects of the call offer one.
pub(crate) fn permission_options(
    memory: &RememberedEffects,
    call: &Effects,
    scopes: &[RuleScope],
    display: impl Fn(&Path) -> String,
    titles: &Titles,
) -> Vec<PermissionOption> {
    let name = |choice: &OptionSpec| match choice.scope {
        None if choice.id == PREVIEW_ID && !call.has_preview_offer() => None,
        None => Some(titles.render_untruncated(choice.message_id, &[])),
        Some(scope) if scopes.contains(&scope) => {
            let matchers = memory.matchers(scope);
            let words: Vec<_> =
                matchers.iter().map(|it| describe_matcher(it, &display, titles)).collect();
            let words = words.join(", ");
            let is_readable = (1..=MAX_OPTION_SCOPE_BYTES).contains(&words.len());
            is_readable.then(|| {
                titles.render_with_formatted_arguments(choice.message_id, &[], &[("what", words)])
            })
        }
        Some(_) => None,
    };
    let option =
        |choice: &OptionSpec| Some(PermissionOption::new(choice.id, name(choice)?, choice.kind));
    OPTION_SPECS.iter().filter_map(option).collect()
}

/// Removes the options whose answers are remembered beyond the session.
pub(crate) fn drop_stored_options(options: &mut Vec<PermissionOption>) {
    let stored =
        OPTION_SPECS.iter().filter(|choice| choice.scope.is_some_and(RuleScope::is_stored));
    let stored: Vec<_> = stored.map(|choice| choice.id).collect();
    options.retain(|option| !stored.contains(&&*option.id));
}

/// Interprets an answer. Only an option of the request that allows the call counts as permission.
/// An unknown option, an error or a missing answer denies the call.
pub(crate) fn interpret_answer(
    answer: PermissionAnswer,
    offered: &[PermissionOption],
) -> ClientDecision {
    let (option_id, reason) = match answer {
        PermissionAnswer::Cancelled => return ClientDecision::Cancelled,
        PermissionAnswer::Failed(error) => return ClientDecision::Unanswered(error),
        PermissionAnswer::Selected { option_id, reason } => {
            (option_id, reason.and_then(clean_rejection_reason))
        }
    };
    let is_offered = offered.iter().any(|option| option.id == option_id);
    let choice = OPTION_SPECS.iter().find(|choice| is_offered && choice.id == option_id);
    let Some(choice) = choice else { return ClientDecision::NotOffered };
    match choice.kind {
        PermissionOptionKind::AllowOnce | PermissionOptionKind::AllowAlways => {
            ClientDecision::Allowed { remember: choice.scope, is_preview: choice.id == PREVIEW_ID }
        }
        _ => ClientDecision::Rejected { remember: choice.scope, reason },
    }
}

/// Cleans the user's reason for a rejection: makes invisible characters visible and truncates the
/// reason to 2 KiB. Returns `None` for an empty text.
pub(crate) fn clean_rejection_reason(reason: impl AsRef<str>) -> Option<String> {
    let shown = escape_invisible(head(reason.as_ref().trim(), MAX_REJECTION_REASON_BYTES));
    let shown = head(&shown, MAX_REJECTION_REASON_BYTES);
    (!shown.is_empty()).then(|| shown.to_owned())
}

#[cfg(test)]
#[cfg(feature = "titles")]
mod tests {
    use super::{RememberedEffects, permission_options};
    use crate::effects::{Effect, Effects};
    use crate::limits::MAX_OPTION_SCOPE_BYTES;
    use crate::rules::RuleScope;
    use crate::title::Titles;

    fn names(locale: &str, effect: Effect) -> Vec<String> {
        let memory = RememberedEffects::new(vec![effect]);
        let scopes = [RuleScope::Session, RuleScope::Project];
        let display = |path: &std::path::Path| path.display().to_string();
        let titles = Titles::builtin_for_locale(locale);
        let options = permission_options(&memory, &Effects::empty(), &scopes, display, &titles);
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
    fn a_command_too_long_for_a_button_is_not_remembered() {
        let command = format!("ls\n{}", "x".repeat(MAX_OPTION_SCOPE_BYTES.max(8 << 10)));
        let run = Effect::Run { command, cwd: "/p".into() };
        assert_eq!(names("en", run), ["Allow once", "Reject once"]);
    }
}
