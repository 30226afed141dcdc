//! End-to-end tests. They run the built program with a client, and validate every line that the
//! program writes.

#![cfg(target_os = "linux")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by a panic, and then shows what was said"
)]

mod background;
mod bad_call;
mod bad_input;
mod canary;
mod cancel;
mod check_wire;
mod command_display;
mod command_sandbox;
mod command_undo;
mod concurrency;
mod direct;
mod durable;
mod environment;
mod errors;
mod exec;
mod exec_terminal;
mod faults;
mod file_names;
mod harness;
mod malformed;
mod mcp;
mod mcp_command;
mod mcp_login;
mod mcp_requests;
mod missing_resources;
mod model_selection;
mod models;
mod modes;
mod options;
mod permission;
mod picture;
mod previews;
mod raw_client;
mod rejection_reasons;
mod remembered_permissions;
mod requests;
mod restored_permissions;
mod retry;
mod rewind;
mod runaway_commands;
mod sandbox;
mod sandboxed_servers;
mod sdk_client;
mod secrets;
mod session_faults;
mod sessions_command;
mod sessions_output;
mod shutdown;
mod stored_sessions;
mod tck;
mod telemetry;
mod terminal;
mod titles;
mod turn;
mod unsaved;
mod web;
