//! The arguments of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use callboard_models::provider::Provider;
use callboard_sessions::{ResumeArgs, SessionsArgs};
use callboard_text::escape_invisible;
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
    /// Serve an ACP client on standard input and output. The default if standard input is not a
    /// terminal.
    Acp(ServeArgs),
    /// Run one prompt in the terminal.
    Exec(ExecArgs),
    /// List, show, search, export and delete stored sessions.
    Sessions(SessionsArgs),
    /// List the available models.
    Models {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Store the API key of a provider in the system's keyring, or in a file if there is none.
    #[command(visible_alias = "setup")]
    Login(LoginArgs),
    /// Remove the stored API key of one provider, or all stored keys.
    Logout(LogoutArgs),
    /// Show the configuration.
    #[command(subcommand)]
    Config(ConfigSubcommand),
    /// List, add, remove and test the MCP servers of the configuration.
    #[command(subcommand)]
    Mcp(McpSubcommand),
    /// Try the sandbox of commands.
    #[command(subcommand)]
    Sandbox(SandboxSubcommand),
    /// Check what this system supports, and explain what is missing.
    #[command(subcommand)]
    Doctor(DoctorSubcommand),
    /// Check transcripts of any agent and client against the rules of ACP v1.
    CheckWire {
        /// Transcripts with one JSON-RPC message per line; `-` for standard input.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Default, clap::Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) flags: Flags,
    /// Run `callboard login` instead. For clients that open a terminal by adding a flag.
    #[arg(long)]
    pub(super) setup: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ExecArgs {
    #[command(flatten)]
    pub(super) flags: Flags,
    #[command(flatten)]
    pub(super) resumed: ResumeArgs,
    /// The prompt; `-` to read it from standard input.
    pub(super) prompt: String,
    /// Allow every call without asking.
    #[arg(long, conflicts_with = "deny_all")]
    pub(super) approve_all: bool,
    /// Reject every call that needs permission.
    #[arg(long)]
    pub(super) deny_all: bool,
    /// The working directory.
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct LoginArgs {
    /// The provider: anthropic, openai, gemini or ollama. If it is omitted, the command asks for
    /// it.
    #[arg(value_parser = login_provider_parser(), hide_possible_values = true, value_name = "PROVIDER")]
    pub(super) provider: Option<Provider>,
}

#[derive(Debug, clap::Args)]
pub(super) struct LogoutArgs {
    /// The provider: anthropic, openai, gemini or ollama. If it is omitted, all stored keys are
    /// removed.
    #[arg(value_parser = login_provider_parser(), hide_possible_values = true, value_name = "PROVIDER")]
    pub(super) provider: Option<Provider>,
}

fn login_provider_parser() -> impl TypedValueParser<Value = Provider> {
    let find = |name: String| LOGIN_PROVIDERS.into_iter().find(|provider| provider.name() == name);
    PossibleValuesParser::new(LOGIN_PROVIDERS.map(Provider::name))
        .try_map(move |name| find(name).ok_or("there is no such provider"))
}

#[derive(Debug, Subcommand)]
pub(super) enum McpSubcommand {
    /// List the servers of the configuration, without starting them.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add a server to the configuration file.
    #[command(override_usage = MCP_ADD_USAGE, after_help = MCP_ADD_EXAMPLES)]
    Add(McpAddArgs),
    /// Remove a server from the configuration file.
    Remove {
        /// The name of the server.
        name: String,
    },
    /// Log in to a server over HTTP, in a browser.
    Login {
        /// The name of the server.
        name: String,
    },
    /// Remove the stored login to a server.
    Logout {
        /// The name of the server.
        name: String,
    },
    /// Start one server, or all, in this folder, and list their tools. The exit code is 1 if a
    /// server fails.
    Test {
        /// The name of the server. Default: all servers.
        name: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

const MCP_ADD_USAGE: &str = "callboard mcp add NAME [OPTIONS] -- COMMAND [ARGS]…
       callboard mcp add NAME [OPTIONS] --url URL";

const MCP_ADD_EXAMPLES: &str = "Examples:
  callboard mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  callboard mcp add github --env-pass GITHUB_TOKEN -- github-mcp-server stdio
  callboard mcp add docs --url https://docs.example.org/mcp --header-env Authorization=DOCS_AUTH";

#[derive(Debug, clap::Args)]
pub(super) struct McpAddArgs {
    /// The name of the server, e.g. `github`.
    #[arg(value_parser = parse_server_name)]
    pub(super) name: String,
    /// A variable for the program, with its value; for secrets, use --env-pass.
    // An error of the parser would show the value, so it is parsed later.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url")]
    pub(super) env: Vec<String>,
    /// The name of a variable of your environment that the program gets.
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    pub(super) env_pass: Vec<String>,
    /// The working directory of the program. Default: the folder of the session.
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub(super) cwd: Option<PathBuf>,
    /// The URL of a server over HTTP, instead of a program.
    #[arg(long, conflicts_with = "command")]
    pub(super) url: Option<String>,
    /// A header of each request, and the variable of your environment that holds its whole value.
    #[arg(long, value_name = "HEADER=VARIABLE", requires = "url")]
    pub(super) header_env: Vec<String>,
    /// The program and its arguments. Options of `callboard` stand before it.
    #[arg(required_unless_present = "url", trailing_var_arg = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

fn parse_server_name(name: &str) -> Result<String, &'static str> {
    let is_usable = !name.trim().is_empty() && escape_invisible(name) == name;
    if is_usable { Ok(name.to_owned()) } else { Err("a name consists of visible characters") }
}

#[derive(Debug, Subcommand)]
pub(super) enum SandboxSubcommand {
    /// Run a program in the sandbox of a project folder. The exit code is that of the program.
    Run {
        /// The project folder, in which the program runs.
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum DoctorSubcommand {
    /// Show which sandbox works here, its weak points, and how to get a better one.
    Sandbox,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigSubcommand {
    /// Show every value and its source: a flag, a variable, a line of the file, or the default.
    Show {
        #[command(flatten)]
        flags: Flags,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the path of the configuration file.
    Path,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_definition_is_valid() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn the_help_of_login_and_logout_describes_only_its_own_command() {
        let help = |name: &str| {
            let mut cli = super::Cli::command();
            cli.find_subcommand_mut(name).unwrap().render_long_help().to_string().to_lowercase()
        };
        assert!(!help("login").contains("logout") && !help("logout").contains("login"));
    }
}
