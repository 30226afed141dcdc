//! All hosts of the network that the acceptance row `ssrf` creates: HTTP servers at every address,
//! and a name server. The HTTP servers record each connection. The name server answers with the
//! addresses that a name contains.
//!
//! - `denied_hosts serve LOG` serves until it is killed. LOG receives a line for each connection:
//!   the address and the port to which the client has connected. The file `LOG.ready` is created as
//!   soon as the servers listen.
//! - `denied_hosts probe ADDRESS..` prints those addresses at which a server answers.

use std::collections::HashMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

/// The ports of the HTTP servers.
const PORTS: [u16; 3] = [80, 443, 8080];
/// The DNS zone of the names that contain addresses. The length of each label precedes the label.
const ZONE: &[u8] = b"\x07answers\x07example\0";
/// Maximum number of bytes of a request and of a response.
const MAX_HEAD_BYTES: u64 = 16 * 1024;
/// Time limit for one step of a connection.
const STEP_TIME: Duration = Duration::from_secs(2);

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", log] => serve(log),
        ["probe", ref addresses @ ..] => addresses
            .iter()
            .filter(|address| is_reachable(address))
            .try_for_each(|address| writeln!(io::stdout(), "{address}")),
        _ => Err(io::Error::other("usage: denied_hosts serve LOG | probe ADDRESS..")),
    }
}

fn serve(log: &str) -> io::Result<()> {
    for port in PORTS {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
        let mut log = OpenOptions::new().create(true).append(true).open(log)?;
        thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                // The connection is recorded before the next connection is accepted. An answer to a
                // later connection therefore proves that all earlier connections are in the file.
                if let Ok(reached) = stream.local_addr() {
                    writeln!(log, "{} {}", reached.ip().to_canonical(), reached.port()).ok();
                }
                thread::spawn(move || answer_request(&stream));
            }
        });
    }
    let names = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 53))?;
    fs::write(format!("{log}.ready"), "")?;
    answer_queries(&names)
}

/// Answers `GET /to/HEX` with a redirect to the location in HEX, and other requests with a text.
fn answer_request(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(STEP_TIME))?;
    let mut lines = BufReader::new(stream.take(MAX_HEAD_BYTES)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let location =
        first.split(' ').nth(1).and_then(|path| bytes_of_hex(path.strip_prefix("/to/")?));
    let (status, field) = match &location {
        Some(location) => ("302 Found", [b"Location: ", &location[..]].concat()),
        None => ("200 OK", b"Content-Type: text/plain".to_vec()),
    };
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 8\r\n");
    stream.write_all(&[head.as_bytes(), &field, b"\r\n\r\nreached\n"].concat())
}

/// Returns whether a server answers at an address.
fn is_reachable(address: &str) -> bool {
    let answer = || {
        let address: IpAddr = address.parse().map_err(io::Error::other)?;
        let mut stream =
            TcpStream::connect_timeout(&SocketAddr::new(address, PORTS[0]), STEP_TIME)?;
        stream.set_read_timeout(Some(STEP_TIME))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(MAX_HEAD_BYTES).read_to_string(&mut answer)?;
        Ok::<_, io::Error>(answer)
    };
    answer().is_ok_and(|answer| answer.ends_with("reached\n"))
}

/// Answers queries for names such as `a5db8d822.b…1.answers.example`, in which labels are
/// addresses: `a` and 8 hexadecimal digits (IPv4), or `b` and 32 hexadecimal digits (IPv6). After
/// the label `flip`, the answers alternate between the first address and all others. Other labels
/// are ignored.
fn answer_queries(names: &UdpSocket) -> io::Result<()> {
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut buffer = [0; 512];
    loop {
        let (length, client) = names.recv_from(&mut buffer)?;
        if let Some(answer) = answer_query(&buffer[..length], &mut counts) {
            names.send_to(&answer, client)?;
        }
    }
}

fn answer_query(query: &[u8], counts: &mut HashMap<Vec<u8>, usize>) -> Option<Vec<u8>> {
    let (id, questions) = (query.get(..2)?, query.get(12..)?);
    let name_end = questions.iter().position(|byte| *byte == 0)? + 1;
    let question = questions.get(..name_end + 4)?;
    let name = question[..name_end].to_ascii_lowercase();
    let wanted = u16::from_be_bytes([question[name_end], question[name_end + 1]]);
    let labels = labels(name.strip_suffix(ZONE).unwrap_or_default());
    let mut addresses: Vec<IpAddr> = labels.iter().filter_map(|label| parse_label(label)).collect();
    if labels.contains(&&b"flip"[..]) && !addresses.is_empty() {
        let count = counts.entry(question.to_vec()).or_default();
        let rest = addresses.split_off(1);
        if *count % 2 == 1 {
            addresses = rest;
        }
        *count += 1;
    }
    let records = addresses.iter().filter_map(|address| match address {
        IpAddr::V4(address) => (wanted == 1).then(|| address.octets().to_vec()),
        IpAddr::V6(address) => (wanted == 28).then(|| address.octets().to_vec()),
    });
    let records: Vec<_> = records.collect();
    let count = u8::try_from(records.len()).ok()?;
    // An answer with one question. A name outside of the zone does not exist.
    let status = if labels.is_empty() { 0x83 } else { 0x80 };
    let mut answer = [id, &[0x85, status, 0, 1, 0, count, 0, 0, 0, 0], question].concat();
    for record in records {
        // The name of the question, its type, the class IN, and a lifetime of 0 s.
        answer.extend([0xc0, 12, 0, wanted.to_be_bytes()[1], 0, 1, 0, 0, 0, 0, 0]);
        answer.push(u8::try_from(record.len()).ok()?);
        answer.extend(record);
    }
    Some(answer)
}

/// Splits a name without its zone into labels. The name has the form in which a query contains it.
fn labels(mut name: &[u8]) -> Vec<&[u8]> {
    let mut labels = Vec::new();
    while let [length, rest @ ..] = name
        && let Some((label, rest)) = rest.split_at_checked(usize::from(*length))
    {
        labels.push(label);
        name = rest;
    }
    labels
}

fn parse_label(label: &[u8]) -> Option<IpAddr> {
    let bytes = bytes_of_hex(str::from_utf8(label.get(1..)?).ok()?)?;
    match label[0] {
        b'a' => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        b'b' => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

fn bytes_of_hex(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map(pair).collect()
}
