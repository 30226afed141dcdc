//! A minimal agent process: it answers `initialize` and handles no other message.
//!
//! The row `startup-floor` divides the time of callboard by the time of this process, so that the
//! result does not depend on the speed of the machine.

use std::io::{self, BufRead as _, Read as _, Write as _};

/// Longest line that the process reads, in bytes. The remaining bytes of a longer line are read as
/// the next line.
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

/// Returns the id of an `initialize` request, which must be a number. Other fields are not parsed.
fn id_of_initialize(line: &str) -> Option<u64> {
    let (_, id) = line.split_once(r#""id":"#)?;
    let end = id.find(|c: char| !c.is_ascii_digit())?;
    line.contains(r#""method":"initialize""#).then(|| id[..end].parse().ok())?
}
