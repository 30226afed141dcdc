//! Tests of a background command that ends between two turns. The next turn must report the end of
//! the command.

use super::*;
use acp_types::schema::v1::{ToolCallContent, ToolCallStatus};
use pretty_assertions::assert_eq;

/// A model that starts a background command and then ends its turn.
#[derive(Debug)]
struct BackgroundCommandModel {
    command: String,
}

impl Model for BackgroundCommandModel {
    fn name(&self) -> &'static str {
        "sends"
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let args = serde_json::json!({ "command": self.command, "background": true });
        let mut events = call_with("a", "terminal", &args.to_string());
        events.push(ModelEvent::Stop(ModelStopReason::ToolCalls));
        match request.index {
            0 => stream::iter(events).boxed(),
            _ => stream::iter([
                ModelEvent::Text("So.".into()),
                ModelEvent::Stop(ModelStopReason::EndTurn),
            ])
            .boxed(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_background_command_is_a_call_and_a_note_of_the_next_turn() {
    let (mut stage, mut history) = (TurnFixture::new(), History::default());
    stage.tools = OfferedTools::new(Registry::builtin());
    let gate = stage.folder.path().join("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).unwrap();
    let model = Arc::new(BackgroundCommandModel { command: "cat gate; exit 3".to_owned() });
    for prompt in ["go", "and?"] {
        let ending = stage.run(&model, &mut history, vec![ContentBlock::from(prompt)]).await;
        assert_eq!(ending, Ok(StopReason::EndTurn));
    }
    let noted = |history: &History| {
        let notes = history.messages().iter().filter_map(|message| match &**message {
            ChatMessage::Context(text) => Some(text.clone()),
            _ => None,
        });
        notes.collect::<Vec<_>>()
    };
    assert_eq!(noted(&history), [""; 0]);
    std::fs::write(&gate, "the last words\n").unwrap();
    let background = stage.context.workspace.background_commands();
    let mut notes = noted(&history);
    let begun = std::time::Instant::now();
    while notes.is_empty() {
        assert!(begun.elapsed().as_secs() < 60, "it was not told");
        let ending = stage.run(&model, &mut history, vec![ContentBlock::from("now?")]).await;
        assert_eq!(ending, Ok(StopReason::EndTurn));
        notes = noted(&history);
    }
    assert_eq!(background.take_unreported_ended_id(), None);
    let [notes] = &notes[..] else { panic!("{notes:?}") };
    assert!(notes.starts_with("A command in the background has ended.\n[bg-1 ended"), "{notes}");
    assert!(notes.contains(": exit code 3]\n") && notes.ends_with("the last words\n"), "{notes}");
    check_valid(&history);
    let seen = stage.end().await;
    let calls: Vec<_> = seen.client_state.observed_calls().collect();
    let [sent, ended] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((sent.status, ended.status), (ToolCallStatus::Completed, ToolCallStatus::Completed));
    assert_eq!(ended.title, "Look at `cat gate; exit 3`, which has ended");
    let is_shown = ended.content.iter().any(|content| {
        matches!(content, ToolCallContent::Content(shown)
            if format!("{:?}", shown.content).contains("the last words"))
    });
    assert!(is_shown, "{:?}", ended.content);
}
