//! Reads and writes the client's texts of files: `fs/read_text_file` and `fs/write_text_file`.
//!
//! (<https://agentclientprotocol.com/protocol/file-system>)

use std::path::Path;

use acp_connection::{ClientRequestError, ClientRequestSender, ClientSession};
use acp_tools::{ClientError, UnsavedTextBackend};
use agent_client_protocol::v1::schema::{ReadTextFileRequest, SessionId, WriteTextFileRequest};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::client_error;
use crate::limits::{CLIENT_TEXT_READ_TIMEOUT, CLIENT_TEXT_WRITE_TIMEOUT};

/// The texts of the files that are open in the client.
#[derive(Debug, Clone)]
pub(crate) struct ClientTextFiles {
    session: SessionId,
    requests: ClientRequestSender,
    writes: bool,
}

impl ClientTextFiles {
    /// Returns the text files of a client. Returns `None` if the agent cannot read texts from the
    /// client. The client's unsaved changes are then unknown, and texts that the agent writes would
    /// overwrite these changes.
    pub(crate) fn for_client(client: &ClientSession) -> Option<Self> {
        let capabilities = &client.capabilities().fs;
        let (session, requests) = (client.id().clone(), client.request_sender().clone());
        let texts = Self { session, requests, writes: capabilities.write_text_file };
        capabilities.read_text_file.then_some(texts)
    }
}

impl UnsavedTextBackend for ClientTextFiles {
    fn can_write(&self) -> bool {
        self.writes
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, ClientError>> {
        let request = ReadTextFileRequest::new(self.session.clone(), path);
        let asked = self.requests.send_and_wait(request, CLIENT_TEXT_READ_TIMEOUT);
        asked.map(|answer| Ok(answer.map_err(client_error)?.content)).boxed()
    }

    fn write<'a>(
        &'a self,
        path: &'a Path,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), ClientError>> {
        let request = WriteTextFileRequest::new(self.session.clone(), path, text);
        let asked = self.requests.send_and_wait(request, CLIENT_TEXT_WRITE_TIMEOUT);
        let failed = |error| match error {
            ClientRequestError::TimedOut(_) => {
                ClientError::new(&format!("{error}, and may have taken it"))
            }
            error => client_error(error),
        };
        asked.map(move |answer| answer.map(drop).map_err(failed)).boxed()
    }
}
