//! Parses SOCKS5 requests to the proxy (RFC 1928), with user names (RFC 1929), and creates the
//! replies.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{ProxyRequest, Refusal};
use crate::network::{Destination, canonical_ip_text, parse_host};

/// First byte of every message. A SOCKS5 connection therefore begins with this byte.
pub(super) const VERSION: u8 = 5;

/// The reply for an opened connection.
pub(super) const SUCCESS: [u8; 10] = reply(0);

// Methods of authentication.
const NO_AUTHENTICATION: u8 = 0;
const USER_NAME: u8 = 2;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;

/// Version of the messages with a user name and a password.
const USER_NAME_VERSION: u8 = 1;

const CONNECT: u8 = 1;

// Types of addresses.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Negotiates with a client, and reads its request. The password is ignored, because the user name
/// alone identifies the command.
pub(super) async fn read_request(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<ProxyRequest, Refusal> {
    read_expected_byte(client, VERSION, "version").await?;
    let methods = read_string(client).await?;
    let method = [USER_NAME, NO_AUTHENTICATION].into_iter().find(|it| methods.contains(it));
    client.write_all(&[VERSION, method.unwrap_or(NO_ACCEPTABLE_METHOD)]).await?;
    let credentials = match method {
        Some(USER_NAME) => read_user_name(client).await?,
        Some(_) => None,
        None => return Err(malformed("no method of authentication is known")),
    };
    read_expected_byte(client, VERSION, "version").await?;
    let command = client.read_u8().await?;
    read_expected_byte(client, 0, "reserved byte").await?;
    let host = read_host(client).await?;
    let port = client.read_u16().await?;
    if command != CONNECT {
        return Err(Refusal::Unsupported("The only supported command is CONNECT."));
    }
    let host = host.filter(|_| port != 0).ok_or_else(|| malformed("the address is invalid"))?;
    Ok(ProxyRequest { credentials, destination: Destination { host, port }, forwarded: None })
}

fn malformed(why: &str) -> Refusal {
    Refusal::Malformed(format!("The SOCKS5 request is malformed: {why}."))
}

/// Reads a byte that has only one valid value.
async fn read_expected_byte(
    client: &mut (impl AsyncRead + Unpin),
    value: u8,
    name: &str,
) -> Result<(), Refusal> {
    match client.read_u8().await? {
        byte if byte == value => Ok(()),
        byte => Err(malformed(&format!("the {name} is {byte} instead of {value}"))),
    }
}

/// Reads a string of at most 255 bytes, with its length before it.
async fn read_string(client: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::from(client.read_u8().await?)];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn read_user_name(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<Option<String>, Refusal> {
    read_expected_byte(client, USER_NAME_VERSION, "version of the credentials").await?;
    let user = read_string(client).await?;
    let _password = read_string(client).await?;
    client.write_all(&[USER_NAME_VERSION, 0]).await?;
    Ok(String::from_utf8(user).ok().filter(|user| !user.is_empty()))
}

/// Reads an address or a name. Returns `None` if the name is invalid.
async fn read_host(client: &mut (impl AsyncRead + Unpin)) -> Result<Option<String>, Refusal> {
    Ok(match client.read_u8().await? {
        IPV4 => Some(canonical_ip_text(IpAddr::from(client.read_u32().await?.to_be_bytes()))),
        IPV6 => Some(canonical_ip_text(IpAddr::from(client.read_u128().await?.to_be_bytes()))),
        NAME => {
            let name = String::from_utf8(read_string(client).await?);
            name.ok().and_then(|name| parse_host(&name))
        }
        _ => return Err(malformed("the type of the address is unknown")),
    })
}

/// Returns the reply to a refused request.
pub(super) const fn refusal(refusal: &Refusal) -> [u8; 10] {
    reply(match refusal {
        Refusal::Malformed(_) | Refusal::TimedOut | Refusal::Disconnected => 1,
        Refusal::Forbidden(_) | Refusal::NeedsCredentials => 2,
        Refusal::Unreachable(_) => 4,
        Refusal::Unsupported(_) => 7,
    })
}

/// Returns a reply. Its address is unspecified, because a command does not need the local address
/// of the proxy's connection.
const fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::read_request;
    use crate::sandbox::proxy::{ProxyRequest, Refusal};

    /// Reads the request in `sent`. Also returns the bytes that the proxy has sent.
    async fn negotiate(sent: &[u8]) -> (Result<ProxyRequest, Refusal>, Vec<u8>) {
        let (mut client, mut proxy) = duplex(64 * 1024);
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        let request = read_request(&mut proxy).await;
        drop(proxy);
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        (request, received)
    }

    /// The bytes that a client sends, the expected user name and destination, and the bytes that
    /// the client receives.
    type ParsedRequest = (&'static [u8], Option<&'static str>, &'static str, &'static [u8]);

    #[tokio::test]
    async fn requests_are_parsed() {
        let table: [ParsedRequest; 6] = [
            (b"\x05\x01\0\x05\x01\0\x03\x09A.example\x01\xbb", None, "a.example:443", b"\x05\0"),
            (b"\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01\0\x50", None, "127.0.0.1:80", b"\x05\0"),
            (b"\x05\x01\0\x05\x01\0\x03\x0810.0.0.1\0\x50", None, "10.0.0.1:80", b"\x05\0"),
            (
                b"\x05\x01\0\x05\x01\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\x50",
                None,
                "[2001:db8::1]:80",
                b"\x05\0",
            ),
            (
                b"\x05\x02\0\x02\x01\x05token\x01x\x05\x01\0\x03\x01a\0\x16",
                Some("token"),
                "a:22",
                b"\x05\x02\x01\0",
            ),
            (b"\x05\x01\x02\x01\0\0\x05\x01\0\x03\x01a\0\x16", None, "a:22", b"\x05\x02\x01\0"),
        ];
        for (sent, credentials, destination, received) in table {
            let (request, answer) = negotiate(sent).await;
            let request = request.unwrap();
            assert_eq!(request.destination.to_string(), destination);
            assert_eq!(request.credentials.as_deref(), credentials);
            assert_eq!(answer, received);
        }
    }

    #[tokio::test]
    async fn malformed_requests_are_refused() {
        let table: [&[u8]; 9] = [
            b"",
            b"\x04\x01\0\x50\x7f\0\0\x01\0",
            b"\x05\x01",
            b"\x05\x01\x01",
            b"\x05\x01\0\x04\x01\0\x03\x01a\0\x16",
            b"\x05\x01\0\x05\x01\x01\x03\x01a\0\x16",
            b"\x05\x01\0\x05\x01\0\x02\x01a\0\x16",
            b"\x05\x01\0\x05\x01\0\x03\x03a b\0\x16",
            b"\x05\x01\0\x05\x01\0\x03\x01a\0\0",
        ];
        for sent in table {
            let (request, _) = negotiate(sent).await;
            assert!(matches!(request, Err(Refusal::Malformed(_))), "{sent:?}: {request:?}");
        }
        let (bind, _) = negotiate(b"\x05\x01\0\x05\x02\0\x03\x01a\0\x16").await;
        assert!(matches!(bind, Err(Refusal::Unsupported(_))), "{bind:?}");
        let (_, answer) = negotiate(b"\x05\x01\x01").await;
        assert_eq!(answer, b"\x05\xff");
    }
}
