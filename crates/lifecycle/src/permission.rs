//! Permission: what is asked, what the answers mean, and the grant without which nothing runs.
//!
//! A call is *pinned* when its preview is done: what will run, with its [`Subject`], everything
//! that decides what it does. A [`Grant`] is made by this crate alone, for one subject. Only a
//! grant for the same subject releases what was pinned, so what runs is what was approved (G7).

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::ids::PermissionId;
use crate::rules::RuleScope;

mod options;

use options::{ALLOW_ONCE_ID, REJECT_ONCE_ID};
pub(crate) use options::{
    RememberedEffects, clean_rejection_reason, drop_stored_options, interpret_answer,
    permission_options,
};

/// Everything that decides what a call does: the tool's name, its whole unredacted arguments, the
/// effective `cwd`, and the bytes that identify what it found before it would change that.
///
/// Two are equal if every part is, to the byte: `a//b` is another path than `a/b`, and `-0.0` another
/// number than `0.0`. It holds the parts themselves and no hash of them, so nothing that a model may
/// write can pass for something else. Of a file, give a cryptographic hash or a stamp: the subject
/// is kept for as long as its call is open. Cheap to clone.
#[derive(Clone)]
pub struct PermissionSubject(Arc<SubjectParts>);

struct SubjectParts {
    tool: String,
    args: Value,
    cwd: PathBuf,
    pre_image: Vec<u8>,
}

impl PermissionSubject {
    /// Makes the subject of a call.
    #[must_use]
    pub fn for_call(tool: &str, args: &Value, cwd: &Path, pre_image: &[u8]) -> Self {
        Self(Arc::new(SubjectParts {
            tool: tool.to_owned(),
            args: args.clone(),
            cwd: cwd.to_owned(),
            pre_image: pre_image.to_owned(),
        }))
    }

    /// Returns the tool's name; empty where it is only asked what a preview may read.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.0.tool
    }

    /// Returns the whole arguments, in which nothing is hidden; null where it is only asked what a
    /// preview may read.
    #[must_use]
    pub fn args(&self) -> &Value {
        &self.0.args
    }

    /// Returns the folder that the call works in.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.0.cwd
    }
}

impl PartialEq for PermissionSubject {
    fn eq(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.0, &other.0);
        // JSON values are equal that are not written alike.
        let written = |parts: &SubjectParts| parts.args.to_string();
        Arc::ptr_eq(ours, theirs)
            || ours.tool == theirs.tool
                && ours.pre_image == theirs.pre_image
                && ours.cwd.as_os_str() == theirs.cwd.as_os_str()
                && written(ours) == written(theirs)
    }
}

impl Eq for PermissionSubject {}

/// Shows the tool alone: arguments may hold secrets.
impl fmt::Debug for PermissionSubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PermissionSubject").field(&self.0.tool).finish_non_exhaustive()
    }
}

/// What will run, locked until a [`Grant`] for it is there.
#[derive(Debug)]
pub struct Pinned<P> {
    plan: P,
    subject: PermissionSubject,
}

/// A plan whose type was set aside, so that tools of all kinds can stand in one list.
pub type ErasedPlan = Box<dyn Any + Send>;

impl<P> Pinned<P> {
    /// Locks `plan` under everything that decides what it does.
    #[must_use]
    pub fn new(plan: P, subject: PermissionSubject) -> Self {
        Self { plan, subject }
    }

    /// Returns the subject that a grant must be for.
    #[must_use]
    pub fn subject(&self) -> &PermissionSubject {
        &self.subject
    }

    /// Releases the plan.
    ///
    /// # Errors
    ///
    /// [`GrantMismatch`] if the grant is for something else; then nothing may run.
    pub fn release(self, grant: Grant) -> Result<P, GrantMismatch> {
        if grant.subject == self.subject { Ok(self.plan) } else { Err(GrantMismatch) }
    }
}

impl<P: Any + Send> Pinned<P> {
    /// Sets the plan's type aside.
    #[must_use]
    pub fn erase(self) -> Pinned<ErasedPlan> {
        Pinned { plan: Box::new(self.plan), subject: self.subject }
    }
}

impl Pinned<ErasedPlan> {
    /// Finds the plan's type again; none if it was another.
    #[must_use]
    pub fn downcast<P: Any>(self) -> Option<Pinned<P>> {
        let plan = *self.plan.downcast().ok()?;
        Some(Pinned { plan, subject: self.subject })
    }
}

/// A grant was used for a call that it was not given for. It is a fault of the program, never of
/// the model or the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the permission was given for another call")]
pub struct GrantMismatch;

/// The permission to run one call once. Only this crate makes one: after the client allowed the
/// call, or a rule or the policy did.
#[derive(Debug)]
pub struct Grant {
    subject: PermissionSubject,
}

impl Grant {
    pub(crate) fn new(subject: PermissionSubject) -> Self {
        Self { subject }
    }
}

/// Whether a call may run.
#[derive(Debug)]
#[non_exhaustive]
pub enum PermitDecision {
    /// It may.
    Granted(Grant),
    /// It may not.
    Denied(DenialReason),
    /// The client was asked; the answer comes by [`Session::answer`](crate::Session::answer).
    AwaitingAnswer(PermissionId),
}

/// What denies a call without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DenialReason {
    /// A rule.
    Rule,
    /// The session's [`Policy`](crate::Policy): its mode.
    Policy,
    /// The policy panicked, which permits nothing.
    PolicyPanicked,
    /// The call is not open.
    CallEnded,
}

/// Why there is no answer of the user to a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnansweredReason {
    /// The client answered with this error: it did not ask.
    ClientFailed(String),
    /// The client answered with an option that it was not offered.
    NotOffered,
    /// The request was withdrawn before its answer came.
    Withdrawn,
}

/// What became of a permission request.
#[derive(Debug)]
#[non_exhaustive]
pub enum PermissionOutcome {
    /// The call may run.
    Granted(Grant),
    /// The call may not run, the turn goes on.
    Rejected {
        /// What the user said about it.
        reason: Option<String>,
    },
    /// As [`Outcome::Rejected`], but by the session's approver: no person was asked.
    RejectedByApprover {
        /// What the approver said about it.
        reason: Option<String>,
    },
    /// It is denied, in spite of an answer of the client too; the turn goes on.
    Denied(DenialReason),
    /// It is allowed, but files that it may run were changed since it was asked about, and nobody was
    /// asked about that: it is to be permitted again, which names them.
    Outdated,
    /// There is no answer of the user, for this reason; the call may not run, the turn goes on.
    Unanswered(UnansweredReason),
    /// The turn is over.
    Cancelled,
}

/// What a client's answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientDecision {
    /// It may run.
    Allowed {
        /// How long the same is to be allowed without asking; not at all, if it holds once.
        remember: Option<RuleScope>,
    },
    /// It may not run. The turn goes on.
    Rejected {
        /// How long the same is to be rejected without asking; not at all, if it holds once.
        remember: Option<RuleScope>,
        /// What the user said about it, for the model.
        reason: Option<String>,
    },
    /// What was chosen was not offered; it may not run.
    NotOffered,
    /// The client could not be asked; it may not run.
    Unanswered(String),
    /// The turn is over.
    Cancelled,
}

/// A client's answer to a permission request, before it is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionAnswer {
    /// One of the options was chosen, by its id, with what the user said about it.
    Selected {
        /// The id, which may be none of ours.
        option_id: String,
        /// What the user said.
        reason: Option<String>,
    },
    /// The client says that the turn was cancelled.
    Cancelled,
    /// It answered with an error, or could not be reached.
    Failed(String),
}

impl PermissionAnswer {
    /// Allows a call this once.
    #[must_use]
    pub fn allow_once() -> Self {
        Self::Selected { option_id: ALLOW_ONCE_ID.to_owned(), reason: None }
    }

    /// Rejects a call this once, with what was said about it, which the model reads.
    #[must_use]
    pub fn reject_once(reason: Option<String>) -> Self {
        Self::Selected { option_id: REJECT_ONCE_ID.to_owned(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::{Grant, GrantMismatch, PermissionSubject, Pinned};
    use serde_json::json;
    use std::path::Path;

    fn subject(args: &str) -> PermissionSubject {
        PermissionSubject::for_call("tool", &json!(args), Path::new("/"), b"")
    }

    #[test]
    fn a_grant_releases_what_it_was_given_for_and_nothing_else() {
        let pinned = || Pinned::new(7, subject("a"));
        assert_eq!(pinned().release(Grant::new(subject("a"))), Ok(7));
        assert_eq!(pinned().release(Grant::new(subject("b"))), Err(GrantMismatch));
    }

    #[test]
    fn a_digest_covers_every_part() {
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
    fn what_is_nearly_the_same_is_another_subject() {
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
            let grant = Grant::new(of(args.clone(), cwd));
            assert_eq!(
                Pinned::new(7, base.clone()).release(grant),
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
    fn an_erased_plan_is_found_again_by_its_type() {
        let pinned = Pinned::new("plan", subject("a")).erase();
        assert_eq!(
            pinned.downcast::<&str>().unwrap().release(Grant::new(subject("a"))),
            Ok("plan")
        );
        assert!(Pinned::new(1_u8, subject("a")).erase().downcast::<u16>().is_none());
    }
}
