//! `callboard sessions`, with the stored sessions of this user.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use acp_cards::CardRenderer;
use callboard_exec::{Keyboard, OutputStream};
use callboard_runtime::SessionArchive;
use callboard_sessions::{
    FoundSession, ResumeArgs, SelectedSession, SessionsArgs, SessionsContext, SessionsError,
    SessionsTerminal,
};
use callboard_text::escape_invisible;

use super::subcommands::process_env;
use super::{
    absolute_or_current_folder, print_error_and_fail, print_redacted_error,
    print_usage_error_and_fail,
};
use crate::config::{Config, Flags};
use crate::key_store::KeyStore;
use crate::session_store;

/// Standard output, and the terminal at which the user confirms.
struct StdoutSessionsTerminal {
    ui: OutputStream,
    locale: String,
}

/// Runs the subcommand.
pub(super) fn run_sessions(args: SessionsArgs) -> ExitCode {
    let env = process_env();
    let config = match Config::load(&env, Flags::default()) {
        Ok(config) => config,
        Err(error) => return print_error_and_fail(&error.to_string()),
    };
    config.redact_keys();
    if let Err(error) = KeyStore::from_env(&env).read_logins_without_keyring() {
        return print_error_and_fail(&error.to_string());
    }
    let archive = match session_store::open_archive(&env) {
        Ok(archive) => archive,
        Err(why) => return print_error_and_fail(&why),
    };
    let cwd = match absolute_or_current_folder(None) {
        Ok(cwd) => cwd,
        Err(why) if args.needs_current_folder() => return print_error_and_fail(&why),
        Err(_) => PathBuf::new(),
    };
    let mut terminal =
        StdoutSessionsTerminal { ui: OutputStream::stdout(), locale: config.locale(&env) };
    let mut context = SessionsContext::new(&archive, &cwd, SystemTime::now(), &mut terminal);
    context.retention = config.session_retention();
    match callboard_sessions::run_sessions_command(args, context) {
        // `OutputStream` reports an output error at the end, unless the reader has closed the pipe.
        Ok(()) | Err(SessionsError::Output(_)) => ExitCode::SUCCESS,
        Err(error) => print_error_and_fail(&escape_invisible(&error.to_string())),
    }
}

/// Finds the session that `exec` continues, if there is one.
///
/// # Errors
///
/// Prints the error. Returns the exit code.
pub(super) async fn find_session_to_resume(
    args: ResumeArgs,
    config: &Config,
    cwd: PathBuf,
) -> Result<Option<FoundSession>, ExitCode> {
    if !args.is_given() {
        return Ok(None);
    }
    if !config.stores_sessions.value {
        return Err(print_usage_error_and_fail(
            "sessions are not stored, so none can be continued",
        ));
    }
    run_with_archive(move |archive| args.find(archive, &cwd, SystemTime::now())).await
}

/// Selects the found session for `exec`. Copies the session if the flag `--fork` is given.
///
/// # Errors
///
/// Prints the error. Returns the exit code.
pub(super) async fn fork_found_session_if_asked(
    found: FoundSession,
    cwd: PathBuf,
) -> Result<SelectedSession, ExitCode> {
    run_with_archive(move |archive| found.fork_if_requested(archive, &cwd, SystemTime::now())).await
}

/// Runs `work` with the stored sessions, on a separate thread. Prints an error, and returns the
/// exit code.
async fn run_with_archive<T: Send + 'static>(
    work: impl FnOnce(&SessionArchive) -> Result<T, SessionsError> + Send + 'static,
) -> Result<T, ExitCode> {
    let running = tokio::task::spawn_blocking(move || {
        let archive = session_store::open_archive(&process_env());
        let archive = archive.map_err(|why| print_error_and_fail(&why))?;
        work(&archive).map_err(|error| {
            let why = escape_invisible(&error.to_string());
            match error.is_session_argument_error() {
                true => print_usage_error_and_fail(&why),
                false => print_error_and_fail(&why),
            }
        })
    });
    running.await.unwrap_or_else(|error| Err(print_error_and_fail(&error.to_string())))
}

impl Write for StdoutSessionsTerminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.ui.print_bytes(bytes);
        if self.ui.is_closed() { Err(ErrorKind::BrokenPipe.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SessionsTerminal for StdoutSessionsTerminal {
    fn card_renderer(&self, cwd: &Path) -> CardRenderer {
        callboard_exec::create_card_renderer(&self.ui, cwd, &self.locale)
    }

    fn print_note(&mut self, text: &str) {
        print_redacted_error(&escape_invisible(text));
    }

    fn confirm(&mut self, question: &str) -> Option<bool> {
        let mut keyboard = Keyboard::open_terminal(&self.ui)?;
        self.ui.print(&format!("{question} [y/N] "));
        let line = keyboard.read_line().ok()?;
        Some(matches!(line.trim(), "y" | "Y" | "yes"))
    }
}
