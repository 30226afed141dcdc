//! How users log in and out, as a client offers it.

use agent_client_protocol::Result;
use agent_client_protocol::v1::schema::{AuthMethod, ClientCapabilities};
use futures::future::BoxFuture;

/// The ways to log in to what an agent uses. An agent without one offers none.
///
/// [ACP: authentication](https://agentclientprotocol.com/protocol/initialization)
pub trait Authenticator: Send + Sync + std::fmt::Debug {
    /// Returns the methods that `initialize` offers to a client.
    fn methods(&self, client: &ClientCapabilities) -> Vec<AuthMethod>;

    /// Logs in by a method, also by one that another client was offered. Returns whether there is such
    /// a method; the agent refuses others.
    ///
    /// # Errors
    ///
    /// The error that the client gets.
    fn authenticate(&self, method: &str) -> BoxFuture<'_, Result<bool>>;

    /// Removes every login.
    ///
    /// # Errors
    ///
    /// Why that was not possible, for people.
    fn logout(&self) -> BoxFuture<'_, std::result::Result<(), String>>;

    /// Reads which logins there are by now. It is called before each session begins, which waits for
    /// it only for a moment.
    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
