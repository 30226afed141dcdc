//! Observers: they fold the messages of a session back into what a client holds, with the schema
//! crate's own update functions, and note every broken rule of order.
//!
//! They share no code with the projections, so they can judge them, and any other agent too.

use std::fmt;

use crate::limits::MAX_VIOLATIONS;

pub mod v1;
#[cfg(feature = "v2")]
pub mod v2;

/// A message that breaks a rule of order, and about which call or terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong.
    pub rule: OrderRule,
    /// The id that the message is about.
    pub id: String,
}

/// What can be wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OrderRule {
    /// An update of a call that was not announced (G1).
    Unannounced,
    /// A second `tool_call` for the same id.
    AnnouncedTwice,
    /// Something about a call that has ended (G2).
    AfterEnd,
    /// A status that cannot follow the one before.
    IllegalTransition,
    /// An update that says nothing.
    EmptyUpdate,
    /// A turn was answered while a call of it was open (G3).
    OpenAtTurnEnd,
    /// A title is empty.
    EmptyTitle,
    /// Output or exit of a terminal that was not opened, or after its exit.
    TerminalNotOpen,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.rule {
            OrderRule::Unannounced => "was not announced",
            OrderRule::AnnouncedTwice => "was announced twice",
            OrderRule::AfterEnd => "was changed after its end",
            OrderRule::IllegalTransition => "took a step that its status does not allow",
            OrderRule::EmptyUpdate => "got an update that says nothing",
            OrderRule::OpenAtTurnEnd => "was open when its turn was answered",
            OrderRule::EmptyTitle => "has no title",
            OrderRule::TerminalNotOpen => {
                "got terminal output before it was opened or after it exited"
            }
        };
        write!(formatter, "{} {what}", self.id)
    }
}

/// The violations seen, up to a bound.
#[derive(Debug, Clone, Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, rule: OrderRule, id: &str) {
        if self.0.len() < MAX_VIOLATIONS {
            self.0.push(Violation { rule, id: id.to_owned() });
        }
    }
}
