//! The agent as one value that can be connected to any transport, and what its connections share.
//!
//! Handlers never await the client: what takes time goes to the session's own task.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use acp_lifecycle::{Policy, RuleStore, Secrets, title};
use acp_tools::{Context, Registry, Workspace};
use acp_types::Trace;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentAuthCapabilities, AgentCapabilities, AuthenticateRequest, CancelNotification,
    ClientCapabilities, CloseSessionRequest, CloseSessionResponse, Implementation,
    InitializeRequest, InitializeResponse, LogoutCapabilities, LogoutRequest, NewSessionRequest,
    NewSessionResponse, PromptCapabilities, PromptRequest,
    SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionCloseCapabilities,
    SessionId, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Client, ConnectTo, Error, Result, on_receive_notification, on_receive_request,
};
use futures::FutureExt as _;
use tokio::sync::Semaphore;
use ulid::Ulid;

use crate::blocking::one_at_a_time;
use crate::errors;
use crate::keys::{self, KeyStore};
use crate::limits;
use crate::login;
use crate::mode::{Decides, Mode};
use crate::model::Model;
use crate::model::catalogue::{BuiltIn, Catalogue};
use crate::options::Selection;
use crate::permission::{Permission, Stored};
use crate::rule_store::StateStore;
use crate::secrets;
use crate::session::Session;
use crate::sys::private;
use crate::telemetry;
use crate::transport::Counters;
use crate::wire::Wire;

/// A coding agent for ACP clients: a model, tools, and what commands may see of the environment.
///
/// ```no_run
/// use agent_client_protocol::ConnectTo as _;
/// use callboard::{agent::Agent, model, transport};
///
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::new(model::parse("direct")?, acp_tools::env::parent());
/// agent.connect_to(transport::stdio()?).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Agent {
    model: Arc<dyn Model>,
    catalogue: Arc<dyn Catalogue>,
    env: Arc<Vec<(String, String)>>,
    locale: Option<String>,
    /// What else of the environment commands get.
    env_pass: Vec<String>,
    /// In the place of the built-in tools.
    registry: Option<Registry>,
    tools: Arc<OnceLock<Tools>>,
    counters: Option<Arc<Counters>>,
    decides: Decides,
    rules: Option<Arc<dyn RuleStore>>,
    keys: KeyStore,
}

/// What every session gets. Made for the first one: nothing of it is needed to initialize.
#[derive(Clone)]
struct Tools {
    registry: Registry,
    env: Arc<BTreeMap<String, String>>,
    /// What commands do not get of the environment, nobody is shown.
    secrets: Secrets,
}

impl Agent {
    /// Makes an agent with all built-in tools. Commands get what may pass of `env`; its `LC_ALL`,
    /// `LC_MESSAGES` or `LANG` says in which language titles are, and rules that outlive their
    /// session lie in the state folder that it names: see [`StateStore::of_env`].
    #[must_use]
    pub fn new(model: Arc<dyn Model>, env: impl Iterator<Item = (String, String)>) -> Self {
        let env: Vec<_> = env.collect();
        let rules = StateStore::of_env(&env).map(|store| Arc::new(store) as Arc<dyn RuleStore>);
        let keys = KeyStore::of_env(&env);
        let (env, decides) = (Arc::new(env), Decides::Mode(Mode::default()));
        Self {
            model,
            catalogue: Arc::new(BuiltIn),
            env,
            locale: None,
            env_pass: Vec::new(),
            registry: None,
            tools: Arc::default(),
            counters: None,
            decides,
            rules,
            keys,
        }
    }

    /// Lets sessions choose among these models; the one that they begin with need not be one of
    /// them.
    #[must_use]
    pub fn with_catalogue(self, catalogue: Arc<dyn Catalogue>) -> Self {
        Self { catalogue, ..self }
    }

    /// Sets the mode that sessions begin in; their clients may choose another.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { decides: Decides::Mode(mode), ..self }
    }

    /// Writes titles in the language of a locale, such as `de`, whatever the environment says;
    /// in English where there are none in that language.
    #[must_use]
    pub fn with_locale(mut self, locale: impl Into<String>) -> Self {
        self.locale = Some(locale.into());
        self
    }

    /// Gives commands these variables of the environment too, but for those whose names are
    /// [shaped like a secret's](acp_tools::env::is_secret).
    #[must_use]
    pub fn with_env_pass(self, names: Vec<String>) -> Self {
        Self { env_pass: names, tools: Arc::default(), ..self }
    }

    fn tools(&self) -> Result<Tools> {
        if let Some(tools) = self.tools.get() {
            return Ok(tools.clone());
        }
        let registry = match &self.registry {
            Some(registry) => registry.clone(),
            None => self.builtin()?,
        };
        let env = acp_tools::env::env_passing(self.env.iter().cloned(), &self.env_pass);
        let secrets = secrets::of_env(self.env.iter().map(|(name, value)| (&**name, &**value)));
        let (env, secrets) = (Arc::new(env), secrets::with_learnt(&secrets));
        Ok(self.tools.get_or_init(|| Tools { registry, env, secrets }).clone())
    }

    fn builtin(&self) -> Result<Registry> {
        let variable = |name: &str| {
            let found = self.env.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone())
        };
        let locale = title::wanted(self.locale.as_deref(), variable).unwrap_or_default();
        Registry::builtin_in(&locale).map_err(Error::into_internal_error)
    }

    /// Gives sessions these tools in the place of the built-in ones.
    #[must_use]
    pub fn with_tools(self, registry: Registry) -> Self {
        Self { registry: Some(registry), tools: Arc::default(), ..self }
    }

    /// Sets what is done about calls that no rule speaks of, in the place of every [`Mode`]:
    /// clients have none to choose then.
    #[must_use]
    pub fn with_policy(self, policy: Arc<dyn Policy>) -> Self {
        Self { decides: Decides::Policy(policy), ..self }
    }

    /// Keeps rules in another store; with none, they last no longer than their session.
    #[must_use]
    pub fn with_rule_store(self, rules: Option<Arc<dyn RuleStore>>) -> Self {
        Self { rules, ..self }
    }

    /// Sends no faster than a transport writes: see [`Transport::counters`].
    ///
    /// [`Transport::counters`]: crate::transport::Transport::counters
    #[must_use]
    pub fn with_counters(mut self, counters: Arc<Counters>) -> Self {
        self.counters = Some(counters);
        self
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of the environment are nobody's business.
        formatter.debug_struct("Agent").field("model", &self.model).finish_non_exhaustive()
    }
}

impl ConnectTo<Client> for Agent {
    async fn connect_to(self, client: impl ConnectTo<agent_client_protocol::Agent>) -> Result<()> {
        let keys = self.keys.clone();
        let connection = Arc::new(Connection::new(self));
        let shared = || connection.clone();
        let (initialize, new, prompt) = (shared(), shared(), shared());
        let (close, cancel, ended) = (shared(), shared(), shared());
        let (set_mode, set_option) = (shared(), shared());
        agent_client_protocol::Agent
            .v1()
            .name("callboard")
            .on_receive_request(
                async move |request: InitializeRequest, responder, _| {
                    responder.respond(initialize.initialize(&request))?;
                    drop(tokio::spawn(tell_of(request)));
                    Ok(())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: AuthenticateRequest, responder, _| {
                    responder.respond_with_result(login::authenticate(&request))
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |_: LogoutRequest, responder, _| {
                    drop(tokio::spawn(login::logout(keys.clone(), responder)));
                    Ok(())
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: NewSessionRequest, responder, client| {
                    new.clone().begin_session(request, responder, client).await
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: PromptRequest, responder, _| prompt.prompt(request, responder),
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: SetSessionModeRequest, responder, _| {
                    set_mode.set_mode(&request, responder)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: SetSessionConfigOptionRequest, responder, _| {
                    set_option.set_option(&request, responder)
                },
                on_receive_request!(),
            )
            .on_receive_request(
                async move |request: CloseSessionRequest, responder, _| {
                    close.close_session(&request, responder)
                },
                on_receive_request!(),
            )
            .on_receive_notification(
                async move |notification: CancelNotification, _| {
                    if let Some(session) = cancel.session(&notification.session_id) {
                        session.cancel();
                    }
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_close(async move |_| {
                ended.close().await;
                Ok(())
            })
            .connect_to(client)
            .await
    }
}

/// Logs which client there is, once it has its answer: a line takes longer than that.
async fn tell_of(request: InitializeRequest) {
    tokio::task::yield_now().await;
    let client = request.client_info.as_ref();
    tracing::info!(
        name = client.map(|info| info.name.as_str()),
        version = client.map(|info| info.version.as_str()),
        capabilities = ?request.client_capabilities,
        "a client is connected"
    );
}

/// What one connection knows: the client's capabilities and the open sessions.
#[derive(Debug)]
struct Connection {
    agent: Agent,
    client: Mutex<ClientCapabilities>,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Has a permit less for each session that is being opened: what hangs holds a thread.
    opening: Arc<Semaphore>,
    /// Held by the one who reads the logins.
    learning: Arc<tokio::sync::Mutex<()>>,
}

impl Connection {
    fn new(agent: Agent) -> Self {
        let (client, sessions, learning) = Default::default();
        let opening = Arc::new(Semaphore::new(limits::MAX_SESSIONS));
        Self { agent, client, sessions, opening, learning }
    }

    fn initialize(&self, request: &InitializeRequest) -> InitializeResponse {
        let methods = login::methods(&request.client_capabilities);
        lock(&self.client).clone_from(&request.client_capabilities);
        let sessions = SessionCapabilities::new()
            .close(SessionCloseCapabilities::new())
            .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .prompt_capabilities(
                PromptCapabilities::new().embedded_context(true).image(true).audio(true),
            )
            .session_capabilities(sessions)
            .auth(AgentAuthCapabilities::new().logout(LogoutCapabilities::new()));
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(Implementation::new("callboard", VERSION).title("Callboard"))
            .auth_methods(methods)
    }

    /// Looks at the logins that there are by now, for a moment.
    async fn glance(&self) {
        let Agent { catalogue, keys, .. } = &self.agent;
        let look = async {
            catalogue.refresh().await;
            // Not every catalogue reads them; nobody is shown their keys all the same.
            if !keys::are_learnt() {
                let keys = keys.clone();
                one_at_a_time(&self.learning, move |()| drop(keys.logins())).await;
            }
        };
        drop(tokio::time::timeout(limits::LOGIN_GLANCE, look).await);
    }

    /// Opens a session, in a task of its own: its folders and the user's may lie on a network.
    /// Returns when it is open, or when others are to be served meanwhile.
    async fn begin_session(
        self: Arc<Self>,
        request: NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        client: ConnectionTo<Client>,
    ) -> Result<()> {
        // Noted before the end of input can be heard.
        let Ok(opening) = self.opening.clone().try_acquire_owned() else {
            let what = "too many sessions are being opened";
            return responder.respond_with_error(errors::busy(what));
        };
        let is_alone = self.opening.available_permits() + 1 == limits::MAX_SESSIONS;
        let opened = self.new_session(request, responder, client);
        let opened = tokio::spawn(opened.map(|()| drop(opening)));
        // In its turn, unless a disk hangs.
        if is_alone {
            drop(tokio::time::timeout(limits::SESSION_OPENED, opened).await);
        }
        Ok(())
    }

    async fn new_session(
        self: Arc<Self>,
        request: NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        client: ConnectionTo<Client>,
    ) {
        self.glance().await;
        if !request.mcp_servers.is_empty() {
            tracing::warn!(count = request.mcp_servers.len(), "MCP servers are not used yet");
        }
        let connection = self.clone();
        let look = move || connection.context(request.cwd, request.additional_directories);
        let looked = tokio::task::spawn_blocking(look).await;
        let looked = looked.unwrap_or_else(|_panic| Err(Error::internal_error()));
        // The connection may be gone by now, and with it whoever asked.
        drop(match looked {
            Ok((context, tools, stored)) => self.open(context, tools, stored, responder, client),
            Err(error) => responder.respond_with_error(error),
        });
    }

    fn open(
        &self,
        context: Context,
        tools: Tools,
        stored: Option<Stored>,
        responder: Responder<NewSessionResponse>,
        client: ConnectionTo<Client>,
    ) -> Result<()> {
        // Held until it is there for whoever reads the answer.
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= limits::MAX_SESSIONS {
            let what = format!("{} sessions are open; close one first", limits::MAX_SESSIONS);
            return responder.respond_with_error(errors::busy(what));
        }
        // A disk may be slow: the first call waits for this.
        let workspace = context.workspace.clone();
        drop(tokio::task::spawn_blocking(move || workspace.recover()));
        let id = SessionId::new(format!("sess_{}", Ulid::generate()));
        let Agent { model, catalogue, counters, decides, .. } = self.agent.clone();
        let model = catalogue.first().unwrap_or(model);
        let selection = Selection::new(catalogue, model, decides.mode());
        let answer = NewSessionResponse::new(id.clone())
            .modes(selection.modes())
            .config_options(selection.options(&selection.chosen()));
        responder.respond(answer)?;
        let capabilities = lock(&self.client).clone();
        let forms = capabilities.elicitation.as_ref().and_then(|it| it.form.as_ref());
        let permission = Permission { decides, stored, asks_why: forms.is_some() };
        let wire = |handle, answers| {
            Wire::new(id.clone(), handle, answers, &capabilities, client, counters)
        };
        let Tools { registry, secrets, .. } = tools;
        let session = telemetry::session(&id)
            .in_scope(|| Session::open(selection, registry, context, secrets, permission, wire));
        sessions.insert(id, session);
        Ok(())
    }

    /// Looks at the files that a new session needs. Blocks.
    fn context(
        &self,
        cwd: PathBuf,
        additional: Vec<PathBuf>,
    ) -> Result<(Context, Tools, Option<Stored>)> {
        let mut workspace =
            Workspace::new(cwd, additional).map_err(|error| errors::root(&error))?;
        if !workspace.is_kernel_fenced() {
            tracing::warn!("a program that swaps directories for links can lead tools outside");
        }
        if let Some(state) = private::state_folder(&self.agent.env) {
            workspace = workspace.keeping(&state);
        }
        let roots: Vec<_> = workspace.roots().map(Path::to_owned).collect();
        let stored = self.agent.rules.clone().and_then(|rules| Stored::read(rules, &roots));
        let tools = self.agent.tools()?;
        let (workspace, env) = (Arc::new(workspace), tools.env.clone());
        Ok((Context { workspace, env, text: None, terminal: None }, tools, stored))
    }

    fn prompt(
        &self,
        request: PromptRequest,
        responder: Responder<agent_client_protocol::v1::schema::PromptResponse>,
    ) -> Result<()> {
        match self.session(&request.session_id) {
            Some(session) => {
                let trace = Trace::from_meta(request.meta.as_ref());
                session.prompt(request.prompt, trace, responder)
            }
            None => responder.respond_with_error(errors::unknown_session()),
        }
    }

    fn set_mode(
        &self,
        request: &SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
    ) -> Result<()> {
        match self.session(&request.session_id) {
            Some(session) => session.options().on_set_mode(request, responder),
            None => responder.respond_with_error(errors::unknown_session()),
        }
    }

    fn set_option(
        &self,
        request: &SetSessionConfigOptionRequest,
        responder: Responder<SetSessionConfigOptionResponse>,
    ) -> Result<()> {
        match self.session(&request.session_id) {
            Some(session) => session.options().on_set_option(request, responder),
            None => responder.respond_with_error(errors::unknown_session()),
        }
    }

    fn close_session(
        &self,
        request: &CloseSessionRequest,
        responder: Responder<CloseSessionResponse>,
    ) -> Result<()> {
        let Some(session) = lock(&self.sessions).remove(&request.session_id) else {
            return responder.respond_with_error(errors::unknown_session());
        };
        drop(tokio::spawn(async move {
            session.close(limits::CLOSE_DEADLINE).await;
            // The connection may be gone by now, and with it whoever asked.
            drop(responder.respond(CloseSessionResponse::new()));
        }));
        Ok(())
    }

    /// Ends every session: the client is gone.
    async fn close(&self) {
        let all = self.opening.acquire_many(limits::MAX_SESSIONS as u32);
        let opening = tokio::time::timeout(limits::CLOSE_DEADLINE, all);
        // Those that are just being opened come last.
        drop(futures::future::join(opening, self.close_all()).await);
        self.close_all().await;
    }

    async fn close_all(&self) {
        let sessions: Vec<_> = lock(&self.sessions).drain().map(|(_, session)| session).collect();
        let closing = sessions.iter().map(|session| session.close(limits::CLOSE_DEADLINE));
        futures::future::join_all(closing).await;
    }

    fn session(&self, id: &SessionId) -> Option<Arc<Session>> {
        lock(&self.sessions).get(id).cloned()
    }
}

/// A panic while one of these locks was held left a whole value, so it can be used on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
