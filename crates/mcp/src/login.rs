//! The settings of logins to servers over HTTP, and the trait of their store.

use std::fmt;
use std::sync::Arc;

/// The settings of a login to a server.
#[derive(Clone)]
#[non_exhaustive]
pub struct McpLoginConfig {
    /// Stores the login.
    pub store: Arc<dyn McpLoginStore>,
    /// How the user logs in, as the end of a sentence, e.g. "run `my-agent login docs`".
    pub hint: String,
    /// The OAuth client that the user has registered at the authorization server. If it is `None`,
    /// each login registers a new client.
    pub client: Option<McpLoginClient>,
    /// The scopes that a login requests. If the list is empty, the server chooses the scopes.
    pub scopes: Vec<String>,
}

/// An OAuth client that is registered at an authorization server.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpLoginClient {
    /// The identifier of the client.
    pub id: String,
    /// The secret of the client, if it has one.
    pub secret: Option<String>,
    /// The issuer of the authorization server at which the client is registered, e.g.
    /// `https://login.example.org`. The client is not used at other authorization servers. If the
    /// client has a secret, the issuer is required: without it, the server could name any
    /// authorization server, which would then receive the secret.
    pub issuer: Option<String>,
}

/// Stores logins. The methods may block, because they are called on blocking threads.
///
/// A login is a secret, opaque text of at most 16 KiB. Each login belongs to the name and the URL
/// of a server, and must not be returned for another URL. An error is the end of a sentence for the
/// user, and must not contain a secret.
pub trait McpLoginStore: fmt::Debug + Send + Sync {
    /// Returns the login for a server, if there is one for exactly this URL.
    ///
    /// # Errors
    ///
    /// Returns the reason if the store cannot be read.
    fn load(&self, server: &str, url: &str) -> Result<Option<String>, String>;

    /// Stores the login for a server, and replaces an earlier one.
    ///
    /// # Errors
    ///
    /// Returns the reason if the login is not stored.
    fn save(&self, server: &str, url: &str, login: &str) -> Result<(), String>;

    /// Locks the login for a server. While the returned value exists, no other process can renew or
    /// remove the login. Without this lock, two processes could use the same refresh token, and
    /// many authorization servers would then end the login.
    ///
    /// # Errors
    ///
    /// Returns the reason if the login cannot be locked.
    fn lock(&self, server: &str) -> Result<Box<dyn Send>, String>;

    /// Receives each secret of a used login, so that the agent can redact the secret.
    fn redact(&self, secret: &str);

    /// Receives each secret that a renewal has replaced. The agent need not redact it as long as
    /// the others. The secret may be valid for a short time, e.g. for another connection.
    fn mark_secret_replaced(&self, _secret: &str) {}
}

impl McpLoginConfig {
    /// Creates a login without a registered client.
    #[must_use]
    pub fn new(store: Arc<dyn McpLoginStore>, hint: impl Into<String>) -> Self {
        Self { store, hint: hint.into(), client: None, scopes: Vec::new() }
    }
}

impl McpLoginClient {
    /// Creates a registered client without a secret.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), secret: None, issuer: None }
    }

    /// Sets the secret of the client, and the issuer. Only this issuer receives the secret.
    #[must_use]
    pub fn with_secret_for_issuer(self, secret: Option<String>, issuer: impl Into<String>) -> Self {
        Self { secret, issuer: Some(issuer.into()), ..self }
    }

    /// Returns whether the client may be used at an issuer.
    pub(crate) fn is_registered_at(&self, issuer: &str) -> bool {
        let without_slash = |text: &str| text.strip_suffix('/').unwrap_or(text).to_owned();
        match &self.issuer {
            Some(own) => without_slash(own) == without_slash(issuer),
            None => self.secret.is_none(),
        }
    }
}

impl PartialEq for McpLoginConfig {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
            && (&self.hint, &self.client, &self.scopes)
                == (&other.hint, &other.client, &other.scopes)
    }
}

impl Eq for McpLoginConfig {}

impl fmt::Debug for McpLoginConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, scopes, .. } = self;
        let shown = &mut formatter.debug_struct("McpLoginConfig");
        shown.field("client", client).field("scopes", scopes).finish_non_exhaustive()
    }
}

/// Omits the secret.
impl fmt::Debug for McpLoginClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("McpLoginClient").field("id", &self.id).finish_non_exhaustive()
    }
}
