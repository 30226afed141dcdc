//! Offers the tools of [Model Context Protocol](https://modelcontextprotocol.io) servers to an
//! agent that speaks the Agent Client Protocol. The crate does *only* that. The crates
//! `acp-lifecycle` and `acp-tools` permit, show and end the calls of the tools.
#![doc = include_str!("../README.md")]

mod client;
mod config;
mod definition;
mod http;
mod limits;
mod lock;
mod login;
mod names;
mod oauth;
mod output;
mod output_schema;
mod requests;
mod result;
mod sandbox;
mod server;
mod servers;
mod stderr;
mod tool;
mod transport;

pub use config::{McpServerConfig, McpTransport, SessionFolders, ToolFilter};
pub use definition::McpToolDescription;
pub use login::{McpLoginClient, McpLoginConfig, McpLoginStore};
pub use oauth::{McpLoginError, McpLoginFlow};
pub use requests::{
    McpClientCapabilities, McpElicitation, McpElicitationMode, McpRequestHandler,
    McpSamplingMessage, McpSamplingReply, McpSamplingRequest,
};
pub use sandbox::ServerSandbox;
pub use servers::{McpServerState, McpServerStatus, McpServers};
