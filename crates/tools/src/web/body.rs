//! The body of a response: decompressed while it is received, and bounded.

use std::io::{self, Write};

use flate2::write::GzDecoder;

/// The beginning of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// Whether the body has more bytes.
    pub(crate) is_truncated: bool,
}

/// The reason why a body cannot be decoded, as the end of a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BodyError(pub(crate) String);

/// Receives a body piece by piece.
pub(crate) struct BodyCollector {
    decoder: Decoder,
    max: usize,
    received: usize,
}

enum Decoder {
    Identity(BoundedBuffer),
    Gzip(Box<GzipDecoder>),
}

impl BodyCollector {
    /// Creates a collector of at most `max` bytes, both as received and after decompression.
    ///
    /// # Errors
    ///
    /// Returns an error if the content encoding is not supported.
    pub(crate) fn try_new(content_encoding: &str, max: usize) -> Result<Self, BodyError> {
        let buffer = BoundedBuffer { bytes: Vec::new(), max, is_full: false };
        let decoder = match content_encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Decoder::Identity(buffer),
            "gzip" | "x-gzip" => Decoder::Gzip(Box::new(GzipDecoder::new(buffer))),
            _ => {
                let reason = "it is compressed in a way that was not requested";
                return Err(BodyError(reason.to_owned()));
            }
        };
        Ok(Self { decoder, max, received: 0 })
    }

    /// Adds received bytes. Returns whether more bytes can be added.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes cannot be decompressed.
    pub(crate) fn push(&mut self, received: &[u8]) -> Result<bool, BodyError> {
        // Limit the received bytes too. Compressed data may be endless without containing any text.
        self.received += received.len();
        let written = match &mut self.decoder {
            Decoder::Identity(buffer) => buffer.write_all(received),
            Decoder::Gzip(decoder) => decoder.write_all(received),
        };
        match written {
            _ if self.buffer().is_full => Ok(false),
            Ok(()) => Ok(self.received <= self.max),
            Err(error) => Err(BodyError(format!("it cannot be decompressed ({error})"))),
        }
    }

    /// Returns the number of bytes after decompression.
    pub(crate) fn len(&self) -> usize {
        self.buffer().bytes.len()
    }

    /// Returns the collected bytes. `is_complete` states whether the end of the body was received.
    /// A response without any bytes has an empty body, whatever its content encoding is.
    ///
    /// # Errors
    ///
    /// Returns an error if compressed data ends too early.
    pub(crate) fn finish(mut self, is_complete: bool) -> Result<Body, BodyError> {
        if let Decoder::Gzip(decoder) = &mut self.decoder
            && let Err(error) = decoder.try_finish()
            && is_complete
            && self.received > 0
            && !decoder.buffer().is_full
        {
            return Err(BodyError(format!("it cannot be decompressed ({error})")));
        }
        let buffer = match &mut self.decoder {
            Decoder::Identity(buffer) => buffer,
            Decoder::Gzip(decoder) => decoder.member.get_mut(),
        };
        let is_truncated = !is_complete || buffer.is_full;
        Ok(Body { bytes: std::mem::take(&mut buffer.bytes), is_truncated })
    }

    fn buffer(&self) -> &BoundedBuffer {
        match &self.decoder {
            Decoder::Identity(buffer) => buffer,
            Decoder::Gzip(decoder) => decoder.buffer(),
        }
    }
}

/// Decompresses the members of a gzip body, one after the other. Bytes after a member that do not
/// begin another member are ignored, e.g. padding.
struct GzipDecoder {
    member: GzDecoder<BoundedBuffer>,
    has_complete_member: bool,
    /// Whether all further bytes are ignored.
    ignores_rest: bool,
}

impl GzipDecoder {
    fn new(buffer: BoundedBuffer) -> Self {
        Self { member: GzDecoder::new(buffer), has_complete_member: false, ignores_rest: false }
    }

    fn buffer(&self) -> &BoundedBuffer {
        self.member.get_ref()
    }

    /// Returns whether the current bytes come after a member, and do not begin another member.
    fn is_after_members(&self) -> bool {
        self.has_complete_member && self.member.header().is_none()
    }

    fn write_all(&mut self, mut received: &[u8]) -> io::Result<()> {
        while !received.is_empty() && !self.ignores_rest {
            match self.member.write(received) {
                // The member is complete.
                Ok(0) => {
                    self.member.try_finish()?;
                    let buffer = std::mem::take(self.member.get_mut());
                    self.member = GzDecoder::new(buffer);
                    self.has_complete_member = true;
                }
                Ok(written) => received = &received[written..],
                Err(_) if self.is_after_members() => self.ignores_rest = true,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Decompresses the remaining bytes. Returns an error if the last member is incomplete.
    fn try_finish(&mut self) -> io::Result<()> {
        match self.member.try_finish() {
            Err(_) if self.is_after_members() => Ok(()),
            finished => finished,
        }
    }
}

/// A buffer with a maximum size. A write that exceeds this size fails, but the bytes that fit are
/// kept.
#[derive(Default)]
struct BoundedBuffer {
    bytes: Vec<u8>,
    max: usize,
    is_full: bool,
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.max - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
