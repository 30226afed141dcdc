//! The rules, each with its stable name. They know nothing of how they are checked.

use std::fmt;

use clap::ValueEnum;

/// What a broken rule does to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It costs or confuses; nothing breaks.
    Warning,
    /// A client may fail on it, or show what is not so.
    Error,
}

/// A rule of ACP v1, or of the clients that there are.
///
/// Its name on the command line is its name here in kebab case: `call-after-end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
#[non_exhaustive]
pub enum Rule {
    /// A line is not UTF-8.
    NotUtf8,
    /// A line is not JSON.
    NotJson,
    /// A line is no JSON object; a batch is none.
    NotAMessage,
    /// More bytes, levels or values than this judge takes; what it says is not judged.
    NotJudged,
    /// A line of the agent is longer than 1 MiB.
    LongLine,
    /// An update that is streamed is longer than 60 KiB; many clients end at 64 KiB.
    LongUpdate,
    /// `jsonrpc` is not `"2.0"`.
    JsonrpcVersion,
    /// A key that JSON-RPC does not know.
    StrayKey,
    /// An id is neither a string nor an integer.
    BadId,
    /// A method is no string.
    BadMethod,
    /// An answer has both a result and an error, or neither.
    ResultOrError,
    /// The message of an error is empty or has several lines.
    ErrorMessage,
    /// A method that the protocol does not know.
    UnknownMethod,
    /// A method of the other side.
    WrongSide,
    /// A request without an id, or a notification with one.
    WrongForm,
    /// An id of a request that is not answered yet.
    IdReused,
    /// An answer to what nobody asked.
    UnaskedAnswer,
    /// A second answer to the same request.
    AnsweredTwice,
    /// A request is not answered at the end of the transcript.
    NeverAnswered,
    /// A field is missing or is not of its type.
    Schema,
    /// A field that the protocol's types drop in silence: unknown, or malformed.
    LostField,
    /// Something before `initialize` was asked, or of the agent before it was answered.
    BeforeInitialize,
    /// A version of the protocol other than 1, which is not judged.
    ProtocolVersion,
    /// A method or an update without the capability that it needs.
    Capability,
    /// A session that was not opened.
    UnknownSession,
    /// The id of a session was given before.
    SessionTwice,
    /// Something of a session after it was closed.
    AfterClose,
    /// An update of a turn, or a question, outside of one.
    OutsideTurn,
    /// A turn that was cancelled is answered by something else than `cancelled`.
    NotCancelled,
    /// A prompt is answered before an earlier one, or after its session was closed.
    PromptOrder,
    /// An update of a call that was not announced.
    CallUnannounced,
    /// A second `tool_call` with the same id.
    CallTwice,
    /// An update of a call after its final status.
    CallAfterEnd,
    /// A status that goes back.
    StatusBack,
    /// A call is completed that was never in progress.
    StatusSkipped,
    /// A call is not final when its turn is answered.
    CallOpenAtAnswer,
    /// An update that says nothing.
    EmptyUpdate,
    /// Content or locations that did not change are sent again.
    ArrayResent,
    /// A call has no title.
    NoTitle,
    /// A path is not absolute.
    RelativePath,
    /// A line number is 0; the first line is 1.
    LineZero,
    /// Permission is asked for a call that was not announced.
    PermissionUnknownCall,
    /// Permission is asked without an option, or with two of the same id.
    PermissionOptions,
    /// Two options are of one kind: a client with one key for a kind chooses one of them unseen.
    PermissionKinds,
    /// An option is selected that was not offered.
    UnknownOption,
    /// A mode, an option or a value of one is set or told that is not offered.
    NotOffered,
    /// A call runs though its permission is not given, or not yet.
    RanUnpermitted,
    /// A terminal that was not opened, or was released. Clients refuse an update that shows one.
    TerminalUnknown,
    /// A terminal is opened a second time.
    TerminalTwice,
    /// Output or an exit of a terminal after its exit.
    TerminalAfterExit,
    /// A terminal of the client is not released when its session is closed.
    TerminalLeft,
    /// An entry of a plan is empty.
    PlanEntry,
    /// A plan lacks entries of the last one that were not completed, and has nothing new.
    PlanPartial,
}

impl Rule {
    /// Returns every rule.
    #[must_use]
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns what breaking it does to a client.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::LongLine
            | Self::LongUpdate
            | Self::ErrorMessage
            | Self::PromptOrder
            | Self::StatusSkipped
            | Self::EmptyUpdate
            | Self::ArrayResent
            | Self::PermissionKinds
            | Self::PlanEntry
            | Self::PlanPartial => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        formatter.write_str(value.as_ref().map_or("", clap::builder::PossibleValue::get_name))
    }
}

#[cfg(test)]
mod tests {
    use super::Rule;

    #[test]
    fn names_are_in_kebab_case_and_unique() {
        let mut names: Vec<_> = Rule::all().iter().map(ToString::to_string).collect();
        assert!(names.contains(&"not-a-message".to_owned()), "{names:?}");
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
