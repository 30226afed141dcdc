//! Permission: what is asked, what the answers mean, and the grant without which nothing runs.
//!
//! A call is *pinned* when its preview is done: what will run, with a digest of everything that
//! decides what it does. A [`Grant`] is made by this crate alone, for one digest. Only a grant
//! for the same digest releases what was pinned, so what runs is what was approved (G7).

use std::any::Any;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::rules::Scope;

mod options;

pub(crate) use options::{Memory, decide, heard, options};

/// SHA-256 over the tool's name, its whole unredacted arguments, the effective `cwd` and the
/// bytes that it found before it would change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of a call.
    #[must_use]
    pub fn of_call(tool: &str, args: &Value, cwd: &Path, pre_image: &[u8]) -> Self {
        let args = args.to_string();
        let cwd = cwd.as_os_str().as_encoded_bytes();
        let mut hasher = Sha256::new();
        for part in [tool.as_bytes(), args.as_bytes(), cwd, pre_image] {
            // The length in front keeps ("ab", "c") apart from ("a", "bc").
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }
}

/// What will run, locked until a [`Grant`] for it is there.
#[derive(Debug)]
pub struct Pinned<P> {
    plan: P,
    digest: Digest,
}

/// A plan whose type was set aside, so that tools of all kinds can stand in one list.
pub type AnyPlan = Box<dyn Any + Send>;

impl<P> Pinned<P> {
    /// Locks `plan` under the digest of everything that decides what it does.
    #[must_use]
    pub fn new(plan: P, digest: Digest) -> Self {
        Self { plan, digest }
    }

    /// Returns the digest a grant must have.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Releases the plan.
    ///
    /// # Errors
    ///
    /// [`GrantMismatch`] if the grant is for something else; then nothing may run.
    pub fn release(self, grant: Grant) -> Result<P, GrantMismatch> {
        if grant.digest == self.digest { Ok(self.plan) } else { Err(GrantMismatch) }
    }
}

impl<P: Any + Send> Pinned<P> {
    /// Sets the plan's type aside.
    #[must_use]
    pub fn erase(self) -> Pinned<AnyPlan> {
        Pinned { plan: Box::new(self.plan), digest: self.digest }
    }
}

impl Pinned<AnyPlan> {
    /// Finds the plan's type again; none if it was another.
    #[must_use]
    pub fn downcast<P: Any>(self) -> Option<Pinned<P>> {
        let plan = *self.plan.downcast().ok()?;
        Some(Pinned { plan, digest: self.digest })
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
    digest: Digest,
}

impl Grant {
    pub(crate) fn new(digest: Digest) -> Self {
        Self { digest }
    }
}

/// What a client's answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It may run.
    Allowed {
        /// How long the same is to be allowed without asking; not at all, if it holds once.
        remember: Option<Scope>,
    },
    /// It may not run. The turn goes on.
    Rejected {
        /// How long the same is to be rejected without asking; not at all, if it holds once.
        remember: Option<Scope>,
        /// What the user said about it, for the model.
        reason: Option<String>,
    },
    /// What was chosen was not offered; it may not run.
    Void,
    /// The client could not be asked; it may not run.
    Unanswered(String),
    /// The turn is over.
    Cancelled,
}

/// A client's answer to a permission request, before it is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
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

#[cfg(test)]
mod tests {
    use super::{Digest, Grant, GrantMismatch, Pinned};
    use serde_json::json;
    use std::path::Path;

    fn digest(args: &str) -> Digest {
        Digest::of_call("tool", &json!(args), Path::new("/"), b"")
    }

    #[test]
    fn a_grant_releases_what_it_was_given_for_and_nothing_else() {
        let pinned = || Pinned::new(7, digest("a"));
        assert_eq!(pinned().release(Grant::new(digest("a"))), Ok(7));
        assert_eq!(pinned().release(Grant::new(digest("b"))), Err(GrantMismatch));
    }

    #[test]
    fn a_digest_covers_every_part() {
        let base = Digest::of_call("t", &json!({"a": 1}), Path::new("/x"), b"old");
        for other in [
            Digest::of_call("u", &json!({"a": 1}), Path::new("/x"), b"old"),
            Digest::of_call("t", &json!({"a": 2}), Path::new("/x"), b"old"),
            Digest::of_call("t", &json!({"a": 1}), Path::new("/y"), b"old"),
            Digest::of_call("t", &json!({"a": 1}), Path::new("/x"), b"new"),
            Digest::of_call("t", &json!({"a": 1}), Path::new("/xo"), b"ld"),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn an_erased_plan_is_found_again_by_its_type() {
        let pinned = Pinned::new("plan", digest("a")).erase();
        assert_eq!(pinned.downcast::<&str>().unwrap().release(Grant::new(digest("a"))), Ok("plan"));
        assert!(Pinned::new(1_u8, digest("a")).erase().downcast::<u16>().is_none());
    }
}
