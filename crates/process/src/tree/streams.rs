//! The output of a program (a pipe or a pseudo-terminal) and its reader.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use portable_pty::{MasterPty, PtySize, native_pty_system};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, tcgetattr, tcsetattr};

use crate::program::StdioLayout;

/// Number of bytes that are read from a terminal at once. Linux returns at most this many.
const TERMINAL_READ_BYTES: usize = 4096;

/// The program's end of the output.
#[derive(Debug)]
pub(crate) struct ChildStdio {
    pub(super) output: OwnedFd,
    /// Standard error, if it is separate from the output.
    pub(super) errors: Option<OwnedFd>,
    pub(super) layout: StdioLayout,
    /// The path of the terminal, if the output is a terminal.
    pub(super) terminal: Option<PathBuf>,
}

/// The reader's end of the output.
#[derive(Debug)]
pub(crate) struct OutputReader {
    output: File,
    stop_pipe: PipeReader,
    /// Whether the reader adds carriage returns to the lines of a terminal.
    adds_carriage_returns: bool,
}

/// A guard: once it is dropped, its [`OutputReader`] does not wait for more output.
#[derive(Debug)]
pub(crate) struct StopReadOnDrop {
    _pipe: PipeWriter,
}

/// A writer of terminal input.
#[derive(Debug)]
pub(crate) struct TerminalWriter(File);

/// Returns a writer of input to the terminal that `source` reads.
pub(crate) fn terminal_writer(
    source: &OutputReader,
    _: &StopReadOnDrop,
) -> io::Result<TerminalWriter> {
    // Non-blocking mode applies to reader and writer, because they share one file description. A
    // program that does not read its input must not block us.
    ioctl_fionbio(&source.output, true)?;
    source.output.try_clone().map(TerminalWriter)
}

impl TerminalWriter {
    /// Writes bytes, and returns how many of them the terminal accepted within the time limit.
    pub(crate) fn write_within(&self, bytes: &[u8], within: Duration) -> io::Result<usize> {
        let deadline = Instant::now() + within;
        let mut typed = 0;
        while typed < bytes.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut waiting = [PollFd::new(&self.0, PollFlags::OUT)];
            if retry_on_intr(|| poll(&mut waiting, Some(&left)))? == 0 {
                break;
            }
            match (&self.0).write(&bytes[typed..]) {
                Ok(taken) => typed += taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(typed)
    }
}

/// Opens a pipe or a terminal for output.
pub(crate) fn open_output(
    layout: StdioLayout,
) -> io::Result<(OutputReader, StopReadOnDrop, ChildStdio)> {
    let (stopped, reading) = io::pipe()?;
    let mut adds_carriage_returns = false;
    let (source, output, terminal) = match layout {
        StdioLayout::Pipe | StdioLayout::Socket => {
            let (source, output) = io::pipe()?;
            (OwnedFd::from(source), output.into(), None)
        }
        StdioLayout::Terminal { cols, rows, typed } => {
            let (source, output, name) = open_terminal(cols, rows)?;
            adds_carriage_returns = !typed && turn_off_output_processing(&output)?;
            (source, output, name)
        }
    };
    let source = OutputReader { output: source.into(), stop_pipe: stopped, adds_carriage_returns };
    Ok((
        source,
        StopReadOnDrop { _pipe: reading },
        ChildStdio { output, errors: None, layout, terminal },
    ))
}

/// Opens a socket for the input and the output of a program, and a pipe for its errors.
pub(crate) fn open_socket_and_error_pipe() -> io::Result<(UnixStream, PipeReader, ChildStdio)> {
    let (socket, theirs) = UnixStream::pair()?;
    let (errors, writer) = io::pipe()?;
    let end = ChildStdio {
        output: theirs.into(),
        errors: Some(writer.into()),
        layout: StdioLayout::Socket,
        terminal: None,
    };
    Ok((socket, errors, end))
}

fn open_terminal(cols: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd, Option<PathBuf>)> {
    let size = PtySize { cols, rows, ..PtySize::default() };
    let pair = native_pty_system().openpty(size).map_err(io::Error::other)?;
    let name =
        pair.master.tty_name().ok_or_else(|| io::Error::other("the terminal has no name"))?;
    let mut options = OpenOptions::new();
    // The terminal must not become the controlling terminal of this process, because it becomes the
    // controlling terminal of the program.
    options.read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed());
    let output = options.open(&name)?.into();
    Ok((duplicate_terminal_descriptor(pair.master.as_ref())?, output, Some(name)))
}

/// Turns off the output processing of a terminal, which makes output five times as fast. The reader
/// then adds a carriage return to each line, as the terminal would do. Returns false if this system
/// does not show the mode of a terminal to its reader.
///
/// A terminal for input keeps the processing, because programs such as shells change only a part of
/// its mode, and rely on the rest.
fn turn_off_output_processing(terminal: &OwnedFd) -> io::Result<bool> {
    if !cfg!(target_os = "linux") {
        return Ok(false);
    }
    let mut mode = tcgetattr(terminal)?;
    mode.output_modes.remove(OutputModes::OPOST);
    tcsetattr(terminal, OptionalActions::Now, &mode)?;
    Ok(true)
}

/// Returns whether a program has changed the mode of a terminal, so that lines need no carriage
/// return from the reader: the terminal processes the output again, or is in raw mode, in which it
/// sends no signals either.
fn has_program_changed_mode(terminal: &File) -> bool {
    tcgetattr(terminal).is_ok_and(|mode| {
        mode.output_modes.contains(OutputModes::OPOST)
            || !mode.local_modes.contains(LocalModes::ISIG)
    })
}

/// Adds a carriage return before each line feed. Returns the number of bytes in `to`.
fn add_carriage_returns(from: &[u8], to: &mut [u8]) -> usize {
    let mut written = 0;
    for &byte in from {
        if byte == b'\n' {
            to[written] = b'\r';
            written += 1;
        }
        to[written] = byte;
        written += 1;
    }
    written
}

/// Duplicates the descriptor of a terminal, so that it can be polled together with another
/// descriptor.
#[expect(unsafe_code, reason = "portable-pty lends its descriptor as a number only")]
fn duplicate_terminal_descriptor(master: &dyn MasterPty) -> io::Result<OwnedFd> {
    let fd =
        master.as_raw_fd().ok_or_else(|| io::Error::other("the terminal has no descriptor"))?;
    // SAFETY: `master` owns the descriptor and is borrowed until this function returns.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

impl OutputReader {
    /// Reads output into `buffer`. Returns 0 after the last writer has closed its end. After the
    /// [`StopReadOnDrop`] is dropped, returns 0 as soon as all output from before the drop has been
    /// read.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut waiting = [
                PollFd::new(&self.output, PollFlags::IN),
                PollFd::new(&self.stop_pipe, PollFlags::IN),
            ];
            retry_on_intr(|| poll(&mut waiting, None))?;
            if waiting[0].revents().is_empty() {
                return Ok(0);
            }
            return match self.read_once(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // Linux reports this error when no process has the terminal open.
                Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
                read => read,
            };
        }
    }

    fn read_once(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.adds_carriage_returns {
            return self.output.read(buffer);
        }
        let mut lines = [0; TERMINAL_READ_BYTES];
        // Each byte may become two.
        let most = lines.len().min(buffer.len() / 2);
        let read = self.output.read(&mut lines[..most])?;
        if has_program_changed_mode(&self.output) {
            buffer[..read].copy_from_slice(&lines[..read]);
            return Ok(read);
        }
        Ok(add_carriage_returns(&lines[..read], buffer))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_line_feed_gets_a_carriage_return(text in "[a\r\n]{0,40}") {
            let mut to = vec![0; text.len() * 2];
            let written = add_carriage_returns(text.as_bytes(), &mut to);
            prop_assert_eq!(to[..written].to_vec(), text.replace('\n', "\r\n").into_bytes());
        }
    }
}
