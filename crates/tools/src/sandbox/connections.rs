//! The connections of sandboxed commands to other hosts. For each new host, the call of the command
//! requests permission.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex};

use acp_lifecycle::{CallHandle, Titles, Verdict};
use acp_types::Content;
use callboard_text::escape_invisible;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio_util::sync::CancellationToken;

use super::proxy::ConnectionVerdict;
use crate::host_permission::{connect_effects, has_allow_rule_for_host};
use crate::limits::{MAX_COMMAND_HOSTS, MAX_REFUSED_HOSTS_SHOWN};
use crate::lock::lock;
use crate::network::Destination;
use crate::note::Note;

/// The commands of a session that may connect to other hosts through the proxy.
#[derive(Debug, Default)]
pub(super) struct SessionConnections {
    /// The running commands. The key of a command is the user name that its processes send to the
    /// proxy.
    commands: Mutex<HashMap<String, Arc<CommandState>>>,
}

/// The connections of one command. They end when the value is dropped.
#[derive(Debug)]
pub(super) struct CommandConnections {
    name: String,
    session: Arc<SessionConnections>,
    state: Arc<CommandState>,
}

struct CommandState {
    call: CallHandle,
    titles: Arc<Titles>,
    /// Whether an upstream proxy resolves the names of hosts.
    has_upstream: bool,
    /// For each host, whether the command may connect to it. Permission is requested only once per
    /// host.
    answers: Mutex<HashMap<String, Shared<BoxFuture<'static, bool>>>>,
    /// Locked while a permission request is open, so that a command has only one open request at a
    /// time.
    asking: tokio::sync::Mutex<()>,
    refused: Mutex<BTreeSet<String>>,
    /// Whether every connection is refused without a request.
    refuses_all: bool,
    /// Cancelled when a connection was refused.
    has_refused: CancellationToken,
    /// Cancelled when the command has ended.
    ended: CancellationToken,
}

impl SessionConnections {
    /// Adds a command. Its permission requests belong to `call` and have the language of `titles`.
    pub(super) fn add_command(
        self: &Arc<Self>,
        call: CallHandle,
        titles: Arc<Titles>,
        has_upstream: bool,
    ) -> CommandConnections {
        self.add(call, titles, (has_upstream, false))
    }

    /// Adds a command without access to other hosts. The connections are refused and recorded.
    pub(super) fn add_command_without_access(
        self: &Arc<Self>,
        call: CallHandle,
        titles: Arc<Titles>,
    ) -> CommandConnections {
        self.add(call, titles, (false, true))
    }

    fn add(
        self: &Arc<Self>,
        call: CallHandle,
        titles: Arc<Titles>,
        (has_upstream, refuses_all): (bool, bool),
    ) -> CommandConnections {
        // All commands share one loopback interface, and each command can reach the proxy. The name
        // is random, so that no command can guess the name of another command.
        let random = || RandomState::new().build_hasher().finish();
        let name = format!("{:016x}{:016x}", random(), random());
        let state = Arc::new(CommandState {
            call,
            titles,
            has_upstream,
            answers: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            refused: Mutex::default(),
            refuses_all,
            has_refused: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        lock(&self.commands).insert(name.clone(), state.clone());
        CommandConnections { name, session: self.clone(), state }
    }

    /// Decides about a connection. `name` is the user name that the client has sent. If the client
    /// has sent no name and only one command runs, the connection belongs to this command.
    pub(super) async fn judge(
        &self,
        name: Option<String>,
        destination: Destination,
    ) -> ConnectionVerdict {
        let state = {
            let commands = lock(&self.commands);
            match name {
                Some(name) => commands.get(&name).cloned(),
                None if commands.len() == 1 => commands.values().next().cloned(),
                None => return ConnectionVerdict::NeedsCredentials,
            }
        };
        let ended = || ConnectionVerdict::Refuse { reason: "The command has ended.".to_owned() };
        let Some(state) = state else { return ended() };
        tokio::select! {
            () = state.ended.cancelled() => ended(),
            verdict = judge_connection(&state, destination) => verdict,
        }
    }
}

/// Decides about a connection of a running command.
async fn judge_connection(
    state: &Arc<CommandState>,
    destination: Destination,
) -> ConnectionVerdict {
    let Destination { host, .. } = destination;
    if state.refuses_all {
        return state.refuse(host);
    }
    let answer = {
        let mut answers = lock(&state.answers);
        match answers.get(&host) {
            Some(answer) => answer.clone(),
            None if answers.len() >= MAX_COMMAND_HOSTS => {
                let reason = format!("A command may connect to {MAX_COMMAND_HOSTS} hosts.");
                return ConnectionVerdict::Refuse { reason };
            }
            None => {
                // The user is asked once, even if the client disconnects and tries again.
                let asking = tokio::spawn(judge_host_or_ask_user(state.clone(), host.clone()));
                let answer = asking.map(|asked| asked.unwrap_or(false)).boxed().shared();
                answers.insert(host.clone(), answer.clone());
                answer
            }
        }
    };
    if answer.await {
        // A rule that allows the host by name also allows private addresses, because the host may
        // be in the user's own network.
        let allows_private_addresses = has_allow_rule_for_host(&state.call, &host);
        return ConnectionVerdict::Allow { allows_private_addresses };
    }
    state.refuse(host)
}

/// Returns whether a command may connect to a host. Requests permission if neither a rule nor the
/// policy decides.
async fn judge_host_or_ask_user(state: Arc<CommandState>, host: String) -> bool {
    let ask = async {
        let _one = state.asking.lock().await;
        match state.judge_host(&host) {
            Verdict::Allow => true,
            Verdict::Ask => {
                let key = if state.has_upstream { "connects-upstream" } else { "connects" };
                let note = Note::new(key).with_text("host", escape_invisible(&host));
                state.call.append_content(Content::from_text(note.render(&state.titles)));
                state.call.request_further_effects(&connect_effects(&host)).await.is_ok()
            }
            _ => false,
        }
    };
    tokio::select! {
        () = state.ended.cancelled() => false,
        is_allowed = ask => is_allowed,
    }
}

impl CommandState {
    fn refuse(&self, host: String) -> ConnectionVerdict {
        let reason = format!("Connections to {host} are not permitted.");
        let mut refused = lock(&self.refused);
        if refused.len() < MAX_COMMAND_HOSTS {
            refused.insert(host);
        }
        self.has_refused.cancel();
        ConnectionVerdict::Refuse { reason }
    }

    fn judge_host(&self, host: &str) -> Verdict {
        self.call.judge_effects(&connect_effects(host))
    }
}

impl CommandConnections {
    /// Returns the user name that the processes of this command send to the proxy.
    pub(super) fn proxy_user(&self) -> &str {
        &self.name
    }

    /// Waits until a connection was refused.
    pub(super) async fn wait_for_refusal(&self) {
        self.state.has_refused.cancelled().await;
    }

    /// If a permission request is open, waits until the user has answered it.
    pub(super) async fn wait_for_open_permission_request(&self) {
        drop(self.state.asking.lock().await);
    }

    /// Returns the hosts to which connections were refused since the last call, as text. Returns
    /// `None` if no connections were refused.
    pub(super) fn take_refused(&self) -> Option<String> {
        let refused = std::mem::take(&mut *lock(&self.state.refused));
        let shown: Vec<_> = refused
            .iter()
            .take(MAX_REFUSED_HOSTS_SHOWN)
            .map(|host| escape_invisible(host))
            .collect();
        let more = if refused.len() > shown.len() { ", ..." } else { "" };
        (!shown.is_empty()).then(|| shown.join(", ") + more)
    }
}

impl Drop for CommandConnections {
    fn drop(&mut self) {
        self.state.ended.cancel();
        lock(&self.session.commands).remove(&self.name);
    }
}

impl fmt::Debug for CommandState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CommandState").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
