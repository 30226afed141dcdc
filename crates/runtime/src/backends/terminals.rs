//! The terminals of a client, in which the client runs commands for the agent: `terminal/*`.
//!
//! (<https://agentclientprotocol.com/protocol/v1/terminals>)

use std::sync::Arc;

use acp_connection::{ClientRequestSender, ClientSession};
use acp_tools::{ClientCommand, ClientError, ClientOutput, ClientTerminal, TerminalBackend};
use acp_types::TerminalExit;
use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, EnvVariable, KillTerminalRequest, ReleaseTerminalRequest, SessionId,
    TerminalExitStatus, TerminalId, TerminalOutputRequest, WaitForTerminalExitRequest,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::client_error;
use crate::limits::{
    CLIENT_TERMINAL_CREATE_TIMEOUT, CLIENT_TERMINAL_LATE_CREATE_TIMEOUT,
    CLIENT_TERMINAL_REQUEST_TIMEOUT, CLIENT_TERMINAL_WAIT_TIMEOUT,
};

/// Creates terminals in the client.
#[derive(Debug, Clone)]
pub(crate) struct ClientTerminals {
    session: SessionId,
    requests: ClientRequestSender,
}

/// A terminal of the client. The terminal is released when this value is dropped.
#[derive(Debug)]
struct Terminal {
    id: TerminalId,
    client: ClientTerminals,
}

impl ClientTerminals {
    pub(crate) fn for_client(client: &ClientSession) -> Option<Self> {
        let (session, requests) = (client.id().clone(), client.request_sender().clone());
        let terminals = Self { session, requests };
        client.capabilities().terminal.then_some(terminals)
    }
}

impl TerminalBackend for ClientTerminals {
    fn create(
        &self,
        command: ClientCommand,
    ) -> BoxFuture<'_, Result<Arc<dyn ClientTerminal>, ClientError>> {
        let ClientCommand { program, args, env, cwd, output_bytes, .. } = command;
        let env = env.into_iter().map(|(name, value)| EnvVariable::new(name, value)).collect();
        let request = CreateTerminalRequest::new(self.session.clone(), program)
            .args(args)
            .env(env)
            .cwd(cwd)
            .output_byte_limit(output_bytes);
        let client = self.clone();
        let made = self.requests.acquire_resource(
            request,
            CLIENT_TERMINAL_CREATE_TIMEOUT,
            CLIENT_TERMINAL_LATE_CREATE_TIMEOUT,
            move |response| Terminal { id: response.terminal_id, client },
        );
        made.map(|made| Ok(Arc::new(made.map_err(client_error)?) as _)).boxed()
    }
}

impl ClientTerminal for Terminal {
    fn id(&self) -> &str {
        &self.id.0
    }

    fn wait(&self) -> BoxFuture<'_, Result<TerminalExit, ClientError>> {
        let Self { id, client } = self;
        let request = WaitForTerminalExitRequest::new(client.session.clone(), id.clone());
        let asked = client.requests.send_and_wait(request, CLIENT_TERMINAL_WAIT_TIMEOUT);
        asked.map(|answer| Ok(exit_from_status(answer.map_err(client_error)?.exit_status))).boxed()
    }

    fn output(&self) -> BoxFuture<'_, Result<ClientOutput, ClientError>> {
        let Self { id, client } = self;
        let request = TerminalOutputRequest::new(client.session.clone(), id.clone());
        let asked = client.requests.send_and_wait(request, CLIENT_TERMINAL_REQUEST_TIMEOUT);
        let output = asked.map(|answer| {
            let answer = answer.map_err(client_error)?;
            let mut output = ClientOutput::default();
            (output.text, output.is_truncated) = (answer.output, answer.truncated);
            output.exit = answer.exit_status.map(exit_from_status);
            Ok(output)
        });
        output.boxed()
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), ClientError>> {
        let Self { id, client } = self;
        let request = KillTerminalRequest::new(client.session.clone(), id.clone());
        let asked = client.requests.send_and_wait(request, CLIENT_TERMINAL_REQUEST_TIMEOUT);
        asked.map(|answer| answer.map(drop).map_err(client_error)).boxed()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let Self { id, client } = self;
        let request = ReleaseTerminalRequest::new(client.session.clone(), id.clone());
        client.requests.release_resource(request, CLIENT_TERMINAL_REQUEST_TIMEOUT);
    }
}

/// Converts an exit status. A code that does not fit into an `i32` becomes `i32::MAX`, which is a
/// failure too.
fn exit_from_status(status: TerminalExitStatus) -> TerminalExit {
    let code = status.exit_code.map(|code| i32::try_from(code).unwrap_or(i32::MAX));
    TerminalExit { code, signal: status.signal }
}
