//! The command line: what to run, with which model, and how the process ends.

use std::io::IsTerminal as _;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use agent_client_protocol::ConnectTo as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use crate::agent::Agent;
use crate::exec::{self, Approval};
use crate::mode::Mode;
use crate::model::direct::CONNECT;
use crate::transport::{self, Transport};
use crate::ui::Ui;
use crate::{check_wire, limits, model, secrets, telemetry};

/// A small, fast, safe coding agent for ACP clients.
#[derive(Debug, Parser)]
#[command(name = "callboard", version, about, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    agent: AgentArgs,
}

#[derive(Debug, clap::Args)]
struct AgentArgs {
    /// The model: `direct` (commands, no model) or `script:FILE` (a written conversation).
    #[arg(
        long,
        global = true,
        env = "CALLBOARD_MODEL",
        default_value = "direct",
        value_name = "MODEL"
    )]
    model: String,
    /// The language of titles, such as `de`; else that of LC_ALL, LC_MESSAGES or LANG. English
    /// where there are none in it.
    #[arg(long, global = true, env = "CALLBOARD_LOCALE", value_name = "LOCALE")]
    locale: Option<String>,
    /// What is done about calls that no rule speaks of.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "MODE")]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve an ACP client on standard input and output. The default without a terminal.
    Acp,
    /// Run one prompt here, in the terminal.
    Exec(ExecArgs),
    /// Show which models there are and how to connect one.
    Setup,
    /// Judge what any agent and its client said to one another, by the rules of ACP v1.
    CheckWire(CheckWireArgs),
}

#[derive(Debug, clap::Args)]
struct ExecArgs {
    /// The prompt; `-` reads it from standard input.
    prompt: String,
    /// Allow every call without asking.
    #[arg(long, conflicts_with = "deny_all")]
    approve_all: bool,
    /// Reject every call that would ask.
    #[arg(long)]
    deny_all: bool,
    /// The directory to work in.
    #[arg(long, value_name = "DIR")]
    cwd: Option<std::path::PathBuf>,
}

#[derive(Debug, clap::Args)]
struct CheckWireArgs {
    /// Transcripts, one JSON-RPC message a line; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<std::path::PathBuf>,
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let telemetry = telemetry::start(match cli.command {
        Some(Command::Exec(_)) => LevelFilter::WARN,
        _ => LevelFilter::INFO,
    });
    let code = match cli.command {
        Some(Command::Setup) => setup(),
        Some(Command::CheckWire(args)) => check_wire::run(&args.files),
        Some(Command::Exec(args)) => exec(cli.agent, args),
        Some(Command::Acp) => acp(cli.agent),
        None if std::io::stdin().is_terminal() => help(),
        None => acp(cli.agent),
    };
    telemetry.finish();
    code
}

/// Serves a client until it is gone.
fn acp(args: AgentArgs) -> ExitCode {
    let agent = match agent(args) {
        Ok(agent) => agent,
        Err(code) => return code,
    };
    // Before any other thread starts: nothing may write to the protocol's stream by accident.
    let transport = match transport::stdio() {
        Ok(transport) => transport,
        Err(error) => return fail(&format!("cannot take over standard input and output: {error}")),
    };
    let agent = agent.with_counters(transport.counters());
    run(serve(agent, transport))
}

/// Serves a client until it is gone, or until a signal ends the connection in the same way: what
/// runs is cancelled, and the client is told. A second signal, or [`limits::EXIT_DEADLINE`], ends
/// it as it is.
async fn serve(agent: Agent, transport: Transport) -> ExitCode {
    let ended = transport.ended();
    let mut connection = pin!(agent.connect_to(transport));
    let out_of_time = async {
        ended.cancelled().await;
        tokio::time::sleep(limits::EXIT_DEADLINE).await;
    };
    let mut out_of_time = pin!(out_of_time);
    tokio::select! {
        result = &mut connection => code(result),
        () = &mut out_of_time => late(),
        signal = interrupted() => {
            ended.cancel();
            tokio::select! {
                _ = connection => {}
                () = out_of_time => drop(late()),
                _ = interrupted() => {}
            }
            ExitCode::from(128 + signal)
        }
    }
}

fn code(result: agent_client_protocol::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("the connection failed: {}", error.message)),
    }
}

/// What the client was not told by now, it is not told at all.
fn late() -> ExitCode {
    tracing::warn!("something did not end in time, it is left behind");
    ExitCode::SUCCESS
}

fn exec(agent_args: AgentArgs, args: ExecArgs) -> ExitCode {
    let agent = match agent(agent_args) {
        Ok(agent) => agent,
        Err(code) => return code,
    };
    let approval = match (args.approve_all, args.deny_all) {
        (true, _) => Approval::All,
        (_, true) => Approval::None,
        _ => Approval::Ask,
    };
    let prompt = match exec::read_prompt(args.prompt) {
        Ok(prompt) => prompt,
        Err(error) => return fail(&format!("cannot read the prompt: {error}")),
    };
    let cwd = match args.cwd.map_or_else(std::env::current_dir, std::path::absolute) {
        Ok(cwd) => cwd,
        Err(error) => return fail(&format!("cannot find the working directory: {error}")),
    };
    run(async {
        tokio::select! {
            code = exec::run(agent, prompt, cwd, approval) => code,
            signal = interrupted() => ExitCode::from(128 + signal),
        }
    })
}

fn setup() -> ExitCode {
    Ui::stdout().line(CONNECT);
    ExitCode::SUCCESS
}

fn help() -> ExitCode {
    Ui::stdout().print(&Cli::command().render_long_help().ansi().to_string());
    ExitCode::SUCCESS
}

fn agent(args: AgentArgs) -> Result<Agent, ExitCode> {
    let model = model::parse(&args.model).map_err(|error| fail(&error.to_string()))?;
    let agent = Agent::new(model, acp_tools::env::parent()).with_mode(args.mode);
    Ok(match args.locale {
        Some(locale) => agent.with_locale(locale),
        None => agent,
    })
}

/// Runs a future to its end, then leaves without waiting for threads that may never end: the one
/// that reads standard input, or one that a dead disk holds.
fn run(future: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    let code = runtime.block_on(future);
    // Drops every task, and with it every process that one owns.
    runtime.shutdown_timeout(Duration::from_millis(200));
    code
}

/// Waits for a signal that asks this process to end, and returns its number.
#[cfg(unix)]
async fn interrupted() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = async |kind: SignalKind| match signal(kind) {
        Ok(mut signal) => signal.recv().await,
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        _ = wait(SignalKind::hangup()) => 1,
        _ = wait(SignalKind::interrupt()) => 2,
        _ = wait(SignalKind::terminate()) => 15,
    }
}

/// Waits for a signal that asks this process to end.
#[cfg(not(unix))]
async fn interrupted() -> u8 {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
    2
}

fn fail(what: &str) -> ExitCode {
    Ui::stderr().line(&format!("callboard: {}", secrets::of_process().redact(what)));
    ExitCode::FAILURE
}
