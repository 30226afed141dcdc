//! Permission requests, remembered decisions, and the calls that may run (guarantees G7 and G8).

use std::collections::BTreeMap;

use acp_lifecycle::{
    Effect, Effects, Grant, Matcher, PermissionAnswer, PermissionId, PermissionOutcome,
    PermissionSubject, PermitDecision, PinnedPlan, Rule, Verdict,
};
use acp_types::{PermissionOptionKind, ToolCallId};
use pretty_assertions::assert_eq;

use super::event::{Reply, Wish};
use super::order::Fence;
use super::world::{World, arguments};

/// A simple model of the permissions of a session. The tests compare the session with this model.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    asked: BTreeMap<PermissionId, Asked>,
    /// The remembered decisions: each effect, and whether the effect is allowed.
    remembered: Vec<(Effect, bool)>,
    /// Number of requests that were withdrawn before they were sent.
    taken_back: u64,
}

#[derive(Debug, Clone)]
struct Asked {
    call: ToolCallId,
    wish: Wish,
    arguments: u8,
    waits: bool,
    /// Whether the request was withdrawn or answered, but the test has not yet checked whether the
    /// request was sent.
    is_void: bool,
}

impl Permits {
    /// Marks the requests of an ended call as void.
    pub(crate) fn call_ended(&mut self, id: &ToolCallId) {
        self.asked.values_mut().filter(|asked| asked.call == *id).for_each(Asked::end);
    }

    pub(crate) fn are_over(&self) -> bool {
        self.asked.values().all(|asked| !asked.waits)
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.len()
    }

    pub(crate) fn taken_back(&self) -> u64 {
        self.taken_back
    }

    /// Returns any earlier request, so that late and repeated answers occur too.
    fn any(&self, which: u8) -> Option<PermissionId> {
        let count = self.asked.len().max(1);
        self.asked.keys().nth(usize::from(which) % count).copied()
    }

    /// Returns the expected decision for an effect. A denial takes precedence over an approval.
    fn remembers(&self, effect: &Effect) -> Option<bool> {
        let verdicts = self.remembered.iter().filter(|(other, _)| other == effect);
        verdicts.map(|(_, allows)| *allows).min()
    }
}

impl Asked {
    fn end(&mut self) {
        self.is_void |= self.waits;
        self.waits = false;
    }

    /// Returns whether the options that remember the decision are available.
    fn may_remember(&self) -> bool {
        self.wish == Wish::Write
    }
}

impl World {
    pub(super) fn ask(&mut self, call: u8, wish: Wish) {
        let (id, effect) = (self.call_id(call), effect(call, wish));
        let arguments = self.arguments(&id);
        let subject = subject(&id, arguments.unwrap_or_default());
        let effects = Effects::from(effect.clone());
        let permit = self.session.decide_or_ask_permission(
            &id,
            &effects,
            subject,
            wish != Wish::CutWrite,
            self.now,
        );
        let Some(arguments) = arguments else {
            assert!(
                matches!(permit, PermitDecision::Denied(_)),
                "a call that is not open: {permit:?}"
            );
            return;
        };
        let remembered = self.permits.remembers(&effect);
        match (permit, wish, remembered) {
            (PermitDecision::Granted(grant), Wish::Read, _)
            | (PermitDecision::Granted(grant), _, Some(true)) => {
                self.run(&id, arguments, grant);
            }
            (PermitDecision::Denied(_), _, Some(false)) => {}
            (
                PermitDecision::AwaitingAnswer(number),
                Wish::Write | Wish::CutWrite | Wish::Unknown,
                None,
            ) => {
                let asked = Asked { call: id, wish, arguments, waits: true, is_void: false };
                self.check_options(number, &asked);
                self.permits.asked.insert(number, asked);
                self.order.offer(Fence::Asked(number));
            }
            (permit, ..) => panic!("{permit:?} for {wish:?}, remembered {remembered:?}"),
        }
    }

    pub(super) fn answer(&mut self, which: u8, reply: Reply) {
        if let Some(number) = self.permits.any(which) {
            self.answer_to(number, reply);
        }
    }

    /// Handles a request that could not be delivered.
    pub(super) fn undelivered(&mut self, number: PermissionId) {
        self.answer_to(number, Reply::Failed);
    }

    fn answer_to(&mut self, number: PermissionId, reply: Reply) {
        let answer = match reply {
            Reply::Option(option) => {
                PermissionAnswer::Selected { option_id: option.to_owned(), reason: None }
            }
            Reply::Cancelled => PermissionAnswer::Cancelled,
            Reply::Failed => PermissionAnswer::Failed("no".to_owned()),
        };
        let outcome = self.session.answer_permission(number, answer);
        let asked = self.permits.asked.get_mut(&number).expect("it was asked");
        let waited = asked.waits;
        asked.end();
        let asked = asked.clone();
        let always = reply == Reply::Option("allow_always") && asked.may_remember();
        match (outcome, reply) {
            (None, _) => assert!(!waited, "an answer was not taken"),
            (Some(PermissionOutcome::Granted(grant)), Reply::Option("allow" | "allow_always")) => {
                assert!(reply == Reply::Option("allow") || always, "an option nobody offered");
                self.run(&asked.call, asked.arguments, grant);
            }
            (Some(PermissionOutcome::Rejected { .. }), Reply::Option(option)) => {
                assert!(option.starts_with("reject"), "{option} was taken for a no");
            }
            (Some(PermissionOutcome::Unanswered(_)), Reply::Option(option)) => {
                let is_offered = !option.ends_with("_always") || asked.may_remember();
                let is_known = ["allow", "reject", "allow_always", "reject_always"];
                assert!(!is_offered || !is_known.contains(&option), "{option} was not taken");
            }
            (Some(PermissionOutcome::Denied(_)), Reply::Option("allow" | "allow_always")) => {
                let denied = (effect_of(&asked), false);
                assert!(self.permits.remembered.contains(&denied), "nobody denied it");
            }
            (Some(PermissionOutcome::Cancelled), Reply::Cancelled)
            | (Some(PermissionOutcome::Unanswered(_)), Reply::Failed) => {}
            (outcome, reply) => panic!("{outcome:?} of {reply:?}"),
        }
        let never = reply == Reply::Option("reject_always") && asked.may_remember();
        if waited && (always || never) {
            self.permits.remembered.push((effect_of(&asked), always));
        }
    }

    pub(super) fn withdraw(&mut self, which: u8) {
        if let Some(number) = self.permits.any(which) {
            self.session.withdraw_permission_request(number);
            self.permits.asked.get_mut(&number).into_iter().for_each(Asked::end);
        }
    }

    /// Revokes the oldest remembered rule.
    pub(super) fn revoke(&mut self) {
        let oldest: Option<Rule> = self.session.rules().iter().next().cloned();
        assert_eq!(oldest.is_some(), !self.permits.remembered.is_empty());
        if let Some(rule) = oldest {
            assert!(self.session.revoke_rule(&rule));
            let Matcher::Effect(effect) = rule.matcher else { panic!("{rule:?}") };
            let revoked = (effect, rule.verdict == Verdict::Allow);
            self.permits.remembered.retain(|remembered| *remembered != revoked);
        }
    }

    /// Starts a tool, and asserts that a grant releases only a plan with the subject of the grant.
    fn run(&mut self, id: &ToolCallId, granted: u8, grant: Grant) {
        let now = self.arguments(id).expect("only an open call is granted anything");
        let released = PinnedPlan::new((), subject(id, now)).release(grant);
        assert_eq!(released.is_ok(), now == granted, "granted {granted}, would run {now}");
    }

    /// Asserts that a request is open if, and only if, the model of the test expects an answer.
    pub(super) fn check_requests(&mut self) {
        for (number, asked) in &mut self.permits.asked {
            assert_eq!(self.session.pending_permission_request(*number).is_some(), asked.waits);
            if std::mem::take(&mut asked.is_void) && self.order.take_back(*number) {
                self.permits.taken_back += 1;
            }
        }
    }

    /// Asserts that no answer can be remembered for a request that is truncated or has unknown
    /// effects.
    fn check_options(&self, number: PermissionId, asked: &Asked) {
        let options =
            &self.session.pending_permission_request(number).expect("it was just asked").options;
        let remembering = options.iter().filter(|option| {
            matches!(
                option.kind,
                PermissionOptionKind::AllowAlways | PermissionOptionKind::RejectAlways
            )
        });
        assert_eq!(remembering.count(), if asked.may_remember() { 2 } else { 0 });
    }
}

/// Returns the effect of a call. The effect depends only on `wish`, and on whether the number of
/// the call is even or odd.
fn effect(call: u8, wish: Wish) -> Effect {
    let path = format!("/p/{}", call % 2).into();
    match wish {
        Wish::Read => Effect::Read(path),
        Wish::Write | Wish::CutWrite => Effect::Write(path),
        Wish::Unknown => Effect::Unknown,
    }
}

fn effect_of(asked: &Asked) -> Effect {
    let number = asked.call.0.rsplit('/').next().and_then(|number| number.parse().ok());
    effect(number.expect("calls are numbered"), asked.wish)
}

fn subject(id: &ToolCallId, version: u8) -> PermissionSubject {
    PermissionSubject::for_call("tool", &arguments(version), "/p".as_ref(), id.0.as_bytes())
}
