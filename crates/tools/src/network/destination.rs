//! Hosts and ports of requested connections.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Host and port of a requested connection. The host is a lowercase ASCII name without a final dot,
/// or an IP address as text without brackets. The port is not 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Destination {
    /// Parses `name:port`, `IPv4:port` or `[IPv6]:port`. A missing port is replaced by
    /// `default_port`, if there is one.
    pub(crate) fn parse(authority: &str, default_port: Option<u16>) -> Option<Self> {
        let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
            let (address, port) = rest.split_once(']')?;
            (canonical_ip_text(address.parse::<Ipv6Addr>().ok()?.into()), port)
        } else {
            let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            (parse_host(host)?, port)
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => parse_port(digits)?,
            None if port.is_empty() => default_port?,
            None => return None,
        };
        Some(Self { host, port })
    }

    /// Returns whether the host is a loopback address, `localhost`, or a name that ends with
    /// `.localhost`. These names always refer to this computer (RFC 6761).
    pub(crate) fn is_loopback(&self) -> bool {
        let is_localhost = self.host.rsplit('.').next() == Some("localhost");
        is_localhost || self.address().is_some_and(|address| address.is_loopback())
    }

    /// Returns the address of the host if the host is an IP address. Returns `None` for a name.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// Formats the destination as an authority, with brackets around an IPv6 address.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Parses a name or an IP address without brackets.
///
/// Some resolvers treat names such as `0x7f.1` and `2130706433` as IPv4 addresses. A name with a
/// numeric last label is therefore invalid, as in URLs
/// (<https://url.spec.whatwg.org/#host-parsing>).
pub(crate) fn parse_host(host: &str) -> Option<String> {
    let host = host.strip_suffix('.').unwrap_or(host);
    if let Ok(address) = host.parse() {
        return Some(canonical_ip_text(address));
    }
    let is_label = |label: &str| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(is_valid)
    };
    let host = host.to_ascii_lowercase();
    let last = host.rsplit('.').next()?;
    let is_number = match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    (host.len() <= 253 && host.split('.').all(is_label) && !is_number).then_some(host)
}

/// Returns an address as text. An IPv4-mapped IPv6 address is written as an IPv4 address.
pub(crate) fn canonical_ip_text(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

fn parse_port(digits: &str) -> Option<u16> {
    // `parse` would accept a sign.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port != 0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::Destination;

    #[test]
    fn authorities_are_parsed_and_normalized() {
        for (authority, host, port) in [
            ("a.example:443", "a.example", 443),
            ("A.Example.:443", "a.example", 443),
            ("my_host-1:1", "my_host-1", 1),
            ("xn--bcher-kva.example:80", "xn--bcher-kva.example", 80),
            ("203.0.113.7:65535", "203.0.113.7", 65535),
            ("203.0.113.7.:8", "203.0.113.7", 8),
            ("[2001:DB8::1]:8443", "2001:db8::1", 8443),
            ("[::ffff:10.0.0.1]:22", "10.0.0.1", 22),
            ("a.0xyz:1", "a.0xyz", 1),
        ] {
            let parsed = Destination::parse(authority, None);
            assert_eq!(parsed, Some(Destination { host: host.to_owned(), port }), "{authority}");
        }
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        assert_eq!(Destination::parse(&longest, Some(80)).unwrap().host, longest);
        let ipv6 = Destination { host: "2001:db8::1".to_owned(), port: 443 };
        assert_eq!(ipv6.to_string(), "[2001:db8::1]:443");
    }

    #[test]
    fn malformed_authorities_are_rejected() {
        let long_label = format!("{}.example:1", "a".repeat(64));
        let long_name = format!("{0}.{0}.{0}.{1}:1", "a".repeat(63), "b".repeat(62));
        for authority in [
            "",
            ":",
            ":443",
            ".:443",
            "a",
            "a:",
            "a:0",
            "a:65536",
            "a:+1",
            "a: 1",
            "a:1:2",
            "a:x",
            "..:1",
            "a..b:1",
            ".a:1",
            "a..:1",
            "a b:1",
            "user@a:1",
            "a/b:1",
            "a%41:1",
            "ä:1",
            "a\0:1",
            "::1:80",
            "[::1]",
            "[::1]80",
            "[::1",
            "[a.example]:1",
            "[127.0.0.1]:1",
            "[fe80::1%eth0]:1",
            "127.1:80",
            "2130706433:80",
            "0x7f000001:80",
            "0X7F.1:80",
            "0177.0.0.1:80",
            "1.2.3.4.5:80",
            "256.0.0.1:80",
            "a.0x:80",
            &long_label,
            &long_name,
        ] {
            assert_eq!(Destination::parse(authority, None), None, "{authority}");
        }
    }
}
