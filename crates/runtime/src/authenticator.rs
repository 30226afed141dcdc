//! How users log in and out, as a client offers it.

use agent_client_protocol::Result;
use agent_client_protocol::v1::schema::{AuthMethod, ClientCapabilities};
use futures::future::BoxFuture;

/// The ways to log in to the services of an agent. An agent without one offers none.
///
/// [ACP: authentication](https://agentclientprotocol.com/protocol/initialization)
pub trait Authenticator: Send + Sync + std::fmt::Debug {
    /// Returns the methods that `initialize` offers to a client.
    fn methods(&self, client: &ClientCapabilities) -> Vec<AuthMethod>;

    /// Logs in by a method, even by one that was offered to another client. Returns whether there
    /// is such a method; the agent refuses others.
    ///
    /// # Errors
    ///
    /// The error that the client receives.
    fn authenticate(&self, method: &str) -> BoxFuture<'_, Result<bool>>;

    /// Removes every login.
    ///
    /// # Errors
    ///
    /// The reason of the failure, as text for the user.
    fn logout(&self) -> BoxFuture<'_, std::result::Result<(), String>>;

    /// Rereads the stored logins. It is called before each session begins, which waits for it only
    /// briefly.
    fn reread_logins(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
