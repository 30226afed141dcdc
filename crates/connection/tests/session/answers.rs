//! Tests of the responses to requests. Each prompt is answered by its own turn, for every end of
//! the turn and for any order of requests.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use acp_conformance::{AgentTestError, AgentUnderTest, ConformanceRule, PermissionReply, Side};
use acp_connection::{ClientSessions, Turn};
use acp_lifecycle::Session;
use agent_client_protocol::v1::schema::{
    InitializeRequest, InitializeResponse, NewSessionRequest, NewSessionResponse, PromptRequest,
    StopReason,
};
use agent_client_protocol::{Client, ConnectTo, on_receive_request};
use futures::{StreamExt as _, stream};
use pretty_assertions::assert_eq;
use serde_json::json;

use tokio::task::block_in_place;

use crate::agent::{BLOCKING_TURN_TIME, BuilderChange};
use crate::{outcome, send_mode, start, start_with};

/// Sends a request to the agent and waits for the response. The agent has then processed all
/// earlier messages.
async fn wait_until_processed(agent: &mut AgentUnderTest) -> Result<(), AgentTestError> {
    let mode = send_mode(agent, "settled").await?;
    agent.wait_for_result(&mode).await.map(drop)
}

#[tokio::test]
async fn a_prompt_is_answered_with_the_result_of_its_turn() -> Result<(), AgentTestError> {
    for (prompt, expected) in [
        ("end", "end_turn"),
        ("refuse", "refusal"),
        ("end twice", "end_turn"),
        ("fail", "The agent failed: an internal error occurred. Please report it"),
        ("panic", "The agent failed: something panicked"),
    ] {
        let mut agent = start(PermissionReply::NoReply).await?;
        let id = agent.send_prompt("s", prompt).await?;
        agent.wait_until(|client| client.response(&id).is_some()).await?;
        assert_eq!(outcome(&agent, &id), expected, "{prompt}");
    }
    Ok(())
}

#[tokio::test]
async fn a_cancelled_turn_is_answered_as_cancelled_for_any_result() -> Result<(), AgentTestError> {
    for (prompt, how) in [
        ("wait", "session/cancel"),
        ("wait", "$/cancel_request"),
        ("wait", "session/close"),
        ("ask", "session/cancel"),
        ("ask", "session/close"),
        ("ignore", "session/close"),
    ] {
        let mut agent = start(PermissionReply::NoReply).await?;
        let id = agent.send_prompt("s", prompt).await?;
        wait_until_processed(&mut agent).await?;
        match how {
            "session/close" => drop(agent.send_request(how, json!({ "sessionId": "s" })).await?),
            "$/cancel_request" => agent.notify(how, json!({ "requestId": id })).await?,
            _ => agent.cancel_and_send_deferred_replies("s").await?,
        }
        assert_eq!(agent.wait_for_stop_reason(&id).await?, "cancelled", "{prompt} {how}");
        agent.close_input_and_wait_for_exit().await?;
        assert_eq!(agent.client.violations_by(Side::Agent), []);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_blocks_its_thread_is_answered_before_it_ends() -> Result<(), AgentTestError> {
    let mut agent = start(PermissionReply::NoReply).await?;
    let begun = std::time::Instant::now();
    let prompt = agent.send_prompt("s", "block").await?;
    wait_until_processed(&mut agent).await?;
    agent.send_request_and_wait("session/close", json!({ "sessionId": "s" })).await?;
    assert_eq!(outcome(&agent, &prompt), "cancelled");
    assert!(begun.elapsed() < BLOCKING_TURN_TIME);
    Ok(())
}

#[tokio::test]
async fn turns_run_one_after_the_other_and_few_prompts_wait() -> Result<(), AgentTestError> {
    let mut agent = start(PermissionReply::NoReply).await?;
    let mut prompts = vec![agent.send_prompt("s", "wait").await?];
    for _ in 0..8 {
        prompts.push(agent.send_prompt("s", "say").await?);
    }
    let busy = agent.send_prompt("s", "say").await?;
    agent.wait_until(|client| client.response(&busy).is_some()).await?;
    assert!(outcome(&agent, &busy).starts_with("The limit of waiting prompts is 8;"));
    agent.notify("$/cancel_request", json!({ "requestId": prompts[8] })).await?;
    agent.wait_until(|client| client.response(&prompts[8]).is_some()).await?;
    assert_eq!(outcome(&agent, &prompts[8]), "The request was cancelled");
    assert_eq!(agent.client.session("s").message_text(), "");
    agent.notify("$/cancel_request", json!({ "requestId": prompts[0] })).await?;
    assert_eq!(agent.wait_for_stop_reason(&prompts[0]).await?, "cancelled");
    for prompt in &prompts[1..8] {
        assert_eq!(agent.wait_for_stop_reason(prompt).await?, "end_turn");
    }
    assert_eq!(agent.client.session("s").message_text(), "Agent ".repeat(7));
    agent.close_input_and_wait_for_exit().await?;
    assert_eq!(agent.client.violations_by(Side::Agent), []);
    Ok(())
}

#[tokio::test]
async fn the_number_of_waiting_prompts_can_be_set() -> Result<(), AgentTestError> {
    let changes: [(BuilderChange, usize); 3] = [
        (|builder| builder.with_max_waiting_prompts(0), 0),
        (|builder| builder.with_max_waiting_prompts(2), 2),
        (|builder| builder.with_max_waiting_prompts(usize::MAX), 64),
    ];
    for (change, waiting) in changes {
        let mut agent = start_with(PermissionReply::NoReply, change).await?;
        for _ in 0..=waiting {
            agent.send_prompt("s", "wait").await?;
        }
        let busy = agent.send_prompt("s", "wait").await?;
        agent.wait_until(|client| client.response(&busy).is_some()).await?;
        let limit = format!("The limit of waiting prompts is {waiting};");
        assert!(outcome(&agent, &busy).starts_with(&limit));
        agent.close_input_and_wait_for_exit().await?;
    }
    Ok(())
}

/// A waker that, when it is woken, blocks the thread until its channel has a message or is closed.
struct Gate(Mutex<mpsc::Receiver<()>>);

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        let _ = block_in_place(|| self.0.lock().unwrap().recv());
    }
}

/// Returns an agent that refuses prompts while a turn runs. After its response, the first turn is
/// cancelled, and this cancellation waits for the second prompt. The first turn is therefore
/// dropped only after the second prompt has arrived.
fn agent_with_late_drop() -> impl ConnectTo<Client> {
    let (sessions, (open, opened)) = (ClientSessions::default(), mpsc::channel());
    let (new, prompted, opened) = (sessions.clone(), sessions.clone(), Mutex::new(Some(opened)));
    sessions
        .agent_builder_with_cancel_close(Duration::from_secs(1))
        .on_receive_request(
            async |request: InitializeRequest, responder, _| {
                responder.respond(InitializeResponse::new(request.protocol_version))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, client| {
                let session = new.session_builder("s", Session::new(request.cwd), client);
                new.insert(session.with_max_waiting_prompts(0).open());
                responder.respond(NewSessionResponse::new("s"))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, _| {
                let gate = opened.lock().unwrap().take();
                let is_first = gate.is_some();
                let run_turn = async move |turn: Turn| {
                    if let Some(opened) = gate {
                        let waker = Waker::from(Arc::new(Gate(Mutex::new(opened))));
                        let mut cancelled = Box::pin(turn.cancel.cancelled_owned());
                        let poll = cancelled.as_mut().poll(&mut Context::from_waker(&waker));
                        assert!(poll.is_pending());
                        // Dropping the future would remove the waker.
                        std::mem::forget(cancelled);
                    }
                    Ok(StopReason::EndTurn)
                };
                prompted.queue_prompt_turn(&request.session_id, responder, run_turn)?;
                if !is_first {
                    let _ = open.send(());
                }
                Ok(())
            },
            on_receive_request!(),
        )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_leaves_room_for_the_next_prompt() -> Result<(), AgentTestError> {
    let mut agent = AgentUnderTest::in_process(agent_with_late_drop(), PermissionReply::NoReply);
    agent.initialize().await?;
    agent.new_session(&std::env::temp_dir()).await?;
    for prompt in ["first", "second"] {
        assert_eq!(agent.prompt_and_wait_for_stop("s", prompt).await?, "end_turn", "{prompt}");
    }
    agent.close_input_and_wait_for_exit().await.map(drop)
}

#[tokio::test]
async fn a_request_is_answered_after_its_changes_are_sent() -> Result<(), AgentTestError> {
    let mut agent = start(PermissionReply::NoReply).await?;
    let [kept, forgotten] =
        [send_mode(&mut agent, "keep").await?, send_mode(&mut agent, "forget").await?];
    let set = send_mode(&mut agent, "fast").await?;
    agent.wait_for_result(&set).await?;
    assert_eq!(outcome(&agent, &forgotten), "The agent failed: something panicked");
    let (lines, answer) = (agent.client.transcript(), format!("\"id\":{set},\"result\""));
    let update = lines.find("current_mode_update");
    assert!(update < lines.find(&answer) && update.is_some(), "{lines}");
    assert_eq!(outcome(&agent, &kept), "nothing");
    agent.send_request_and_wait("session/close", json!({ "sessionId": "s" })).await?;
    assert_eq!(outcome(&agent, &kept), "The session is closing; open another one");
    for late in [send_mode(&mut agent, "fast").await?, agent.send_prompt("s", "end").await?] {
        agent.wait_until(|client| client.response(&late).is_some()).await?;
        assert_eq!(outcome(&agent, &late), "The session is closing; open another one");
    }
    Ok(())
}

/// The actions of the client. An action sends a prompt, makes the agent do something, or cancels or
/// closes something.
const STEPS: [&str; 9] =
    ["end", "wait", "ignore", "ask", "mode keep", "mode drop", "cancel", "withdraw", "close"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_once_in_any_order() {
    let count = STEPS.len();
    let all = (0..count.pow(3)).map(|number| {
        [number % count, number / count % count, number / count.pow(2)].map(|step| STEPS[step])
    });
    stream::iter(all)
        .for_each_concurrent(32, async |steps| {
            if let Err(error) = run_steps(steps).await {
                panic!("{steps:?}: {error}");
            }
        })
        .await;
}

/// Performs these steps as fast as the agent reads them, and closes its input.
async fn run_steps(steps: [&str; 3]) -> Result<(), AgentTestError> {
    let mut agent = start(PermissionReply::NoReply).await?;
    let mut requests = Vec::new();
    for step in steps {
        match (step, step.strip_prefix("mode ")) {
            (_, Some(mode)) => requests.push(send_mode(&mut agent, mode).await?),
            ("cancel", _) => agent.cancel_and_send_deferred_replies("s").await?,
            ("withdraw", _) => {
                let params = json!({ "requestId": requests.last() });
                agent.notify("$/cancel_request", params).await?;
            }
            ("close", _) => {
                requests
                    .push(agent.send_request("session/close", json!({ "sessionId": "s" })).await?);
            }
            (prompt, _) => requests.push(agent.send_prompt("s", prompt).await?),
        }
    }
    // A dropped session answers its requests itself, but the end of the connection does not wait
    // for these answers. So wait for the answers before the input is closed.
    if steps.contains(&"mode drop") {
        agent.wait_until(|client| requests.iter().all(|it| client.response(it).is_some())).await?;
    }
    agent.close_input_and_wait_for_exit().await?;
    for request in &requests {
        assert_ne!(outcome(&agent, request), "nothing", "{steps:?}: {request}");
    }
    // Two rule violations are caused by the client itself: a prompt after a close, and a cancel
    // that is sent before the client receives the answer.
    let crossed = |rule| match rule {
        ConformanceRule::AfterClose | ConformanceRule::NotCancelled => true,
        ConformanceRule::PromptOrder => steps.contains(&"close"),
        _ => false,
    };
    let mut faults = agent.client.violations_by(Side::Agent);
    faults.retain(|fault| !crossed(fault.rule));
    assert_eq!(faults, [], "{steps:?}");
    Ok(())
}
