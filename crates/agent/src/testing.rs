//! A client to test agents with, of whatever make: it behaves badly where it is told to.
//!
//! [`Agent`] starts an agent (a command, two streams, or a value in this process), speaks ACP v1
//! with it, and has a deadline for every wait. Its [`Client`] holds what it was told, as a client
//! shows it, and judges every line of both sides with [`check_wire`]. [`Behaviour`] says how the
//! client behaves: what it answers when it is asked for permission and when, how fast it reads,
//! what files and terminals it offers and how those fail. What else goes wrong is done by hand:
//! [`Agent::stop_reading`], [`Agent::close_output`], [`Agent::close_input`], [`Agent::raw`],
//! [`Agent::flood`], [`MALFORMED_LINES`]. The model that an agent asks can be scripted, too:
//! [`models`].
//!
//! Needs the feature `testing`. It knows nothing of the inside of any agent.
//!
//! ```
//! use callboard::check_wire::Side;
//! use callboard::testing::{Agent, Permission};
//! # use callboard::{agent, model};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let my_agent = agent::Agent::new(model::parse("direct")?, acp_tools::env::parent());
//! // Or `Agent::start` with the command of another process.
//! let mut agent = Agent::in_process(my_agent, Permission::Error);
//! agent.initialize().await?;
//! let session = agent.new_session(&std::env::temp_dir()).await?;
//! assert_eq!(agent.turn(&session, "run touch made").await?, "end_turn");
//! agent.end().await?;
//! assert_eq!(agent.client.asked.len(), 1);
//! assert_eq!(agent.client.faults_of(Side::Agent), []);
//! # Ok(())
//! # }
//! ```
//!
//! [`check_wire`]: crate::check_wire

mod agent;
mod behaviour;
mod client;
mod files;
mod malformed;
pub mod models;
mod services;
mod session;
mod streams;
mod terminals;
#[cfg(test)]
mod tests;

pub use agent::{Agent, Error};
pub use behaviour::{
    Behaviour, Cut, Files, Form, Permission, Scripted, Service, Terminals, Timing,
};
pub use client::{Answer, Asked, Client};
pub use malformed::MALFORMED_LINES;
pub use session::{Session, shown, terminal_id, text_of};
