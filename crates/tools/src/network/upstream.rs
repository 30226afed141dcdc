//! The proxy that the user's environment names for connections to other hosts.

use std::{fmt, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::Destination;
use super::buffered_stream::BufferedStream;
use super::destination::parse_host;
use crate::limits::MAX_PROXY_HEADERS;

/// Variables with the URL of a proxy. The first variable with a valid URL is used.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"];

/// Variables with the hosts that need no proxy. The first variable that exists is used.
const EXCEPTION_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// An HTTP proxy that supports `CONNECT`, and the hosts that are reached without this proxy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UpstreamProxy {
    address: Destination,
    /// Value of the field `Proxy-Authorization`.
    authorization: Option<String>,
    exceptions: Vec<ProxyException>,
}

/// A host that is reached without the proxy. The exception also applies to all subdomains of the
/// host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProxyException {
    host: String,
    /// `None` means all ports.
    port: Option<u16>,
}

impl UpstreamProxy {
    /// Reads the proxy from the variables of an environment: `http://[user:password@]host[:port]`.
    /// The scheme may be missing, and the default port is 80. A proxy of another kind, e.g.
    /// `socks5://`, is ignored.
    pub(crate) fn from_env(get: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let mut proxy =
            PROXY_VARIABLES.iter().filter_map(|name| get(name)).find_map(parse_proxy)?;
        let exceptions = EXCEPTION_VARIABLES.iter().find_map(|name| get(name)).unwrap_or_default();
        let exceptions = exceptions.split([',', ' ']).map(str::trim);
        if exceptions.clone().any(|host| host == "*") {
            return None;
        }
        proxy.exceptions = exceptions.filter_map(parse_exception).collect();
        Some(proxy)
    }

    /// Returns the host and the port of the proxy.
    pub(crate) fn address(&self) -> &Destination {
        &self.address
    }

    /// Returns the value of the field `Proxy-Authorization`, if the proxy needs one.
    #[cfg(feature = "web")]
    pub(super) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// Returns whether connections to a destination go through the proxy.
    pub(super) fn serves(&self, destination: &Destination) -> bool {
        !self.exceptions.iter().any(|exception| exception.covers(destination))
    }

    /// Opens a tunnel to a destination. `stream` is a connection to this proxy.
    pub(super) async fn open_tunnel(
        &self,
        mut stream: TcpStream,
        destination: &Destination,
    ) -> io::Result<BufferedStream> {
        let mut request = format!("CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n");
        if let Some(authorization) = &self.authorization {
            request += &format!("Proxy-Authorization: {authorization}\r\n");
        }
        stream.write_all((request + "\r\n").as_bytes()).await?;
        let mut stream = BufferedStream::new(stream);
        match parse_status(&stream.read_head().await?)? {
            200..=299 => Ok(stream),
            status => Err(io::Error::other(format!("it has answered with the status {status}"))),
        }
    }
}

/// Formats the proxy without its credentials.
impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamProxy")
            .field("address", &self.address)
            .field("exceptions", &self.exceptions)
            .finish_non_exhaustive()
    }
}

impl ProxyException {
    fn covers(&self, destination: &Destination) -> bool {
        let prefix = destination.host.strip_suffix(&self.host);
        prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
            && self.port.is_none_or(|port| port == destination.port)
    }
}

fn parse_proxy(url: String) -> Option<UpstreamProxy> {
    let rest = match url.trim().split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some(_) => return None,
        None => url.trim(),
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    };
    let authorization = login.map(|login| {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let login = [&*percent_decode(user), b":", &*percent_decode(password)].concat();
        format!("Basic {}", STANDARD.encode(login))
    });
    let address = Destination::parse(host, Some(80))?;
    Some(UpstreamProxy { address, authorization, exceptions: Vec::new() })
}

/// Parses `host`, `.host` or `*.host`, with or without a port. Other entries, e.g. networks, are
/// ignored.
fn parse_exception(entry: &str) -> Option<ProxyException> {
    let entry = entry.strip_prefix('*').unwrap_or(entry);
    let entry = entry.strip_prefix('.').unwrap_or(entry);
    if let Some(host) = parse_host(entry) {
        return Some(ProxyException { host, port: None });
    }
    let (has_port, parsed) = (!entry.ends_with(']'), Destination::parse(entry, Some(80))?);
    Some(ProxyException { host: parsed.host, port: has_port.then_some(parsed.port) })
}

/// Decodes each `%` that is followed by two hexadecimal digits. All other characters stay
/// unchanged.
fn percent_decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        let digits = tail.get(..2).filter(|_| *byte == b'%');
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    decoded
}

/// Returns the status of a response.
fn parse_status(head: &[u8]) -> io::Result<u16> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_PROXY_HEADERS];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(head).map_err(io::Error::other)?;
    response.code.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{Destination, UpstreamProxy};

    fn from_env(variables: &[(&str, &str)]) -> Option<UpstreamProxy> {
        let value = |name: &str| variables.iter().find(|(other, _)| *other == name);
        UpstreamProxy::from_env(|name| value(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_first_valid_variable_names_the_proxy() {
        for (variables, address, authorization) in [
            (&[("HTTPS_PROXY", "http://p.example:3128")][..], "p.example:3128", None),
            (&[("https_proxy", "P.example:3128/")], "p.example:3128", None),
            (&[("HTTP_PROXY", "http://u:p%40%3a%zz@[::1]:8")], "[::1]:8", Some("dTpwQDoleno=")),
            (&[("all_proxy", "http://u@127.0.0.1")], "127.0.0.1:80", Some("dTo=")),
            (&[("HTTPS_PROXY", "a:1"), ("HTTP_PROXY", "b:1")], "a:1", None),
            (
                &[("HTTPS_PROXY", ""), ("ALL_PROXY", "socks5://a:1"), ("http_proxy", "b:1")],
                "b:1",
                None,
            ),
        ] {
            let proxy = from_env(variables).unwrap();
            assert_eq!(proxy.address.to_string(), address);
            let authorization = authorization.map(|encoded| format!("Basic {encoded}"));
            assert_eq!(proxy.authorization, authorization);
        }
        for variables in [
            &[][..],
            &[("HTTPS_PROXY", "https://a:1")],
            &[("HTTPS_PROXY", "a:1"), ("NO_PROXY", "b, *")],
            &[("HTTPS_PROXY", "http://a:x")],
        ] {
            assert_eq!(from_env(variables), None, "{variables:?}");
        }
    }

    #[test]
    fn exceptions_are_matched_by_suffix_and_port() {
        let exceptions =
            "a.example, .b.example,*.C.example,d.example:81,10.0.0.1,::1,[::2]:5,1.2/8";
        let proxy = from_env(&[("HTTPS_PROXY", "p:1"), ("no_proxy", exceptions)]).unwrap();
        for (authority, is_served) in [
            ("a.example:80", false),
            ("x.a.example:80", false),
            ("xa.example:80", true),
            ("example:80", true),
            ("b.example:80", false),
            ("x.c.example:80", false),
            ("d.example:80", true),
            ("d.example:81", false),
            ("10.0.0.1:80", false),
            ("110.0.0.1:80", true),
            ("[::1]:80", false),
            ("[::2]:5", false),
            ("[::2]:6", true),
        ] {
            let destination = Destination::parse(authority, None).unwrap();
            assert_eq!(proxy.serves(&destination), is_served, "{authority}");
        }
    }

    #[test]
    fn credentials_are_not_formatted() {
        let proxy = from_env(&[("HTTPS_PROXY", "http://user:secret@p:1")]).unwrap();
        assert!(!format!("{proxy:?}").contains("Basic"), "{proxy:?}");
    }
}
