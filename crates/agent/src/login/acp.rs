//! Logging in and out, as a client sees it.
//!
//! Nothing needs a login: without a key there is the direct model. What a login stored, and what it
//! took away, is looked at before each turn, so that `authenticate` has nothing to do.

use agent_client_protocol::Result;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthMethodAgent, AuthMethodTerminal, AuthenticateRequest, AuthenticateResponse,
    ClientCapabilities, LogoutResponse,
};
use serde_json::{Map, Value, json};

use crate::errors;
use crate::keys::{KeyStore, LOGINS};

/// Returns the methods that there are for a client: one that always works, and one that asks in a
/// terminal, if it can open one.
pub(crate) fn methods(client: &ClientCapabilities) -> Vec<AuthMethod> {
    let agent = AuthMethodAgent::new(SETUP, "Use what is set up")
        .description("Takes the key that is stored or set. Without one, direct commands work.");
    let mut methods = vec![AuthMethod::Agent(agent)];
    let launch = takes_launch(client).then(launch);
    if client.auth.terminal {
        let terminal = AuthMethodTerminal::new(TERMINAL, TERMINAL_NAME)
            .description(TERMINAL_DESCRIPTION)
            .args(vec![FLAG.to_owned()])
            .meta(launch);
        methods.push(AuthMethod::Terminal(terminal));
    } else if launch.is_some() {
        let agent = AuthMethodAgent::new(TERMINAL, TERMINAL_NAME)
            .description(TERMINAL_DESCRIPTION)
            .meta(launch);
        methods.push(AuthMethod::Agent(agent));
    }
    methods
}

/// Answers that a method was used.
///
/// # Errors
///
/// If there is no such method.
pub(crate) fn authenticate(request: &AuthenticateRequest) -> Result<AuthenticateResponse> {
    match &*request.method_id.0 {
        SETUP | TERMINAL => Ok(AuthenticateResponse::new()),
        _ => Err(errors::invalid_params("There is no such way to log in; `initialize` lists them")),
    }
}

/// Removes every stored key, and answers.
pub(crate) async fn logout(keys: KeyStore, responder: Responder<LogoutResponse>) {
    let removed = tokio::task::spawn_blocking(move || keys.remove(&LOGINS)).await;
    let answer = match removed {
        Ok(Ok(_)) => Ok(LogoutResponse::new()),
        Ok(Err(error)) => Err(errors::fault(&error.to_string())),
        Err(_) => Err(errors::fault("the keys could not be removed")),
    };
    // The connection may be gone by now, and with it whoever asked.
    drop(responder.respond_with_result(answer));
}

/// Whether a client takes the whole command from `_meta`, as clients did before there was a type of
/// method for it.
fn takes_launch(client: &ClientCapabilities) -> bool {
    let meta = client.meta.as_ref().and_then(|meta| meta.get(LAUNCH));
    meta == Some(&Value::Bool(true))
}

fn launch() -> Map<String, Value> {
    let program = std::env::current_exe().unwrap_or_else(|_| "callboard".into());
    let launch = json!({ "command": program, "args": [FLAG], "label": TERMINAL_NAME });
    Map::from_iter([(LAUNCH.to_owned(), launch)])
}

const SETUP: &str = "setup";
const TERMINAL: &str = "setup-terminal";
const TERMINAL_NAME: &str = "Set up a model in a terminal";
const TERMINAL_DESCRIPTION: &str = "Asks for a provider and a key, tries it and stores it.";
const LAUNCH: &str = "terminal-auth";

/// What is added to the command that serves, so that it asks instead.
const FLAG: &str = "--setup";

#[cfg(test)]
mod tests {
    use super::{authenticate, methods};
    use agent_client_protocol::v1::schema::{AuthenticateRequest, ClientCapabilities};
    use serde_json::{Value, json};

    #[test]
    fn each_client_is_offered_what_it_can_do() {
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
            let offered = serde_json::to_value(methods(&client)).unwrap();
            let of = |method: &Value| {
                let launch = &method["_meta"]["terminal-auth"]["args"];
                json!([method["type"], method["id"], *launch == json!(["--setup"])])
            };
            let offered: Vec<_> = offered.as_array().unwrap().iter().map(of).collect();
            assert_eq!(json!(offered), expected, "{capabilities}");
        }
    }

    #[test]
    fn only_a_method_that_there_is_can_be_used() {
        for (method, is_one) in [("setup", true), ("setup-terminal", true), ("", false)] {
            let used = authenticate(&AuthenticateRequest::new(method));
            assert_eq!(used.is_ok(), is_one, "{method}");
        }
    }
}
