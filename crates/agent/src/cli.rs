//! The command line: what to run, with which model, and how the process ends.

mod args;
mod chosen;
mod plain;

use std::io::IsTerminal as _;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use agent_client_protocol::ConnectTo as _;
use clap::{CommandFactory as _, Parser as _};
use tracing_subscriber::filter::LevelFilter;

use crate::agent::Agent;
use crate::exec::{self, Approval};
use crate::transport::{self, Transport};
use crate::ui::Ui;
use crate::{check_wire, limits, secrets, telemetry};
use args::{AgentArgs, Cli, Command, ExecArgs, ProviderArg, ServeArgs};

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = plain::read(std::env::args_os().skip(1)).unwrap_or_else(Cli::parse);
    let level = LevelFilter::WARN;
    match cli.command {
        Some(Command::Acp(args)) => acp(args),
        Some(Command::Exec(args)) => logging(level, || exec(args)),
        Some(Command::Models(args)) => logging(level, || chosen::models(&args)),
        Some(Command::Login(arg)) => logging(level, || chosen::login(&arg)),
        Some(Command::Logout(arg)) => logging(level, || chosen::logout(&arg)),
        Some(Command::Config(args)) => logging(level, || chosen::config(args.command)),
        Some(Command::CheckWire(args)) => logging(level, || check_wire::run(&args.files)),
        None if !cli.serve.setup && std::io::stdin().is_terminal() => help(),
        None => acp(cli.serve),
    }
}

/// Serves a client until it is gone, or logs in, where that is what it is started for.
fn acp(args: ServeArgs) -> ExitCode {
    if args.setup {
        let any = ProviderArg { provider: None };
        return logging(LevelFilter::WARN, || chosen::login(&any));
    }
    // First of all: the client's first line is read while the rest is made. And before any other
    // thread starts: nothing may write to the protocol's stream by accident.
    let transport = transport::stdio();
    logging(LevelFilter::WARN, || match transport {
        Ok(transport) => serve_as(args.agent, transport),
        Err(error) => fail(&format!("cannot take over standard input and output: {error}")),
    })
}

/// Serves a client with the agent that is configured.
fn serve_as(args: AgentArgs, transport: Transport) -> ExitCode {
    let agent = match chosen::serving_agent(args) {
        Ok(agent) => agent,
        Err(why) => return fail(&why),
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
        // Signals are listened to before anybody can know that it runs.
        biased;
        signal = interrupted() => {
            ended.cancel();
            tokio::select! {
                _ = connection => {}
                () = out_of_time => drop(late()),
                _ = interrupted() => {}
            }
            ExitCode::from(128 + signal)
        }
        result = &mut connection => code(result),
        () = &mut out_of_time => late(),
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

fn exec(args: ExecArgs) -> ExitCode {
    let agent = match chosen::agent(args.agent) {
        Ok(agent) => agent.offering_project_answers(),
        Err(why) => return fail(&why),
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

/// Works with a log from `level` on. Not inlined: who serves a client would touch the stack of
/// every other command before the first answer.
#[inline(never)]
fn logging(level: LevelFilter, work: impl FnOnce() -> ExitCode) -> ExitCode {
    let telemetry = telemetry::start(level);
    let code = work();
    telemetry.finish();
    code
}

fn help() -> ExitCode {
    Ui::stdout().print(&Cli::command().render_long_help().ansi().to_string());
    ExitCode::SUCCESS
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
