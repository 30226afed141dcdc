//! What decides over a session's calls, and how what is remembered gets into the store.
//!
//! It knows nothing of where and how rules are stored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_lifecycle::rules::{RuleChange, RuleStoreError};
use acp_lifecycle::{Rule, RuleStore, SessionHandle, Verdict};

use crate::permission_mode::PolicySource;

use crate::limits;

/// What decides over the calls of a new session.
pub(crate) struct PermissionSetup {
    pub(crate) policy_source: PolicySource,
    pub(crate) stored: Option<StoredRules>,
    pub(crate) offered_scopes: OfferedScopes,
    /// Whether the client can show a form, and so be asked why it rejected a call.
    pub(crate) asks_rejection_reason: bool,
}

/// For how long an answer to a permission request may be remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OfferedScopes {
    /// For the session. One option of each kind, so that a client's key for a kind is unambiguous.
    #[default]
    Session,
    /// For the session or the project.
    SessionAndProject,
}

/// The rules that are stored for a session.
pub(crate) struct StoredRules {
    store: Arc<dyn RuleStore>,
    rules: Result<Vec<Rule>, RuleStoreError>,
    /// Whether the session's tools reach the store; then nothing is saved there.
    is_exposed: bool,
}

impl PermissionSetup {
    /// Sets a session up that works in `roots`. Returns who saves what it remembers, if anyone
    /// does.
    pub(crate) fn configure(
        self,
        session: &mut acp_lifecycle::Session,
        roots: &[PathBuf],
    ) -> Option<Arc<dyn RuleStore>> {
        session.set_policy(self.policy_source.policy(roots));
        if self.asks_rejection_reason {
            session.ask_rejection_reasons();
        }
        let StoredRules { store, rules, is_exposed } = self.stored?;
        session.load_rules(rules);
        if is_exposed {
            return None;
        }
        if self.offered_scopes == OfferedScopes::SessionAndProject {
            session.offer_project_rules();
        }
        Some(store)
    }
}

impl StoredRules {
    /// Reads the rules for a session that works in `roots`, of which the first names its project.
    /// Blocks.
    pub(crate) fn load(store: Arc<dyn RuleStore>, roots: &[PathBuf]) -> Option<Self> {
        let mut rules = store.load(roots.first()?);
        if let Err(error) = &rules {
            tracing::error!(%error, "the rules cannot be read; everything is asked about");
        }
        let is_exposed = store.folder().is_some_and(|folder| is_within(folder, roots));
        if is_exposed {
            tracing::warn!("the rules lie where tools reach them; what allows is left out");
            let rules = rules.as_mut().ok();
            rules.into_iter().for_each(|rules| rules.retain(|rule| rule.verdict != Verdict::Allow));
        }
        Some(Self { store, rules, is_exposed })
    }
}

/// Whether a folder, there or not, lies beneath one of the roots.
fn is_within(folder: &Path, roots: &[PathBuf]) -> bool {
    let there = folder.ancestors().find_map(|above| above.canonicalize().ok());
    let real = there.as_deref().unwrap_or(folder);
    roots.iter().any(|root| real.starts_with(root) || folder.starts_with(root))
}

/// Saves what one session remembers beyond itself, in order.
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

    /// Saves what was remembered or revoked since, also if nobody waits for it any more. A rule
    /// that cannot be saved holds in the session only.
    pub(crate) async fn save(self: &Arc<Self>) -> Result<(), RuleStoreError> {
        let keeper = self.clone();
        // In a task of its own: what is taken out of the session is saved.
        let saved = tokio::spawn(async move { keeper.save_all().await }).await;
        saved.unwrap_or_else(|_| Err(RuleStoreError::new("the store failed")))
    }

    async fn save_all(&self) -> Result<(), RuleStoreError> {
        let _one = self.saving.lock().await;
        let mut saved = Ok(());
        for change in self.handle.update(|session, _| session.take_rule_changes()) {
            if let Err(error) = self.save_one(change.clone()).await {
                tracing::warn!(%error, "a rule cannot be saved");
                self.handle.update(|session, _| session.keep_unsaved_for_session(change));
                saved = Err(error);
            }
        }
        saved
    }

    /// Waits until what was remembered is in the store, because whoever sees a turn answered
    /// counts on it: the next session, for one. Gives up after [`RULES_SAVED`]; the store is not.
    ///
    /// [`RULES_SAVED`]: limits::RULES_SAVED
    pub(crate) async fn save_within_timeout(self: &Arc<Self>) {
        if tokio::time::timeout(limits::RULES_SAVE_TIMEOUT, self.save()).await.is_err() {
            tracing::warn!("the rules are still being saved");
        }
    }

    async fn save_one(&self, change: RuleChange) -> Result<(), RuleStoreError> {
        let (store, root) = (self.store.clone(), self.root.clone());
        let saved = tokio::task::spawn_blocking(move || store.save(&root, &[change])).await;
        saved.unwrap_or_else(|_| Err(RuleStoreError::new("the store failed")))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::{Instant, SystemTime};

    use acp_lifecycle::{Effect, Effects, PermissionSubject, PermitDecision, Session, Timestamp};
    use acp_types::PermissionOptionKind;
    use acp_types::{ToolCallPatch, ToolKind};

    use super::{OfferedScopes, PermissionSetup, StoredRules};
    use crate::permission_mode::{PermissionMode, PolicySource};
    use crate::rule_store::FileRuleStore;

    #[test]
    fn answers_for_the_project_are_offered_only_where_the_agent_was_built_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileRuleStore::new(folder.path().join("state"));
        let store: Arc<dyn acp_lifecycle::RuleStore> = Arc::new(store);
        let root = folder.path().join("project");
        for (offered, expected) in [
            (OfferedScopes::default(), vec!["allow_always"]),
            (OfferedScopes::SessionAndProject, vec!["allow_always", "allow_project"]),
        ] {
            let roots: [PathBuf; 1] = [root.clone()];
            let stored = StoredRules::load(store.clone(), &roots);
            let decides = PolicySource::Mode(PermissionMode::default());
            let mut session = Session::new(&root);
            let permission = PermissionSetup {
                policy_source: decides,
                stored,
                offered_scopes: offered,
                asks_rejection_reason: false,
            };
            assert!(permission.configure(&mut session, &roots).is_some());
            let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
            let id = "c".into();
            let call = ToolCallPatch::announce("terminal", "Run `true`", ToolKind::Execute);
            session.announce(&id, &"t".into(), call, now);
            let effects =
                Effects::from(Effect::Run { command: "true".to_owned(), cwd: root.clone() });
            let subject =
                PermissionSubject::for_call("terminal", &serde_json::json!({}), &root, b"");
            let PermitDecision::AwaitingAnswer(number) =
                session.permit(&id, &effects, subject, true, now)
            else {
                panic!("a command is asked about")
            };
            let options = &session.permission_request(number).unwrap().options;
            let always = options.iter().filter(|it| it.kind == PermissionOptionKind::AllowAlways);
            let always: Vec<_> = always.map(|option| option.id.clone()).collect();
            assert_eq!(always, expected);
        }
    }
}
