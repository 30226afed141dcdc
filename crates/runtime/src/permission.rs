//! Sets up the permission policy for a session's calls, and saves the rules that the session
//! remembers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_lifecycle::rules::{RuleChange, RuleStoreError};
use acp_lifecycle::{Rule, RuleStore, SessionHandle, Verdict};
use acp_tools::Workspace;

use crate::limits;
use crate::permission_mode::PolicySource;
use crate::stored_sessions::StoredPermissions;

/// The permission settings for a new session.
pub(crate) struct PermissionSetup {
    pub(crate) policy_source: PolicySource,
    pub(crate) stored: Option<StoredRules>,
    /// The decisions of an earlier process, if the session is a stored session.
    pub(crate) restored: Result<Option<StoredPermissions>, RuleStoreError>,
    pub(crate) offered_scopes: OfferedRuleScopes,
    /// Whether the client supports forms. With a form, the agent can ask the user for the reason of
    /// a rejection.
    pub(crate) asks_rejection_reason: bool,
}

/// The scopes that a permission request offers for a remembered answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OfferedRuleScopes {
    /// An answer can be remembered only for the session. A request then has one option of each
    /// kind, so a client can assign a key to each kind.
    #[default]
    Session,
    /// An answer can be remembered for the session or for the project.
    SessionAndProject,
}

/// The rules of the session's project and user, and the store that contains them.
pub(crate) struct StoredRules {
    store: Arc<dyn RuleStore>,
    rules: Result<Vec<Rule>, RuleStoreError>,
    /// Whether the session's tools can access the folder of the store. If the tools can access the
    /// folder, no rule is saved in the store.
    is_exposed: bool,
}

impl PermissionSetup {
    /// Applies the settings to a session that works in `workspace`. Returns the store if the
    /// session's rules can be saved.
    pub(crate) fn configure_session(
        self,
        session: &mut acp_lifecycle::Session,
        workspace: &Workspace,
    ) -> Option<Arc<dyn RuleStore>> {
        let folders: Vec<_> = workspace.folders().map(Path::to_owned).collect();
        session.replace_policy(self.policy_source.policy(&folders));
        if self.asks_rejection_reason {
            session.enable_rejection_reason_requests();
        }
        match self.restored {
            Ok(Some(restored)) => restored.restore_if_same_folders(session, workspace),
            Ok(None) => {}
            Err(error) => session.add_loaded_rules(Err(error)),
        }
        let StoredRules { store, rules, is_exposed } = self.stored?;
        session.add_loaded_rules(rules);
        if is_exposed {
            return None;
        }
        if self.offered_scopes == OfferedRuleScopes::SessionAndProject {
            session.enable_project_rule_options();
        }
        Some(store)
    }
}

impl StoredRules {
    /// Loads the rules for a session whose project folders are `roots`. The first folder identifies
    /// the project. Blocks while it reads files.
    pub(crate) fn load_for_project(store: Arc<dyn RuleStore>, roots: &[PathBuf]) -> Option<Self> {
        let mut rules = store.load(roots.first()?);
        if let Err(error) = &rules {
            tracing::error!(%error, "the rules cannot be read; every call needs permission");
        }
        let is_exposed =
            store.rule_files_folder().is_some_and(|folder| is_within_roots(folder, roots));
        if is_exposed {
            tracing::warn!("the rules are stored where tools reach them; allow rules are ignored");
            let rules = rules.as_mut().ok();
            rules.into_iter().for_each(|rules| rules.retain(|rule| rule.verdict != Verdict::Allow));
        }
        Some(Self { store, rules, is_exposed })
    }
}

/// Returns whether a folder is inside one of the roots. The folder need not exist.
fn is_within_roots(folder: &Path, roots: &[PathBuf]) -> bool {
    let there = folder.ancestors().find_map(|above| above.canonicalize().ok());
    let real = there.as_deref().unwrap_or(folder);
    roots.iter().any(|root| real.starts_with(root) || folder.starts_with(root))
}

/// Saves rules of one session that also apply to other sessions, e.g. the rules of the project. The
/// changes of these rules are saved in their order.
pub(crate) struct RulePersister {
    handle: SessionHandle,
    store: Arc<dyn RuleStore>,
    root: PathBuf,
    saving: tokio::sync::Mutex<()>,
}

impl RulePersister {
    pub(crate) fn new(handle: SessionHandle, store: Arc<dyn RuleStore>, root: PathBuf) -> Self {
        Self { handle, store, root, saving: tokio::sync::Mutex::default() }
    }

    /// Saves the changes of rules since the last save. If the future is dropped, the save
    /// continues. A rule that cannot be saved applies only to this session.
    pub(crate) async fn save_pending_changes(self: &Arc<Self>) -> Result<(), RuleStoreError> {
        let keeper = self.clone();
        // The changes were removed from the session. A separate task saves them, so that they are
        // not lost if this future is dropped.
        let saved = tokio::spawn(async move { keeper.save_pending_changes_in_order().await }).await;
        saved.unwrap_or_else(|_| Err(RuleStoreError::new("the store failed")))
    }

    async fn save_pending_changes_in_order(&self) -> Result<(), RuleStoreError> {
        let _one = self.saving.lock().await;
        let mut saved = Ok(());
        for change in self.handle.update(|session, _| session.take_rule_changes()) {
            if let Err(error) = self.save_change_to_store(change.clone()).await {
                tracing::warn!(%error, "a rule cannot be saved");
                self.handle.update(|session, _| session.limit_unsaved_rule_to_session(change));
                saved = Err(error);
            }
        }
        saved
    }

    /// Waits until the remembered rules are saved, because a session that begins after the end of
    /// this turn must already use these rules. After [`limits::RULES_SAVE_TIMEOUT`], the method
    /// returns, and the save continues.
    pub(crate) async fn save_and_wait_until_timeout(self: &Arc<Self>) {
        if tokio::time::timeout(limits::RULES_SAVE_TIMEOUT, self.save_pending_changes())
            .await
            .is_err()
        {
            tracing::warn!("the rules are still being saved");
        }
    }

    async fn save_change_to_store(&self, change: RuleChange) -> Result<(), RuleStoreError> {
        let (store, root) = (self.store.clone(), self.root.clone());
        let saved =
            tokio::task::spawn_blocking(move || store.save_rule_changes(&root, &[change])).await;
        saved.unwrap_or_else(|_| Err(RuleStoreError::new("the store failed")))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::{Instant, SystemTime};

    use acp_lifecycle::{Effect, Effects, PermissionSubject, PermitDecision, Session, Timestamp};
    use acp_tools::Workspace;
    use acp_types::PermissionOptionKind;
    use acp_types::{ToolCallPatch, ToolKind};

    use super::{OfferedRuleScopes, PermissionSetup, StoredRules};
    use crate::permission_mode::{PermissionMode, PolicySource};
    use crate::rule_store::FileRuleStore;

    #[test]
    fn project_answers_are_offered_only_if_the_embedder_enables_them() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileRuleStore::new(folder.path().join("state"));
        let store: Arc<dyn acp_lifecycle::RuleStore> = Arc::new(store);
        let root = folder.path().join("project");
        fs::create_dir(&root).unwrap();
        let workspace = Workspace::new(root.clone(), Vec::new()).unwrap();
        for (offered, expected) in [
            (OfferedRuleScopes::default(), vec!["allow_always"]),
            (OfferedRuleScopes::SessionAndProject, vec!["allow_always", "allow_project"]),
        ] {
            let roots: [PathBuf; 1] = [root.clone()];
            let stored = StoredRules::load_for_project(store.clone(), &roots);
            let decides = PolicySource::Mode(PermissionMode::default());
            let mut session = Session::new(&root);
            let permission = PermissionSetup {
                policy_source: decides,
                stored,
                restored: Ok(None),
                offered_scopes: offered,
                asks_rejection_reason: false,
            };
            assert!(permission.configure_session(&mut session, &workspace).is_some());
            let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
            let id = "c".into();
            let call = ToolCallPatch::for_new_call("terminal", "Run `true`", ToolKind::Execute);
            session.announce_call(&id, &"t".into(), call, now);
            let effects =
                Effects::from(Effect::Run { command: "true".to_owned(), cwd: root.clone() });
            let subject =
                PermissionSubject::for_call("terminal", &serde_json::json!({}), &root, b"");
            let PermitDecision::AwaitingAnswer(number) =
                session.decide_or_ask_permission(&id, &effects, subject, true, now)
            else {
                panic!("a command is asked about")
            };
            let options = &session.pending_permission_request(number).unwrap().options;
            let always = options.iter().filter(|it| it.kind == PermissionOptionKind::AllowAlways);
            let always: Vec<_> = always.map(|option| option.id.clone()).collect();
            assert_eq!(always, expected);
        }
    }
}
