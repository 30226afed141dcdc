//! The state of a client, rebuilt from the messages of a session by the update functions of the
//! schema crate. A client state also records every rule of order that a message breaks.
//!
//! Client states share no code with the projections. They can therefore check the messages of the
//! projections, and those of any other agent.

use std::fmt;

use crate::limits::MAX_VIOLATIONS;

pub mod v1;
#[cfg(feature = "v2")]
pub mod v2;

/// A message that breaks a rule of order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The broken rule.
    pub rule: OrderRule,
    /// Id of the call or terminal.
    pub id: String,
}

/// The rules of order that a message can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OrderRule {
    /// An update of a call that was not announced (G1).
    Unannounced,
    /// A second `tool_call` with the same id.
    AnnouncedTwice,
    /// A message about a call that has finished (G2).
    AfterEnd,
    /// A status that must not follow the previous status.
    IllegalTransition,
    /// An update without changes.
    EmptyUpdate,
    /// The response that ends a turn while one of the turn's calls is open (G3).
    OpenAtTurnEnd,
    /// An empty title.
    EmptyTitle,
    /// An event of a terminal that is not open, e.g. output before its first report or after its
    /// exit.
    TerminalNotOpen,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.rule {
            OrderRule::Unannounced => "was not announced",
            OrderRule::AnnouncedTwice => "was announced twice",
            OrderRule::AfterEnd => "was changed after its end",
            OrderRule::IllegalTransition => "changed to a status that may not follow its last one",
            OrderRule::EmptyUpdate => "received an update without changes",
            OrderRule::OpenAtTurnEnd => "was open when its turn was answered",
            OrderRule::EmptyTitle => "has no title",
            OrderRule::TerminalNotOpen => {
                "received terminal output before it was opened or after it exited"
            }
        };
        write!(formatter, "{} {what}", self.id)
    }
}

/// The recorded violations, at most [`MAX_VIOLATIONS`] of them.
#[derive(Debug, Clone, Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn push_unless_full(&mut self, rule: OrderRule, id: &str) {
        if self.0.len() < MAX_VIOLATIONS {
            self.0.push(Violation { rule, id: id.to_owned() });
        }
    }
}
