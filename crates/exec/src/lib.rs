//! Runs one prompt of an agent on the Agent Client Protocol (ACP) in the terminal.
//!
//! This crate is *only* a client for one prompt: the cards of the turn, the questions to the user,
//! standard input, and the exit code. It uses ACP v1 and no other part of an agent.
#![doc = include_str!("../README.md")]

mod keyboard;
mod limits;
mod output;
mod piped_input;
mod run;
mod translations;

pub use keyboard::Keyboard;
pub use output::{OutputStream, fail_if_output_was_lost};
pub use piped_input::{
    PipedInputNote, PipedInputTimeout, read_context_from_stdin, read_prompt_from_stdin,
};
pub use run::{Approval, ExecJob, ResumedSession, create_card_renderer, run_prompt};
