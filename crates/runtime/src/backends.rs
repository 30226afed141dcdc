//! What the client of a session holds and does for its tools: texts of files, terminals.

mod terminals;
mod texts;

use acp_connection::ClientRequestError;
use acp_tools::ClientError;

pub(crate) use terminals::ClientTerminals;
pub(crate) use texts::ClientTexts;

fn failed(error: ClientRequestError) -> ClientError {
    ClientError::new(&error.to_string())
}
