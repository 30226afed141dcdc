//! Logins to servers over HTTP, by OAuth.

mod authorized;
mod callback;
mod discovery;
mod error;
mod flow;
mod stored;
#[cfg(test)]
mod tests;
mod tokens;

pub(crate) use authorized::{
    AuthorizedClient, call_login_error_text, http_answer_text, start_error_text,
};
pub use error::McpLoginError;
pub use flow::McpLoginFlow;
pub(crate) use tokens::ServerLogin;
