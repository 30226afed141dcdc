//! The least an agent can be: it answers `initialize` and handles nothing else.
//!
//! The `startup` check measures callboard against it, so that the speed of the machine and of its
//! process creation cancel out.

use std::io::{self, BufRead as _, Read as _, Write as _};

/// Longest line it reads, in bytes; the rest of a longer one is taken for the next.
const MAX_LINE: u64 = 64 * 1024;

fn main() -> io::Result<()> {
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut line = String::new();
    loop {
        line.clear();
        if stdin.by_ref().take(MAX_LINE).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(id) = id_of_initialize(&line) {
            let result = r#"{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"echo","version":"0"}}"#;
            writeln!(stdout, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)?;
            stdout.flush()?;
        }
    }
}

/// Reads just enough of a request: a number as its id, and the method.
fn id_of_initialize(line: &str) -> Option<u64> {
    let (_, id) = line.split_once(r#""id":"#)?;
    let end = id.find(|c: char| !c.is_ascii_digit())?;
    line.contains(r#""method":"initialize""#).then(|| id[..end].parse().ok())?
}
