//! Adds tools that are known only at run time, such as the tools of a server, and calls one of
//! them.
//!
//! `cargo run -p acp-tools --example run_time_tools [TEXT]`

use std::error::Error;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::SystemTime;

use acp_lifecycle::rules::HostPattern;
use acp_lifecycle::{
    CallOutcome, Effect, Effects, ErasedPlan, Grant, Matcher, PinnedPlan, Rule, RuleScope, Session,
    SessionHandle, Verdict, execute_call,
};
use acp_tools::{
    CancellationToken, Context, DynTool, Invocation, Registry, SideEffects, Spec, ToolError,
    ToolOutput, ToolPreview, Workspace,
};
use acp_types::{ToolCallId, ToolCallReport, ToolKind};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// The response of a server to a request for its list of tools.
const SERVER_TOOL_LIST: &str = r#"[
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

/// A tool that the server provides.
#[derive(Debug)]
struct RemoteTool {
    name: String,
    description: String,
    schema: Value,
}

/// Parses the list of tools that a server sent.
fn parse_tool_list(listed: &str) -> serde_json::Result<Vec<RemoteTool>> {
    let tools: Vec<Value> = serde_json::from_str(listed)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let remote = |tool: &Value| RemoteTool {
        name: text(&tool["name"]),
        description: text(&tool["description"]),
        schema: tool["inputSchema"].clone(),
    };
    Ok(tools.iter().map(remote).collect())
}

/// Simulates a request to a server.
async fn ask_server(name: &str, args: &Value) -> Result<String, ToolError> {
    let text =
        args["text"].as_str().ok_or_else(|| ToolError::invalid_arguments("`text` is missing."))?;
    match name {
        "word_count" => Ok(text.split_whitespace().count().to_string()),
        "reverse" => Ok(text.chars().rev().collect()),
        _ => Err(ToolError::fatal("the server has no such tool")),
    }
}

impl DynTool for RemoteTool {
    fn spec(&self) -> Spec {
        let (name, description) = (self.name.clone(), self.description.clone());
        Spec::new(name, description, ToolKind::Fetch).with_side_effects(SideEffects::Anything)
    }

    fn input_schema(&self) -> Value {
        self.schema.clone()
    }

    fn preview<'a>(
        &'a self,
        args: Value,
        _: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolPreview<ErasedPlan>, ToolError>> {
        // The permission covers only these effects and exactly these arguments.
        let effects = Effects::from(Effect::Connect("words.example".to_owned()));
        async { Ok(ToolPreview::new(Box::new(args) as ErasedPlan).with_effects(effects)) }.boxed()
    }

    fn run<'a>(
        &'a self,
        pinned: PinnedPlan<ErasedPlan>,
        grant: Grant,
        _: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        async move {
            let plan = pinned.release(grant)?;
            let Ok(args) = plan.downcast::<Value>() else {
                return Err(ToolError::fatal("a plan of another tool"));
            };
            Ok(ToolOutput::new(ask_server(&self.name, &args).await?))
        }
        .boxed()
    }
}

/// Calls a tool in a session that allows every call. Returns the result for the model, and the call
/// as the client displays it.
pub(crate) async fn call(
    name: &str,
    args: Value,
) -> Result<(CallOutcome, ToolCallReport), Box<dyn Error>> {
    let mut registry = Registry::builtin();
    for tool in parse_tool_list(SERVER_TOOL_LIST)? {
        registry.add_dyn(Box::new(tool));
    }
    let cwd = std::env::current_dir()?;
    let context = Context::new(Arc::new(Workspace::new(cwd.clone(), Vec::new())?));
    let session = SessionHandle::new(Session::new(cwd), SystemTime::now);
    let host = Matcher::Host(HostPattern::parse("words.example")?);
    let allowed = Rule::new(RuleScope::Session, host, Verdict::Allow);
    session.update(|session, _| session.add_rule(allowed));

    let (id, cancel) = (ToolCallId::new("t1/c1"), CancellationToken::new());
    let open = registry.announce_call(&session, &id, &"t1".into(), name, &context, &cancel);
    let open = open.ok_or("the id is taken")?;
    let ended = execute_call(open, registry.prepare_call(name, args, &context)).await;
    let report = session.call_report(&id).ok_or("the call is unknown")?;
    Ok((ended, report))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "one two three".to_owned());
    let (ended, report) = call("word_count", json!({ "text": text })).await?;
    writeln!(io::stdout(), "{}\n{}", report.title, ended.text)?;
    Ok(())
}
