//! The remembered decisions of a session, for a process that continues the session later.

use std::collections::BTreeSet;
use std::path::PathBuf;

use callboard_text::{path_text, unquote_path};
use serde::{Deserialize, Serialize};

use super::Session;
use crate::limits::MAX_UNREVIEWED_FILES;
use crate::rules::{Rule, RuleScope};

/// The remembered decisions of a session: see [`Session::permission_memory`].
///
/// The decisions are valid only in the folders for which they were made. The caller stores these
/// folders together with the decisions, and must not restore the decisions in other folders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PermissionMemory {
    /// The rules of the session.
    pub rules: Vec<Rule>,
    /// The paths, as text, of the files that were changed without a person's approval. If a command
    /// may run one of these files, a rule or a remembered answer cannot allow the command without a
    /// new permission request.
    pub unreviewed_files: BTreeSet<String>,
}

impl Session {
    /// Returns the rules with session scope, and the files that were changed without a person's
    /// approval.
    #[must_use]
    pub fn permission_memory(&self) -> PermissionMemory {
        let is_of_session = |rule: &&Rule| rule.scope == RuleScope::Session;
        let files = self.permissions.unreviewed_files();
        PermissionMemory {
            rules: self.rules().iter().filter(is_of_session).cloned().collect(),
            unreviewed_files: files.map(|path| path_text(path).into_owned()).collect(),
        }
    }

    /// Restores the decisions of an earlier process. Rules whose scope is not the session are
    /// dropped, because they are stored elsewhere. If the session cannot hold all rules, a denying
    /// rule may be missing. The client is then asked about every call.
    pub fn restore_permission_memory(&mut self, memory: PermissionMemory) {
        let PermissionMemory { rules, unreviewed_files } = memory;
        let rules = rules.into_iter().filter(|rule| rule.scope == RuleScope::Session).collect();
        self.add_loaded_rules(Ok(rules));
        let files = unreviewed_files.iter().take(MAX_UNREVIEWED_FILES);
        let files: BTreeSet<PathBuf> = files.map(|text| unquote_path(text).into_owned()).collect();
        self.permissions.restore_unreviewed_files(files);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::{Effect, Matcher, Verdict};

    fn rule(scope: RuleScope) -> Rule {
        Rule {
            scope,
            verdict: Verdict::Allow,
            matcher: Matcher::Effect(Effect::Write("/p/a".into())),
        }
    }

    #[test]
    fn only_session_rules_and_unreviewed_files_are_restored() {
        let mut session = Session::new("/p");
        for scope in [RuleScope::Turn, RuleScope::Session, RuleScope::Project, RuleScope::User] {
            assert!(session.add_rule(rule(scope)));
        }
        let files = BTreeSet::from(["/p/a".into(), "/p/b".into()]);
        session.permissions.restore_unreviewed_files(files);
        let memory = session.permission_memory();
        assert_eq!(memory.rules, [rule(RuleScope::Session)]);
        let json = serde_json::to_string(&memory).unwrap();
        let mut later = Session::new("/p");
        later.restore_permission_memory(serde_json::from_str(&json).unwrap());
        assert_eq!(later.permission_memory(), memory);
        let files: Vec<_> = later.permissions.unreviewed_files().collect();
        assert_eq!(files, [Path::new("/p/a"), Path::new("/p/b")]);
    }

    #[test]
    fn a_rule_of_another_scope_is_dropped_and_an_unknown_form_is_refused() {
        let mut session = Session::new("/p");
        let rules = vec![rule(RuleScope::User), rule(RuleScope::Turn)];
        session
            .restore_permission_memory(PermissionMemory { rules, ..PermissionMemory::default() });
        assert_eq!(session.rules().iter().count(), 0);
        for wrong in
            [json!({"rules": []}), json!({"rules": [{"scope": "session"}], "unreviewed_files": []})]
        {
            serde_json::from_value::<PermissionMemory>(wrong).unwrap_err();
        }
    }
}
