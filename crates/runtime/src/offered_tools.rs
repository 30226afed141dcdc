//! The tools of a session, as its model receives them, and the MCP servers that provide some of
//! these tools.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_connection::ClientSession;
use acp_mcp::{
    McpClientCapabilities, McpServerConfig, McpServers, McpTransport, ServerSandbox, SessionFolders,
};
use acp_tools::{Context, LiveTools, Registry};
use agent_client_protocol::v1::schema::{ClientCapabilities, McpServer};
use callboard_models::{TokenUsage, ToolSpec};
use callboard_process::env::{is_secret_name_or_value, secrets_in_http_header_value};
use tokio_util::sync::CancellationToken;

use crate::limits::SERVER_NOTICE_DELAY;
use crate::lock::lock;
use crate::secrets::LiveSecrets;

/// The tools of a session.
pub(crate) struct OfferedTools {
    registry: Registry,
    servers: Option<McpServers>,
    /// Time for which a prompt waits for servers that are starting.
    max_wait: Duration,
    /// Whether the next prompt waits for servers. The first prompt waits, and so does the next
    /// prompt after the user has restarted a server.
    waits: AtomicBool,
    /// The specifications of the tools, and the generation of the registry to which they belong.
    specs: Mutex<Option<(u64, Arc<[ToolSpec]>)>>,
    /// Tokens that were used since the last request of the turn, for replies of the model to
    /// requests of MCP servers.
    usage: Mutex<Vec<TokenUsage>>,
}

/// The servers that start with a session.
pub(crate) struct ServerStartSettings {
    pub(crate) configs: Vec<McpServerConfig>,
    /// The name and the version of the agent.
    pub(crate) agent: (String, String),
    /// Time for which the first prompt waits for the servers.
    pub(crate) first_prompt_wait: Duration,
}

impl OfferedTools {
    /// Creates the tools of a session without servers.
    pub(crate) fn new(registry: Registry) -> Self {
        let (max_wait, waits, specs, usage) = Default::default();
        Self { registry, servers: None, max_wait, waits, specs, usage }
    }

    /// Starts the servers of a session, and adds their tools.
    pub(crate) fn start_servers(
        self,
        starts: ServerStartSettings,
        context: &Context,
        client: &ClientSession,
    ) -> Self {
        let ServerStartSettings { configs, agent: (name, version), first_prompt_wait } = starts;
        if configs.is_empty() {
            return self;
        }
        let Context { workspace, isolation, .. } = context;
        let folders = SessionFolders::new(workspace.cwd(), workspace.roots().map(Path::to_owned));
        let session = client.handle().clone();
        let sandbox = ServerSandbox::new(isolation.clone(), workspace.clone(), session);
        let live_tools = LiveTools::default();
        let agent = (&*name, &*version);
        let capabilities = mcp_client_capabilities(client.capabilities());
        let servers = McpServers::start(
            configs,
            folders,
            Some(sandbox),
            live_tools.clone(),
            agent,
            capabilities,
        );
        Self {
            registry: self.registry.with_live_tools(live_tools),
            servers: Some(servers),
            max_wait: first_prompt_wait,
            waits: AtomicBool::new(true),
            ..self
        }
    }

    /// Returns the tools, for calls.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    #[cfg(test)]
    pub(crate) fn add(&mut self, tool: impl acp_tools::Tool) {
        self.registry.add(tool);
    }

    /// Returns the servers of the session, if it has any.
    pub(crate) fn servers(&self) -> Option<&McpServers> {
        self.servers.as_ref()
    }

    /// Returns the specifications of the tools that are ready, as they are sent to the model. The
    /// specifications are cached until the tools change.
    pub(crate) fn specs(&self) -> Arc<[ToolSpec]> {
        let mut specs = lock(&self.specs);
        let generation = self.registry.live_tools_generation();
        match &*specs {
            Some((of, specs)) if *of == generation => specs.clone(),
            _ => {
                let created = tool_specs(&self.registry);
                *specs = Some((generation, created.clone()));
                created
            }
        }
    }

    /// Restarts a server. The next prompt waits for this server. Returns `false` if there is no
    /// server with this name.
    pub(crate) fn restart_server(&self, name: &str) -> bool {
        let restarts = self.servers.as_ref().is_some_and(|servers| servers.restart(name));
        self.waits.fetch_or(restarts, Ordering::Relaxed);
        restarts
    }

    /// Adds the tokens of the model's reply to a request of an MCP server.
    pub(crate) fn add_sampling_usage(&self, usage: &TokenUsage) {
        lock(&self.usage).push(*usage);
    }

    /// Returns the tokens that [`add_usage`](Self::add_sampling_usage) added since the last call of
    /// this method.
    pub(crate) fn take_sampling_usage(&self) -> Vec<TokenUsage> {
        std::mem::take(&mut *lock(&self.usage))
    }

    /// Before the first prompt, waits until the servers have started, but at most `max_wait`. If
    /// the wait takes a while, shows a notice to the user.
    pub(crate) async fn wait_for_servers(&self, cancel: &CancellationToken, show: impl Fn(String)) {
        let Some(servers) = &self.servers else { return };
        if !self.waits.swap(false, Ordering::Relaxed) {
            return;
        }
        let show_waiting = async {
            tokio::time::sleep(SERVER_NOTICE_DELAY).await;
            let names = servers.starting().join(", ");
            show(format!("Waiting for MCP servers to start: {names}."));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = servers.wait_started() => {}
            () = tokio::time::sleep(self.max_wait) => {
                let names = servers.starting().join(", ");
                show(format!("The tools of MCP servers that are still starting come later: {names}."));
            }
            () = cancel.cancelled() => {}
            () = show_waiting => {}
        }
        servers.enable_late_start_notices();
        servers.take_notices().into_iter().for_each(&show);
    }

    /// Before a request to the model, waits briefly for new tool lists of servers that have changed
    /// their lists, and for servers that are connected again. Returns the notices about servers for
    /// the user.
    pub(crate) async fn wait_for_changed_tool_lists(
        &self,
        cancel: &CancellationToken,
    ) -> Vec<String> {
        let Some(servers) = &self.servers else { return Vec::new() };
        let _is_cancelled = cancel.run_until_cancelled(servers.wait_changes_listed()).await;
        servers.take_notices()
    }
}

/// Returns the kinds of server requests that this client allows the agent to answer.
fn mcp_client_capabilities(capabilities: &ClientCapabilities) -> McpClientCapabilities {
    let elicitation = capabilities.elicitation.as_ref();
    McpClientCapabilities::default()
        .with_forms(elicitation.is_some_and(|it| it.form.is_some()))
        .with_pages(elicitation.is_some_and(|it| it.url.is_some()))
        .with_sampling(true)
}

fn tool_specs(registry: &Registry) -> Arc<[ToolSpec]> {
    let specs = registry.definitions_for_model().map(|tool| {
        ToolSpec::new(
            tool.spec.name.into_owned(),
            tool.spec.description.into_owned(),
            tool.input_schema,
        )
    });
    specs.collect()
}

/// Returns the configurations of the servers that a client names, and notices about servers that
/// cannot be used. Adds the secrets in values of variables and headers to `secrets` if their names
/// or values look secret.
pub(crate) fn server_configs(
    servers: Vec<McpServer>,
    secrets: &LiveSecrets,
) -> (Vec<McpServerConfig>, Vec<String>) {
    let looks_secret = |name: &str, value: &str| {
        let name = name.replace('-', "_");
        is_secret_name_or_value(&name, value)
            || name.to_ascii_lowercase().ends_with("authorization")
    };
    let (mut configs, mut notices) = (Vec::new(), Vec::new());
    for server in servers {
        match server {
            McpServer::Stdio(server) => {
                let secret = server.env.iter().filter(|it| looks_secret(&it.name, &it.value));
                secret.for_each(|it| secrets.add_evictable(&it.value));
                let env = server.env.into_iter().map(|it| (it.name, it.value)).collect();
                let command = server.command.to_string_lossy().into_owned();
                let transport = McpTransport::Stdio { command, args: server.args, env, cwd: None };
                configs.push(McpServerConfig::new(server.name, transport));
            }
            McpServer::Http(server) => {
                let headers = server.headers.iter();
                let secret = headers.filter(|it| looks_secret(&it.name, &it.value));
                let values = secret.flat_map(|it| secrets_in_http_header_value(&it.value));
                values.for_each(|value| secrets.add_evictable(value));
                let headers = server.headers.into_iter().map(|it| (it.name, it.value)).collect();
                let transport = McpTransport::Http { url: server.url, headers };
                configs.push(McpServerConfig::new(server.name, transport));
            }
            McpServer::Sse(server) => notices.push(format!(
                "The MCP server {} is not used: its transport SSE is not supported.",
                server.name
            )),
            _ => notices.push("An MCP server has an unknown transport and is not used.".to_owned()),
        }
    }
    (configs, notices)
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::{HttpHeader, McpServerHttp};
    use pretty_assertions::assert_eq;

    use super::*;

    fn with_header(name: &str, value: &str) -> Vec<McpServer> {
        let header = HttpHeader::new(name, value);
        vec![McpServer::Http(McpServerHttp::new("docs", "https://a/").headers(vec![header]))]
    }

    #[test]
    fn a_token_in_a_header_is_redacted_without_its_scheme() {
        for (name, value, redacted) in [
            ("Authorization", "Bearer letters-only", true),
            ("Proxy-Authorization", "Custom letters-only", true),
            ("X-Api-Key", "letters-only", true),
            ("X-Name", "The letters-only", false),
        ] {
            let secrets = LiveSecrets::from_env([]);
            drop(server_configs(with_header(name, value), &secrets));
            let shown = secrets.current().redact("It is letters-only.").into_owned();
            assert_eq!(shown == "It is [redacted].", redacted, "{name}: {shown}");
        }
    }

    #[test]
    fn the_key_of_each_new_session_is_redacted() {
        let secrets =
            LiveSecrets::from_env([("API_KEY".to_owned(), "of-the-environment".to_owned())]);
        secrets.add_permanent("of-the-configuration");
        for number in 0..50 {
            let key = format!("{number:04}{}", "x".repeat(1496));
            drop(server_configs(with_header("X-Api-Key", &key), &secrets));
            let text = format!("{key} of-the-environment of-the-configuration");
            let shown = secrets.current().redact(&text).into_owned();
            assert_eq!(shown, "[redacted] [redacted] [redacted]", "{number}");
        }
    }
}
