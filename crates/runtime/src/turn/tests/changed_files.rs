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
async fn a_file_is_recorded_before_the_next_call_of_the_reply_may_change_it() {
    let stage = TurnFixture::new();
    std::fs::write(stage.folder.path().join("a"), "before").unwrap();
    let both = [
        call_with("1", "look", r#"{"path": "a", "steps": 10}"#),
        call_with("2", "order", r#"{"path": "a", "says": "changes its file"}"#),
        vec![ModelEvent::Stop(ModelStopReason::ToolCalls)],
    ];
    let end = vec![ModelEvent::Text("Done.".into()), ModelEvent::Stop(ModelStopReason::EndTurn)];
    let model = Arc::new(reply_endings::FakeModel::new(vec![both.concat(), end]));
    let (files, log) = (stage.surroundings.clone(), stage.log.clone());
    let hold = tokio::spawn(async move {
        let never = std::future::pending::<()>;
        // The first call takes 10 ms.
        drop(tokio::time::timeout(Duration::from_millis(5), never()).await);
        let held = files.hold_files().await;
        drop(tokio::time::timeout(Duration::from_millis(100), never()).await);
        let begun = log.lock().unwrap().clone();
        drop(held);
        begun
    });
    let notes = run_and_collect_notes(stage, &model).await;
    let expected = [Step::Begin("done".to_owned()), Step::End("done".to_owned())];
    assert_eq!(hold.await.unwrap(), expected, "the second call has begun");
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
