//! The agent as one value that can be connected to any transport, and the state that its
//! connections share.
//!
//! Handlers never wait for the client: slow work runs in the session's own task.

mod connection;
mod stored;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use acp_lifecycle::{Policy, RuleStore, SessionConfig, title};
use acp_mcp::McpServerConfig;
use acp_store::{SessionStore, SessionStoreError};
use acp_tools::sandbox::{CommandIsolation, PreviewSetting};
use acp_tools::{CommandOutputStream, Registry, ToolRole, WebSearchSettings};
use acp_transport::{Transport, TransportCounters};
use acp_types::meta::DEFAULT_KEY;
use agent_client_protocol::v1::schema::{
    AuthenticateRequest, CancelNotification, CloseSessionRequest, DeleteSessionRequest,
    ForkSessionRequest, Implementation, InitializeRequest, ListSessionsRequest, LoadSessionRequest,
    LogoutRequest, NewSessionRequest, PromptRequest, ResumeSessionRequest,
    SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use agent_client_protocol::{
    Client, ConnectTo, Result, on_receive_notification, on_receive_request,
};
use callboard_models::Model;

use crate::authenticator::Authenticator;
use crate::commands::{SlashCommand, SlashCommands};
use crate::limits;
use crate::model_catalogue::{BuiltInModels, ModelCatalogue};
use crate::permission::OfferedRuleScopes;
use crate::permission_mode::{PermissionMode, PolicySource, RestoredModeLimit};
use crate::rewind::RewindSessionRequest;
use crate::rule_store::FileRuleStore;
use crate::secrets::LiveSecrets;
use crate::session_archive::SessionRetention;
use crate::stored_sessions::LazySessionStore;

use self::connection::Connection;
use self::stored::RestoreRequest;

/// Name of the file in the state folder that states under which conditions namespaces have worked.
const ISOLATION_MEMORY_FILE: &str = "namespaces";

/// A coding agent for ACP clients: a model, tools, and the environment variables of commands.
///
/// By default, the agent neither reads nor stores user data. To change this, see
/// [`with_state_folder`](Self::with_state_folder) and
/// [`with_authenticator`](Self::with_authenticator).
///
/// ```no_run
/// use callboard_models::direct::DirectModel;
/// use callboard_runtime::{CodingAgent, serve};
/// use std::sync::Arc;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Arc::new(DirectModel::default());
/// let agent = CodingAgent::new(model, callboard_process::env::own_env());
/// serve(agent, acp_transport::stdio()?).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CodingAgent {
    model: Arc<dyn Model>,
    catalogue: Arc<dyn ModelCatalogue>,
    env: Arc<Vec<(String, String)>>,
    locale: Option<String>,
    /// Names of further environment variables that are passed to commands.
    env_pass: Vec<String>,
    /// Tools that replace the built-in tools.
    registry: Option<Registry>,
    tools: Arc<OnceLock<SharedToolsAndEnv>>,
    counters: Option<Arc<TransportCounters>>,
    policy_source: PolicySource,
    restored_mode: RestoredModeLimit,
    rules: Option<Arc<dyn RuleStore>>,
    offered_scopes: OfferedRuleScopes,
    authenticator: Option<Arc<dyn Authenticator>>,
    info: Implementation,
    instructions: Option<Arc<str>>,
    meta_key: Arc<str>,
    secrets: LiveSecrets,
    session_config: SessionConfig,
    state: Option<PathBuf>,
    /// Files and folders whose changes need permission in every mode.
    guarded_paths: Vec<PathBuf>,
    commands: SlashCommands,
    stored: Option<LazySessionStore>,
    retention: Option<SessionRetention>,
    /// Text that says what the user can do if no sandbox works. `None` if commands run without a
    /// sandbox.
    sandbox_remedy: Option<Arc<str>>,
    command_preview: PreviewSetting,
    command_output: CommandOutputStream,
    /// The MCP servers of each session, in addition to the servers that the client names.
    mcp_servers: Arc<[McpServerConfig]>,
    /// Time for which the first prompt of a session waits for servers that are starting.
    server_wait: Duration,
    /// The service for searches of the web.
    web_search: Option<WebSearchSettings>,
}

/// The tools and the environment of every session. Both are created for the first session, so that
/// the answer to `initialize` does not wait for them.
#[derive(Clone)]
struct SharedToolsAndEnv {
    registry: Registry,
    env: Arc<BTreeMap<String, String>>,
}

impl CodingAgent {
    /// Creates an agent with all built-in tools. Commands receive the variables of `env` that are
    /// safe to pass on, and sessions redact the secrets in `env`. `LC_ALL`, `LC_MESSAGES` or `LANG`
    /// in `env` selects the language of titles. Without a state folder, permission rules last as
    /// long as their session, and changes of files cannot be undone: see
    /// [`with_state_folder`](Self::with_state_folder).
    #[must_use]
    pub fn new(model: Arc<dyn Model>, env: impl Iterator<Item = (String, String)>) -> Self {
        let env: Arc<Vec<_>> = Arc::new(env.collect());
        Self {
            model,
            catalogue: Arc::new(BuiltInModels::new(env.clone())),
            secrets: LiveSecrets::from_env(env.to_vec()),
            env,
            locale: None,
            env_pass: Vec::new(),
            registry: None,
            tools: Arc::default(),
            counters: None,
            policy_source: PolicySource::Mode(PermissionMode::default()),
            restored_mode: RestoredModeLimit::default(),
            rules: None,
            offered_scopes: OfferedRuleScopes::default(),
            authenticator: None,
            info: Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            instructions: None,
            meta_key: DEFAULT_KEY.into(),
            session_config: SessionConfig::default(),
            state: None,
            guarded_paths: Vec::new(),
            commands: SlashCommands::builtin(),
            stored: None,
            retention: None,
            sandbox_remedy: None,
            command_preview: PreviewSetting::default(),
            command_output: CommandOutputStream::default(),
            mcp_servers: Arc::default(),
            server_wait: limits::SERVER_WAIT,
            web_search: None,
        }
    }

    /// Sets the service for web searches. Without this call, the tool `web_search` is not
    /// available.
    #[must_use]
    pub fn with_web_search(self, search: WebSearchSettings) -> Self {
        Self { web_search: Some(search), tools: Arc::default(), ..self }
    }

    /// Sets the MCP servers of each session, in addition to the servers that the client names. Also
    /// sets the maximum time that the first prompt of a session waits for servers that are
    /// starting. If no time is given, the maximum is 2 s.
    #[must_use]
    pub fn with_mcp_servers(
        self,
        servers: Vec<McpServerConfig>,
        first_prompt_wait: impl Into<Option<Duration>>,
    ) -> Self {
        let server_wait = first_prompt_wait.into().unwrap_or(limits::SERVER_WAIT);
        Self { mcp_servers: servers.into(), server_wait, ..self }
    }

    /// Sets the name and version of the agent that clients receive as `agentInfo`.
    #[must_use]
    pub fn with_info(self, info: Implementation) -> Self {
        Self { info, ..self }
    }

    /// Replaces Callboard's own instructions to the model about the model's role and its way of
    /// working. After this text, the system prompt lists facts about the session: folders, date,
    /// tools and permissions.
    #[must_use]
    pub fn with_instructions(self, text: impl Into<Arc<str>>) -> Self {
        Self { instructions: Some(text.into()), ..self }
    }

    /// Sets the key in `_meta` under which the agent sends data that has no field in the protocol,
    /// such as the duration of a call. The default is `callboard`. Clients send the reason for a
    /// rejected call under the same key. A key of more than 64 bytes is truncated.
    #[must_use]
    pub fn with_meta_key(self, key: impl Into<Arc<str>>) -> Self {
        Self { meta_key: key.into(), ..self }
    }

    /// Sets how often each session sends updates of its calls, and how much they contain.
    #[must_use]
    pub fn with_session_config(self, session_config: SessionConfig) -> Self {
        Self { session_config, ..self }
    }

    /// Offers ways to log in; without this call, the agent offers no login.
    #[must_use]
    pub fn with_authenticator(self, authenticator: Arc<dyn Authenticator>) -> Self {
        Self { authenticator: Some(authenticator), ..self }
    }

    /// Redacts the secrets in `secrets`, including later additions, instead of the secrets of the
    /// environment.
    #[must_use]
    pub fn with_secrets(self, secrets: LiveSecrets) -> Self {
        Self { secrets, ..self }
    }

    /// Stores rules, undo data, journals and long outputs in a folder. The folder is created when
    /// it is first needed, and only the user can read the folder. A session asks the user before
    /// each change of a file in the folder. A relative path is resolved against the current
    /// directory of the process.
    #[must_use]
    pub fn with_state_folder(self, folder: PathBuf) -> Self {
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let rules = Arc::new(FileRuleStore::in_state_folder(&folder));
        Self { rules: Some(rules), state: Some(folder), tools: Arc::default(), ..self }
    }

    /// Stores sessions, so that they outlast the connection. A stored session contains the prompts,
    /// everything that clients are shown, and the messages of the models. Secrets are redacted.
    /// Without this call, sessions end with their connection.
    ///
    /// The function `open` may block. The agent calls `open` in the background while it opens the
    /// first session. If `open` fails, the agent calls it again for a later session. If a session
    /// cannot be stored, the session continues, and its user is notified.
    #[must_use]
    pub fn with_session_store(
        self,
        open: impl Fn() -> std::result::Result<Arc<dyn SessionStore>, SessionStoreError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { stored: Some(LazySessionStore::new(open)), ..self }
    }

    /// Removes stored sessions that exceed the limits of age or total size, together with their
    /// undo data and outputs in the state folder. The removal runs in the background when a session
    /// begins, at most once a day. Without this call, or without a state folder, sessions are kept
    /// until they are deleted.
    #[must_use]
    pub fn with_session_retention(self, retention: SessionRetention) -> Self {
        Self { retention: Some(retention), ..self }
    }

    /// Asks before each change of this file, or of this folder and everything in it, in every mode
    /// except `read-only`. An example of such a file is the agent's own configuration.
    #[must_use]
    pub fn with_guarded_path(mut self, path: PathBuf) -> Self {
        self.guarded_paths.push(std::path::absolute(&path).unwrap_or(path));
        self
    }

    /// Runs commands in a sandbox. If no sandbox works on this system, each command needs
    /// permission. The permission request contains `remedy`, the end of a sentence that says what
    /// the user can do. Without this call, commands run without a sandbox.
    ///
    /// `main` must first call
    /// [`run_if_command_helper`](callboard_process::run_if_command_helper).
    #[must_use]
    pub fn with_command_sandbox(self, remedy: impl Into<Arc<str>>) -> Self {
        Self { sandbox_remedy: Some(remedy.into()), ..self }
    }

    /// Sets when commands run on copies of the project folders first. Without a sandbox, commands
    /// have no preview.
    #[must_use]
    pub fn with_command_preview(self, command_preview: PreviewSetting) -> Self {
        Self { command_preview, ..self }
    }

    /// Sets the stream to which commands write their output.
    #[must_use]
    pub fn with_command_output_stream(self, command_output: CommandOutputStream) -> Self {
        Self { command_output, ..self }
    }

    /// Sets the models that sessions can choose among. The initial model need not be one of them.
    #[must_use]
    pub fn with_catalogue(self, catalogue: Arc<dyn ModelCatalogue>) -> Self {
        Self { catalogue, ..self }
    }

    /// Sets the initial mode of sessions; clients may choose another.
    #[must_use]
    pub fn with_initial_mode(self, mode: PermissionMode) -> Self {
        Self { policy_source: PolicySource::Mode(mode), ..self }
    }

    /// Sets which mode a stored session gets when it is continued.
    #[must_use]
    pub fn with_restored_mode(self, restored_mode: RestoredModeLimit) -> Self {
        Self { restored_mode, ..self }
    }

    /// Sets the locale of titles, options and notes, such as `de`, instead of the environment's
    /// locale. If there is no translation, the texts are in English.
    #[must_use]
    pub fn with_locale(mut self, locale: impl Into<String>) -> Self {
        self.locale = Some(locale.into());
        self
    }

    /// Passes these environment variables to commands too, except variables whose names [look like
    /// a secret](callboard_process::env::is_secret_name_or_value).
    #[must_use]
    pub fn with_env_pass(self, names: Vec<String>) -> Self {
        Self { env_pass: names, tools: Arc::default(), ..self }
    }

    /// Adds a slash command, which the agent answers without sending a request to the model. The
    /// command replaces a command of the same name, even a built-in one. Menus and `/help` list the
    /// command.
    #[must_use]
    pub fn with_slash_command(mut self, command: SlashCommand) -> Self {
        self.commands.add_or_replace(command);
        self
    }

    /// Removes a slash command by its name, such as `undo`.
    #[must_use]
    pub fn without_slash_command(mut self, name: &str) -> Self {
        self.commands.remove(name);
        self
    }

    /// Returns whether a prompt is a slash command that the agent itself answers.
    #[must_use]
    pub fn is_slash_command(&self, prompt: &str) -> bool {
        self.commands.find_command(prompt).is_some()
    }

    /// Returns the file in which processes remember that the sandbox of commands works.
    fn isolation_memory(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.join(ISOLATION_MEMORY_FILE))
    }

    fn shared_tools_and_env(&self) -> SharedToolsAndEnv {
        let build = || {
            let registry = self.registry.clone().unwrap_or_else(|| self.builtin_registry());
            let env = self.env.iter().cloned();
            let env = callboard_process::env::base_env_with_allowed_names(env, &self.env_pass);
            SharedToolsAndEnv { registry, env: Arc::new(env) }
        };
        self.tools.get_or_init(build).clone()
    }

    /// Returns the locale of user-facing text: the configured locale, otherwise the environment's
    /// locale.
    #[must_use]
    pub fn locale(&self) -> String {
        let variable = |name: &str| {
            let found = self.env.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone())
        };
        title::preferred_locale(self.locale.as_deref(), variable).unwrap_or_default()
    }

    fn builtin_registry(&self) -> Registry {
        let mut registry = Registry::builtin_in_locale(&self.locale());
        registry.add_web_tools(self.web_search.clone());
        // Without a state folder, replaced file contents are not stored.
        if self.state.is_none()
            && let Some(undo) = registry.spec_for_role(ToolRole::Undo)
        {
            registry.retain(|spec| spec.name != undo.name);
        }
        registry
    }

    /// Replaces the built-in tools.
    #[must_use]
    pub fn with_tools(self, registry: Registry) -> Self {
        Self { registry: Some(registry), tools: Arc::default(), ..self }
    }

    /// Sets the policy for calls that no rule covers. The policy replaces every [`PermissionMode`],
    /// so clients cannot choose a mode.
    #[must_use]
    pub fn with_policy(self, policy: Arc<dyn Policy>) -> Self {
        Self { policy_source: PolicySource::Policy(policy), ..self }
    }

    /// Stores rules in another store; without a store, rules last only as long as their session.
    #[must_use]
    pub fn with_rule_store(self, rules: Option<Arc<dyn RuleStore>>) -> Self {
        Self { rules, ..self }
    }

    /// Offers permission answers that are remembered for the project, in addition to answers that
    /// are remembered for the session. Use this method for a client in this process that shows the
    /// text of each option, as `callboard exec` does.
    ///
    /// A client cannot enable these options. Some clients assign one key to all options of the same
    /// kind, so their users could remember an answer for the project by mistake. The users of all
    /// clients can use the command `/permissions keep` instead.
    #[must_use]
    pub fn with_project_permission_options(self) -> Self {
        Self { offered_scopes: OfferedRuleScopes::SessionAndProject, ..self }
    }
}

impl fmt::Debug for CodingAgent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may contain secrets.
        formatter.debug_struct("CodingAgent").field("model", &self.model).finish_non_exhaustive()
    }
}

impl ConnectTo<Client> for CodingAgent {
    #[expect(clippy::too_many_lines, reason = "one handler a method, and nothing else")]
    async fn connect_to(self, client: impl ConnectTo<agent_client_protocol::Agent>) -> Result<()> {
        let name = self.info.name.clone();
        let connection = Arc::new(Connection::new(self));
        let shared = || connection.clone();
        let (initialize, new, prompt) = (shared(), shared(), shared());
        let (authenticate, logout) = (shared(), shared());
        let (close, cancel, ended) = (shared(), shared(), shared());
        let (set_mode, set_option) = (shared(), shared());
        let (list, load, resume, delete) = (shared(), shared(), shared(), shared());
        let (fork, rewind) = (shared(), shared());
        agent_client_protocol::Agent
            .v1()
            .name(name)
            .on_receive_request(
                async move |request: InitializeRequest, responder, _| {
                    responder.respond(initialize.initialize(&request))?;
                    drop(tokio::spawn(log_client_and_probe_sandbox(request, initialize.clone())));
                    Ok(())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: AuthenticateRequest, responder, _| {
                    drop(tokio::spawn(authenticate.clone().authenticate(request, responder)));
                    Ok(())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |_: LogoutRequest, responder, _| {
                    drop(tokio::spawn(logout.clone().logout(responder)));
                    Ok(())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: NewSessionRequest, responder, client| {
                    new.clone().spawn_new_session(request, responder, client).await
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: PromptRequest, responder, _| {
                    prompt.handle_prompt(request, responder)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: SetSessionModeRequest, responder, _| {
                    set_mode.handle_set_mode(&request, responder)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: SetSessionConfigOptionRequest, responder, _| {
                    set_option.handle_set_option(&request, responder)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: CloseSessionRequest, responder, _| {
                    close.close_session(&request, responder)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: ListSessionsRequest, responder, _| {
                    drop(tokio::spawn(list.clone().list_sessions(request, responder)));
                    Ok(())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: LoadSessionRequest, responder, client| {
                    load.spawn_restore(request.into(), responder, client)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: ResumeSessionRequest, responder, client| {
                    resume.spawn_restore(request.into(), responder, client)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: ForkSessionRequest, responder, client| {
                    let request = RestoreRequest::for_fork(request, &fork.agent.meta_key);
                    fork.spawn_restore(request, responder, client)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: RewindSessionRequest, responder, _| {
                    drop(tokio::spawn(rewind.clone().rewind_session(request, responder)));
                    Ok(())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: DeleteSessionRequest, responder, _| {
                    drop(tokio::spawn(delete.clone().delete_session(request, responder)));
                    Ok(())
                },
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |notification: CancelNotification, _| {
                    if let Some(session) = cancel.find_session(&notification.session_id) {
                        session.cancel();
                    }
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_close(async move |_| {
                ended.close_all_sessions().await;
                Ok(())
            })
            .connect_to(client)
            .await
    }
}

/// Serves one client until it disconnects, and sends no faster than the transport writes.
///
/// # Errors
///
/// Returns an error if the connection fails.
pub async fn serve(agent: CodingAgent, transport: Transport) -> Result<()> {
    let counters = Some(transport.counters());
    CodingAgent { counters, ..agent }.connect_to(transport).await
}

/// Logs the client, and begins to search for a working sandbox. Both take longer than the response
/// to `initialize`, so they begin 1 ms later, when it is usually written. If the client opens a
/// session before, the search begins with the session.
async fn log_client_and_probe_sandbox(request: InitializeRequest, connection: Arc<Connection>) {
    tokio::time::sleep(limits::RESPONSE_WRITE_TIME).await;
    if connection.agent.sandbox_remedy.is_some() {
        CommandIsolation::begin_probe(connection.agent.isolation_memory());
    }
    let (client, can) = (request.client_info.as_ref(), &request.client_capabilities);
    tracing::debug!(
        name = client.map(|info| info.name.as_str()),
        version = client.map(|info| info.version.as_str()),
        reads = can.fs.read_text_file,
        writes = can.fs.write_text_file,
        terminals = can.terminal,
        forms = can.elicitation.as_ref().is_some_and(|it| it.form.is_some()),
        "a client is connected"
    );
}
