//! Adds tools that are known only at run time, as those of a server are, and calls one of them.
//!
//! `cargo run -p acp-tools --example run_time_tools [TEXT]`

use std::error::Error;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::SystemTime;

use acp_lifecycle::{
    AllowPolicy, AnyPlan, Effect, Effects, Ended, Grant, Pinned, Session, SessionHandle, perform,
};
use acp_tools::{
    CancellationToken, Context, Draft, DynTool, Invocation, Output, Reach, Registry, Spec,
    ToolError, Workspace,
};
use acp_types::{ToolCallId, ToolCallReport, ToolKind};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// The answer of a server that is asked for its tools.
const LISTED: &str = r#"[
    {
        "name": "word_count",
        "description": "Counts the words of a text.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The text."}},
            "required": ["text"]
        }
    },
    {
        "name": "reverse",
        "description": "Reverses the letters of a text.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}
    }
]"#;

/// A tool of the server.
#[derive(Debug)]
struct Remote {
    name: String,
    description: String,
    schema: Value,
}

/// Reads the tools of a server.
fn remote_tools(listed: &str) -> serde_json::Result<Vec<Remote>> {
    let tools: Vec<Value> = serde_json::from_str(listed)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let remote = |tool: &Value| Remote {
        name: text(&tool["name"]),
        description: text(&tool["description"]),
        schema: tool["inputSchema"].clone(),
    };
    Ok(tools.iter().map(remote).collect())
}

/// Stands for the server.
async fn ask_server(name: &str, args: &Value) -> Result<String, ToolError> {
    let text = args["text"].as_str().ok_or_else(|| ToolError::invalid("`text` is missing."))?;
    match name {
        "word_count" => Ok(text.split_whitespace().count().to_string()),
        "reverse" => Ok(text.chars().rev().collect()),
        _ => Err(ToolError::fatal("the server has no such tool")),
    }
}

impl DynTool for Remote {
    fn spec(&self) -> Spec {
        let (name, description) = (self.name.clone(), self.description.clone());
        Spec::new(name, description, ToolKind::Fetch).with_reach(Reach::Anything)
    }

    fn input_schema(&self) -> Value {
        self.schema.clone()
    }

    fn preview<'a>(
        &'a self,
        args: Value,
        _: Invocation<'a>,
    ) -> BoxFuture<'a, Result<Draft<AnyPlan>, ToolError>> {
        // The permission is for what the effects say, and for just these arguments.
        let effects = Effects::from(Effect::Connect("words.example".to_owned()));
        async { Ok(Draft::new(Box::new(args) as AnyPlan).with_effects(effects)) }.boxed()
    }

    fn run<'a>(
        &'a self,
        pinned: Pinned<AnyPlan>,
        grant: Grant,
        _: Invocation<'a>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        async move {
            let plan = pinned.release(grant)?;
            let Ok(args) = plan.downcast::<Value>() else {
                return Err(ToolError::fatal("a plan of another tool"));
            };
            Ok(Output::new(ask_server(&self.name, &args).await?))
        }
        .boxed()
    }
}

/// Calls a tool beside the built-in ones, in a session that allows everything; returns what its model
/// reads and what a client holds of the call.
pub(crate) async fn call(
    name: &str,
    args: Value,
) -> Result<(Ended, ToolCallReport), Box<dyn Error>> {
    let mut registry = Registry::builtin()?;
    for tool in remote_tools(LISTED)? {
        registry.add_dyn(Box::new(tool));
    }
    let cwd = std::env::current_dir()?;
    let context = Context::new(Arc::new(Workspace::new(cwd.clone(), Vec::new())?));
    let session = SessionHandle::new(Session::new(cwd), SystemTime::now);
    session.with(|session, _| session.set_policy(Arc::new(AllowPolicy)));

    let (id, cancel) = (ToolCallId::new("t1/c1"), CancellationToken::new());
    let open = registry.announce(&session, &id, &"t1".into(), name, &context, &cancel);
    let open = open.ok_or("the id is taken")?;
    let ended = perform(open, registry.call(name, args, &context)).await;
    let report = session.tool_call(&id).ok_or("the call is unknown")?;
    Ok((ended, report))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "one two three".to_owned());
    let (ended, report) = call("word_count", json!({ "text": text })).await?;
    writeln!(io::stdout(), "{}\n{}", report.title, ended.text)?;
    Ok(())
}
