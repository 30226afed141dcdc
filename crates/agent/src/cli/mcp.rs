//! `callboard mcp`: the MCP servers of the configuration.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use acp_lifecycle::{Session, SessionHandle};
use acp_mcp::{
    McpClientCapabilities, McpServerConfig, McpServerState, McpServers, McpToolDescription,
    McpTransport, ServerSandbox, SessionFolders, ToolFilter,
};
use acp_tools::sandbox::CommandIsolation;
use acp_tools::{LiveTools, Workspace};
use callboard_exec::OutputStream;
use callboard_text::{
    count_with_noun, escape_invisible, escape_invisible_in_json, escape_invisible_truncated,
};
use futures::future::join_all;
use serde_json::{Value, json};

use super::args::{McpAddArgs, McpSubcommand};
use super::mcp_add::check_server_args;
use super::mcp_config::{load_config, print_unknown_server};
use super::mcp_login::{run_mcp_login, run_mcp_logout};
use super::sandbox::project_workspace;
use super::subcommands::{SANDBOX_REMEDY, print_redacted, process_env};
use super::{
    absolute_or_current_folder, block_on_and_shut_down, first_signal_with_forced_exit,
    print_error_and_fail, print_redacted_error, print_usage_error_and_fail,
};
use crate::config::{Config, Flags, SourcedValue, add_mcp_server, remove_mcp_server};
use crate::limits::{MAX_SHOWN_DESCRIPTION_BYTES, MAX_SHOWN_FAILURE_BYTES};

/// Runs the subcommand.
pub(super) fn run_mcp_command(command: McpSubcommand) -> ExitCode {
    match command {
        McpSubcommand::List { json } => list_servers(json),
        McpSubcommand::Add(args) => add_server(args),
        McpSubcommand::Remove { name } => match remove_mcp_server(&process_env(), &name) {
            Ok(path) => print_redacted(&format!(
                "Removed the MCP server {} from {}.",
                escape_invisible(&name),
                path.display()
            )),
            Err(error) => print_error_and_fail(&escape_invisible(&error.to_string())),
        },
        McpSubcommand::Login { name } => run_mcp_login(&name),
        McpSubcommand::Logout { name } => run_mcp_logout(&name),
        McpSubcommand::Test { name, json } => test_servers(name.as_deref(), json),
    }
}

/// Prints that the configuration has no server, and how to add one.
fn print_no_servers_configured(is_json: bool) -> ExitCode {
    print_redacted_error(
        "there is no MCP server in the configuration. `callboard mcp add NAME -- COMMAND` adds one.",
    );
    if is_json { print_redacted("[]") } else { ExitCode::SUCCESS }
}

fn list_servers(is_json: bool) -> ExitCode {
    let config = match load_config() {
        Ok(config) => config,
        Err(code) => return code,
    };
    let servers = &config.mcp_servers;
    if servers.is_empty() {
        return print_no_servers_configured(is_json);
    }
    if is_json {
        let rows: Vec<_> =
            servers.iter().map(|server| configured_server_to_json(&config, server)).collect();
        return print_json(&json!(rows));
    }
    let name = |server: &SourcedValue<McpServerConfig>| escape_invisible(&server.value.name);
    let width = servers.iter().map(|server| name(server).chars().count()).max().unwrap_or(0);
    let line = |server: &SourcedValue<McpServerConfig>| {
        let McpServerConfig { transport, tools, is_sandboxed, .. } = &server.value;
        let mark = if *is_sandboxed { "  (sandboxed)" } else { "" };
        let (transport, tools) = (transport_text(transport), tool_filter_to_text(tools));
        format!("{:width$}  {transport}{mark}{tools}", name(server))
    };
    print_redacted(&servers.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Returns a server as JSON, without values of variables and headers.
fn configured_server_to_json(config: &Config, server: &SourcedValue<McpServerConfig>) -> Value {
    let McpServerConfig { name, transport, tools, .. } = &server.value;
    let mut row = match transport {
        McpTransport::Stdio { command, args, env, cwd } => {
            let env: Vec<_> = env.keys().collect();
            json!({ "command": command, "args": args, "env": env, "cwd": cwd })
        }
        McpTransport::Http { url, headers } => {
            let headers: Vec<_> = headers.iter().map(|(name, _)| name).collect();
            json!({ "url": url, "headers": headers })
        }
    };
    row["name"] = json!(name);
    row["sandbox"] = json!(server.value.is_sandboxed);
    row["tools"] = json!({ "allow": tools.allow, "deny": tools.deny });
    row["source"] = json!(config.file.describe_source(&server.source));
    row
}

fn print_json(value: &Value) -> ExitCode {
    print_redacted(&escape_invisible_in_json(&format!("{value:#}")))
}

fn transport_text(transport: &McpTransport) -> String {
    match transport {
        McpTransport::Stdio { command, args, .. } => {
            let words = std::iter::once(command).chain(args);
            words.map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
        }
        McpTransport::Http { url, .. } => escape_invisible(url),
    }
}

fn tool_filter_to_text(tools: &ToolFilter) -> String {
    let names = |names: &[String]| escape_invisible(&names.join(", "));
    match (&tools.allow, &*tools.deny) {
        (None, []) => String::new(),
        (None, deny) => format!("  (tools: all but {})", names(deny)),
        (Some(allow), []) => format!("  (tools: {})", names(allow)),
        (Some(allow), deny) => format!("  (tools: {}, but not {})", names(allow), names(deny)),
    }
}

/// Returns a word as it is written in a shell, on one line.
fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./:=@%+,~".contains(letter);
    let word = escape_invisible(word);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn add_server(args: McpAddArgs) -> ExitCode {
    let name = args.name.clone();
    let (env_pass, header_env) = (args.env_pass.clone(), args.header_env.clone());
    let fields = match server_args_to_config_fields(args) {
        Ok(fields) => fields,
        Err(why) => return print_usage_error_and_fail(&escape_invisible(&why)),
    };
    let env = process_env();
    let header_variables = header_env.iter().filter_map(|header| header.split_once('='));
    let header_variables = header_variables.map(|(_, variable)| variable.to_owned());
    let variables: Vec<_> = env_pass.into_iter().chain(header_variables).collect();
    let path = match add_mcp_server(&env, &name, &fields) {
        Ok(path) => path,
        Err(error) => return print_error_and_fail(&escape_invisible(&error.to_string())),
    };
    let is_set =
        |name: &String| env.iter().any(|(other, value)| other == name && !value.is_empty());
    for variable in variables.iter().filter(|variable| !is_set(variable)) {
        print_redacted_error(&format!(
            "{variable} is not set in this environment; the server needs it."
        ));
    }
    if let Err(error) = Config::load(&env, Flags::default()) {
        print_redacted_error(&format!("the configuration has an error: {error}"));
    }
    print_redacted(&format!(
        "Added the MCP server {name} to {}. Try it: callboard mcp test {}",
        path.display(),
        shell_word(&name)
    ))
}

type ServerFields = Vec<(&'static str, toml::Value)>;

/// Converts the arguments to keys and values of the configuration. Returns an error if the
/// arguments contain a secret, or if their meaning would depend on the folder in which a session
/// runs.
fn server_args_to_config_fields(args: McpAddArgs) -> Result<ServerFields, String> {
    let assignments = check_server_args(&args)?;
    let strings = |list: Vec<String>| toml::Value::from(list);
    let table = |pairs: Vec<(String, String)>| {
        let pairs = pairs.into_iter().map(|(name, value)| (name, value.into()));
        toml::Value::Table(pairs.collect())
    };
    let mut fields = ServerFields::new();
    if let Some(url) = args.url {
        fields.push(("url", url.into()));
        if !assignments.headers.is_empty() {
            fields.push(("headers_env", table(assignments.headers)));
        }
        return Ok(fields);
    }
    let mut command = args.command;
    let program = command.remove(0);
    if program.starts_with("http://") || program.starts_with("https://") {
        return Err(format!("a server over HTTP needs the flag --url: --url {program}"));
    }
    let cwd = args.cwd.map(|cwd| absolute_existing_folder(&cwd)).transpose()?;
    fields.push(("command", absolute_program_unless_bare_name(program, cwd.as_deref())?.into()));
    if !command.is_empty() {
        fields.push(("args", strings(command)));
    }
    if let Some(cwd) = cwd {
        fields.push(("cwd", path_to_utf8_string(cwd)?.into()));
    }
    if !assignments.env.is_empty() {
        fields.push(("env", table(assignments.env)));
    }
    if !args.env_pass.is_empty() {
        fields.push(("env_pass", strings(args.env_pass)));
    }
    Ok(fields)
}

fn absolute_existing_folder(folder: &Path) -> Result<PathBuf, String> {
    let absolute = std::path::absolute(folder).map_err(|error| format!("--cwd: {error}"))?;
    if absolute.is_dir() {
        Ok(absolute)
    } else {
        Err(format!("--cwd: {} is no folder", absolute.display()))
    }
}

/// Makes the path of a program absolute. A relative path would name a file in the project folder,
/// and every project could supply that file.
fn absolute_program_unless_bare_name(
    program: String,
    cwd: Option<&Path>,
) -> Result<String, String> {
    if !program.contains('/') {
        return Ok(program);
    }
    let path = cwd.map_or_else(|| PathBuf::from(&program), |cwd| cwd.join(&program));
    let path = std::path::absolute(path).map_err(|error| format!("{program}: {error}"))?;
    path_to_utf8_string(path)
}

fn path_to_utf8_string(path: PathBuf) -> Result<String, String> {
    path.into_os_string().into_string().map_err(|path| {
        format!("{} is not UTF-8, so it cannot be in the file", Path::new(&path).display())
    })
}

/// A server that was tested, and the result.
struct TestedServer {
    name: String,
    result: Result<Vec<McpToolDescription>, String>,
    /// Notices about tools that are left out.
    notices: Vec<String>,
}

fn test_servers(name: Option<&str>, is_json: bool) -> ExitCode {
    let config = match load_config() {
        Ok(config) => config,
        Err(code) => return code,
    };
    let servers = config.mcp_servers.iter().map(|server| &server.value);
    let servers: Vec<_> =
        servers.filter(|server| name.is_none_or(|name| server.name == name)).cloned().collect();
    match name {
        None if servers.is_empty() => return print_no_servers_configured(is_json),
        Some(name) if servers.is_empty() => return print_unknown_server(name),
        _ => {}
    }
    let cwd = match absolute_or_current_folder(None) {
        Ok(cwd) => cwd,
        Err(why) => return print_error_and_fail(&why),
    };
    block_on_and_shut_down(start_report_and_stop_servers(servers, cwd, is_json))
}

/// Returns the sandbox in which servers are tested. There is no session, so no rules of a session
/// apply.
fn create_server_test_sandbox(workspace: Workspace) -> ServerSandbox {
    let session = SessionHandle::new(Session::new(workspace.cwd()), SystemTime::now);
    let isolation = CommandIsolation::create(SANDBOX_REMEDY, None);
    ServerSandbox::new(Arc::new(isolation), Arc::new(workspace), session)
}

/// Starts all servers, reports the results in the order of the configuration, and ends the servers.
async fn start_report_and_stop_servers(
    configs: Vec<McpServerConfig>,
    cwd: PathBuf,
    is_json: bool,
) -> ExitCode {
    let mut stderr = OutputStream::stderr();
    if stderr.is_terminal() {
        let count = count_with_noun(configs.len() as u64, "server", "servers");
        stderr.print_line(&format!("Starting {count} …"));
    }
    let folders = SessionFolders::new(&cwd, [cwd.clone()]);
    let sandbox = match project_workspace(cwd) {
        Ok(workspace) => create_server_test_sandbox(workspace),
        Err(error) => return print_error_and_fail(&error.to_string()),
    };
    let agent = ("callboard", env!("CARGO_PKG_VERSION"));
    // Each server gets its own `McpServers`, so that each notice belongs to one known server.
    let start = |config: McpServerConfig| {
        let name = config.name.clone();
        (
            name,
            McpServers::start(
                vec![config],
                folders.clone(),
                Some(sandbox.clone()),
                LiveTools::default(),
                agent,
                McpClientCapabilities::default(),
            ),
        )
    };
    let servers: Vec<_> = configs.into_iter().map(start).collect();
    let mut tested = Vec::new();
    let report = async {
        for (name, servers) in &servers {
            servers.wait_started().await;
            let server = TestedServer::from_started_server(name.clone(), servers);
            if !is_json {
                print_redacted(&server.to_text());
            }
            tested.push(server);
        }
    };
    let interrupted = tokio::select! {
        signal = pin!(first_signal_with_forced_exit()) => Some(signal),
        () = report => None,
    };
    drop(join_all(servers.iter().map(|(_, servers)| servers.stop())).await);
    if let Some(signal) = interrupted {
        return ExitCode::from(128 + signal);
    }
    if is_json {
        print_json(&json!(tested.iter().map(TestedServer::to_json).collect::<Vec<_>>()));
    }
    let has_failed = tested.iter().any(|server| server.result.is_err());
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl TestedServer {
    /// Reads the result from `servers`, which contains only one server.
    fn from_started_server(name: String, servers: &McpServers) -> Self {
        let state = servers.statuses().pop().map(|status| status.state);
        match state {
            Some(McpServerState::Ready { tools }) => {
                Self { name, result: Ok(tools), notices: servers.take_notices() }
            }
            Some(McpServerState::Failed { reason }) => {
                let (reason, _) = escape_invisible_truncated(&reason, MAX_SHOWN_FAILURE_BYTES);
                Self { name, result: Err(reason), notices: Vec::new() }
            }
            _ => Self { name, result: Err("it is starting again".to_owned()), notices: Vec::new() },
        }
    }

    fn to_text(&self) -> String {
        let name = escape_invisible(&self.name);
        let tools = match &self.result {
            Ok(tools) => tools,
            Err(reason) => return format!("✗ {name}: does not run: {reason}"),
        };
        let count = count_with_noun(tools.len() as u64, "tool", "tools");
        let mut text = format!("✓ {name}: {count}");
        let width = tools.iter().map(|tool| tool.name.len()).max().unwrap_or(0).min(MAX_COLUMN);
        for tool in tools {
            let line = tool.description.lines().map(str::trim).find(|line| !line.is_empty());
            let (line, _) =
                escape_invisible_truncated(line.unwrap_or(""), MAX_SHOWN_DESCRIPTION_BYTES);
            let line = format!("  {:width$}  {line}", escape_invisible(&tool.name));
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{}", line.trim_end());
        }
        for notice in &self.notices {
            let _ = write!(text, "\n  {}", escape_invisible(notice));
        }
        text
    }

    fn to_json(&self) -> Value {
        let Self { name, result, notices } = self;
        match result {
            Ok(tools) => {
                let tool = |tool: &McpToolDescription| json!({ "name": tool.name, "description": tool.description });
                let tools: Vec<_> = tools.iter().map(tool).collect();
                json!({ "name": name, "state": "ready", "tools": tools, "notices": notices })
            }
            Err(reason) => json!({ "name": name, "state": "failed", "reason": reason }),
        }
    }
}

/// Maximum width of the column of tools' names. Longer names move their description to the right.
const MAX_COLUMN: usize = 32;
