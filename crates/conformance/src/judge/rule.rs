//! The rules, each with its stable name and its severity.

use std::fmt;

/// What a broken rule does to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It costs or confuses; nothing breaks.
    Warning,
    /// A client may fail on it, or show what is not so.
    Error,
}

/// Makes the enum of a list of rules: for each its documentation, variant, severity and name.
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $severity:ident, $name:literal;)*) => {
        /// A rule of ACP v1, or of the clients that there are.
        ///
        /// Displayed, it is its stable name in kebab case: `call-after-end`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ConformanceRule {
            $($(#[$doc])* $rule,)*
        }

        impl ConformanceRule {
            /// Returns every rule.
            #[must_use]
            pub fn all() -> &'static [Self] {
                &[$(Self::$rule,)*]
            }

            /// Returns what breaking it does to a client.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self {
                    $(Self::$rule => Severity::$severity,)*
                }
            }
        }

        impl fmt::Display for ConformanceRule {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self {
                    $(Self::$rule => $name,)*
                })
            }
        }
    };
}

rules! {
    /// A line is not UTF-8.
    NotUtf8 = Error, "not-utf8";
    /// A line is not JSON.
    NotJson = Error, "not-json";
    /// A line is no JSON object; a batch is none.
    NotAMessage = Error, "not-a-message";
    /// More bytes, levels or values than this judge takes; what it says is not judged.
    NotJudged = Error, "not-judged";
    /// A line of the agent is longer than 1 MiB.
    LongLine = Warning, "long-line";
    /// An update that is streamed is longer than 60 KiB; many clients end at 64 KiB.
    LongUpdate = Warning, "long-update";
    /// `jsonrpc` is not `"2.0"`.
    JsonrpcVersion = Error, "jsonrpc-version";
    /// A key that JSON-RPC does not know.
    StrayKey = Error, "stray-key";
    /// An id is neither a string nor an integer.
    BadId = Error, "bad-id";
    /// A method is no string.
    BadMethod = Error, "bad-method";
    /// An answer has both a result and an error, or neither.
    ResultOrError = Error, "result-or-error";
    /// The message of an error is empty or has several lines.
    ErrorMessage = Warning, "error-message";
    /// A method that the protocol does not know.
    UnknownMethod = Error, "unknown-method";
    /// A method of the other side.
    WrongSide = Error, "wrong-side";
    /// A request without an id, or a notification with one.
    WrongForm = Error, "wrong-form";
    /// An id of a request that is not answered yet.
    IdReused = Error, "id-reused";
    /// An answer to what nobody asked.
    UnaskedAnswer = Error, "unasked-answer";
    /// A second answer to the same request.
    AnsweredTwice = Error, "answered-twice";
    /// A request is not answered at the end of the transcript.
    NeverAnswered = Error, "never-answered";
    /// A field is missing or is not of its type.
    Schema = Error, "schema";
    /// A field that the protocol's types drop in silence: unknown, or malformed.
    LostField = Error, "lost-field";
    /// Something before `initialize` was asked, or of the agent before it was answered.
    BeforeInitialize = Error, "before-initialize";
    /// A version of the protocol other than 1, which is not judged.
    ProtocolVersion = Error, "protocol-version";
    /// A method or an update without the capability that it needs.
    Capability = Error, "capability";
    /// A session that was not opened.
    UnknownSession = Error, "unknown-session";
    /// The id of a session was given before.
    SessionTwice = Error, "session-twice";
    /// Something of a session after it was closed.
    AfterClose = Error, "after-close";
    /// An update of a turn, or a question, outside of one.
    OutsideTurn = Error, "outside-turn";
    /// A turn that was cancelled is answered by something else than `cancelled`.
    NotCancelled = Error, "not-cancelled";
    /// A prompt is answered before an earlier one, or after its session was closed.
    PromptOrder = Warning, "prompt-order";
    /// An update of a call that was not announced.
    CallUnannounced = Error, "call-unannounced";
    /// A second `tool_call` with the same id.
    CallTwice = Error, "call-twice";
    /// An update of a call after its final status.
    CallAfterEnd = Error, "call-after-end";
    /// A status that goes back.
    StatusBack = Error, "status-back";
    /// A call is completed that was never in progress.
    StatusSkipped = Warning, "status-skipped";
    /// A call is not final when its turn is answered.
    CallOpenAtAnswer = Error, "call-open-at-answer";
    /// An update that says nothing.
    EmptyUpdate = Warning, "empty-update";
    /// Content or locations that did not change are sent again.
    ArrayResent = Warning, "array-resent";
    /// A call has no title.
    NoTitle = Error, "no-title";
    /// A path is not absolute.
    RelativePath = Error, "relative-path";
    /// A line number is 0; the first line is 1.
    LineZero = Error, "line-zero";
    /// Permission is asked for a call that was not announced.
    PermissionUnknownCall = Error, "permission-unknown-call";
    /// Permission is asked without an option, or with two of the same id.
    PermissionOptions = Error, "permission-options";
    /// Two options are of one kind: a client with one key for a kind chooses one of them unseen.
    PermissionKinds = Warning, "permission-kinds";
    /// An option is selected that was not offered.
    UnknownOption = Error, "unknown-option";
    /// A mode, an option or a value of one is set or told that is not offered.
    NotOffered = Error, "not-offered";
    /// A call runs though its permission is not given, or not yet.
    RanUnpermitted = Error, "ran-unpermitted";
    /// A terminal that was not opened, or was released. Clients refuse an update that shows one.
    TerminalUnknown = Error, "terminal-unknown";
    /// A terminal is opened a second time.
    TerminalTwice = Error, "terminal-twice";
    /// Output or an exit of a terminal after its exit.
    TerminalAfterExit = Error, "terminal-after-exit";
    /// A terminal of the client is not released when its session is closed.
    TerminalLeft = Error, "terminal-left";
    /// An entry of a plan is empty.
    PlanEntry = Warning, "plan-entry";
    /// A plan lacks entries of the last one that were not completed, and has nothing new.
    PlanPartial = Warning, "plan-partial";
}

#[cfg(test)]
mod tests {
    use super::ConformanceRule;

    #[test]
    fn names_are_the_variants_in_kebab_case() {
        let kebab = |rule: &ConformanceRule| {
            let mut name = String::new();
            for letter in format!("{rule:?}").chars() {
                if letter.is_ascii_uppercase() && !name.is_empty() {
                    name.push('-');
                }
                name.push(letter.to_ascii_lowercase());
            }
            name
        };
        for rule in ConformanceRule::all() {
            assert_eq!(rule.to_string(), kebab(rule));
        }
    }
}
