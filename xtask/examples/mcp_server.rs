//! A server of the Model Context Protocol over standard streams, for the rows about servers.
//!
//! `mcp_server [BEHAVIOUR]..` answers every request correctly if there is no behaviour. Each
//! behaviour is a word that selects a fault:
//!
//! | when | behaviours |
//! |---|---|
//! | at the start | `dies`, `hangs`; `never-reads`: sends answers without a request |
//! | answer to initialize | `wrong-version`, `no-version`, `large-instructions` |
//! | list of tools | `many-tools`, `same-name`, `names`, `recursive-schema`, `array-schema`, `text-schema`, `large-schema`, `deep-schema`, `large-description`, `endless-pages`, `large-pages` |
//! | answer to a call | `huge-result`, `large-result`, `dense-result`, `many-blocks`, `malformed-result`, `large-error`, `wrong-id`, `twice`, `no-answer`, `half-line`, `closes` |
//! | a flood | `garbage`, `endless-line`, `blank-lines`, `gigabyte`, `long-lines`, `stderr`, `progress`, `list-changed`, `logging`, `unknown`, and the requests `sampling`, `roots`, `elicitation`, `ping`, `unknown-request` |
//! | start of the flood | `from-list`, `from-call`; otherwise at the start |

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use std::{env, iter, thread};

use serde_json::{Value, json};

/// Number of bytes of one write of a flood.
const WRITE_BYTES: usize = 64 << 10;
/// Number of content bytes in a very long line. With the rest of the message, the line is just
/// below the 16 MiB that callboard accepts.
const LONG_LINE_BYTES: usize = (16 << 20) - 4096;
/// Number of messages of the behaviour `gigabyte`, each of at least 1 kB.
const GIGABYTE_MESSAGES: u64 = 1_000_000;
/// Time between the answers of a server that never reads.
const BLIND_DELAY: Duration = Duration::from_millis(200);

/// The behaviours that flood the client.
const FLOODS: &[&str] = &[
    "garbage",
    "endless-line",
    "blank-lines",
    "gigabyte",
    "long-lines",
    "stderr",
    "progress",
    "list-changed",
    "logging",
    "unknown",
    "sampling",
    "roots",
    "elicitation",
    "ping",
    "unknown-request",
];

fn main() -> io::Result<()> {
    let server = Server { behaviours: env::args().skip(1).collect() };
    if server.is("dies") {
        return Err(io::Error::other("The disk is full."));
    }
    if server.is("hangs") {
        loop {
            thread::park();
        }
    }
    if !server.is("from-list") && !server.is("from-call") {
        server.start_floods();
    }
    if server.is("never-reads") {
        return server.answer_blindly();
    }
    for line in io::stdin().lock().lines() {
        if let Ok(message) = serde_json::from_str(&line?) {
            server.answer(&message)?;
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Server {
    behaviours: BTreeSet<String>,
}

impl Server {
    fn is(&self, behaviour: &str) -> bool {
        self.behaviours.contains(behaviour)
    }

    fn start_floods(&self) {
        for kind in FLOODS.iter().filter(|kind| self.is(kind)) {
            // A flood ends with the process, or when the client has closed its end of the stream.
            drop(thread::spawn(move || flood(kind)));
        }
    }

    /// Sends the answers to the first requests without reading these requests, whose ids are 0 and
    /// 1.
    fn answer_blindly(&self) -> io::Result<()> {
        for (id, method) in ["initialize", "tools/list"].iter().enumerate() {
            self.answer(&json!({"id": id, "method": method}))?;
            thread::sleep(BLIND_DELAY);
        }
        loop {
            thread::park();
        }
    }

    fn answer(&self, message: &Value) -> io::Result<()> {
        let (Some(method), false) = (message["method"].as_str(), message["id"].is_null()) else {
            return Ok(());
        };
        let id = &message["id"];
        match method {
            "initialize" => send_result(id, &self.initialized(message)),
            "tools/list" => {
                send_line(&self.listed(id))?;
                if self.is("from-list") {
                    self.start_floods();
                }
                Ok(())
            }
            "tools/call" => {
                if self.is("from-call") {
                    self.start_floods();
                }
                self.answer_call(id)
            }
            _ => send_result(id, &json!({})),
        }
    }

    fn initialized(&self, request: &Value) -> Value {
        let version = match request["params"]["protocolVersion"].as_str() {
            _ if self.is("wrong-version") => "1066-10-14",
            _ if self.is("no-version") => return json!({"capabilities": 7}),
            Some(version) => version,
            None => "2025-06-18",
        };
        let instructions = if self.is("large-instructions") { 10 << 20 } else { 1 };
        json!({
            "protocolVersion": version, "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "measured", "version": "1"},
            "instructions": "i".repeat(instructions),
        })
    }

    /// Returns the line with a page of tools.
    fn listed(&self, id: &Value) -> String {
        let tool = |name: &str, description: &str| json!({"name": name, "description": description, "inputSchema": self.schema()});
        let usual = if self.is("large-description") { 10 << 20 } else { 10 };
        let mut tools = vec![tool("t", &"d".repeat(usual))];
        if self.is("many-tools") {
            tools.extend((0..5_000).map(|nth| tool(&format!("t{nth}"), &"d".repeat(200))));
        }
        if self.is("same-name") {
            tools.push(tool("t", "Another tool of the same name."));
        }
        if self.is("names") {
            let long = "n".repeat(10_000);
            let names = ["a\nb", "a\u{1b}[2Jb", "\u{202e}t", "", " ", "__proto__", "t/../t", &long];
            tools.extend(names.iter().map(|name| tool(name, "d")));
        }
        let pages = [("endless-pages", 10), ("large-pages", 10 << 20)];
        let page = pages.iter().find(|(behaviour, _)| self.is(behaviour));
        tools.extend(page.map(|(_, bytes)| tool("p", &"d".repeat(*bytes))));
        let mut result = json!({"tools": tools});
        if page.is_some() {
            result["nextCursor"] = json!("the same");
        }
        let line = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        if !self.is("deep-schema") {
            return line;
        }
        let deep = r#"{"properties":{"a":"#.repeat(200) + "{}" + &"}}".repeat(200);
        line.replace(r#""deep""#, &deep)
    }

    fn schema(&self) -> Value {
        match () {
            () if self.is("recursive-schema") => {
                let itself = json!({"$ref": "#/$defs/a"});
                json!({
                    "type": "object", "properties": {"a": itself},
                    "$defs": {"a": {"anyOf": [itself, {"$ref": "#"}]}},
                })
            }
            () if self.is("array-schema") => json!({"type": "array"}),
            () if self.is("text-schema") => json!("schema"),
            () if self.is("large-schema") => {
                json!({"type": "object", "description": "s".repeat(1_000_000)})
            }
            () if self.is("deep-schema") => json!("deep"),
            () => json!({"type": "object"}),
        }
    }

    fn answer_call(&self, id: &Value) -> io::Result<()> {
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        let id_or = |wrong: Value| json!({"jsonrpc": "2.0", "id": wrong, "result": text("wrong")});
        match () {
            () if self.is("huge-result") => send_result(id, &text(&"r".repeat(100 << 20))),
            () if self.is("large-result") => send_result(id, &text(&"r".repeat(LONG_LINE_BYTES))),
            () if self.is("dense-result") => {
                let dense = "[],".repeat(LONG_LINE_BYTES / 3) + "[]";
                send_line(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"a":[{dense}]}}}}}}"#
                ))
            }
            () if self.is("many-blocks") => {
                let blocks = vec![json!({"type": "text", "text": "x"}); 300_000];
                send_result(id, &json!({"content": blocks}))
            }
            () if self.is("malformed-result") => {
                send_result(id, &json!({"content": "text", "isError": 7}))
            }
            () if self.is("large-error") => {
                let error = json!({"code": -1, "message": "e".repeat(10 << 20)});
                send_line(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
            }
            () if self.is("wrong-id") => {
                let wrong = [json!(1_000_000), json!("one"), json!(-1), json!(1.5), json!([])];
                wrong.into_iter().try_for_each(|wrong| send_line(&id_or(wrong).to_string()))
            }
            () if self.is("twice") => (0..2).try_for_each(|_| send_result(id, &text("again"))),
            () if self.is("no-answer") => Ok(()),
            () if self.is("half-line") => {
                let mut out = io::stdout().lock();
                write!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#)?;
                out.flush()?;
                Err(io::Error::other("in the middle of a line"))
            }
            () if self.is("closes") => {
                // Standard input and standard output are one socket.
                UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?)
                    .shutdown(Shutdown::Write)
            }
            () => send_result(id, &text("answered")),
        }
    }
}

/// Floods the client until the client has closed its end of the stream.
fn flood(kind: &str) -> io::Result<()> {
    if kind == "stderr" {
        let lines = "nothing works\n".repeat(WRITE_BYTES / 14);
        return iter::repeat(lines).try_for_each(|lines| io::stderr().write_all(lines.as_bytes()));
    }
    let mut number = 0;
    while kind != "gigabyte" || number < GIGABYTE_MESSAGES {
        let mut batch = String::new();
        while batch.len() < WRITE_BYTES {
            number += 1;
            append_flood_message(&mut batch, kind, number);
        }
        let mut out = io::stdout().lock();
        out.write_all(batch.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

fn append_flood_message(batch: &mut String, kind: &str, number: u64) {
    let request = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params});
    let notification = |method: &str, params: Value| {
        let method = format!("notifications/{method}");
        json!({"jsonrpc": "2.0", "method": method, "params": params})
    };
    let message = match kind {
        "garbage" => return batch.push_str("}{ \u{0} \u{1b}[2J no JSON ü\n"),
        "endless-line" => return batch.push_str("[{\"a\": \"endless "),
        "blank-lines" => return batch.push_str(" \n\n\r\n"),
        "gigabyte" => notification("lines", json!({"text": "l".repeat(1_000)})),
        "long-lines" => {
            let numbers = "1,".repeat(LONG_LINE_BYTES / 2) + "1";
            let _ = writeln!(
                batch,
                r#"{{"jsonrpc":"2.0","method":"notifications/long","params":{{"a":[{numbers}]}}}}"#
            );
            return;
        }
        "progress" => notification(
            "progress",
            json!({"progressToken": number % 8, "progress": number, "message": "p".repeat(100)}),
        ),
        "list-changed" => notification("tools/list_changed", json!({})),
        "logging" => notification("message", json!({"level": "error", "data": "l".repeat(100)})),
        "sampling" => {
            let content = json!({"type": "text", "text": "Say it."});
            let messages = json!([{"role": "user", "content": content}]);
            request("sampling/createMessage", json!({"messages": messages, "maxTokens": 9}))
        }
        "roots" => request("roots/list", json!({})),
        "elicitation" => {
            let schema = json!({"type": "object", "properties": {"key": {"type": "string"}}});
            request("elicitation/create", json!({"message": "Key?", "requestedSchema": schema}))
        }
        "ping" => request("ping", json!({})),
        "unknown-request" => request("hostile/request", json!({})),
        "unknown" => notification("hostile", json!({"number": number})),
        _ => unreachable!("no flood is called {kind}"),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(batch, "{message}");
}

fn send_result(id: &Value, result: &Value) -> io::Result<()> {
    send_line(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

/// Sends a line as a whole, even while another thread floods the client.
fn send_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}
