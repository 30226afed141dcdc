//! Splits a byte stream into lines with bounded memory.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;

use crate::limits::{MAX_KEPT_BUFFER_BYTES, MAX_LINE_BYTES, READ_BUFFER_BYTES, RETRY_PAUSE};

/// Reads the lines of a stream, one after the other, into the same buffer.
pub(crate) struct BoundedLines<R> {
    input: RetryWouldBlock<BufReader<R>>,
    line: Vec<u8>,
}

/// A line without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FramedLine<'a> {
    /// The whole line. The last line of a stream may lack the newline.
    Complete(&'a [u8]),
    /// The line exceeded [`MAX_LINE_BYTES`] and was discarded.
    TooLong,
}

impl<R: Read> BoundedLines<R> {
    pub(crate) fn new(input: R) -> Self {
        // The `BufReader` reads directly from the stream, because a file can read into
        // uninitialised memory. A wrapper between the two would make the `BufReader` fill its
        // buffer with zeros first.
        let input = RetryWouldBlock(BufReader::with_capacity(READ_BUFFER_BYTES, input));
        Self { input, line: Vec::new() }
    }

    /// Waits for the next line. Returns the line and the number of bytes read, or `None` at the end
    /// of the stream.
    pub(crate) fn next(&mut self) -> io::Result<Option<(FramedLine<'_>, usize)>> {
        self.line.clear();
        self.line.shrink_to(MAX_KEPT_BUFFER_BYTES);
        let most = MAX_LINE_BYTES + 1;
        let taken = self.input.by_ref().take(most as u64).read_until(b'\n', &mut self.line)?;
        if taken == 0 {
            return Ok(None);
        }
        if self.line.pop_if(|last| *last == b'\n').is_some() || taken < most {
            return Ok(Some((FramedLine::Complete(&self.line), taken)));
        }
        self.line = Vec::new();
        let rest = self.input.skip_until(b'\n')?;
        Ok(Some((FramedLine::TooLong, taken + rest)))
    }
}

/// A wrapper whose reads and writes block, even if the descriptor of the stream is non-blocking.
/// Another process that shares the descriptor may have made it non-blocking.
pub(crate) struct RetryWouldBlock<T>(pub(crate) T);

impl<T> RetryWouldBlock<T> {
    fn retry<N>(&mut self, mut attempt: impl FnMut(&mut T) -> io::Result<N>) -> io::Result<N> {
        loop {
            match attempt(&mut self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(RETRY_PAUSE);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

impl<R: Read> Read for RetryWouldBlock<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.retry(|input| input.read(buffer))
    }
}

impl<R: BufRead> BufRead for RetryWouldBlock<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let is_end = self.retry(|input| Ok(input.fill_buf()?.is_empty()))?;
        if is_end { Ok(&[]) } else { self.0.fill_buf() }
    }

    fn consume(&mut self, bytes: usize) {
        self.0.consume(bytes);
    }
}

impl<W: Write> Write for RetryWouldBlock<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retry(|output| output.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.retry(Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the lines of `input` as text, with `None` for a line that is too long.
    fn lines(input: impl Read) -> Vec<Option<String>> {
        let mut lines = BoundedLines::new(input);
        let mut found = Vec::new();
        while let Some((line, _)) = lines.next().unwrap() {
            found.push(match line {
                FramedLine::Complete(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                FramedLine::TooLong => None,
            });
        }
        found
    }

    /// A stream that returns one byte per call. Before each byte it returns the two errors that
    /// require a retry.
    struct FlakyReader<'a>(&'a [u8], usize);

    impl Read for FlakyReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            match self.1 % 3 {
                1 => Err(io::ErrorKind::WouldBlock.into()),
                2 => Err(io::ErrorKind::Interrupted.into()),
                _ => self.0.read(&mut buffer[..1]),
            }
        }
    }

    #[test]
    fn newlines_separate_lines() {
        let rows: [(&str, &[&str]); 7] = [
            ("", &[]),
            ("a\n", &["a"]),
            ("a\nb", &["a", "b"]),
            ("a\r\nb\r\n", &["a\r", "b\r"]),
            ("\n\n", &["", ""]),
            ("\n", &[""]),
            ("a\u{0}b\n", &["a\u{0}b"]),
        ];
        for (input, expected) in rows {
            let expected: Vec<_> = expected.iter().map(|line| Some((*line).to_owned())).collect();
            assert_eq!(lines(input.as_bytes()), expected, "{input:?} at once");
            assert_eq!(lines(FlakyReader(input.as_bytes(), 0)), expected, "{input:?} byte by byte");
        }
    }

    #[test]
    fn the_longest_line_passes_and_one_byte_more_does_not() {
        let longest = "a".repeat(MAX_LINE_BYTES);
        assert_eq!(
            lines(format!("{longest}\n{longest}a\nnext\n{longest}").as_bytes()),
            [Some(longest.clone()), None, Some("next".into()), Some(longest.clone())]
        );
        assert_eq!(lines(format!("{longest}a").as_bytes()), [None]);
    }

    #[test]
    fn an_endless_line_takes_bounded_memory_and_leaves_none() {
        let endless = io::repeat(b'a').take(512 << 20);
        let mut lines = BoundedLines::new(endless.chain(&b"\nnext\n"[..]));

        assert_eq!(lines.next().unwrap(), Some((FramedLine::TooLong, (512 << 20) + 1)));
        assert!(lines.line.capacity() == 0 && lines.input.0.capacity() == READ_BUFFER_BYTES);
        assert_eq!(lines.next().unwrap(), Some((FramedLine::Complete(b"next"), 5)));
    }

    #[test]
    fn a_long_line_leaves_a_small_buffer_behind() {
        let long = "a".repeat(MAX_LINE_BYTES) + "\nb\n";
        let mut lines = BoundedLines::new(long.as_bytes());
        lines.next().unwrap();
        assert!(lines.line.capacity() <= 2 * MAX_LINE_BYTES + 2);
        lines.next().unwrap();
        assert!(lines.line.capacity() <= MAX_KEPT_BUFFER_BYTES);
    }
}
