//! What a program writes to and what its output is read from: a pipe or a pseudo-terminal.
//!
//! Knows nothing of processes, nor of what the output is for.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use portable_pty::{MasterPty, PtySize, native_pty_system};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};

use crate::program::StdioKind;

/// The end that a program gets.
#[derive(Debug)]
pub(crate) struct ChildOutput {
    pub(super) output: OwnedFd,
    pub(super) shape: StdioKind,
    /// The name of the terminal, if it is one.
    pub(super) terminal: Option<PathBuf>,
}

/// The end that is read.
#[derive(Debug)]
pub(crate) struct OutputReader {
    output: File,
    stop_pipe: PipeReader,
}

/// Lets the reader of a [`Source`] wait for more.
#[derive(Debug)]
pub(crate) struct StopReadOnDrop {
    _pipe: PipeWriter,
}

/// The keyboard of a terminal.
#[derive(Debug)]
pub(crate) struct TerminalWriter(File);

/// Returns the keyboard of the terminal that is read.
pub(crate) fn terminal_writer(
    source: &OutputReader,
    _: &StopReadOnDrop,
) -> io::Result<TerminalWriter> {
    // Of both, as they are one: a program that does not read must not hold us up.
    ioctl_fionbio(&source.output, true)?;
    source.output.try_clone().map(TerminalWriter)
}

impl TerminalWriter {
    /// Types bytes, and returns how many of them the terminal has taken in time.
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

/// Opens a pipe or a terminal.
pub(crate) fn open_output(
    shape: StdioKind,
) -> io::Result<(OutputReader, StopReadOnDrop, ChildOutput)> {
    let (stopped, reading) = io::pipe()?;
    let (source, output, terminal) = match shape {
        StdioKind::Pipe => {
            let (source, output) = io::pipe()?;
            (OwnedFd::from(source), output.into(), None)
        }
        StdioKind::Terminal { cols, rows, .. } => terminal(cols, rows)?,
    };
    let source = OutputReader { output: source.into(), stop_pipe: stopped };
    Ok((source, StopReadOnDrop { _pipe: reading }, ChildOutput { output, shape, terminal }))
}

fn terminal(cols: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd, Option<PathBuf>)> {
    let size = PtySize { cols, rows, ..PtySize::default() };
    let pair = native_pty_system().openpty(size).map_err(io::Error::other)?;
    let name = pair.master.tty_name().ok_or_else(|| io::Error::other("a terminal without name"))?;
    let mut options = OpenOptions::new();
    // Never ours: the program makes it its own.
    options.read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed());
    let output = options.open(&name)?.into();
    Ok((duplicate(pair.master.as_ref())?, output, Some(name)))
}

/// The descriptor of a terminal as one of our own, to wait for it and something else at once.
#[expect(unsafe_code, reason = "portable-pty lends its descriptor as a number only")]
fn duplicate(master: &dyn MasterPty) -> io::Result<OwnedFd> {
    let fd =
        master.as_raw_fd().ok_or_else(|| io::Error::other("the terminal has no descriptor"))?;
    // SAFETY: `master` owns the descriptor and is borrowed until this function returns.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

impl OutputReader {
    /// Waits for output. 0 once nobody can write any more, or all is read that was written before
    /// the [`Reading`] was dropped.
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
            return match self.output.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // How Linux says that nobody has the terminal open any more.
                Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
                read => read,
            };
        }
    }
}
