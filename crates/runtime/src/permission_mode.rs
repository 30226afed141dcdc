//! The permission modes, which decide on calls that no rule covers.

use std::path::PathBuf;
use std::sync::Arc;

use acp_lifecycle::{
    AcceptEditsPolicy, AllowInProjectPolicy, AskAlwaysPolicy, AskExceptReadsPolicy, Policy,
    ReadOnlyPolicy,
};

/// A permission mode: the default decision on calls that no rule covers. In every mode, a deny rule
/// takes precedence over the mode.
///
/// On the command line, a mode has the same id as in the protocol, e.g. `accept-edits`. The modes
/// are ordered from the strictest to the most permissive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionMode {
    /// Reads inside the project folders are allowed, and all other effects are denied.
    ReadOnly,
    /// Every effect needs permission, even a read.
    AskAlways,
    /// Reads inside the project folders are allowed, and all other calls need permission.
    #[default]
    Ask,
    /// Reading and editing inside the project folders is allowed, and so are commands in a sandbox.
    /// Other commands, deletions and edits of protected files need permission.
    AcceptEdits,
    /// All calls inside the project folders are allowed, and so are commands. Changes of protected
    /// files and folders need permission, and so do dangerous commands.
    Auto,
}

impl PermissionMode {
    /// Returns all modes, from the strictest to the most permissive.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &[Self::ReadOnly, Self::AskAlways, Self::Ask, Self::AcceptEdits, Self::Auto]
    }

    /// Returns the mode with this id, if there is one.
    #[must_use]
    pub fn parse(id: &str) -> Option<Self> {
        Self::all().iter().copied().find(|mode| mode.id() == id)
    }

    /// Returns whether this mode is more permissive than another mode.
    pub(crate) fn allows_more_than(self, other: Self) -> bool {
        let place = |mode| Self::all().iter().position(|it| *it == mode);
        place(self) > place(other)
    }

    /// Returns the id of the mode, which is used in the protocol and on the command line.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::AskAlways => "ask-always",
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Auto => "auto",
        }
    }

    /// Returns the name that is shown to the user.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "Read only",
            Self::AskAlways => "Always ask",
            Self::Ask => "Ask",
            Self::AcceptEdits => "Accept edits",
            Self::Auto => "Auto",
        }
    }

    /// Returns a description for the user, as one phrase without a full stop.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::ReadOnly => {
                "reads inside the roots are allowed; other reads, changes, commands, the web and \
                 MCP tools are denied"
            }
            Self::AskAlways => {
                "every call needs permission if it reads or changes files, runs a command, fetches \
                 a page or uses an MCP tool"
            }
            Self::Ask => "reads inside the roots are allowed, everything else is asked about",
            Self::AcceptEdits => {
                "reads and edits inside the roots and commands in a sandbox are allowed, everything \
                 else is asked about"
            }
            Self::Auto => {
                "everything inside the roots is allowed without asking, except protected files, \
                 dangerous commands and calls that a rule denies"
            }
        }
    }

    /// Returns the policy of the mode for a session with these project folders.
    pub(crate) fn policy(self, roots: &[PathBuf]) -> Arc<dyn Policy> {
        match self {
            Self::ReadOnly => Arc::new(ReadOnlyPolicy),
            Self::AskAlways => Arc::new(AskAlwaysPolicy),
            Self::Ask => Arc::new(AskExceptReadsPolicy),
            Self::AcceptEdits => Arc::new(AcceptEditsPolicy::new(roots)),
            Self::Auto => Arc::new(AllowInProjectPolicy),
        }
    }
}

/// The mode of a stored session that a process continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoredModeLimit {
    /// The stored mode, or the initial mode of the agent if the stored mode allows more.
    #[default]
    AtMostInitial,
    /// The stored mode. Choose this only if the user has not chosen the initial mode of the agent.
    AsStored,
}

/// The source of a session's policy for calls that no rule covers.
#[derive(Debug, Clone)]
pub(crate) enum PolicySource {
    /// A mode, which the client can change.
    Mode(PermissionMode),
    /// An embedder's policy, which the client cannot change.
    Policy(Arc<dyn Policy>),
}

impl PolicySource {
    pub(crate) fn mode(&self) -> Option<PermissionMode> {
        match self {
            Self::Mode(mode) => Some(*mode),
            Self::Policy(_) => None,
        }
    }

    pub(crate) fn policy(&self, roots: &[PathBuf]) -> Arc<dyn Policy> {
        match self {
            Self::Mode(mode) => mode.policy(roots),
            Self::Policy(policy) => policy.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PermissionMode;

    #[test]
    fn a_mode_has_one_id_everywhere() {
        for mode in PermissionMode::all() {
            assert_eq!(PermissionMode::parse(mode.id()), Some(*mode));
        }
        assert_eq!(PermissionMode::parse("Ask"), None);
    }
}
