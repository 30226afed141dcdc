//! Telemetry of calls: trace contexts, totals, and spans (with the cargo feature `otlp`).

use acp_types::schema::v1::SessionUpdate;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::Model;
use crate::harness::{Agent, Options};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test]
async fn the_trace_context_of_a_prompt_is_sent_with_its_calls() {
    for (meta, expected) in [
        (
            json!({"traceparent": PARENT, "tracestate": "a=b", "baggage": "c=d", "x": 1}),
            json!({"traceparent": PARENT, "tracestate": "a=b", "baggage": "c=d"}),
        ),
        (json!({"traceparent": "00-0-0-01", "tracestate": "a=b", "baggage": "\u{1}"}), json!({})),
        (json!({"traceparent": {"a": 1}}), json!({})),
    ] {
        let mut agent = Agent::ready(Model::Direct, Options::default()).await;
        let prompt = json!([{"type": "text", "text": "read notes.txt"}]);
        let params = json!({"sessionId": agent.session_id(), "prompt": prompt, "_meta": meta});
        agent.request("session/prompt", params).await.expect("the turn ends");
        let mut meta = agent.call("read_file").meta.expect("it tells of itself");
        assert!(meta.remove("callboard").is_some());
        assert_eq!(Value::Object(meta), expected);
        // The trace context of a prompt does not apply to the next prompt.
        agent.turn("list").await;
        let meta = agent.call("list_directory").meta.expect("it tells of itself");
        assert_eq!(meta.keys().collect::<Vec<_>>(), ["callboard"]);
        agent.finish().await;
    }
}

#[tokio::test]
async fn usage_sums_up_the_session() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    agent.turn("/usage").await;
    assert!(agent.session().message_text().starts_with("No call has ended yet."));
    agent.turn("read notes.txt\nread missing.txt\nlist").await;
    let before = agent.session().message_text().len();
    agent.turn("/usage ").await;
    let said = agent.session().message_text().split_off(before);
    let row = |tool: &str| said.lines().find(|line| line.starts_with(&format!("| {tool} |")));
    assert!(row("list_directory").is_some_and(|row| row.contains("| 1 | 1 | 0 | 0 |")), "{said}");
    let reads = row("read_file").expect("a row");
    assert!(reads.contains("| 2 | 1 | 1 | 0 |") && reads.ends_with("| 1 error |"), "{said}");
    assert!(said.contains("Updates: ") && said.ends_with(" 0 dropped."), "{said}");
    let is_offered = agent.session().updates.iter().any(|update| match update {
        SessionUpdate::AvailableCommandsUpdate(update) => {
            update.available_commands.iter().any(|command| command.name == "usage")
        }
        _ => false,
    });
    assert!(is_offered);
    agent.finish().await;
}

#[cfg(feature = "otlp")]
mod otlp {
    //! The export of spans to a collector on the loopback interface.

    use std::collections::BTreeMap;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};
    use std::sync::mpsc::{self, Receiver};
    use std::thread;
    use std::time::{Duration, Instant};

    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::PARENT;
    use crate::harness::scratch::Scratch;
    use crate::harness::{CALLBOARD, DEADLINE};

    /// The way in which the collector reacts to a request.
    #[derive(Clone, Copy, PartialEq)]
    enum Collector {
        Answers,
        IsSilent,
    }

    /// Starts a collector on the loopback interface. Returns its address, and a channel that
    /// receives the head and the body of each request.
    fn collector(does: Collector) -> (String, Receiver<(String, Vec<u8>)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let sender = sender.clone();
                thread::spawn(move || {
                    while let Some(request) = request(&mut stream) {
                        if does == Collector::IsSilent {
                            // Waits until the agent closes the connection.
                            drop(stream.read(&mut [0]));
                            return;
                        }
                        if sender.send(request).is_err() {
                            return;
                        }
                        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                    }
                });
            }
        });
        (address, requests)
    }

    fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length?.parse().unwrap()];
        reader.read_exact(&mut body).ok()?;
        Some((head, body))
    }

    /// Runs a turn with one call. Returns the time between the end of the input and the exit of the
    /// agent.
    fn play(env: &BTreeMap<String, String>) -> Duration {
        let scratch = Scratch::new();
        let mut child = Command::new(CALLBOARD)
            .args(["acp", "--model", "direct"])
            .current_dir(scratch.cwd())
            .env_clear()
            .envs(scratch.env())
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut ask = |method: &str, params: Value| -> Value {
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            writeln!(stdin, "{request}").unwrap();
            let messages = lines.by_ref().map(|line| serde_json::from_str(&line.unwrap()).unwrap());
            let mut answers = messages.filter(|message: &Value| message.get("id").is_some());
            answers.next().expect("an answer")["result"].take()
        };
        ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        let session = ask("session/new", json!({"cwd": scratch.cwd(), "mcpServers": []}));
        let prompt = json!({
            "sessionId": session["sessionId"],
            "prompt": [{"type": "text", "text": "read missing.txt"}],
            "_meta": {"traceparent": PARENT, "baggage": "hidden=yes"},
        });
        assert_eq!(ask("session/prompt", prompt)["stopReason"], "end_turn");
        drop(stdin);
        let ending = Instant::now();
        assert!(child.wait().unwrap().success());
        ending.elapsed()
    }

    fn env<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn holds(body: &[u8], part: impl AsRef<[u8]>) -> bool {
        body.windows(part.as_ref().len()).any(|window| window == part.as_ref())
    }

    #[test]
    fn a_call_is_exported_with_its_end_as_a_child_of_the_clients_span() {
        let (address, requests) = collector(Collector::Answers);
        let env = env([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &address),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k1"),
        ]);
        // The export has a short time limit. The agent may exceed it while other tests run, so the
        // turn is repeated.
        let (head, body) = (0..5)
            .find_map(|_| {
                play(&env);
                requests.recv_timeout(DEADLINE / 10).ok()
            })
            .expect("spans");
        assert!(head.starts_with("post /v1/traces ") && head.contains("x-key: k1"), "{head}");
        // Protocol buffers contain text without encoding, so the text can be searched for.
        for part in [
            "service.name",
            "callboard",
            "session",
            "turn",
            "end_turn",
            "call",
            "t1/direct_1",
            "read_file",
            "status",
            "failed",
            "reason",
            "error",
            "queued_ms",
            "duration_ms",
        ] {
            assert!(holds(&body, part), "{part}: {}", String::from_utf8_lossy(&body));
        }
        let hex = |text: &str| -> Vec<u8> {
            let digits = (0..text.len()).step_by(2);
            digits.map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let (trace, parent) = (hex(&PARENT[3..35]), hex(&PARENT[36..52]));
        assert_eq!(body.windows(16).filter(|window| window == &trace).count(), 2);
        assert_eq!(body.windows(8).filter(|window| window == &parent).count(), 1);
        for part in ["missing", "hidden", "callboard-it-"] {
            assert!(!holds(&body, part), "{part}: {}", String::from_utf8_lossy(&body));
        }
    }

    #[test]
    fn the_agent_exits_although_the_collector_never_answers() {
        let (address, _requests) = collector(Collector::IsSilent);
        let took = play(&env([("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &address)]));
        assert!(took < Duration::from_secs(8), "{took:?}");
    }

    #[test]
    fn nothing_is_exported_by_default_or_if_it_is_disabled() {
        let (address, requests) = collector(Collector::Answers);
        for pairs in [
            env([]),
            env([("OTEL_EXPORTER_OTLP_ENDPOINT", &address), ("OTEL_SDK_DISABLED", "true")]),
            env([("OTEL_EXPORTER_OTLP_ENDPOINT", &address), ("OTEL_TRACES_EXPORTER", "none")]),
        ] {
            play(&pairs);
        }
        assert!(requests.try_recv().is_err());
    }
}
