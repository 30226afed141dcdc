//! The command `/permissions`, which lists the rules of a session, keeps rules for the project, and
//! revokes rules.

use std::fmt::Write as _;
use std::future::ready;

use acp_lifecycle::{Rule, Session};

use super::{SlashCommand, SlashCommandContext};

pub(super) fn command() -> SlashCommand {
    let description = "list the remembered permissions, keep one for the project, or revoke it";
    SlashCommand::new("permissions", description, |asked| {
        Box::pin(ready(list_keep_or_revoke_rules(asked)))
    })
    .with_hint("[keep NUMBER | revoke NUMBER|all]")
}

fn list_keep_or_revoke_rules(asked: SlashCommandContext<'_>) -> String {
    asked.session.update(|session, _| match split_at_whitespace(asked.arguments)[..] {
        [] => list_rules(session),
        ["keep", number] => match number.parse() {
            Ok(number) if asked.rule_persister.is_some() => keep_rule_for_project(session, number),
            Ok(_) => NOT_SAVED.to_owned(),
            Err(_) => USAGE.to_owned(),
        },
        ["revoke", "all"] => revoke_rules(session, |_| true),
        ["revoke", number] => match number.parse::<u64>() {
            Ok(number) => revoke_rules(session, |at| at == number),
            Err(_) => USAGE.to_owned(),
        },
        _ => USAGE.to_owned(),
    })
}

fn split_at_whitespace(arguments: &str) -> Vec<&str> {
    arguments.split_whitespace().collect()
}

fn list_rules(session: &Session) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if let Some(why) = session.rules().load_error() {
        let _ =
            write!(text, "Stored rules cannot be read, so everything is asked about: {why}\n\n");
    }
    for (number, rule) in session.rules().iter_numbered() {
        // The list is not a numbered Markdown list, because Markdown would renumber it.
        let _ = writeln!(text, "- {number}: {}", describe_rule(session, rule));
    }
    match session.rules().iter().next() {
        Some(_) => format!("{text}\n{USAGE}"),
        None => format!("{text}Nothing is remembered."),
    }
}

/// Converts a rule of the session to a rule of the project; see [`Rule::widened_for_project`].
fn keep_rule_for_project(session: &mut Session, number: u64) -> String {
    let found = session.rules().iter_numbered().find(|(at, _)| *at == number);
    let Some(rule) = found.map(|(_, rule)| rule.clone()) else { return NO_SUCH_RULE.to_owned() };
    if session.rules().load_error().is_some() {
        return NOT_SAVED.to_owned();
    }
    if rule.scope.is_stored() {
        return format!("It is kept already: {}", describe_rule(session, &rule));
    }
    let kept = rule.widened_for_project();
    session.revoke_rule(&rule);
    if !session.add_rule(kept.clone()) {
        session.add_rule(rule);
        return NOT_SAVED.to_owned();
    }
    format!("- Kept: {}\n", describe_rule(session, &kept))
}

/// Revokes the rules with the requested numbers.
fn revoke_rules(session: &mut Session, is_asked_for: impl Fn(u64) -> bool) -> String {
    let numbered = session.rules().iter_numbered().filter(|(number, _)| is_asked_for(*number));
    let rules: Vec<_> = numbered.map(|(_, rule)| rule.clone()).collect();
    let mut text = String::new();
    for rule in rules {
        session.revoke_rule(&rule);
        let _ = writeln!(text, "- Revoked: {}", describe_rule(session, &rule));
    }
    if text.is_empty() { NO_SUCH_RULE.to_owned() } else { text }
}

fn describe_rule(session: &Session, rule: &Rule) -> String {
    rule.describe(|path| session.display_path(path))
}

const USAGE: &str = "`/permissions keep NUMBER` keeps one of the session for later sessions in this \
                     project, a common command such as `cargo test` by its first words. \
                     `/permissions revoke NUMBER` takes one back, `/permissions revoke all` all of \
                     them.";

const NO_SUCH_RULE: &str = "There is no such rule.";

const NOT_SAVED: &str = "Rules of this session cannot be saved, so they end with it.";
