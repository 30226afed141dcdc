//! An agent loop that does not use ACP. The middleware wraps its tool calls.
//!
//! `cargo run -p acp-lifecycle --example foreign_loop` prints the messages that an ACP client would
//! receive, one JSON-RPC message per line. The first part represents your existing agent. The
//! second part is the code to add. For a real connection instead of printed lines, see
//! `middleware_agent` of `acp-connection`.

#![expect(clippy::disallowed_methods, reason = "a program reads the clock that the crate may not")]

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use acp_lifecycle::{
    CancellationToken, ClientUnreachable, Effect, Effects, OutboxItem, OutboxSink,
    PermissionAnswer, Session, SessionHandle, ToolMiddleware, drive_session,
};
use acp_types::wire::ClientMessage as _;
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use acp_types::{CallEndReason, MessageChunk};
use serde_json::{Value, json};

// ---- Your existing agent: a model, tools, and a loop. This part is unchanged. ----

/// The calls that the model requests. A real model would receive each result and then choose the
/// next calls.
const SCRIPTED_CALLS: [(&str, &str, &str); 4] = [
    ("call_1", "add", r#"{"a": 2, "b": 3}"#),
    ("call_2", "fetch_pages", r#"{"host": "example.org", "count": 3}"#),
    ("call_3", "delete_page", r#"{"host": "example.org"}"#),
    ("call_4", "no_such_tool", "{}"),
];

/// Your tools: any `async fn` that accepts a name and arguments.
async fn run_tool(name: &str, args: Value) -> Result<String, String> {
    let number = |key: &str| args[key].as_f64().ok_or(format!("{key} is missing"));
    match name {
        "add" => Ok((number("a")? + number("b")?).to_string()),
        "fetch_pages" => {
            let count = number("count")?;
            let mut page = 0.0;
            while page < count {
                page += 1.0;
                tokio::time::sleep(Duration::from_millis(60)).await;
                // A tool may optionally report progress with this line. No other change of a tool
                // is needed.
                acp_lifecycle::report_progress(page, count, "fetching");
            }
            Ok(format!("{count} pages"))
        }
        "delete_page" => Ok("deleted".to_owned()),
        _ => Err(format!("there is no tool {name}")),
    }
}

// ---- The code to add: describe the calls, wrap them, and send the updates. ----

/// Returns the effects of a call. The user is asked about every unknown effect.
fn effects_of_call(name: &str, args: &Value) -> Effects {
    match (name, args["host"].as_str()) {
        ("add", _) => Effects::empty(),
        ("fetch_pages", Some(host)) => Effects::from(Effect::Connect(host.to_owned())),
        _ => Effects::from(Effect::Unknown),
    }
}

/// Id of the only session.
const SESSION: &str = "session1";

/// Runs one turn: the existing loop, with its calls wrapped.
pub(crate) async fn run_scripted_turn(out: impl Write + Send + 'static) -> io::Result<()> {
    let session = SessionHandle::new(Session::new("/project"), SystemTime::now);
    let (cancel, stop) = (CancellationToken::new(), CancellationToken::new());
    let sink =
        JsonLines { out, session: session.clone(), sent: V1Projection::new(TerminalDisplay::Text) };
    let driver = tokio::spawn(drive_session(session.clone(), sink, stop.clone()));

    let tools = ToolMiddleware::new(session.clone())
        .with_titles(|name, args| format!("{name} {args}"))
        .with_effects(effects_of_call)
        .with_timeout(Duration::from_secs(60));
    for (id, name, args) in SCRIPTED_CALLS {
        let args = serde_json::from_str(args)?;
        // Without the middleware, this call was `run_tool(name, args).await`.
        let result = match tools.call(&"turn1".into(), id, name, args, &cancel, run_tool).await {
            Ok(text) => text,
            Err(ended) if ended.ends_turn => break,
            Err(ended) => ended.text,
        };
        let text = format!("{name}: {result}\n");
        session.send_message_chunk(MessageChunk::from_agent("message1", text));
    }

    session.end_turn(&"turn1".into(), CallEndReason::Turn);
    stop.cancel();
    driver.await?;
    Ok(())
}

/// Writes everything that the session sends, in order, as lines of JSON. This sink also answers the
/// permission requests in place of a client.
struct JsonLines<W> {
    out: W,
    session: SessionHandle,
    sent: V1Projection,
}

impl<W: Write + Send> OutboxSink for JsonLines<W> {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        let updates = match item {
            OutboxItem::ToolCall(id, patch) => self.sent.updates_for_call_patch(&id, patch),
            OutboxItem::Terminal(id, patch) => self.sent.updates_for_terminal_patch(&id, &patch),
            OutboxItem::Chunk(chunk) => vec![self.sent.update_for_chunk(&chunk)],
            OutboxItem::PermissionRequest(id) => {
                let Some(request) = self.session.pending_permission_request(id) else {
                    return Ok(());
                };
                let asked = self.sent.permission_request_for_call(
                    SESSION.into(),
                    &request.call,
                    request.options,
                );
                let asked = asked.ok_or(ClientUnreachable)?;
                let params = asked.params().or(Err(ClientUnreachable))?;
                // This client rejects every deletion.
                let deletes = params["toolCall"]["kind"] == "delete";
                let option_id = if deletes { "reject" } else { "allow" }.to_owned();
                self.write_line(
                    json!({ "id": id.to_string(), "method": asked.method(), "params": params }),
                )?;
                self.session
                    .answer_permission(id, PermissionAnswer::Selected { option_id, reason: None });
                return Ok(());
            }
            OutboxItem::PromptResponse(_) => {
                return self.write_line(json!({ "id": 0, "result": { "stopReason": "end_turn" } }));
            }
            _ => Vec::new(),
        };
        updates.into_iter().try_for_each(|update| {
            let update = update.into_params(SESSION);
            let params = update.params().or(Err(ClientUnreachable))?;
            self.write_line(json!({ "method": update.method(), "params": params }))
        })
    }
}

impl<W: Write> JsonLines<W> {
    fn write_line(&mut self, mut message: Value) -> Result<(), ClientUnreachable> {
        message["jsonrpc"] = "2.0".into();
        writeln!(self.out, "{message}").or(Err(ClientUnreachable))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    run_scripted_turn(io::stdout()).await
}
