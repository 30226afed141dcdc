//! The configuration of a server.

use std::collections::BTreeMap;
use std::iter;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{CALL_TIMEOUT, STARTUP_TIMEOUT};
use crate::login::McpLoginConfig;

/// The configuration of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpServerConfig {
    /// The name of the server in rules and for the user. The name must be unique in a session.
    pub name: String,
    /// How the server is reached.
    pub transport: McpTransport,
    /// Whether the program of the server runs in the sandbox of the session's commands. If the
    /// sandbox does not work, the server does not start.
    pub is_sandboxed: bool,
    /// Time after which a server that has not started counts as failed.
    pub startup_timeout: Duration,
    /// Time without a result or progress after which a call fails.
    pub call_timeout: Duration,
    /// The tools that the model receives.
    pub tools: ToolFilter,
    /// How the agent logs in to a server over HTTP. If this field is `None`, a server that needs a
    /// login counts as failed.
    pub login: Option<McpLoginConfig>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// The server is a program. The agent starts the program, and communicates over its standard
    /// streams.
    Stdio {
        /// Name or path of the program.
        command: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// Environment variables of the program, in addition to a few harmless ones, e.g. `PATH`.
        env: BTreeMap<String, String>,
        /// The working directory. `None` means the working directory of the session.
        cwd: Option<PathBuf>,
    },
    /// The server speaks streamable HTTP.
    Http {
        /// The URL of the server.
        url: String,
        /// Additional headers of each request.
        headers: Vec<(String, String)>,
    },
}

/// The tools of a server that the model receives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolFilter {
    /// The names of the tools. `None` means all tools.
    pub allow: Option<Vec<String>>,
    /// The names of tools that are left out, even if `allow` contains them.
    pub deny: Vec<String>,
}

/// The folders of a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionFolders {
    /// The working directory, in which servers start.
    pub cwd: PathBuf,
    /// The project folders. Servers can request this list.
    pub roots: Vec<PathBuf>,
}

impl SessionFolders {
    /// Creates the folders of a session.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { cwd: cwd.into(), roots: roots.into_iter().collect() }
    }
}

impl McpServerConfig {
    /// Returns the URL, or the program with its arguments, its folder and whether it is sandboxed.
    /// A remembered answer applies only to a server with the same name and the same address.
    /// Environment variables and headers are no part of the address, because they often contain
    /// tokens that are renewed.
    pub(crate) fn identity_for_permissions(&self) -> String {
        match &self.transport {
            McpTransport::Stdio { command, args, cwd, .. } => {
                let words = iter::once(command).chain(args).map(|word| format!("{word}\0"));
                format!("{}{cwd:?} {}", words.collect::<String>(), self.is_sandboxed)
            }
            McpTransport::Http { url, .. } => url.clone(),
        }
    }

    /// Returns whether a lost connection to the server is opened again. A program that has ended is
    /// started again only if the user requests it.
    pub(crate) fn reconnects(&self) -> bool {
        matches!(self.transport, McpTransport::Http { .. })
    }

    /// Creates a configuration with the default timeouts, without a sandbox and without a login.
    /// All tools of the server are used.
    #[must_use]
    pub fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        Self {
            name: name.into(),
            transport,
            is_sandboxed: false,
            startup_timeout: STARTUP_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            tools: ToolFilter::default(),
            login: None,
        }
    }
}

impl McpTransport {
    /// Creates the transport of a program.
    #[must_use]
    pub fn stdio(
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Stdio { command: command.into(), args, env: BTreeMap::new(), cwd: None }
    }
}

impl ToolFilter {
    /// Returns whether the model receives a tool.
    #[must_use]
    pub fn contains(&self, tool: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.iter().any(|name| name == tool))
            && !self.deny.iter().any(|name| name == tool)
    }
}

/// Omits the values of variables and headers, because they may contain keys.
impl std::fmt::Debug for McpTransport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdio { command, args, cwd, env } => formatter
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("cwd", cwd)
                .field("env", &env.keys())
                .finish(),
            Self::Http { url, headers } => formatter
                .debug_struct("Http")
                .field("url", url)
                .field("headers", &headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
                .finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_reached_differently_have_different_addresses() {
        let stdio = |command: &str, args: &[&str]| {
            let args = args.iter().map(ToString::to_string).collect();
            let (command, env) = (command.to_owned(), BTreeMap::new());
            McpServerConfig::new("x", McpTransport::Stdio { command, args, env, cwd: None })
        };
        let http = |url: &str| {
            McpServerConfig::new("x", McpTransport::Http { url: url.to_owned(), headers: vec![] })
        };
        let in_folder = |folder: &str| {
            let mut server = stdio("a", &[]);
            if let McpTransport::Stdio { cwd, .. } = &mut server.transport {
                *cwd = Some(folder.into());
            }
            server
        };
        let mut sandboxed = stdio("a", &[]);
        sandboxed.is_sandboxed = true;
        let servers = [
            in_folder("/x"),
            in_folder("/y"),
            sandboxed,
            stdio("a", &[]),
            stdio("a", &["b", "c"]),
            stdio("a", &["b c"]),
            stdio("a b", &["c"]),
            stdio("ab", &["c"]),
            http("http://a/"),
            http("https://a/"),
        ];
        let addresses: std::collections::BTreeSet<_> =
            servers.iter().map(McpServerConfig::identity_for_permissions).collect();
        assert_eq!(addresses.len(), servers.len());
    }
}
