//! Commands in the network of the host, and commands that reach a listener of their caller.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Stdio;
use std::thread;

use callboard_sandbox::{
    Isolation, MissingGuarantee, NetworkAccess, SessionNetwork, probe_isolation,
};
use pretty_assertions::{assert_eq, assert_ne};

use crate::tools::is_installed;
use crate::world::World;
use crate::{is_supported, kinds, run};

/// Returns a shell line that connects to an address with Python.
fn connect(family: &str, address: &str) -> String {
    format!(
        "python3 -c 'import socket; socket.socket(socket.{family}, socket.SOCK_STREAM).connect({address})'"
    )
}

#[test]
fn a_command_reaches_the_network_of_the_host_only_if_the_policy_permits_it() {
    if !is_installed("python3") {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let line =
        connect("AF_INET", &format!("(\"127.0.0.1\", {})", server.local_addr().unwrap().port()));
    for isolation in kinds() {
        let world = World::new();
        let mut policy = world.policy();
        for (network, reaches) in [(NetworkAccess::None, false), (NetworkAccess::Host, true)] {
            policy.network = network;
            let output = run(&world, &policy, isolation, &line);
            assert_eq!(output.code == Some(0), reaches, "{isolation} {network:?}: {}", output.text);
        }
        assert_eq!(world.leftovers(), [""; 0]);
    }
}

#[test]
fn a_command_in_the_network_of_the_host_reaches_no_local_sockets_of_other_programs() {
    if !is_installed("python3") {
        return;
    }
    for isolation in kinds() {
        let world = World::new();
        let mut policy = world.policy();
        policy.network = NetworkAccess::Host;
        let name = format!("callboard-{}-{isolation}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _abstract = UnixListener::bind_addr(&address).unwrap();
        let path = world.project.parent().unwrap().join("host.sock");
        let _bound = UnixListener::bind(&path).unwrap();
        let gaps = probe_isolation().missing_guarantees(&policy);
        let of_path = connect("AF_UNIX", &format!("\"{}\"", path.display()));
        let of_name = connect("AF_UNIX", &format!("\"\\0{name}\""));
        let lines =
            [(of_path, false), (of_name, gaps.contains(&MissingGuarantee::AbstractSockets))];
        for (line, reaches) in lines {
            let output = run(&world, &policy, isolation, &line);
            assert_eq!(output.code == Some(0), reaches, "{isolation} {line}: {}", output.text);
            let unconfined = std::process::Command::new("sh").args(["-c", &line]).status().unwrap();
            assert!(unconfined.success(), "{line}");
        }
    }
}

#[test]
fn a_command_in_a_shared_network_reaches_the_listener_of_its_caller() {
    if !is_supported(Isolation::Namespaces) || !is_installed("python3") {
        return;
    }
    let world = World::new();
    let network = SessionNetwork::create().unwrap();
    let listener = network.loopback_listener().try_clone().unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || listener.accept().unwrap().0.write_all(b"pong").unwrap());
    let line = format!(
        "python3 -c 'import socket; \
         print(socket.create_connection((\"127.0.0.1\", {})).recv(4).decode())'",
        address.port()
    );
    let policy = world.policy();
    let mut command = crate::shell(&world, &policy, Isolation::Namespaces, &line);
    command.join(&network.handle()).unwrap().helper_command().stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut text = String::new();
    child.helper().stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "pong\n");
    assert!(child.wait().unwrap().0.success());
    server.join().unwrap();
    // Commands and processes outside of the network cannot connect to the listener.
    assert_ne!(run(&world, &policy, Isolation::Namespaces, &line).code, Some(0));
    assert!(std::net::TcpStream::connect(address).is_err());
}
