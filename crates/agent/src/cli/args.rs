//! The words of the command line.

use std::path::PathBuf;

use callboard_models::provider::Provider;
use callboard_runtime::Mode;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};

use crate::config::Flags;
use crate::keys::LOGINS;

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
    Models(ModelsArgs),
    /// Store the key of a provider: in the system's keyring, or in a file where there is none.
    #[command(visible_alias = "setup")]
    Login(ProviderArg),
    /// Remove stored keys: that of one provider, or all of them.
    Logout(ProviderArg),
    /// Show what is configured.
    Config(ConfigArgs),
    /// Judge what any agent and its client said to one another, by the rules of ACP v1.
    CheckWire(CheckWireArgs),
}

#[derive(Debug, Default, clap::Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) agent: AgentArgs,
    /// Log in instead, as `callboard login` does: for clients that add a flag to open a terminal.
    #[arg(long)]
    pub(super) setup: bool,
}

#[derive(Debug, Default, clap::Args)]
pub(super) struct AgentArgs {
    /// The model: PROVIDER/NAME, `direct` (commands, no model) or `script:FILE` (a written
    /// reply). Else that of CALLBOARD_MODEL, the configuration, or the first that is found.
    #[arg(long, value_name = "MODEL")]
    pub(super) model: Option<String>,
    /// The language of what is shown, such as `de`; else that of CALLBOARD_LOCALE, the configuration,
    /// LC_ALL, LC_MESSAGES or LANG. English where there are none in it.
    #[arg(long, value_name = "LOCALE")]
    pub(super) locale: Option<String>,
    /// What is done about calls that no rule speaks of; else that of CALLBOARD_MODE or the
    /// configuration.
    #[arg(long, value_parser = modes(), value_name = "MODE")]
    pub(super) mode: Option<Mode>,
}

fn modes() -> impl TypedValueParser<Value = Mode> {
    let value = |mode: &Mode| PossibleValue::new(mode.id()).help(mode.description());
    PossibleValuesParser::new(Mode::all().iter().map(value))
        .try_map(|id| Mode::parse(&id).ok_or("there is no such mode"))
}

impl AgentArgs {
    /// Whether the model is named here.
    pub(super) fn names_model(&self) -> bool {
        self.model.is_some()
    }
}

impl From<AgentArgs> for Flags {
    fn from(args: AgentArgs) -> Self {
        Self { model: args.model, mode: args.mode, locale: args.locale }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ExecArgs {
    #[command(flatten)]
    pub(super) agent: AgentArgs,
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
pub(super) struct ModelsArgs {
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ProviderArg {
    /// One of anthropic, openai, gemini and ollama. Without it, login asks which, and logout
    /// removes the keys of all.
    #[arg(value_parser = provider, value_name = "PROVIDER")]
    pub(super) provider: Option<Provider>,
}

fn provider(name: &str) -> Result<Provider, String> {
    let found = LOGINS.into_iter().find(|provider| provider.name() == name);
    found.ok_or_else(|| format!("it has to be one of {}", LOGINS.map(Provider::name).join(", ")))
}

#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    pub(super) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Show every value and where it is from: a flag, a variable, a line of the file, the default.
    Show(ShowArgs),
    /// Print where the file is, or would be.
    Path,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) agent: AgentArgs,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckWireArgs {
    /// Transcripts, one JSON-RPC message a line; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_makes_sense() {
        super::Cli::command().debug_assert();
    }
}
