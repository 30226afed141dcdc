//! The model, the mode and the thought level of a session: who may change them, and who is told.
//!
//! ACP has two views of them, modes and options. A change by one of them is told by the other; a
//! change by anything else, by both. It knows nothing of how a turn uses what is chosen.

mod selection;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use acp_connection::{ClientSession, OpenRequest};
use acp_lifecycle::SessionHandle;
use acp_types::wire::v1;
use acp_types::{ConfigOption, SessionState};
use agent_client_protocol::Result;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse,
};
use callboard_text::head;

pub(crate) use selection::{Change, Chosen, LEVELS, Selection, level, parse_level};

use callboard_models::Effort;

use crate::lock::lock;
use crate::mode::Mode;
use crate::{errors, limits};

/// What is chosen in an open session.
pub(crate) struct Options {
    handle: SessionHandle,
    commands: Commands,
    roots: Vec<PathBuf>,
    state: Mutex<State>,
}

struct State {
    selection: Selection,
    told: Told,
    /// How many models were asked for; and which of these requests was the last to be met.
    asked: u64,
    met: u64,
}

/// Returns the slash commands that there are with what is chosen.
type Commands = Box<dyn Fn(&Chosen) -> SessionState + Send + Sync>;

/// What the client was told last.
#[derive(Debug, PartialEq)]
struct Told {
    mode: Option<Mode>,
    options: Vec<ConfigOption>,
    commands: SessionState,
}

/// Who asked for a change, and so hears of it by the answer: behind what was sent before, also
/// where its session ends first, because opening a model may take for ever.
pub(crate) enum By {
    Command,
    SetMode(OpenRequest<SetSessionModeResponse>),
    SetOption(OpenRequest<SetSessionConfigOptionResponse>),
}

impl Options {
    /// Takes over what the client was told by the answer to `session/new`, and tells it of the
    /// commands.
    pub(crate) fn new(
        selection: Selection,
        handle: SessionHandle,
        commands: impl Fn(&Chosen) -> SessionState + Send + Sync + 'static,
        roots: Vec<PathBuf>,
    ) -> Arc<Self> {
        let told = Told::new(&selection, &commands);
        handle.send_state(told.commands.clone());
        let state = Mutex::new(State { selection, told, asked: 0, met: 0 });
        Arc::new(Self { handle, commands: Box::new(commands), roots, state })
    }

    /// Returns what the next request to a model goes by.
    pub(crate) fn chosen(&self) -> Chosen {
        lock(&self.state).selection.chosen()
    }

    /// Looks at what can be chosen, and is.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Selection) -> T) -> T {
        look(&lock(&self.state).selection)
    }

    /// Does what `session/set_mode` asks for.
    pub(crate) fn on_set_mode(
        &self,
        request: &SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
        client: &ClientSession,
    ) -> Result<()> {
        match self.with(|selection| selection.mode(&request.mode_id.0)) {
            Ok(mode) => self.set_mode(mode, By::SetMode(client.open_request(responder))),
            Err(what) => return responder.respond_with_error(errors::invalid_params(what)),
        }
        Ok(())
    }

    /// Does what `session/set_config_option` asks for. A model may take its time to be there.
    pub(crate) fn on_set_option(
        self: &Arc<Self>,
        request: &SetSessionConfigOptionRequest,
        responder: Responder<SetSessionConfigOptionResponse>,
        client: &ClientSession,
    ) -> Result<()> {
        let value =
            request.value.as_value_id().ok_or("The value of an option is one of those listed");
        let change = value.and_then(|value| {
            self.with(|selection| selection.change(&request.config_id.0, &value.0))
        });
        let change = match change {
            Ok(change) => change,
            Err(what) => return responder.respond_with_error(errors::invalid_params(what)),
        };
        let by = By::SetOption(client.open_request(responder));
        match change {
            Change::Mode(mode) => self.set_mode(mode, by),
            Change::Effort(effort) => self.set_effort(effort, by),
            Change::Model(name) => drop(tokio::spawn(self.set_model(name, by))),
        }
        Ok(())
    }

    /// Sets the mode: it holds for every call that is not permitted yet.
    pub(crate) fn set_mode(&self, mode: Mode, by: By) {
        let mut state = lock(&self.state);
        state.selection.set_mode(mode);
        let policy = mode.policy(&self.roots);
        self.handle.with(|session, _| session.set_policy(policy));
        self.tell(&mut state, by);
    }

    /// Sets how much to think, from the next request on.
    pub(crate) fn set_effort(&self, effort: Option<Effort>, by: By) {
        let mut state = lock(&self.state);
        state.selection.set_effort(effort);
        self.tell(&mut state, by);
    }

    /// Sets the model, from the next request on. Of several that are on their way, the one that
    /// was asked for last is taken.
    ///
    /// # Errors
    /// Why there is no such model; whoever asked by a request is answered that.
    pub(crate) fn set_model(
        self: &Arc<Self>,
        name: String,
        by: By,
    ) -> impl Future<Output = std::result::Result<(), String>> + Send + use<> {
        let (options, request, catalogue) = {
            let mut state = lock(&self.state);
            state.asked += 1;
            (self.clone(), state.asked, state.selection.catalogue().clone())
        };
        async move {
            // It may read files, or wait for a keyring.
            let opened = tokio::task::spawn_blocking(move || catalogue.open(&name)).await;
            let model = match opened {
                Ok(Ok(model)) => model,
                Ok(Err(error)) => return by.fail(options.redacted(&error.to_string())),
                Err(_) => return by.fail("the model could not be opened".to_owned()),
            };
            let mut state = lock(&options.state);
            if request > state.met {
                state.met = request;
                state.selection.set_model(model);
            }
            options.tell(&mut state, by);
            Ok(())
        }
    }

    /// Tells the client what has changed by itself: which models there are, what they can.
    pub(crate) fn refresh(&self) {
        self.tell(&mut lock(&self.state), By::Command);
    }

    /// Looks for further models to choose among, beside everything else, and tells the client.
    pub(crate) fn explore(self: &Arc<Self>) {
        let catalogue = self.with(|selection| selection.catalogue().clone());
        let options = Arc::downgrade(self);
        drop(tokio::spawn(async move {
            catalogue.explore().await;
            if let Some(options) = options.upgrade() {
                options.refresh();
            }
        }));
    }

    /// Sends the client what has changed, and answers the request for it. The changes and the
    /// answer go out in this order, behind what went before.
    fn tell(&self, state: &mut State, by: By) {
        let now = Told::new(&state.selection, &self.commands);
        if let Some(mode) = now.mode
            && state.told.mode != now.mode
            && !matches!(by, By::SetMode(_))
        {
            self.handle.send_state(SessionState::Mode(mode.id().to_owned()));
        }
        if state.told.options != now.options && !matches!(by, By::SetOption(_)) {
            self.handle.send_state(SessionState::Options(now.options.clone()));
        }
        if state.told.commands != now.commands {
            self.handle.send_state(now.commands.clone());
        }
        state.told = now;
        match by {
            By::Command => {}
            By::SetMode(request) => request.answer(Ok(SetSessionModeResponse::new())),
            By::SetOption(request) => {
                let options = v1::config_options(&state.told.options);
                request.answer(Ok(SetSessionConfigOptionResponse::new(options)));
            }
        }
    }

    fn redacted(&self, text: &str) -> String {
        self.handle.with(|session, _| session.secrets().redact(text).into_owned())
    }
}

impl Told {
    fn new(selection: &Selection, commands: &dyn Fn(&Chosen) -> SessionState) -> Self {
        let chosen = selection.chosen();
        let commands = commands(&chosen);
        Self { mode: chosen.mode, options: selection.options(&chosen), commands }
    }
}

impl By {
    /// Answers that what was asked for is not there after all.
    fn fail(self, what: String) -> std::result::Result<(), String> {
        let error = errors::invalid_params(head(&what, limits::MAX_REASON_BYTES));
        match self {
            Self::Command => {}
            Self::SetMode(request) => request.answer(Err(error)),
            Self::SetOption(request) => request.answer(Err(error)),
        }
        Err(what)
    }
}
