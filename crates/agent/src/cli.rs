//! The command line: what to run, with which model, and how the process ends.

mod args;
mod chosen;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use acp_transport::Transport;
use agent_client_protocol::v1::schema::ContentBlock;
use callboard_models::direct;
use callboard_runtime::{Agent, is_command};
use callboard_text::visible;
use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use tracing_subscriber::filter::LevelFilter;

use crate::exec::piped::{self, Context, Note};
use crate::exec::{self, Approval};
use crate::ui::Ui;
use crate::{check_wire, limits, secrets, telemetry};
use args::{AgentArgs, Cli, Command, ExecArgs, ProviderArg, ServeArgs};

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error),
    };
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
    let transport = acp_transport::stdio();
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
    run(serve(agent, transport))
}

/// Serves a client until it is gone, or until a signal ends the connection in the same way: what
/// runs is cancelled, and the client is told. A second signal, or [`limits::EXIT_DEADLINE`], ends
/// it as it is.
async fn serve(agent: Agent, transport: Transport) -> ExitCode {
    let ended = transport.ended();
    let mut connection = pin!(callboard_runtime::serve(agent, transport));
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
    run(async {
        let mut interrupted = pin!(first_interrupt());
        let prepared = tokio::select! {
            signal = &mut interrupted => return ExitCode::from(128 + signal),
            prepared = prepare(args) => prepared,
        };
        match prepared {
            Ok(Prepared { agent, prompt, cwd, approval }) => {
                let locale = agent.locale();
                exec::run(agent, prompt, cwd, approval, &locale, interrupted).await
            }
            Err(code) => code,
        }
    })
}

/// What `callboard exec` runs.
struct Prepared {
    agent: Agent,
    prompt: Vec<ContentBlock>,
    cwd: PathBuf,
    approval: Approval,
}

/// Finds the model before anything is read from standard input, and the prompt before anything is
/// started.
async fn prepare(args: ExecArgs) -> Result<Prepared, ExitCode> {
    let cwd = args.cwd.map_or_else(std::env::current_dir, std::path::absolute);
    let cwd = cwd.map_err(|error| fail(&format!("cannot find the working directory: {error}")))?;
    let (agent, model) = chosen::exec_agent(args.agent).await?;
    let agent = agent.offering_project_answers();
    let prompt = if args.prompt == "-" {
        let read = tokio::task::spawn_blocking(piped::prompt).await;
        let read = read.unwrap_or_else(|error| Err(error.into()));
        read.map_err(|error| fail(&format!("cannot read the prompt: {error}")))?
    } else {
        args.prompt.clone()
    };
    let is_direct = model == direct::NAME;
    if is_direct
        && !is_command(&prompt)
        && let Some(why) = direct::misunderstood(&prompt)
    {
        return Err(unusable(&format!(
            "{why} `callboard exec --model direct help` shows them all."
        )));
    }
    let mut blocks = vec![ContentBlock::from(prompt)];
    // `direct` does what its lines say, and has no use for more.
    if args.prompt != "-" && !is_direct {
        let tell = |note: Note| Ui::stderr().line(&format!("callboard: {note}"));
        match tokio::task::spawn_blocking(move || piped::context(tell)).await {
            Ok(Context::Text(text)) => blocks.push(ContentBlock::from(text)),
            Ok(Context::Silent) => {
                let minutes = limits::STDIN_PATIENCE.as_secs() / 60;
                return Err(unusable(&format!(
                    "nothing came from standard input within {minutes} minutes. If it holds \
                     nothing, use `</dev/null`; if it takes longer, write it to a file first."
                )));
            }
            Ok(Context::None) | Err(_) => {}
        }
    }
    let approval = match (args.approve_all, args.deny_all) {
        (true, _) => Approval::All,
        (_, true) => Approval::None,
        _ => Approval::Ask,
    };
    Ok(Prepared { agent, prompt: blocks, cwd, approval })
}

/// Prints what is wrong with the command line, or its help; names `exec` to a user who wrote a
/// prompt where a subcommand belongs.
fn not_parsed(error: &clap::Error) -> ExitCode {
    let mut ui = if error.use_stderr() { Ui::stderr() } else { Ui::stdout() };
    ui.print(&error.render().ansi().to_string());
    if let Some(prompt) = meant_prompt(error) {
        ui.line(&format!("\nTo run a prompt in the terminal: callboard exec {prompt}"));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// Returns the words of the command line, quoted for a shell, if they are likely to be a prompt.
fn meant_prompt(error: &clap::Error) -> Option<String> {
    let words = std::env::args_os().skip(1).map(OsString::into_string);
    let words = words.collect::<Result<Vec<_>, _>>().ok()?;
    let prompt = match (error.kind(), &*words) {
        (ErrorKind::InvalidSubcommand, words)
            if error.get(ContextKind::SuggestedSubcommand).is_none() =>
        {
            words
        }
        (ErrorKind::UnknownArgument, [exec, prompt @ ..]) if exec == "exec" => prompt,
        _ => return None,
    };
    if prompt.iter().any(|word| word.starts_with('-')) {
        return None;
    }
    quoted(&prompt.join(" "))
}

/// Quotes a text for a shell; returns none if that takes more than a pair of quotes, or if the text
/// cannot be shown as it is.
fn quoted(text: &str) -> Option<String> {
    let quote = if text.contains(['"', '`', '$', '\\', '!']) { '\'' } else { '"' };
    let is_plain = !text.contains(quote) && visible(text) == text;
    is_plain.then(|| format!("{quote}{text}{quote}"))
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

/// Waits for the first signal that asks this process to end. A second one, or
/// [`limits::EXIT_DEADLINE`], ends the process as it is.
///
/// A thread of its own waits for them, because the runtime's stands still while nobody reads
/// standard output. Commands do not outlive this process, however it ends.
async fn first_interrupt() -> u8 {
    let (sender, first) = tokio::sync::oneshot::channel();
    let watch = async move {
        let signal = interrupted().await;
        // Nobody waits for it once the prompt has ended.
        let _is_awaited = sender.send(signal).is_ok();
        drop(tokio::time::timeout(limits::EXIT_DEADLINE, interrupted()).await);
        signal
    };
    #[expect(clippy::exit, clippy::disallowed_methods, reason = "main may never return")]
    let watching = std::thread::Builder::new().name("signals".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            let signal = runtime.block_on(watch);
            std::process::exit(128 + i32::from(signal));
        }
    });
    drop(watching);
    match first.await {
        Ok(signal) => signal,
        Err(_) => interrupted().await,
    }
}

fn fail(what: &str) -> ExitCode {
    say_error(what);
    ExitCode::FAILURE
}

/// Says why there is nothing to run: the command line makes no sense, or there is no model.
fn unusable(what: &str) -> ExitCode {
    say_error(what);
    ExitCode::from(2)
}

fn say_error(what: &str) {
    Ui::stderr().line(&format!("callboard: {}", secrets::of_process().redact(what)));
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::quoted;

    #[test]
    fn a_shell_reads_a_quoted_text_as_it_is() {
        for (text, expected) in [
            ("fix the bug", Some("\"fix the bug\"")),
            ("don't", Some("\"don't\"")),
            ("cost $5 `x` a\\b now!", Some("'cost $5 `x` a\\b now!'")),
            ("say \"hi\"", Some("'say \"hi\"'")),
            ("don't pay $5", None),
            ("two\nlines", None),
            ("\u{202e}x", None),
        ] {
            assert_eq!(quoted(text).as_deref(), expected);
        }
    }
}
