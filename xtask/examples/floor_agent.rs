//! A coding agent that does only what ACP and a model require: the baseline of `cargo xtask accept`
//! and `bench --peers`.
//!
//! Acceptance rows compare callboard with this agent, so that their results depend less on the speed
//! of the machine. The agent uses blocking calls and no SDK. It has the tools `read_file` and
//! `edit_file`, uses a model that speaks OpenAI's chat completions, and trusts its client, its model
//! and its disk: it has no permissions, no durable writes, and no limits but those of its model.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

type AgentResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> AgentResult<()> {
    let mut sessions = HashMap::new();
    for line in io::stdin().lines() {
        let mut message: Value = serde_json::from_str(&line?)?;
        let (id, params) = (message["id"].take(), message["params"].take());
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": 1, "agentCapabilities": {}}),
            "session/new" => {
                let session = format!("sess_{}", sessions.len() + 1);
                let cwd = params["cwd"].as_str().unwrap_or_default();
                let opened = Session::new(session.clone(), cwd.into());
                sessions.insert(session.clone(), Arc::new(Mutex::new(opened)));
                json!({"sessionId": session})
            }
            "session/prompt" => {
                let session = params["sessionId"].as_str().and_then(|it| sessions.get(it));
                let session = Arc::clone(session.ok_or("unknown session")?);
                let text = params["prompt"][0]["text"].clone();
                thread::spawn(move || {
                    let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
                    let answer = match session.run_turn(&text) {
                        Ok(()) => json!({"result": {"stopReason": "end_turn"}}),
                        Err(why) => json!({"error": {"code": -32603, "message": why.to_string()}}),
                    };
                    send_to_client(answer, Some(id))
                });
                continue;
            }
            _ => json!({}),
        };
        if !id.is_null() {
            send_to_client(json!({"result": result}), Some(id))?;
        }
    }
    Ok(())
}

fn send_to_client(mut message: Value, id: Option<Value>) -> io::Result<()> {
    message["jsonrpc"] = json!("2.0");
    if let Some(id) = id {
        message["id"] = id;
    }
    io::stdout().lock().write_all(format!("{message}\n").as_bytes())
}

struct Session {
    id: String,
    cwd: PathBuf,
    /// All messages, as the model receives them.
    messages: Vec<Value>,
    /// The connection to the model, which all requests use.
    connection: Option<BufReader<TcpStream>>,
    calls: usize,
}

/// The reply of a model.
#[derive(Default)]
struct Reply {
    text: String,
    /// The calls, whose arguments are JSON.
    calls: Vec<ModelCall>,
}

#[derive(Default)]
struct ModelCall {
    id: String,
    name: String,
    arguments: String,
}

impl Session {
    fn new(id: String, cwd: PathBuf) -> Self {
        Self { id, cwd, messages: Vec::new(), connection: None, calls: 0 }
    }

    fn run_turn(&mut self, prompt: &Value) -> AgentResult<()> {
        self.messages.push(json!({"role": "user", "content": prompt}));
        loop {
            let Reply { text, calls } = self.request_reply()?;
            let made: Vec<_> = calls.iter().map(ModelCall::to_json).collect();
            let mut message = json!({"role": "assistant", "content": text});
            if !made.is_empty() {
                message["tool_calls"] = made.into();
            }
            self.messages.push(message);
            if calls.is_empty() {
                return Ok(());
            }
            for call in calls {
                let result = self.run_call(&call)?;
                let message = json!({"role": "tool", "tool_call_id": call.id, "content": result});
                self.messages.push(message);
            }
        }
    }

    fn send_update(&self, update: &Value) -> io::Result<()> {
        let params = json!({"sessionId": self.id, "update": update});
        send_to_client(json!({"method": "session/update", "params": params}), None)
    }

    fn request_reply(&mut self) -> AgentResult<Reply> {
        let url = env::var("OPENAI_BASE_URL")?;
        let (host, base) =
            url.strip_prefix("http://").and_then(|it| it.split_once('/')).ok_or("URL")?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(host)?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        let tools = ["read_file", "edit_file"]
            .map(|name| json!({"type": "function", "function": {"name": name}}));
        let body = json!({
            "model": "scripted", "stream": true, "messages": self.messages, "tools": tools
        });
        let body = body.to_string();
        let headers = format!(
            "POST /{base}/chat/completions HTTP/1.1\r\nhost: {host}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        connection.get_mut().write_all(&[headers.as_bytes(), body.as_bytes()].concat())?;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if connection.read_line(&mut line)? == 0 {
                return Err("the model closed the connection".into());
            }
        }
        let (mut reply, mut received) = (Reply::default(), Vec::new());
        while let Some(chunk) = read_chunk(&mut connection)? {
            received.extend(chunk);
            // A chunk may end anywhere in a line.
            while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = received.drain(..=end).collect();
                if let Some(data) = line.strip_prefix(b"data: {") {
                    self.add_event(&serde_json::from_slice(&[b"{", data].concat())?, &mut reply)?;
                }
            }
        }
        self.connection = Some(connection);
        Ok(reply)
    }

    fn add_event(&self, event: &Value, reply: &mut Reply) -> io::Result<()> {
        let delta = &event["choices"][0]["delta"];
        if let Some(text) = delta["content"].as_str().filter(|text| !text.is_empty()) {
            reply.text.push_str(text);
            let content = json!({"type": "text", "text": text});
            self.send_update(&json!({"sessionUpdate": "agent_message_chunk", "content": content}))?;
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            if let (Some(id), Some(name)) =
                (piece["id"].as_str(), piece["function"]["name"].as_str())
            {
                let (id, name) = (id.to_owned(), name.to_owned());
                reply.calls.push(ModelCall { id, name, ..ModelCall::default() });
            }
            if let Some(call) = reply.calls.last_mut() {
                let fragment = piece["function"]["arguments"].as_str();
                call.arguments.push_str(fragment.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Runs a call, and returns its result for the model.
    fn run_call(&mut self, call: &ModelCall) -> AgentResult<String> {
        let args: Value = serde_json::from_str(&call.arguments)?;
        let text = |name: &str| args[name].as_str().unwrap_or_default();
        let path = self.cwd.join(text("path"));
        self.calls += 1;
        let id = format!("call_{}", self.calls);
        let kind = if call.name == "edit_file" { "edit" } else { "read" };
        self.send_update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": format!("{kind} {}", text("path")),
            "kind": kind, "status": "pending", "locations": [{"path": path}], "rawInput": args,
        }))?;
        let running =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress"});
        self.send_update(&running)?;
        let (content, result) = if kind == "edit" {
            let (old, new) = (text("old_text"), text("new_text"));
            replace_in_file(&path, old, new)?;
            let diff = json!({"type": "diff", "path": path, "oldText": old, "newText": new});
            (diff, "The file was changed.".to_owned())
        } else {
            let read = fs::read_to_string(&path)?;
            let content = json!({"type": "text", "text": read});
            (json!({"type": "content", "content": content}), read)
        };
        self.send_update(&json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed",
            "content": [content],
        }))?;
        Ok(result)
    }
}

impl ModelCall {
    fn to_json(&self) -> Value {
        let function = json!({"name": self.name, "arguments": self.arguments});
        json!({"id": self.id, "type": "function", "function": function})
    }
}

/// Reads one chunk of a response with `transfer-encoding: chunked`. Returns `None` after the last
/// chunk.
fn read_chunk(connection: &mut BufReader<TcpStream>) -> AgentResult<Option<Vec<u8>>> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let len = usize::from_str_radix(line.trim_end(), 16)?;
    let mut chunk = vec![0; len + "\r\n".len()];
    connection.read_exact(&mut chunk)?;
    chunk.truncate(len);
    Ok((len > 0).then_some(chunk))
}

fn replace_in_file(path: &Path, old: &str, new: &str) -> AgentResult<()> {
    let text = fs::read_to_string(path)?;
    if text.matches(old).count() != 1 {
        return Err("the text is not found exactly once".into());
    }
    let changed = path.with_extension("new");
    fs::write(&changed, text.replacen(old, new, 1))?;
    Ok(fs::rename(&changed, path)?)
}
