//! What a helper and who started it tell each other: lines of JSON, and single bytes.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};

use super::{Ended, Shape};

/// What a helper starts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) argv: Vec<String>,
    pub(super) shape: Shape,
}

/// What a helper says in the end, or why there was no beginning.
pub(super) type News = Result<Ended, String>;

/// Writes a line.
pub(super) fn tell(mut socket: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    socket.write_all(&line)
}
