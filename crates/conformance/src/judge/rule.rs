//! The rules, each with its stable name and its severity.

use std::fmt;

/// The effect of a rule violation on a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The violation is costly or confusing, but nothing breaks.
    Warning,
    /// A client may fail, or display wrong state.
    Error,
}

/// Generates the enum of all rules from a list. Each entry has documentation, variant, severity and
/// name.
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $severity:ident, $name:literal;)*) => {
        /// A rule of ACP v1, or of existing clients.
        ///
        /// The `Display` output of a rule is its stable name in kebab case: `call-after-end`.
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

            /// Returns the effect of a violation on a client.
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
    /// A line is not a JSON object. Batches are not allowed.
    NotAMessage = Error, "not-a-message";
    /// A line exceeds the judge's limit of bytes, levels or values; its content is not judged.
    NotJudged = Error, "not-judged";
    /// A line of the agent is longer than 1 MiB.
    LongLine = Warning, "long-line";
    /// A streamed update is longer than 60 KiB; many clients fail at 64 KiB.
    LongUpdate = Warning, "long-update";
    /// `jsonrpc` is not `"2.0"`.
    JsonrpcVersion = Error, "jsonrpc-version";
    /// A message has a key that JSON-RPC does not define.
    StrayKey = Error, "stray-key";
    /// An id is neither a string nor an integer.
    BadId = Error, "bad-id";
    /// A method is not a string.
    BadMethod = Error, "bad-method";
    /// A response has both a result and an error, or neither.
    ResultOrError = Error, "result-or-error";
    /// The message of an error is empty or has several lines.
    ErrorMessage = Warning, "error-message";
    /// A message has a method that the protocol does not define.
    UnknownMethod = Error, "unknown-method";
    /// A side sends a method that only the other side may send.
    WrongSide = Error, "wrong-side";
    /// A request has no id, or a notification has an id.
    WrongForm = Error, "wrong-form";
    /// A request has the same id as an earlier request that is not answered yet.
    IdReused = Error, "id-reused";
    /// A response has no matching request.
    UnaskedAnswer = Error, "unasked-answer";
    /// A request is answered a second time.
    AnsweredTwice = Error, "answered-twice";
    /// A request is not answered at the end of the transcript.
    NeverAnswered = Error, "never-answered";
    /// A required field is missing, or a field has a wrong type.
    Schema = Error, "schema";
    /// A field is unknown or malformed, so that the protocol's types drop it silently.
    LostField = Error, "lost-field";
    /// A message is sent before the `initialize` request, or by the agent before the response to
    /// `initialize`.
    BeforeInitialize = Error, "before-initialize";
    /// The protocol version is not 1. Messages of other versions are not judged.
    ProtocolVersion = Error, "protocol-version";
    /// A method or an update needs a capability that the other side did not declare.
    Capability = Error, "capability";
    /// A message names a session that was not opened.
    UnknownSession = Error, "unknown-session";
    /// The id of a session was used before.
    SessionTwice = Error, "session-twice";
    /// A message names a session that is already closed.
    AfterClose = Error, "after-close";
    /// An update that belongs to a turn, or a permission request, is sent outside of a turn.
    OutsideTurn = Error, "outside-turn";
    /// A cancelled turn is answered with a stop reason other than `cancelled`.
    NotCancelled = Error, "not-cancelled";
    /// A prompt is answered before an earlier prompt, or after its session was closed.
    PromptOrder = Warning, "prompt-order";
    /// An update names a call that was not announced.
    CallUnannounced = Error, "call-unannounced";
    /// A second `tool_call` has the same id.
    CallTwice = Error, "call-twice";
    /// A call is updated after its final status.
    CallAfterEnd = Error, "call-after-end";
    /// The status of a call changes back to an earlier status.
    StatusBack = Error, "status-back";
    /// A call is completed although it was never in progress.
    StatusSkipped = Warning, "status-skipped";
    /// A call is not final when its turn is answered.
    CallOpenAtAnswer = Error, "call-open-at-answer";
    /// An update of a call has no field with a value.
    EmptyUpdate = Warning, "empty-update";
    /// Content or locations that did not change are sent again.
    ArrayResent = Warning, "array-resent";
    /// A call has no title.
    NoTitle = Error, "no-title";
    /// A path is not absolute.
    RelativePath = Error, "relative-path";
    /// A line number is 0. The first line has the number 1.
    LineZero = Error, "line-zero";
    /// Permission is requested for a call that was not announced.
    PermissionUnknownCall = Error, "permission-unknown-call";
    /// Permission is requested without an option, or with two options that have the same id.
    PermissionOptions = Error, "permission-options";
    /// Two options that remember the answer have the same kind. A client with one key per kind
    /// selects one of the two options, and the user does not see what will be remembered.
    PermissionKinds = Warning, "permission-kinds";
    /// The selected option was not offered.
    UnknownOption = Error, "unknown-option";
    /// A mode, an option or an option's value is set or reported, but was not offered.
    NotOffered = Error, "not-offered";
    /// A call runs although its permission is rejected or still pending.
    RanUnpermitted = Error, "ran-unpermitted";
    /// A message names a terminal that was not opened or that was released. Clients refuse an
    /// update that shows such a terminal.
    TerminalUnknown = Error, "terminal-unknown";
    /// A terminal is opened a second time.
    TerminalTwice = Error, "terminal-twice";
    /// Output of a terminal, or a second exit, is reported after the terminal's exit.
    TerminalAfterExit = Error, "terminal-after-exit";
    /// A terminal of the client is not released when its session is closed.
    TerminalLeft = Error, "terminal-left";
    /// An entry of a plan is empty.
    PlanEntry = Warning, "plan-entry";
    /// A plan omits unfinished entries of the previous plan, and has no new entry.
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
