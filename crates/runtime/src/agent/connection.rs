//! The state of one connection, and its handlers, which open, prompt and close sessions.
//!
//! Handlers never wait for the client: slow work runs in the session's own task.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use acp_connection::ClientSession;
use acp_lifecycle::rules::RuleStoreError;
use acp_store::{NewSession, SessionCwdPaths};
use acp_tools::sandbox::{CommandIsolation, remove_placeholders};
use acp_tools::{Context, Workspace};
use acp_types::TraceContext;
use acp_types::wire::v1;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentAuthCapabilities, AgentCapabilities, AuthenticateRequest, AuthenticateResponse,
    ClientCapabilities, CloseSessionRequest, CloseSessionResponse, InitializeRequest,
    InitializeResponse, LogoutCapabilities, LogoutResponse, McpCapabilities, McpServer, Meta,
    NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest,
    SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionCloseCapabilities,
    SessionDeleteCapabilities, SessionForkCapabilities, SessionId, SessionListCapabilities,
    SessionResumeCapabilities, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Result};
use callboard_models::ModelCapabilities;
use callboard_text::unquote_path;
use futures::FutureExt as _;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::command_sandbox::ShownSandbox;
use crate::errors;
use crate::limits;
use crate::lock::lock;
use crate::offered_tools::{OfferedTools, ServerStartSettings, server_configs};
use crate::options::OptionSelection;
use crate::permission::{PermissionSetup, StoredRules};
use crate::permission_mode::PolicySource;
use crate::rewind::REWIND_METHOD;
use crate::session::{Session, SessionSetup};
use crate::spans;
use crate::stored_sessions::{
    SessionRecording, StoredKnownFiles, StoredPermissions, new_session_id,
};
use crate::turn::History;

use super::{CodingAgent, SharedToolsAndEnv};

/// The state of one connection: the client's capabilities and the open sessions.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) agent: CodingAgent,
    client: Mutex<ClientCapabilities>,
    pub(super) sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Limits how many sessions are opened at the same time, because opening a session may hang and
    /// occupy a thread. Each session that is being opened takes one permit.
    opening: Arc<Semaphore>,
}

/// The tools, rules and folders of a session, which are read before the session is opened.
pub(super) struct PreparedSession {
    pub(super) context: Context,
    tools: SharedToolsAndEnv,
    /// The MCP servers that the client names.
    mcp_servers: Vec<McpServer>,
    stored_rules: Option<StoredRules>,
    pub(super) folder: SessionCwdPaths,
}

/// The initial state of a session.
pub(super) struct InitialSessionState {
    pub(super) id: SessionId,
    pub(super) selection: OptionSelection,
    pub(super) history: History,
    pub(super) recording: Option<Arc<SessionRecording>>,
    /// The permission decisions that were made in an earlier process.
    pub(super) permissions: Result<Option<StoredPermissions>, RuleStoreError>,
    /// Number of turns that the session had in earlier processes.
    pub(super) turns: u64,
    /// Number of prompts that the session had in earlier processes.
    pub(super) prompts: u32,
    /// The files that the model of a stored session knows.
    pub(super) known_files: StoredKnownFiles,
}

/// Returns an error if the maximum number of open sessions is reached.
pub(super) fn check_session_limit(sessions: &HashMap<SessionId, Arc<Session>>) -> Result<()> {
    if sessions.len() < limits::MAX_SESSIONS {
        return Ok(());
    }
    let what = format!("This agent has {} sessions open; close one first", limits::MAX_SESSIONS);
    Err(errors::retry_later_error(&what))
}

impl Connection {
    pub(super) fn new(agent: CodingAgent) -> Self {
        let (client, sessions) = Default::default();
        let opening = Arc::new(Semaphore::new(limits::MAX_SESSIONS));
        Self { agent, client, sessions, opening }
    }

    pub(super) fn initialize(&self, request: &InitializeRequest) -> InitializeResponse {
        let authenticator = self.agent.authenticator.as_ref();
        let methods = authenticator.map(|it| it.methods(&request.client_capabilities));
        lock(&self.client).clone_from(&request.client_capabilities);
        let mut sessions = SessionCapabilities::new()
            .close(SessionCloseCapabilities::new())
            .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
        if self.agent.stored.is_some() {
            sessions = sessions
                .list(SessionListCapabilities::new())
                .fork(SessionForkCapabilities::new())
                .resume(SessionResumeCapabilities::new())
                .delete(SessionDeleteCapabilities::new());
        }
        let CodingAgent { model, catalogue, .. } = &self.agent;
        let first = catalogue.initial_model().map(|model| model.capabilities());
        let models =
            [model.capabilities(), first.unwrap_or_default(), catalogue.combined_capabilities()];
        let takes = |medium: fn(&ModelCapabilities) -> bool| models.iter().any(medium);
        let auth = AgentAuthCapabilities::new();
        let rewind = json!({ "rewind": REWIND_METHOD });
        let meta = Meta::from_iter([(self.agent.meta_key.to_string(), rewind)]);
        let capabilities = AgentCapabilities::new()
            .meta(self.agent.stored.as_ref().map(|_| meta))
            .load_session(self.agent.stored.is_some())
            .prompt_capabilities(
                PromptCapabilities::new()
                    .embedded_context(true)
                    .image(takes(|traits| traits.images))
                    .audio(takes(|traits| traits.audio)),
            )
            .mcp_capabilities(McpCapabilities::new().http(true))
            .session_capabilities(sessions)
            .auth(match authenticator {
                Some(_) => auth.logout(LogoutCapabilities::new()),
                None => auth,
            });
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(self.agent.info.clone())
            .auth_methods(methods.unwrap_or_default())
    }

    /// Logs in with one of the offered methods.
    pub(super) async fn authenticate(
        self: Arc<Self>,
        request: AuthenticateRequest,
        responder: Responder<AuthenticateResponse>,
    ) {
        let answer = match &self.agent.authenticator {
            Some(authenticator) => authenticator.authenticate(&request.method_id.0).await,
            None => Ok(false),
        };
        let answer = answer.and_then(|is_known| match is_known {
            true => Ok(()),
            false => Err(errors::invalid_params_error(
                "There is no such authentication method; `initialize` lists them",
            )),
        });
        // The connection may already be closed.
        drop(responder.respond_with_result(answer.map(|()| AuthenticateResponse::new())));
    }

    /// Removes every login.
    pub(super) async fn logout(self: Arc<Self>, responder: Responder<LogoutResponse>) {
        let removed = match &self.agent.authenticator {
            Some(authenticator) => authenticator.logout().await,
            None => Ok(()),
        };
        let answer =
            removed.map(|()| LogoutResponse::new()).map_err(|why| errors::internal_error(&why));
        // The connection may already be closed.
        drop(responder.respond_with_result(answer));
    }

    /// Rereads the stored logins, for at most [`limits::LOGIN_REFRESH_TIMEOUT`].
    async fn reread_logins_with_timeout(&self) {
        let look = async {
            self.agent.catalogue.reread_external_state().await;
            if let Some(authenticator) = &self.agent.authenticator {
                authenticator.reread_logins().await;
            }
        };
        drop(tokio::time::timeout(limits::LOGIN_REFRESH_TIMEOUT, look).await);
    }

    /// Opens a session in a separate task, because the session's and the user's folders may be on a
    /// network. Returns when the session is open. If opening takes longer than
    /// [`limits::SESSION_OPEN_WAIT`], the method returns earlier, so that other requests are
    /// served.
    pub(super) async fn spawn_new_session(
        self: Arc<Self>,
        request: NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        client: ConnectionTo<Client>,
    ) -> Result<()> {
        // Acquire the permit before the next message is handled. At the end of the input, the
        // connection waits until all permits are released.
        let Some(opening) = self.try_acquire_opening_permit() else {
            return responder.respond_with_error(errors::too_many_opening_error());
        };
        let is_alone = self.opening.available_permits() + 1 == limits::MAX_SESSIONS;
        let opened = self.new_session(request, responder, client);
        let opened = tokio::spawn(opened.map(|()| drop(opening)));
        // Sessions open in the order of their requests, unless a disk hangs.
        if is_alone {
            drop(tokio::time::timeout(limits::SESSION_OPEN_WAIT, opened).await);
        }
        Ok(())
    }

    /// Marks that a session is being opened, until the returned permit is dropped; `None` if too
    /// many sessions are being opened.
    pub(super) fn try_acquire_opening_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.opening.clone().try_acquire_owned().ok()
    }

    async fn new_session(
        self: Arc<Self>,
        request: NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        client: ConnectionTo<Client>,
    ) {
        let NewSessionRequest { cwd, additional_directories, mcp_servers, .. } = request;
        let id = new_session_id();
        let prepared = self.prepare_session(&id, cwd, additional_directories, mcp_servers).await;
        // The connection may already be closed.
        drop(match prepared {
            Ok(prepared) => self.open_session(id, prepared, responder, client),
            Err(error) => responder.respond_with_error(error),
        });
    }

    /// Reads everything that a session needs before it can be opened.
    pub(super) async fn prepare_session(
        self: &Arc<Self>,
        id: &SessionId,
        cwd: PathBuf,
        additional: Vec<PathBuf>,
        mcp_servers: Vec<McpServer>,
    ) -> Result<PreparedSession> {
        if self.agent.sandbox_remedy.is_some() {
            CommandIsolation::begin_probe(self.agent.isolation_memory());
        }
        self.reread_logins_with_timeout().await;
        let (connection, id) = (self.clone(), id.clone());
        let look = move || connection.prepare_session_blocking(&id, cwd, additional);
        let looked = tokio::task::spawn_blocking(look).await;
        let looked = looked
            .unwrap_or_else(|_panic| Err(errors::internal_error("a session could not be opened")));
        looked.map(|prepared| PreparedSession { mcp_servers, ..prepared })
    }

    fn open_session(
        &self,
        id: SessionId,
        prepared: PreparedSession,
        responder: Responder<NewSessionResponse>,
        client: ConnectionTo<Client>,
    ) -> Result<()> {
        // The lock is held until the session is inserted, because the client may use the session as
        // soon as it receives the answer.
        let mut sessions = lock(&self.sessions);
        if let Err(error) = check_session_limit(&sessions) {
            return responder.respond_with_error(error);
        }
        let selection = self.initial_selection(&prepared.context.isolation);
        let answer = NewSessionResponse::new(id.clone())
            .meta(selection.shown_sandbox().to_meta(&self.agent.meta_key))
            .modes(selection.session_modes().as_ref().map(v1::encode_modes))
            .config_options(v1::encode_config_options(
                &selection.config_options(&selection.active_options()),
            ));
        responder.respond(answer)?;
        let recording = self.agent.stored.clone().map(|stored| {
            let new = NewSession::new(id.clone(), prepared.folder.clone());
            SessionRecording::begin_new_session(stored, new, self.agent.secrets.clone())
        });
        let start = InitialSessionState {
            id: id.clone(),
            selection,
            history: History::default(),
            recording,
            permissions: Ok(None),
            turns: 0,
            prompts: 0,
            known_files: StoredKnownFiles::default(),
        };
        let session = self.start_session(prepared, start, client);
        session.options().send_commands();
        sessions.insert(id, session);
        Ok(())
    }

    /// Returns the initial options of a session.
    pub(super) fn initial_selection(&self, isolation: &CommandIsolation) -> OptionSelection {
        let CodingAgent { model, catalogue, policy_source, .. } = self.agent.clone();
        let model = catalogue.initial_model().unwrap_or(model);
        OptionSelection::new(catalogue, model, policy_source.mode(), ShownSandbox::new(isolation))
    }

    /// Starts the tasks of a session.
    pub(super) fn start_session(
        &self,
        prepared: PreparedSession,
        start: InitialSessionState,
        client: ConnectionTo<Client>,
    ) -> Arc<Session> {
        let PreparedSession { context, tools, mcp_servers, stored_rules, .. } = prepared;
        let InitialSessionState {
            id,
            selection,
            history,
            recording,
            permissions,
            turns,
            prompts,
            known_files,
        } = start;
        if recording.is_some() {
            self.prune_sessions_in_background();
        }
        // A disk may be slow, so this work runs in the background, and the first call waits for it.
        let workspace = context.workspace.clone();
        drop(tokio::task::spawn_blocking(move || {
            workspace.recover_unfinished_writes();
            remove_placeholders(&workspace);
        }));
        if let (Some(_), Some(memory)) = (&self.agent.sandbox_remedy, self.agent.isolation_memory())
        {
            CommandIsolation::begin_check(memory, limits::SANDBOX_CHECK_DELAY);
        }
        let CodingAgent { counters, policy_source, .. } = self.agent.clone();
        let policy_source = match selection.active_options().mode {
            Some(mode) => PolicySource::Mode(mode),
            None => policy_source,
        };
        let capabilities = lock(&self.client).clone();
        let forms = capabilities.elicitation.as_ref().and_then(|it| it.form.as_ref());
        let permission = PermissionSetup {
            policy_source,
            stored: stored_rules,
            restored: permissions,
            offered_scopes: self.agent.offered_scopes,
            asks_rejection_reason: forms.is_some(),
        };
        let meta_key = &self.agent.meta_key;
        let connect = |core| {
            let client = ClientSession::builder(id.clone(), core, &capabilities, client);
            let client = client.with_transport_counters(counters).with_meta_key(&**meta_key);
            client.with_earlier_turn_count(turns)
        };
        let roots: Vec<_> = context.workspace.roots().map(Path::to_owned).collect();
        let (mut servers, notices) = server_configs(mcp_servers, &self.agent.secrets);
        servers.extend(self.agent.mcp_servers.iter().cloned());
        let info = &self.agent.info;
        let setup = SessionSetup {
            selection,
            tools: OfferedTools::new(tools.registry),
            servers: ServerStartSettings {
                configs: servers,
                agent: (info.name.clone(), info.version.clone()),
                first_prompt_wait: self.agent.server_wait,
            },
            context,
            secrets: self.agent.secrets.clone(),
            permission,
            commands: self.agent.commands.clone(),
            config: self.agent.session_config,
            instructions: self.agent.instructions.clone(),
            history,
            recording,
            prompts,
            known_files: known_files.into_files_if_same_folders(&roots),
        };
        let count = setup.secrets.current().over_limit_count();
        if count > 0 {
            tracing::warn!(count, "too many secrets; not all of them are hidden");
        }
        let session = spans::session_span(&id).in_scope(|| Session::open(setup, connect));
        session.options().discover_models();
        session.add_notices(notices);
        session
    }

    /// Opens the files that a new session needs. This method blocks.
    fn prepare_session_blocking(
        &self,
        id: &SessionId,
        cwd: PathBuf,
        additional: Vec<PathBuf>,
    ) -> Result<PreparedSession> {
        let additional = additional.into_iter().map(unquote_path_unless_exists).collect();
        let cwd = unquote_path_unless_exists(cwd);
        let mut workspace = Workspace::new(cwd.clone(), additional)
            .map_err(|error| errors::folder_unusable_error(&error))?;
        if !workspace.has_kernel_confinement() {
            tracing::warn!("a program that swaps directories for links can redirect tools outside");
        }
        if let Some(state) = &self.agent.state {
            workspace = workspace.with_state_folder(state).with_session_id(&id.0);
        }
        for path in &self.agent.guarded_paths {
            workspace = workspace.with_guarded_path(path);
        }
        let roots: Vec<_> = workspace.roots().map(Path::to_owned).collect();
        let stored_rules =
            self.agent.rules.clone().and_then(|rules| StoredRules::load_for_project(rules, &roots));
        let tools = self.agent.shared_tools_and_env();
        let canonical = cwd.canonicalize().unwrap_or_else(|_gone| workspace.cwd().to_owned());
        let folder = SessionCwdPaths { cwd, canonical };
        let memory = self.agent.isolation_memory();
        let create = |remedy: &str| CommandIsolation::create(remedy, memory.as_deref());
        let isolation = self.agent.sandbox_remedy.as_deref().map(create);
        let context = Context::new(Arc::new(workspace))
            .with_env(tools.env.clone())
            .with_command_isolation(isolation.unwrap_or_default())
            .with_command_preview_setting(self.agent.command_preview)
            .with_command_output(self.agent.command_output);
        let mcp_servers = Vec::new();
        Ok(PreparedSession { context, tools, mcp_servers, stored_rules, folder })
    }

    pub(super) fn handle_prompt(
        &self,
        request: PromptRequest,
        responder: Responder<agent_client_protocol::v1::schema::PromptResponse>,
    ) -> Result<()> {
        match self.find_session(&request.session_id) {
            Some(session) => {
                let trace = TraceContext::from_meta(request.meta.as_ref());
                session.queue_prompt(request.prompt, trace, responder)
            }
            None => responder.respond_with_error(errors::unknown_session_error()),
        }
    }

    pub(super) fn handle_set_mode(
        &self,
        request: &SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
    ) -> Result<()> {
        match self.find_session(&request.session_id) {
            Some(session) => session.handle_set_mode(request, responder),
            None => responder.respond_with_error(errors::unknown_session_error()),
        }
    }

    pub(super) fn handle_set_option(
        &self,
        request: &SetSessionConfigOptionRequest,
        responder: Responder<SetSessionConfigOptionResponse>,
    ) -> Result<()> {
        match self.find_session(&request.session_id) {
            Some(session) => session.handle_set_option(request, responder),
            None => responder.respond_with_error(errors::unknown_session_error()),
        }
    }

    pub(super) fn close_session(
        &self,
        request: &CloseSessionRequest,
        responder: Responder<CloseSessionResponse>,
    ) -> Result<()> {
        let Some(session) = lock(&self.sessions).remove(&request.session_id) else {
            return responder.respond_with_error(errors::unknown_session_error());
        };
        drop(tokio::spawn(async move {
            session.close(limits::CLOSE_DEADLINE).await;
            // The connection may already be closed.
            drop(responder.respond(CloseSessionResponse::new()));
        }));
        Ok(())
    }

    /// Closes every session after the client has disconnected.
    pub(super) async fn close_all_sessions(&self) {
        let all = self.opening.acquire_many(limits::MAX_SESSIONS as u32);
        let opening = tokio::time::timeout(limits::CLOSE_DEADLINE, all);
        // Sessions that are still being opened are closed last.
        drop(futures::future::join(opening, self.close_open_sessions()).await);
        self.close_open_sessions().await;
        if let Some(stored) = &self.agent.stored
            && tokio::time::timeout(limits::CLOSE_DEADLINE, stored.sync()).await.is_err()
        {
            tracing::warn!("the stored sessions are still being synced to the disk");
        }
    }

    async fn close_open_sessions(&self) {
        let sessions: Vec<_> = lock(&self.sessions).drain().map(|(_, session)| session).collect();
        let closing = sessions.iter().map(|session| session.close(limits::CLOSE_DEADLINE));
        futures::future::join_all(closing).await;
    }

    /// Inserts a restored session, unless too many sessions were opened meanwhile.
    pub(super) fn insert_restored(&self, id: SessionId, session: Arc<Session>) -> Result<()> {
        let mut sessions = lock(&self.sessions);
        check_session_limit(&sessions)?;
        sessions.insert(id, session);
        Ok(())
    }

    /// Removes a session from the open sessions and returns it.
    pub(super) fn take_session(&self, id: &SessionId) -> Option<Arc<Session>> {
        lock(&self.sessions).remove(id)
    }

    pub(super) fn find_session(&self, id: &SessionId) -> Option<Arc<Session>> {
        lock(&self.sessions).get(id).cloned()
    }
}

/// Returns the path that a client means. Prefers an existing folder of that name. Otherwise decodes
/// the escapes with which [`path_text`](callboard_text::path_text) writes names that JSON cannot
/// represent.
pub(super) fn unquote_path_unless_exists(path: PathBuf) -> PathBuf {
    match path.to_str() {
        Some(text) if !path.exists() => unquote_path(text).into_owned(),
        _ => path,
    }
}
