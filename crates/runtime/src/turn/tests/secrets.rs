//! Tests of secrets that the agent receives during a turn.

use super::*;

const KEY: &str = "sk-learnt-in-mid-turn";

/// A model that adds a key when the first request arrives, and repeats the key in its reply.
#[derive(Debug)]
struct KeyLearningModel(LiveSecrets);

impl Model for KeyLearningModel {
    fn name(&self) -> &'static str {
        "opens"
    }

    fn reply(&self, _: ModelRequest) -> ReplyStream {
        let secrets = self.0.clone();
        let open = async move {
            secrets.add_permanent(KEY);
            stream::iter([
                ModelEvent::Text(format!("With {KEY}.")),
                ModelEvent::Stop(ModelStopReason::EndTurn),
            ])
        };
        stream::once(open).flatten().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_during_a_turn_is_redacted_in_this_turn() {
    let (stage, mut history) = (TurnFixture::new(), History::default());
    let ending = stage
        .run(
            &Arc::new(KeyLearningModel(stage.live.clone())),
            &mut history,
            vec![ContentBlock::from("go")],
        )
        .await;
    assert_eq!(ending, Ok(StopReason::EndTurn));
    let said = stage.end().await.said;
    assert!(said.starts_with("With ") && !said.contains(KEY), "{said}");
}

const TOKEN: &str = "access-renewed-by-this-call";

/// A tool that renews a token in its call, and returns the token, like a tool of an MCP server.
#[derive(Debug)]
struct TokenRenewingTool(LiveSecrets);

impl Tool for TokenRenewingTool {
    type Args = Args;
    type Plan = Args;

    fn spec(&self) -> Spec {
        Spec::new("look", "Renews a token.", ToolKind::Read).with_side_effects(SideEffects::Reads)
    }

    fn describe(&self, _: &Args, _: &Context) -> CallDescription {
        CallDescription::new("look")
    }

    async fn preview(&self, args: Args, _: Invocation<'_>) -> Result<ToolPreview<Args>, ToolError> {
        Ok(ToolPreview::new(args))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Args>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        pinned.release(grant)?;
        self.0.add_evictable(TOKEN);
        invocation.call.append_content(Content::from_text(format!("content with {TOKEN}")));
        Ok(ToolOutput::new(format!("result with {TOKEN}")))
    }
}

/// A model that calls the tool `look` once.
#[derive(Debug)]
struct OneCallModel;

impl Model for OneCallModel {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let events = match request.index {
            0 => [call("a", "look"), vec![ModelEvent::Stop(ModelStopReason::ToolCalls)]].concat(),
            _ => vec![ModelEvent::Stop(ModelStopReason::EndTurn)],
        };
        stream::iter(events).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_a_call_renews_is_redacted_in_the_result_of_the_call() {
    let (mut stage, mut history) = (TurnFixture::new(), History::default());
    let mut registry = Registry::new(Titles::parse("en", TITLES).unwrap());
    registry.add(TokenRenewingTool(stage.live.clone()));
    stage.tools = OfferedTools::new(registry);
    let model = Arc::new(OneCallModel);
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert_eq!(ending, Ok(StopReason::EndTurn));
    // These secrets are redacted in the stored messages of the model.
    let stored = stage.handle.update(|session, _| session.secrets().redact(TOKEN).into_owned());
    assert_eq!(stored, "[redacted]");
    let shown = format!("{:?}", stage.end().await.client_state);
    assert!(shown.contains("result with ") || shown.contains("content with "), "{shown}");
    assert!(!shown.contains(TOKEN), "{shown}");
}
