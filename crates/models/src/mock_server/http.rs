//! A minimal HTTP/1.1 server implementation that can violate the protocol on purpose.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::sleep;

use super::dialect::BodyPiece;
use super::limits::{MAX_BODY_BYTES, MAX_HEAD_BYTES, READ_BUFFER_BYTES};

/// An HTTP request with any method and path.
#[derive(Debug)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    pub(super) path: String,
    /// Headers in the order of the request. Their names are in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl HttpRequest {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// A reader of requests, with a buffer for bytes that are not parsed yet.
pub(super) struct RequestReader<R> {
    stream: R,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> RequestReader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Reads the next request. Returns `None` if the connection ends before a request.
    pub(super) async fn read_request(&mut self) -> io::Result<Option<HttpRequest>> {
        let end = loop {
            if let Some(at) = find_bytes(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            if self.buffer.len() > MAX_HEAD_BYTES {
                return Err(invalid_data_error("the headers are too long"));
            }
            if self.fill_buffer().await? == 0 {
                return Ok(None);
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let mut request = parse_request_head(&String::from_utf8_lossy(&head))?;
        let length = request.header("content-length").map(str::parse::<usize>);
        request.body = match length {
            Some(Ok(length)) => self.read_exact_bytes(length).await?,
            Some(Err(_)) => return Err(invalid_data_error("content-length is not a number")),
            None if request.header("transfer-encoding").is_some() => {
                self.read_chunked_body().await?
            }
            None => Vec::new(),
        };
        Ok(Some(request))
    }

    /// Waits until the client disconnects. Bytes that arrive in the meantime stay in the buffer.
    pub(super) async fn wait_for_disconnect(&mut self) {
        while self.buffer.len() <= MAX_HEAD_BYTES {
            if matches!(self.fill_buffer().await, Ok(0) | Err(_)) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn fill_buffer(&mut self) -> io::Result<usize> {
        self.buffer.reserve(READ_BUFFER_BYTES);
        self.stream.read_buf(&mut self.buffer).await
    }

    async fn read_exact_bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > MAX_BODY_BYTES {
            return Err(invalid_data_error("the body is too long"));
        }
        while self.buffer.len() < length {
            if self.fill_buffer().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    async fn read_chunked_body(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = find_bytes(&self.buffer, b"\r\n") {
                    break self.read_exact_bytes(at + 2).await?;
                }
                if self.fill_buffer().await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            };
            let line = String::from_utf8_lossy(&line);
            let size = line.split(';').next().unwrap_or_default().trim();
            let size =
                usize::from_str_radix(size, 16).map_err(|error| invalid_data_error(&error))?;
            if size > MAX_BODY_BYTES - body.len() {
                return Err(invalid_data_error("the body is too long"));
            }
            let chunk = self.read_exact_bytes(size + 2).await?;
            body.extend_from_slice(chunk.get(..size).unwrap_or_default());
            if size == 0 {
                return Ok(body);
            }
        }
    }
}

fn parse_request_head(head: &str) -> io::Result<HttpRequest> {
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Err(invalid_data_error("this is not a request"));
    };
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    let (method, path) = (method.to_owned(), path.to_owned());
    Ok(HttpRequest { method, path, headers: headers.collect(), body: Vec::new() })
}

fn find_bytes(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn invalid_data_error(why: &(impl ToString + ?Sized)) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

/// A writer of responses.
pub(super) struct ResponseWriter<W> {
    stream: W,
    /// Bytes that are not sent yet. They are sent at the next pause, or when the buffer is full.
    buffer: Vec<u8>,
    /// Maximum size of one write in bytes; `None` for no limit.
    pub(super) write_bytes: Option<usize>,
}

impl<W: AsyncWrite + Unpin> ResponseWriter<W> {
    pub(super) fn new(stream: W) -> Self {
        Self { stream, buffer: Vec::new(), write_bytes: None }
    }

    /// Writes a response with a known length.
    pub(super) async fn write_response_with_length(
        &mut self,
        status: u16,
        headers: &[(String, String)],
        body: &[u8],
    ) -> io::Result<()> {
        self.push_head(status, headers, &format!("content-length: {}", body.len()));
        self.buffer.extend_from_slice(body);
        self.flush().await
    }

    /// Writes a body with chunked transfer encoding, one piece after the other. Returns whether the
    /// connection can be reused.
    pub(super) async fn write_chunked_response(
        &mut self,
        status: u16,
        headers: &[(String, String)],
        pieces: Vec<BodyPiece>,
    ) -> io::Result<bool> {
        self.push_head(status, headers, "transfer-encoding: chunked");
        for piece in pieces {
            match piece {
                BodyPiece::Bytes(bytes) => {
                    self.push_body_chunk(&bytes);
                    if self.buffer.len() > READ_BUFFER_BYTES {
                        self.flush().await?;
                    }
                }
                BodyPiece::Pause(time) => {
                    self.flush().await?;
                    sleep(time).await;
                }
                BodyPiece::Hang => {
                    self.flush().await?;
                    std::future::pending::<()>().await;
                }
                BodyPiece::Disconnect => {
                    self.flush().await?;
                    return Ok(false);
                }
            }
        }
        self.buffer.extend_from_slice(b"0\r\n\r\n");
        self.flush().await?;
        Ok(true)
    }

    fn push_head(&mut self, status: u16, headers: &[(String, String)], framing: &str) {
        let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers: String = headers.collect();
        let head = format!("HTTP/1.1 {status} Scripted\r\n{headers}{framing}\r\n\r\n");
        self.buffer.extend_from_slice(head.as_bytes());
    }

    fn push_body_chunk(&mut self, bytes: &[u8]) {
        // An empty chunk would end the body.
        if !bytes.is_empty() {
            self.buffer.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
            self.buffer.extend_from_slice(bytes);
            self.buffer.extend_from_slice(b"\r\n");
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        for part in buffer.chunks(self.write_bytes.unwrap_or(buffer.len()).max(1)) {
            self.stream.write_all(part).await?;
            self.stream.flush().await?;
        }
        Ok(())
    }
}
