//! Tests of rewinds that continue after their caller was dropped, or that fail because the session
//! is not stored.

use std::future::poll_fn;
use std::sync::mpsc;
use std::task::Poll;

use acp_lifecycle::Session;
use acp_store::MemorySessionStore;
use acp_tools::files::write::{FileWrite, write_all_or_none};
use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;
use crate::stored_sessions::tests::held_recording;

/// A session whose first prompt has created a file. The session's store opens when a message is
/// sent through `open`.
struct Stage {
    _folder: TempDir,
    file: PathBuf,
    rewind: SessionRewind,
    open: mpsc::Sender<()>,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().join("cwd");
        std::fs::create_dir(&cwd).unwrap();
        let workspace = Workspace::new(cwd, Vec::new()).unwrap().with_state_folder(folder.path());
        workspace.set_prompt_number(1);
        let path = workspace.resolve("new.txt").unwrap();
        write_all_or_none(&workspace, &[FileWrite::new(&path, None, b"1")]).unwrap();
        let (recording, open) = held_recording(&MemorySessionStore::new());
        let handle = SessionHandle::new(Session::new("/p"), std::time::SystemTime::now);
        recording.record_prompt(&"t1".into(), &["hi".into()], &handle);
        let rewind = SessionRewind::new(Arc::new(workspace), recording, 0);
        Self { _folder: folder, file: path.path().to_owned(), rewind, open }
    }

    /// Begins the rewind, and drops its caller while the rewind waits for the store.
    async fn begin_and_drop_caller(&self) {
        let plan = self.rewind.plan(1).await.unwrap();
        assert_eq!(plan.changes().len(), 1);
        let mut run = Box::pin(self.rewind.run(plan, false));
        poll_fn(|context| {
            assert!(run.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_rewind_continues_although_its_caller_is_dropped() {
    let stage = Stage::new();
    stage.begin_and_drop_caller().await;
    let mut finished = Box::pin(stage.rewind.take_finished());
    assert!(futures::poll!(finished.as_mut()).is_pending());
    assert!(stage.file.exists());
    stage.open.send(()).unwrap();
    let finished = finished.await.unwrap();
    assert!(!stage.file.exists());
    assert!(finished.report.unwrap().contains("Deleted: new.txt."));
    assert_eq!(finished.rewound.unwrap().prompts, 0);
    assert!(stage.rewind.take_finished().await.is_none());
}

#[tokio::test]
async fn a_rewind_changes_no_file_if_the_session_is_not_stored() {
    let stage = Stage::new();
    stage.begin_and_drop_caller().await;
    // The store does not open in time.
    let finished = stage.rewind.take_finished().await.unwrap();
    stage.open.send(()).unwrap();
    assert!(finished.report.unwrap_err().contains("the disk takes too long"));
    assert!(finished.rewound.is_none() && stage.file.exists());
}
