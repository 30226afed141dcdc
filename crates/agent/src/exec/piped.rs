//! What is piped into `callboard exec`: its prompt (`-`), or the context of its prompt.
//!
//! The end of a pipe may never come, because a program inherited one that nobody closes. So each
//! wait for context has a deadline.

use std::io::{self, IsTerminal as _, Read};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use acp_types::text::fenced;

use crate::limits::{MAX_CONTEXT_BYTES, MAX_LINE_BYTES, STDIN_FIRST_BYTE, STDIN_NEXT_BYTE};

/// Reads a prompt from standard input, to its end.
///
/// # Errors
///
/// Whatever reading standard input gives, and a prompt over [`MAX_LINE_BYTES`].
pub(crate) fn prompt() -> io::Result<String> {
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_LINE_BYTES as u64 + 1).read_to_string(&mut text)?;
    if read > MAX_LINE_BYTES {
        return Err(io::Error::other(format!("it is over {} MiB", MAX_LINE_BYTES >> 20)));
    }
    Ok(text)
}

/// What standard input holds for a prompt that is an argument.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// Nothing, or standard input is nothing that is read.
    None,
    /// A text for the model.
    Text(String),
    /// Nothing came for [`STDIN_FIRST_BYTE`].
    Silent,
}

/// Reads the context of a prompt where standard input is a pipe, a socket or a file: not from a
/// terminal, and not from a device such as `/dev/null`. Blocks.
pub(crate) fn context() -> Context {
    let stdin = io::stdin();
    if stdin.is_terminal() || !is_stream(&stdin) {
        return Context::None;
    }
    read(stdin, [STDIN_FIRST_BYTE, STDIN_NEXT_BYTE])
}

#[cfg(unix)]
pub(super) fn is_stream(stdin: &io::Stdin) -> bool {
    use rustix::fs::FileType;
    let kind = rustix::fs::fstat(stdin).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile))
}

#[cfg(not(unix))]
pub(super) fn is_stream(_: &io::Stdin) -> bool {
    true
}

/// Reads until the end, until there is more than is taken, or until nothing comes: `first` is the
/// time for the first byte, `next` for each further piece.
fn read(mut source: impl Read + Send + 'static, [first, next]: [Duration; 2]) -> Context {
    let (sender, pieces) = sync_channel::<Vec<u8>>(1);
    let reading = thread::Builder::new().name("stdin".into()).spawn(move || {
        loop {
            let mut piece = vec![0; 16 << 10];
            match source.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(bytes @ 1..) => {
                    piece.truncate(bytes);
                    if sender.send(piece).is_err() {
                        return;
                    }
                }
                Ok(0) | Err(_) => return,
            }
        }
    });
    if reading.is_err() {
        return Context::None;
    }
    let mut bytes = Vec::new();
    let note = loop {
        let patience = if bytes.is_empty() { first } else { next };
        match pieces.recv_timeout(patience) {
            Ok(piece) => bytes.extend(piece),
            Err(RecvTimeoutError::Disconnected) => break String::new(),
            Err(RecvTimeoutError::Timeout) if bytes.is_empty() => return Context::Silent,
            Err(RecvTimeoutError::Timeout) => {
                break "\nIt was read until nothing came for a while; it may be incomplete.".into();
            }
        }
        if bytes.len() > MAX_CONTEXT_BYTES {
            bytes.truncate(MAX_CONTEXT_BYTES);
            let most = MAX_CONTEXT_BYTES >> 10;
            break format!("\nThese are its first {most} KiB; the rest was cut off.");
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    if text.trim().is_empty() {
        return Context::None;
    }
    Context::Text(format!("Standard input:\n{}{note}", fenced("", &text)))
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor, Read};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::{Context, MAX_CONTEXT_BYTES, read};

    const LONG: [Duration; 2] = [Duration::from_secs(60); 2];
    const NONE: [Duration; 2] = [Duration::from_secs(60), Duration::ZERO];

    /// A pipe that somebody holds open and writes nothing more into.
    struct Open(Cursor<Vec<u8>>, Receiver<()>);

    impl Read for Open {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => self.1.recv().map(|()| 0).map_err(io::Error::other),
                bytes => Ok(bytes),
            }
        }
    }

    fn text(context: Context) -> String {
        match context {
            Context::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_piped_is_fenced_so_that_it_cannot_end_its_fence() {
        let said = text(read(Cursor::new("a\n```\nb"), LONG));
        assert_eq!(said, "Standard input:\n````\na\n```\nb\n````");
        assert!(text(read(Cursor::new(b"caf\xe9"), LONG)).contains("caf\u{fffd}"));
        for nothing in ["", " \n\n"] {
            assert_eq!(read(Cursor::new(nothing), LONG), Context::None);
        }
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let said = text(read(io::repeat(b'x'), LONG));
        assert_eq!(said.matches('x').count(), MAX_CONTEXT_BYTES);
        assert!(said.ends_with("the rest was cut off."), "{said}");
        let whole = text(read(Cursor::new(vec![b'x'; MAX_CONTEXT_BYTES]), LONG));
        assert!(whole.ends_with("```"));
    }

    #[test]
    fn an_input_that_never_ends_is_not_waited_for() {
        let (_held, open) = channel();
        let silent = Open(Cursor::new(Vec::new()), open);
        assert_eq!(read(silent, [Duration::ZERO; 2]), Context::Silent);
        let (_held, open) = channel();
        let said = text(read(Open(Cursor::new(b"a".to_vec()), open), NONE));
        assert!(said.ends_with("it may be incomplete."), "{said}");
    }
}
