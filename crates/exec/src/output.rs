//! The writer for all output of a command line.
//!
//! A closed standard output is not an error: further output is dropped, and
//! [`OutputStream::is_closed`] returns true.

use std::fmt;
use std::io::{ErrorKind, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use anstream::AutoStream;
use terminal_size::{Height, Width, terminal_size_of};

/// Number of columns if neither the environment nor the terminal defines the width.
const DEFAULT_WIDTH: usize = 100;

/// Minimum number of columns. Fewer columns would be unreadable, so a narrower terminal wraps lines
/// instead.
const MIN_WIDTH: usize = 40;

/// Standard output or standard error, with colours if the terminal supports colours.
///
/// By default, colours are kept on a terminal and removed elsewhere. `NO_COLOR`, `CLICOLOR` and
/// `CLICOLOR_FORCE` override this. Every write is flushed, so that incomplete lines appear too.
pub struct OutputStream {
    stream: Box<dyn Write + Send>,
    is_terminal: bool,
    is_closed: bool,
    /// Value of the variable `COLUMNS`.
    columns: Option<usize>,
    /// Returns the number of columns of the terminal.
    terminal_columns: fn() -> Option<usize>,
}

impl fmt::Debug for OutputStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = formatter.debug_struct("OutputStream");
        output.field("is_terminal", &self.is_terminal).finish_non_exhaustive()
    }
}

impl OutputStream {
    /// Creates a writer to standard output.
    #[must_use]
    pub fn stdout() -> Self {
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        let columns = || terminal_width(terminal_size_of(std::io::stdout()));
        Self::with_stream(Box::new(AutoStream::auto(stdout)), is_terminal, columns)
    }

    /// Creates a writer to standard error.
    #[must_use]
    pub fn stderr() -> Self {
        let stderr = std::io::stderr();
        let is_terminal = stderr.is_terminal();
        let columns = || terminal_width(terminal_size_of(std::io::stderr()));
        Self::with_stream(Box::new(AutoStream::auto(stderr)), is_terminal, columns)
    }

    /// Creates a stream for a writer that is not a terminal. Colours are removed.
    #[must_use]
    pub fn for_plain_writer(writer: impl Write + Send + 'static) -> Self {
        let writer: Box<dyn Write + Send> = Box::new(writer);
        Self::with_stream(Box::new(AutoStream::never(writer)), false, || None)
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
    pub fn print_line(&mut self, text: &str) {
        self.print(&format!("{text}\n"));
    }

    /// Writes `text` unchanged. The text must be safe to display: see
    /// [`CardRenderer`](acp_cards::CardRenderer).
    pub fn print(&mut self, text: &str) {
        self.print_bytes(text.as_bytes());
    }

    /// Writes `text` unchanged, like `print`. The text may end in the middle of a character.
    pub fn print_bytes(&mut self, text: &[u8]) {
        if self.is_closed || text.is_empty() {
            return;
        }
        let written = self.stream.write_all(text);
        let written = written.and_then(|()| self.stream.flush());
        self.is_closed = written.is_err();
        // If the reader has closed the pipe, this is not a failure.
        if let Err(error) = written
            && error.kind() != ErrorKind::BrokenPipe
        {
            WRITE_FAILURE.get_or_init(|| error.to_string());
        }
    }

    /// Returns whether the stream is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns whether a write has failed, e.g. because the reader of a pipe has closed the pipe.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the current width in columns. This is the value of `COLUMNS`, if the user has set
    /// the variable (<https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap08.html>).
    /// Otherwise, it is the width of the terminal, or 100 if that width is unknown.
    #[must_use]
    pub fn width(&self) -> usize {
        let columns = self.columns.or_else(|| (self.terminal_columns)());
        columns.map_or(DEFAULT_WIDTH, |columns| columns.max(MIN_WIDTH))
    }
}

/// First error that caused a loss of output, e.g. a full disk.
static WRITE_FAILURE: OnceLock<String> = OnceLock::new();

/// Returns `code`, or the code for a failure if any output was lost.
#[must_use]
pub fn fail_if_output_was_lost(code: ExitCode) -> ExitCode {
    let Some(why) = WRITE_FAILURE.get() else { return code };
    OutputStream::stderr()
        .print_line(&format!("callboard: the output could not be written: {why}"));
    if code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
}

/// Returns the number of columns of a terminal, if the terminal reports this number.
fn terminal_width(size: Option<(Width, Height)>) -> Option<usize> {
    size.map(|(Width(columns), _)| usize::from(columns)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::{DEFAULT_WIDTH, Height, MIN_WIDTH, OutputStream, Width, terminal_width};

    /// A pipe whose reader closes it after some writes.
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
        let mut ui = OutputStream::for_plain_writer(pipe.clone());
        ui.print("\u{1b}[32ma");
        ui.print_line("b\u{1b}[0m");
        assert_eq!(read(&pipe), "ab\n");
    }

    #[test]
    fn a_closed_pipe_only_ends_the_writing() {
        let pipe = pipe(1);
        let mut ui = OutputStream::for_plain_writer(pipe.clone());
        ui.print("a");
        assert!(!ui.is_closed());
        ui.print("b");
        ui.print_line("c");
        assert!(ui.is_closed());
        assert_eq!(read(&pipe), "a");
    }

    #[test]
    fn the_width_comes_from_the_environment_or_else_from_the_terminal() {
        for (environment, terminal, expected) in [
            (None, None, DEFAULT_WIDTH),
            (None, Some(61), 61),
            (None, Some(3), MIN_WIDTH),
            (None, Some(0), DEFAULT_WIDTH),
            (Some(80), Some(61), 80),
            (Some(0), None, MIN_WIDTH),
        ] {
            let mut ui = OutputStream::for_plain_writer(Vec::new());
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
