//! Tests of the addresses of this computer.

use std::net::{IpAddr, UdpSocket};

use super::{AddressKind, NetworkFunctions, is_own_address};

/// Returns the source address that this computer uses for packets to the internet, if it has one.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[test]
fn addresses_of_this_computer_are_recognised() {
    for address in ["127.0.0.1", "127.1.2.3"] {
        assert!(is_own_address(address.parse().unwrap()), "{address}");
    }
    for address in ["192.0.2.1", "203.0.113.9", "2001:db8::1", "8.8.8.8"] {
        assert!(!is_own_address(address.parse().unwrap()), "{address}");
    }
    // A computer without a network has no such address.
    if let Some(address) = own_address().filter(|address| !address.is_loopback()) {
        assert!(is_own_address(address), "{address}");
        let kind = NetworkFunctions::of_this_process().classify(address);
        assert_eq!(kind, AddressKind::OwnInterface, "{address}");
    }
}
