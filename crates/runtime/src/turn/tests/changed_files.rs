//! Files that change after a call has read them, while another call of the same reply still runs.

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
    let mut history = History::default();
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert_eq!(ending, Ok(StopReason::EndTurn));
    change.await.unwrap();
    let notes = history.messages().iter().filter_map(|message| match &**message {
        ChatMessage::Context(text) => Some(text.as_str()),
        _ => None,
    });
    let notes = notes.collect::<String>();
    assert!(notes.contains("changed by the user") && notes.ends_with("\n- a"), "{notes}");
    stage.end().await;
}
