//! The part of a session that decides what may run: rules, questions, answers.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use acp_types::{PermissionOption, ToolCallId};
use callboard_shell::NotUnderstood;
use callboard_text::visible;

use super::Session;
use crate::board::Moment;
use crate::caught::caught;
use crate::effects::{Effect, Effects};
use crate::ids::PermissionId;
use crate::limits::{self, RULE_CHANGES};
use crate::outbox::{IsFirst, Item};
use crate::permission::{
    self, Answer, Decision, Denial, Grant, Memory, NoAnswer, Outcome, Permit, Subject,
};
use crate::rules::{
    AskPolicy, Change, ENGLISH, Judgement, Policy, Rule, Rules, Scope, StoreError, Verdict,
    runs_files,
};
use crate::title::Titles;

/// What a session knows of permissions.
#[derive(Debug)]
pub(super) struct Permits {
    rules: Rules,
    policy: Arc<dyn Policy>,
    /// How long an answer may be remembered.
    scopes: Vec<Scope>,
    /// Changes of stored rules that are to be saved.
    changes: VecDeque<Change>,
    /// Whether the client can be asked why it rejected a call.
    asks_why: bool,
    /// The names of options, and notes.
    titles: Arc<Titles>,
    requests: HashMap<PermissionId, Request>,
    last_request: u64,
    /// Files that were changed without asking a person since one last permitted a command in the
    /// knowledge of them. At most 256 are named; the last one stands for more.
    unseen: BTreeSet<PathBuf>,
    /// How many such changes there were, ever.
    unseen_changes: u64,
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            policy: Arc::new(AskPolicy),
            scopes: vec![Scope::Session],
            changes: VecDeque::new(),
            asks_why: false,
            titles: ENGLISH.clone(),
            requests: HashMap::new(),
            last_request: 0,
            unseen: BTreeSet::new(),
            unseen_changes: 0,
        }
    }
}

/// A permission request that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The call it is about.
    pub call: ToolCallId,
    /// What the client may choose.
    pub options: Vec<PermissionOption>,
    question: Question,
    effects: Effects,
    /// What an answer that is remembered speaks of: just what the options name.
    memory: Memory,
    subject: Subject,
    asked: Instant,
    unseen: Vec<PathBuf>,
    /// How many files had been changed without a question when it was made.
    unseen_changes: u64,
}

/// What the client is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    MayItRun,
    WhyNot,
}

impl Request {
    /// Returns what the call would do, and which tool of which kind would.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Returns what it would do it with: the whole arguments, and the folder.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns the files that a command of the call may run and that were changed without asking a
    /// person: at most 256, of which the call shows some.
    #[must_use]
    pub fn unseen(&self) -> &[PathBuf] {
        &self.unseen
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
pub(crate) struct Case {
    effects: Effects,
    policy: Arc<dyn Policy>,
}

impl Case {
    /// Returns the policy that is to judge.
    #[cfg(feature = "tokio")]
    pub(crate) fn policy(&self) -> Arc<dyn Policy> {
        self.policy.clone()
    }

    pub(crate) fn judge(self) -> Result<Judgement, Denial> {
        caught(|| Judgement::new(self.effects, &*self.policy)).ok_or(Denial::Fault)
    }
}

impl Permits {
    /// Returns how many requests came to an end.
    #[cfg(feature = "tokio")]
    pub(super) fn ended(&self) -> u64 {
        self.last_request - self.requests.len() as u64
    }

    /// Returns whether the client is asked about a call.
    pub(super) fn is_asked(&self, id: &ToolCallId) -> bool {
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
        self.permits.titles = Arc::new(Titles::own(locale));
    }

    /// Returns the messages in the language of the session.
    #[cfg(feature = "tokio")]
    pub(crate) fn titles(&self) -> Arc<Titles> {
        self.permits.titles.clone()
    }

    /// Sets the policy, which judges effects without a rule. Returns what was set before: dropping
    /// it may run code of its own, for which a lock around the session should be free.
    pub fn set_policy(&mut self, policy: Arc<dyn Policy>) -> Arc<dyn Policy> {
        std::mem::replace(&mut self.permits.policy, policy)
    }

    /// Asks the client why it rejected a call, where it did not say: an [`Item::Reason`] follows,
    /// and the call waits for [`Session::explain`]. For clients that can show a form.
    pub fn ask_for_reasons(&mut self) {
        self.permits.asks_why = true;
    }

    /// Takes in the rules of the session's project and of the user, as a
    /// [`RuleStore`](crate::RuleStore) gave them.
    ///
    /// Rules that could not be read may deny anything: then everything is asked about that is not
    /// denied, and nothing is remembered.
    pub fn load_rules(&mut self, loaded: Result<Vec<Rule>, StoreError>) {
        let all_hold = loaded.and_then(|rules| {
            let all_hold = rules.into_iter().all(|rule| self.permits.rules.add(rule));
            all_hold.then_some(()).ok_or_else(|| StoreError::new("there are too many rules"))
        });
        if let Err(error) = all_hold {
            self.permits.rules.set_unreadable(error.to_string());
        }
    }

    /// Lets answers be remembered for the project: for sessions whose
    /// [rule changes](Self::take_rule_changes) are saved.
    pub fn offer_project_rules(&mut self) {
        self.permits.scopes = vec![Scope::Session, Scope::Project];
    }

    /// Returns the rules that hold in the session.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.permits.rules
    }

    /// Adds a rule of any scope. Returns whether it holds now. One of a project or of the user is
    /// to be saved: see [`Session::take_rule_changes`].
    pub fn add_rule(&mut self, rule: Rule) -> bool {
        let holds = self.permits.rules.add(rule.clone());
        if holds {
            self.note_change(Change::Add(rule));
        }
        holds
    }

    /// Forgets a rule. Returns whether it was remembered. One of a project or of the user is to be
    /// forgotten by the store too: see [`Session::take_rule_changes`].
    pub fn revoke(&mut self, rule: &Rule) -> bool {
        let was_there = self.permits.rules.revoke(rule);
        if was_there {
            self.note_change(Change::Remove(rule.clone()));
        }
        was_there
    }

    /// Takes the changes of rules that outlive the session, for whoever saves them in a
    /// [`RuleStore`](crate::RuleStore). At most 1,024 wait; a rule beyond holds in the session.
    pub fn take_rule_changes(&mut self) -> Vec<Change> {
        self.permits.changes.drain(..).collect()
    }

    /// Notes that a change could not be saved: a rule that was added holds in this session only.
    pub fn unsaved(&mut self, change: Change) {
        if let Change::Add(rule) = change
            && self.permits.rules.revoke(&rule)
        {
            self.permits.rules.add(Rule { scope: Scope::Session, ..rule });
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
        subject: Subject,
        is_whole: bool,
        now: Moment,
    ) -> Permit {
        let judgement = match self.case(id, effects).and_then(Case::judge) {
            Ok(judgement) => judgement,
            Err(denial) => return Permit::Denied(denial),
        };
        let permit = self.prepare_request(id, &judgement, subject, is_whole, now);
        if let Permit::Asked(request) = permit {
            self.ask_client(request, now);
        }
        permit
    }

    /// Offers a request that waits to the client.
    pub(crate) fn ask_client(&mut self, id: PermissionId, now: Moment) {
        if self.permits.requests.contains_key(&id) {
            self.offer(Item::Permission(id), IsFirst::No, now);
        }
    }

    /// Returns what the policy is to judge of an open call.
    pub(crate) fn case(&self, id: &ToolCallId, effects: &Effects) -> Result<Case, Denial> {
        let call = self.board.tool_call(id).ok_or(Denial::Ended)?;
        let effects = effects.clone().by(&*call.name, call.kind);
        Ok(Case { effects, policy: self.permits.policy.clone() })
    }

    /// Whether a policy is still that of the session.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_policy(&self, policy: &Arc<dyn Policy>) -> bool {
        Arc::ptr_eq(&self.permits.policy, policy)
    }

    /// Returns what the policy is to judge of a request that waits.
    pub(crate) fn case_of(&self, id: PermissionId) -> Result<Case, Denial> {
        let request = self.request(id).ok_or(Denial::Ended)?;
        Ok(Case { effects: request.effects.clone(), policy: self.permits.policy.clone() })
    }

    /// Decides as [`Session::permit`] does, and makes the request that is to be answered where
    /// neither rules nor policy do.
    pub(crate) fn prepare_request(
        &mut self,
        id: &ToolCallId,
        judgement: &Judgement,
        subject: Subject,
        is_whole: bool,
        now: Moment,
    ) -> Permit {
        if self.board.tool_call(id).is_none() {
            return Permit::Denied(Denial::Ended);
        }
        self.subtitle(id, None, now);
        let effects = judgement.effects();
        match self.decide(judgement) {
            Ok(Verdict::Allow) => {
                self.note_unseen(effects);
                return Permit::Granted(Grant::new(subject));
            }
            Ok(_) => {}
            Err(denial) => return Permit::Denied(denial),
        }
        let mut unseen = Vec::new();
        if self.runs_unseen(judgement) {
            unseen.extend(self.permits.unseen.iter().cloned());
            self.note(id, &visible(&self.unseen_words()), now);
        }
        if let Some((words, why)) = caught(|| self.permits.rules.not_understood(effects)).flatten()
        {
            let why = not_understood(&why, &self.permits.titles);
            let note = self.permits.sentence("not-covered", &[("words", words), ("why", why)]);
            self.note(id, &visible(&note), now);
        }
        let is_shown = self.board.is_whole(id);
        if !is_shown {
            self.note(id, &self.permits.sentence("not-whole", &[]), now);
        }
        let memorable = self.permits.rules.memorable(judgement);
        let memorable = memorable.filter(|_| is_whole && is_shown);
        let mut memory = memorable.map(Memory::of).unwrap_or_default();
        let mut options = self.options(&memory);
        let secrets = self.secrets();
        if options.iter().any(|option| matches!(secrets.redact(&option.name), Cow::Owned(_))) {
            memory = Memory::default();
            options = self.options(&memory);
        }
        self.permits.last_request += 1;
        let request_id = PermissionId(self.permits.last_request);
        let request = Request {
            call: id.clone(),
            options,
            question: Question::MayItRun,
            effects: effects.clone(),
            memory,
            subject,
            asked: now.at,
            unseen,
            unseen_changes: self.permits.unseen_changes,
        };
        self.permits.requests.insert(request_id, request);
        Permit::Asked(request_id)
    }

    /// Adds a note for people to a call that is asked about.
    fn note(&mut self, id: &ToolCallId, text: &str, now: Moment) {
        let note = self.board.note(id, text);
        self.offer_call(id, note, IsFirst::No, now);
    }

    /// Returns a request that waits for its answer.
    #[must_use]
    pub fn request(&self, id: PermissionId) -> Option<&Request> {
        self.permits.requests.get(&id)
    }

    /// Returns a request as an approver gets it, who can have nothing remembered beyond the session:
    /// nobody would save it.
    #[cfg(feature = "tokio")]
    pub(crate) fn request_of_approver(&self, id: PermissionId) -> Option<Request> {
        let mut request = self.request(id)?.clone();
        permission::retain_unstored(&mut request.options);
        Some(request)
    }

    /// Takes the client's answer. Nothing for a request that was withdrawn or answered before, and
    /// for one whose reason is asked for now.
    pub fn answer(&mut self, id: PermissionId, answer: Answer) -> Option<Outcome> {
        let judgement = self.case_of(id).and_then(Case::judge);
        self.take_answer(id, answer, AnsweredBy::Client, judgement)
    }

    /// Takes the answer of the client or the approver, with what the policy says of the request by now.
    pub(crate) fn take_answer(
        &mut self,
        id: PermissionId,
        answer: Answer,
        by: AnsweredBy,
        judgement: Result<Judgement, Denial>,
    ) -> Option<Outcome> {
        let mut request = self.take_request(id, Question::MayItRun)?;
        // An answer that came before its question: the question is void.
        self.outbox.withdraw(id);
        let is_by_client = by == AnsweredBy::Client;
        if !is_by_client {
            permission::retain_unstored(&mut request.options);
        }
        Some(match permission::decide(answer, &request.options) {
            Decision::Allowed { remember } => self.allow(request, remember, by, judgement),
            Decision::Rejected { remember: None, reason: None }
                if is_by_client && self.permits.asks_why =>
            {
                let request = Request { question: Question::WhyNot, ..request };
                let asked = request.asked;
                self.permits.requests.insert(id, request);
                self.offer_at(Item::Reason(id), IsFirst::No, asked);
                return None;
            }
            Decision::Rejected { remember, reason } => {
                self.remember(&request, remember, Verdict::Deny);
                match by {
                    AnsweredBy::Client => Outcome::Rejected { reason },
                    #[cfg(feature = "tokio")]
                    AnsweredBy::Approver => Outcome::RejectedByApprover { reason },
                }
            }
            Decision::Void => Outcome::Unanswered(NoAnswer::NotOffered),
            Decision::Unanswered(error) => Outcome::Unanswered(NoAnswer::Failed(error)),
            Decision::Cancelled => Outcome::Cancelled,
        })
    }

    /// Does what an answer says that allows a call, unless that holds no more.
    fn allow(
        &mut self,
        request: Request,
        remember: Option<Scope>,
        by: AnsweredBy,
        judgement: Result<Judgement, Denial>,
    ) -> Outcome {
        let is_current = request.unseen_changes == self.permits.unseen_changes;
        match judgement.and_then(|judgement| self.stays_permitted(&judgement)) {
            // What was denied since it was asked about stays denied.
            Err(denial) => return Outcome::Denied(denial),
            Ok(false) if !is_current => return Outcome::Outdated,
            Ok(_) => {}
        }
        match by {
            AnsweredBy::Client if is_current && !request.unseen.is_empty() => {
                self.permits.unseen.clear();
            }
            AnsweredBy::Client => {}
            #[cfg(feature = "tokio")]
            AnsweredBy::Approver => self.note_unseen(&request.effects),
        }
        self.remember(&request, remember, Verdict::Allow);
        Outcome::Granted(Grant::new(request.subject))
    }

    /// Takes what the client said of a rejection, if it said anything. Nothing for a request whose
    /// reason is not asked for.
    pub fn explain(&mut self, id: PermissionId, reason: Option<&str>) -> Option<Outcome> {
        self.take_request(id, Question::WhyNot)?;
        self.outbox.withdraw(id);
        Some(Outcome::Rejected { reason: reason.and_then(permission::heard) })
    }

    /// Takes a request back; a later answer to it does nothing.
    pub fn withdraw(&mut self, id: PermissionId) {
        if self.permits.requests.remove(&id).is_some() {
            self.outbox.withdraw(id);
        }
    }

    fn options(&self, memory: &Memory) -> Vec<PermissionOption> {
        let Permits { scopes, titles, .. } = &self.permits;
        permission::options(memory, scopes, |path| self.display(path), titles)
    }

    /// Takes the requests of a call back.
    pub(super) fn withdraw_of(&mut self, id: &ToolCallId) {
        let requests = self.permits.requests.iter();
        let of_call = requests.filter(|(_, request)| request.call == *id);
        let mut ids: Vec<_> = of_call.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.into_iter().for_each(|id| self.withdraw(id));
    }

    /// Forgets what holds until the end of the turn.
    pub(super) fn end_turn_rules(&mut self) {
        self.permits.rules.end(Scope::Turn);
    }

    /// Decides over a call; what is denied comes with what denies it.
    pub(crate) fn decide(&self, judgement: &Judgement) -> Result<Verdict, Denial> {
        match self.permits.rules.decide(judgement) {
            Verdict::Deny if Rules::default().decide(judgement) == Verdict::Deny => {
                Err(Denial::Policy)
            }
            Verdict::Deny => Err(Denial::Rule),
            Verdict::Allow if self.runs_unseen(judgement) => Ok(Verdict::Ask),
            verdict => Ok(verdict),
        }
    }

    /// Whether a call that was permitted before needs no further question; what is denied since then
    /// stays denied.
    pub(crate) fn stays_permitted(&self, judgement: &Judgement) -> Result<bool, Denial> {
        self.decide(judgement)?;
        Ok(!self.runs_unseen(judgement))
    }

    /// Whether a call runs, if not by the policy's leave, a command that may run files of the project
    /// while there are some that were changed without asking a person.
    fn runs_unseen(&self, judgement: &Judgement) -> bool {
        !self.permits.unseen.is_empty()
            && judgement.effects().iter().any(runs_files)
            && Rules::default().decide(judgement) != Verdict::Allow
    }

    fn note_unseen(&mut self, effects: &Effects) {
        let Permits { unseen, unseen_changes, .. } = &mut self.permits;
        for effect in effects.iter() {
            if let Effect::Write(path) | Effect::Delete(path) = effect {
                *unseen_changes += 1;
                if unseen.len() < limits::UNSEEN_FILES {
                    unseen.insert(path.clone());
                }
            }
        }
    }

    fn unseen_words(&self) -> String {
        let Permits { unseen, .. } = &self.permits;
        let named = unseen.iter().take(limits::NAMED_UNSEEN_FILES).map(|path| self.display(path));
        let named = ("named", named.collect::<Vec<_>>().join(", "));
        let more = unseen.len().saturating_sub(limits::NAMED_UNSEEN_FILES);
        let key = match more {
            0 => "unseen",
            _ if unseen.len() == limits::UNSEEN_FILES => "unseen-at-least",
            _ => "unseen-more",
        };
        visible(&self.permits.sentence(key, &[named, ("more", more.to_string())]))
    }

    fn take_request(&mut self, id: PermissionId, question: Question) -> Option<Request> {
        let is_asked = |request: &&Request| request.question == question;
        self.permits.requests.get(&id).filter(is_asked)?;
        self.permits.requests.remove(&id)
    }

    fn remember(&mut self, request: &Request, scope: Option<Scope>, verdict: Verdict) {
        let Some(scope) = scope else { return };
        for matcher in request.memory.matchers(scope) {
            self.add_rule(Rule { scope, matcher, verdict });
        }
    }

    fn note_change(&mut self, change: Change) {
        if !change.rule().scope.is_stored() {
            return;
        }
        if self.permits.changes.len() < RULE_CHANGES {
            self.permits.changes.push_back(change);
        } else {
            self.unsaved(change);
        }
    }
}

/// Says why the words of a command are not understood, as the end of a sentence.
fn not_understood(why: &NotUnderstood, titles: &Titles) -> String {
    let sentence = |key, texts: &[(&str, &String)]| {
        let texts: Vec<_> = texts.iter().map(|(name, text)| (*name, (*text).clone())).collect();
        titles.sentence(key, &texts, &[])
    };
    match why {
        NotUnderstood::Program(program) => sentence("not-known", &[("program", program)]),
        NotUnderstood::Word { word, program } => {
            sentence("not-a-word", &[("word", word), ("program", program)])
        }
        NotUnderstood::Elsewhere { word } => sentence("leads-out", &[("word", word)]),
        other => other.to_string(),
    }
}
