//! The parts of the client that a session's tools use: the texts of open files, terminals, and
//! forms.

mod server_requests;
mod terminals;
mod text_files;

use acp_connection::ClientRequestError;
use acp_tools::ClientError;

pub(crate) use server_requests::ServerRequestHandler;
pub(crate) use terminals::ClientTerminals;
pub(crate) use text_files::ClientTextFiles;

fn client_error(error: ClientRequestError) -> ClientError {
    ClientError::new(&error.to_string())
}
