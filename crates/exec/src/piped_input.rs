//! Standard input as a prompt, or as the context of a prompt.
//!
//! A pipe may stay open forever, because another program may have inherited it. Reading the context
//! therefore has a timeout, and a note informs the user of the wait.

use std::fmt;
use std::io::{self, IsTerminal as _, Read};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use acp_transport::MAX_LINE_BYTES;
use callboard_text::wrap_in_code_fence;
#[cfg(unix)]
use rustix::fs::FileType;

use crate::limits::{MAX_PIPED_CONTEXT_BYTES, STDIN_IDLE_TIMEOUT, STDIN_NOTE_DELAY};

/// Reads a prompt from standard input until its end.
///
/// # Errors
///
/// Returns an error if standard input cannot be read, or if the prompt is longer than the longest
/// message that an agent reads ([`MAX_LINE_BYTES`]).
pub fn read_prompt_from_stdin() -> io::Result<String> {
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_LINE_BYTES as u64 + 1).read_to_string(&mut text)?;
    if read > MAX_LINE_BYTES {
        return Err(io::Error::other(format!("it exceeds {} MiB", MAX_LINE_BYTES >> 20)));
    }
    Ok(text)
}

/// No data arrived on standard input for 10 minutes.
#[derive(Debug, PartialEq, Eq)]
pub struct PipedInputTimeout(());

impl fmt::Display for PipedInputTimeout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = STDIN_IDLE_TIMEOUT.as_secs() / 60;
        write!(
            formatter,
            "no data arrived on standard input within {minutes} minutes. If there is none, use \
             `</dev/null`; if it takes longer, write it to a file first."
        )
    }
}

impl std::error::Error for PipedInputTimeout {}

/// A notice for the user about reading standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PipedInputNote {
    /// No data arrived for 5 seconds.
    Waiting,
    /// The rest of the input was dropped, because the input exceeds 256 KiB.
    TooLong,
    /// The rest of the input was dropped, because no data arrived for 10 minutes.
    Unfinished,
    /// The rest of the input cannot be read.
    Failed,
}

impl fmt::Display for PipedInputNote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => formatter.write_str(
                "waiting for standard input, the context of the prompt. If there is none, use \
                 `</dev/null`.",
            ),
            Self::TooLong => {
                let most = MAX_PIPED_CONTEXT_BYTES >> 10;
                write!(formatter, "standard input was truncated after its first {most} KiB.")
            }
            Self::Unfinished => {
                let minutes = STDIN_IDLE_TIMEOUT.as_secs() / 60;
                write!(formatter, "standard input was truncated: no data for {minutes} minutes.")
            }
            Self::Failed => formatter.write_str("standard input cannot be read to its end."),
        }
    }
}

/// Reads the context of a prompt if standard input is a pipe, a socket or a file. Reads nothing
/// from a terminal or from a device such as `/dev/null`. Blocks the thread. Notices for the user
/// are passed to `notify`.
///
/// # Errors
///
/// Returns [`PipedInputTimeout`] if no data arrived at all for 10 minutes. If some text arrived
/// before, that text is returned.
pub fn read_context_from_stdin(
    notify: impl FnMut(PipedInputNote),
) -> Result<Option<String>, PipedInputTimeout> {
    let stdin = io::stdin();
    if stdin.is_terminal() || !is_pipe_socket_or_file(&stdin) {
        return Ok(None);
    }
    read_with_timeouts(stdin, [STDIN_NOTE_DELAY, STDIN_IDLE_TIMEOUT], notify)
}

#[cfg(unix)]
pub(crate) fn is_pipe_socket_or_file(stdin: &io::Stdin) -> bool {
    file_type(stdin) == Some(FileType::RegularFile) || is_pipe_or_socket(stdin)
}

#[cfg(unix)]
pub(crate) fn is_pipe_or_socket(stream: impl AsFd) -> bool {
    matches!(file_type(stream), Some(FileType::Fifo | FileType::Socket))
}

#[cfg(unix)]
fn file_type(stream: impl AsFd) -> Option<FileType> {
    rustix::fs::fstat(stream).map(|stat| FileType::from_raw_mode(stat.st_mode)).ok()
}

#[cfg(not(unix))]
pub(crate) fn is_pipe_socket_or_file(_: &io::Stdin) -> bool {
    true
}

/// Reads until the input ends, reaches the size limit, or delivers no data for `patience`. If no
/// data arrives for `quiet`, the user gets one notice.
fn read_with_timeouts(
    mut source: impl Read + Send + 'static,
    [quiet, patience]: [Duration; 2],
    mut notify: impl FnMut(PipedInputNote),
) -> Result<Option<String>, PipedInputTimeout> {
    let (sender, pieces) = sync_channel(1);
    let reading = thread::Builder::new().name("stdin".into()).spawn(move || {
        loop {
            let mut piece = vec![0; 16 << 10];
            match source.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(bytes @ 1..) => {
                    piece.truncate(bytes);
                    if sender.send(Some(piece)).is_err() {
                        return;
                    }
                }
                Ok(0) => return,
                Err(_) => return drop(sender.send(None)),
            }
        }
    });
    if reading.is_err() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let mut is_notified = false;
    let cut = loop {
        let wait = if is_notified { patience } else { quiet };
        match pieces.recv_timeout(wait) {
            Ok(Some(piece)) => bytes.extend(piece),
            Ok(None) => break Some(PipedInputNote::Failed),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) if !is_notified => {
                is_notified = true;
                notify(PipedInputNote::Waiting);
            }
            Err(RecvTimeoutError::Timeout) if bytes.is_empty() => {
                return Err(PipedInputTimeout(()));
            }
            Err(RecvTimeoutError::Timeout) => break Some(PipedInputNote::Unfinished),
        }
        if bytes.len() > MAX_PIPED_CONTEXT_BYTES {
            bytes.truncate(MAX_PIPED_CONTEXT_BYTES);
            break Some(PipedInputNote::TooLong);
        }
    };
    let note = cut.map(|note| {
        notify(note);
        format!("\nNote: {note}")
    });
    let note = note.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    if text.trim().is_empty() {
        return Ok(None);
    }
    Ok(Some(format!("Standard input:\n{}{note}", wrap_in_code_fence("", &text))))
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor, Read};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::{MAX_PIPED_CONTEXT_BYTES, PipedInputNote, PipedInputTimeout};

    type Context = Result<Option<String>, PipedInputTimeout>;

    const LONG: [Duration; 2] = [Duration::from_secs(60); 2];
    const NONE: [Duration; 2] = [Duration::ZERO; 2];

    /// A pipe that delivers some data, and then stays open without delivering more.
    struct OpenPipe(Cursor<Vec<u8>>, Receiver<()>);

    impl Read for OpenPipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => self.1.recv().map(|()| 0).map_err(io::Error::other),
                bytes => Ok(bytes),
            }
        }
    }

    /// Reads a source. Returns the result, and the notices for the user.
    fn read(
        source: impl Read + Send + 'static,
        times: [Duration; 2],
    ) -> (Context, Vec<PipedInputNote>) {
        let mut notes = Vec::new();
        let context = super::read_with_timeouts(source, times, |note| notes.push(note));
        (context, notes)
    }

    fn text((context, notes): (Context, Vec<PipedInputNote>)) -> (String, Vec<PipedInputNote>) {
        (context.unwrap().unwrap(), notes)
    }

    #[test]
    fn piped_text_cannot_end_its_fence() {
        let shown = text(read(Cursor::new("a\n```\nb"), LONG));
        assert_eq!(shown, ("Standard input:\n````\na\n```\nb\n````".to_owned(), vec![]));
        assert!(text(read(Cursor::new(b"caf\xe9"), LONG)).0.contains("caf\u{fffd}"));
        for nothing in ["", " \n\n"] {
            assert_eq!(read(Cursor::new(nothing), LONG), (Ok(None), vec![]));
        }
    }

    #[test]
    fn long_input_is_truncated_with_a_note() {
        let (shown, notes) = text(read(io::repeat(b'x'), LONG));
        assert!(shown.contains(&format!("\n{}\n```\n", "x".repeat(MAX_PIPED_CONTEXT_BYTES))));
        assert!(shown.ends_with("Note: standard input was truncated after its first 256 KiB."));
        assert_eq!(notes, [PipedInputNote::TooLong]);
        let (whole, notes) = text(read(Cursor::new(vec![b'x'; MAX_PIPED_CONTEXT_BYTES]), LONG));
        assert!(whole.ends_with("```") && notes.is_empty());
    }

    #[test]
    fn the_user_is_notified_of_the_wait_for_an_input_that_never_ends() {
        let (_held, open) = channel();
        let silent = OpenPipe(Cursor::new(Vec::new()), open);
        assert_eq!(read(silent, NONE), (Err(PipedInputTimeout(())), vec![PipedInputNote::Waiting]));
        let (_held, open) = channel();
        let times = [Duration::from_secs(1), Duration::ZERO];
        let (shown, notes) = text(read(OpenPipe(Cursor::new(b"a".to_vec()), open), times));
        assert!(shown.ends_with("no data for 10 minutes."), "{shown}");
        assert_eq!(notes, [PipedInputNote::Waiting, PipedInputNote::Unfinished]);
    }

    #[test]
    fn input_that_cannot_be_read_to_its_end_is_notified() {
        let (_, closed) = channel();
        let (shown, notes) = text(read(OpenPipe(Cursor::new(b"a".to_vec()), closed), LONG));
        assert!(shown.ends_with("Note: standard input cannot be read to its end."), "{shown}");
        assert_eq!(notes, [PipedInputNote::Failed]);
    }

    #[test]
    fn late_input_is_read() {
        let (held, open) = channel();
        let times = [Duration::ZERO, Duration::from_secs(60)];
        let late = OpenPipe(Cursor::new(Vec::new()), open).chain(Cursor::new("late"));
        let mut notes = Vec::new();
        let context = super::read_with_timeouts(late, times, |note| {
            notes.push(note);
            held.send(()).unwrap();
        });
        assert_eq!(context, Ok(Some("Standard input:\n```\nlate\n```".to_owned())));
        assert_eq!(notes, [PipedInputNote::Waiting]);
    }
}
