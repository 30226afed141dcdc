//! Permission rules. Rules decide first, then the policy. In case of doubt, the client is asked.
//!
//! A rule matches only effects. A denying rule takes precedence over all other rules, and the order
//! of the rules does not matter.

mod argv;
mod describe;
mod matcher;
mod pattern;
mod policy;
mod protected;
mod store;

use callboard_shell::AnalysisError;
use serde::{Deserialize, Serialize};

use crate::effects::{Effect, Effects};
use crate::limits;
use matcher::ParsedEffect;

pub use argv::ArgvPrefix;
pub(crate) use argv::{may_run_project_files, prefix_for_permission_option};
pub(crate) use describe::{ENGLISH_TITLES, describe_matcher};
pub use matcher::{FileAccess, Matcher};
pub use pattern::{HostPattern, PathGlob, PatternError};
pub(crate) use policy::PolicyVerdicts;
pub use policy::{
    AcceptEditsPolicy, AllowInProjectPolicy, AskAlwaysPolicy, AskExceptReadsPolicy, Policy,
    ReadOnlyPolicy,
};
pub use protected::{
    agent_instruction_names, is_agent_instruction_file, is_executed_or_config_path, is_protected,
    is_protected_in_root,
};
pub use store::{MemoryRuleStore, RuleChange, RuleStore, RuleStoreError};

/// The certainty with which a denying or asking rule matches an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchCertainty {
    No,
    Maybe,
    Yes,
}

/// The decision about a call. Variants are ordered by strictness, and the strictest verdict takes
/// precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// Allow the call.
    Allow,
    /// Ask the client.
    Ask,
    /// Deny the call.
    Deny,
}

/// How long and where a rule applies. An answer that applies once is not stored as a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RuleScope {
    /// The rule applies until the running turn ends. A session runs one turn at a time. A turn that
    /// is [withdrawn](crate::Session::end_unstarted_turn) before it begins does not affect the
    /// rule.
    Turn,
    /// The rule applies until the session is closed.
    Session,
    /// The rule applies in every session with the same `cwd`. A [`RuleStore`] saves it.
    Project,
    /// The rule applies in every session of the user. A [`RuleStore`] saves it.
    User,
}

impl RuleScope {
    /// Returns whether a rule of this scope outlives its session.
    #[must_use]
    pub fn is_stored(self) -> bool {
        matches!(self, Self::Project | Self::User)
    }
}

/// A rule. For all effects that the rule matches, the rule allows or denies the effect, or requires
/// a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// How long and where the rule applies.
    pub scope: RuleScope,
    /// The effects that the rule matches.
    pub matcher: Matcher,
    /// The verdict on matching effects.
    pub verdict: Verdict,
}

impl Rule {
    /// Creates a rule.
    #[must_use]
    pub fn new(scope: RuleScope, matcher: Matcher, verdict: Verdict) -> Self {
        Self { scope, matcher, verdict }
    }

    /// Returns this rule with project scope. If the rule allows a command of a common program that
    /// builds, tests or reads, the returned rule matches the first words of the command, because
    /// the arguments vary between calls.
    #[must_use]
    pub fn widened_for_project(&self) -> Self {
        let prefix = match (&self.matcher, self.verdict) {
            (Matcher::Effect(Effect::Run { command, .. }), Verdict::Allow) => {
                prefix_for_permission_option(command)
            }
            _ => None,
        };
        let matcher = prefix.map_or_else(|| self.matcher.clone(), Matcher::Argv);
        Self { scope: RuleScope::Project, matcher, verdict: self.verdict }
    }

    /// Judges an effect if the rule matches. If it is uncertain whether a denying rule matches, the
    /// verdict is [`Verdict::Ask`].
    fn judge_effect(&self, effects: &Effects, seen: &ParsedEffect<'_>) -> Option<Verdict> {
        if self.verdict == Verdict::Allow {
            return self.matcher.allows(effects, seen).then_some(Verdict::Allow);
        }
        match self.matcher.deny_certainty(effects, seen) {
            MatchCertainty::No => None,
            MatchCertainty::Maybe
                if self.verdict == Verdict::Deny
                    && seen.is_search()
                    && effects.leaves_out_denied_files() =>
            {
                None
            }
            MatchCertainty::Maybe => Some(Verdict::Ask),
            MatchCertainty::Yes => Some(self.verdict),
        }
    }
}

/// The rules of one session.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Rules with their numbers.
    rules: Vec<(u64, Rule)>,
    last_number: u64,
    load_error: Option<String>,
}

impl Rules {
    /// Returns the rules, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.iter_numbered().map(|(_, rule)| rule)
    }

    /// Returns the rules with their numbers, oldest first. A number is never reused within a
    /// session, so a user can refer to a rule by its number later.
    pub fn iter_numbered(&self) -> impl Iterator<Item = (u64, &Rule)> {
        self.rules.iter().map(|(number, rule)| (*number, rule))
    }

    /// Returns the effects of the rules that allow exactly one effect, e.g. of the rules for
    /// remembered answers.
    pub fn exactly_allowed_effects(&self) -> impl Iterator<Item = &Effect> {
        self.iter().filter_map(|rule| match &rule.matcher {
            Matcher::Effect(effect) if rule.verdict == Verdict::Allow => Some(effect),
            _ => None,
        })
    }

    /// Adds a rule. Returns false, and does not add the rule, if the session already has 4,096
    /// other rules.
    pub fn add_rule(&mut self, rule: Rule) -> bool {
        if self.iter().any(|other| *other == rule) {
            return true;
        }
        let has_room = self.rules.len() < limits::MAX_SESSION_RULES;
        if has_room {
            self.last_number += 1;
            self.rules.push((self.last_number, rule));
        }
        has_room
    }

    /// Removes a rule. Returns whether the rule existed.
    pub fn remove_rule(&mut self, rule: &Rule) -> bool {
        let before = self.rules.len();
        self.rules.retain(|(_, other)| other != rule);
        self.rules.len() < before
    }

    /// Removes the rules of a scope.
    pub(crate) fn remove_rules_of_scope(&mut self, scope: RuleScope) {
        self.rules.retain(|(_, rule)| rule.scope != scope);
    }

    /// Records why stored rules could not be loaded. A missing rule might deny any call. From now
    /// on, every call therefore needs a permission request.
    pub fn set_load_error(&mut self, why: String) {
        self.load_error = Some(why);
    }

    /// Returns why stored rules could not be loaded, if loading failed.
    #[must_use]
    pub fn load_error(&self) -> Option<&str> {
        self.load_error.as_deref()
    }

    /// Judges a call. The call is denied if any of its effects is denied, and allowed if all of its
    /// effects are allowed. In all other cases, the client is asked.
    #[must_use]
    pub fn judge_call(&self, effects: &Effects, policy: &dyn Policy) -> Verdict {
        self.combine_with_policy_verdicts(&PolicyVerdicts::from_policy(effects.clone(), policy))
    }

    /// Combines the verdicts of the policy with the verdicts of the rules.
    pub(crate) fn combine_with_policy_verdicts(&self, judgement: &PolicyVerdicts) -> Verdict {
        let effects = judgement.effects();
        let each = judgement.effects_with_verdicts().map(|(effect, by_policy)| match by_policy {
            Verdict::Deny => Verdict::Deny,
            by_policy => self.strictest_rule_verdict(effects, effect).unwrap_or(by_policy),
        });
        self.whole_call_verdict(effects).max(each.max().unwrap_or(Verdict::Allow))
    }

    /// Returns the effects that an "always allow" answer must remember, so that the client is not
    /// asked about the same call again. The returned effects are the effects for which only the
    /// policy requires a request. Returns `None` if no effect may be remembered. No effect may be
    /// remembered if an effect is unknown, if a rule requires a request each time, or if the
    /// maximum number of rules is reached.
    #[must_use]
    pub(crate) fn effects_to_remember(&self, judgement: &PolicyVerdicts) -> Option<Vec<Effect>> {
        let (effects, mut asked) = (judgement.effects(), Vec::new());
        for (effect, by_policy) in judgement.effects_with_verdicts() {
            match self.strictest_rule_verdict(effects, effect) {
                Some(Verdict::Allow) => {}
                Some(_) => return None,
                None if by_policy == Verdict::Allow => {}
                None if *effect == Effect::Unknown => return None,
                None if asked.contains(effect) => {}
                None => asked.push(effect.clone()),
            }
        }
        let has_room = self.rules.len() + asked.len() <= limits::MAX_SESSION_RULES;
        let is_settled = self.whole_call_verdict(effects) == Verdict::Allow;
        (!asked.is_empty() && has_room && is_settled).then_some(asked)
    }

    /// Returns the verdict on the call as a whole. This verdict also applies to a call without
    /// effects.
    fn whole_call_verdict(&self, effects: &Effects) -> Verdict {
        let is_asked = self.load_error.is_some() || effects.is_always_asked();
        let floor = if is_asked { Verdict::Ask } else { Verdict::Allow };
        let of_call = self.iter().filter(|rule| rule.matcher.matches_whole_call(effects));
        of_call.map(|rule| rule.verdict).fold(floor, Verdict::max)
    }

    /// Finds a command that no [`ArgvPrefix`] rule allows, although the command begins with the
    /// words of such a rule. Returns these words, and the reason why the rule does not allow the
    /// command.
    pub(crate) fn prefix_mismatch(&self, effects: &Effects) -> Option<(String, AnalysisError)> {
        let prefixes = || {
            self.iter().filter_map(|rule| match (&rule.matcher, rule.verdict) {
                (Matcher::Argv(prefix), Verdict::Allow) => Some(prefix),
                _ => None,
            })
        };
        effects.iter().find_map(|effect| {
            let seen = ParsedEffect::new(effect);
            let (line, _) = seen.command_line_and_folder()?;
            line.commands.iter().find_map(|command| {
                let why = |prefix: &ArgvPrefix| {
                    Some((prefix.words().join(" "), prefix.mismatch_reason(command)?))
                };
                let (words, why) = prefixes().find_map(why)?;
                let is_allowed = prefixes().any(|prefix| prefix.allows(command));
                (!is_allowed).then_some((words, why))
            })
        })
    }

    /// Returns the strictest verdict of the rules on an effect, if any rule matches.
    fn strictest_rule_verdict(&self, effects: &Effects, effect: &Effect) -> Option<Verdict> {
        let seen = ParsedEffect::new(effect);
        let spoken = self.iter().filter_map(|rule| rule.judge_effect(effects, &seen)).max();
        spoken.or_else(|| self.allows_each_command(effects, &seen).then_some(Verdict::Allow))
    }

    /// Returns whether [`ArgvPrefix`] rules allow each command of a line. Every file that the line
    /// writes must also be listed as a separate effect, which is judged separately.
    fn allows_each_command(&self, effects: &Effects, seen: &ParsedEffect<'_>) -> bool {
        let Some((line, cwd)) = seen.command_line_and_folder() else { return false };
        let is_allowed = |command: &Vec<String>| {
            self.iter().any(|rule| match &rule.matcher {
                Matcher::Argv(prefix) => rule.verdict == Verdict::Allow && prefix.allows(command),
                _ => false,
            })
        };
        let is_declared_write = |target: &String| {
            let path = cwd.join(target);
            !target.contains("..")
                && effects.iter().any(|other| *other == Effect::Write(path.clone()))
        };
        // After a `cd`, a relative path may name another file.
        let moves =
            || line.commands.iter().any(|words| matches!(&*words[0], "cd" | "pushd" | "popd"));
        line.commands.iter().all(is_allowed)
            && (line.writes.is_empty() || line.writes.iter().all(is_declared_write) && !moves())
    }
}

#[cfg(test)]
mod tests;
