//! The tool loop of an agent that uses the crate `rig`, connected to ACP clients.
//! `cargo run -p callboard-runtime --example rig_tool_loop` plays a script in place of a model.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use acp_connection::{ClientSession, Turn};
use acp_lifecycle::{BatchCall, Effect, Effects, Session, ToolMiddleware};
use acp_transport::TransportCounters;
use acp_types::MessageChunk;
use agent_client_protocol::v1::schema::{self as v1, ContentBlock, StopReason};
use agent_client_protocol::{self as acp, Client, ConnectTo};
use rig_core::DynModel;
use rig_core::completion::CompletionRequest;
use rig_core::message::{EmptyToolName, Message, ToolCall, ToolName, ToolResultContent};
use rig_core::operation::Completion;
use rig_core::providers::ollama::OllamaConfig;
use rig_core::tool::{DynamicTool, ToolExecutionError, ToolOutput};
use rig_http::test_utils::{MockHttpResponse, SequencedHttpClient};
use serde_json::{Value, json};

/// Your existing agent: a model and its tools.
pub(crate) struct RigAgent {
    model: DynModel<Completion>,
    tools: Vec<DynamicTool>,
}

impl RigAgent {
    /// Runs the loop: it sends a request, runs the calls of the reply, and repeats.
    async fn run_turn(self: Arc<Self>, prompt: String, turn: Turn) -> acp::Result<StopReason> {
        let middleware = ToolMiddleware::new(turn.session.clone()).with_effects(|name, _| {
            // If the effects are unknown, the user is asked.
            if name == "count_words" { Effects::empty() } else { Effect::Unknown.into() }
        });
        let tools = self.tools.iter().map(DynamicTool::definition).collect();
        let mut request = CompletionRequest::new(prompt).tools(tools);
        loop {
            let reply = turn.cancel.run_until_cancelled(self.model.call(request.clone())).await;
            let Some(reply) = reply else { return Ok(StopReason::Cancelled) };
            let reply = reply.map_err(acp::Error::into_internal_error)?;
            let message = format!("{}/{}", turn.id, request.chat_history.len());
            turn.session.send_message_chunk(MessageChunk::from_agent(message, reply.text()));
            let calls: Vec<_> = reply.tool_calls().map(|c| (c.id.to_string(), c.clone())).collect();
            if calls.is_empty() {
                return Ok(StopReason::EndTurn);
            }
            request.chat_history.extend(reply.message());
            let batch = calls.iter().map(|(id, ToolCall { function: tool, .. })| {
                BatchCall::new(id, &tool.name, tool.arguments_value())
            });
            // Without ACP, the loop would execute `self.run_tool(name, args).await` for each call.
            let run = |name, args| self.run_tool(name, args);
            let results = middleware.call_batch(&turn.id, batch.collect(), &turn.cancel, run).await;
            let results = calls.iter().zip(results).map(|((_, call), result)| match result {
                Ok(text) => call.result(vec![ToolResultContent::text(text)]),
                Err(ended) => call.error_result(vec![ToolResultContent::text(ended.text)]),
            });
            request.chat_history.push(Message::tool_results(results.collect()));
        }
    }

    async fn run_tool(&self, name: &str, args: Value) -> Result<String, ToolExecutionError> {
        let tool = self.tools.iter().find(|tool| tool.name().as_str() == name);
        let tool = tool.ok_or_else(|| ToolExecutionError::not_found("no such tool"))?;
        tool.execute(args).await.map(|output| output.render())
    }
}

/// Creates a tool that counts words.
fn word_count_tool(name: &str) -> Result<DynamicTool, EmptyToolName> {
    Ok(DynamicTool::new(ToolName::new(name)?, "Takes a text.", json!({"type": "object"}), |args| {
        let words = args["text"].as_str().unwrap_or_default().split_whitespace().count();
        Box::pin(std::future::ready(Ok(ToolOutput::text(format!("{words} words")))))
    }))
}

/// Creates the agent with a model that plays a script. A real agent uses
/// `OpenAI::from_env()?.with_http(http)` instead.
pub(crate) fn scripted_agent() -> Result<(Arc<RigAgent>, SequencedHttpClient), EmptyToolName> {
    let calls = ["count_words", "publish"]
        .map(|name| json!({"function": {"name": name, "arguments": {"text": "one two"}}}));
    let replies = [
        json!({"role": "assistant", "content": "", "tool_calls": calls}),
        json!({"role": "assistant", "content": "Done."}),
    ];
    let http = SequencedHttpClient::new(replies.map(|message| {
        let reply = json!({"model": "m", "message": message, "done": true, "done_reason": "stop"});
        MockHttpResponse::success_typed(reply.to_string(), "application/json")
    }));
    let model = OllamaConfig::new().connect(http.clone()).native_completion("m").erase();
    let tools = vec![word_count_tool("count_words")?, word_count_tool("publish")?];
    Ok((Arc::new(RigAgent { model, tools }), http))
}

/// The code to add for ACP support: handlers of ACP methods that call the unchanged agent.
pub(crate) fn agent(
    rig: Arc<RigAgent>,
    counters: Option<Arc<TransportCounters>>,
) -> impl ConnectTo<Client> {
    let session = Arc::<OnceLock<ClientSession>>::default();
    let [new, prompted, cancelled, closed] = [(); 4].map(|()| session.clone());
    acp::Agent
        .v1()
        .on_receive_request(
            async |request: v1::InitializeRequest, responder, _| {
                responder.respond(v1::InitializeResponse::new(request.protocol_version))
            },
            acp::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: v1::NewSessionRequest, responder, client| {
                let (session, can) = (Session::new(request.cwd), Default::default());
                let session = ClientSession::builder("rig", session, &can, client);
                new.get_or_init(|| session.with_transport_counters(counters.clone()).open());
                responder.respond(v1::NewSessionResponse::new("rig"))
            },
            acp::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: v1::PromptRequest, responder, _| {
                let (prompt, rig) = (request.prompt.into_iter().next(), rig.clone());
                match (prompt, prompted.get()) {
                    (Some(ContentBlock::Text(prompt)), Some(session)) => {
                        session.queue_prompt_turn(responder, |turn| rig.run_turn(prompt.text, turn))
                    }
                    _ => responder.respond_with_error(acp::Error::invalid_params()),
                }
            },
            acp::on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: v1::CancelNotification, _| {
                cancelled.get().into_iter().for_each(ClientSession::cancel);
                Ok(())
            },
            acp::on_receive_notification!(),
        )
        .on_close(async move |_| {
            if let Some(session) = closed.get() {
                session.close(Duration::from_secs(1)).await;
            }
            Ok(())
        })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let transport = acp_transport::stdio()?;
    Ok(agent(scripted_agent()?.0, Some(transport.counters())).connect_to(transport).await?)
}
