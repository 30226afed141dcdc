//! An entry of a transcript.

use acp_types::schema::v1::{MessageId, PlanEntryStatus};

use super::call::Call;
use super::parts::Parts;
use crate::limits::PART_OVERHEAD_BYTES;

/// An entry: a message, a call, a plan or a notice. Entries are in the order of their first update.
#[derive(Debug)]
pub(super) enum Entry {
    Message(Message),
    Call(Box<Call>),
    Plan(Vec<PlanStep>),
    Notice(Notice),
}

/// A message of the user or the agent, or a thought.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) author: Author,
    pub(super) id: Option<MessageId>,
    pub(super) content: Parts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    User,
    Agent,
    Thought,
}

/// A step of a plan. Its text is one escaped line.
#[derive(Debug)]
pub(super) struct PlanStep {
    pub(super) text: String,
    pub(super) status: PlanEntryStatus,
}

/// A message that is not part of the conversation, e.g. about removed history.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) title: String,
    pub(super) description: Option<String>,
}

impl Entry {
    /// Returns the approximate size in memory in bytes.
    pub(super) fn byte_len(&self) -> usize {
        PART_OVERHEAD_BYTES
            + match self {
                Self::Message(message) => {
                    message.content.byte_len() + message.id.as_ref().map_or(0, |id| id.0.len())
                }
                Self::Call(call) => call.byte_len(),
                Self::Plan(steps) => {
                    steps.iter().map(|step| step.text.len() + PART_OVERHEAD_BYTES).sum()
                }
                Self::Notice(notice) => {
                    notice.title.len() + notice.description.as_ref().map_or(0, String::len)
                }
            }
    }

    /// Discards the large part of the entry, and keeps only the number of its bytes. The text of
    /// messages is not discarded.
    pub(super) fn discard_content(&mut self) {
        match self {
            Self::Message(message) if message.author == Author::Thought => {
                message.content.discard_content(0);
            }
            Self::Message(message) => message.content.discard_images(),
            Self::Call(call) => call.discard_content(),
            Self::Plan(_) | Self::Notice(_) => {}
        }
    }
}
