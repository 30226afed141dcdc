//! The sandbox of a server's program.

use std::collections::BTreeMap;
use std::sync::Arc;

use acp_lifecycle::SessionHandle;
use acp_tools::Workspace;
use acp_tools::sandbox::{CommandIsolation, ServerSandboxLease};
use callboard_process::CommandSandbox;
use callboard_text::escape_invisible;
use tokio::task::spawn_blocking;

/// The sandbox of a session's commands. Servers whose configuration requests a sandbox run in it.
#[derive(Clone)]
pub struct ServerSandbox {
    isolation: Arc<CommandIsolation>,
    workspace: Arc<Workspace>,
    session: SessionHandle,
}

/// The environment and the sandbox of a program that is about to start.
pub(crate) struct PreparedServerSandbox {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) sandbox: CommandSandbox,
    workspace: Arc<Workspace>,
    lease: ServerSandboxLease,
}

impl ServerSandbox {
    /// Creates the sandbox of a session with this isolation of commands and these project folders.
    /// Files that the rules of `session` deny reading are hidden.
    #[must_use]
    pub fn new(
        isolation: Arc<CommandIsolation>,
        workspace: Arc<Workspace>,
        session: SessionHandle,
    ) -> Self {
        Self { isolation, workspace, session }
    }

    /// Prepares the sandbox of a program. `env` is the environment of the program. If this fails,
    /// returns the reason as the end of a sentence for the user.
    pub(crate) async fn prepare_for_program(
        &self,
        mut env: BTreeMap<String, String>,
    ) -> Result<PreparedServerSandbox, String> {
        if let CommandIsolation::Unavailable { reason } = &*self.isolation {
            return Err(refusal(reason));
        }
        let Self { isolation, workspace, session } = self.clone();
        let confine = move || match &*isolation {
            CommandIsolation::Sandbox(sandbox) => {
                let confined = sandbox.confine_server(&mut env, &workspace, &session);
                let confined = confined.map_err(|error| {
                    let error = escape_invisible(&error.to_string());
                    format!("its sandbox cannot be prepared: {error}")
                });
                confined.map(|(sandbox, lease)| PreparedServerSandbox {
                    env,
                    sandbox,
                    workspace,
                    lease,
                })
            }
            _ => Err(off_refusal()),
        };
        spawn_blocking(confine).await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

impl PreparedServerSandbox {
    /// Returns the protected files that have changed while the server ran, as text. Returns `None`
    /// if no protected file has changed.
    pub(crate) async fn find_changed_protected_files(self) -> Option<String> {
        let find = move || {
            let names = self.lease.changed_names();
            let shown: Vec<_> = names.iter().map(|name| self.workspace.display(name)).collect();
            (!shown.is_empty()).then(|| shown.join(", "))
        };
        spawn_blocking(find).await.ok().flatten()
    }
}

/// The reason why a server does not start in a session without a sandbox.
pub(crate) fn off_refusal() -> String {
    refusal("the sandbox of this session is switched off; start the session with its sandbox")
}

fn refusal(reason: &str) -> String {
    format!(
        "its configuration has `sandbox = true`, and {reason}; without this key, the server runs \
         with all your rights"
    )
}

impl std::fmt::Debug for ServerSandbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServerSandbox").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use acp_lifecycle::Session;
    use acp_tools::LiveTools;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{McpClientCapabilities, McpServerConfig, McpServers, McpTransport, SessionFolders};

    /// Starts a server that requests a sandbox, and returns the notices.
    async fn notices(config: McpServerConfig, isolation: Option<CommandIsolation>) -> Vec<String> {
        let folder = std::env::temp_dir();
        let workspace = Arc::new(Workspace::new(folder.clone(), Vec::new()).unwrap());
        let sandbox = isolation.map(|isolation| {
            let session = SessionHandle::new(Session::new(&folder), SystemTime::now);
            ServerSandbox::new(Arc::new(isolation), workspace, session)
        });
        let folders = SessionFolders::new(&folder, [folder.clone()]);
        let config = McpServerConfig { is_sandboxed: true, ..config };
        let agent = ("agent", "1");
        let servers = McpServers::start(
            vec![config],
            folders,
            sandbox,
            LiveTools::default(),
            agent,
            McpClientCapabilities::default(),
        );
        servers.wait_started().await;
        servers.stop().await;
        servers.take_notices()
    }

    #[tokio::test]
    async fn without_a_sandbox_the_program_is_not_started() {
        let made = std::env::temp_dir().join(format!("callboard-made-{}", std::process::id()));
        let config = || {
            McpServerConfig::new("one", McpTransport::stdio("mkdir", [made.display().to_string()]))
        };
        let refused = |reason| {
            let why = "its configuration has `sandbox = true`, and";
            let without = "without this key, the server runs with all your rights";
            vec![format!("The MCP server one does not run: {why} {reason}; {without}.")]
        };
        let off = "the sandbox of this session is switched off; start the session with its sandbox";
        assert_eq!(notices(config(), None).await, refused(off));
        assert_eq!(notices(config(), Some(CommandIsolation::Off)).await, refused(off));
        let reason = "none works here (no); advice".to_owned();
        let unavailable = CommandIsolation::Unavailable { reason: reason.clone() };
        assert_eq!(notices(config(), Some(unavailable)).await, refused(&reason));
        assert!(!made.exists());
    }

    #[tokio::test]
    async fn a_server_over_http_has_no_sandbox() {
        let transport =
            McpTransport::Http { url: "http://127.0.0.1:9/".to_owned(), headers: Vec::new() };
        let notices = notices(McpServerConfig::new("one", transport), None).await;
        assert!(notices[0].contains("only the program of a server"), "{notices:?}");
    }
}
