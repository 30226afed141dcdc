//! The part of a session that decides what may run: rules, questions, answers.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use acp_types::{PermissionOption, ToolCallId};
use callboard_shell::AnalysisError;
use callboard_text::visible;

use super::Session;
use crate::board::Timestamp;
use crate::catch_panic::catch_panic;
use crate::effects::{Effect, Effects};
use crate::ids::PermissionId;
use crate::limits::{self, MAX_UNSAVED_RULE_CHANGES};
use crate::outbox::{FirstReportTiming, OutboxItem};
use crate::permission::{
    self, ClientDecision, DenialReason, Grant, PermissionAnswer, PermissionOutcome,
    PermissionSubject, PermitDecision, RememberedEffects, UnansweredReason,
};
use crate::rules::{
    AskPolicy, ENGLISH_TITLES, Policy, PolicyVerdicts, Rule, RuleChange, RuleScope, RuleStoreError,
    Rules, Verdict, may_run_project_files,
};
use crate::title::Titles;

/// What a session knows of permissions.
#[derive(Debug)]
pub(super) struct SessionPermissions {
    rules: Rules,
    policy: Arc<dyn Policy>,
    /// How long an answer may be remembered.
    scopes: Vec<RuleScope>,
    /// Changes of stored rules that are to be saved.
    unsaved_changes: VecDeque<RuleChange>,
    /// Whether the client can be asked why it rejected a call.
    asks_rejection_reason: bool,
    /// The names of options, and notes.
    titles: Arc<Titles>,
    requests: HashMap<PermissionId, PermissionRequest>,
    last_request: u64,
    /// Files that were changed without asking a person since one last permitted a command in the
    /// knowledge of them. At most 256 are named; the last one stands for more.
    unreviewed_files: BTreeSet<PathBuf>,
    /// How many such changes there were, ever.
    unreviewed_changes: u64,
}

impl Default for SessionPermissions {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            policy: Arc::new(AskPolicy),
            scopes: vec![RuleScope::Session],
            unsaved_changes: VecDeque::new(),
            asks_rejection_reason: false,
            titles: ENGLISH_TITLES.clone(),
            requests: HashMap::new(),
            last_request: 0,
            unreviewed_files: BTreeSet::new(),
            unreviewed_changes: 0,
        }
    }
}

/// A permission request that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// The call it is about.
    pub call: ToolCallId,
    /// What the client may choose.
    pub options: Vec<PermissionOption>,
    stage: RequestStage,
    effects: Effects,
    /// What an answer that is remembered speaks of: just what the options name.
    memory: RememberedEffects,
    subject: PermissionSubject,
    asked_at: Instant,
    unreviewed_files: Vec<PathBuf>,
    /// How many files had been changed without a question when it was made.
    unreviewed_changes: u64,
}

/// What the client is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestStage {
    Permission,
    RejectionReason,
}

impl PermissionRequest {
    /// Returns what the call would do, and which tool of which kind would.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Returns what it would do it with: the whole arguments, and the folder.
    #[must_use]
    pub fn subject(&self) -> &PermissionSubject {
        &self.subject
    }

    /// Returns the files that a command of the call may run and that were changed without asking a
    /// person: at most 256, of which the call shows some.
    #[must_use]
    pub fn unreviewed_files(&self) -> &[PathBuf] {
        &self.unreviewed_files
    }
}

/// Who answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// A person, by the client.
    Client,
    /// A program of the embedder's: no person saw what it allows, and its rules are not saved.
    #[cfg(feature = "tokio")]
    Approver,
}

/// What a policy is to judge, taken out of the session: the policy is foreign code, which is
/// called under no lock.
#[derive(Debug)]
pub(crate) struct PolicyCheck {
    effects: Effects,
    policy: Arc<dyn Policy>,
}

impl PolicyCheck {
    /// Returns the policy that is to judge.
    #[cfg(feature = "tokio")]
    pub(crate) fn policy(&self) -> Arc<dyn Policy> {
        self.policy.clone()
    }

    pub(crate) fn judge(self) -> Result<PolicyVerdicts, DenialReason> {
        catch_panic(|| PolicyVerdicts::new(self.effects, &*self.policy))
            .ok_or(DenialReason::PolicyPanicked)
    }
}

impl SessionPermissions {
    /// Returns how many requests came to an end.
    #[cfg(feature = "tokio")]
    pub(super) fn ended_requests(&self) -> u64 {
        self.last_request - self.requests.len() as u64
    }

    /// Returns whether the client is asked about a call.
    pub(super) fn awaits_permission(&self, id: &ToolCallId) -> bool {
        self.requests.values().any(|request| request.call == *id)
    }

    /// Writes a note in the language of the session.
    fn sentence(&self, key: &str, texts: &[(&str, String)]) -> String {
        self.titles.sentence(key, texts, &[])
    }
}

impl Session {
    /// Writes permission options and notes about permissions in the language of a locale, such as
    /// `de`, from now on; in English where there are none in its language, at first, and
    /// without the feature `titles`.
    pub fn set_locale(&mut self, locale: &str) {
        self.permissions.titles = Arc::new(Titles::builtin(locale));
    }

    /// Returns the messages in the language of the session.
    #[cfg(feature = "tokio")]
    pub(crate) fn titles(&self) -> Arc<Titles> {
        self.permissions.titles.clone()
    }

    /// Sets the policy, which judges effects without a rule. Returns what was set before: dropping
    /// it may run code of its own, for which a lock around the session should be free.
    pub fn set_policy(&mut self, policy: Arc<dyn Policy>) -> Arc<dyn Policy> {
        std::mem::replace(&mut self.permissions.policy, policy)
    }

    /// Asks the client why it rejected a call, where it did not say: an [`Item::Reason`] follows,
    /// and the call waits for [`Session::explain`]. For clients that can show a form.
    pub fn ask_rejection_reasons(&mut self) {
        self.permissions.asks_rejection_reason = true;
    }

    /// Takes in the rules of the session's project and of the user, as a
    /// [`RuleStore`](crate::RuleStore) gave them.
    ///
    /// Rules that could not be read may deny anything: then everything is asked about that is not
    /// denied, and nothing is remembered.
    pub fn load_rules(&mut self, loaded: Result<Vec<Rule>, RuleStoreError>) {
        let all_hold = loaded.and_then(|rules| {
            let all_hold = rules.into_iter().all(|rule| self.permissions.rules.add(rule));
            all_hold.then_some(()).ok_or_else(|| RuleStoreError::new("there are too many rules"))
        });
        if let Err(error) = all_hold {
            self.permissions.rules.set_load_error(error.to_string());
        }
    }

    /// Lets answers be remembered for the project: for sessions whose
    /// [rule changes](Self::take_rule_changes) are saved.
    pub fn offer_project_rules(&mut self) {
        self.permissions.scopes = vec![RuleScope::Session, RuleScope::Project];
    }

    /// Returns the rules that hold in the session.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.permissions.rules
    }

    /// Adds a rule of any scope. Returns whether it holds now. One of a project or of the user is
    /// to be saved: see [`Session::take_rule_changes`].
    pub fn add_rule(&mut self, rule: Rule) -> bool {
        let holds = self.permissions.rules.add(rule.clone());
        if holds {
            self.queue_rule_change(RuleChange::Add(rule));
        }
        holds
    }

    /// Forgets a rule. Returns whether it was remembered. One of a project or of the user is to be
    /// forgotten by the store too: see [`Session::take_rule_changes`].
    pub fn revoke_rule(&mut self, rule: &Rule) -> bool {
        let was_there = self.permissions.rules.revoke(rule);
        if was_there {
            self.queue_rule_change(RuleChange::Remove(rule.clone()));
        }
        was_there
    }

    /// Takes the changes of rules that outlive the session, for whoever saves them in a
    /// [`RuleStore`](crate::RuleStore). At most 1,024 wait; a rule beyond holds in the session.
    pub fn take_rule_changes(&mut self) -> Vec<RuleChange> {
        self.permissions.unsaved_changes.drain(..).collect()
    }

    /// Notes that a change could not be saved: a rule that was added holds in this session only.
    pub fn keep_unsaved_for_session(&mut self, change: RuleChange) {
        if let RuleChange::Add(rule) = change
            && self.permissions.rules.revoke(&rule)
        {
            self.permissions.rules.add(Rule { scope: RuleScope::Session, ..rule });
        }
    }

    /// Decides whether a call may run: by rules and policy, else by asking the client.
    ///
    /// `is_whole` says that the request shows everything that will run; if it does not, the
    /// answer cannot be remembered.
    pub fn permit(
        &mut self,
        id: &ToolCallId,
        effects: &Effects,
        subject: PermissionSubject,
        is_whole: bool,
        now: Timestamp,
    ) -> PermitDecision {
        let judgement = match self.policy_check(id, effects).and_then(PolicyCheck::judge) {
            Ok(judgement) => judgement,
            Err(denial) => return PermitDecision::Denied(denial),
        };
        let permit = self.prepare_request(id, &judgement, subject, is_whole, now);
        if let PermitDecision::AwaitingAnswer(request) = permit {
            self.ask_client(request, now);
        }
        permit
    }

    /// Offers a request that waits to the client.
    pub(crate) fn ask_client(&mut self, id: PermissionId, now: Timestamp) {
        if self.permissions.requests.contains_key(&id) {
            self.enqueue(OutboxItem::PermissionRequest(id), FirstReportTiming::NotFirst, now);
        }
    }

    /// Returns what the policy is to judge of an open call.
    pub(crate) fn policy_check(
        &self,
        id: &ToolCallId,
        effects: &Effects,
    ) -> Result<PolicyCheck, DenialReason> {
        let call = self.board.tool_call(id).ok_or(DenialReason::CallEnded)?;
        let effects = effects.clone().for_tool(&*call.name, call.kind);
        Ok(PolicyCheck { effects, policy: self.permissions.policy.clone() })
    }

    /// Whether a policy is still that of the session.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_current_policy(&self, policy: &Arc<dyn Policy>) -> bool {
        Arc::ptr_eq(&self.permissions.policy, policy)
    }

    /// Returns what the policy is to judge of a request that waits.
    pub(crate) fn policy_check_of_request(
        &self,
        id: PermissionId,
    ) -> Result<PolicyCheck, DenialReason> {
        let request = self.permission_request(id).ok_or(DenialReason::CallEnded)?;
        Ok(PolicyCheck {
            effects: request.effects.clone(),
            policy: self.permissions.policy.clone(),
        })
    }

    /// Decides as [`Session::permit`] does, and makes the request that is to be answered where
    /// neither rules nor policy do.
    pub(crate) fn prepare_request(
        &mut self,
        id: &ToolCallId,
        judgement: &PolicyVerdicts,
        subject: PermissionSubject,
        is_whole: bool,
        now: Timestamp,
    ) -> PermitDecision {
        if self.board.tool_call(id).is_none() {
            return PermitDecision::Denied(DenialReason::CallEnded);
        }
        self.set_subtitle(id, None, now);
        let effects = judgement.effects();
        match self.decide(judgement) {
            Ok(Verdict::Allow) => {
                self.record_unreviewed_files(effects);
                return PermitDecision::Granted(Grant::new(subject));
            }
            Ok(_) => {}
            Err(denial) => return PermitDecision::Denied(denial),
        }
        let mut unseen = Vec::new();
        if self.may_run_unreviewed_files(judgement) {
            unseen.extend(self.permissions.unreviewed_files.iter().cloned());
            self.append_notice(id, &visible(&self.unreviewed_files_note()), now);
        }
        if let Some((words, why)) =
            catch_panic(|| self.permissions.rules.prefix_mismatch(effects)).flatten()
        {
            let why = analysis_error_text(&why, &self.permissions.titles);
            let note = self.permissions.sentence("not-covered", &[("words", words), ("why", why)]);
            self.append_notice(id, &visible(&note), now);
        }
        let is_shown = self.board.is_shown_in_full(id);
        if !is_shown {
            self.append_notice(id, &self.permissions.sentence("not-whole", &[]), now);
        }
        let memorable = self.permissions.rules.effects_to_remember(judgement);
        let memorable = memorable.filter(|_| is_whole && is_shown);
        let mut memory = memorable.map(RememberedEffects::new).unwrap_or_default();
        let mut options = self.options(&memory);
        let secrets = self.secrets();
        if options.iter().any(|option| matches!(secrets.redact(&option.name), Cow::Owned(_))) {
            memory = RememberedEffects::default();
            options = self.options(&memory);
        }
        self.permissions.last_request += 1;
        let request_id = PermissionId(self.permissions.last_request);
        let request = PermissionRequest {
            call: id.clone(),
            options,
            stage: RequestStage::Permission,
            effects: effects.clone(),
            memory,
            subject,
            asked_at: now.monotonic,
            unreviewed_files: unseen,
            unreviewed_changes: self.permissions.unreviewed_changes,
        };
        self.permissions.requests.insert(request_id, request);
        PermitDecision::AwaitingAnswer(request_id)
    }

    /// Adds a note for people to a call that is asked about.
    fn append_notice(&mut self, id: &ToolCallId, text: &str, now: Timestamp) {
        let note = self.board.add_note(id, text);
        self.enqueue_call(id, note, FirstReportTiming::NotFirst, now);
    }

    /// Returns a request that waits for its answer.
    #[must_use]
    pub fn permission_request(&self, id: PermissionId) -> Option<&PermissionRequest> {
        self.permissions.requests.get(&id)
    }

    /// Returns a request as an approver gets it, who can have nothing remembered beyond the session:
    /// nobody would save it.
    #[cfg(feature = "tokio")]
    pub(crate) fn approver_request(&self, id: PermissionId) -> Option<PermissionRequest> {
        let mut request = self.permission_request(id)?.clone();
        permission::drop_stored_options(&mut request.options);
        Some(request)
    }

    /// Takes the client's answer. Nothing for a request that was withdrawn or answered before, and
    /// for one whose reason is asked for now.
    pub fn answer_permission(
        &mut self,
        id: PermissionId,
        answer: PermissionAnswer,
    ) -> Option<PermissionOutcome> {
        let judgement = self.policy_check_of_request(id).and_then(PolicyCheck::judge);
        self.resolve_request(id, answer, AnsweredBy::Client, judgement)
    }

    /// Takes the answer of the client or the approver, with what the policy says of the request by now.
    pub(crate) fn resolve_request(
        &mut self,
        id: PermissionId,
        answer: PermissionAnswer,
        by: AnsweredBy,
        judgement: Result<PolicyVerdicts, DenialReason>,
    ) -> Option<PermissionOutcome> {
        let mut request = self.take_request(id, RequestStage::Permission)?;
        // An answer that came before its question: the question is void.
        self.outbox.withdraw_permission(id);
        let is_by_client = by == AnsweredBy::Client;
        if !is_by_client {
            permission::drop_stored_options(&mut request.options);
        }
        Some(match permission::interpret_answer(answer, &request.options) {
            ClientDecision::Allowed { remember } => {
                self.resolve_allowed(request, remember, by, judgement)
            }
            ClientDecision::Rejected { remember: None, reason: None }
                if is_by_client && self.permissions.asks_rejection_reason =>
            {
                let request = PermissionRequest { stage: RequestStage::RejectionReason, ..request };
                let asked = request.asked_at;
                self.permissions.requests.insert(id, request);
                self.enqueue_at(
                    OutboxItem::RejectionReasonRequest(id),
                    FirstReportTiming::NotFirst,
                    asked,
                );
                return None;
            }
            ClientDecision::Rejected { remember, reason } => {
                self.remember_answer(&request, remember, Verdict::Deny);
                match by {
                    AnsweredBy::Client => PermissionOutcome::Rejected { reason },
                    #[cfg(feature = "tokio")]
                    AnsweredBy::Approver => PermissionOutcome::RejectedByApprover { reason },
                }
            }
            ClientDecision::NotOffered => {
                PermissionOutcome::Unanswered(UnansweredReason::NotOffered)
            }
            ClientDecision::Unanswered(error) => {
                PermissionOutcome::Unanswered(UnansweredReason::ClientFailed(error))
            }
            ClientDecision::Cancelled => PermissionOutcome::Cancelled,
        })
    }

    /// Does what an answer says that allows a call, unless that holds no more.
    fn resolve_allowed(
        &mut self,
        request: PermissionRequest,
        remember: Option<RuleScope>,
        by: AnsweredBy,
        judgement: Result<PolicyVerdicts, DenialReason>,
    ) -> PermissionOutcome {
        let is_current = request.unreviewed_changes == self.permissions.unreviewed_changes;
        match judgement.and_then(|judgement| self.is_still_permitted(&judgement)) {
            // What was denied since it was asked about stays denied.
            Err(denial) => return PermissionOutcome::Denied(denial),
            Ok(false) if !is_current => return PermissionOutcome::Outdated,
            Ok(_) => {}
        }
        match by {
            AnsweredBy::Client if is_current && !request.unreviewed_files.is_empty() => {
                self.permissions.unreviewed_files.clear();
            }
            AnsweredBy::Client => {}
            #[cfg(feature = "tokio")]
            AnsweredBy::Approver => self.record_unreviewed_files(&request.effects),
        }
        self.remember_answer(&request, remember, Verdict::Allow);
        PermissionOutcome::Granted(Grant::new(request.subject))
    }

    /// Takes what the client said of a rejection, if it said anything. Nothing for a request whose
    /// reason is not asked for.
    pub fn explain_rejection(
        &mut self,
        id: PermissionId,
        reason: Option<&str>,
    ) -> Option<PermissionOutcome> {
        self.take_request(id, RequestStage::RejectionReason)?;
        self.outbox.withdraw_permission(id);
        Some(PermissionOutcome::Rejected {
            reason: reason.and_then(permission::clean_rejection_reason),
        })
    }

    /// Takes a request back; a later answer to it does nothing.
    pub fn withdraw_permission(&mut self, id: PermissionId) {
        if self.permissions.requests.remove(&id).is_some() {
            self.outbox.withdraw_permission(id);
        }
    }

    fn options(&self, memory: &RememberedEffects) -> Vec<PermissionOption> {
        let SessionPermissions { scopes, titles, .. } = &self.permissions;
        permission::permission_options(memory, scopes, |path| self.display_path(path), titles)
    }

    /// Takes the requests of a call back.
    pub(super) fn withdraw_call_requests(&mut self, id: &ToolCallId) {
        let requests = self.permissions.requests.iter();
        let of_call = requests.filter(|(_, request)| request.call == *id);
        let mut ids: Vec<_> = of_call.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.into_iter().for_each(|id| self.withdraw_permission(id));
    }

    /// Forgets what holds until the end of the turn.
    pub(super) fn end_turn_rules(&mut self) {
        self.permissions.rules.remove_scope(RuleScope::Turn);
    }

    /// Decides over a call; what is denied comes with what denies it.
    pub(crate) fn decide(&self, judgement: &PolicyVerdicts) -> Result<Verdict, DenialReason> {
        match self.permissions.rules.verdict_for(judgement) {
            Verdict::Deny if Rules::default().verdict_for(judgement) == Verdict::Deny => {
                Err(DenialReason::Policy)
            }
            Verdict::Deny => Err(DenialReason::Rule),
            Verdict::Allow if self.may_run_unreviewed_files(judgement) => Ok(Verdict::Ask),
            verdict => Ok(verdict),
        }
    }

    /// Whether a call that was permitted before needs no further question; what is denied since then
    /// stays denied.
    pub(crate) fn is_still_permitted(
        &self,
        judgement: &PolicyVerdicts,
    ) -> Result<bool, DenialReason> {
        self.decide(judgement)?;
        Ok(!self.may_run_unreviewed_files(judgement))
    }

    /// Whether a call runs, if not by the policy's leave, a command that may run files of the project
    /// while there are some that were changed without asking a person.
    fn may_run_unreviewed_files(&self, judgement: &PolicyVerdicts) -> bool {
        !self.permissions.unreviewed_files.is_empty()
            && judgement.effects().iter().any(may_run_project_files)
            && Rules::default().verdict_for(judgement) != Verdict::Allow
    }

    fn record_unreviewed_files(&mut self, effects: &Effects) {
        let SessionPermissions {
            unreviewed_files: unseen, unreviewed_changes: unseen_changes, ..
        } = &mut self.permissions;
        for effect in effects.iter() {
            if let Effect::Write(path) | Effect::Delete(path) = effect {
                *unseen_changes += 1;
                if unseen.len() < limits::MAX_UNREVIEWED_FILES {
                    unseen.insert(path.clone());
                }
            }
        }
    }

    fn unreviewed_files_note(&self) -> String {
        let SessionPermissions { unreviewed_files: unseen, .. } = &self.permissions;
        let named = unseen
            .iter()
            .take(limits::MAX_NAMED_UNREVIEWED_FILES)
            .map(|path| self.display_path(path));
        let named = ("named", named.collect::<Vec<_>>().join(", "));
        let more = unseen.len().saturating_sub(limits::MAX_NAMED_UNREVIEWED_FILES);
        let key = match more {
            0 => "unseen",
            _ if unseen.len() == limits::MAX_UNREVIEWED_FILES => "unseen-at-least",
            _ => "unseen-more",
        };
        visible(&self.permissions.sentence(key, &[named, ("more", more.to_string())]))
    }

    fn take_request(
        &mut self,
        id: PermissionId,
        question: RequestStage,
    ) -> Option<PermissionRequest> {
        let is_asked = |request: &&PermissionRequest| request.stage == question;
        self.permissions.requests.get(&id).filter(is_asked)?;
        self.permissions.requests.remove(&id)
    }

    fn remember_answer(
        &mut self,
        request: &PermissionRequest,
        scope: Option<RuleScope>,
        verdict: Verdict,
    ) {
        let Some(scope) = scope else { return };
        for matcher in request.memory.matchers(scope) {
            self.add_rule(Rule { scope, matcher, verdict });
        }
    }

    fn queue_rule_change(&mut self, change: RuleChange) {
        if !change.rule().scope.is_stored() {
            return;
        }
        if self.permissions.unsaved_changes.len() < MAX_UNSAVED_RULE_CHANGES {
            self.permissions.unsaved_changes.push_back(change);
        } else {
            self.keep_unsaved_for_session(change);
        }
    }
}

/// Says why the words of a command are not understood, as the end of a sentence.
fn analysis_error_text(why: &AnalysisError, titles: &Titles) -> String {
    let sentence = |key, texts: &[(&str, &String)]| {
        let texts: Vec<_> = texts.iter().map(|(name, text)| (*name, (*text).clone())).collect();
        titles.sentence(key, &texts, &[])
    };
    match why {
        AnalysisError::UnknownProgram(program) => sentence("not-known", &[("program", program)]),
        AnalysisError::UnknownWord { word, program } => {
            sentence("not-a-word", &[("word", word), ("program", program)])
        }
        AnalysisError::OutsideFolder { word } => sentence("leads-out", &[("word", word)]),
        other => other.to_string(),
    }
}
