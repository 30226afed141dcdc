//! The permissions of a session: permission requests and answers.

mod rules;
mod unreviewed_files;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use acp_types::{PermissionOption, ToolCallId};
use callboard_shell::AnalysisError;
use callboard_text::escape_invisible;

use super::Session;
use crate::board::Timestamp;
use crate::catch_panic::catch_panic;
use crate::effects::Effects;
use crate::ids::PermissionId;
use crate::outbox::{FirstReportTiming, OutboxItem};
use crate::permission::{
    self, ClientDecision, Grant, GrantKind, PermissionAnswer, PermissionOutcome, PermissionSubject,
    PermitDecision, RememberedEffects, UnansweredReason, UnaskedDenialReason,
};
use crate::rules::{
    AskExceptReadsPolicy, ENGLISH_TITLES, Policy, PolicyVerdicts, Rule, RuleChange, RuleScope,
    Rules, Verdict,
};
use crate::title::Titles;

/// The permission state of a session.
#[derive(Debug)]
pub(super) struct SessionPermissions {
    rules: Rules,
    policy: Arc<dyn Policy>,
    /// Scopes in which an answer may be remembered.
    scopes: Vec<RuleScope>,
    /// Changes of stored rules that the caller has not saved yet.
    unsaved_changes: VecDeque<RuleChange>,
    /// Whether the client can be asked for the reason of a rejection.
    asks_rejection_reason: bool,
    /// The names of permission options, and notes.
    titles: Arc<Titles>,
    requests: HashMap<PermissionId, PermissionRequest>,
    last_request: u64,
    /// Files that were changed without a person's approval, i.e. a rule, the policy or the approver
    /// permitted the change. The set is cleared when a person permits a command whose request names
    /// these files. The set contains at most 256 files. If it is full, further files may be
    /// missing.
    unreviewed_files: BTreeSet<PathBuf>,
    /// Total number of changes of files that were made without a person's approval.
    unreviewed_changes: u64,
}

impl Default for SessionPermissions {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            policy: Arc::new(AskExceptReadsPolicy),
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
    /// The call that needs permission.
    pub call: ToolCallId,
    /// The options that the client may select.
    pub options: Vec<PermissionOption>,
    stage: PendingQuestionKind,
    effects: Effects,
    /// The effects that a remembered answer covers. A remembered answer covers exactly the effects
    /// that the options name.
    memory: RememberedEffects,
    subject: PermissionSubject,
    asked_at: Instant,
    unreviewed_files: Vec<PathBuf>,
    /// Total number of unreviewed changes when the request was created.
    unreviewed_changes: u64,
}

/// The question that is sent to the client: permission, or the reason of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingQuestionKind {
    Permission,
    RejectionReason,
}

impl PermissionRequest {
    /// Returns the effects of the call, with its tool and kind.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Returns the subject of the request, with the complete arguments and the working directory.
    #[must_use]
    pub fn subject(&self) -> &PermissionSubject {
        &self.subject
    }

    /// Returns the files that a command of the call may run and that were changed without a
    /// person's approval. At most 256 files are returned. A note in the call names at most 12 of
    /// these files.
    #[must_use]
    pub fn unreviewed_changed_files(&self) -> &[PathBuf] {
        &self.unreviewed_files
    }
}

/// The source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// A person, through the client.
    Client,
    /// The approver, i.e. code of the embedding program. No person sees its decisions, and its
    /// rules are not saved.
    #[cfg(feature = "tokio")]
    Approver,
}

/// The input of a policy, which is copied from the session. The policy is foreign code, so it is
/// called without a lock on the session.
#[derive(Debug)]
pub(crate) struct PolicyCheck {
    effects: Effects,
    policy: Arc<dyn Policy>,
}

impl PolicyCheck {
    /// Returns the policy to call.
    #[cfg(feature = "tokio")]
    pub(crate) fn policy(&self) -> Arc<dyn Policy> {
        self.policy.clone()
    }

    pub(crate) fn judge_effects(self) -> Result<PolicyVerdicts, UnaskedDenialReason> {
        catch_panic(|| PolicyVerdicts::from_policy(self.effects, &*self.policy))
            .ok_or(UnaskedDenialReason::PolicyPanicked)
    }
}

impl SessionPermissions {
    /// Returns the total number of ended requests.
    #[cfg(feature = "tokio")]
    pub(super) fn ended_request_count(&self) -> u64 {
        self.last_request - self.requests.len() as u64
    }

    /// Returns whether a permission request for the call waits for its answer.
    pub(super) fn is_call_awaiting_permission(&self, id: &ToolCallId) -> bool {
        self.requests.values().any(|request| request.call == *id)
    }

    /// Formats a note in the language of the session.
    fn localized_note(&self, key: &str, texts: &[(&str, String)]) -> String {
        self.titles.render_unescaped_with_counts(key, texts, &[])
    }
}

impl Session {
    /// Sets the language of permission options and notes from a locale, e.g. `de`. The default
    /// language is English. English is also used if the locale has no catalogue, or without the
    /// feature `titles`.
    pub fn set_locale(&mut self, locale: &str) {
        self.permissions.titles = Arc::new(Titles::builtin_for_locale(locale));
    }

    /// Returns the messages in the language of the session.
    #[cfg(feature = "tokio")]
    pub(crate) fn localized_messages(&self) -> Arc<Titles> {
        self.permissions.titles.clone()
    }

    /// Sets the policy, which judges effects that no rule matches. Returns the previous policy.
    /// Dropping the previous policy may run foreign code. Callers should therefore release their
    /// lock on the session before they drop the previous policy.
    pub fn replace_policy(&mut self, policy: Arc<dyn Policy>) -> Arc<dyn Policy> {
        std::mem::replace(&mut self.permissions.policy, policy)
    }

    /// Enables a request for the reason if the client rejects a call without a reason. The session
    /// then enqueues an [`OutboxItem::RejectionReasonRequest`], and the call waits for
    /// [`Session::apply_rejection_reason`]. Call this method only for clients that can show a form.
    pub fn enable_rejection_reason_requests(&mut self) {
        self.permissions.asks_rejection_reason = true;
    }

    /// Decides whether a call may run. If neither the rules nor the policy decide, the client is
    /// asked.
    ///
    /// `is_whole` states whether the request shows everything that will run. If `is_whole` is
    /// false, the answer cannot be remembered.
    pub fn decide_or_ask_permission(
        &mut self,
        id: &ToolCallId,
        effects: &Effects,
        subject: PermissionSubject,
        is_whole: bool,
        now: Timestamp,
    ) -> PermitDecision {
        let judgement = match self.policy_check(id, effects).and_then(PolicyCheck::judge_effects) {
            Ok(judgement) => judgement,
            Err(denial) => return PermitDecision::Denied(denial),
        };
        let permit = self.decide_or_prepare_request(id, &judgement, subject, is_whole, now);
        if let PermitDecision::AwaitingAnswer(request) = permit {
            self.enqueue_permission_request(request, now);
        }
        permit
    }

    /// Enqueues a permission request that waits for an answer, so that it is sent to the client.
    pub(crate) fn enqueue_permission_request(&mut self, id: PermissionId, now: Timestamp) {
        if self.permissions.requests.contains_key(&id) {
            self.enqueue_after_messages(
                OutboxItem::PermissionRequest(id),
                FirstReportTiming::NotFirst,
                now,
            );
        }
    }

    /// Returns the policy check for the effects of an open call.
    pub(crate) fn policy_check(
        &self,
        id: &ToolCallId,
        effects: &Effects,
    ) -> Result<PolicyCheck, UnaskedDenialReason> {
        let call = self.board.open_call_report(id).ok_or(UnaskedDenialReason::CallEnded)?;
        let effects = effects.clone().with_tool(&*call.name, call.kind);
        Ok(PolicyCheck { effects, policy: self.permissions.policy.clone() })
    }

    /// Returns whether a policy is still the session's policy.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_current_policy(&self, policy: &Arc<dyn Policy>) -> bool {
        Arc::ptr_eq(&self.permissions.policy, policy)
    }

    /// Returns the policy check for a waiting request.
    pub(crate) fn policy_check_of_request(
        &self,
        id: PermissionId,
    ) -> Result<PolicyCheck, UnaskedDenialReason> {
        let request = self.pending_permission_request(id).ok_or(UnaskedDenialReason::CallEnded)?;
        Ok(PolicyCheck {
            effects: request.effects.clone(),
            policy: self.permissions.policy.clone(),
        })
    }

    /// Decides like [`Session::decide_or_ask_permission`]. If neither the rules nor the policy
    /// decide, this method creates the request but does not enqueue it.
    pub(crate) fn decide_or_prepare_request(
        &mut self,
        id: &ToolCallId,
        judgement: &PolicyVerdicts,
        subject: PermissionSubject,
        is_whole: bool,
        now: Timestamp,
    ) -> PermitDecision {
        if self.board.open_call_report(id).is_none() {
            return PermitDecision::Denied(UnaskedDenialReason::CallEnded);
        }
        self.set_subtitle(id, None, now);
        let effects = judgement.effects();
        match self.verdict_or_denial(judgement) {
            Ok(Verdict::Allow) => {
                // A preview changes no files yet.
                if !effects.requires_preview() {
                    self.record_unreviewed_files(effects);
                }
                return PermitDecision::Granted(Grant::new(subject, GrantKind::unasked(effects)));
            }
            Ok(_) => {}
            Err(denial) => return PermitDecision::Denied(denial),
        }
        if let Some(why) = self.permissions.rules.load_error() {
            let why = escape_invisible(why);
            let note = self.permissions.localized_note("rules-unreadable", &[("why", why)]);
            self.append_note_to_call(id, &note, now);
        }
        let mut unseen = Vec::new();
        if self.may_run_unreviewed_files(judgement) {
            unseen.extend(self.permissions.unreviewed_files.iter().cloned());
            self.append_note_to_call(id, &escape_invisible(&self.unreviewed_files_note()), now);
        }
        if let Some((words, why)) =
            catch_panic(|| self.permissions.rules.prefix_mismatch(effects)).flatten()
        {
            let why = analysis_error_text(&why, &self.permissions.titles);
            let note =
                self.permissions.localized_note("not-covered", &[("words", words), ("why", why)]);
            self.append_note_to_call(id, &escape_invisible(&note), now);
        }
        if effects.has_sandbox() {
            let key = if effects.requires_preview() { "asked-preview" } else { "asked-sandbox" };
            let note = self.permissions.localized_note(key, &[]);
            self.append_note_to_call(id, &note, now);
        }
        let is_shown = self.board.is_shown_in_full(id);
        if !is_shown {
            self.append_note_to_call(id, &self.permissions.localized_note("not-whole", &[]), now);
        }
        let memorable = self.permissions.rules.effects_to_remember(judgement);
        let memorable = memorable.filter(|_| is_whole && is_shown);
        let mut memory = memorable.map(RememberedEffects::new).unwrap_or_default();
        let mut options = self.build_permission_options(&memory, effects);
        let secrets = self.secrets();
        if options.iter().any(|option| matches!(secrets.redact(&option.name), Cow::Owned(_))) {
            memory = RememberedEffects::default();
            options = self.build_permission_options(&memory, effects);
        }
        self.permissions.last_request += 1;
        let request_id = PermissionId(self.permissions.last_request);
        let request = PermissionRequest {
            call: id.clone(),
            options,
            stage: PendingQuestionKind::Permission,
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

    /// Adds a note for the user to a call that waits for permission.
    fn append_note_to_call(&mut self, id: &ToolCallId, text: &str, now: Timestamp) {
        let note = self.board.add_note(id, text);
        self.enqueue_call_patch(id, note, FirstReportTiming::NotFirst, now);
    }

    /// Returns a request that waits for its answer.
    #[must_use]
    pub fn pending_permission_request(&self, id: PermissionId) -> Option<&PermissionRequest> {
        self.permissions.requests.get(&id)
    }

    /// Returns a request in the form that the approver receives. Options whose answers are
    /// remembered beyond the session are omitted, because an approver's rules are not saved.
    #[cfg(feature = "tokio")]
    pub(crate) fn approver_request(&self, id: PermissionId) -> Option<PermissionRequest> {
        let mut request = self.pending_permission_request(id)?.clone();
        permission::drop_stored_options(&mut request.options);
        Some(request)
    }

    /// Applies the client's answer. Returns `None` if the request was withdrawn or answered before,
    /// or if the session now requests the reason of a rejection.
    pub fn answer_permission(
        &mut self,
        id: PermissionId,
        answer: PermissionAnswer,
    ) -> Option<PermissionOutcome> {
        let judgement = self.policy_check_of_request(id).and_then(PolicyCheck::judge_effects);
        self.apply_permission_answer(id, answer, AnsweredBy::Client, judgement)
    }

    /// Applies the answer of the client or the approver, with the policy's current verdicts.
    pub(crate) fn apply_permission_answer(
        &mut self,
        id: PermissionId,
        answer: PermissionAnswer,
        by: AnsweredBy,
        judgement: Result<PolicyVerdicts, UnaskedDenialReason>,
    ) -> Option<PermissionOutcome> {
        let mut request = self.take_request_with_question(id, PendingQuestionKind::Permission)?;
        // Remove the request from the outbox. If the answer arrives before the request is sent, the
        // request must not be sent.
        self.outbox.remove_permission_items(id);
        let is_by_client = by == AnsweredBy::Client;
        if !is_by_client {
            permission::drop_stored_options(&mut request.options);
        }
        Some(match permission::interpret_answer(answer, &request.options) {
            ClientDecision::Allowed { remember, is_preview } => {
                let kind = GrantKind::answer(&request.effects, is_preview);
                self.apply_allowing_answer(request, (remember, kind), by, judgement)
            }
            ClientDecision::Rejected { remember: None, reason: None }
                if is_by_client && self.permissions.asks_rejection_reason =>
            {
                let request =
                    PermissionRequest { stage: PendingQuestionKind::RejectionReason, ..request };
                let asked = request.asked_at;
                self.permissions.requests.insert(id, request);
                self.enqueue_after_messages_at(
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

    /// Applies an answer that allows a call, unless the call has been denied or has become outdated
    /// since the request.
    fn apply_allowing_answer(
        &mut self,
        request: PermissionRequest,
        (remember, kind): (Option<RuleScope>, GrantKind),
        by: AnsweredBy,
        judgement: Result<PolicyVerdicts, UnaskedDenialReason>,
    ) -> PermissionOutcome {
        let is_current = request.unreviewed_changes == self.permissions.unreviewed_changes;
        match judgement.and_then(|judgement| self.is_still_permitted(&judgement)) {
            // A denial that was added since the request takes precedence over the answer.
            Err(denial) => return PermissionOutcome::Denied(denial),
            Ok(false) if !is_current => return PermissionOutcome::Outdated,
            Ok(_) => {}
        }
        match by {
            // A preview shows what the command changes, not what the named files do.
            AnsweredBy::Client
                if is_current && !kind.is_for_preview() && !request.unreviewed_files.is_empty() =>
            {
                self.permissions.unreviewed_files.clear();
            }
            AnsweredBy::Client => {}
            #[cfg(feature = "tokio")]
            AnsweredBy::Approver if kind.is_for_preview() => {}
            #[cfg(feature = "tokio")]
            AnsweredBy::Approver => self.record_unreviewed_files(&request.effects),
        }
        self.remember_answer(&request, remember, Verdict::Allow);
        PermissionOutcome::Granted(Grant::new(request.subject, kind))
    }

    /// Applies the client's reason for a rejection, or `None` if the client gave no reason. Returns
    /// `None` if no reason was requested.
    pub fn apply_rejection_reason(
        &mut self,
        id: PermissionId,
        reason: Option<&str>,
    ) -> Option<PermissionOutcome> {
        self.take_request_with_question(id, PendingQuestionKind::RejectionReason)?;
        self.outbox.remove_permission_items(id);
        Some(PermissionOutcome::Rejected {
            reason: reason.and_then(permission::clean_rejection_reason),
        })
    }

    /// Withdraws a request. A later answer has no effect.
    pub fn withdraw_permission_request(&mut self, id: PermissionId) {
        if self.permissions.requests.remove(&id).is_some() {
            self.outbox.remove_permission_items(id);
        }
    }

    fn build_permission_options(
        &self,
        memory: &RememberedEffects,
        effects: &Effects,
    ) -> Vec<PermissionOption> {
        let SessionPermissions { scopes, titles, .. } = &self.permissions;
        let display = |path: &Path| self.display_path(path);
        permission::permission_options(memory, effects, scopes, display, titles)
    }

    /// Withdraws the requests of a call.
    pub(super) fn withdraw_call_requests(&mut self, id: &ToolCallId) {
        let requests = self.permissions.requests.iter();
        let of_call = requests.filter(|(_, request)| request.call == *id);
        let mut ids: Vec<_> = of_call.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.into_iter().for_each(|id| self.withdraw_permission_request(id));
    }

    /// Returns the verdict on a call, or the reason for a denial.
    pub(crate) fn verdict_or_denial(
        &self,
        judgement: &PolicyVerdicts,
    ) -> Result<Verdict, UnaskedDenialReason> {
        match self.permissions.rules.combine_with_policy_verdicts(judgement) {
            Verdict::Deny
                if Rules::default().combine_with_policy_verdicts(judgement) == Verdict::Deny =>
            {
                Err(UnaskedDenialReason::Policy)
            }
            Verdict::Deny => Err(UnaskedDenialReason::Rule),
            Verdict::Allow if self.may_run_unreviewed_files(judgement) => Ok(Verdict::Ask),
            verdict => Ok(verdict),
        }
    }

    /// Returns whether a previously permitted call may run without another request. Returns an
    /// error if the call is denied now.
    pub(crate) fn is_still_permitted(
        &self,
        judgement: &PolicyVerdicts,
    ) -> Result<bool, UnaskedDenialReason> {
        self.verdict_or_denial(judgement)?;
        Ok(!self.may_run_unreviewed_files(judgement))
    }

    fn take_request_with_question(
        &mut self,
        id: PermissionId,
        question: PendingQuestionKind,
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
}

/// Returns the reason why a command could not be split into words, as the end of a sentence.
fn analysis_error_text(why: &AnalysisError, titles: &Titles) -> String {
    let sentence = |key, texts: &[(&str, &String)]| {
        let texts: Vec<_> = texts.iter().map(|(name, text)| (*name, (*text).clone())).collect();
        titles.render_unescaped_with_counts(key, &texts, &[])
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
