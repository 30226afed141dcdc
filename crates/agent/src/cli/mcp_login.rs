//! `callboard mcp login` and `callboard mcp logout`: logins to MCP servers over HTTP.

use std::io::{self, BufRead as _, Read as _};
use std::process::{Command, ExitCode, Stdio};

use acp_mcp::{McpLoginError, McpLoginFlow, McpServerConfig};
use callboard_exec::OutputStream;
use callboard_text::escape_invisible;
use futures::stream;
use tokio::sync::mpsc;

use super::mcp_config::{load_config, print_unknown_server};
use super::subcommands::{print_redacted, process_env};
use super::{block_on_and_shut_down, print_error_and_fail, print_redacted_error};
use crate::key_store::{KeyLocation, KeyStore};
use crate::limits::MAX_PASTED_ADDRESS_BYTES;

/// Logs in to a server of the configuration.
pub(super) fn run_mcp_login(name: &str) -> ExitCode {
    let config = match load_config() {
        Ok(config) => config,
        Err(code) => return code,
    };
    let mut servers = config.mcp_servers.into_iter().map(|server| server.value);
    let shown = escape_invisible(name);
    let Some(server) = servers.find(|server| server.name == name) else {
        return print_unknown_server(name);
    };
    block_on_and_shut_down(async {
        match log_in(&server).await {
            Ok(()) => print_redacted(&format!(
                "Logged in to {shown}. {}\nIn an open session, `/mcp restart {shown}` uses the login.",
                place_text(&KeyStore::from_env(&process_env()), name)
            )),
            Err(error) => print_error_and_fail(&format!(
                "no login to the MCP server {shown}: {error}{}",
                remedy(&error, &shown)
            )),
        }
    })
}

/// Removes the stored login to a server, which need not be in the configuration any more.
pub(super) fn run_mcp_logout(name: &str) -> ExitCode {
    let shown = escape_invisible(name);
    match KeyStore::from_env(&process_env()).remove_mcp_login(name) {
        Ok(true) => print_redacted(&format!("Removed the login to the MCP server {shown}.")),
        Ok(false) => print_redacted(&format!("There was no login to the MCP server {shown}.")),
        Err(error) => print_error_and_fail(&error.to_string()),
    }
}

async fn log_in(server: &McpServerConfig) -> Result<(), McpLoginError> {
    let flow = McpLoginFlow::start(server, "Callboard").await?;
    let mut out = OutputStream::stdout();
    out.print_line(&format!(
        "To log in to {}, open this page in a browser:\n\n{}\n",
        escape_invisible(&server.name),
        flow.url()
    ));
    out.print_line(
        "If the browser runs on another computer, it cannot open the last page. Paste the address \
         of that page here.",
    );
    open_in_browser(flow.url());
    let (sender, lines) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || read_lines(&sender));
    let lines = stream::unfold(lines, async |mut lines| Some((lines.recv().await?, lines)));
    let wrong = || {
        print_redacted_error(
            "this is not the address of the last page of this login, so it is ignored. Paste the \
             address that the browser shows when it cannot open the page.",
        );
    };
    flow.finish(lines, wrong).await
}

/// Reads the lines that the user pastes, until the login has ended.
fn read_lines(to: &mpsc::Sender<String>) {
    let mut input = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = (&mut input).take(MAX_PASTED_ADDRESS_BYTES).read_until(b'\n', &mut line);
        if !read.is_ok_and(|length| length > 0) {
            return;
        }
        if to.blocking_send(String::from_utf8_lossy(&line).into_owned()).is_err() {
            return;
        }
    }
}

/// Opens a page in the user's browser, if this computer has a screen. A failure is ignored, because
/// the URL is printed as well.
fn open_in_browser(url: &str) {
    let has_screen = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if has_screen("DISPLAY") || has_screen("WAYLAND_DISPLAY") {
        "xdg-open"
    } else {
        return;
    };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        tracing::debug!("{program} cannot be run: {error}");
    }
}

fn place_text(store: &KeyStore, name: &str) -> String {
    match store.mcp_login_location(name) {
        Ok(KeyLocation::File(path)) => format!(
            "The login is stored in {}, which only you can read; no keyring was available.",
            path.display()
        ),
        _ => "The login is stored in the system's keyring.".to_owned(),
    }
}

/// Returns what the user can do about an error.
fn remedy(error: &McpLoginError, name: &str) -> String {
    match error {
        McpLoginError::Registration(_) => format!(
            "; register it there yourself, and set `client_id` in [mcp_servers.{name}.oauth]"
        ),
        McpLoginError::OtherIssuer(_) => format!(
            "; if the client is registered there, set `issuer` in [mcp_servers.{name}.oauth]"
        ),
        McpLoginError::TimedOut => "; try it again".to_owned(),
        _ => String::new(),
    }
}
