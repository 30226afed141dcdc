//! What the client holds of files: `fs/read_text_file` and `fs/write_text_file`.
//!
//! (<https://agentclientprotocol.com/protocol/file-system>)

use std::path::Path;

use acp_tools::{ClientError, TextBackend};
use agent_client_protocol::v1::schema::{
    FileSystemCapabilities, ReadTextFileRequest, SessionId, WriteTextFileRequest,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::requests::{Requests, Unanswered};
use crate::limits::{CLIENT_TEXT_READ, CLIENT_TEXT_WRITE};

/// The texts of the files that a client shows.
#[derive(Debug, Clone)]
pub(super) struct ClientTexts {
    session: SessionId,
    requests: Requests,
    writes: bool,
}

impl ClientTexts {
    /// A client that takes texts but tells none is not asked to take any: nobody knows what it holds.
    pub(super) fn of(
        capabilities: &FileSystemCapabilities,
        session: &SessionId,
        requests: &Requests,
    ) -> Option<Self> {
        let writes = capabilities.write_text_file;
        let texts = Self { session: session.clone(), requests: requests.clone(), writes };
        capabilities.read_text_file.then_some(texts)
    }
}

impl TextBackend for ClientTexts {
    fn writes(&self) -> bool {
        self.writes
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, ClientError>> {
        let request = ReadTextFileRequest::new(self.session.clone(), path);
        let asked = self.requests.ask(request, CLIENT_TEXT_READ);
        asked.map(|answer| Ok(answer?.content)).boxed()
    }

    fn write<'a>(
        &'a self,
        path: &'a Path,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), ClientError>> {
        let request = WriteTextFileRequest::new(self.session.clone(), path, text);
        let asked = self.requests.ask(request, CLIENT_TEXT_WRITE);
        let failed = |error| match error {
            Unanswered::Late(_) => ClientError::new(&format!("{error}, and may have taken it")),
            error => error.into(),
        };
        asked.map(move |answer| answer.map(drop).map_err(failed)).boxed()
    }
}
