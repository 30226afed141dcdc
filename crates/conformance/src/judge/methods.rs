//! The stable methods of ACP v1 as data: who sends each, what it carries, what it needs.

use acp_types::schema::v1;

use super::Side;
use super::schema::{Check, check};

/// A method of the protocol.
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) side: Side,
    pub(super) params: Check,
    /// None for a notification.
    pub(super) result: Option<Check>,
    /// Where the other side's capabilities must say that it is there, as a JSON pointer.
    pub(super) gate: Option<&'static str>,
}

/// The method that both sides send.
pub(super) const CANCEL_REQUEST: &str = "$/cancel_request";

/// Returns the method with a name.
pub(super) fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

/// Whether a method is none of the stable protocol and yet no mistake: of somebody else, or of a
/// draft that is behind a capability.
pub(super) fn is_foreign(name: &str) -> bool {
    name.starts_with('_') || DRAFTS.contains(&name)
}

/// Methods of v1 that are not stable yet.
const DRAFTS: &[&str] = &[
    "auth/status",
    "auth/status_update",
    "mcp/message",
    "providers/disable",
    "providers/list",
    "providers/set",
    "session/archive",
    "session/fork",
    "session/set_title",
    "session/status",
    "session/unarchive",
];

/// Updates of v1 that are not stable yet.
pub(super) const DRAFT_UPDATES: &[&str] =
    &["plan_removed", "plan_update", "session_message", "session_message_chunk", "subagent_update"];

const METHODS: &[Method] = &[
    client("initialize", None, check::<v1::InitializeRequest>, check::<v1::InitializeResponse>),
    client(
        "authenticate",
        None,
        check::<v1::AuthenticateRequest>,
        check::<v1::AuthenticateResponse>,
    ),
    client("logout", Some("/auth/logout"), check::<v1::LogoutRequest>, check::<v1::LogoutResponse>),
    client("session/new", None, check::<v1::NewSessionRequest>, check::<v1::NewSessionResponse>),
    client(
        "session/load",
        Some("/loadSession"),
        check::<v1::LoadSessionRequest>,
        check::<v1::LoadSessionResponse>,
    ),
    client(
        "session/resume",
        Some("/sessionCapabilities/resume"),
        check::<v1::ResumeSessionRequest>,
        check::<v1::ResumeSessionResponse>,
    ),
    client(
        "session/list",
        Some("/sessionCapabilities/list"),
        check::<v1::ListSessionsRequest>,
        check::<v1::ListSessionsResponse>,
    ),
    client(
        "session/close",
        Some("/sessionCapabilities/close"),
        check::<v1::CloseSessionRequest>,
        check::<v1::CloseSessionResponse>,
    ),
    client(
        "session/delete",
        Some("/sessionCapabilities/delete"),
        check::<v1::DeleteSessionRequest>,
        check::<v1::DeleteSessionResponse>,
    ),
    client(
        "session/set_mode",
        None,
        check::<v1::SetSessionModeRequest>,
        check::<v1::SetSessionModeResponse>,
    ),
    client(
        "session/set_config_option",
        None,
        check::<v1::SetSessionConfigOptionRequest>,
        check::<v1::SetSessionConfigOptionResponse>,
    ),
    client("session/prompt", None, check::<v1::PromptRequest>, check::<v1::PromptResponse>),
    notification(Side::Client, "session/cancel", None, check::<v1::CancelNotification>),
    notification(Side::Client, CANCEL_REQUEST, None, check::<v1::CancelRequestNotification>),
    agent(
        "session/request_permission",
        None,
        check::<v1::RequestPermissionRequest>,
        check::<v1::RequestPermissionResponse>,
    ),
    agent(
        "fs/read_text_file",
        Some("/fs/readTextFile"),
        check::<v1::ReadTextFileRequest>,
        check::<v1::ReadTextFileResponse>,
    ),
    agent(
        "fs/write_text_file",
        Some("/fs/writeTextFile"),
        check::<v1::WriteTextFileRequest>,
        check::<v1::WriteTextFileResponse>,
    ),
    agent(
        "terminal/create",
        TERMINAL,
        check::<v1::CreateTerminalRequest>,
        check::<v1::CreateTerminalResponse>,
    ),
    agent(
        "terminal/output",
        TERMINAL,
        check::<v1::TerminalOutputRequest>,
        check::<v1::TerminalOutputResponse>,
    ),
    agent(
        "terminal/wait_for_exit",
        TERMINAL,
        check::<v1::WaitForTerminalExitRequest>,
        check::<v1::WaitForTerminalExitResponse>,
    ),
    agent(
        "terminal/kill",
        TERMINAL,
        check::<v1::KillTerminalRequest>,
        check::<v1::KillTerminalResponse>,
    ),
    agent(
        "terminal/release",
        TERMINAL,
        check::<v1::ReleaseTerminalRequest>,
        check::<v1::ReleaseTerminalResponse>,
    ),
    agent(
        "elicitation/create",
        Some("/elicitation"),
        check::<v1::CreateElicitationRequest>,
        check::<v1::CreateElicitationResponse>,
    ),
    notification(
        Side::Agent,
        "elicitation/complete",
        Some("/elicitation/url"),
        check::<v1::CompleteElicitationNotification>,
    ),
    notification(Side::Agent, "session/update", None, check::<v1::SessionNotification>),
];

const TERMINAL: Option<&str> = Some("/terminal");

const fn client(
    name: &'static str,
    gate: Option<&'static str>,
    params: Check,
    result: Check,
) -> Method {
    Method { name, side: Side::Client, params, result: Some(result), gate }
}

const fn agent(
    name: &'static str,
    gate: Option<&'static str>,
    params: Check,
    result: Check,
) -> Method {
    Method { name, side: Side::Agent, params, result: Some(result), gate }
}

const fn notification(
    side: Side,
    name: &'static str,
    gate: Option<&'static str>,
    params: Check,
) -> Method {
    Method { name, side, params, result: None, gate }
}
