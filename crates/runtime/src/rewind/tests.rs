//! Tests of rewinds of a session whose store fails.

use std::sync::mpsc;

use acp_store::{MemorySessionStore, NewSession, SessionFolder};
use acp_tools::files::write::{FileWrite, write_all_or_none};
use pretty_assertions::assert_eq;

use super::*;
use crate::secrets::LiveSecrets;
use crate::stored_sessions::StoredSessions;

#[tokio::test]
async fn a_rewind_changes_no_file_if_the_session_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().join("cwd");
    std::fs::create_dir(&cwd).unwrap();
    let workspace = Workspace::new(cwd, Vec::new()).unwrap().with_state_folder(folder.path());
    workspace.begin_prompt(1);
    let file = workspace.cwd().join("new.txt");
    let path = workspace.resolve("new.txt").unwrap();
    let write = FileWrite::new(&path, None, b"1");
    write_all_or_none(&workspace, &[write]).unwrap();
    let (open, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let stored = StoredSessions::new(move || {
        let _is_dropped = held.lock().unwrap().recv();
        Ok(Arc::new(MemorySessionStore::new()))
    });
    let stored_folder = SessionFolder { cwd: "/p".into(), canonical: "/p".into() };
    let new = NewSession::new("s", stored_folder);
    let recording = SessionRecording::begin(stored, new, LiveSecrets::from_env([]));
    let rewind = SessionRewind::new(Arc::new(workspace), recording, 0);
    let plan = rewind.plan(1).await.unwrap();
    assert_eq!(plan.changes().len(), 1);
    let (running, idle) = (rewind.clone(), rewind.clone());
    let run = tokio::spawn(async move { running.run(plan, false).await });
    // The rewind continues although its caller is dropped, and is waited for.
    while rewind.running.try_lock().is_ok() {
        tokio::task::yield_now().await;
    }
    let mut idle = Box::pin(idle.wait_until_idle());
    assert!(futures::poll!(idle.as_mut()).is_pending());
    let error = run.await.unwrap().unwrap_err();
    drop(open);
    assert!(error.to_string().contains("the disk takes too long"), "{error}");
    idle.await;
    assert!(file.exists());
}
