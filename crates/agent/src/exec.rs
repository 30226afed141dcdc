//! `callboard exec`: one prompt in the terminal, with the agent in the same process.
//!
//! It is an ACP client like any other and knows nothing of the agent's inside.

#![expect(clippy::disallowed_methods, reason = "a client has no outbox")]

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use acp_types::text::path_text;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, Implementation, InitializeRequest, NewSessionRequest, PermissionOption,
    PermissionOptionKind, PromptRequest, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification, StopReason,
};
use agent_client_protocol::{
    Client, ConnectTo, Error, ErrorCode, Result, on_receive_notification, on_receive_request,
};

use crate::limits::MAX_LINE_BYTES;
use crate::render::Cards;
use crate::ui::Ui;

/// Who answers permission requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// The user at the terminal; without one, nobody, and every request is rejected.
    Ask,
    /// Everything is allowed.
    All,
    /// Everything is rejected.
    None,
}

/// What is printed, and what happened.
struct Screen {
    ui: Ui,
    cards: Cards,
    refused: bool,
}

/// Runs a prompt and prints what happens.
///
/// Ends with 0 for a turn that came to its end, 1 for one that failed, 3 if something was rejected
/// because nobody could be asked, 4 for a turn that stopped for another reason.
pub async fn run(
    agent: impl ConnectTo<Client> + 'static,
    prompt: String,
    cwd: PathBuf,
    approval: Approval,
) -> ExitCode {
    let ui = Ui::stdout();
    let cards = Cards::new(&cwd, ui.width()).coloured();
    let screen = Arc::new(Mutex::new(Screen { ui, cards, refused: false }));
    let (shown, asked) = (screen.clone(), screen.clone());
    // One question at a time, from its card to its answer: nobody must answer another one.
    let asking = Arc::new(Mutex::new(()));
    let result = Client
        .v1()
        .name("callboard-exec")
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                shown.show(|cards| cards.update(&notification.update, 0));
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, client: ConnectionTo<_>| {
                let (asked, asking) = (asked.clone(), asking.clone());
                client.spawn(async move {
                    let answered = tokio::task::spawn_blocking(move || {
                        let _one = asking.lock().unwrap_or_else(PoisonError::into_inner);
                        answer(&asked, &request, approval)
                    });
                    let outcome = answered.await.unwrap_or(RequestPermissionOutcome::Cancelled);
                    match unasked(approval) {
                        // The user rejected nothing.
                        Some(why) => {
                            responder.respond_with_error(Error::new(ErrorCode::INTERNAL_ERROR, why))
                        }
                        None => responder.respond(RequestPermissionResponse::new(outcome)),
                    }
                })
            },
            on_receive_request!(),
        )
        .connect_with(agent, async |client: ConnectionTo<_>| turn(&client, prompt, cwd).await)
        .await;
    screen.finish(result)
}

/// Reads the prompt from standard input if it is `-`.
///
/// # Errors
///
/// Whatever reading standard input gives; a prompt over 16 MiB is cut.
pub fn read_prompt(prompt: String) -> io::Result<String> {
    if prompt != "-" {
        return Ok(prompt);
    }
    let mut text = String::new();
    io::stdin().lock().take(MAX_LINE_BYTES as u64).read_to_string(&mut text)?;
    Ok(text)
}

async fn turn(
    client: &ConnectionTo<agent_client_protocol::Agent>,
    prompt: String,
    cwd: PathBuf,
) -> Result<StopReason> {
    let info = Implementation::new("callboard-exec", env!("CARGO_PKG_VERSION"));
    let initialize = InitializeRequest::new(ProtocolVersion::V1).client_info(info);
    client.send_request(initialize).block_task().await?;
    let session =
        client.send_request(NewSessionRequest::new(path_text(&cwd).as_ref())).block_task().await?;
    let prompt = vec![ContentBlock::from(prompt)];
    let request = PromptRequest::new(session.session_id, prompt);
    Ok(client.send_request(request).block_task().await?.stop_reason)
}

trait Show {
    fn show(&self, render: impl FnOnce(&mut Cards) -> String);
    fn finish(&self, result: Result<StopReason>) -> ExitCode;
}

impl Show for Arc<Mutex<Screen>> {
    fn show(&self, render: impl FnOnce(&mut Cards) -> String) {
        let mut screen = self.lock().unwrap_or_else(PoisonError::into_inner);
        let Screen { ui, cards, .. } = &mut *screen;
        ui.print(&render(cards));
    }

    fn finish(&self, result: Result<StopReason>) -> ExitCode {
        let mut screen = self.lock().unwrap_or_else(PoisonError::into_inner);
        let Screen { ui, cards, refused } = &mut *screen;
        ui.print(&cards.end_line());
        match result {
            Ok(_) if *refused => {
                ui.line("Something was rejected because nobody could be asked; see --approve-all.");
                ExitCode::from(3)
            }
            Ok(StopReason::EndTurn) => ExitCode::SUCCESS,
            Ok(stop) => {
                ui.line(&format!("The turn ended early: {stop:?}."));
                ExitCode::from(4)
            }
            Err(error) => {
                Ui::stderr().line(&format!("callboard: {}", error.message));
                ExitCode::FAILURE
            }
        }
    }
}

/// Returns why no one is asked, where a request is rejected for that alone.
fn unasked(approval: Approval) -> Option<&'static str> {
    match approval {
        Approval::None => Some("--deny-all rejects whatever is asked"),
        Approval::Ask if !io::stdin().is_terminal() => {
            Some("there is no terminal to ask at; see --approve-all")
        }
        _ => None,
    }
}

/// Answers a permission request, by asking at the terminal where that is due.
fn answer(
    screen: &Arc<Mutex<Screen>>,
    request: &RequestPermissionRequest,
    approval: Approval,
) -> RequestPermissionOutcome {
    screen.show(|cards| cards.permission(request, 0));
    let of_kind = |kind| request.options.iter().find(|option| option.kind == kind);
    let chosen = match approval {
        Approval::All => of_kind(PermissionOptionKind::AllowOnce),
        Approval::None => of_kind(PermissionOptionKind::RejectOnce),
        Approval::Ask if io::stdin().is_terminal() => ask(screen, &request.options),
        Approval::Ask => {
            screen.lock().unwrap_or_else(PoisonError::into_inner).refused = true;
            of_kind(PermissionOptionKind::RejectOnce)
        }
    };
    if approval != Approval::Ask
        && let Some(option) = chosen
    {
        screen.show(|_| format!("  ▸ {}\n", option.name));
    }
    match chosen {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
            option.option_id.clone(),
        )),
        None => RequestPermissionOutcome::Cancelled,
    }
}

/// Asks for a number until there is one; the end of input cancels the turn.
fn ask<'a>(
    screen: &Arc<Mutex<Screen>>,
    options: &'a [PermissionOption],
) -> Option<&'a PermissionOption> {
    for _ in 0..MAX_QUESTIONS {
        screen.show(|_| format!("  Which? [1-{}] ", options.len()));
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).ok()? == 0 {
            return None;
        }
        let number = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(option) = number.and_then(|number| options.get(number)) {
            return Some(option);
        }
    }
    None
}

/// How often a question is repeated that gets no answer.
const MAX_QUESTIONS: usize = 5;
