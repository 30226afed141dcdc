//! A permission request whose JSON is created by `acp-types` and sent unchanged by the SDK.

use acp_types::wire::ClientMessage;
use agent_client_protocol::v1::schema::{RequestPermissionRequest, RequestPermissionResponse};
use agent_client_protocol::{Error, JsonRpcMessage, JsonRpcRequest, Result, UntypedMessage};
use serde_json::Value;

/// A `session/request_permission` that the SDK can send. This type exists because the SDK's own
/// type omits the old text of a new file.
#[derive(Debug, Clone)]
pub(crate) struct PermissionRequestMessage(pub(crate) RequestPermissionRequest);

impl JsonRpcRequest for PermissionRequestMessage {
    type Response = RequestPermissionResponse;
}

impl JsonRpcMessage for PermissionRequestMessage {
    /// Returns false for every method, because this type is only sent.
    fn matches_method(_method: &str) -> bool {
        false
    }

    fn method(&self) -> &str {
        ClientMessage::method(&self.0)
    }

    fn to_untyped_message(&self) -> Result<UntypedMessage> {
        Ok(UntypedMessage { method: self.method().to_owned(), params: self.0.params()? })
    }

    fn parse_message(_method: &str, _params: &Value) -> Result<Self> {
        Err(Error::method_not_found())
    }
}
