//! Who may do what: remembered rules first, then the policy, and when in doubt, ask.
//!
//! A rule matches effects and nothing else. Deny wins, and the order of rules does not matter.

use crate::effects::{Effect, Effects};
use crate::limits;

/// What to do about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// Let it run.
    Allow,
    /// Ask the client.
    Ask,
    /// Do not let it run.
    Deny,
}

/// A remembered answer: this effect, exactly, is allowed or denied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    effect: Effect,
    allows: bool,
}

/// The remembered answers of one session.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Rule>);

/// What to do about effects that no rule speaks of.
///
/// ```
/// use acp_lifecycle::{Effect, Policy, Verdict};
///
/// #[derive(Debug)]
/// struct ReadOnly;
///
/// impl Policy for ReadOnly {
///     fn judge(&self, effect: &Effect) -> Verdict {
///         match effect {
///             Effect::Read(_) => Verdict::Allow,
///             _ => Verdict::Deny,
///         }
///     }
/// }
/// assert_eq!(ReadOnly.judge(&Effect::Unknown), Verdict::Deny);
/// ```
pub trait Policy: std::fmt::Debug + Send + Sync {
    /// Judges one effect that no rule speaks of.
    fn judge(&self, effect: &Effect) -> Verdict;
}

/// Reads are allowed, everything else is asked about. The policy of a new session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskPolicy;

impl Policy for AskPolicy {
    fn judge(&self, effect: &Effect) -> Verdict {
        match effect {
            Effect::Read(_) => Verdict::Allow,
            _ => Verdict::Ask,
        }
    }
}

/// Everything is allowed. For tests, and for users who said so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowPolicy;

impl Policy for AllowPolicy {
    fn judge(&self, _: &Effect) -> Verdict {
        Verdict::Allow
    }
}

impl Rule {
    /// Returns the effect that it speaks of.
    #[must_use]
    pub fn effect(&self) -> &Effect {
        &self.effect
    }

    /// Returns whether it allows the effect; it denies it otherwise.
    #[must_use]
    pub fn is_allowing(&self) -> bool {
        self.allows
    }
}

impl Rules {
    /// Returns what is remembered, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// Forgets a rule. Returns whether it was remembered.
    pub fn revoke(&mut self, rule: &Rule) -> bool {
        let before = self.0.len();
        self.0.retain(|other| other != rule);
        self.0.len() < before
    }

    /// Remembers an answer for each effect that `policy` alone would not allow. Returns whether
    /// all of them are remembered: an unknown effect never is, and there are at most 1,024.
    pub fn remember(&mut self, effects: &Effects, policy: &dyn Policy, allows: bool) -> bool {
        let mut all = true;
        for effect in effects.iter().filter(|effect| policy.judge(effect) != Verdict::Allow) {
            let rule = Rule { effect: effect.clone(), allows };
            if *effect == Effect::Unknown || self.0.len() >= limits::RULES {
                all = false;
            } else if !self.0.contains(&rule) {
                self.0.push(rule);
            }
        }
        all
    }

    /// Judges a call: denied if one effect is, allowed if all are, asked about otherwise.
    #[must_use]
    pub fn judge(&self, effects: &Effects, policy: &dyn Policy) -> Verdict {
        let mut verdict = Verdict::Allow;
        for effect in effects.iter() {
            match self.judge_one(effect, policy) {
                Verdict::Deny => return Verdict::Deny,
                Verdict::Ask => verdict = Verdict::Ask,
                Verdict::Allow => {}
            }
        }
        verdict
    }

    fn judge_one(&self, effect: &Effect, policy: &dyn Policy) -> Verdict {
        let mut remembered = None;
        for rule in self.0.iter().filter(|rule| rule.effect == *effect) {
            if !rule.allows {
                return Verdict::Deny;
            }
            remembered = Some(Verdict::Allow);
        }
        match (policy.judge(effect), remembered) {
            (Verdict::Deny, _) => Verdict::Deny,
            (judged, remembered) => remembered.unwrap_or(judged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AllowPolicy, AskPolicy, Policy, Rules, Verdict};
    use crate::effects::{Effect, Effects};
    use proptest::prelude::{Just, Strategy, any, prop_oneof};
    use proptest::{collection::vec, proptest};

    #[derive(Debug)]
    struct DenyPolicy;

    impl Policy for DenyPolicy {
        fn judge(&self, _: &Effect) -> Verdict {
            Verdict::Deny
        }
    }

    fn effect() -> impl Strategy<Value = Effect> {
        let path = || (0..3_u8).prop_map(|name| format!("/{name}").into());
        prop_oneof![
            path().prop_map(Effect::Read),
            path().prop_map(Effect::Write),
            path().prop_map(Effect::Delete),
            (0..3_u8, path()).prop_map(|(n, cwd)| Effect::Run { command: n.to_string(), cwd }),
            Just(Effect::Unknown),
        ]
    }

    fn effects() -> impl Strategy<Value = Effects> {
        vec(effect(), 0..3).prop_map(Effects::from_iter)
    }

    fn rules(answers: &[(Effects, bool)]) -> Rules {
        let mut rules = Rules::default();
        for (effects, allows) in answers {
            rules.remember(effects, &AskPolicy, *allows);
        }
        rules
    }

    #[test]
    fn without_rules_reads_are_allowed_and_the_rest_is_asked_about() {
        let judge = |effect| Rules::default().judge(&Effects::from(effect), &AskPolicy);
        assert_eq!(judge(Effect::Read("/a".into())), Verdict::Allow);
        assert_eq!(judge(Effect::Write("/a".into())), Verdict::Ask);
        assert_eq!(judge(Effect::Unknown), Verdict::Ask);
        assert_eq!(Rules::default().judge(&Effects::none(), &AskPolicy), Verdict::Allow);
    }

    #[test]
    fn an_answer_covers_the_same_effect_and_no_other() {
        let run = |command: &str, cwd: &str| {
            Effects::from(Effect::Run { command: command.to_owned(), cwd: cwd.into() })
        };
        let rules = rules(&[(run("cargo test", "/a"), true)]);
        assert_eq!(rules.judge(&run("cargo test", "/a"), &AskPolicy), Verdict::Allow);
        assert_eq!(rules.judge(&run("cargo test", "/b"), &AskPolicy), Verdict::Ask);
        assert_eq!(rules.judge(&run("cargo test; rm -rf .", "/a"), &AskPolicy), Verdict::Ask);
        assert_eq!(rules.judge(&run("cargo test", "/a"), &DenyPolicy), Verdict::Deny);
    }

    #[test]
    fn a_rule_that_is_revoked_counts_no_more() {
        let write = Effects::from(Effect::Write("/a".into()));
        let mut rules = rules(&[(write.clone(), true), (write.clone(), false)]);
        assert_eq!(rules.judge(&write, &AskPolicy), Verdict::Deny);
        let denial = rules.iter().find(|rule| !rule.is_allowing()).unwrap().clone();
        assert_eq!(denial.effect(), &Effect::Write("/a".into()));
        assert!(rules.revoke(&denial) && !rules.revoke(&denial));
        assert_eq!(rules.judge(&write, &AskPolicy), Verdict::Allow);
    }

    #[test]
    fn the_unknown_is_never_remembered() {
        let mut rules = Rules::default();
        assert!(!rules.remember(&Effects::from(Effect::Unknown), &AskPolicy, true));
        assert_eq!(rules.judge(&Effects::from(Effect::Unknown), &AskPolicy), Verdict::Ask);
    }

    fn strictness(verdict: Verdict) -> u8 {
        match verdict {
            Verdict::Allow => 0,
            Verdict::Ask => 1,
            Verdict::Deny => 2,
        }
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut answers in vec((effects(), any::<bool>()), 0..6), call in effects()) {
            let verdict = rules(&answers).judge(&call, &AskPolicy);
            answers.reverse();
            assert_eq!(rules(&answers).judge(&call, &AskPolicy), verdict);
        }

        #[test]
        fn a_denial_never_allows_more(answers in vec((effects(), any::<bool>()), 0..6), denied in effects(), call in effects()) {
            for policy in [&AskPolicy as &dyn Policy, &AllowPolicy, &DenyPolicy] {
                let mut rules = rules(&answers);
                let before = rules.judge(&call, policy);
                rules.remember(&denied, policy, false);
                assert!(strictness(rules.judge(&call, policy)) >= strictness(before));
            }
        }
    }
}
