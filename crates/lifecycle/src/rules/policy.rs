//! What is done about effects that no rule speaks of.

use std::path::{Component, Path, PathBuf};

use super::{Verdict, is_executed_or_config_beneath};
use crate::effects::{Effect, Effects};

/// What to do about effects that no rule speaks of.
///
/// A policy sees one effect at a time; a call is allowed if each of its effects is. What the policy
/// denies, no rule allows. To decide over a whole call, with its tool and arguments, or to wait for
/// somebody, let the policy say [`Verdict::Ask`] and answer the request:
/// `SessionHandle::set_approver`.
///
/// # How often it is called
///
/// Once for each effect of a call, one method of the three, whenever the call is judged: when it is to
/// be permitted, when an answer comes, and for each `CallHandle::judge`; where a rule decides, too.
/// `perform` judges what a preview reads twice before it, and all of it again where a call is
/// previewed anew. So a policy must be quick and count nothing. It is called under no lock of a
/// `SessionHandle` and may use one; a `Session` that you lock yourself it must not use. One that panics
/// permits nothing.
///
/// ```
/// use std::path::PathBuf;
///
/// use acp_lifecycle::{Effect, Policy, Verdict};
///
/// /// Changes in one folder are fine, the network never is, the rest is asked about.
/// #[derive(Debug)]
/// struct Drafts(PathBuf);
///
/// impl Policy for Drafts {
///     fn judge(&self, effect: &Effect) -> Verdict {
///         match effect {
///             Effect::Write(path) if path.starts_with(&self.0) => Verdict::Allow,
///             Effect::Connect(_) => Verdict::Deny,
///             _ => Verdict::Ask,
///         }
///     }
/// }
///
/// let policy = Drafts("/project/drafts".into());
/// assert_eq!(policy.judge(&Effect::Write("/project/drafts/a.md".into())), Verdict::Allow);
/// assert_eq!(policy.judge(&Effect::Unknown), Verdict::Ask);
/// ```
pub trait Policy: std::fmt::Debug + Send + Sync {
    /// Judges one effect that no rule speaks of.
    fn judge(&self, effect: &Effect) -> Verdict;

    /// Judges one effect that no rule speaks of, on something outside of the session's roots. It
    /// is asked about, unless the policy denies it everywhere.
    fn judge_outside(&self, effect: &Effect) -> Verdict {
        self.judge(effect).max(Verdict::Ask)
    }

    /// Judges one effect that no rule speaks of, of a call that changes more than text: see
    /// [`Effects::sensitive`](crate::Effects::sensitive). It is judged like any other, unless the
    /// policy says otherwise.
    fn judge_sensitive(&self, effect: &Effect) -> Verdict {
        self.judge(effect)
    }
}

/// The effects of a call, with what its policy says of each.
#[derive(Debug)]
pub(crate) struct PolicyVerdicts {
    effects: Effects,
    verdicts: Vec<Verdict>,
}

impl PolicyVerdicts {
    pub(crate) fn new(effects: Effects, policy: &dyn Policy) -> Self {
        let judge = |effect| {
            if effects.is_outside(effect) {
                policy.judge_outside(effect)
            } else if effects.is_sensitive() {
                policy.judge_sensitive(effect)
            } else {
                policy.judge(effect)
            }
        };
        let verdicts = effects.iter().map(judge).collect();
        Self { effects, verdicts }
    }

    pub(crate) fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Returns each effect, and what the policy says of it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Effect, Verdict)> {
        self.effects.iter().zip(self.verdicts.iter().copied())
    }
}

/// Reads are allowed, everything else is asked about, and so is a read outside of the roots. The
/// policy of a new session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskPolicy;

impl Policy for AskPolicy {
    fn judge(&self, effect: &Effect) -> Verdict {
        if effect.is_read() { Verdict::Allow } else { Verdict::Ask }
    }
}

/// Reads are allowed, and so is making and changing files beneath the roots, unless other programs
/// [obey](is_obeyed_beneath) them or the change is [sensitive](crate::Effects::sensitive). Everything
/// else is asked about: commands, deletions, other places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptEditsPolicy {
    roots: Vec<PathBuf>,
}

impl AcceptEditsPolicy {
    /// Allows edits beneath these absolute, normalised paths.
    #[must_use]
    pub fn new(roots: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self { roots: roots.into_iter().map(Into::into).collect() }
    }

    fn may_edit_path(&self, path: &Path) -> bool {
        let is_resolved = !path.components().any(|part| part == Component::ParentDir);
        // Of several roots that hold it, none may see such a name on the way.
        let is_obeyed = |root: &PathBuf| is_executed_or_config_beneath(root, path);
        is_resolved
            && self.roots.iter().any(|root| path.starts_with(root))
            && !self.roots.iter().any(is_obeyed)
    }
}

impl Policy for AcceptEditsPolicy {
    fn judge(&self, effect: &Effect) -> Verdict {
        match effect {
            Effect::Write(path) if self.may_edit_path(path) => Verdict::Allow,
            effect if effect.is_read() => Verdict::Allow,
            _ => Verdict::Ask,
        }
    }

    fn judge_sensitive(&self, effect: &Effect) -> Verdict {
        if effect.is_read() { Verdict::Allow } else { Verdict::Ask }
    }
}

/// Everything is asked about, reads too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskAlwaysPolicy;

impl Policy for AskAlwaysPolicy {
    fn judge(&self, _: &Effect) -> Verdict {
        Verdict::Ask
    }
}

/// Reads are allowed inside of the roots, everything else is denied, and nobody is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadOnlyPolicy;

impl Policy for ReadOnlyPolicy {
    fn judge(&self, effect: &Effect) -> Verdict {
        if effect.is_read() { Verdict::Allow } else { Verdict::Deny }
    }

    fn judge_outside(&self, _: &Effect) -> Verdict {
        Verdict::Deny
    }
}

/// Everything inside of the roots is allowed that no rule denies. For tests, and for users who said
/// so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowPolicy;

impl Policy for AllowPolicy {
    fn judge(&self, _: &Effect) -> Verdict {
        Verdict::Allow
    }
}
