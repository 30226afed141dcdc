//! The modes: what is done about calls that no rule speaks of.

use std::sync::Arc;

use acp_lifecycle::{AllowPolicy, AskAlwaysPolicy, AskPolicy, Policy, ReadOnlyPolicy};

/// What is done about calls that no rule speaks of. A rule that denies wins in every mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum Mode {
    /// Reads inside the roots are allowed, everything else is asked about.
    #[default]
    Ask,
    /// Everything is asked about, reads too.
    AskAlways,
    /// Reads inside the roots are allowed, everything else is denied.
    ReadOnly,
    /// Everything is allowed without asking.
    Allow,
}

impl Mode {
    /// Returns the policy that the mode is.
    #[must_use]
    pub fn policy(self) -> Arc<dyn Policy> {
        match self {
            Self::Ask => Arc::new(AskPolicy),
            Self::AskAlways => Arc::new(AskAlwaysPolicy),
            Self::ReadOnly => Arc::new(ReadOnlyPolicy),
            Self::Allow => Arc::new(AllowPolicy),
        }
    }
}
