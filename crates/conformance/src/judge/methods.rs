//! The stable methods of ACP v1, each with its sender, its schemas and the capability that it
//! needs.

use acp_types::schema::v1;

use super::Side;
use super::schema::{SchemaCheck, check_schema};

/// A method of the protocol.
pub(super) struct ProtocolMethod {
    pub(super) name: &'static str,
    pub(super) side: Side,
    pub(super) params: SchemaCheck,
    /// The schema of the result; `None` for a notification.
    pub(super) result: Option<SchemaCheck>,
    /// JSON pointer to the capability that the other side must declare.
    pub(super) required_capability: Option<&'static str>,
}

/// The method that both sides send.
pub(super) const CANCEL_REQUEST: &str = "$/cancel_request";

/// Returns the method with this name.
pub(super) fn find_method(name: &str) -> Option<&'static ProtocolMethod> {
    STABLE_METHODS.iter().find(|method| method.name == name)
}

/// Returns whether a method outside of the stable protocol is legal. Legal methods are extensions,
/// and draft methods that need a capability.
pub(super) fn is_extension_or_draft(name: &str) -> bool {
    name.starts_with('_') || DRAFT_METHODS.contains(&name)
}

/// Methods of v1 that are not stable yet.
const DRAFT_METHODS: &[&str] = &[
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

const STABLE_METHODS: &[ProtocolMethod] = &[
    define_client_request(
        "initialize",
        None,
        check_schema::<v1::InitializeRequest>,
        check_schema::<v1::InitializeResponse>,
    ),
    define_client_request(
        "authenticate",
        None,
        check_schema::<v1::AuthenticateRequest>,
        check_schema::<v1::AuthenticateResponse>,
    ),
    define_client_request(
        "logout",
        Some("/auth/logout"),
        check_schema::<v1::LogoutRequest>,
        check_schema::<v1::LogoutResponse>,
    ),
    define_client_request(
        "session/new",
        None,
        check_schema::<v1::NewSessionRequest>,
        check_schema::<v1::NewSessionResponse>,
    ),
    define_client_request(
        "session/load",
        Some("/loadSession"),
        check_schema::<v1::LoadSessionRequest>,
        check_schema::<v1::LoadSessionResponse>,
    ),
    define_client_request(
        "session/resume",
        Some("/sessionCapabilities/resume"),
        check_schema::<v1::ResumeSessionRequest>,
        check_schema::<v1::ResumeSessionResponse>,
    ),
    define_client_request(
        "session/list",
        Some("/sessionCapabilities/list"),
        check_schema::<v1::ListSessionsRequest>,
        check_schema::<v1::ListSessionsResponse>,
    ),
    define_client_request(
        "session/close",
        Some("/sessionCapabilities/close"),
        check_schema::<v1::CloseSessionRequest>,
        check_schema::<v1::CloseSessionResponse>,
    ),
    define_client_request(
        "session/delete",
        Some("/sessionCapabilities/delete"),
        check_schema::<v1::DeleteSessionRequest>,
        check_schema::<v1::DeleteSessionResponse>,
    ),
    define_client_request(
        "session/set_mode",
        None,
        check_schema::<v1::SetSessionModeRequest>,
        check_schema::<v1::SetSessionModeResponse>,
    ),
    define_client_request(
        "session/set_config_option",
        None,
        check_schema::<v1::SetSessionConfigOptionRequest>,
        check_schema::<v1::SetSessionConfigOptionResponse>,
    ),
    define_client_request(
        "session/prompt",
        None,
        check_schema::<v1::PromptRequest>,
        check_schema::<v1::PromptResponse>,
    ),
    define_notification(
        Side::Client,
        "session/cancel",
        None,
        check_schema::<v1::CancelNotification>,
    ),
    define_notification(
        Side::Client,
        CANCEL_REQUEST,
        None,
        check_schema::<v1::CancelRequestNotification>,
    ),
    define_agent_request(
        "session/request_permission",
        None,
        check_schema::<v1::RequestPermissionRequest>,
        check_schema::<v1::RequestPermissionResponse>,
    ),
    define_agent_request(
        "fs/read_text_file",
        Some("/fs/readTextFile"),
        check_schema::<v1::ReadTextFileRequest>,
        check_schema::<v1::ReadTextFileResponse>,
    ),
    define_agent_request(
        "fs/write_text_file",
        Some("/fs/writeTextFile"),
        check_schema::<v1::WriteTextFileRequest>,
        check_schema::<v1::WriteTextFileResponse>,
    ),
    define_agent_request(
        "terminal/create",
        TERMINAL_CAPABILITY,
        check_schema::<v1::CreateTerminalRequest>,
        check_schema::<v1::CreateTerminalResponse>,
    ),
    define_agent_request(
        "terminal/output",
        TERMINAL_CAPABILITY,
        check_schema::<v1::TerminalOutputRequest>,
        check_schema::<v1::TerminalOutputResponse>,
    ),
    define_agent_request(
        "terminal/wait_for_exit",
        TERMINAL_CAPABILITY,
        check_schema::<v1::WaitForTerminalExitRequest>,
        check_schema::<v1::WaitForTerminalExitResponse>,
    ),
    define_agent_request(
        "terminal/kill",
        TERMINAL_CAPABILITY,
        check_schema::<v1::KillTerminalRequest>,
        check_schema::<v1::KillTerminalResponse>,
    ),
    define_agent_request(
        "terminal/release",
        TERMINAL_CAPABILITY,
        check_schema::<v1::ReleaseTerminalRequest>,
        check_schema::<v1::ReleaseTerminalResponse>,
    ),
    define_agent_request(
        "elicitation/create",
        Some("/elicitation"),
        check_schema::<v1::CreateElicitationRequest>,
        check_schema::<v1::CreateElicitationResponse>,
    ),
    define_notification(
        Side::Agent,
        "elicitation/complete",
        Some("/elicitation/url"),
        check_schema::<v1::CompleteElicitationNotification>,
    ),
    define_notification(
        Side::Agent,
        "session/update",
        None,
        check_schema::<v1::SessionNotification>,
    ),
];

const TERMINAL_CAPABILITY: Option<&str> = Some("/terminal");

const fn define_client_request(
    name: &'static str,
    gate: Option<&'static str>,
    params: SchemaCheck,
    result: SchemaCheck,
) -> ProtocolMethod {
    ProtocolMethod {
        name,
        side: Side::Client,
        params,
        result: Some(result),
        required_capability: gate,
    }
}

const fn define_agent_request(
    name: &'static str,
    gate: Option<&'static str>,
    params: SchemaCheck,
    result: SchemaCheck,
) -> ProtocolMethod {
    ProtocolMethod {
        name,
        side: Side::Agent,
        params,
        result: Some(result),
        required_capability: gate,
    }
}

const fn define_notification(
    side: Side,
    name: &'static str,
    gate: Option<&'static str>,
    params: SchemaCheck,
) -> ProtocolMethod {
    ProtocolMethod { name, side, params, result: None, required_capability: gate }
}
