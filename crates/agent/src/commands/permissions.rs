//! `/permissions`: the rules that hold in a session, and taking them back.

use std::fmt::Write as _;

use acp_lifecycle::{Rule, Session};
use futures::FutureExt as _;

use super::{Asked, SlashCommand};

pub(super) const COMMAND: SlashCommand = SlashCommand {
    name: "permissions",
    hint: "[revoke NUMBER|all]",
    description: "list what is allowed and rejected without asking, or take it back",
    run: |asked, arguments| std::future::ready(run(asked, arguments)).boxed(),
};

fn run(asked: Asked<'_>, arguments: &str) -> String {
    asked.handle.with(|session, _| match words(arguments)[..] {
        [] => list(session),
        ["revoke", "all"] => revoke(session, |_| true),
        ["revoke", number] => match number.parse::<u64>() {
            Ok(number) => revoke(session, |at| at == number),
            Err(_) => USAGE.to_owned(),
        },
        _ => USAGE.to_owned(),
    })
}

fn words(arguments: &str) -> Vec<&str> {
    arguments.split_whitespace().collect()
}

fn list(session: &Session) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if let Some(why) = session.rules().unreadable() {
        let _ =
            write!(text, "Stored rules cannot be read, so everything is asked about: {why}\n\n");
    }
    for (number, rule) in session.rules().numbered() {
        // No list with numbers: Markdown would number it anew.
        let _ = writeln!(text, "- {number}: {}", told(session, rule));
    }
    match session.rules().iter().next() {
        Some(_) => format!("{text}\n{USAGE}"),
        None => format!("{text}Nothing is remembered."),
    }
}

/// Revokes the rules whose numbers are asked for.
fn revoke(session: &mut Session, is_asked_for: impl Fn(u64) -> bool) -> String {
    let numbered = session.rules().numbered().filter(|(number, _)| is_asked_for(*number));
    let rules: Vec<_> = numbered.map(|(_, rule)| rule.clone()).collect();
    let mut text = String::new();
    for rule in rules {
        session.revoke(&rule);
        let _ = writeln!(text, "- Revoked: {}", told(session, &rule));
    }
    if text.is_empty() { "There is no such rule.".to_owned() } else { text }
}

fn told(session: &Session, rule: &Rule) -> String {
    rule.describe(|path| session.display(path))
}

const USAGE: &str =
    "`/permissions revoke NUMBER` takes one of them back, `/permissions revoke all` all.";
