//! The end of a login: the answer of the authorization server. The browser passes the answer to
//! this computer in a request, or the user pastes the address of this request.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;

use crate::limits::{CALLBACK_TIMEOUT, MAX_CALLBACK_BYTES, MAX_CALLBACKS};

/// Waits for the browser's request with the answer of an authorization server.
pub(super) struct CallbackListener {
    listener: TcpListener,
    address: Arc<str>,
}

/// The answer of an authorization server. The state in the answer equals the state of the login.
pub(super) enum Callback {
    /// The user has agreed.
    Code { code: String, issuer: Option<String> },
    /// The authorization server refuses the login.
    Error { error: String, description: Option<String> },
}

impl CallbackListener {
    /// Listens at a free loopback port of this computer. Other computers cannot reach this port.
    pub(super) async fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, address: format!("http://127.0.0.1:{port}/callback").into() })
    }

    /// Returns the address to which the browser is redirected.
    pub(super) fn redirect_url(&self) -> &str {
        &self.address
    }

    /// Waits for the answer with this state. All other requests are refused and have no effect,
    /// because any page in the browser can send them.
    pub(super) async fn wait(&self, state: &str) -> Callback {
        let state: Arc<str> = state.into();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CALLBACKS => {
                    // This fails e.g. if the browser has closed the connection again.
                    let Ok((stream, _)) = accepted else { continue };
                    let (address, state) = (self.address.clone(), state.clone());
                    connections.spawn(async move {
                        timeout(CALLBACK_TIMEOUT, answer_callback_request(stream, &address, &state)).await
                    });
                }
                Some(served) = connections.join_next() => {
                    if let Ok(Ok(Some(callback))) = served {
                        return callback;
                    }
                }
            }
        }
    }
}

impl Callback {
    /// Parses the address to which the browser was redirected. Returns `None` if the address
    /// differs from `expected`, or if it does not contain `state`.
    pub(super) fn parse_redirect_url(address: &str, expected: &str, state: &str) -> Option<Self> {
        let (address, expected) = (Url::parse(address).ok()?, Url::parse(expected).ok()?);
        let part = |name: &str| {
            let mut parts = address.query_pairs();
            parts.find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
        };
        let is_same_place =
            address.origin() == expected.origin() && address.path() == expected.path();
        if !is_same_place || part("state").as_deref() != Some(state) {
            return None;
        }
        match (part("error"), part("code")) {
            (Some(error), _) => Some(Self::Error { error, description: part("error_description") }),
            (None, Some(code)) => Some(Self::Code { code, issuer: part("iss") }),
            (None, None) => None,
        }
    }
}

/// Reads one request, and answers it.
async fn answer_callback_request(
    mut stream: TcpStream,
    address: &str,
    state: &str,
) -> Option<Callback> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_CALLBACK_BYTES || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let target = head.strip_prefix("GET /").and_then(|rest| rest.split(' ').next());
    let requested = Url::parse(address).ok()?.join(&format!("/{}", target.unwrap_or_default()));
    let callback = Callback::parse_redirect_url(requested.ok()?.as_str(), address, state);
    // The page contains no text of the request, because any program may have sent the request.
    let (status, text) = match &callback {
        Some(Callback::Code { .. }) => {
            ("200 OK", "The answer has arrived. Close this page, and return to the terminal.")
        }
        Some(Callback::Error { .. }) => {
            ("200 OK", "The login has failed. The terminal shows the reason.")
        }
        None => ("404 Not Found", "This is not the answer to the login."),
    };
    let page =
        format!("<!DOCTYPE html><meta charset=\"utf-8\"><title>Login</title><p>{text}</p>\n");
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    // The browser may have closed the connection.
    drop(stream.write_all(response.as_bytes()).await);
    drop(stream.shutdown().await);
    callback
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_this_login_is_accepted() {
        let expected = "http://127.0.0.1:7/callback";
        let parse = |address: &str| match Callback::parse_redirect_url(address, expected, "s") {
            Some(Callback::Code { code, issuer }) => format!("{code} {issuer:?}"),
            Some(Callback::Error { error, .. }) => error,
            None => "no".to_owned(),
        };
        for (address, result) in [
            ("http://127.0.0.1:7/callback?code=a%20b&state=s", "a b None"),
            ("http://127.0.0.1:7/callback?state=s&code=a&iss=i", "a Some(\"i\")"),
            ("http://127.0.0.1:7/callback?error=denied&code=a&state=s", "denied"),
            ("http://127.0.0.1:7/callback?error=denied", "no"),
            ("http://127.0.0.1:7/callback?code=a&state=t", "no"),
            ("http://127.0.0.1:7/callback?code=a", "no"),
            ("http://127.0.0.1:7/callback?state=s", "no"),
            ("http://127.0.0.1:7/other?code=a&state=s", "no"),
            ("http://127.0.0.1:8/callback?code=a&state=s", "no"),
            ("a", "no"),
        ] {
            assert_eq!(parse(address), result, "{address}");
        }
    }
}
