//! Rules in the words of people: on a permission option, in a list.

use std::fmt::Write as _;
use std::path::Path;

use super::{Access, Matcher, Rule, Scope, Verdict};
use crate::effects::Effect;
use crate::title::visible;

impl Rule {
    /// Says what it does, of what, and for how long: ``allow `cargo test` in this session``.
    ///
    /// `display` shows a path as people of the session call it.
    #[must_use]
    pub fn describe(&self, display: impl Fn(&Path) -> String) -> String {
        let verb = match self.verdict {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask about",
            Verdict::Deny => "reject",
        };
        format!("{verb} {} {}", matched(&self.matcher, &display), self.scope.words())
    }
}

impl Scope {
    /// Says how long it lasts: "in this session".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Turn => "in this turn",
            Self::Session => "in this session",
            Self::Project => "in this project",
            Self::User => "everywhere",
        }
    }
}

/// Says what a rule speaks of.
pub(crate) fn matched(matcher: &Matcher, display: &impl Fn(&Path) -> String) -> String {
    match matcher {
        Matcher::Effect(effect) => effect_words(effect, display),
        Matcher::Tool(name) => format!("the tool {}", visible(name)),
        Matcher::Kind(kind) => format!("tools of the kind {}", kind_word(*kind)),
        Matcher::Argv(prefix) => {
            let words = prefix.words().iter().map(|word| visible(word)).collect::<Vec<_>>();
            format!("commands that begin with `{}`", words.join(" "))
        }
        Matcher::Path { access, glob } => {
            let verb = match access {
                Access::Read => "reading",
                Access::Write => "changing",
                Access::Delete => "deleting",
            };
            format!("{verb} {}", visible(&glob.to_string()))
        }
        Matcher::Host(host) => format!("connecting to {host}"),
        Matcher::Mcp { server, tool } => {
            let mut words = format!("all tools of {}", visible(server));
            if let Some(tool) = tool {
                words.clear();
                // Writing to a string cannot fail.
                let _ = write!(words, "{} of {}", visible(tool), visible(server));
            }
            words
        }
    }
}

/// Says what an effect does: ``changing src/lib.rs``, `` `cargo test` in sub ``.
fn effect_words(effect: &Effect, display: &impl Fn(&Path) -> String) -> String {
    match effect {
        Effect::Read(path) => format!("reading {}", display(path)),
        Effect::Search(path) => format!("searching {}", display(path)),
        Effect::Write(path) => format!("changing {}", display(path)),
        Effect::Delete(path) => format!("deleting {}", display(path)),
        Effect::Run { command, cwd } => match display(cwd).as_str() {
            "." => format!("`{}`", visible(command)),
            cwd => format!("`{}` in {cwd}", visible(command)),
        },
        Effect::Connect(host) => format!("connecting to {}", visible(host)),
        Effect::Mcp { server, tool } => format!("{} of {}", visible(tool), visible(server)),
        Effect::Unknown => "what is not known".to_owned(),
    }
}

fn kind_word(kind: acp_types::ToolKind) -> String {
    let word = serde_json::to_value(kind).ok();
    word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
