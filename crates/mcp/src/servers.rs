//! The servers of a session.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use acp_tools::{DynTool, LiveTools};
use acp_types::path::file_uri;
use callboard_text::count_with_noun;
use futures::future::{join, join_all};
use rmcp::model::Implementation;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::client::{AgentSide, ServerMessages};
use crate::config::{McpServerConfig, McpTransport, SessionFolders};
use crate::definition::{FirstToolDefinition, McpToolDescription, ToolDefinition};
use crate::limits::{
    LIST_INTERVAL, LIST_WAIT, MAX_KNOWN_TOOLS, MAX_NOTICES, MAX_SERVERS, START_DELAY,
};
use crate::lock::lock;
use crate::names::model_tool_name;
use crate::requests::{McpClientCapabilities, McpRequestHandler};
use crate::sandbox::{PreparedServerSandbox, ServerSandbox, off_refusal};
use crate::server::{ListedTools, RunningServer, program_env};
use crate::tool::{McpTool, ServerConnection};

/// The servers of a session. They start in the background, and end when the value is dropped.
#[derive(Debug)]
pub struct McpServers {
    state: Arc<ServersState>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    stop: CancellationToken,
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpServerState {
    /// The server is starting.
    Starting,
    /// The model can call the tools of the server.
    Ready {
        /// The tools, in the order of the server.
        tools: Vec<McpToolDescription>,
    },
    /// The server has failed or ended.
    Failed {
        /// The reason, as the end of a sentence for the user.
        reason: String,
    },
}

/// The name and the state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpServerStatus {
    /// The name of the server.
    pub name: String,
    /// The state of the server.
    pub state: McpServerState,
    /// Whether the server runs in the sandbox of the session's commands.
    pub is_sandboxed: bool,
}

struct ServersState {
    entries: Vec<ServerEntry>,
    live_tools: LiveTools,
    folders: SessionFolders,
    sandbox: Option<ServerSandbox>,
    agent: AgentSide,
    notices: Mutex<Vec<String>>,
    /// Locked while the state of a server changes and the tools are published.
    publishing: Mutex<()>,
    /// Number of servers that are still starting. Receivers are notified of each change of a
    /// server's state, also if the number stays the same.
    starting: watch::Sender<usize>,
}

struct ServerEntry {
    config: McpServerConfig,
    state: Mutex<EntryState>,
    /// Whether the user is waiting for the server.
    is_late: AtomicBool,
    restart: Notify,
    /// The first definition of each tool, by its name.
    first_definitions: Mutex<HashMap<String, Arc<FirstToolDefinition>>>,
    /// The last notice about the server.
    last_notice: Mutex<Option<String>>,
}

impl ServerEntry {
    fn is_starting(&self) -> bool {
        matches!(*lock(&self.state), EntryState::Starting | EntryState::Reconnecting)
    }

    /// Returns whether the server has lost its connection and is being connected again.
    fn is_reconnecting(&self) -> bool {
        match &*lock(&self.state) {
            EntryState::Reconnecting => true,
            // The task of the server has not yet noticed the loss, or ends the old connection.
            EntryState::Ready { server, .. } => {
                self.config.reconnects() && server.messages.is_lost()
            }
            EntryState::Starting | EntryState::Failed { .. } => false,
        }
    }
}

enum EntryState {
    Starting,
    /// The server is connected again after its connection was lost.
    Reconnecting,
    Ready {
        server: Arc<ServerConnection>,
        tools: Vec<Arc<ToolDefinition>>,
    },
    Failed {
        reason: String,
    },
}

impl McpServers {
    /// Starts servers in the background. Their tools appear in `live_tools` when they are ready, in
    /// the order of `configs`. `name` and `version` are those of the agent. If `sandbox` is `None`,
    /// servers whose configuration requests a sandbox do not start. `capabilities` states which
    /// requests of servers the [handler](Self::set_request_handler) answers.
    ///
    /// Must be called inside a tokio runtime. If several servers have the same name, only the first
    /// of them is used.
    #[must_use]
    pub fn start(
        configs: Vec<McpServerConfig>,
        folders: SessionFolders,
        sandbox: Option<ServerSandbox>,
        live_tools: LiveTools,
        (name, version): (&str, &str),
        capabilities: McpClientCapabilities,
    ) -> Self {
        let mut names = BTreeSet::new();
        let mut notices = Vec::new();
        let mut entries = Vec::new();
        for config in configs {
            if !names.insert(config.name.clone()) {
                notices.push(format!(
                    "There are several MCP servers {}; the first is used.",
                    config.name
                ));
            } else if entries.len() == MAX_SERVERS {
                notices.push(format!(
                    "The MCP server {} is not used: there are too many.",
                    config.name
                ));
            } else {
                let state = Mutex::new(EntryState::Starting);
                let is_late = AtomicBool::new(false);
                let (first_definitions, last_notice) = Default::default();
                entries.push(ServerEntry {
                    config,
                    state,
                    is_late,
                    restart: Notify::new(),
                    first_definitions,
                    last_notice,
                });
            }
        }
        notices.truncate(MAX_NOTICES);
        let starting = watch::Sender::new(entries.len());
        let agent = AgentSide {
            info: Implementation::new(name, version),
            roots: folders.roots.iter().map(|root| file_uri(root)).collect(),
            capabilities,
            handler: Arc::default(),
        };
        let state = Arc::new(ServersState {
            entries,
            live_tools,
            folders,
            sandbox,
            agent,
            notices: Mutex::new(notices),
            publishing: Mutex::default(),
            starting,
        });
        let stop = CancellationToken::new();
        let tasks = (0..state.entries.len())
            .map(|place| tokio::spawn(state.clone().run_server(place, stop.clone())))
            .collect();
        Self { state, tasks: Mutex::new(tasks), stop }
    }

    /// Sets the handler that answers the requests of servers. Only the first call has an effect.
    /// The servers hold only a weak reference to the handler.
    pub fn set_request_handler(&self, handler: Weak<dyn McpRequestHandler>) {
        // A second handler is ignored.
        drop(self.state.agent.handler.set(handler));
    }

    /// Waits until no server is starting. This may take as long as the [startup
    /// timeout](McpServerConfig::startup_timeout) of a server.
    pub async fn wait_started(&self) {
        // The sender lives as long as this value.
        drop(self.state.starting.subscribe().wait_for(|starting| *starting == 0).await);
    }

    /// Waits until the lists of tools contain the changes that servers have reported, and the tools
    /// of servers that are connected again after their connection was lost. Waits for a short time
    /// only.
    pub async fn wait_changes_listed(&self) {
        let entries = &self.state.entries;
        let connected = |entry: &ServerEntry| match &*lock(&entry.state) {
            EntryState::Ready { server, .. } if !server.messages.is_lost() => {
                Some(server.messages.clone())
            }
            _ => None,
        };
        let messages: Vec<_> = entries.iter().filter_map(connected).collect();
        let listed = join_all(messages.iter().map(ServerMessages::wait_until_changes_listed));
        drop(tokio::time::timeout(LIST_WAIT, join(listed, self.wait_reconnected())).await);
    }

    async fn wait_reconnected(&self) {
        let mut starting = self.state.starting.subscribe();
        let is_done = || !self.state.entries.iter().any(ServerEntry::is_reconnecting);
        // The sender lives as long as this value.
        drop(starting.wait_for(|_starting| is_done()).await);
    }

    /// Returns the names of the servers that are starting.
    #[must_use]
    pub fn starting(&self) -> Vec<String> {
        let entries = self.state.entries.iter().filter(|entry| entry.is_starting());
        entries.map(|entry| entry.config.name.clone()).collect()
    }

    /// For each server that is starting now, a notice is created as soon as the server is ready.
    pub fn enable_late_start_notices(&self) {
        for entry in &self.state.entries {
            entry.is_late.store(entry.is_starting(), Ordering::Relaxed);
        }
    }

    /// Returns the state of each server.
    #[must_use]
    pub fn statuses(&self) -> Vec<McpServerStatus> {
        let status = |entry: &ServerEntry| McpServerStatus {
            name: entry.config.name.clone(),
            state: match &*lock(&entry.state) {
                EntryState::Starting | EntryState::Reconnecting => McpServerState::Starting,
                EntryState::Ready { tools, .. } => McpServerState::Ready {
                    tools: tools.iter().map(|tool| tool.description_for_user()).collect(),
                },
                EntryState::Failed { reason } => McpServerState::Failed { reason: reason.clone() },
            },
            is_sandboxed: entry.config.is_sandboxed,
        };
        self.state.entries.iter().map(status).collect()
    }

    /// Returns the notices for the user that were created since the last call. Each notice is one
    /// or two sentences.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.state.notices))
    }

    /// Starts a server again. If the server runs, it is ended first. Returns `false` if there is no
    /// server with this name.
    pub fn restart(&self, name: &str) -> bool {
        let mut entries = self.state.entries.iter();
        let Some(place) = entries.position(|entry| entry.config.name == name) else { return false };
        let entry = &self.state.entries[place];
        if !entry.is_starting() {
            // New calls no longer use the old connection.
            self.state.set_state(place, EntryState::Starting);
            *lock(&entry.last_notice) = None;
            entry.restart.notify_one();
        }
        true
    }

    /// Ends all servers, and waits until none of their processes is left.
    pub async fn stop(&self) {
        self.stop.cancel();
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        drop(join_all(tasks).await);
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl ServersState {
    /// Runs a server, and starts it again if the user asks for it.
    async fn run_server(self: Arc<Self>, place: usize, stop: CancellationToken) {
        let entry = &self.entries[place];
        // Wait a moment. Starting the programs at once would delay the response to the request that
        // created the session.
        if stop.run_until_cancelled(sleep(START_DELAY)).await.is_none() {
            return;
        }
        loop {
            let ended = self.run_server_once(place, &stop).await;
            if stop.is_cancelled() {
                return;
            }
            if let Err(reason) = ended {
                let notice =
                    format!("The MCP server {} does not run: {reason}.", entry.config.name);
                self.add_notice_unless_repeated(place, notice);
                self.set_state(place, EntryState::Failed { reason });
                tokio::select! {
                    () = entry.restart.notified() => {}
                    () = stop.cancelled() => return,
                }
                self.set_state(place, EntryState::Starting);
            } else if !entry.is_starting() {
                // The user has not requested this start.
                self.set_state(place, EntryState::Reconnecting);
            }
        }
    }

    /// Runs a server until it should end or start again. Returns an error if the server ends by
    /// itself.
    async fn run_server_once(&self, place: usize, stop: &CancellationToken) -> Result<(), String> {
        let config = &self.entries[place].config;
        if !config.is_sandboxed {
            return self.start_offer_tools_and_end(place, None, stop).await;
        }
        let confined = self.prepare_sandbox(config).await?;
        let ended = self.start_offer_tools_and_end(place, Some(&confined), stop).await;
        if let Some(names) = confined.find_changed_protected_files().await {
            let notice = format!(
                "Protected files have changed while the MCP server {} ran, possibly by others: \
                 {names}. The sandbox could not prevent that.",
                config.name
            );
            self.add_notice_unless_repeated(place, notice);
        }
        ended
    }

    /// Prepares the sandbox of a server. If this fails, returns the reason.
    async fn prepare_sandbox(
        &self,
        config: &McpServerConfig,
    ) -> Result<PreparedServerSandbox, String> {
        let McpTransport::Stdio { env, .. } = &config.transport else {
            return Err("only the program of a server can run in the sandbox".to_owned());
        };
        let sandbox = self.sandbox.as_ref().ok_or_else(off_refusal)?;
        sandbox.prepare_for_program(program_env(env)).await
    }

    async fn start_offer_tools_and_end(
        &self,
        place: usize,
        confined: Option<&PreparedServerSandbox>,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let config = &self.entries[place].config;
        let messages = ServerMessages::new(config, self.agent.clone());
        let mut server =
            RunningServer::start(config, messages, &self.folders, confined, stop).await?;
        let served = self.offer_tools_until_end(place, &mut server, stop).await;
        // In every case, call `end`, so that the server can end by itself.
        let how = server.end().await;
        served.map_err(|reason| reason.unwrap_or(how))
    }

    /// Offers the tools of a server until the server should end or start again. Returns an error
    /// with the reason if the server cannot list its tools. Returns an error without a reason if
    /// the server has ended by itself.
    async fn offer_tools_until_end(
        &self,
        place: usize,
        server: &mut RunningServer,
        stop: &CancellationToken,
    ) -> Result<(), Option<String>> {
        let ServerEntry { config, restart, .. } = &self.entries[place];
        let server_messages = server.messages().clone();
        let mut is_first = true;
        loop {
            let changes = server.messages().reported_changes();
            let next_list = Instant::now() + LIST_INTERVAL;
            let listed = tokio::select! {
                listed = server.list_tools(config) => listed,
                () = restart.notified() => return Ok(()),
                () = stop.cancelled() => return Ok(()),
            };
            match listed {
                Ok(listed) => {
                    self.set_ready_with_tools(place, server.connection_for_calls(config), listed);
                }
                Err(reason) if is_first => return Err(Some(reason)),
                // Keep the earlier list. For example, the server may be busy with a call and read
                // no requests.
                Err(reason) => {
                    tracing::debug!(server = config.name, reason, "no new list of tools");
                }
            }
            is_first = false;
            server.messages().set_listed_changes(changes);
            tokio::select! {
                goes_on = server.wait_tools_changed_or_ended(next_list) => match goes_on {
                    true => {}
                    false => return Err(None),
                },
                // Starting the server again shows whether it can still be reached.
                () = server_messages.wait_until_connection_lost(), if config.reconnects() => return Ok(()),
                () = restart.notified() => return Ok(()),
                () = stop.cancelled() => return Ok(()),
            }
        }
    }

    fn set_ready_with_tools(&self, place: usize, server: ServerConnection, listed: ListedTools) {
        let ListedTools { tools, left_out, misnamed, malformed } = listed;
        let name = &server.name;
        if left_out > 0 {
            let notice =
                format!("The MCP server {name} has too many tools: {left_out} are left out.");
            self.add_notice_unless_repeated(place, notice);
        }
        if misnamed > 0 {
            self.add_notice_unless_repeated(
                place,
                format!(
                    "The MCP server {name} has tools with invalid names: {misnamed} are left out."
                ),
            );
        }
        if malformed > 0 {
            let notice = format!(
                "The MCP server {name} has tools with malformed definitions: {malformed} are left \
                 out."
            );
            self.add_notice_unless_repeated(place, notice);
        }
        self.set_state(place, EntryState::Ready { server: Arc::new(server), tools });
    }

    /// Adds a notice about a server, unless the notice repeats the previous notice about this
    /// server.
    fn add_notice_unless_repeated(&self, place: usize, notice: String) {
        let last = lock(&self.entries[place].last_notice).replace(notice.clone());
        let mut notices = lock(&self.notices);
        if last.as_ref() != Some(&notice) && notices.len() < MAX_NOTICES {
            notices.push(notice);
        }
    }

    fn set_state(&self, place: usize, state: EntryState) {
        let entry = &self.entries[place];
        if let EntryState::Ready { tools, .. } = &state
            && entry.is_late.swap(false, Ordering::Relaxed)
        {
            let tools = count_with_noun(tools.len() as u64, "tool", "tools");
            let notice = format!("The MCP server {} is ready: {tools}.", entry.config.name);
            self.add_notice_unless_repeated(place, notice);
        }
        // Lock, so that another task cannot publish an older list of tools after this one.
        let _one = lock(&self.publishing);
        let is_ready = |state: &EntryState| matches!(state, EntryState::Ready { .. });
        let offers = is_ready(&state);
        let before = std::mem::replace(&mut *lock(&entry.state), state);
        if offers || is_ready(&before) {
            self.publish_tools();
        }
        let starting = self.entries.iter().filter(|entry| entry.is_starting()).count();
        self.starting.send_replace(starting);
    }

    /// Offers the tools of all servers that are ready, in the order of the servers.
    fn publish_tools(&self) {
        let mut taken = BTreeSet::new();
        let mut all: Vec<Box<dyn DynTool>> = Vec::new();
        for entry in &self.entries {
            let EntryState::Ready { server, tools } = &*lock(&entry.state) else { continue };
            let mut first = lock(&entry.first_definitions);
            for definition in tools {
                let earlier = match first.get(&definition.name) {
                    Some(first) if first.digest == definition.digest => None,
                    Some(first) => Some(first.clone()),
                    // A tool whose first definition cannot be stored counts as changed.
                    None if first.len() >= MAX_KNOWN_TOOLS => {
                        Some(Arc::new(definition.to_comparison_parts()))
                    }
                    None => {
                        first.insert(
                            definition.name.clone(),
                            Arc::new(definition.to_comparison_parts()),
                        );
                        None
                    }
                };
                let name = model_tool_name(&server.name, &definition.name, &taken);
                taken.insert(name.clone());
                let (server, definition) = (server.clone(), definition.clone());
                all.push(Box::new(McpTool { name, server, definition, earlier }));
            }
        }
        self.live_tools.replace(all);
    }
}

impl std::fmt::Debug for ServersState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServersState").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
