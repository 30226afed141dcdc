//! Tests of a late write: another program writes to a file after the session has replaced the file.
//! Here, no turn follows that could report the write.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;

use callboard_models::direct::DirectModel;
use serde_json::json;

use acp_conformance::{AgentUnderTest, PermissionReply};

#[tokio::test]
async fn a_session_that_closes_logs_what_was_written_late_and_told_by_nobody() {
    let outer = tempfile::tempdir().unwrap();
    let [cwd, state, log] = ["cwd", "state", "log"].map(|name| outer.path().join(name));
    std::fs::create_dir(&cwd).unwrap();
    std::fs::write(cwd.join("a.txt"), "old\n").unwrap();
    let to = File::create(&log).unwrap();
    let subscriber = tracing_subscriber::fmt().with_writer(Arc::new(to)).finish();
    let guard = tracing::subscriber::set_default(subscriber);

    let agent =
        crate::agent::CodingAgent::new(Arc::new(DirectModel::default()), std::iter::empty());
    let agent = agent.with_state_folder(state);
    let mut agent = AgentUnderTest::in_process(agent, PermissionReply::default());
    agent.initialize().await.unwrap();
    let session = agent.new_session(&cwd).await.unwrap();
    let mut open = OpenOptions::new().write(true).open(cwd.join("a.txt")).unwrap();
    agent.prompt_and_wait_for_stop(&session, "write a.txt\n<<<\nnew\n>>>").await.unwrap();
    assert_eq!(std::fs::read_to_string(cwd.join("a.txt")).unwrap(), "new\n");
    open.write_all(b"late").unwrap();
    agent.send_request_and_wait("session/close", json!({ "sessionId": session })).await.unwrap();

    drop(guard);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("Another program wrote to a.txt after it was replaced"), "{log}");
}
