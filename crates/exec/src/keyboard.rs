//! The terminal at which the user answers questions.

use std::io::{self, BufRead as _, ErrorKind, IsTerminal as _};

use crate::output::OutputStream;
#[cfg(unix)]
use crate::piped_input::{is_pipe_or_socket, is_pipe_socket_or_file};

#[cfg(unix)]
type Lines = io::BufReader<std::fs::File>;
#[cfg(not(unix))]
type Lines = io::StdinLock<'static>;

/// A terminal from which lines are read.
#[derive(Debug)]
pub struct Keyboard(Lines);

impl Keyboard {
    /// Opens standard input if it is a terminal. Opens the controlling terminal of the process if
    /// standard input is a pipe, a socket or a file, and standard output is a terminal.
    ///
    /// Returns `None` if the user cannot see a question, because standard output is a file, and
    /// standard error is not a terminal.
    #[cfg(unix)]
    pub fn open_terminal(ui: &OutputStream) -> Option<Self> {
        use std::fs::File;
        use std::os::fd::AsFd as _;

        let stdin = io::stdin();
        let is_visible =
            ui.is_terminal() || io::stderr().is_terminal() || is_pipe_or_socket(io::stdout());
        let file = if ui.is_closed() || !is_visible {
            return None;
        } else if stdin.is_terminal() {
            File::from(stdin.as_fd().try_clone_to_owned().ok()?)
        } else if ui.is_terminal() && is_pipe_socket_or_file(&stdin) {
            File::open("/dev/tty").ok()?
        } else {
            return None;
        };
        Some(Self(io::BufReader::new(file)))
    }

    /// Opens standard input if it is a terminal.
    #[cfg(not(unix))]
    pub fn open_terminal(ui: &OutputStream) -> Option<Self> {
        let stdin = io::stdin();
        (!ui.is_closed() && stdin.is_terminal()).then(|| Self(stdin.lock()))
    }

    /// Reads a line. An empty result means the end of input. Blocks the thread.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::BrokenPipe`] if standard output is closed during the wait, because the
    /// question is then no longer visible. Also returns the errors of reading.
    pub fn read_line(&mut self) -> io::Result<String> {
        self.wait_until_line_available()?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line)
    }

    /// Waits for a line. A terminal delivers one line per read, so no line is left in the buffer
    /// here.
    #[cfg(unix)]
    fn wait_until_line_available(&self) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};

        let stdout = io::stdout();
        let mut ends = [
            PollFd::new(self.0.get_ref(), PollFlags::IN),
            PollFd::new(&stdout, PollFlags::empty()),
        ];
        while let Err(error) = poll(&mut ends, None) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        match ends[1].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            true => Err(ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "Unix can wait for both")]
    fn wait_until_line_available(&self) -> io::Result<()> {
        Ok(())
    }
}
