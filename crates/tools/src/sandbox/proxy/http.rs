//! Parses HTTP requests to the proxy, and creates the responses.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use httparse::{EMPTY_HEADER, Header};

use super::{ForwardedRequest, ProxyRequest, Refusal};
use crate::limits::MAX_PROXY_HEADERS;
use crate::network::Destination;

/// Fields that are not forwarded, in addition to `Proxy-*`. They concern only the connection
/// between the client and the proxy, except `Host`, which the proxy replaces.
const DROPPED_FIELDS: [&str; 6] =
    ["Connection", "Host", "HTTP2-Settings", "Keep-Alive", "TE", "Upgrade"];

/// Parses the head of a request: `CONNECT host:port`, or a method with an `http` URL.
pub(super) fn parse_request(head: &[u8]) -> Result<ProxyRequest, Refusal> {
    let mut fields = [EMPTY_HEADER; MAX_PROXY_HEADERS];
    let mut request = httparse::Request::new(&mut fields);
    let status = request.parse(head).map_err(|error| malformed(&error.to_string()))?;
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version.filter(|_| status.is_complete()))
    else {
        return Err(malformed("it is incomplete"));
    };
    let fields = &*request.headers;
    if values(fields, "Host").count() > 1 {
        return Err(malformed("it has more than one Host field"));
    }
    let credentials = values(fields, "Proxy-Authorization").next().and_then(user_name);
    if method == "CONNECT" {
        let destination = Destination::parse(target, None);
        let destination = destination.ok_or_else(|| malformed("the target is not host:port"))?;
        return Ok(ProxyRequest { credentials, destination, forwarded: None });
    }
    let (destination, path) = parse_url(target)?;
    let body_bytes = parse_body_length(fields)?;
    let first_line = format!("{method} {path} HTTP/1.{version}\r\n");
    let head = forwarded_head(first_line, &destination, fields);
    let forwarded = Some(ForwardedRequest { head, body_bytes });
    Ok(ProxyRequest { credentials, destination, forwarded })
}

fn malformed(why: &str) -> Refusal {
    Refusal::Malformed(format!("The request to the proxy is malformed: {why}."))
}

/// Returns the values of all fields with a name.
fn values<'a>(fields: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    named.map(|field| field.value)
}

/// Returns the user name in Basic credentials (RFC 7617), if there is one.
fn user_name(credentials: &[u8]) -> Option<String> {
    let (scheme, encoded) = str::from_utf8(credentials).ok()?.split_once(' ')?;
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let (user, _) = str::from_utf8(&decoded).ok()?.split_once(':')?;
    let is_valid = scheme.eq_ignore_ascii_case("Basic") && !user.is_empty();
    is_valid.then(|| user.to_owned())
}

/// Returns the destination of an `http` URL, and the path with the query.
fn parse_url(url: &str) -> Result<(Destination, String), Refusal> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(malformed("a proxy needs the whole URL, e.g. http://host/path"));
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Refusal::Unsupported("Only http URLs can be requested; others need CONNECT."));
    }
    let (rest, _fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let destination = Destination::parse(authority, Some(80));
    let destination = destination.ok_or_else(|| malformed("the URL has no valid host and port"))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((destination, format!("{slash}{path}")))
}

/// Returns the length of the body, or `None` if it is chunked. A request whose length servers could
/// interpret in different ways is an error (RFC 9112, section 6.3).
fn parse_body_length(fields: &[Header<'_>]) -> Result<Option<u64>, Refusal> {
    let mut lengths = values(fields, "Content-Length");
    let length = lengths.next();
    if lengths.any(|other| Some(other) != length) {
        return Err(malformed("its Content-Length fields differ"));
    }
    let encodings = values(fields, "Transfer-Encoding").count();
    match length {
        None if encodings == 0 => Ok(Some(0)),
        None => Ok(None),
        Some(_) if encodings > 0 => {
            Err(malformed("it has both a Content-Length and a Transfer-Encoding"))
        }
        Some(digits) => {
            let digits = str::from_utf8(digits).ok();
            // `parse` would accept a sign.
            let digits = digits.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
            let length = digits.and_then(|digits| digits.parse().ok());
            length.map(Some).ok_or_else(|| malformed("its Content-Length is not a number"))
        }
    }
}

/// Returns the head of a request that is sent to its destination. The head asks the destination to
/// close the connection after the response.
fn forwarded_head(
    mut first_lines: String,
    destination: &Destination,
    fields: &[Header<'_>],
) -> Vec<u8> {
    let authority = destination.to_string();
    let host = authority.strip_suffix(":80").unwrap_or(&authority);
    first_lines += &format!("Host: {host}\r\nConnection: close\r\n");
    let mut head = first_lines.into_bytes();
    for Header { name, value } in fields {
        let is_dropped = DROPPED_FIELDS.iter().any(|it| it.eq_ignore_ascii_case(name));
        let is_for_proxy = name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("Proxy-"));
        if !is_dropped && !is_for_proxy {
            head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
    }
    head.extend(b"\r\n");
    head
}

/// Returns the response to a refused request. The body of the response is one line of text.
pub(super) fn refusal(refusal: &Refusal) -> Vec<u8> {
    let (status, text) = match refusal {
        Refusal::Malformed(text) => ("400 Bad Request", text.as_str()),
        Refusal::Disconnected => ("400 Bad Request", "The client has closed the connection."),
        Refusal::Forbidden(text) => ("403 Forbidden", text.as_str()),
        Refusal::NeedsCredentials => (
            "407 Proxy Authentication Required",
            "The proxy needs the credentials in the variables HTTP_PROXY and HTTPS_PROXY.",
        ),
        Refusal::TimedOut => ("408 Request Timeout", "The request has not arrived in time."),
        Refusal::Unsupported(text) => ("501 Not Implemented", *text),
        Refusal::Unreachable(text) => ("502 Bad Gateway", text.as_str()),
    };
    let mut response = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    if *refusal == Refusal::NeedsCredentials {
        response += "Proxy-Authenticate: Basic realm=\"callboard\"\r\n";
    }
    // Writing to a string cannot fail.
    let _ = write!(
        response,
        "Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{text}\n",
        text.len() + 1
    );
    response.into_bytes()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::parse_request;
    use crate::sandbox::proxy::{Destination, Refusal};

    #[test]
    fn connect_requests_are_parsed() {
        for (head, credentials) in [
            ("CONNECT a.example:443 HTTP/1.1\r\n\r\n", None),
            ("CONNECT a.example:443 HTTP/1.0\n\n", None),
            // The Host field of a CONNECT request is ignored.
            ("CONNECT a.example:443 HTTP/1.1\r\nHost: b.example\r\n\r\n", None),
            (
                "CONNECT A.example.:443 HTTP/1.1\r\nproxy-authorization: basic dG9rZW46eA==\r\n\r\n",
                Some("token"),
            ),
            ("CONNECT a.example:443 HTTP/1.1\r\nProxy-Authorization: Basic OnB3\r\n\r\n", None),
            ("CONNECT a.example:443 HTTP/1.1\r\nProxy-Authorization: Basic !\r\n\r\n", None),
            ("CONNECT a.example:443 HTTP/1.1\r\nProxy-Authorization: Bearer dDo=\r\n\r\n", None),
        ] {
            let request = parse_request(head.as_bytes()).unwrap();
            let destination = Destination { host: "a.example".to_owned(), port: 443 };
            assert_eq!(request.destination, destination, "{head}");
            assert_eq!(request.credentials.as_deref(), credentials, "{head}");
            assert_eq!(request.forwarded, None, "{head}");
        }
    }

    #[test]
    fn plain_requests_are_rewritten() {
        for (head, destination, forwarded, body) in [
            (
                "GET http://a.example/x?y=1 HTTP/1.1\r\nHost: b.example\r\nProxy-Connection: \
                 Keep-Alive\r\nproxy-authorization: Basic dDo=\r\nConnection: keep-alive, \
                 Upgrade\r\nUpgrade: h2c\r\nX: ä\r\n\r\n",
                "a.example:80",
                "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nX: ä\r\n\r\n",
                Some(0),
            ),
            (
                "POST HTTP://A.example:8080?q#f HTTP/1.0\r\nContent-Length: 3\r\n\r\n",
                "a.example:8080",
                "POST /?q HTTP/1.0\r\nHost: a.example:8080\r\nConnection: close\r\n\
                 Content-Length: 3\r\n\r\n",
                Some(3),
            ),
            (
                "PUT http://[2001:db8::1] HTTP/1.1\nTransfer-Encoding: chunked\n\n",
                "[2001:db8::1]:80",
                "PUT / HTTP/1.1\r\nHost: [2001:db8::1]\r\nConnection: close\r\n\
                 Transfer-Encoding: chunked\r\n\r\n",
                None,
            ),
        ] {
            let request = parse_request(head.as_bytes()).unwrap();
            assert_eq!(request.destination.to_string(), destination);
            let rewritten = request.forwarded.unwrap();
            assert_eq!(String::from_utf8(rewritten.head).unwrap(), forwarded);
            assert_eq!(rewritten.body_bytes, body);
        }
    }

    #[test]
    fn malformed_requests_are_refused() {
        let many = format!("GET http://a/ HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(129));
        for head in [
            "",
            "\r\n\r\n",
            "GET\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET a.example HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET http://a:/x HTTP/1.1\r\n\r\n",
            "GET http://user@a/x HTTP/1.1\r\n\r\n",
            "GET http://a\\@b/x HTTP/1.1\r\n\r\n",
            "GET http://a/ HTTP/2.0\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nX: a\rY: b\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nX : a\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "CONNECT a.example HTTP/1.1\r\n\r\n",
            "CONNECT http://a.example:443 HTTP/1.1\r\n\r\n",
            "CONNECT 127.1:443 HTTP/1.1\r\n\r\n",
            &many,
        ] {
            let refusal = parse_request(head.as_bytes()).unwrap_err();
            assert!(matches!(refusal, Refusal::Malformed(_)), "{head}: {refusal:?}");
        }
        let https = parse_request(b"GET https://a/ HTTP/1.1\r\n\r\n").unwrap_err();
        assert!(matches!(https, Refusal::Unsupported(_)), "{https:?}");
    }
}
