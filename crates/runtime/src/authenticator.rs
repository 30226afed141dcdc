//! How users log in and out through a client.

use agent_client_protocol::Result;
use agent_client_protocol::v1::schema::{AuthMethod, ClientCapabilities};
use futures::future::BoxFuture;

/// The ways in which users log in to the services of an agent. An agent without an authenticator
/// offers no login.
///
/// [ACP: authentication](https://agentclientprotocol.com/protocol/initialization)
pub trait Authenticator: Send + Sync + std::fmt::Debug {
    /// Returns the methods that `initialize` offers to a client.
    fn methods(&self, client: &ClientCapabilities) -> Vec<AuthMethod>;

    /// Logs in with a method. A client may also name a method that [`methods`](Self::methods)
    /// offers only to other clients. Returns whether the method exists; the agent refuses unknown
    /// methods.
    ///
    /// # Errors
    ///
    /// Returns the error that the client receives.
    fn authenticate(&self, method: &str) -> BoxFuture<'_, Result<bool>>;

    /// Removes every stored login.
    ///
    /// # Errors
    ///
    /// Returns the reason of the failure, as text for the user.
    fn logout(&self) -> BoxFuture<'_, std::result::Result<(), String>>;

    /// Rereads the stored logins. This method is called before each session begins, and the session
    /// waits only briefly for the result.
    fn reread_logins(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
