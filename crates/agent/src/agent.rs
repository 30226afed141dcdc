//! The agent as one value that can be connected to any transport, and what its connections share.
//!
//! Handlers never await the client: what takes time goes to the session's own task.

mod connection;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use acp_lifecycle::{Policy, RuleStore, Secrets, title};
use acp_tools::Registry;
use acp_transport::Counters;
use agent_client_protocol::v1::schema::{
    AuthenticateRequest, CancelNotification, CloseSessionRequest, InitializeRequest, LogoutRequest,
    NewSessionRequest, PromptRequest, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use agent_client_protocol::{
    Client, ConnectTo, Result, on_receive_notification, on_receive_request,
};
use callboard_models::Model;

use crate::catalogue::{BuiltIn, Catalogue};
use crate::errors;
use crate::keys::KeyStore;
use crate::login;
use crate::mode::{Decides, Mode};
use crate::permission::OfferedScopes;
use crate::rule_store::StateStore;
use crate::secrets;

use self::connection::Connection;

/// A coding agent for ACP clients: a model, tools, and what commands may see of the environment.
///
/// ```no_run
/// use agent_client_protocol::ConnectTo as _;
/// use callboard::agent::Agent;
/// use callboard_models::direct::Direct;
/// use std::sync::Arc;
///
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::new(Arc::new(Direct), callboard_process::env::parent());
/// agent.connect_to(acp_transport::stdio()?).await?;
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
    offered: OfferedScopes,
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
            offered: OfferedScopes::default(),
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

    /// Writes titles, options and notes in the language of a locale, such as `de`, whatever the
    /// environment says; in English where there are none in that language.
    #[must_use]
    pub fn with_locale(mut self, locale: impl Into<String>) -> Self {
        self.locale = Some(locale.into());
        self
    }

    /// Gives commands these variables of the environment too, but for those whose names are
    /// [shaped like a secret's](callboard_process::env::is_secret).
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
        let env = callboard_process::env::env_passing(self.env.iter().cloned(), &self.env_pass);
        let secrets = secrets::of_env(self.env.iter().map(|(name, value)| (&**name, &**value)));
        let (env, secrets) = (Arc::new(env), secrets::with_learnt(&secrets));
        Ok(self.tools.get_or_init(|| Tools { registry, env, secrets }).clone())
    }

    /// Returns the locale of what people read: that which was set, else that of the environment.
    pub(crate) fn locale(&self) -> String {
        let variable = |name: &str| {
            let found = self.env.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone())
        };
        title::wanted(self.locale.as_deref(), variable).unwrap_or_default()
    }

    fn builtin(&self) -> Result<Registry> {
        Registry::builtin_in(&self.locale()).map_err(|error| errors::fault(&error.to_string()))
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

    /// Offers answers that are remembered for the project beside those for the session: for a
    /// client in this process that shows a person the text of each option, as `callboard exec` does.
    ///
    /// Nothing that a client sends can turn this on. Clients with one key for every option of a kind
    /// would remember for the project what their user allowed for the session; their users have
    /// `/permissions keep`.
    #[must_use]
    pub fn offering_project_answers(self) -> Self {
        Self { offered: OfferedScopes::SessionAndProject, ..self }
    }

    /// Sends no faster than a transport writes: see [`Transport::counters`].
    ///
    /// [`Transport::counters`]: acp_transport::Transport::counters
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
                    drop(tokio::spawn(log_client(request)));
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
async fn log_client(request: InitializeRequest) {
    tokio::task::yield_now().await;
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
