//! `callboard exec`: one prompt in the terminal, with the agent in the same process.
//!
//! It is an ACP client like any other and knows nothing of the agent's inside.

mod keyboard;
pub(crate) mod piped;
mod words;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use acp_cards::Cards;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, ContentBlock, Implementation, InitializeRequest, NewSessionRequest,
    NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionConfigKind, SessionNotification, StopReason,
};
use agent_client_protocol::{
    Client, ConnectTo, Error, ErrorCode, Result, on_receive_notification, on_receive_request,
};
use callboard_models::direct;
use callboard_text::path_text;
use serde_json::{Map, Value};

use crate::ui::Ui;
use keyboard::Keyboard;
use words::{ENGLISH, Words};

/// Who answers permission requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approval {
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
    words: Arc<Words>,
    refused: bool,
    /// Whether the model is `direct`, so that a call that failed is what the user asked for.
    is_direct: bool,
}

/// How a turn came to its end.
enum Ending {
    Turn(Result<StopReason>),
    Signal(u8),
}

/// Runs a prompt and prints what happens, until `interrupted` gives the number of a signal; its own
/// words are in the language of a locale.
///
/// The exit codes are those of the README.
pub(crate) async fn run(
    agent: impl ConnectTo<Client> + 'static,
    prompt: Vec<ContentBlock>,
    cwd: PathBuf,
    approval: Approval,
    locale: &str,
    interrupted: impl Future<Output = u8>,
) -> ExitCode {
    let ui = Ui::stdout();
    let words = Arc::new(Words::in_locale(locale));
    let cards = Cards::new(&cwd, ui.width()).coloured().with_catalogue(words.clone());
    let cards = if ui.is_terminal() { cards.on_terminal() } else { cards };
    let screen = Screen { ui, cards, words, refused: false, is_direct: false };
    let screen = Arc::new(Mutex::new(screen));
    let (shown, asked, begun) = (screen.clone(), screen.clone(), screen.clone());
    // One question at a time, from its card to its answer: nobody must answer another one.
    let asking = Arc::new(Mutex::new(()));
    let turn = Client
        .v1()
        .name("callboard-exec")
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                shown.show(|cards, _| cards.update(&notification.update, 0));
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
                    match answered.await.unwrap_or(Ok(RequestPermissionOutcome::Cancelled)) {
                        Ok(outcome) => responder.respond(RequestPermissionResponse::new(outcome)),
                        Err(why) => {
                            responder.respond_with_error(Error::new(ErrorCode::INTERNAL_ERROR, why))
                        }
                    }
                })
            },
            on_receive_request!(),
        )
        .connect_with(agent, async |client: ConnectionTo<_>| {
            turn(&client, prompt, cwd, &begun).await
        });
    let ending = tokio::select! {
        signal = interrupted => Ending::Signal(signal),
        result = turn => Ending::Turn(result),
    };
    screen.finish(ending)
}

async fn turn(
    client: &ConnectionTo<agent_client_protocol::Agent>,
    prompt: Vec<ContentBlock>,
    cwd: PathBuf,
    screen: &Mutex<Screen>,
) -> Result<StopReason> {
    let is_terminal = screen.lock().unwrap_or_else(PoisonError::into_inner).ui.is_terminal();
    let info = Implementation::new("callboard-exec", env!("CARGO_PKG_VERSION"));
    // Commands get a terminal where there is one to show their output in.
    let meta = Map::from_iter([("terminal_output".to_owned(), Value::Bool(is_terminal))]);
    let initialize = InitializeRequest::new(ProtocolVersion::V1)
        .client_info(info)
        .client_capabilities(ClientCapabilities::new().meta(meta));
    client.send_request(initialize).block_task().await?;
    let session =
        client.send_request(NewSessionRequest::new(path_text(&cwd).as_ref())).block_task().await?;
    screen.lock().unwrap_or_else(PoisonError::into_inner).is_direct = is_direct(&session);
    let request = PromptRequest::new(session.session_id, prompt);
    Ok(client.send_request(request).block_task().await?.stop_reason)
}

/// Whether the model of a session is `direct`.
fn is_direct(session: &NewSessionResponse) -> bool {
    let mut options = session.config_options.iter().flatten();
    options.any(|option| match &option.kind {
        SessionConfigKind::Select(select) => {
            &*option.id.0 == "model" && &*select.current_value.0 == direct::NAME
        }
        _ => false,
    })
}

trait Show {
    fn show(&self, render: impl FnOnce(&mut Cards, &Words) -> String);
    fn finish(&self, ending: Ending) -> ExitCode;
}

impl Show for Arc<Mutex<Screen>> {
    fn show(&self, render: impl FnOnce(&mut Cards, &Words) -> String) {
        let mut screen = self.lock().unwrap_or_else(PoisonError::into_inner);
        let Screen { ui, cards, words, .. } = &mut *screen;
        cards.set_width(ui.width());
        ui.print(&render(cards, words));
    }

    fn finish(&self, ending: Ending) -> ExitCode {
        let mut screen = match ending {
            Ending::Turn(_) => self.lock().unwrap_or_else(PoisonError::into_inner),
            Ending::Signal(signal) => match lock_within(self, LAST_PRINT) {
                Some(screen) => screen,
                None => return ExitCode::from(128 + signal),
            },
        };
        let Screen { ui, cards, words, refused, is_direct } = &mut *screen;
        ui.print(&cards.end_line());
        let background = cards.background().collect::<Vec<_>>();
        if !background.is_empty() {
            ui.line(&words.say_with("background", "commands", background.join(", ")));
        }
        match ending {
            Ending::Signal(signal) => ExitCode::from(128 + signal),
            Ending::Turn(Ok(_)) if *refused => {
                ui.line(&words.say("nobody-asked"));
                ExitCode::from(3)
            }
            Ending::Turn(Ok(StopReason::EndTurn)) => match cards.failure() {
                Some(failure) if *is_direct => {
                    Ui::stderr().line(&format!("callboard: {failure}"));
                    ExitCode::FAILURE
                }
                _ => ExitCode::SUCCESS,
            },
            Ending::Turn(Ok(stop)) => {
                ui.line(&words.say(early(stop)));
                ExitCode::from(4)
            }
            Ending::Turn(Err(error)) => {
                Ui::stderr().line(&format!("callboard: {}", error.message));
                ExitCode::FAILURE
            }
        }
    }
}

/// Locks the screen, unless whoever prints waits for a reader that does not read.
fn lock_within(screen: &Mutex<Screen>, time: Duration) -> Option<MutexGuard<'_, Screen>> {
    let begun = Instant::now();
    loop {
        match screen.try_lock() {
            Ok(screen) => return Some(screen),
            Err(TryLockError::Poisoned(screen)) => return Some(screen.into_inner()),
            Err(TryLockError::WouldBlock) if begun.elapsed() > time => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Returns the key of why a turn ended early.
fn early(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Cancelled => "early-cancelled",
        StopReason::Refusal => "early-refusal",
        StopReason::MaxTokens => "early-tokens",
        StopReason::MaxTurnRequests => "early-requests",
        _ => "early-other",
    }
}

/// Answers a permission request, by asking at the terminal where that is due.
///
/// # Errors
///
/// Why nobody was asked, in English: the request is rejected, but not by the user.
fn answer(
    screen: &Arc<Mutex<Screen>>,
    request: &RequestPermissionRequest,
    approval: Approval,
) -> Result<RequestPermissionOutcome, String> {
    let decided = |key: &str| {
        screen
            .show(|cards, words| cards.decided(request, 0) + &format!("  ▸ {}\n", words.say(key)));
    };
    let chosen = match approval {
        Approval::All => {
            decided("allowed-all");
            request.options.iter().find(|it| it.kind == PermissionOptionKind::AllowOnce)
        }
        Approval::None => {
            decided("rejected-all");
            return Err(ENGLISH.say("sent-rejected-all"));
        }
        Approval::Ask => {
            let keyboard =
                Keyboard::open(&screen.lock().unwrap_or_else(PoisonError::into_inner).ui);
            let asked = keyboard.and_then(|keyboard| {
                screen.show(|cards, _| cards.permission(request, 0));
                ask(screen, &request.options, keyboard).ok()
            });
            let Some(chosen) = asked else {
                decided("rejected-unasked");
                screen.lock().unwrap_or_else(PoisonError::into_inner).refused = true;
                return Err(ENGLISH.say("sent-unasked"));
            };
            chosen
        }
    };
    Ok(match chosen {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
            option.option_id.clone(),
        )),
        None => RequestPermissionOutcome::Cancelled,
    })
}

/// Asks for a number until there is one; the end of input cancels the turn.
fn ask<'a>(
    screen: &Arc<Mutex<Screen>>,
    options: &'a [PermissionOption],
    mut keyboard: Keyboard,
) -> io::Result<Option<&'a PermissionOption>> {
    for _ in 0..MAX_QUESTIONS {
        let last = options.len().to_string();
        screen.show(|_, words| format!("  {} ", words.say_with("which", "last", last)));
        let line = keyboard.line()?;
        if line.is_empty() {
            return Ok(None);
        }
        let number = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(option) = number.and_then(|number| options.get(number)) {
            return Ok(Some(option));
        }
    }
    Ok(None)
}

/// How long the end after a signal waits for what is being printed.
const LAST_PRINT: Duration = Duration::from_millis(200);

/// How often a question is repeated that gets no answer.
const MAX_QUESTIONS: usize = 5;
