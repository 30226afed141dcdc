//! An update notification whose JSON is created by `acp-types` and sent unchanged by the SDK.

use acp_types::wire::ClientMessage as _;
use acp_types::wire::v1::SessionUpdateParams;
use agent_client_protocol::{Error, JsonRpcMessage, JsonRpcNotification, Result, UntypedMessage};
use serde_json::Value;

/// A `session/update` that the SDK can send. This type exists because the SDK's own type omits
/// fields of a call that have default values.
#[derive(Debug, Clone)]
pub(crate) struct UpdateNotification(pub(crate) SessionUpdateParams);

impl JsonRpcNotification for UpdateNotification {}

impl JsonRpcMessage for UpdateNotification {
    /// Returns false for every method, because this type is only sent. The SDK's type parses
    /// received updates.
    fn matches_method(_method: &str) -> bool {
        false
    }

    fn method(&self) -> &str {
        self.0.method()
    }

    fn to_untyped_message(&self) -> Result<UntypedMessage> {
        // `UntypedMessage::new` would copy the JSON.
        Ok(UntypedMessage { method: self.method().to_owned(), params: self.0.params()? })
    }

    fn parse_message(_method: &str, _params: &Value) -> Result<Self> {
        Err(Error::method_not_found())
    }
}
