//! A scripted server of models, to test agents with that ask one over HTTP.
//!
//! [`ModelServer`] listens on loopback and speaks five dialects at once: OpenAI's chat completions
//! and Responses, Anthropic's Messages, Gemini's `streamGenerateContent`, Ollama's own; the path of
//! a request tells which. What it says is written once, as a list of [`Answer`]s, and told in the
//! dialect that is asked for. An answer may go wrong in the ways that real ones do: a status and
//! its headers, a stream that is cut, has no end or stops in the middle, calls without ids, without
//! `index` or with arguments that are no JSON, an error inside of the stream, bytes of any kind.
//! It keeps what it was asked, and whether who asked stayed to the end ([`Asked`]).
//!
//! Needs the feature `mock-server`. TLS comes from the test: [`ModelServer::start_over`]. Answers can
//! also be read from JSON, which the example `model_server` does for programs in other languages.
//!
//! ```
//! use callboard_models::mock_server::{Answer, Call, Dialect, ModelServer, Reply};
//! use serde_json::json;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let server = ModelServer::start([
//!     Reply::new().call(Call::new("read_file", &json!({"path": "a.txt"}))).into(),
//!     Answer::error(429, "slow down").header("retry-after", "1"),
//!     Reply::new().text("It says ").text("hello.").into(),
//! ])
//! .await?;
//! let url = server.base_url(Dialect::OpenAiChat); // for the agent under test
//! assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1"));
//! // … a turn of the agent …
//! assert!(server.asked().is_empty());
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
pub use server::{ByteStream, ModelServer, RecordedRequest, ResponseOutcome};
