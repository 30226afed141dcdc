//! Tests of late writes: another program writes to a file after the session has replaced the file.
//! If no result of a call can report the write, the turn that detects the write reports it.

use super::*;
use acp_tools::files::write::{PreImage, atomic_write_if_unchanged};
use pretty_assertions::assert_eq;
use std::fs::{File, OpenOptions};
use std::io::Write as _;

/// A model that simulates another program: if the file `open` is set, the model writes to it, and
/// then replies.
#[derive(Debug, Default)]
struct LateWriteModel {
    open: Mutex<Option<File>>,
}

impl Model for LateWriteModel {
    fn name(&self) -> &'static str {
        "says"
    }

    fn reply(&self, _: ModelRequest) -> ReplyStream {
        if let Some(mut open) = self.open.lock().unwrap().take() {
            open.write_all(b"late").unwrap();
        }
        stream::iter([ModelEvent::Text("So.".into()), ModelEvent::Stop(ModelStopReason::EndTurn)])
            .boxed()
    }
}

/// Replaces a file of the fixture. Returns a handle of the old file, like the handle of a program
/// that opened the file before.
fn replace_file(stage: &TurnFixture, name: &str) -> File {
    let path = stage.folder.path().join(name);
    std::fs::write(&path, "old").unwrap();
    let open = OpenOptions::new().write(true).open(&path).unwrap();
    let workspace = &stage.context.workspace;
    let at = workspace.resolve(name).unwrap();
    atomic_write_if_unchanged(workspace, &at, b"new", &PreImage::Bytes(b"old".to_vec())).unwrap();
    open
}

/// Returns the texts that the model received: the user's prompts, and the beginnings of the notes.
fn model_messages(history: &History) -> Vec<String> {
    let messages = history.messages().iter().filter_map(|message| match &**message {
        ChatMessage::Context(text) => Some(text.split(" after").next().unwrap().to_owned()),
        ChatMessage::User(parts) => {
            Some(format!("{parts:?}").split('"').nth(1).unwrap().to_owned())
        }
        _ => None,
    });
    messages.collect()
}

#[tokio::test(start_paused = true)]
async fn a_late_write_is_reported_at_the_end_of_its_turn_or_at_the_next_prompt() {
    let (mut stage, mut history) = (TurnFixture::new(), History::default());
    let state = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(stage.folder.path().to_owned(), Vec::new()).unwrap();
    stage.context.workspace = Arc::new(workspace.with_state_folder(state.path()));
    let model = Arc::new(LateWriteModel::default());
    let late = ["a", "b"].map(|name| format!("Another program wrote to {name}"));
    let [a, b] = late.each_ref().map(String::as_str);
    let mut between = None;
    for (prompt, name, expected) in [
        ("one", "a", &["one", a][..]),
        ("two", "b", &["one", a, "two"]),
        ("three", "c", &["one", a, "two", b, "three"]),
    ] {
        if let Some(mut open) = Option::<File>::take(&mut between) {
            open.write_all(b"late").unwrap();
        }
        let open = replace_file(&stage, name);
        match name {
            "a" => *model.open.lock().unwrap() = Some(open),
            _ => between = Some(open),
        }
        let ending = stage.run(&model, &mut history, vec![ContentBlock::from(prompt)]).await;
        assert_eq!(ending, Ok(StopReason::EndTurn));
        assert_eq!(model_messages(&history), expected);
    }
    check_valid(&history);
    let shown = stage.end().await.thought;
    assert!([a, b].iter().all(|late| shown.contains(late)), "{shown}");
}
