//! The one writer of everything that the command line prints.
//!
//! It knows nothing of what it writes. A reader that goes away is no error: what follows is
//! dropped, and [`Ui::is_closed`] says so.

use std::io::{ErrorKind, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use anstream::AutoStream;
use terminal_size::{Height, Width, terminal_size_of};

/// Columns taken where neither the environment nor a terminal says.
const DEFAULT_WIDTH: usize = 100;

/// Columns below which nothing would be readable; a smaller terminal wraps.
const MIN_WIDTH: usize = 40;

/// Standard output or standard error, with colours where they are wanted.
///
/// Colours are kept on a terminal and stripped elsewhere, or as `NO_COLOR`, `CLICOLOR` and
/// `CLICOLOR_FORCE` say. Every write is flushed, so that unfinished lines appear.
pub(crate) struct OutputStream {
    stream: Box<dyn Write + Send>,
    is_terminal: bool,
    is_closed: bool,
    /// As `COLUMNS` says.
    columns: Option<usize>,
    /// Asks the terminal for its columns.
    terminal_columns: fn() -> Option<usize>,
}

impl OutputStream {
    /// Writes to standard output.
    pub(crate) fn stdout() -> Self {
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        let columns = || terminal_width(terminal_size_of(std::io::stdout()));
        Self::with_stream(Box::new(AutoStream::auto(stdout)), is_terminal, columns)
    }

    /// Writes to standard error.
    pub(crate) fn stderr() -> Self {
        let stderr = std::io::stderr();
        let is_terminal = stderr.is_terminal();
        let columns = || terminal_width(terminal_size_of(std::io::stderr()));
        Self::with_stream(Box::new(AutoStream::auto(stderr)), is_terminal, columns)
    }

    fn with_stream(
        stream: Box<dyn Write + Send>,
        is_terminal: bool,
        terminal_columns: fn() -> Option<usize>,
    ) -> Self {
        let columns = std::env::var("COLUMNS").ok();
        let columns = columns.and_then(|columns| columns.trim().parse().ok());
        Self { stream, is_terminal, is_closed: false, columns, terminal_columns }
    }

    /// Writes `text` and a line end.
    pub(crate) fn line(&mut self, text: &str) {
        self.print(&format!("{text}\n"));
    }

    /// Writes `text` as it is. It must be safe to show: see [`Cards`](acp_cards::Cards).
    pub(crate) fn print(&mut self, text: &str) {
        if self.is_closed || text.is_empty() {
            return;
        }
        let written = self.stream.write_all(text.as_bytes());
        let written = written.and_then(|()| self.stream.flush());
        self.is_closed = written.is_err();
        // A reader that has read enough is no failure.
        if let Err(error) = written
            && error.kind() != ErrorKind::BrokenPipe
        {
            WRITE_FAILURE.get_or_init(|| error.to_string());
        }
    }

    /// Returns whether a person may be looking.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns whether a write has failed, as it does when the reader of a pipe is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the columns of a line by now: those of `COLUMNS`, which a user sets to prefer others
    /// (<https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap08.html>), else those of
    /// the terminal, else 100.
    pub(crate) fn width(&self) -> usize {
        let columns = self.columns.or_else(|| (self.terminal_columns)());
        columns.map_or(DEFAULT_WIDTH, |columns| columns.max(MIN_WIDTH))
    }
}

/// Why something of what the command line printed is lost, as on a full disk.
static WRITE_FAILURE: OnceLock<String> = OnceLock::new();

/// Returns how the process ends: as `code` says, unless something of what it printed is lost.
pub(crate) fn exit_code(code: ExitCode) -> ExitCode {
    let Some(why) = WRITE_FAILURE.get() else { return code };
    OutputStream::stderr().line(&format!("callboard: the output could not be written: {why}"));
    if code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
}

/// Takes the columns of a terminal that knows how many it has.
fn terminal_width(size: Option<(Width, Height)>) -> Option<usize> {
    size.map(|(Width(columns), _)| usize::from(columns)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::{
        AutoStream, DEFAULT_WIDTH, Height, MIN_WIDTH, OutputStream, Width, terminal_width,
    };

    impl OutputStream {
        /// Writes to something that is no terminal, without colours.
        pub(crate) fn new(writer: impl Write + Send + 'static) -> Self {
            let writer: Box<dyn Write + Send> = Box::new(writer);
            Self::with_stream(Box::new(AutoStream::never(writer)), false, || None)
        }
    }

    /// A pipe whose reader leaves after some writes.
    #[derive(Clone)]
    struct Pipe {
        read: Arc<Mutex<Vec<u8>>>,
        writes_left: usize,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Some(left) = self.writes_left.checked_sub(1) else {
                return Err(io::ErrorKind::BrokenPipe.into());
            };
            self.writes_left = left;
            self.read.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pipe(writes_left: usize) -> Pipe {
        Pipe { read: Arc::default(), writes_left }
    }

    fn read(pipe: &Pipe) -> String {
        String::from_utf8(pipe.read.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn colours_do_not_reach_a_pipe() {
        let pipe = pipe(usize::MAX);
        let mut ui = OutputStream::new(pipe.clone());
        ui.print("\u{1b}[32ma");
        ui.line("b\u{1b}[0m");
        assert_eq!(read(&pipe), "ab\n");
    }

    #[test]
    fn a_closed_pipe_ends_the_writing_and_nothing_else() {
        let pipe = pipe(1);
        let mut ui = OutputStream::new(pipe.clone());
        ui.print("a");
        assert!(!ui.is_closed());
        ui.print("b");
        ui.line("c");
        assert!(ui.is_closed());
        assert_eq!(read(&pipe), "a");
    }

    #[test]
    fn the_width_is_that_of_the_environment_else_of_the_terminal() {
        for (environment, terminal, expected) in [
            (None, None, DEFAULT_WIDTH),
            (None, Some(61), 61),
            (None, Some(3), MIN_WIDTH),
            (None, Some(0), DEFAULT_WIDTH),
            (Some(80), Some(61), 80),
            (Some(0), None, MIN_WIDTH),
        ] {
            let mut ui = OutputStream::new(Vec::new());
            ui.columns = environment;
            ui.terminal_columns = match terminal {
                None => || None,
                Some(61) => || terminal_width(Some((Width(61), Height(5)))),
                Some(3) => || terminal_width(Some((Width(3), Height(5)))),
                _ => || terminal_width(Some((Width(0), Height(0)))),
            };
            assert_eq!(ui.width(), expected, "{environment:?} {terminal:?}");
        }
    }
}
