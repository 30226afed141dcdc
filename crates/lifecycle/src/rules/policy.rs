//! Policies, which judge effects that no rule matches.

use std::path::{Component, Path, PathBuf};

use super::{Verdict, is_executed_or_config_path};
use crate::effects::{Effect, Effects};

/// A policy judges effects that no rule matches.
///
/// A policy judges one effect at a time. A call is allowed if each of its effects is allowed. No
/// rule can allow an effect that the policy denies. To decide about a whole call with its tool and
/// arguments, or to wait for a decision, return [`Verdict::Ask`] and answer the request with
/// `SessionHandle::set_approver`.
///
/// # Calls
///
/// Whenever a tool call is judged, one of the methods is called once per effect, even if a rule
/// decides. A tool call is judged when it requests permission, when an answer arrives, and whenever
/// `CallHandle::judge_effects` is called. If a preview reads files, `execute_call` judges the
/// reading of these files twice before the preview starts, and again before each further preview of
/// the call. A policy must therefore be fast, and its verdict must not depend on how often the
/// policy is called.
///
/// No lock of a `SessionHandle` is held while the policy is called, so the policy may use a
/// `SessionHandle`. If you lock a `Session` yourself, the policy must not use that session. If a
/// policy panics, the call is not permitted.
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
    /// Judges one effect that no rule matches.
    fn judge(&self, effect: &Effect) -> Verdict;

    /// Judges one effect that no rule matches and that acts on a path outside of the session's
    /// project folders. By default, such an effect is denied if the policy would deny it inside the
    /// project folders. In all other cases, the client is asked.
    fn judge_outside_project(&self, effect: &Effect) -> Verdict {
        self.judge(effect).max(Verdict::Ask)
    }

    /// Judges one effect that no rule matches and that is marked as sensitive (see
    /// [`Effects::with_high_risk_mark`](crate::Effects::with_high_risk_mark)). By default, the
    /// effect is judged like any other effect.
    fn judge_marked_sensitive(&self, effect: &Effect) -> Verdict {
        self.judge(effect)
    }

    /// Judges one effect that runs a command, that no rule matches and that is marked as sandboxed
    /// (see [`Effects::with_sandbox_mark`](crate::Effects::with_sandbox_mark)). By default, the
    /// command is judged like any other command.
    fn judge_sandboxed(&self, effect: &Effect) -> Verdict {
        self.judge(effect)
    }
}

/// The effects of a call, each with the policy's verdict.
#[derive(Debug)]
pub(crate) struct PolicyVerdicts {
    effects: Effects,
    verdicts: Vec<Verdict>,
}

impl PolicyVerdicts {
    pub(crate) fn from_policy(effects: Effects, policy: &dyn Policy) -> Self {
        let judge = |effect| {
            if effects.is_effect_outside_project(effect) {
                policy.judge_outside_project(effect)
            } else if effects.has_sandbox() && matches!(effect, Effect::Run { .. }) {
                policy.judge_sandboxed(effect)
            } else if effects.is_high_risk() {
                policy.judge_marked_sensitive(effect)
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

    /// Returns each effect with the policy's verdict.
    pub(crate) fn effects_with_verdicts(&self) -> impl Iterator<Item = (&Effect, Verdict)> {
        self.effects.iter().zip(self.verdicts.iter().copied())
    }
}

/// Allows reads inside the project folders and asks about everything else. A new session has this
/// policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskExceptReadsPolicy;

impl Policy for AskExceptReadsPolicy {
    fn judge(&self, effect: &Effect) -> Verdict {
        if effect.is_read() { Verdict::Allow } else { Verdict::Ask }
    }
}

/// Allows reading, creating and changing files inside the project folders, and
/// [sandboxed](crate::Effects::with_sandbox_mark) commands. Asks about changes of files that other
/// programs [execute or read as configuration](is_executed_or_config_path), about
/// [sensitive](crate::Effects::with_high_risk_mark) changes, and about everything else, e.g. other
/// commands, deletions and other paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptEditsPolicy {
    roots: Vec<PathBuf>,
}

impl AcceptEditsPolicy {
    /// Creates a policy that allows edits inside these folders, which must be absolute, normalized
    /// paths.
    #[must_use]
    pub fn new(roots: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self { roots: roots.into_iter().map(Into::into).collect() }
    }

    fn may_edit_path(&self, path: &Path) -> bool {
        let is_resolved = !path.components().any(|part| part == Component::ParentDir);
        // Several project folders may contain the path. The path must be unprotected relative to
        // each of these folders.
        let is_obeyed = |root: &PathBuf| is_executed_or_config_path(root, path);
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

    fn judge_marked_sensitive(&self, effect: &Effect) -> Verdict {
        if effect.is_read() { Verdict::Allow } else { Verdict::Ask }
    }

    fn judge_sandboxed(&self, _: &Effect) -> Verdict {
        Verdict::Allow
    }
}

/// Asks about everything, including reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskAlwaysPolicy;

impl Policy for AskAlwaysPolicy {
    fn judge(&self, _: &Effect) -> Verdict {
        Verdict::Ask
    }
}

/// Allows reads inside the project folders and denies everything else without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadOnlyPolicy;

impl Policy for ReadOnlyPolicy {
    fn judge(&self, effect: &Effect) -> Verdict {
        if effect.is_read() { Verdict::Allow } else { Verdict::Deny }
    }

    fn judge_outside_project(&self, _: &Effect) -> Verdict {
        Verdict::Deny
    }
}

/// Allows everything inside the project folders that no rule denies. Asks about connections to
/// hosts, and about [sensitive](crate::Effects::with_high_risk_mark) tools of MCP servers. Use this
/// policy for tests, and for users who chose a permission mode that allows everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowInProjectPolicy;

impl Policy for AllowInProjectPolicy {
    fn judge(&self, effect: &Effect) -> Verdict {
        match effect {
            Effect::Connect(_) => Verdict::Ask,
            _ => Verdict::Allow,
        }
    }

    /// A tool of an MCP server is sensitive if the server declares it as destructive, or if its
    /// definition has changed.
    fn judge_marked_sensitive(&self, effect: &Effect) -> Verdict {
        match effect {
            Effect::Mcp { .. } => Verdict::Ask,
            effect => self.judge(effect),
        }
    }
}
