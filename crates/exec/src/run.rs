//! A client for one prompt: it prints the events of the turn and asks the user for permissions.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use acp_cards::CardRenderer;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, CloseSessionRequest, ContentBlock, Implementation, InitializeRequest,
    NewSessionRequest, PermissionOption, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    ResumeSessionRequest, SelectedPermissionOutcome, SessionId, SessionNotification,
    SetSessionConfigOptionRequest, SetSessionModeRequest, StopReason,
};
use agent_client_protocol::{
    Client, ConnectTo, Error, ErrorCode, Result, on_receive_notification, on_receive_request,
};
use callboard_text::path_text;
use serde_json::{Map, Value};

use crate::keyboard::Keyboard;
use crate::limits::{CLOSE_TIMEOUT, FINAL_PRINT_TIMEOUT, MAX_QUESTION_ATTEMPTS};
use crate::output::OutputStream;
use crate::translations::{ENGLISH, MessageTranslations};

/// The parameters of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExecJob<A> {
    /// The agent: a component of the SDK, in this process or in another process.
    pub agent: A,
    /// The prompt.
    pub prompt: Vec<ContentBlock>,
    /// The folder of the session.
    pub cwd: PathBuf,
    /// The session to continue. `None` for a new session.
    pub resumed: Option<ResumedSession>,
    /// The way in which permission requests are answered.
    pub approval: Approval,
    /// Whether a failed call makes the run fail. Otherwise the model decides what a failure means.
    pub fails_with_a_call: bool,
    /// Locale of the messages around the cards, e.g. `de_DE.UTF-8`.
    pub locale: String,
}

impl<A> ExecJob<A> {
    /// Creates a run in a new session. The user is asked for permissions, a failed call does not
    /// make the run fail, and the messages are in English.
    #[must_use]
    pub fn new(agent: A, prompt: Vec<ContentBlock>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            agent,
            prompt,
            cwd: cwd.into(),
            resumed: None,
            approval: Approval::Ask,
            fails_with_a_call: false,
            locale: "en".to_owned(),
        }
    }
}

/// A stored session, and optional choices that replace the stored choices.
#[derive(Debug)]
#[non_exhaustive]
pub struct ResumedSession {
    /// Id of the session.
    pub id: SessionId,
    /// A line that is printed before all other output.
    pub description: String,
    /// Value of the session's option `model`.
    pub model: Option<String>,
    /// Id of the session's mode.
    pub mode: Option<String>,
}

impl ResumedSession {
    /// Creates a session that continues with its stored choices.
    #[must_use]
    pub fn new(id: impl Into<SessionId>, description: impl Into<String>) -> Self {
        Self { id: id.into(), description: description.into(), model: None, mode: None }
    }
}

/// The way in which permission requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// Asks the user at the terminal. If there is no terminal, every request is rejected.
    Ask,
    /// Allows every request.
    All,
    /// Rejects every request.
    None,
}

/// The outcome of a run.
enum ExecOutcome {
    Turn(Result<StopReason>),
    Signal(u8),
}

/// Runs a prompt and prints its events, until `interrupted` resolves to the number of a signal.
///
/// The exit code is 0 after a complete turn, 1 after an error, 3 if a call was rejected because no
/// user could be asked, and 4 if the turn ended early. After a signal, it is 128 plus the number of
/// the signal.
pub async fn run_prompt(
    job: ExecJob<impl ConnectTo<Client> + 'static>,
    interrupted: impl Future<Output = u8>,
) -> ExitCode {
    let ExecJob { agent, prompt, cwd, resumed, approval, fails_with_a_call, locale } = job;
    let mut ui = OutputStream::stdout();
    let words = Arc::new(MessageTranslations::in_locale(&locale));
    let cards = create_card_renderer(&ui, &cwd, &locale);
    if let Some(resumed) = &resumed {
        ui.print_line(&resumed.description);
    }
    let printed = Mutex::new(ScreenState { ui, cards, was_refused: false, has_ended: false });
    let screen = Arc::new(Screen { printed, words });
    let (shown, asked) = (screen.clone(), screen.clone());
    // Requests are handled one at a time: the next request is shown only after the answer to the
    // previous one. An answer can therefore not apply to another request.
    let asking = Arc::new(Mutex::new(()));
    let turn = Client
        .v1()
        .name("callboard-exec")
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                shown.print_rendered(|cards| cards.render_update(&notification.update, 0));
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
                        asked.answer_permission(&request, approval)
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
            let mut opened = None;
            let outcome = tokio::select! {
                signal = interrupted => ExecOutcome::Signal(signal),
                turn = open_session_and_prompt(&client, prompt, cwd, resumed, &mut opened) => {
                    ExecOutcome::Turn(turn)
                }
            };
            let code = screen.print_ending(outcome, fails_with_a_call);
            if let Some(session) = opened {
                // Closing the session ends its calls. An agent that stores sessions can then finish
                // its writes.
                let closing = client.send_request(CloseSessionRequest::new(session)).block_task();
                drop(tokio::time::timeout(CLOSE_TIMEOUT, closing).await);
            }
            Ok(code)
        });
    turn.await.unwrap_or_else(|error| print_failure(&error.message))
}

/// Creates the renderer of a session for an output.
pub fn create_card_renderer(ui: &OutputStream, cwd: &Path, locale: &str) -> CardRenderer {
    let words = Arc::new(MessageTranslations::in_locale(locale));
    let cards = CardRenderer::new(cwd, ui.width()).with_colours().with_catalogue(words);
    if ui.is_terminal() { cards.with_markdown_and_line_redraw() } else { cards }
}

/// Opens a session, and runs the prompt in the session. Sets `opened` to the session if the agent
/// can close sessions.
async fn open_session_and_prompt(
    client: &ConnectionTo<agent_client_protocol::Agent>,
    prompt: Vec<ContentBlock>,
    cwd: PathBuf,
    resumed: Option<ResumedSession>,
    opened: &mut Option<SessionId>,
) -> Result<StopReason> {
    let info = Implementation::new("callboard-exec", env!("CARGO_PKG_VERSION"));
    // An agent shortens the output that it sends as text. So `exec` receives the events of
    // terminals, even if it prints plain text.
    let meta = Map::from_iter([("terminal_output".to_owned(), Value::Bool(true))]);
    let initialize = InitializeRequest::new(ProtocolVersion::V1)
        .client_info(info)
        .client_capabilities(ClientCapabilities::new().meta(meta));
    let agent = client.send_request(initialize).block_task().await?;
    let cwd = path_text(&cwd);
    let session = match resumed {
        Some(resumed) => resume_session(client, resumed, &cwd).await?,
        None => {
            let new = NewSessionRequest::new(cwd.as_ref());
            client.send_request(new).block_task().await?.session_id
        }
    };
    let can_close = agent.agent_capabilities.session_capabilities.close.is_some();
    *opened = can_close.then(|| session.clone());
    Ok(client.send_request(PromptRequest::new(session, prompt)).block_task().await?.stop_reason)
}

/// Opens a stored session. Replaces its mode and its model, if the user chose another mode or
/// model.
async fn resume_session(
    client: &ConnectionTo<agent_client_protocol::Agent>,
    resumed: ResumedSession,
    cwd: &str,
) -> Result<SessionId> {
    let ResumedSession { id, model, mode, description: _ } = resumed;
    client.send_request(ResumeSessionRequest::new(id.clone(), cwd)).block_task().await?;
    if let Some(mode) = mode {
        let mode = SetSessionModeRequest::new(id.clone(), mode);
        client.send_request(mode).block_task().await?;
    }
    if let Some(model) = model {
        let model = SetSessionConfigOptionRequest::new(id.clone(), "model", model.as_str());
        client.send_request(model).block_task().await?;
    }
    Ok(id)
}

/// The output of the run, in the user's language.
struct Screen {
    printed: Mutex<ScreenState>,
    words: Arc<MessageTranslations>,
}

/// The mutable state of the output.
struct ScreenState {
    ui: OutputStream,
    cards: CardRenderer,
    was_refused: bool,
    /// Whether the ending was printed. Calls that end with the session send their updates after the
    /// ending.
    has_ended: bool,
}

impl Screen {
    fn lock_state(&self) -> MutexGuard<'_, ScreenState> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print_rendered(&self, render: impl FnOnce(&mut CardRenderer) -> String) {
        let ScreenState { ui, cards, has_ended, .. } = &mut *self.lock_state();
        if *has_ended {
            return;
        }
        cards.set_width(ui.width());
        ui.print(&render(cards));
    }

    /// Prints a part of a question. If standard output is not a terminal, the user may not see it,
    /// so the part is also printed on standard error if that is a terminal.
    fn print_question(&self, render: impl FnOnce(&mut CardRenderer) -> String) {
        let mut text = String::new();
        self.print_rendered(|cards| {
            text = render(cards);
            text.clone()
        });
        let mut stderr = OutputStream::stderr();
        if !self.lock_state().ui.is_terminal() && stderr.is_terminal() {
            stderr.print(&text);
        }
    }

    fn print_ending(&self, ending: ExecOutcome, fails_with_a_call: bool) -> ExitCode {
        let mut printed = match ending {
            ExecOutcome::Turn(_) => self.lock_state(),
            ExecOutcome::Signal(signal) => match self.lock_state_within_timeout() {
                Some(printed) => printed,
                None => return ExitCode::from(128 + signal),
            },
        };
        let ScreenState { ui, cards, was_refused, has_ended } = &mut *printed;
        *has_ended = true;
        ui.print(&cards.finish_open_line());
        let background = cards.background_commands().collect::<Vec<_>>();
        if !background.is_empty() {
            ui.print_line(&self.words.message_with_variable(
                "background",
                "commands",
                background.join(", "),
            ));
        }
        match ending {
            ExecOutcome::Signal(signal) => {
                if ui.is_terminal() && signal == SIGINT {
                    // The terminal has shown `^C` at the end of the last line.
                    ui.print_line(&format!("\n{}", self.words.message("interrupted")));
                }
                ExitCode::from(128 + signal)
            }
            ExecOutcome::Turn(Ok(_)) if *was_refused => {
                ui.print_line(&self.words.message("nobody-asked"));
                ExitCode::from(3)
            }
            ExecOutcome::Turn(Ok(StopReason::EndTurn)) => match cards.first_failure() {
                Some(failure) if fails_with_a_call => print_failure(failure),
                _ => ExitCode::SUCCESS,
            },
            ExecOutcome::Turn(Ok(stop)) => {
                ui.print_line(&self.words.message(early_stop_message_key(stop)));
                ExitCode::from(4)
            }
            ExecOutcome::Turn(Err(error)) => print_failure(&error.message),
        }
    }

    /// Waits briefly for the current write to finish. The write may be blocked, because the reader
    /// of the output may not read.
    fn lock_state_within_timeout(&self) -> Option<MutexGuard<'_, ScreenState>> {
        let started = Instant::now();
        loop {
            match self.printed.try_lock() {
                Ok(printed) => return Some(printed),
                Err(TryLockError::Poisoned(printed)) => return Some(printed.into_inner()),
                Err(TryLockError::WouldBlock) if started.elapsed() > FINAL_PRINT_TIMEOUT => {
                    return None;
                }
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Answers a permission request, and asks at the terminal if needed.
    ///
    /// # Errors
    ///
    /// Returns the reason in English if the request was rejected without asking the user.
    fn answer_permission(
        &self,
        request: &RequestPermissionRequest,
        approval: Approval,
    ) -> Result<RequestPermissionOutcome, String> {
        let decided = |key: &str| {
            let line = format!("  ▸ {}\n", self.words.message(key));
            self.print_rendered(|cards| cards.render_request_without_options(request, 0) + &line);
        };
        let chosen = match approval {
            Approval::All => {
                decided("allowed-all");
                request.options.iter().find(|it| it.kind == PermissionOptionKind::AllowOnce)
            }
            Approval::None => {
                decided("rejected-all");
                return Err(ENGLISH.message("sent-rejected-all"));
            }
            Approval::Ask => {
                let keyboard = Keyboard::open_terminal(&self.lock_state().ui);
                let asked = keyboard.and_then(|keyboard| {
                    self.print_question(|cards| cards.render_permission_request(request, 0));
                    self.ask_option(&request.options, keyboard).ok()
                });
                let Some(chosen) = asked else {
                    decided("rejected-unasked");
                    self.lock_state().was_refused = true;
                    return Err(ENGLISH.message("sent-unasked"));
                };
                chosen
            }
        };
        Ok(match chosen.map(|option| SelectedPermissionOutcome::new(option.option_id.clone())) {
            Some(selected) => RequestPermissionOutcome::Selected(selected),
            None => RequestPermissionOutcome::Cancelled,
        })
    }

    /// Asks for the number of an option, or for `y` or `n`, which choose the options for this call
    /// only. Asks several times if the answer is invalid. Returns `None`, which cancels the
    /// request, at the end of input or after too many attempts.
    fn ask_option<'a>(
        &self,
        options: &'a [PermissionOption],
        mut keyboard: Keyboard,
    ) -> io::Result<Option<&'a PermissionOption>> {
        let text = |key| self.words.message_with_variable(key, "last", options.len().to_string());
        for attempt in 1..=MAX_QUESTION_ATTEMPTS {
            self.print_question(|_| format!("  {} ", text("which")));
            let line = keyboard.read_line()?;
            if line.is_empty() {
                return Ok(None);
            }
            if let Some(option) = find_option_for_answer(options, line.trim()) {
                return Ok(Some(option));
            }
            let is_last = attempt == MAX_QUESTION_ATTEMPTS;
            let key = if is_last { "which-unanswered" } else { "which-help" };
            self.print_question(|_| format!("  {}\n", text(key)));
        }
        Ok(None)
    }
}

/// The number of the signal that Ctrl-C sends, in POSIX.
const SIGINT: u8 = 2;

/// Returns the option that an answer means. A word means the first option of its kind, because
/// agents list the preview of a command after the option that runs it.
fn find_option_for_answer<'a>(
    options: &'a [PermissionOption],
    answer: &str,
) -> Option<&'a PermissionOption> {
    let first_of_kind = |kind| options.iter().find(|option| option.kind == kind);
    match answer.to_lowercase().as_str() {
        "y" | "yes" | "j" | "ja" => first_of_kind(PermissionOptionKind::AllowOnce),
        "n" | "no" | "nein" => first_of_kind(PermissionOptionKind::RejectOnce),
        number => options.get(number.parse::<usize>().ok()?.checked_sub(1)?),
    }
}

fn print_failure(why: &str) -> ExitCode {
    OutputStream::stderr().print_line(&format!("callboard: {why}"));
    ExitCode::FAILURE
}

/// Returns the message key for a turn that ended early.
fn early_stop_message_key(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Cancelled => "early-cancelled",
        StopReason::Refusal => "early-refusal",
        StopReason::MaxTokens => "early-tokens",
        StopReason::MaxTurnRequests => "early-requests",
        _ => "early-other",
    }
}
