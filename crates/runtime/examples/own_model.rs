//! An agent around a custom model, with a custom name and prompt, and a test of this agent with the
//! fault-injecting client.
//!
//! ```sh
//! cargo run -p callboard-runtime --example own_model # an agent for any ACP client
//! cargo test -p callboard-runtime --example own_model
//! ```

use std::error::Error;
use std::sync::Arc;

use agent_client_protocol::v1::schema::Implementation;
use callboard_models::{
    ChatMessage, ContentPart, Model, ModelEvent, ModelRequest, ModelStopReason, ModelToolCall,
    ReplyStream,
};
use callboard_runtime::{CodingAgent, serve};
use futures::{StreamExt as _, stream};

/// A model that reads the file named by the prompt, then replies with its number of lines.
#[derive(Debug)]
struct LineCounter;

impl Model for LineCounter {
    fn name(&self) -> &'static str {
        "line-counter"
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let events = match request.messages.last().map(|message| &**message) {
            Some(ChatMessage::ToolResults(results)) => {
                let answer = match &results[0] {
                    result if result.is_error => "I could not read it.".to_owned(),
                    result => format!("It has {} lines.", result.text.lines().count()),
                };
                vec![ModelEvent::Text(answer), ModelEvent::Stop(ModelStopReason::EndTurn)]
            }
            _ => {
                let arguments = serde_json::json!({ "path": newest_prompt(&request) }).to_string();
                let call = ModelToolCall::new("1", "read_file", arguments);
                ModelEvent::call_events(call, usize::MAX)
                    .chain([ModelEvent::Stop(ModelStopReason::ToolCalls)])
                    .collect()
            }
        };
        stream::iter(events).boxed()
    }
}

/// Returns the text of the newest prompt.
fn newest_prompt(request: &ModelRequest) -> String {
    let prompts = request.messages.iter().rev().filter_map(|message| match &**message {
        ChatMessage::User(parts) => match parts.first() {
            Some(ContentPart::Text(text)) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    });
    prompts.take(1).collect()
}

fn agent() -> CodingAgent {
    CodingAgent::new(Arc::new(LineCounter), callboard_process::env::own_env())
        .with_info(Implementation::new("line-counter", "1.0.0"))
        .with_instructions("You count lines.")
}

fn main() -> Result<(), Box<dyn Error>> {
    // The agent also starts this program as the helper process that ends commands and all their
    // children. In the helper process, this call does not return.
    callboard_process::run_if_command_helper();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(serve(agent(), acp_transport::stdio()?))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::agent;
    use acp_conformance::{AgentUnderTest, PermissionReply, Side};
    use acp_types::schema::v1::ToolCallStatus;

    #[tokio::test]
    async fn the_model_reads_a_file_and_counts_its_lines()
    -> Result<(), acp_conformance::AgentTestError> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("notes.txt"), "one\ntwo\n")?;
        let mut agent = AgentUnderTest::in_process(agent(), PermissionReply::NoReply);
        agent.initialize().await?;
        let session = agent.new_session(folder.path()).await?;
        for (name, status, answer) in [
            ("notes.txt", ToolCallStatus::Completed, "It has 2 lines."),
            ("missing.txt", ToolCallStatus::Failed, "I could not read it."),
        ] {
            assert_eq!(agent.prompt_and_wait_for_stop(&session, name).await?, "end_turn");
            let client = agent.client.session(&session);
            assert_eq!(client.calls().last().map(|call| call.status), Some(status));
            assert!(client.message_text().ends_with(answer), "{}", client.message_text());
        }
        assert_eq!(agent.client.violations_by(Side::Agent), []);
        agent.close_input_and_wait_for_exit().await?;
        Ok(())
    }
}
