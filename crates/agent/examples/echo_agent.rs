//! A minimal agent with sessions: it echoes each text block of a prompt.
//!
//! The example uses only the parts of the SDK that every agent needs. It is also the baseline of
//! `cargo xtask accept startup` and other measurements. These measure how much longer callboard
//! needs than this example to answer `initialize` or to send its first word. The example does not
//! handle clients that disconnect, flood it with messages or send invalid JSON.

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, InitializeRequest, InitializeResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, SessionNotification, SessionUpdate,
    StopReason,
};
use agent_client_protocol::{Agent, Result, Stdio, on_receive_request};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut sessions = 0;
    Agent
        .v1()
        .name("echo")
        .on_receive_request(
            async |request: InitializeRequest, responder, _| {
                responder.respond(InitializeResponse::new(request.protocol_version))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| {
                sessions += 1;
                responder.respond(NewSessionResponse::new(format!("sess_{sessions}")))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async |request: PromptRequest, responder, client| {
                for text in request.prompt.iter().filter_map(block_text) {
                    let update = SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()));
                    let session = request.session_id.clone();
                    client.send_notification(SessionNotification::new(session, update))?;
                }
                responder.respond(PromptResponse::new(StopReason::EndTurn))
            },
            on_receive_request!(),
        )
        .connect_to(Stdio::new())
        .await
}

fn block_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}
