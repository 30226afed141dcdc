//! The document of a terminal: its command, the head and the tail of its output, and its exit.

use std::path::PathBuf;

use callboard_text::count_with_noun;
use serde::{Deserialize, Serialize};

use crate::limits::{OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES};
use crate::{TerminalId, path};

/// Everything that a client can know about a terminal. A terminal may outlive the call that opened
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TerminalReport {
    /// Id of the terminal, unique in the session.
    pub id: TerminalId,
    /// Command line.
    pub command: Option<String>,
    /// Working directory of the command, an absolute path.
    #[serde(with = "path::as_optional_text")]
    pub cwd: Option<PathBuf>,
    /// Size in characters, if the terminal has a size.
    pub size: Option<TerminalSize>,
    /// Output so far.
    pub output: TerminalOutput,
    /// Exit of the command; `None` while the command runs.
    pub exit: Option<TerminalExit>,
    /// Id that the client assigned to the terminal, if the client runs the command. Used only in v1
    /// (<https://agentclientprotocol.com/protocol/v1/terminals>).
    pub client_id: Option<TerminalId>,
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// The exit of a command: its exit code, or the signal that ended it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalExit {
    /// Exit code; `None` if a signal ended the command.
    pub code: Option<i32>,
    /// Name of the signal, such as `SIGKILL`.
    pub signal: Option<String>,
}

impl TerminalExit {
    /// Returns whether the command succeeded, i.e. exited with 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0) && self.signal.is_none()
    }
}

impl TerminalReport {
    /// Creates an empty document.
    #[must_use]
    pub fn new(id: TerminalId) -> Self {
        Self {
            id,
            command: None,
            cwd: None,
            size: None,
            output: TerminalOutput::default(),
            exit: None,
            client_id: None,
        }
    }
}

/// The output of a terminal: the total number of bytes, the first 8 KiB and the last 40 KiB.
///
/// The type is used for the output in a document, and for the output that a patch appends.
/// [`append_output`](Self::append_output) is associative, so parts may be joined in any grouping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalOutput {
    total: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl TerminalOutput {
    /// Creates an output that contains the head and the tail of `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut output = Self::default();
        output.append_bytes(bytes);
        output
    }

    /// Returns the total number of bytes, including the omitted ones.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Returns the first bytes of the output, at most 8 KiB.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the last bytes of the output, at most 40 KiB. Bytes in the head are not repeated.
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Returns the number of bytes that were omitted between head and tail.
    #[must_use]
    pub fn omitted_bytes(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Returns whether the output is empty, i.e. no bytes were written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Appends bytes.
    pub fn append_bytes(&mut self, bytes: &[u8]) {
        // Bytes after an omission never belong to the head.
        let room = if self.omitted_bytes() > 0 { 0 } else { OUTPUT_HEAD_BYTES - self.head.len() };
        self.total += bytes.len() as u64;
        let (to_head, to_tail) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(to_head);
        self.tail.extend_from_slice(&to_tail[to_tail.len().saturating_sub(OUTPUT_TAIL_BYTES)..]);
        if self.tail.len() > OUTPUT_TAIL_BYTES {
            self.tail.drain(..self.tail.len() - OUTPUT_TAIL_BYTES);
        }
    }

    /// Records that `bytes` bytes were discarded after the bytes appended so far. An output has
    /// only one omission, so the current tail is discarded too.
    pub fn record_omitted_bytes(&mut self, bytes: u64) {
        if bytes > 0 {
            self.tail.clear();
            self.total += bytes;
        }
    }

    /// Appends a later part of the output. The operation is associative.
    pub fn append_output(&mut self, later: &Self) {
        self.append_bytes(&later.head);
        self.record_omitted_bytes(later.omitted_bytes());
        self.append_bytes(&later.tail);
    }

    /// Returns the head and the tail. If bytes were omitted, a line between head and tail contains
    /// their number.
    #[must_use]
    pub fn to_bytes_with_omission_line(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        if self.omitted_bytes() > 0 {
            bytes.extend_from_slice(omission_line(self.omitted_bytes()).as_bytes());
        }
        bytes.extend_from_slice(&self.tail);
        bytes
    }
}

/// Returns the line that is shown in place of `bytes` omitted bytes.
#[must_use]
pub fn omission_line(bytes: u64) -> String {
    format!("\n[… {} left out …]\n", count_with_noun(bytes, "byte", "bytes"))
}

/// Returns the line that a terminal shows in place of `bytes` omitted bytes. The line begins with a
/// reset of the style, because the bytes before it may set a colour or end within an escape
/// sequence.
pub(crate) fn omission_line_with_style_reset(bytes: u64) -> String {
    format!("\x1b[0m{}", omission_line(bytes))
}

#[cfg(test)]
mod tests {
    use super::{OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES, TerminalOutput};
    use proptest::prelude::{Just, Strategy, any, prop_oneof};
    use proptest::{collection::vec, proptest};

    /// Generates chunks whose sizes are close to each limit.
    fn chunk() -> impl Strategy<Value = Vec<u8>> {
        let sizes = prop_oneof![
            0..20_usize,
            Just(OUTPUT_HEAD_BYTES),
            Just(OUTPUT_TAIL_BYTES),
            OUTPUT_HEAD_BYTES - 3..OUTPUT_HEAD_BYTES + 3,
            Just(OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES + 7),
        ];
        (sizes, any::<u8>()).prop_map(|(size, first)| {
            (0..size).map(|at| first.wrapping_add((at % 251) as u8)).collect()
        })
    }

    /// Generates output with omissions.
    fn output() -> impl Strategy<Value = TerminalOutput> {
        let step = (chunk(), prop_oneof![3 => Just(0_u64), 1 => 1..100_000_u64]);
        vec(step, 0..3).prop_map(|steps| {
            let mut output = TerminalOutput::default();
            for (bytes, gap) in steps {
                output.append_bytes(&bytes);
                output.record_omitted_bytes(gap);
            }
            output
        })
    }

    #[test]
    fn omitted_bytes_are_counted_between_head_and_tail() {
        let mut output = TerminalOutput::from_bytes(b"begin");
        output.append_bytes(&[b'x'; OUTPUT_HEAD_BYTES]);
        output.record_omitted_bytes(1_000_000);
        output.append_bytes(b"end");
        assert_eq!((output.total_bytes(), output.head().len()), (1_008_200, OUTPUT_HEAD_BYTES));
        assert_eq!((output.tail(), output.omitted_bytes()), (&b"end"[..], 1_000_005));
        let mut short = TerminalOutput::from_bytes(b"begin");
        short.record_omitted_bytes(7);
        short.append_bytes(b"end");
        assert_eq!((short.head(), short.tail()), (&b"begin"[..], &b"end"[..]));
        assert_eq!(
            short.to_bytes_with_omission_line(),
            "begin\n[… 7 bytes left out …]\nend".as_bytes()
        );
    }

    proptest! {
        #[test]
        fn head_and_tail_do_not_depend_on_the_chunks(chunks in vec(chunk(), 0..6)) {
            let whole = chunks.concat();
            let mut output = TerminalOutput::default();
            chunks.iter().for_each(|chunk| output.append_bytes(chunk));
            let head = &whole[..OUTPUT_HEAD_BYTES.min(whole.len())];
            let rest = &whole[head.len()..];
            assert_eq!(output.total_bytes(), whole.len() as u64);
            assert_eq!(output.head(), head);
            assert_eq!(output.tail(), &rest[rest.len().saturating_sub(OUTPUT_TAIL_BYTES)..]);
        }

        #[test]
        fn append_is_associative(a in output(), b in output(), c in output()) {
            assert!(a.head().len() as u64 + a.tail().len() as u64 <= a.total_bytes());
            let mut left = a.clone();
            left.append_output(&b);
            left.append_output(&c);
            let mut later = b;
            later.append_output(&c);
            let mut right = a;
            right.append_output(&later);
            assert_eq!(left, right);
        }
    }
}
