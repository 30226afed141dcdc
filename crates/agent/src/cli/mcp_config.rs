//! The configuration for the subcommands of `callboard mcp`.

use std::process::ExitCode;

use callboard_text::escape_invisible;

use super::print_error_and_fail;
use super::subcommands::process_env;
use crate::config::{Config, Flags};

/// Loads the configuration. If this fails, prints the reason and returns the exit code.
pub(super) fn load_config() -> Result<Config, ExitCode> {
    let config = Config::load(&process_env(), Flags::default());
    let config = config.map_err(|error| print_error_and_fail(&error.to_string()))?;
    config.redact_keys();
    Ok(config)
}

pub(super) fn print_unknown_server(name: &str) -> ExitCode {
    print_error_and_fail(&format!(
        "there is no MCP server `{}` in the configuration; `callboard mcp list` lists the servers",
        escape_invisible(name)
    ))
}
