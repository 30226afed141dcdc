//! The log on standard error, in which known secrets are redacted.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic;

use acp_lifecycle::Secrets;

use crate::secrets;

/// Returns the writer of the log. The subscriber passes each log line in one write.
pub(crate) fn redacting_stderr_writer() -> RedactingWriter<io::Stderr> {
    RedactingWriter { to: io::stderr(), secrets: secrets::process_secrets() }
}

/// Writes panics to the log, too.
pub(crate) fn install_redacting_panic_hook() {
    panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
        let text = format!("{panic}\n{}", trace.unwrap_or_default());
        // A failed write to standard error cannot be reported.
        drop(redacting_stderr_writer().write_all(text.as_bytes()));
    }));
}

/// Redacts secrets in each write. The subscriber passes each line in one write.
pub(crate) struct RedactingWriter<W> {
    to: W,
    secrets: Secrets,
}

impl<W: Write> Write for RedactingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.to.write_all(self.secrets.redact(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::RedactingWriter;
    use acp_lifecycle::Secrets;
    use std::sync::{Arc, Mutex};

    #[test]
    fn no_log_line_contains_a_secret() {
        let secrets = Secrets::new(["pass\"word\n1"]);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(true)
            .with_writer(move || RedactingWriter {
                to: SharedBuffer(to.clone()),
                secrets: secrets.clone(),
            })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let text = "it is pass\"word\n1, is it not?";
            tracing::warn!(text, json = %serde_json::json!({ "a": text }), debug = ?text, "{text}");
            tracing::warn!("https://ada:{}@host", "x");
        });
        let lines = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        assert!(!lines.contains("word") && !lines.contains("ada"), "{lines}");
        assert_eq!(lines.matches("[redacted]").count(), 5, "{lines}");
    }

    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
