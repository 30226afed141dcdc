//! Kinds of IP addresses. The kind of an address decides whether a connection to it is allowed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an address. Only public and private addresses can be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressKind {
    /// Every address without another kind, including the addresses for documentation and
    /// benchmarks.
    Public,
    /// Addresses of local networks, and the shared address space of carriers (RFC 6598).
    Private,
    /// Addresses of the loopback interface of this computer.
    Loopback,
    /// The unspecified address, e.g. `0.0.0.0`. Linux treats it as an address of this computer.
    Unspecified,
    /// Addresses in the same network segment. Most clouds have their metadata service at the
    /// link-local address `169.254.169.254`.
    LinkLocal,
    /// Other addresses of metadata services. A computer in a cloud receives its secrets from such a
    /// service.
    Metadata,
    Multicast,
    /// Broadcast, and addresses that are reserved for protocols or for the future.
    Reserved,
    /// An address of another interface of this computer. Like a loopback address, it reaches the
    /// servers on this computer.
    OwnInterface,
}

/// Formats the kind as an adjective.
impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Loopback => "loopback",
            Self::Unspecified => "unspecified",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Multicast => "multicast",
            Self::Reserved => "reserved",
            Self::OwnInterface => "machine-local",
        })
    }
}

/// Returns the kind of an address. An IPv6 address that contains an IPv4 address has the kind of
/// this IPv4 address.
pub(super) fn classify_address(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => classify_ipv4(address),
        IpAddr::V6(address) => classify_ipv6(address),
    }
}

fn classify_ipv4(address: Ipv4Addr) -> AddressKind {
    match address.octets() {
        // The metadata services of Azure and Alibaba Cloud.
        [168, 63, 129, 16] | [100, 100, 100, 200] => AddressKind::Metadata,
        [0, ..] => AddressKind::Unspecified,
        [127, ..] => AddressKind::Loopback,
        [169, 254, ..] => AddressKind::LinkLocal,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => {
            AddressKind::Private
        }
        [224..=239, ..] => AddressKind::Multicast,
        [192, 0, 0, _] | [240..=255, ..] => AddressKind::Reserved,
        _ => AddressKind::Public,
    }
}

fn classify_ipv6(address: Ipv6Addr) -> AddressKind {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        // The metadata services of Amazon, Google, Oracle and Scaleway.
        [0xfd00, 0xec2, ..]
        | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
        | [0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe]
        | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42] => AddressKind::Metadata,
        // IPv4-compatible, IPv4-mapped, IPv4-translated, and NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => classify_ipv4(ipv4_from_segments(high, low)),
        // NAT64 of a local network (RFC 8215), with a prefix of 96 bits.
        [0x64, 0xff9b, 1, _, _, _, high, low] => match classify_ipv4(ipv4_from_segments(high, low))
        {
            AddressKind::Public => AddressKind::Private,
            kind => kind,
        },
        // 6to4 (RFC 3056), and Teredo (RFC 4380), which inverts the bits.
        [0x2002, high, low, ..] => classify_ipv4(ipv4_from_segments(high, low)),
        [0x2001, 0, .., high, low] => classify_ipv4(ipv4_from_segments(!high, !low)),
        // Unique local addresses, and the deprecated site-local addresses.
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => AddressKind::Private,
        [0xfe80..=0xfebf, ..] => AddressKind::LinkLocal,
        [0xff00..=0xffff, ..] => AddressKind::Multicast,
        _ => AddressKind::Public,
    }
}

/// Returns the IPv4 address in two segments of an IPv6 address.
fn ipv4_from_segments(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::AddressKind::{
        LinkLocal, Loopback, Metadata, Multicast, Private, Public, Reserved, Unspecified,
    };
    use super::{AddressKind, classify_address};

    const ADDRESSES: &[(AddressKind, &[&str])] = &[
        (Loopback, &["127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "::127.0.0.1"]),
        (Loopback, &["64:ff9b::7f00:1", "2002:7f00:1::", "::ffff:0:127.0.0.1"]),
        (Loopback, &["2001:0:1:2:3:4:80ff:fffe", "64:ff9b:1::127.0.0.1"]),
        (Unspecified, &["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0", "64:ff9b:1:a00:1::"]),
        (LinkLocal, &["169.254.0.1", "169.254.169.254", "fe80::1", "febf::1", "::ffff:a9fe:a9fe"]),
        (LinkLocal, &["64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1"]),
        (Metadata, &["fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16"]),
        (Metadata, &["::ffff:100.100.100.200", "64:ff9b::100.100.100.200", "fd00:ec2::253"]),
        (Metadata, &["fd00:ec2:ffff::1", "fd00:c1::a9fe:a9fe", "fd00:42::42"]),
        (Multicast, &["224.0.0.1", "239.255.255.255", "ff02::1", "::ffff:224.0.0.1"]),
        (Reserved, &["255.255.255.255", "240.0.0.1", "192.0.0.192", "::ffff:255.255.255.255"]),
        (Private, &["10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1"]),
        (Private, &["100.64.0.1", "100.127.255.255", "fc00::1", "fdff::1", "fd00:ec3::254"]),
        (Private, &["::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:c0a8:101::1", "fec0::1"]),
        (Private, &["64:ff9b:1::8.8.8.8", "::10.0.0.1"]),
        (Public, &["1.1.1.1", "9.255.255.255", "11.0.0.0", "172.15.0.1", "172.32.0.1"]),
        (Public, &["100.63.0.1", "100.128.0.1", "192.167.0.1", "169.253.0.1", "223.255.255.255"]),
        (Public, &["192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "2001:db8::1"]),
        (Public, &["2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::"]),
    ];

    #[test]
    fn each_address_has_its_kind() {
        for (kind, addresses) in ADDRESSES {
            for address in *addresses {
                assert_eq!(classify_address(address.parse().unwrap()), *kind, "{address}");
            }
        }
    }
}
