//! Tests with a small SDK agent that is served over pipes, and with a client that writes raw lines.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, pipe};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use agent_client_protocol::v1::schema::{InitializeRequest, InitializeResponse};
use agent_client_protocol::{Agent, UntypedMessage};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::limits::{MAX_LINE_BYTES, MAX_QUEUED_ANSWER_BYTES, MAX_UNANSWERED_REQUESTS};

/// A text that occurs in every bad line and must not occur in any response.
const MARKER: &str = "XYZZY";
const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;

/// The client's side of one connection.
struct LineClient {
    input: PipeWriter,
    output: BufReader<PipeReader>,
    counters: Arc<TransportCounters>,
    agent: JoinHandle<Result<()>>,
}

impl LineClient {
    fn new() -> Self {
        let (input, to_agent) = pipe().unwrap();
        let (from_agent, output) = pipe().unwrap();
        let transport = Transport::new(input, output);
        let counters = transport.counters();
        let agent = thread::spawn(move || serve(transport));
        Self { input: to_agent, output: BufReader::new(from_agent), counters, agent }
    }

    fn send(&mut self, line: &[u8]) {
        self.input.write_all(line).unwrap();
        self.input.write_all(b"\n").unwrap();
    }

    fn receive(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.pop(), Some('\n'));
        line
    }

    /// Closes the input. Returns the remaining output and the result of the agent's connection.
    fn end(self) -> (Vec<String>, Result<()>) {
        drop(self.input);
        let rest = self.output.lines().map(io::Result::unwrap).collect();
        (rest, self.agent.join().unwrap())
    }
}

/// Serves an agent. The agent answers `initialize`. It answers `_fail` with an error whose data is
/// the parameters, and `_large` with the requested number of bytes. At the end of input, it sends
/// `_bye`.
fn serve(transport: Transport) -> Result<()> {
    let agent = Agent
        .v1()
        .on_receive_request(
            async |request: InitializeRequest, responder, _| {
                responder.respond(InitializeResponse::new(request.protocol_version))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async |request: UntypedMessage, responder, _| match request.method() {
                "_fail" => {
                    responder.respond_with_error(Error::invalid_params().data(request.params))
                }
                _ => {
                    let bytes = request.params["bytes"].as_u64().unwrap_or_default();
                    responder.respond(json!("r".repeat(usize::try_from(bytes).unwrap())))
                }
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_close(async |connection| {
            connection.send_notification(UntypedMessage::new("_bye", json!({}))?)
        });
    runtime().block_on(agent.connect_to(transport))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// The code and id of the error response to a line, or `None` if the line gets no error response.
type ErrorAnswer = Option<(i64, Value)>;

fn bad_lines() -> Vec<(Vec<u8>, ErrorAnswer)> {
    let null = |code| Some((code, Value::Null));
    let nested = |depth| "[".repeat(depth) + MARKER + &"]".repeat(depth);
    let id = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{MARKER}"}}"#);
    let text = |text: &str| text.replace('M', MARKER).into_bytes();
    vec![
        (text(""), None),
        (text("  \t\r"), None),
        (text("M"), null(-32700)),
        (text(r#"{"jsonrpc":"2.0","id":7,"method":"M"#), null(-32700)),
        (text(r#"{"jsonrpc":"2.0","id":7,"method":"M"}}"#), null(-32700)),
        ([&b"\"\xff"[..], MARKER.as_bytes(), b"\""].concat(), null(-32700)),
        (text("\0M"), null(-32700)),
        (text(&format!("\u{feff}{INITIALIZE}M")), null(-32700)),
        (text(r#"{'M':1}"#), null(-32700)),
        (text("NaN M"), null(-32700)),
        (nested(65).into_bytes(), null(-32700)),
        (nested(100_000).into_bytes(), null(-32700)),
        (format!(r#"["{MARKER}"{}]"#, ",1".repeat(100_001)).into_bytes(), null(-32700)),
        (vec![b'a'; MAX_LINE_BYTES + 1], null(-32700)),
        ([MARKER.as_bytes(), &vec![b' '; MAX_LINE_BYTES][..]].concat(), null(-32700)),
        (text(&format!(r#"[{INITIALIZE},"M"]"#)), null(-32600)),
        (text("[]"), null(-32600)),
        (text(r#""M""#), null(-32600)),
        (text("17"), null(-32600)),
        (text(r#"{"M":1}"#), null(-32600)),
        (text(r#"{"jsonrpc":"1.0","id":7,"method":"M"}"#), Some((-32600, json!(7)))),
        (text(r#"{"id":"seven","method":"M"}"#), Some((-32600, json!("seven")))),
        (text(r#"{"jsonrpc":"2.0","id":7,"method":"M","params":"M"}"#), Some((-32600, json!(7)))),
        (text(r#"{"jsonrpc":"2.0","id":7,"method":["M"]}"#), Some((-32600, json!(7)))),
        (text(r#"{"jsonrpc":"2.0","id":7,"params":{"x":"M"}}"#), Some((-32600, json!(7)))),
        (text(r#"{"jsonrpc":"2.0","id":7,"method":"M","method":"M"}"#), null(-32600)),
        (id("1.5").into_bytes(), null(-32600)),
        (id("null").into_bytes(), null(-32600)),
        (id(&"9".repeat(30)).into_bytes(), null(-32600)),
        (id(&format!(r#"{{"{MARKER}":1}}"#)).into_bytes(), null(-32600)),
        (id(&format!(r#""{}""#, MARKER.repeat(200_000))).into_bytes(), null(-32600)),
        (text(r#"{"jsonrpc":"2.0","id":7,"result":1,"error":"M"}"#), None),
        (text(r#"{"jsonrpc":"2.0","id":"M","result":"M"}"#), None),
        (text(r#"{"jsonrpc":"2.0","method":"M","params":{}}"#), None),
    ]
}

fn assert_answers(answer: &str, expected: &(i64, Value)) {
    assert!(answer.len() <= 512 && !answer.contains(MARKER), "{answer}");
    let answer = parse(answer);
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&expected.0.into(), &expected.1));
}

fn assert_initialized(answer: &str) {
    let answer = parse(answer);
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(0), &json!(1)));
}

#[test]
fn each_bad_line_leaves_the_connection_alive() {
    for (line, expected) in bad_lines() {
        let start = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
        println!("{start}");
        let mut client = LineClient::new();
        client.send(&line);
        if let Some(expected) = expected {
            assert_answers(&client.receive(), &expected);
        }
        client.send(INITIALIZE.as_bytes());
        assert_initialized(&client.receive());
        let (rest, result) = client.end();
        assert_eq!((rest.len(), result), (1, Ok(())), "only the farewell is left");
    }
}

#[test]
fn all_bad_lines_on_one_connection_are_answered_in_order() {
    let mut client = LineClient::new();
    let mut bytes = 0;
    let lines = bad_lines();
    for (line, expected) in &lines {
        client.send(line);
        bytes += line.len() + 1;
        if let Some(expected) = expected {
            assert_answers(&client.receive(), expected);
        }
    }
    client.send(INITIALIZE.as_bytes());
    assert_initialized(&client.receive());

    let counts = client.counters.snapshot();
    assert_eq!(counts.lines_read, lines.len() as u64 + 1);
    assert_eq!(counts.bytes_read, (bytes + INITIALIZE.len() + 1) as u64);
    // Two lines are blank. A stray response and an unknown notification are not malformed.
    assert_eq!(counts.lines_malformed, lines.len() as u64 - 4);
    // All malformed lines are answered, except one invalid response. `initialize` is answered too,
    // so the two numbers are equal.
    assert_eq!(counts.lines_queued, counts.lines_malformed);
    assert_eq!(client.end().1, Ok(()));
}

#[test]
fn large_error_data_is_omitted() {
    let mut client = LineClient::new();
    client.send(INITIALIZE.as_bytes());
    client.receive();
    let fail = |data: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "_fail", "params": {"data": data}}).to_string()
    };
    client.send(fail("short").as_bytes());
    assert_eq!(parse(&client.receive())["error"]["data"], json!({"data": "short"}));
    client.send(fail(&MARKER.repeat(100_000)).as_bytes());
    let answer = client.receive();
    assert_answers(&answer, &(-32602, json!(1)));
}

#[test]
fn a_last_line_without_newline_is_answered_and_queued_output_is_drained() {
    let mut client = LineClient::new();
    client.send(INITIALIZE.as_bytes());
    assert_initialized(&client.receive());
    // The response is larger than the pipe's capacity, so most of it is still queued when the input
    // ends.
    let large =
        json!({"jsonrpc": "2.0", "id": 1, "method": "_large", "params": {"bytes": 900_000}});
    client.input.write_all(large.to_string().as_bytes()).unwrap();
    let counters = client.counters.clone();

    let (rest, result) = client.end();
    assert_eq!(result, Ok(()));
    assert_eq!(rest.len(), 2, "the answer and the farewell");
    assert_eq!(parse(&rest[0])["result"].as_str().map(str::len), Some(900_000));
    assert_eq!(parse(&rest[1])["method"], "_bye");
    let counts = counters.snapshot();
    assert_eq!((counts.lines_written, counts.unwritten_line_count()), (3, 0));
}

#[test]
fn a_flood_of_requests_over_every_bound_is_all_answered() {
    let mut client = LineClient::new();
    client.send(INITIALIZE.as_bytes());
    client.receive();
    // The requests exceed both limits by far: the number of requests, and the total bytes of
    // responses.
    let (count, bytes) = (4 * MAX_UNANSWERED_REQUESTS, MAX_QUEUED_ANSWER_BYTES / 64);
    let mut input = client.input.try_clone().unwrap();
    let flood = thread::spawn(move || {
        for id in 1..=count {
            let params = json!({ "bytes": bytes });
            let line = json!({"jsonrpc": "2.0", "id": id, "method": "_large", "params": params});
            writeln!(input, "{line}").unwrap();
        }
    });
    for id in 1..=count {
        let answer = parse(&client.receive());
        assert_eq!((&answer["id"], answer["result"].as_str().unwrap().len()), (&json!(id), bytes));
    }
    flood.join().unwrap();
    assert_eq!(client.end().1, Ok(()));
}

#[test]
fn a_client_that_closes_its_reading_end_ends_the_connection_cleanly() {
    let LineClient { mut input, output, agent, .. } = LineClient::new();
    drop(output);
    writeln!(input, "{INITIALIZE}").unwrap();
    assert_eq!(agent.join().unwrap(), Ok(()));
}

/// A stream whose `write` blocks until the test ends, and never accepts a byte.
struct BlockedWriter(Receiver<()>);

impl Write for BlockedWriter {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_client_that_never_reads_does_not_hold_up_the_end_for_long() {
    let (over, stuck) = channel();
    let transport = Transport::new(INITIALIZE.as_bytes(), BlockedWriter(stuck));
    let counters = transport.counters();
    assert_eq!(serve(transport), Ok(()));
    assert_eq!(
        (counters.snapshot().unwritten_line_count(), counters.snapshot().lines_written),
        (2, 0)
    );
    drop(over);
}

#[test]
fn an_error_of_the_output_that_is_no_hangup_is_reported() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert!(serve(Transport::new(INITIALIZE.as_bytes(), Full)).is_err());
}

#[test]
fn a_finishing_driver_writes_accepted_messages_without_end_of_input() {
    let (input, _open) = pipe().unwrap();
    let (mut from_agent, output) = pipe().unwrap();
    let (channel, mut driver) = Transport::new(input, output).into_channel_and_driver();
    let message = RawJsonRpcMessage::response(1, Ok(Value::Null));
    channel.tx.unbounded_send(TransportFrame::Single(message)).unwrap();
    assert!(driver.request_finish());
    assert_eq!(runtime().block_on(driver), Ok(()));

    let mut rest = String::new();
    from_agent.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n");
    assert!(channel.tx.is_closed());
}

#[test]
fn sdk_cancels_do_not_count_as_session_messages() {
    let (input, _open) = pipe().unwrap();
    let transport = Transport::new(input, io::sink());
    let counters = transport.counters();
    let (channel, mut driver) = transport.into_channel_and_driver();
    for method in ["$/cancel_request", "session/update", "$/cancel_request"] {
        let message = RawJsonRpcMessage::notification(method.into(), Value::Null).unwrap();
        channel.tx.unbounded_send(TransportFrame::Single(message)).unwrap();
    }
    assert!(driver.request_finish());
    assert_eq!(runtime().block_on(driver), Ok(()));
    assert_eq!(counters.snapshot().lines_written, 3);
    assert_eq!(counters.agent_frames_written.load(Relaxed), 1);
    assert_eq!(counters.agent_bytes_unwritten.load(Relaxed), 0);
}

#[test]
fn lines_read_before_the_connection_are_answered() {
    let (mut from_agent, output) = pipe().unwrap();
    let mut transport = Transport::new(INITIALIZE.as_bytes(), output);
    start_reader(transport.reader.take()).unwrap();
    assert_eq!(serve(transport), Ok(()));

    let mut said = String::new();
    from_agent.read_to_string(&mut said).unwrap();
    assert!(said.contains(r#""id":0,"result""#), "{said}");
}

#[test]
fn dropping_an_unconnected_transport_ends_its_reader() {
    let (input, mut client) = pipe().unwrap();
    let mut transport = Transport::new(input, io::sink());
    start_reader(transport.reader.take()).unwrap();
    let ended = transport.ended_token();
    drop(transport);
    writeln!(client, "{INITIALIZE}").unwrap();
    runtime().block_on(ended.cancelled());
}

#[test]
fn dropping_the_connection_ends_the_writer() {
    let (input, _open) = pipe().unwrap();
    let (mut from_agent, output) = pipe().unwrap();
    runtime().block_on(async {
        let agent = Box::pin(Agent.v1().connect_to(Transport::new(input, output)));
        drop(select(agent, Box::pin(tokio::task::yield_now())).await);
    });
    let mut rest = Vec::new();
    from_agent.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}
