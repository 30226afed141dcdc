//! Login and logout for ACP clients.
//!
//! No session requires a login: without a key, the `direct` model is used. Stored keys are read
//! again before each turn, so `authenticate` does nothing.

use std::sync::Arc;

use agent_client_protocol::Result;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthMethodAgent, AuthMethodTerminal, ClientCapabilities,
};
use callboard_runtime::{Authenticator, spawn_blocking_exclusive};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::key_store::{self, KeyStore, LOGIN_PROVIDERS};

/// Implements the authentication methods of this program.
#[derive(Debug)]
pub(crate) struct LoginAuthenticator {
    keys: KeyStore,
    /// Locked while the logins are read.
    reading: Arc<Mutex<()>>,
}

impl LoginAuthenticator {
    pub(crate) fn new(keys: KeyStore) -> Self {
        Self { keys, reading: Arc::default() }
    }
}

impl Authenticator for LoginAuthenticator {
    fn methods(&self, client: &ClientCapabilities) -> Vec<AuthMethod> {
        auth_methods(client)
    }

    /// Only checks the method, because the next prompt reads and uses the stored login.
    fn authenticate(&self, method: &str) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Ok([SETUP_METHOD_ID, TERMINAL_METHOD_ID].contains(&method))))
    }

    fn logout(&self) -> BoxFuture<'_, std::result::Result<(), String>> {
        let keys = self.keys.clone();
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || keys.remove_keys(&LOGIN_PROVIDERS)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("the keys could not be removed".to_owned()),
            }
        })
    }

    /// Loads the stored keys, so that they are redacted in all later output. Not every model
    /// catalogue reads the keys, so this method must load them.
    fn reread_logins(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if !key_store::are_logins_loaded() {
                let keys = self.keys.clone();
                spawn_blocking_exclusive(&self.reading, move |()| {
                    drop(keys.read_logins_without_keyring());
                })
                .await;
            }
        })
    }
}

/// Returns the authentication methods: one that always works, and one that opens a terminal, if the
/// client can open terminals.
fn auth_methods(client: &ClientCapabilities) -> Vec<AuthMethod> {
    let agent = AuthMethodAgent::new(SETUP_METHOD_ID, "Use the existing setup")
        .description("Uses the key that is stored or set. Without one, `direct` commands work.");
    let mut methods = vec![AuthMethod::Agent(agent)];
    let launch = supports_terminal_auth_meta(client).then(terminal_auth_meta);
    if client.auth.terminal {
        let terminal = AuthMethodTerminal::new(TERMINAL_METHOD_ID, TERMINAL_METHOD_NAME)
            .description(TERMINAL_METHOD_DESCRIPTION)
            .args(vec![SETUP_FLAG.to_owned()])
            .meta(launch);
        methods.push(AuthMethod::Terminal(terminal));
    } else if launch.is_some() {
        let agent = AuthMethodAgent::new(TERMINAL_METHOD_ID, TERMINAL_METHOD_NAME)
            .description(TERMINAL_METHOD_DESCRIPTION)
            .meta(launch);
        methods.push(AuthMethod::Agent(agent));
    }
    methods
}

/// Returns whether a client accepts the complete login command in `_meta`. Clients used this form
/// before the protocol had a method type for terminals.
fn supports_terminal_auth_meta(client: &ClientCapabilities) -> bool {
    let meta = client.meta.as_ref().and_then(|meta| meta.get(TERMINAL_AUTH_META_KEY));
    meta == Some(&Value::Bool(true))
}

fn terminal_auth_meta() -> Map<String, Value> {
    let program = std::env::current_exe().unwrap_or_else(|_| "callboard".into());
    let launch = json!({ "command": program, "args": [SETUP_FLAG], "label": TERMINAL_METHOD_NAME });
    Map::from_iter([(TERMINAL_AUTH_META_KEY.to_owned(), launch)])
}

const SETUP_METHOD_ID: &str = "setup";
const TERMINAL_METHOD_ID: &str = "setup-terminal";
const TERMINAL_METHOD_NAME: &str = "Set up a model in a terminal";
const TERMINAL_METHOD_DESCRIPTION: &str = "Asks for a provider and a key, tests it and stores it.";
const TERMINAL_AUTH_META_KEY: &str = "terminal-auth";

/// Flag of `callboard acp` that runs the login instead of the agent.
const SETUP_FLAG: &str = "--setup";

#[cfg(test)]
mod tests {
    use super::auth_methods;
    use agent_client_protocol::v1::schema::ClientCapabilities;
    use serde_json::{Value, json};

    #[test]
    fn each_client_is_offered_methods_that_it_supports() {
        let launch = json!({ "terminal-auth": true });
        for (capabilities, expected) in [
            (json!({}), json!([[null, "setup", false]])),
            (
                json!({ "auth": { "terminal": true } }),
                json!([[null, "setup", false], ["terminal", "setup-terminal", false]]),
            ),
            (
                json!({ "_meta": launch }),
                json!([[null, "setup", false], [null, "setup-terminal", true]]),
            ),
            (
                json!({ "auth": { "terminal": true }, "_meta": launch }),
                json!([[null, "setup", false], ["terminal", "setup-terminal", true]]),
            ),
        ] {
            let client: ClientCapabilities = serde_json::from_value(capabilities.clone()).unwrap();
            let offered = serde_json::to_value(auth_methods(&client)).unwrap();
            let of = |method: &Value| {
                let launch = &method["_meta"]["terminal-auth"]["args"];
                json!([method["type"], method["id"], *launch == json!(["--setup"])])
            };
            let offered: Vec<_> = offered.as_array().unwrap().iter().map(of).collect();
            assert_eq!(json!(offered), expected, "{capabilities}");
        }
    }
}
