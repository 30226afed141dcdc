//! Tests of keys that the agent receives while a model is opened.

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
            secrets.add(KEY);
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
