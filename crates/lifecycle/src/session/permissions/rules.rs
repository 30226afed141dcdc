//! The rules of a session, and their changes that outlive the session.

use super::Session;
use crate::limits::MAX_UNSAVED_RULE_CHANGES;
use crate::rules::{Rule, RuleChange, RuleScope, RuleStoreError, Rules};

impl Session {
    /// Loads the rules of the session's project and of the user, as returned by a
    /// [`RuleStore`](crate::RuleStore).
    ///
    /// If rules could not be loaded, a missing rule might deny any call. The client is therefore
    /// asked about every call that is not already denied, and no answer is remembered.
    pub fn add_loaded_rules(&mut self, loaded: Result<Vec<Rule>, RuleStoreError>) {
        let all_hold = loaded.and_then(|rules| {
            let all_hold = rules.into_iter().all(|rule| self.permissions.rules.add_rule(rule));
            all_hold.then_some(()).ok_or_else(|| RuleStoreError::new("too many rules"))
        });
        if let Err(error) = all_hold {
            self.permissions.rules.set_load_error(error.to_string());
        }
    }

    /// Adds options that remember an answer for the project. Enable these options only if the
    /// session's [rule changes](Self::take_rule_changes) are saved.
    pub fn enable_project_rule_options(&mut self) {
        self.permissions.scopes = vec![RuleScope::Session, RuleScope::Project];
    }

    /// Returns the rules of the session.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.permissions.rules
    }

    /// Adds a rule of any scope. Returns false if the session has the maximum number of rules.
    /// Rules of a project or of the user must be saved: see [`Session::take_rule_changes`].
    pub fn add_rule(&mut self, rule: Rule) -> bool {
        let holds = self.permissions.rules.add_rule(rule.clone());
        if holds {
            self.queue_rule_change(RuleChange::Add(rule));
        }
        holds
    }

    /// Removes a rule. Returns whether the rule existed. Rules of a project or of the user must be
    /// removed from the store as well: see [`Session::take_rule_changes`].
    pub fn revoke_rule(&mut self, rule: &Rule) -> bool {
        let was_there = self.permissions.rules.remove_rule(rule);
        if was_there {
            self.queue_rule_change(RuleChange::Remove(rule.clone()));
        }
        was_there
    }

    /// Takes the pending changes of rules that outlive the session. The caller saves the changes in
    /// a [`RuleStore`](crate::RuleStore). At most 1,024 changes wait. If the limit is reached, a
    /// further rule applies to the session only.
    pub fn take_rule_changes(&mut self) -> Vec<RuleChange> {
        self.permissions.unsaved_changes.drain(..).collect()
    }

    /// Limits an added rule to this session, because its change could not be saved. If the change
    /// removes a rule, this method does nothing.
    pub fn limit_unsaved_rule_to_session(&mut self, change: RuleChange) {
        if let RuleChange::Add(rule) = change
            && self.permissions.rules.remove_rule(&rule)
        {
            self.permissions.rules.add_rule(Rule { scope: RuleScope::Session, ..rule });
        }
    }

    /// Removes the rules that apply until the end of the turn.
    pub(in crate::session) fn remove_turn_rules(&mut self) {
        self.permissions.rules.remove_rules_of_scope(RuleScope::Turn);
    }

    fn queue_rule_change(&mut self, change: RuleChange) {
        if !change.rule().scope.is_stored() {
            return;
        }
        if self.permissions.unsaved_changes.len() < MAX_UNSAVED_RULE_CHANGES {
            self.permissions.unsaved_changes.push_back(change);
        } else {
            self.limit_unsaved_rule_to_session(change);
        }
    }
}
