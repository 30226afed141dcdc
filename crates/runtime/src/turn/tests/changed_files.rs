//! Files that change after a call has read them, while the other calls of the same reply run.

use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_during_another_call_of_the_reply_is_reported() {
    let stage = TurnFixture::new();
    let file = stage.folder.path().join("a");
    std::fs::write(&file, "before").unwrap();
    let read = |name: &str, steps: usize| {
        call_with(name, "look", &json!({"path": name, "steps": steps}).to_string())
    };
    let both = [read("a", 1), read("b", 50), vec![ModelEvent::Stop(ModelStopReason::ToolCalls)]];
    let end = vec![ModelEvent::Text("Done.".into()), ModelEvent::Stop(ModelStopReason::EndTurn)];
    let model = Arc::new(reply_endings::FakeModel::new(vec![both.concat(), end]));
    let change = tokio::spawn(async move {
        // The clock is paused: it advances when the first call has ended and its file is recorded.
        let never = std::future::pending::<()>();
        drop(tokio::time::timeout(Duration::from_millis(20), never).await);
        std::fs::write(&file, "changed").unwrap();
    });
    let notes = run_and_collect_notes(stage, &model).await;
    change.await.unwrap();
    assert!(notes.contains("changed by the user") && notes.ends_with("\n- a"), "{notes}");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_the_next_call_of_the_reply_changes_is_reported() {
    let stage = TurnFixture::new();
    std::fs::write(stage.folder.path().join("a"), "before").unwrap();
    let command = json!({"path": "a", "says": "changes its file"}).to_string();
    let both = [
        call_with("1", "look", r#"{"path": "a", "steps": 0}"#),
        call_with("2", "order", &command),
        vec![ModelEvent::Stop(ModelStopReason::ToolCalls)],
    ];
    let end = vec![ModelEvent::Text("Done.".into()), ModelEvent::Stop(ModelStopReason::EndTurn)];
    let model = Arc::new(reply_endings::FakeModel::new(vec![both.concat(), end]));
    let notes = run_and_collect_notes(stage, &model).await;
    assert!(notes.contains("changed by the user") && notes.ends_with("\n- a"), "{notes}");
}

/// Runs a turn, and returns the context that the model received.
async fn run_and_collect_notes(
    stage: TurnFixture,
    model: &Arc<reply_endings::FakeModel>,
) -> String {
    let mut history = History::default();
    let ending = stage.run(model, &mut history, vec![ContentBlock::from("go")]).await;
    assert_eq!(ending, Ok(StopReason::EndTurn));
    stage.end().await;
    let notes = history.messages().iter().filter_map(|message| match &**message {
        ChatMessage::Context(text) => Some(text.as_str()),
        _ => None,
    });
    notes.collect()
}
