//! A responder on loopback that sends what a test says, for the tests of providers.

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

/// Answers one connection after the other, each with what is written for it, and returns what it
/// was sent.
pub(super) async fn respond(answers: Vec<String>) -> (String, JoinHandle<Vec<Asked>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !is_whole(&bytes) {
                assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
            }
            let text = String::from_utf8(bytes).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let body = serde_json::from_str(body).unwrap_or_default();
            asked.push(Asked { head: head.to_owned(), body });
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        asked
    });
    (url, asked)
}

pub(super) struct Asked {
    pub(super) head: String,
    pub(super) body: Value,
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
    });
    body.len() >= length.unwrap_or(0)
}

pub(super) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n\r\n{body}")
}
