//! Parallel calls of one reply, and parallel turns of several sessions.

use acp_types::schema::v1::ToolCallStatus;
use pretty_assertions::assert_eq;

use crate::harness::script::{end, run, text};
use crate::harness::session::call_text;
use crate::harness::{Agent, Options};

#[tokio::test]
async fn calls_of_one_reply_run_in_parallel() {
    // The two commands wait for each other: each reads a FIFO that the other command writes.
    let script = [run("echo a > one; cat two"), run("cat one; echo b > two"), end(), text("Done.")];
    let mut agent = Agent::start(script, Options::default());
    agent.scratch.fifo("one");
    agent.scratch.fifo("two");
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let calls = agent.session().calls();
    let shown: Vec<_> = calls.iter().map(|call| (call.status, call_text(call))).collect();
    for ((status, shown), output) in shown.iter().zip(["b", "a"]) {
        assert_eq!(*status, ToolCallStatus::Completed);
        assert!(shown.lines().any(|line| line == output), "{shown}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn sessions_run_turns_at_the_same_time_and_get_only_their_own_updates() {
    // Both sessions run the same script. The two commands wait for each other, so both turns must
    // run at the same time.
    let meet = "mkdir first && cat gate || echo second > gate";
    let mut agent = Agent::ready([run(meet), end(), text("Done.")], Options::default()).await;
    agent.scratch.fifo("gate");
    let sessions = [agent.session_id(), agent.new_session().await];
    let mut prompts = Vec::new();
    for session in &sessions {
        prompts.push(agent.prompt_in(session, "go").await);
    }
    for prompt in &prompts {
        assert_eq!(agent.stop_reason(prompt).await, "end_turn");
    }
    for session in &sessions {
        let call = agent.client.session(session).only_call_of_tool("terminal").unwrap();
        assert_eq!(call.status, ToolCallStatus::Completed);
    }
    agent.finish().await;
}
