//! Permission: what is asked, what the answers mean, and the grant without which nothing runs.
//!
//! A call is *pinned* when its preview is done: what will run, with a digest of everything that
//! decides what it does. A [`Grant`] is made by this crate alone, for one digest. Only a grant
//! for the same digest releases what was pinned, so what runs is what was approved (G7).

use std::any::Any;
use std::path::Path;

use acp_types::schema::v1::{PermissionOption, PermissionOptionKind};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::effects::{Effect, Effects};
use crate::limits::OPTION_BYTES;

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
#[non_exhaustive]
pub enum Decision {
    /// It may run; `always` remembers that.
    Allowed {
        /// Whether the same is to be allowed without asking from now on.
        always: bool,
    },
    /// It may not run; `always` remembers that. The turn goes on.
    Rejected {
        /// Whether the same is to be rejected without asking from now on.
        always: bool,
        /// What the user said about it, for the model.
        reason: Option<String>,
    },
    /// The client could not be asked, or gave no answer that means anything; it may not run.
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

/// The four options of every request, named by what will be remembered.
///
/// Where nothing can be remembered, the two that remember are left out.
#[must_use]
pub fn options(effects: &Effects, display: impl Fn(&Path) -> String) -> Vec<PermissionOption> {
    let once = [
        PermissionOption::new(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
        PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce),
    ];
    let Some(what) = describe(effects, display) else {
        return once.into();
    };
    let [allow, reject] = once;
    let always = PermissionOption::new(
        ALLOW_ALWAYS,
        format!("Always allow {what} in this session"),
        PermissionOptionKind::AllowAlways,
    );
    let never = PermissionOption::new(
        REJECT_ALWAYS,
        format!("Always reject {what} in this session"),
        PermissionOptionKind::RejectAlways,
    );
    vec![allow, always, reject, never]
}

/// Understands an answer. Only the option that was offered and says so allows anything: an
/// unknown option, an error, no answer are all a no.
#[must_use]
pub fn decide(answer: Answer, offered: &[PermissionOption]) -> Decision {
    let rejected = |reason| Decision::Rejected { always: false, reason };
    match answer {
        Answer::Cancelled => Decision::Cancelled,
        Answer::Failed(error) => Decision::Unanswered(error),
        Answer::Selected { option_id, reason } => {
            let option = offered.iter().find(|option| *option.option_id.0 == *option_id);
            match option.map(|option| option.kind) {
                Some(PermissionOptionKind::AllowOnce) => Decision::Allowed { always: false },
                Some(PermissionOptionKind::AllowAlways) => Decision::Allowed { always: true },
                Some(PermissionOptionKind::RejectAlways) => {
                    Decision::Rejected { always: true, reason }
                }
                _ => rejected(reason),
            }
        }
    }
}

/// Says in words what would be remembered; nothing if that is nothing, unknown, or too long to be
/// read on a button.
fn describe(effects: &Effects, display: impl Fn(&Path) -> String) -> Option<String> {
    let mut words = Vec::new();
    for effect in effects.iter() {
        words.push(match effect {
            Effect::Read(_) => continue,
            Effect::Write(path) => format!("changing {}", display(path)),
            Effect::Delete(path) => format!("deleting {}", display(path)),
            Effect::Run { command, cwd } => match display(cwd).as_str() {
                "." => format!("`{command}`"),
                cwd => format!("`{command}` in {cwd}"),
            },
            Effect::Connect(host) => format!("connecting to {host}"),
            Effect::Mcp { server, tool } => format!("{tool} of {server}"),
            Effect::Unknown => return None,
        });
    }
    words.dedup();
    let words = crate::title::visible(&words.join(", "));
    (1..=OPTION_BYTES).contains(&words.len()).then_some(words)
}

/// The ids of the options.
const ALLOW: &str = "allow";
const ALLOW_ALWAYS: &str = "allow_always";
const REJECT: &str = "reject";
const REJECT_ALWAYS: &str = "reject_always";

#[cfg(test)]
mod tests {
    use super::{Answer, Decision, Digest, Grant, GrantMismatch, Pinned, decide, options};
    use crate::effects::{Effect, Effects};
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

    #[test]
    fn an_option_says_what_will_be_remembered() {
        let run = Effect::Run { command: "cargo\ntest".to_owned(), cwd: "/p".into() };
        let effects = Effects::from_iter([Effect::Read("/r".into()), run]);
        let names = |effects: &Effects| {
            let all = options(effects, |path| path.display().to_string());
            all.into_iter().map(|option| option.name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&effects),
            [
                "Allow",
                "Always allow `cargo\\ntest` in /p in this session",
                "Reject",
                "Always reject `cargo\\ntest` in /p in this session",
            ]
        );
        assert_eq!(names(&Effects::from(Effect::Unknown)), ["Allow", "Reject"]);
    }

    #[test]
    fn only_an_offered_option_that_allows_allows() {
        let offered = options(&Effects::from(Effect::Write("/a".into())), |_| String::new());
        let selected = |option_id: &str| Answer::Selected {
            option_id: option_id.to_owned(),
            reason: Some("why".to_owned()),
        };
        let reason = Some("why".to_owned());
        for (answer, expected) in [
            (selected("allow"), Decision::Allowed { always: false }),
            (selected("allow_always"), Decision::Allowed { always: true }),
            (selected("reject"), Decision::Rejected { always: false, reason: reason.clone() }),
            (
                selected("reject_always"),
                Decision::Rejected { always: true, reason: reason.clone() },
            ),
            (selected("Allow"), Decision::Rejected { always: false, reason: reason.clone() }),
            (selected(""), Decision::Rejected { always: false, reason }),
            (Answer::Failed("no".to_owned()), Decision::Unanswered("no".to_owned())),
            (Answer::Cancelled, Decision::Cancelled),
        ] {
            assert_eq!(decide(answer, &offered), expected);
        }
        let once = options(&Effects::from(Effect::Unknown), |_| String::new());
        let refused = Decision::Rejected { always: false, reason: Some("why".to_owned()) };
        assert_eq!(decide(selected("allow_always"), &once), refused);
    }
}
