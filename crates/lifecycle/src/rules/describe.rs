//! Descriptions of rules, for permission options and lists.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use super::{FileAccess, Matcher, Rule, RuleScope, Verdict};
use crate::effects::Effect;
use crate::title::Titles;

impl Rule {
    /// Describes the rule's verdict, matcher and scope, e.g. ``allow `cargo test` in this
    /// session``.
    ///
    /// `display` formats a path for users of the session.
    #[must_use]
    pub fn describe(&self, display: impl Fn(&Path) -> String) -> String {
        let verb = match self.verdict {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask about",
            Verdict::Deny => "reject",
        };
        format!(
            "{verb} {} {}",
            describe_matcher(&self.matcher, &display, &ENGLISH_TITLES),
            self.scope.description()
        )
    }
}

impl RuleScope {
    /// Describes the scope, e.g. "in this session".
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Turn => "in this turn",
            Self::Session => "in this session",
            Self::Project => "in this project",
            Self::User => "everywhere",
        }
    }
}

/// Describes the effects that a rule matches, in the language of `titles`. See
/// [`Titles::builtin_for_locale`].
pub(crate) fn describe_matcher(
    matcher: &Matcher,
    display: &impl Fn(&Path) -> String,
    titles: &Titles,
) -> String {
    let say = |key: &str, arguments: &[(&str, String)]| titles.render_untruncated(key, arguments);
    match matcher {
        Matcher::Effect(effect) => describe_effect(effect, display, titles),
        Matcher::Tool(name) => say("what-tool", &[("tool", name.clone())]),
        Matcher::Kind(kind) => say("what-kind", &[("kind", tool_kind_name(*kind))]),
        Matcher::Argv(prefix) => {
            let words: Vec<_> = prefix.words().iter().map(AsRef::as_ref).collect();
            say("what-commands", &[("prefix", words.join(" "))])
        }
        Matcher::Path { access, glob } => {
            let key = match access {
                FileAccess::Read => "what-read",
                FileAccess::Write => "what-write",
                FileAccess::Delete => "what-delete",
            };
            say(key, &[("path", glob.to_string())])
        }
        Matcher::Host(host) => say("what-connect", &[("host", host.to_string())]),
        Matcher::Mcp { server, tool } => match tool {
            None => say("what-mcp-all", &[("server", server.clone())]),
            Some(tool) => say("what-mcp", &[("tool", tool.clone()), ("server", server.clone())]),
        },
    }
}

/// Describes an effect, e.g. ``changing src/lib.rs`` or `` `cargo test` in sub ``.
fn describe_effect(effect: &Effect, display: &impl Fn(&Path) -> String, titles: &Titles) -> String {
    let say = |key: &str, arguments: &[(&str, String)]| titles.render_untruncated(key, arguments);
    match effect {
        Effect::Read(path) => say("what-read", &[("path", display(path))]),
        Effect::Search(path) => say("what-search", &[("path", display(path))]),
        Effect::Write(path) => say("what-write", &[("path", display(path))]),
        Effect::Delete(path) => say("what-delete", &[("path", display(path))]),
        Effect::Run { command, cwd } => match display(cwd) {
            cwd if cwd == "." => say("what-run", &[("command", command.clone())]),
            cwd => say("what-run-in", &[("command", command.clone()), ("cwd", cwd)]),
        },
        Effect::Connect(host) => say("what-connect", &[("host", host.clone())]),
        Effect::Mcp { server, tool, .. } => {
            say("what-mcp", &[("tool", tool.clone()), ("server", server.clone())])
        }
        Effect::Unknown => say("what-unknown", &[]),
    }
}

/// The English messages, parsed once.
pub(crate) static ENGLISH_TITLES: LazyLock<Arc<Titles>> =
    LazyLock::new(|| Arc::new(Titles::builtin_for_locale("en")));

fn tool_kind_name(kind: acp_types::ToolKind) -> String {
    let word = serde_json::to_value(kind).ok();
    word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
#[cfg(feature = "titles")]
mod tests {
    use crate::title::Titles;

    #[test]
    fn each_locale_has_every_message() {
        let keys = |locale: &str| {
            let lines = locale.lines().filter(|line| line.contains(" = "));
            lines.map(|line| line.split(" = ").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let english = keys(include_str!("../../locales/en.ftl"));
        assert_eq!(english, keys(include_str!("../../locales/de.ftl")));
        for key in english {
            assert!(
                Titles::builtin_for_locale("de").has(&key)
                    && Titles::builtin_for_locale("en").has(&key),
                "{key}"
            );
        }
    }
}
