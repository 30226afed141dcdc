//! Changes the model, the mode and the thought level of a session, and notifies the client.
//!
//! ACP represents the mode in two ways: as a session mode and as a session option. If the client's
//! request changes the session mode, the client is notified only about the option, and vice versa.
//! For all other changes, the client is notified about both.

mod selection;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use acp_connection::{ClientSession, OpenRequest};
use acp_lifecycle::SessionHandle;
use acp_types::wire::v1;
use acp_types::{ConfigOption, SessionStatePart};
use agent_client_protocol::Result;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse,
};
use callboard_text::head;

pub(crate) use selection::{
    ActiveOptions, OptionChange, OptionSelection, THOUGHT_LEVELS, parse_thought_level,
    thought_level_value,
};

use callboard_models::Effort;

use crate::lock::lock;
use crate::permission_mode::PermissionMode;
use crate::{errors, limits};

/// The options of an open session, and the values of the options that the client received last.
pub(crate) struct SessionOptions {
    handle: SessionHandle,
    commands: CommandMenuFn,
    folders: Vec<PathBuf>,
    /// Records the chosen options. Called after each change, because the process may be killed
    /// before the next turn.
    record: Box<dyn Fn(&ActiveOptions) + Send + Sync>,
    state: Mutex<OptionsState>,
}

struct OptionsState {
    selection: OptionSelection,
    advertised: AdvertisedOptions,
    /// Number of requested changes of the model, and the number of the latest request that was
    /// applied.
    model_requests: u64,
    last_model_request: u64,
}

/// Returns the slash commands that are available with the given options.
type CommandMenuFn = Box<dyn Fn(&ActiveOptions) -> SessionStatePart + Send + Sync>;

/// The options and commands that were last sent to the client.
#[derive(Debug, PartialEq)]
struct AdvertisedOptions {
    mode: Option<PermissionMode>,
    options: Vec<ConfigOption>,
    commands: SessionStatePart,
}

/// The request or command that caused a change. The answer to a request is sent after all earlier
/// updates. Opening a model may hang, so a request is answered even if the session ends before the
/// model is open.
pub(crate) enum ChangeOrigin {
    Command,
    SetMode(OpenRequest<SetSessionModeResponse>),
    SetOption(OpenRequest<SetSessionConfigOptionResponse>),
}

impl SessionOptions {
    /// Records the options that the answer to `session/new` contained. The slash commands are sent
    /// later: see [`send_commands`](Self::send_commands).
    pub(crate) fn new(
        selection: OptionSelection,
        handle: SessionHandle,
        commands: impl Fn(&ActiveOptions) -> SessionStatePart + Send + Sync + 'static,
        folders: Vec<PathBuf>,
        record: impl Fn(&ActiveOptions) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let advertised = AdvertisedOptions::new(&selection, &commands);
        let state = Mutex::new(OptionsState {
            selection,
            advertised,
            model_requests: 0,
            last_model_request: 0,
        });
        Arc::new(Self {
            handle,
            commands: Box::new(commands),
            folders,
            record: Box::new(record),
            state,
        })
    }

    /// Sends the slash commands to the client. The client must already know the session.
    pub(crate) fn send_commands(&self) {
        let commands = lock(&self.state).advertised.commands.clone();
        self.handle.send_state(commands);
    }

    /// Returns the options for the next request to a model.
    pub(crate) fn active_options(&self) -> ActiveOptions {
        lock(&self.state).selection.active_options()
    }

    /// Calls `look` with the selection, which is locked during the call.
    pub(crate) fn inspect_selection<T>(&self, look: impl FnOnce(&OptionSelection) -> T) -> T {
        look(&lock(&self.state).selection)
    }

    /// Handles the request `session/set_mode`.
    pub(crate) fn handle_set_mode(
        &self,
        request: &SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
        client: &ClientSession,
    ) -> Result<()> {
        match self.inspect_selection(|selection| selection.parse_mode(&request.mode_id.0)) {
            Ok(mode) => self.set_mode(mode, ChangeOrigin::SetMode(client.open_request(responder))),
            Err(what) => return responder.respond_with_error(errors::invalid_params_error(what)),
        }
        Ok(())
    }

    /// Handles the request `session/set_config_option`. A request for another model is answered
    /// after the model has been opened, which may take a while.
    pub(crate) fn handle_set_config_option(
        self: &Arc<Self>,
        request: &SetSessionConfigOptionRequest,
        responder: Responder<SetSessionConfigOptionResponse>,
        client: &ClientSession,
    ) -> Result<()> {
        let value =
            request.value.as_value_id().ok_or("The value of an option is one of those listed");
        let change = value.and_then(|value| {
            self.inspect_selection(|selection| {
                selection.parse_change(&request.config_id.0, &value.0)
            })
        });
        let change = match change {
            Ok(change) => change,
            Err(what) => return responder.respond_with_error(errors::invalid_params_error(what)),
        };
        let by = ChangeOrigin::SetOption(client.open_request(responder));
        match change {
            OptionChange::None => self.advertise_changes_and_answer(&mut lock(&self.state), by),
            OptionChange::Mode(mode) => self.set_mode(mode, by),
            OptionChange::Effort(effort) => self.set_effort(effort, by),
            OptionChange::Model(name) => drop(tokio::spawn(self.open_and_set_model(name, by))),
        }
        Ok(())
    }

    /// Sets the mode, which applies to every call that has not been permitted yet.
    pub(crate) fn set_mode(&self, mode: PermissionMode, by: ChangeOrigin) {
        let mut state = lock(&self.state);
        state.selection.set_mode(mode);
        let policy = mode.policy(&self.folders);
        self.handle.update(|session, _| session.replace_policy(policy));
        self.advertise_changes_and_answer(&mut state, by);
    }

    /// Sets the thought level of the next and all later requests to a model.
    pub(crate) fn set_effort(&self, effort: Option<Effort>, by: ChangeOrigin) {
        let mut state = lock(&self.state);
        state.selection.set_effort(effort);
        self.advertise_changes_and_answer(&mut state, by);
    }

    /// Opens a model, which receives the next and all later requests. If several changes are in
    /// progress, the change that was requested last takes effect.
    ///
    /// # Errors
    /// Returns the reason why the model cannot be opened. The client's request is answered with an
    /// error that contains the same reason.
    pub(crate) fn open_and_set_model(
        self: &Arc<Self>,
        name: String,
        by: ChangeOrigin,
    ) -> impl Future<Output = std::result::Result<(), String>> + Send + use<> {
        let (options, request, catalogue) = {
            let mut state = lock(&self.state);
            state.model_requests += 1;
            (self.clone(), state.model_requests, state.selection.catalogue().clone())
        };
        async move {
            // Opening a model may read files or wait for a keyring, so it runs on a blocking
            // thread.
            let opened = tokio::task::spawn_blocking(move || catalogue.open_model(&name)).await;
            let model = match opened {
                Ok(Ok(model)) => model,
                Ok(Err(error)) => return by.answer_with_error(options.redact(&error.to_string())),
                Err(_) => return by.answer_with_error("the model could not be opened".to_owned()),
            };
            let mut state = lock(&options.state);
            if request > state.last_model_request {
                state.last_model_request = request;
                state.selection.set_model(model);
            }
            options.advertise_changes_and_answer(&mut state, by);
            Ok(())
        }
    }

    /// Notifies the client about changes that no request has caused, i.e. other available models or
    /// other capabilities of the model.
    pub(crate) fn advertise_unrequested_changes(&self) {
        self.advertise_changes_and_answer(&mut lock(&self.state), ChangeOrigin::Command);
    }

    /// Discovers further models in the background, and then sends them to the client.
    pub(crate) fn discover_models(self: &Arc<Self>) {
        let catalogue = self.inspect_selection(|selection| selection.catalogue().clone());
        let options = Arc::downgrade(self);
        drop(tokio::spawn(async move {
            catalogue.discover_models().await;
            if let Some(options) = options.upgrade() {
                options.advertise_unrequested_changes();
            }
        }));
    }

    /// Sends the changed options to the client, and then answers the request that changed them.
    /// Updates that were queued earlier are sent first.
    fn advertise_changes_and_answer(&self, state: &mut OptionsState, by: ChangeOrigin) {
        let now = AdvertisedOptions::new(&state.selection, &self.commands);
        if let Some(mode) = now.mode
            && state.advertised.mode != now.mode
            && !matches!(by, ChangeOrigin::SetMode(_))
        {
            self.handle.send_state(SessionStatePart::Mode(mode.id().to_owned()));
        }
        if state.advertised.options != now.options && !matches!(by, ChangeOrigin::SetOption(_)) {
            self.handle.send_state(SessionStatePart::Options(now.options.clone()));
        }
        if state.advertised.commands != now.commands {
            self.handle.send_state(now.commands.clone());
        }
        state.advertised = now;
        (self.record)(&state.selection.active_options());
        match by {
            ChangeOrigin::Command => {}
            ChangeOrigin::SetMode(request) => request.respond(Ok(SetSessionModeResponse::new())),
            ChangeOrigin::SetOption(request) => {
                let options = v1::encode_config_options(&state.advertised.options);
                request.respond(Ok(SetSessionConfigOptionResponse::new(options)));
            }
        }
    }

    fn redact(&self, text: &str) -> String {
        self.handle.update(|session, _| session.secrets().redact(text).into_owned())
    }
}

impl AdvertisedOptions {
    fn new(
        selection: &OptionSelection,
        commands: &dyn Fn(&ActiveOptions) -> SessionStatePart,
    ) -> Self {
        let chosen = selection.active_options();
        let commands = commands(&chosen);
        Self { mode: chosen.mode, options: selection.config_options(&chosen), commands }
    }
}

impl ChangeOrigin {
    /// Answers the request with an error that explains why the model cannot be opened.
    fn answer_with_error(self, what: String) -> std::result::Result<(), String> {
        let error = errors::invalid_params_error(head(&what, limits::MAX_MODEL_OPEN_ERROR_BYTES));
        match self {
            Self::Command => {}
            Self::SetMode(request) => request.respond(Err(error)),
            Self::SetOption(request) => request.respond(Err(error)),
        }
        Err(what)
    }
}
