//! Permissions: requests, answers, and the grant that every run requires.
//!
//! A call is *pinned* after its preview: its plan is locked together with its
//! [`PermissionSubject`]. The subject contains everything that determines the effect of the call.
//! Only this crate creates a [`Grant`], and each grant is for one subject. Only a grant for the
//! same subject releases the pinned plan, so a call runs exactly as it was approved (guarantee G7
//! in `ARCHITECTURE.md`).

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::effects::Effects;
use crate::ids::PermissionId;
use crate::rules::RuleScope;

mod options;

use options::{ALLOW_ONCE_ID, REJECT_ONCE_ID};
pub(crate) use options::{
    RememberedEffects, clean_rejection_reason, drop_stored_options, interpret_answer,
    permission_options,
};

/// Everything that determines the effect of a call: the tool's name, its unredacted arguments, the
/// effective `cwd`, and bytes that identify the state that the call would change.
///
/// Two subjects are equal if every part is equal byte for byte: `a//b` differs from `a/b`, and
/// `-0.0` differs from `0.0`. A subject contains the parts themselves instead of a hash, so the
/// model cannot construct a collision. For a file, pass a cryptographic hash or a change stamp
/// instead of the content. The subject stays in memory as long as its call is open. Cheap to clone.
#[derive(Clone)]
pub struct PermissionSubject(Arc<SubjectParts>);

struct SubjectParts {
    tool: String,
    args: Value,
    cwd: PathBuf,
    pre_image: Vec<u8>,
}

impl PermissionSubject {
    /// Creates the subject of a call.
    #[must_use]
    pub fn for_call(tool: &str, args: &Value, cwd: &Path, pre_image: &[u8]) -> Self {
        Self(Arc::new(SubjectParts {
            tool: tool.to_owned(),
            args: args.clone(),
            cwd: cwd.to_owned(),
            pre_image: pre_image.to_owned(),
        }))
    }

    /// Returns the tool's name. The name is empty if the request is only about the files that a
    /// preview reads.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.0.tool
    }

    /// Returns the whole arguments, without redaction. The arguments are null if the request is
    /// only about the files that a preview reads.
    #[must_use]
    pub fn args(&self) -> &Value {
        &self.0.args
    }

    /// Returns the working directory of the call.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.0.cwd
    }
}

impl PartialEq for PermissionSubject {
    fn eq(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.0, &other.0);
        // Compare the JSON text, because JSON values may be equal although their texts differ.
        let written = |parts: &SubjectParts| parts.args.to_string();
        Arc::ptr_eq(ours, theirs)
            || ours.tool == theirs.tool
                && ours.pre_image == theirs.pre_image
                && ours.cwd.as_os_str() == theirs.cwd.as_os_str()
                && written(ours) == written(theirs)
    }
}

impl Eq for PermissionSubject {}

/// Shows only the tool, because arguments may contain secrets.
impl fmt::Debug for PermissionSubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PermissionSubject").field(&self.0.tool).finish_non_exhaustive()
    }
}

/// The plan of a call, which is locked until a [`Grant`] releases it.
#[derive(Debug)]
pub struct PinnedPlan<P> {
    plan: P,
    subject: PermissionSubject,
}

/// A plan whose type is erased, so that tools of all kinds fit in one list.
pub type ErasedPlan = Box<dyn Any + Send>;

impl<P> PinnedPlan<P> {
    /// Locks `plan` with its subject.
    #[must_use]
    pub fn new(plan: P, subject: PermissionSubject) -> Self {
        Self { plan, subject }
    }

    /// Returns the subject that a grant must match.
    #[must_use]
    pub fn subject(&self) -> &PermissionSubject {
        &self.subject
    }

    /// Releases the plan.
    ///
    /// # Errors
    ///
    /// Returns [`GrantMismatch`] if the grant is for another subject, or only for a preview. After
    /// such an error, the call must not run.
    pub fn release(self, grant: Grant) -> Result<P, GrantMismatch> {
        self.release_if_grant_matches(!grant.is_for_preview(), grant)
    }

    /// Releases the plan for a preview: the call must not change anything outside of a copy, unless
    /// the further effects are permitted ([`CallHandle::request_further_effects`]).
    ///
    /// [`CallHandle::request_further_effects`]: crate::CallHandle::request_further_effects
    ///
    /// # Errors
    ///
    /// Returns [`GrantMismatch`] if the grant is for another subject, or not for a preview.
    pub fn release_for_preview(self, grant: Grant) -> Result<P, GrantMismatch> {
        self.release_if_grant_matches(grant.is_for_preview(), grant)
    }

    fn release_if_grant_matches(
        self,
        is_right_kind: bool,
        grant: Grant,
    ) -> Result<P, GrantMismatch> {
        if is_right_kind && grant.subject == self.subject {
            Ok(self.plan)
        } else {
            Err(GrantMismatch)
        }
    }
}

impl<P: Any + Send> PinnedPlan<P> {
    /// Erases the plan's type.
    #[must_use]
    pub fn erase_type(self) -> PinnedPlan<ErasedPlan> {
        PinnedPlan { plan: Box::new(self.plan), subject: self.subject }
    }
}

impl PinnedPlan<ErasedPlan> {
    /// Restores the plan's type. Returns `None` if the plan has another type.
    #[must_use]
    pub fn downcast<P: Any>(self) -> Option<PinnedPlan<P>> {
        let plan = *self.plan.downcast().ok()?;
        Some(PinnedPlan { plan, subject: self.subject })
    }
}

/// A grant was used for another call, or a grant for a preview was used to run a call. The cause is
/// a bug in the program, not an error of the model or the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the permission was given for another call, or only for a preview")]
pub struct GrantMismatch;

/// The permission to run one call once. Only this crate creates a grant, after the client, the
/// approver, a rule or the policy has allowed the call.
#[derive(Debug)]
pub struct Grant {
    subject: PermissionSubject,
    kind: GrantKind,
}

/// Origin and extent of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GrantKind {
    /// Whether the client or the approver was asked, and allowed the call.
    is_answer: bool,
    /// Whether the grant permits only a preview.
    is_for_preview: bool,
}

impl GrantKind {
    /// Returns the kind of a grant that a rule or the policy gives.
    pub(crate) fn unasked(effects: &Effects) -> Self {
        Self { is_answer: false, is_for_preview: effects.requires_preview() }
    }

    /// Returns the kind of a grant that the client or the approver gives. `selects_preview` is
    /// whether the selected option permits only a preview.
    pub(crate) fn answer(effects: &Effects, selects_preview: bool) -> Self {
        Self { is_answer: true, is_for_preview: selects_preview || effects.requires_preview() }
    }

    pub(crate) fn is_for_preview(self) -> bool {
        self.is_for_preview
    }
}

impl Grant {
    pub(crate) fn new(subject: PermissionSubject, kind: GrantKind) -> Self {
        Self { subject, kind }
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn kind(&self) -> GrantKind {
        self.kind
    }

    /// Returns whether the client or the approver was asked about this call and allowed it. Returns
    /// false if a rule or the policy allowed the call.
    #[must_use]
    pub fn is_from_answer(&self) -> bool {
        self.kind.is_answer
    }

    /// Returns whether the grant permits the call to run only on a copy of the project folders; see
    /// [`Effects::with_preview_offer`] and [`Effects::with_required_preview`]. Such a grant
    /// releases a plan only by [`PinnedPlan::release_for_preview`].
    #[must_use]
    pub fn is_for_preview(&self) -> bool {
        self.kind.is_for_preview
    }
}

/// The decision whether a call may run.
#[derive(Debug)]
#[non_exhaustive]
pub enum PermitDecision {
    /// The call may run.
    Granted(Grant),
    /// The call must not run.
    Denied(UnaskedDenialReason),
    /// The client is asked. Pass the client's answer to
    /// [`Session::answer_permission`](crate::Session::answer_permission).
    AwaitingAnswer(PermissionId),
}

/// The cause of a denial that needed no permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnaskedDenialReason {
    /// A rule.
    Rule,
    /// The session's [`Policy`](crate::Policy), which depends on its mode.
    Policy,
    /// The policy panicked. A panic never permits a call.
    PolicyPanicked,
    /// The call is not open.
    CallEnded,
}

/// The reason why the user did not answer a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnansweredReason {
    /// The client answered with this error, and did not ask the user.
    ClientFailed(String),
    /// The client selected an option that is not one of the request's options.
    NotOffered,
    /// The request was withdrawn before its answer arrived.
    Withdrawn,
}

/// The result of a permission request.
#[derive(Debug)]
#[non_exhaustive]
pub enum PermissionOutcome {
    /// The call may run.
    Granted(Grant),
    /// The call must not run; the turn continues.
    Rejected {
        /// The user's reason.
        reason: Option<String>,
    },
    /// The session's approver rejected the call, and no person was asked. The call must not run;
    /// the turn continues.
    RejectedByApprover {
        /// The approver's reason.
        reason: Option<String>,
    },
    /// The call is denied, even if the client allowed the call. The turn continues.
    Denied(UnaskedDenialReason),
    /// The call is allowed, but files that it may run have changed since the request. Permission
    /// must be requested again, with the names of these files.
    Outdated,
    /// The user did not answer. The value is the reason why the user did not answer. The call must
    /// not run; the turn continues.
    Unanswered(UnansweredReason),
    /// The turn is over.
    Cancelled,
}

/// The meaning of a client's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientDecision {
    /// The call may run.
    Allowed {
        /// How long the same call is allowed without asking, or `None` for this call only.
        remember: Option<RuleScope>,
        /// Whether only a preview of the call is allowed.
        is_preview: bool,
    },
    /// The call must not run. The turn continues.
    Rejected {
        /// How long the same call is rejected without asking, or `None` for this call only.
        remember: Option<RuleScope>,
        /// The user's reason, for the model.
        reason: Option<String>,
    },
    /// The selected option is not one of the request's options. The call must not run.
    NotOffered,
    /// The client could not be asked; the call must not run.
    Unanswered(String),
    /// The turn is over.
    Cancelled,
}

/// A client's answer to a permission request, before it is interpreted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionAnswer {
    /// An option was selected.
    Selected {
        /// The id of the option, which may be unknown.
        option_id: String,
        /// The user's reason.
        reason: Option<String>,
    },
    /// The client reported that the turn was cancelled.
    Cancelled,
    /// The client answered with an error, or could not be reached.
    Failed(String),
}

impl PermissionAnswer {
    /// Allows a call once.
    #[must_use]
    pub fn allow_once() -> Self {
        Self::Selected { option_id: ALLOW_ONCE_ID.to_owned(), reason: None }
    }

    /// Rejects a call once, with a reason that is sent to the model.
    #[must_use]
    pub fn reject_once(reason: Option<String>) -> Self {
        Self::Selected { option_id: REJECT_ONCE_ID.to_owned(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::{Effects, Grant, GrantKind, GrantMismatch, PermissionSubject, PinnedPlan};
    use serde_json::json;
    use std::path::Path;

    fn grant(subject: PermissionSubject) -> Grant {
        Grant::new(subject, GrantKind::answer(&Effects::empty(), false))
    }

    fn subject(args: &str) -> PermissionSubject {
        PermissionSubject::for_call("tool", &json!(args), Path::new("/"), b"")
    }

    #[test]
    fn a_grant_releases_only_a_plan_with_the_same_subject() {
        let pinned = || PinnedPlan::new(7, subject("a"));
        assert_eq!(pinned().release(grant(subject("a"))), Ok(7));
        assert_eq!(pinned().release(grant(subject("b"))), Err(GrantMismatch));
    }

    #[test]
    fn a_grant_for_a_preview_runs_no_call() {
        let pinned = || PinnedPlan::new(7, subject("a"));
        let (plain, required) = (Effects::empty(), Effects::empty().with_required_preview());
        let grant = |kind| Grant::new(subject("a"), kind);
        for preview in [
            GrantKind::answer(&plain, true),
            GrantKind::answer(&required, false),
            GrantKind::unasked(&required),
        ] {
            assert_eq!(pinned().release(grant(preview)), Err(GrantMismatch));
            assert_eq!(pinned().release_for_preview(grant(preview)), Ok(7));
            let other = Grant::new(subject("b"), preview);
            assert_eq!(pinned().release_for_preview(other), Err(GrantMismatch));
        }
        for run in [GrantKind::answer(&plain, false), GrantKind::unasked(&plain)] {
            assert_eq!(pinned().release(grant(run)), Ok(7));
            assert_eq!(pinned().release_for_preview(grant(run)), Err(GrantMismatch));
        }
    }

    #[test]
    fn a_subject_covers_every_part() {
        let base = PermissionSubject::for_call("t", &json!({"a": 1}), Path::new("/x"), b"old");
        for other in [
            PermissionSubject::for_call("u", &json!({"a": 1}), Path::new("/x"), b"old"),
            PermissionSubject::for_call("t", &json!({"a": 2}), Path::new("/x"), b"old"),
            PermissionSubject::for_call("t", &json!({"a": 1}), Path::new("/y"), b"old"),
            PermissionSubject::for_call("t", &json!({"a": 1}), Path::new("/x"), b"new"),
            PermissionSubject::for_call("t", &json!({"a": 1}), Path::new("/xo"), b"ld"),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn similar_calls_have_different_subjects() {
        let of = |args, cwd: &str| PermissionSubject::for_call("t", &args, Path::new(cwd), b"");
        let base = of(json!({ "n": [0.0, 1, "é"] }), "/p/a");
        assert_eq!(base, of(json!({ "n": [0.0, 1, "é"] }), "/p/a"));
        for (args, cwd) in [
            (json!({ "n": [-0.0, 1, "é"] }), "/p/a"),
            (json!({ "n": [0, 1, "é"] }), "/p/a"),
            (json!({ "n": [0.0, 1.0, "é"] }), "/p/a"),
            (json!({ "n": [0.0, "1", "é"] }), "/p/a"),
            (json!({ "n": [0.0, 1, "e\u{301}"] }), "/p/a"),
            (json!({ "n": [0.0, 1, "é"] }), "/p//a"),
            (json!({ "n": [0.0, 1, "é"] }), "/p/./a"),
            (json!({ "n": [0.0, 1, "é"] }), "/p/a/"),
        ] {
            let grant = grant(of(args.clone(), cwd));
            assert_eq!(
                PinnedPlan::new(7, base.clone()).release(grant),
                Err(GrantMismatch),
                "{args} in {cwd}"
            );
        }
    }

    #[test]
    fn a_subject_shows_none_of_its_arguments() {
        assert_eq!(format!("{:?}", subject("hunter22")), "PermissionSubject(\"tool\", ..)");
    }

    #[test]
    fn an_erased_plan_is_restored_by_its_type() {
        let pinned = PinnedPlan::new("plan", subject("a")).erase_type();
        assert_eq!(pinned.downcast::<&str>().unwrap().release(grant(subject("a"))), Ok("plan"));
        assert!(PinnedPlan::new(1_u8, subject("a")).erase_type().downcast::<u16>().is_none());
    }
}
