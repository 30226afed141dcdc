//! The command line: dispatch of the subcommands, signals and exit codes.

mod args;
mod mcp;
mod mcp_add;
mod mcp_config;
mod mcp_login;
mod sandbox;
mod sessions;
mod subcommands;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use acp_tools::CommandOutputStream;
use acp_transport::Transport;
use agent_client_protocol::v1::schema::ContentBlock;
use callboard_exec::{
    Approval, ExecJob, OutputStream, PipedInputNote, ResumedSession, fail_if_output_was_lost,
    read_context_from_stdin, read_prompt_from_stdin, run_prompt,
};
use callboard_runtime::CodingAgent;
use callboard_text::escape_invisible;
use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use crate::{check_wire, limits, secrets, telemetry};
use args::{Cli, Command, DoctorSubcommand, ExecArgs, SandboxSubcommand, ServeArgs};
use subcommands::CommandIsolationChoice;

/// Runs the command line of this process, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    fail_if_output_was_lost(match Cli::try_parse() {
        Ok(cli) => run_command(cli),
        Err(error) => report_parse_error(&error),
    })
}

fn run_command(cli: Cli) -> ExitCode {
    match cli.command {
        Some(Command::Acp(args)) => run_acp(args),
        Some(Command::Exec(args)) => run_with_logging(|| run_exec(args)),
        Some(Command::Sessions(args)) => run_with_logging(|| sessions::run_sessions(args)),
        Some(Command::Models { json }) => {
            run_with_logging(|| subcommands::run_models_command(json))
        }
        Some(Command::Login(arg)) => {
            run_with_logging(|| subcommands::run_login_command(arg.provider))
        }
        Some(Command::Logout(arg)) => {
            run_with_logging(|| subcommands::run_logout_command(arg.provider))
        }
        Some(Command::Config(command)) => {
            run_with_logging(|| subcommands::run_config_command(command))
        }
        Some(Command::Mcp(command)) => run_with_logging(|| mcp::run_mcp_command(command)),
        Some(Command::Sandbox(SandboxSubcommand::Run { cwd, command })) => {
            run_with_logging(|| sandbox::run_in_sandbox(cwd, command))
        }
        Some(Command::Doctor(DoctorSubcommand::Sandbox)) => {
            run_with_logging(sandbox::diagnose_sandbox)
        }
        Some(Command::CheckWire { files }) => run_with_logging(|| check_wire::check_files(&files)),
        None if !cli.serve.setup && io::stdin().is_terminal() => print_help(),
        None => run_acp(cli.serve),
    }
}

/// Serves a client until it disconnects, or logs in if `--setup` is given.
fn run_acp(args: ServeArgs) -> ExitCode {
    if args.setup {
        return run_with_logging(|| subcommands::run_login_command(None));
    }
    // The transport is opened first, so that it reads the client's first line while the agent is
    // created. No other thread may run before this step, because it could write to the protocol's
    // stream by accident.
    let transport = acp_transport::stdio();
    run_with_logging(|| {
        match transport.map(|transport| (subcommands::create_serving_agent(args.flags), transport))
        {
            Ok((Ok(agent), transport)) => {
                block_on_and_shut_down(serve_until_disconnect(agent, transport))
            }
            Ok((Err(why), _)) => print_error_and_fail(&why),
            Err(error) => {
                print_error_and_fail(&format!("cannot open standard input and output: {error}"))
            }
        }
    })
}

/// Serves a client until it disconnects. A signal also closes the connection: running calls are
/// cancelled, and the client is notified. A second signal, or [`limits::EXIT_DEADLINE`], ends the
/// process immediately.
async fn serve_until_disconnect(agent: CodingAgent, transport: Transport) -> ExitCode {
    let ended = transport.ended_token();
    let mut connection = pin!(callboard_runtime::serve(agent, transport));
    let mut out_of_time = pin!(async {
        ended.cancelled().await;
        tokio::time::sleep(limits::EXIT_DEADLINE).await;
        // At this point, unsent messages are dropped.
        tracing::warn!("some tasks did not end in time and are abandoned");
    });
    tokio::select! {
        // Signals are polled first, so that the signal handlers are installed before the client can
        // see that the agent runs.
        biased;
        signal = wait_for_termination_signal() => {
            ended.cancel();
            tokio::select! {
                _ = connection => {}
                () = out_of_time => {}
                _ = wait_for_termination_signal() => {}
            }
            ExitCode::from(128 + signal)
        }
        result = &mut connection => match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => print_error_and_fail(&format!("the connection failed: {}", error.message)),
        },
        () = &mut out_of_time => ExitCode::SUCCESS,
    }
}

fn run_exec(args: ExecArgs) -> ExitCode {
    block_on_and_shut_down(async {
        let mut interrupted = pin!(first_signal_with_forced_exit());
        let job = tokio::select! {
            signal = &mut interrupted => return ExitCode::from(128 + signal),
            job = prepare_exec_job(args) => job,
        };
        match job {
            Ok(job) => run_prompt(job, interrupted).await,
            Err(code) => code,
        }
    })
}

/// Returns a folder that the user has named as an absolute path, or else the current folder.
///
/// # Errors
///
/// Returns a message for the user, e.g. if the current folder was removed.
fn absolute_or_current_folder(named: Option<PathBuf>) -> Result<PathBuf, String> {
    let folder = named.map_or_else(std::env::current_dir, std::path::absolute);
    folder.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            "the current folder no longer exists; change to another folder, and try again".into()
        }
        _ => format!("cannot find the current folder: {error}"),
    })
}

/// Prepares a run of `exec`: first finds the stored session and the model, then reads standard
/// input. No call starts before the prompt is read.
async fn prepare_exec_job(args: ExecArgs) -> Result<ExecJob<CodingAgent>, ExitCode> {
    let cwd = absolute_or_current_folder(args.cwd).map_err(|why| print_error_and_fail(&why))?;
    let (model_flag, mode_flag) = (args.flags.model.clone(), args.flags.mode);
    let isolation = CommandIsolationChoice::from_flags(&args.flags);
    let config = subcommands::load_exec_config(args.flags)?;
    let found = sessions::find_session_to_resume(args.resumed, &config, cwd.clone()).await?;
    let stored_model = found.as_ref().and_then(|session| session.model.clone());
    let stored_model = stored_model.filter(|_| model_flag.is_none());
    let (agent, model) = subcommands::create_exec_agent(config, isolation, stored_model).await?;
    let agent = agent.with_project_permission_options();
    // Programs print colours and progress for a terminal, which a file or a pipe does not need.
    let agent = match OutputStream::stdout().is_terminal() {
        true => agent,
        false => agent.with_command_output_stream(CommandOutputStream::Pipe),
    };
    let is_piped = args.prompt == "-";
    let prompt = if is_piped {
        if io::stdin().is_terminal() {
            OutputStream::stderr().print_line("callboard: type the prompt; Ctrl-D ends it");
        }
        let read = tokio::task::spawn_blocking(read_prompt_from_stdin).await;
        let read = read.unwrap_or_else(|error| Err(error.into()));
        read.map_err(|error| print_error_and_fail(&format!("cannot read the prompt: {error}")))?
    } else {
        args.prompt
    };
    if prompt.trim().is_empty() {
        return Err(print_usage_error_and_fail("the prompt is empty"));
    }
    let is_slash_command = agent.is_slash_command(&prompt);
    if !is_slash_command && let Some(why) = model.prompt_error(&prompt) {
        let name = model.name();
        let all = format!("Run `callboard exec --model {name} help` to list the commands.");
        return Err(print_usage_error_and_fail(&format!("{why} {all}")));
    }
    let is_commands = model.capabilities().commands;
    let mut prompt = vec![ContentBlock::from(prompt)];
    // No model reads a slash command, so the context would become a part of its argument.
    if !is_piped && !is_commands && !is_slash_command {
        let notify =
            |note: PipedInputNote| OutputStream::stderr().print_line(&format!("callboard: {note}"));
        let reading = tokio::task::spawn_blocking(move || read_context_from_stdin(notify)).await;
        let context = reading.unwrap_or(Ok(None));
        let context =
            context.map_err(|timeout| print_usage_error_and_fail(&timeout.to_string()))?;
        prompt.extend(context.map(ContentBlock::from));
    }
    let approval = match (args.approve_all, args.deny_all) {
        (true, _) => Approval::All,
        (_, true) => Approval::None,
        _ => Approval::Ask,
    };
    let locale = agent.locale();
    // This is the last step, because `--fork` stores a copy of the session. If another step fails,
    // no copy must be left.
    let resumed = match found {
        Some(found) => {
            let session = sessions::fork_found_session_if_asked(found, cwd.clone()).await?;
            let mut resumed = ResumedSession::new(session.id, session.description);
            resumed.model = model_flag;
            resumed.mode = mode_flag.map(|mode| mode.id().to_owned());
            Some(resumed)
        }
        None => None,
    };
    let mut job = ExecJob::new(agent, prompt, cwd);
    (job.resumed, job.approval) = (resumed, approval);
    (job.fails_with_a_call, job.locale) = (is_commands, locale);
    Ok(job)
}

/// Prints a usage error, or the help. Suggests `exec` if the user wrote a prompt instead of a
/// subcommand.
fn report_parse_error(error: &clap::Error) -> ExitCode {
    let mut ui = if error.use_stderr() { OutputStream::stderr() } else { OutputStream::stdout() };
    ui.print(&error.render().ansi().to_string());
    if let Some(prompt) = quoted_prompt_from_args(error) {
        ui.print_line(&format!("\nTo run a prompt in the terminal: callboard exec {prompt}"));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// Returns the words of the command line as one text that is quoted for a shell. Returns `None` if
/// the words are probably not a prompt.
fn quoted_prompt_from_args(error: &clap::Error) -> Option<String> {
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
    shell_quoted(&prompt.join(" "))
}

/// Quotes a text for a shell. Returns `None` if one pair of quotes is not sufficient, or if the
/// text contains characters that cannot be displayed safely.
fn shell_quoted(text: &str) -> Option<String> {
    let quote = if text.contains(['"', '`', '$', '\\', '!']) { '\'' } else { '"' };
    let is_plain = !text.contains(quote) && escape_invisible(text) == text;
    is_plain.then(|| format!("{quote}{text}{quote}"))
}

/// Runs `work` with logging. The function is not inlined, so that `acp` does not share its stack
/// frame with the other commands. The larger frame would delay the first response of `acp`.
#[inline(never)]
fn run_with_logging(work: impl FnOnce() -> ExitCode) -> ExitCode {
    let telemetry = telemetry::start_telemetry();
    let code = work();
    telemetry.export_remaining_spans();
    code
}

fn print_help() -> ExitCode {
    OutputStream::stdout().print(&Cli::command().render_long_help().ansi().to_string());
    ExitCode::SUCCESS
}

/// Runs a future. Does not wait for threads that may never end, e.g. the reader of standard input,
/// or a thread that is blocked by a failing disk.
fn block_on_and_shut_down(future: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return print_error_and_fail(&format!("cannot start: {error}")),
    };
    let code = runtime.block_on(future);
    // The shutdown drops all tasks, and each task ends its processes when it is dropped.
    runtime.shutdown_timeout(Duration::from_millis(200));
    code
}

/// Waits for a signal that terminates this process, and returns its number.
#[cfg(unix)]
async fn wait_for_termination_signal() -> u8 {
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

/// Waits for a signal that terminates this process.
#[cfg(not(unix))]
async fn wait_for_termination_signal() -> u8 {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
    2
}

/// Waits for the first signal that terminates this process. A second signal, or
/// [`limits::EXIT_DEADLINE`], ends the process immediately.
///
/// Signals are handled on a separate thread: a write to standard output blocks the runtime while
/// the reader of the output does not read. Commands never outlive this process, even if it is
/// killed.
async fn first_signal_with_forced_exit() -> u8 {
    let (sender, first) = tokio::sync::oneshot::channel();
    let watch = async move {
        let signal = wait_for_termination_signal().await;
        // If the prompt has ended, the receiver no longer exists.
        let _is_awaited = sender.send(signal).is_ok();
        drop(tokio::time::timeout(limits::EXIT_DEADLINE, wait_for_termination_signal()).await);
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
        Err(_) => wait_for_termination_signal().await,
    }
}

fn print_error_and_fail(what: &str) -> ExitCode {
    print_redacted_error(what);
    ExitCode::FAILURE
}

/// Prints the reason why no prompt can run: invalid arguments, or no model.
fn print_usage_error_and_fail(what: &str) -> ExitCode {
    print_redacted_error(what);
    ExitCode::from(2)
}

fn print_redacted_error(what: &str) {
    OutputStream::stderr()
        .print_line(&format!("callboard: {}", secrets::process_secrets().redact(what)));
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::shell_quoted;

    #[test]
    fn a_shell_reads_a_quoted_text_unchanged() {
        for (text, expected) in [
            ("fix the bug", Some("\"fix the bug\"")),
            ("don't", Some("\"don't\"")),
            ("cost $5 `x` a\\b now!", Some("'cost $5 `x` a\\b now!'")),
            ("say \"hi\"", Some("'say \"hi\"'")),
            ("don't pay $5", None),
            ("two\nlines", None),
            ("\u{202e}x", None),
        ] {
            assert_eq!(shell_quoted(text).as_deref(), expected);
        }
    }
}
