//! The words of the command line.

use std::path::PathBuf;

use callboard_models::provider::Provider;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};

use crate::config::Flags;
use crate::key_store::LOGIN_PROVIDERS;

/// A small, fast, safe coding agent for ACP clients.
#[derive(Debug, Parser)]
#[command(
    name = "callboard",
    version,
    arg_required_else_help = false,
    args_conflicts_with_subcommands = true
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve an ACP client on standard input and output. The default without a terminal.
    Acp(ServeArgs),
    /// Run one prompt here, in the terminal.
    Exec(ExecArgs),
    /// List the models that can be reached.
    Models {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Store the key of a provider: in the system's keyring, or in a file where there is none.
    #[command(visible_alias = "setup")]
    Login(ProviderArg),
    /// Remove stored keys: that of one provider, or all of them.
    Logout(ProviderArg),
    /// Show what is configured.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Judge what any agent and its client said to one another, by the rules of ACP v1.
    CheckWire {
        /// Transcripts, one JSON-RPC message a line; `-` is standard input.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Default, clap::Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) flags: Flags,
    /// Log in instead, as `callboard login` does: for clients that add a flag to open a terminal.
    #[arg(long)]
    pub(super) setup: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ExecArgs {
    #[command(flatten)]
    pub(super) flags: Flags,
    /// The prompt; `-` reads it from standard input.
    pub(super) prompt: String,
    /// Allow every call without asking.
    #[arg(long, conflicts_with = "deny_all")]
    pub(super) approve_all: bool,
    /// Reject every call that would ask.
    #[arg(long)]
    pub(super) deny_all: bool,
    /// The directory to work in.
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ProviderArg {
    /// One of anthropic, openai, gemini and ollama. Without it, login asks which, and logout
    /// removes the keys of all.
    #[arg(value_parser = providers(), hide_possible_values = true, value_name = "PROVIDER")]
    pub(super) provider: Option<Provider>,
}

fn providers() -> impl TypedValueParser<Value = Provider> {
    let find = |name: String| LOGIN_PROVIDERS.into_iter().find(|provider| provider.name() == name);
    PossibleValuesParser::new(LOGIN_PROVIDERS.map(Provider::name))
        .try_map(move |name| find(name).ok_or("there is no such provider"))
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Show every value and where it is from: a flag, a variable, a line of the file, the default.
    Show {
        #[command(flatten)]
        flags: Flags,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print where the file is, or would be.
    Path,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_makes_sense() {
        super::Cli::command().debug_assert();
    }
}
