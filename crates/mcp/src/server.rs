//! The life of one server: it starts, lists its tools, and ends.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, PipeReader};
use std::sync::Arc;

use callboard_process::{PipedCommand, PipedProgram, PipedStreams, env};
use callboard_text::escape_invisible;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CustomResult, ListToolsRequest, ListToolsResult, PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{RoleClient, RunningService, ServiceError, serve_client_with_ct};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::client::ServerMessages;
use crate::config::{McpServerConfig, McpTransport, SessionFolders};
use crate::definition::ToolDefinition;
use crate::http::build_same_origin_client;
use crate::limits::{CLOSE_TIMEOUT, EXIT_TIMEOUT, MAX_MESSAGE_BYTES, MAX_SERVER_TOOLS};
use crate::names::is_valid_server_tool_name;
use crate::oauth::{AuthorizedClient, ServerLogin, start_error_text};
use crate::output::LimitedReader;
use crate::sandbox::PreparedServerSandbox;
use crate::stderr::StderrTail;
use crate::tool::ServerConnection;
use crate::transport::RequestLimitingTransport;

/// A server that runs. Its processes are killed when the value is dropped.
pub(crate) struct RunningServer {
    service: RunningService<RoleClient, ServerMessages>,
    messages: ServerMessages,
    /// Cancelled when the connection is closed.
    closed: CancellationToken,
    program: Option<ServerProgram>,
    /// The login. `None` if the server is a program.
    login: Option<Arc<ServerLogin>>,
}

/// The running program of a server.
struct ServerProgram {
    program: PipedProgram,
    stderr: StderrTail,
}

/// A page of the list of a server's tools.
struct ToolPage {
    tools: Vec<Tool>,
    /// Number of tools whose definition cannot be decoded.
    malformed: usize,
    next_cursor: Option<String>,
}

/// The tools of a server, and the numbers of tools that were left out.
#[derive(Default)]
pub(crate) struct ListedTools {
    pub(crate) tools: Vec<Arc<ToolDefinition>>,
    /// Number of tools above the limit.
    pub(crate) left_out: usize,
    /// Number of tools with an invalid name.
    pub(crate) misnamed: usize,
    /// Number of tools whose definition cannot be decoded.
    pub(crate) malformed: usize,
}

impl RunningServer {
    /// Starts a server within its time limit. If this fails, returns the reason as the end of a
    /// sentence for the user.
    pub(crate) async fn start(
        config: &McpServerConfig,
        messages: ServerMessages,
        folders: &SessionFolders,
        confined: Option<&PreparedServerSandbox>,
        stop: &CancellationToken,
    ) -> Result<Self, String> {
        match &config.transport {
            McpTransport::Stdio { .. } => {
                Self::start_program(config, messages, folders, confined, stop).await
            }
            McpTransport::Http { url, headers } => {
                let login = Arc::new(ServerLogin::new(config, url, headers));
                let client =
                    AuthorizedClient::new(build_same_origin_client(url).await?, login.clone());
                let closed = CancellationToken::new();
                let transport = http_transport(client, url, headers)?;
                let transport = RequestLimitingTransport::new(transport, &closed);
                let service = serve_client_with_ct(messages.clone(), transport, stop.child_token());
                match timeout(config.startup_timeout, service).await {
                    Ok(Ok(service)) => {
                        Ok(Self { service, messages, closed, program: None, login: Some(login) })
                    }
                    Ok(Err(error)) => Err(start_error_text(&login, &error)),
                    Err(_elapsed) => Err(startup_timeout_text(config)),
                }
            }
        }
    }

    async fn start_program(
        config: &McpServerConfig,
        messages: ServerMessages,
        folders: &SessionFolders,
        confined: Option<&PreparedServerSandbox>,
        stop: &CancellationToken,
    ) -> Result<Self, String> {
        let McpTransport::Stdio { command: program_name, args, env: own, cwd } = &config.transport
        else {
            return Err("it is no program".to_owned());
        };
        let variables = confined.map_or_else(|| program_env(own), |it| it.env.clone());
        let cwd = cwd.as_ref().unwrap_or(&folders.cwd);
        let command = PipedCommand::new(program_name, cwd, variables).with_args(args);
        let command = command.with_sandbox(confined.map(|it| it.sandbox.clone()));
        let started = command.start().await;
        let (mut program, streams) =
            started.map_err(|error| format!("{}: {error}", escape_invisible(program_name)))?;
        let PipedStreams { data, errors, .. } = streams;
        let (data, errors) = async_streams(data, errors).map_err(|error| error.to_string())?;
        let stderr = StderrTail::read_in_background(errors);
        let (read, write) = data.into_split();
        let calls = messages.clone();
        let read = LimitedReader::new(read, move || calls.report_cut_message());
        let closed = CancellationToken::new();
        let transport = RequestLimitingTransport::new(AsyncRwTransport::new(read, write), &closed);
        let service = serve_client_with_ct(messages.clone(), transport, stop.child_token());
        match timeout(config.startup_timeout, service).await {
            Ok(Ok(service)) => {
                let program = Some(ServerProgram { program, stderr });
                Ok(Self { service, messages, closed, program, login: None })
            }
            Ok(Err(error)) => {
                let exit = stop.run_until_cancelled(timeout(EXIT_TIMEOUT, program.wait())).await;
                let why = match exit {
                    Some(Ok(Err(error))) => return Err(error.to_string()),
                    Some(Ok(Ok(exit))) => exit_text(&exit),
                    Some(Err(_)) | None => {
                        program.stop().await;
                        escape_invisible(&error.to_string())
                    }
                };
                Err(with_stderr(why, &stderr).await)
            }
            Err(_elapsed) => {
                program.stop().await;
                Err(with_stderr(startup_timeout_text(config), &stderr).await)
            }
        }
    }

    /// Lists the tools of the server. A server that does not declare the capability `tools` has no
    /// tools, and is not asked. If listing fails, returns the reason.
    pub(crate) async fn list_tools(&self, config: &McpServerConfig) -> Result<ListedTools, String> {
        let info = self.service.peer_info();
        if info.is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(ListedTools::default());
        }
        let listed = timeout(config.startup_timeout, self.list_all_pages(config)).await;
        listed.unwrap_or_else(|_elapsed| Err("it does not list its tools".to_owned()))
    }

    async fn list_all_pages(&self, config: &McpServerConfig) -> Result<ListedTools, String> {
        let (mut listed, address) = (ListedTools::default(), config.identity_for_permissions());
        let mut cursor = None;
        for _ in 0..MAX_SERVER_TOOLS {
            let page = self.list_page(cursor).await.map_err(|error| match &self.login {
                Some(login) => start_error_text(login, &error),
                None => escape_invisible(&error.to_string()),
            })?;
            listed.malformed += page.malformed;
            let wanted = page.tools.iter().filter(|tool| config.tools.contains(&tool.name));
            for tool in wanted {
                if !is_valid_server_tool_name(&tool.name) {
                    listed.misnamed += 1;
                } else if listed.tools.len() < MAX_SERVER_TOOLS {
                    listed.tools.push(Arc::new(ToolDefinition::from_server(tool, &address)));
                } else {
                    listed.left_out += 1;
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(listed);
            }
        }
        Err("its list of tools has too many pages".to_owned())
    }

    async fn list_page(&self, cursor: Option<String>) -> Result<ToolPage, ServiceError> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        match self.service.list_tools(Some(params.clone())).await {
            Ok(page) => {
                let ListToolsResult { tools, next_cursor, .. } = page;
                Ok(ToolPage { tools, malformed: 0, next_cursor })
            }
            // The SDK cannot decode the page, and does not return it. One malformed tool must not
            // hide the others, so request the page again, without a type.
            Err(ServiceError::UnexpectedResponse) => {
                let request = ListToolsRequest::with_param(params);
                match self.service.send_request(request.into()).await? {
                    ServerResult::CustomResult(CustomResult(page)) => ToolPage::decode(page),
                    _ => None,
                }
                .ok_or(ServiceError::UnexpectedResponse)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the messages of the server.
    pub(crate) fn messages(&self) -> &ServerMessages {
        &self.messages
    }

    /// Waits until the tools have changed, at least until `earliest`. Returns `false` if the server
    /// or its login ends before that.
    pub(crate) async fn wait_tools_changed_or_ended(&mut self, earliest: Instant) -> bool {
        let ended = async {
            match &mut self.program {
                // The connection may stay open after the end of the program, e.g. because a child
                // process of the program holds it. The output that the program wrote before its end
                // is still read.
                Some(program) => {
                    drop(program.program.wait().await);
                    drop(timeout(CLOSE_TIMEOUT, self.closed.cancelled()).await);
                }
                None => std::future::pending().await,
            }
        };
        let changed = async {
            self.messages.wait_for_unlisted_tool_changes().await;
            sleep_until(earliest).await;
        };
        let login_ended = async {
            match &self.login {
                Some(login) => login.wait_until_ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = login_ended => false,
            () = changed => !self.service.is_closed(),
            () = ended => false,
            () = self.closed.cancelled() => false,
        }
    }

    /// Ends the server. Returns a text that states how the server ended. The text is only
    /// meaningful if the server has ended by itself.
    pub(crate) async fn end(mut self) -> String {
        let ended_login = self.login.as_ref().filter(|login| login.has_ended());
        let closed = ended_login.map(|login| login.need_text());
        let closed = closed.unwrap_or_else(|| "its connection was closed".to_owned());
        // Close the connection first. A well-behaved server then ends by itself.
        drop(self.service.close_with_timeout(CLOSE_TIMEOUT).await);
        let Some(ServerProgram { mut program, stderr }) = self.program else {
            return closed;
        };
        match timeout(CLOSE_TIMEOUT, program.wait()).await {
            Ok(Ok(exit)) => with_stderr(exit_text(&exit), &stderr).await,
            Ok(Err(error)) => error.to_string(),
            Err(_elapsed) => {
                program.stop().await;
                with_stderr(closed, &stderr).await
            }
        }
    }

    /// Returns the connection that calls use.
    pub(crate) fn connection_for_calls(&self, config: &McpServerConfig) -> ServerConnection {
        ServerConnection {
            name: config.name.clone(),
            peer: self.service.peer().clone(),
            messages: self.messages.clone(),
            call_timeout: config.call_timeout,
            login: self.login.clone(),
        }
    }
}

impl ToolPage {
    /// Decodes each tool of a page separately. Returns `None` if the page has no list of tools.
    fn decode(mut page: Value) -> Option<Self> {
        let Value::Array(all) = page.get_mut("tools")?.take() else { return None };
        let count = all.len();
        let decoded = all.into_iter().filter_map(|tool| serde_json::from_value(tool).ok());
        let tools: Vec<Tool> = decoded.collect();
        let next_cursor = page["nextCursor"].as_str().map(str::to_owned);
        Some(Self { malformed: count - tools.len(), tools, next_cursor })
    }
}

/// Returns the environment of a program: a few harmless variables of this process, and the
/// variables of the configuration.
pub(crate) fn program_env(own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut variables = env::base_env(env::own_env());
    variables.extend(own.clone());
    variables
}

/// Converts streams to streams of the tokio runtime.
fn async_streams(
    data: std::os::unix::net::UnixStream,
    errors: PipeReader,
) -> io::Result<(UnixStream, Receiver)> {
    data.set_nonblocking(true)?;
    Ok((UnixStream::from_std(data)?, Receiver::from_owned_fd(errors.into())?))
}

fn http_transport(
    client: AuthorizedClient,
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<AuthorizedClient>, String> {
    let header = |(name, value): &(String, String)| {
        let parsed = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
        parsed.ok_or_else(|| format!("its header {} is malformed", escape_invisible(name)))
    };
    let headers: HashMap<_, _> = headers.iter().map(header).collect::<Result<_, _>>()?;
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        .max_json_response_size(MAX_MESSAGE_BYTES)
        .max_sse_event_size(MAX_MESSAGE_BYTES);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn startup_timeout_text(config: &McpServerConfig) -> String {
    format!("it did not start within {} s", config.startup_timeout.as_secs_f64())
}

fn exit_text(exit: &callboard_process::CommandExit) -> String {
    match (exit.code, &exit.signal) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}

/// Adds the last lines of the standard error to a reason.
async fn with_stderr(why: String, stderr: &StderrTail) -> String {
    let lines = stderr.last_lines().await;
    if lines.is_empty() { why } else { format!("{why}; its last lines: {}", lines.join(" / ")) }
}
