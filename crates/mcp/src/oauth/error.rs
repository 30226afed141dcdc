//! The reasons why a login of the user to a server failed.

/// The reason why a login failed. Each message is the end of a sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpLoginError {
    /// The server is a program.
    #[error("it is a program, which needs no login")]
    Program,
    /// The configuration of the server has no store for logins
    /// ([`McpServerConfig::login`](crate::McpServerConfig::login)).
    #[error("its logins cannot be stored")]
    NoStore,
    /// The server answers without a login, and publishes no metadata about logins.
    #[error("it needs no login")]
    NotNeeded,
    /// The server needs a login, but does not publish how to log in.
    #[error("it does not publish how to log in")]
    NoMetadata,
    /// A URL of the login does not use https. Other URLs are only allowed if both the URL and the
    /// server are on this computer.
    #[error("a login needs https, but the URL is {0}")]
    Insecure(String),
    /// The authorization server does not register the agent automatically. The user has to register
    /// a client there, and to add it to the configuration.
    #[error("its authorization server does not register this agent: {0}")]
    Registration(String),
    /// The configured client is registered at another authorization server, or has a secret but no
    /// issuer. The text is the issuer of the authorization server that the server names.
    #[error(
        "it names the authorization server {0}, which is not the issuer of the configured client"
    )]
    OtherIssuer(String),
    /// The user or the authorization server has refused the login.
    #[error("the login was refused: {0}")]
    Refused(String),
    /// The user did not log in within 5 minutes.
    #[error("the login was not finished in time")]
    TimedOut,
    /// The login could not be stored. The text is the reason of the store.
    #[error("the login cannot be stored: {0}")]
    Store(String),
    /// A request failed. The text is the reason.
    #[error("{0}")]
    Failed(String),
}
