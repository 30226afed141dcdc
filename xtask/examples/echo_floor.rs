//! A minimal agent process: it answers `initialize` and handles no other message.
//!
//! The row `startup-floor` divides the startup time of callboard by that of this process, so that
//! the result does not depend on the speed of the machine.

use std::io::{self, BufRead as _, Read as _, Write as _};

/// Maximum number of bytes of a line that the process reads at once. The rest of a longer line is
/// read as the next line.
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

/// Returns the id of an `initialize` request. The id must be a number, and other fields are not
/// parsed.
fn id_of_initialize(line: &str) -> Option<u64> {
    let (_, id) = line.split_once(r#""id":"#)?;
    let end = id.find(|c: char| !c.is_ascii_digit())?;
    line.contains(r#""method":"initialize""#).then(|| id[..end].parse().ok())?
}
