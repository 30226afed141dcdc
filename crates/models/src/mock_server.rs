//! A scripted model server, for testing agents that call models over HTTP.
//!
//! [`ModelServer`] listens on loopback and supports five dialects at once: OpenAI's chat
//! completions and Responses, Anthropic's Messages, Gemini's `streamGenerateContent`, and Ollama's
//! own API. The path of a request selects the dialect. The script is a list of [`MockResponse`]s,
//! which are encoded in the dialect of the request. A response can fail in the same ways as real
//! servers. It can be an error status with headers, a stream that contains an error, or arbitrary
//! bytes. Its stream can be truncated, lack the end marker or hang. Its calls can lack ids or the
//! `index`, or have arguments that are not JSON. The server records each request, and whether the
//! client stayed until the end of the response (see [`RecordedRequest`]).
//!
//! This module needs the feature `mock-server`. For TLS, the test passes a function for the
//! handshake to [`ModelServer::start_with_tls_acceptor`]. Responses can also be parsed from JSON;
//! the example `model_server` parses such responses for programs in other languages.
//!
//! ```
//! use callboard_models::mock_server::{
//!     Dialect, MockReply, MockResponse, MockToolCall, ModelServer,
//! };
//! use serde_json::json;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let server = ModelServer::start([
//!     MockReply::new()
//!         .with_call(MockToolCall::new("read_file", &json!({"path": "a.txt"})))
//!         .into(),
//!     MockResponse::error(429, "slow down").with_header("retry-after", "1"),
//!     MockReply::new().with_text("It says ").with_text("hello.").into(),
//! ])
//! .await?;
//! let url = server.base_url(Dialect::OpenAiChat); // for the agent under test
//! assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1"));
//! // … a turn of the agent …
//! assert!(server.requests().is_empty());
//! # Ok(())
//! # }
//! ```

mod dialect;
mod http;
mod limits;
mod script;
mod server;
#[cfg(test)]
mod tests;

pub use dialect::Dialect;
pub use script::{
    MockBody, MockReply, MockReplyStep, MockResponse, MockStopReason, MockToolCall, MockUsage,
};
pub use server::{ByteStream, ModelServer, RecordedRequest, ResponseProgress};
