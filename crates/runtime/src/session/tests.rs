//! Tests of sessions in this process: how they open, and the calls of their slash commands.

mod late_writes;
mod meta_key;
mod permission_requests;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;

use acp_lifecycle::rules::{RuleChange, RuleStoreError};
use acp_lifecycle::{
    AllowInProjectPolicy, Effect, Effects, Grant, PinnedPlan, Policy, ReadOnlyPolicy, Rule,
    RuleStore, Titles,
};
use acp_tools::{
    CallDescription, Invocation, Registry, SideEffects, Spec, Tool, ToolError, ToolOutput,
    ToolPreview, ToolRole,
};
use acp_types::schema::v1::ToolCallStatus;
use acp_types::{Content, ToolKind};
use agent_client_protocol::v1::schema::{AuthMethod, AuthMethodAgent, ClientCapabilities};
use callboard_models::direct::DirectModel;
use callboard_models::{
    Model, ModelCapabilities, ModelEvent, ModelRequest, ModelSpecError, ReplyStream,
};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use pretty_assertions::assert_eq;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::task::yield_now;

use super::*;
use crate::authenticator::Authenticator;
use crate::model_catalogue::{ModelCatalogue, ModelChoice};
use acp_conformance::{
    AgentTestError, AgentUnderTest, ClientBehaviour, PermissionReply as Answer, call_text,
};

/// An undo tool that undoes nothing; after a cancel, its call ends only after a while.
#[derive(Debug)]
struct FakeUndoTool {
    log: Arc<Mutex<Vec<&'static str>>>,
}

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Text in the title of the call.
    why: Option<String>,
}

impl Tool for FakeUndoTool {
    type Args = Args;
    type Plan = ();

    fn spec(&self) -> Spec {
        Spec::new("undo", "Takes its time.", ToolKind::Edit).with_side_effects(SideEffects::Changes)
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::Undo)
    }

    fn describe(&self, args: &Args, _: &Context) -> CallDescription {
        CallDescription::new("undo").with_argument("why", args.why.as_deref().unwrap_or_default())
    }

    async fn preview(
        &self,
        _: Args,
        invocation: Invocation<'_>,
    ) -> std::result::Result<ToolPreview<()>, ToolError> {
        let effects = Effects::from(Effect::Write(invocation.context.workspace.cwd().join("file")));
        Ok(ToolPreview::new(()).with_effects(effects))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<()>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> std::result::Result<ToolOutput, ToolError> {
        pinned.release(grant)?;
        self.log.lock().unwrap().push("begin");
        invocation.call.append_content(Content::from_text("begun"));
        invocation.call.cancel_token().cancelled().await;
        for _ in 0..1000 {
            yield_now().await;
        }
        self.log.lock().unwrap().push("end");
        Ok(ToolOutput::new("It is undone."))
    }
}

/// Starts an agent with `FakeUndoTool` as its only tool; also returns the log of the tool's calls.
async fn start(
    behaviour: impl Into<ClientBehaviour>,
) -> (AgentUnderTest, String, Arc<Mutex<Vec<&'static str>>>) {
    start_with(behaviour, |agent| agent).await
}

/// Starts an agent with `FakeUndoTool` as its only tool, after `change` has modified the agent.
async fn start_with(
    behaviour: impl Into<ClientBehaviour>,
    change: impl FnOnce(crate::agent::CodingAgent) -> crate::agent::CodingAgent,
) -> (AgentUnderTest, String, Arc<Mutex<Vec<&'static str>>>) {
    let log = Arc::<Mutex<Vec<&'static str>>>::default();
    let titles = Titles::parse("en", "undo = Undo { $why }\nundo-pending = Undo\n").unwrap();
    let mut registry = Registry::new(titles);
    registry.add(FakeUndoTool { log: log.clone() });
    let agent =
        crate::agent::CodingAgent::new(Arc::new(DirectModel::default()), std::iter::empty());
    let mut agent = AgentUnderTest::in_process(change(agent.with_tools(registry)), behaviour);
    agent.initialize().await.unwrap();
    let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
    (agent, session, log)
}

#[tokio::test]
async fn a_call_of_a_cancelled_command_ends_before_its_turn_and_before_the_next_one() {
    let (mut agent, session, log) = start(Answer::default()).await;
    let first = agent.send_prompt(&session, "/undo").await.unwrap();
    agent.wait_until(|client| client.session(&session).any_call_shows_line("begun")).await.unwrap();
    let second = agent.send_prompt(&session, "/undo").await.unwrap();
    agent.notify("$/cancel_request", json!({ "requestId": first })).await.unwrap();
    assert_eq!(agent.wait_for_stop_reason(&first).await.unwrap(), "cancelled");
    assert_eq!(agent.client.session(&session).message_text(), "It is undone.");
    let has_begun = |client: &acp_conformance::TestClient| {
        client.session(&session).calls().get(1).is_some_and(|call| call_text(call) == "begun")
    };
    agent.wait_until(has_begun).await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["begin", "end", "begin"]);
    agent.cancel_and_send_deferred_replies(&session).await.unwrap();
    assert_eq!(agent.wait_for_stop_reason(&second).await.unwrap(), "cancelled");
    let statuses = agent.client.session(&session).calls();
    let statuses: Vec<_> = statuses.iter().map(|call| call.status).collect();
    assert_eq!(statuses, [ToolCallStatus::Completed; 2], "what was done was done");
}

#[tokio::test]
async fn a_command_that_is_cancelled_while_it_asks_says_that_nothing_was_done() {
    let (mut agent, session, log) = start(Answer::NoReply).await;
    let prompt = agent.send_prompt(&session, "/undo").await.unwrap();
    agent.wait_until(|client| !client.permission_requests.is_empty()).await.unwrap();
    agent.cancel_and_send_deferred_replies(&session).await.unwrap();
    assert_eq!(agent.wait_for_stop_reason(&prompt).await.unwrap(), "cancelled");
    let call = agent.client.session(&session).only_call_of_tool("undo").unwrap();
    let error = "Cancelled with its turn. It did not run.";
    assert_eq!(call.raw_output, Some(json!({"error": error, "code": "cancelled"})));
    assert_eq!(agent.client.session(&session).message_text(), error);
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_embedders_policy_decides_in_the_place_of_every_mode() {
    let policies: [(Arc<dyn Policy>, _); 2] =
        [(Arc::new(AllowInProjectPolicy), &["begin", "end"][..]), (Arc::new(ReadOnlyPolicy), &[])];
    for (policy, expected) in policies {
        // The client never answers permission requests.
        let (mut agent, session, log) =
            start_with(Answer::NoReply, |agent| agent.with_policy(policy)).await;
        assert_eq!(agent.client.session(&session).current_mode(), None);
        let prompt = agent.send_prompt(&session, "/undo").await.unwrap();
        if !expected.is_empty() {
            agent
                .wait_until(|client| client.session(&session).any_call_shows_line("begun"))
                .await
                .unwrap();
            agent.cancel_and_send_deferred_replies(&session).await.unwrap();
        }
        agent.wait_for_stop_reason(&prompt).await.unwrap();
        assert_eq!((&**log.lock().unwrap(), agent.client.permission_requests.len()), (expected, 0));
    }
}

/// A rule store on a disk that hangs for at most 5 s.
#[derive(Debug)]
struct HangingRuleStore(Mutex<mpsc::Receiver<()>>);

impl RuleStore for HangingRuleStore {
    fn load(&self, _: &Path) -> std::result::Result<Vec<Rule>, RuleStoreError> {
        self.0.lock().unwrap().recv_timeout(Duration::from_secs(5)).unwrap_or(());
        Ok(Vec::new())
    }

    fn save_rule_changes(
        &self,
        _: &Path,
        _: &[RuleChange],
    ) -> std::result::Result<(), RuleStoreError> {
        Ok(())
    }
}

/// An authenticator that accepts every login with its single method.
#[derive(Debug)]
struct FakeAuthenticator;

impl Authenticator for FakeAuthenticator {
    fn methods(&self, _: &ClientCapabilities) -> Vec<AuthMethod> {
        vec![AuthMethod::Agent(AuthMethodAgent::new("setup", "Set up"))]
    }

    fn authenticate(&self, method: &str) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Ok(method == "setup")))
    }

    fn logout(&self) -> BoxFuture<'_, std::result::Result<(), String>> {
        Box::pin(std::future::ready(Err("the keyring is locked".to_owned())))
    }
}

#[tokio::test]
async fn only_methods_that_are_offered_log_in_and_each_request_is_answered() {
    let agent =
        crate::agent::CodingAgent::new(Arc::new(DirectModel::default()), std::iter::empty());
    for (agent, offered, methods) in [
        (agent.clone(), json!([]), &[("setup", false), ("", false)]),
        (
            agent.with_authenticator(Arc::new(FakeAuthenticator)),
            json!([{ "id": "setup", "name": "Set up" }]),
            &[("setup", true), ("other", false)],
        ),
    ] {
        let mut agent = AgentUnderTest::in_process(agent, Answer::default());
        let answer = agent.initialize().await.unwrap();
        assert_eq!(answer["authMethods"], offered);
        let can_log_out = &answer["agentCapabilities"]["auth"]["logout"];
        assert_eq!(can_log_out.is_object(), offered != json!([]), "{answer}");
        for (method, works) in methods {
            let answer =
                agent.send_request_and_wait("authenticate", json!({ "methodId": method })).await;
            assert_eq!(answer.is_ok(), *works, "{method}");
        }
        let answer = agent.send_request_and_wait("logout", json!({})).await;
        assert_eq!(answer.is_ok(), offered == json!([]), "{answer:?}");
    }
}

/// Requests a session whose rule store hangs until the returned sender is used. Returns the agent,
/// the request and the sender.
async fn request_hanging_session() -> (AgentUnderTest, serde_json::Value, mpsc::Sender<()>) {
    let (open, gate) = mpsc::channel();
    let agent =
        crate::agent::CodingAgent::new(Arc::new(DirectModel::default()), std::iter::empty());
    let agent = agent.with_rule_store(Some(Arc::new(HangingRuleStore(Mutex::new(gate)))));
    let agent = agent.with_authenticator(Arc::new(FakeAuthenticator));
    let mut agent = AgentUnderTest::in_process(agent, Answer::default());
    agent.initialize().await.unwrap();
    let params = json!({"cwd": std::env::temp_dir(), "mcpServers": []});
    let new = agent.send_request("session/new", params).await.unwrap();
    (agent, new, open)
}

#[tokio::test]
async fn a_session_whose_files_hang_holds_up_nobody() {
    let (mut agent, new, open) = request_hanging_session().await;
    agent.send_request_and_wait("authenticate", json!({"methodId": "setup"})).await.unwrap();
    assert!(agent.client.response(&new).is_none());
    open.send(()).unwrap();
    let answer = agent.wait_for_result(&new).await.unwrap();
    let session = answer["sessionId"].as_str().unwrap();
    assert_eq!(
        agent.prompt_and_wait_for_stop(session, "think it is there").await.unwrap(),
        "end_turn"
    );
}

#[tokio::test]
async fn a_session_is_answered_that_was_asked_for_before_the_end_of_input() {
    let (mut agent, new, open) = request_hanging_session().await;
    // Other requests are served while the session is being opened.
    agent.send_request_and_wait("authenticate", json!({"methodId": "setup"})).await.unwrap();
    agent.close_input();
    let ended =
        tokio::time::timeout(Duration::from_millis(50), agent.drain_and_wait_for_exit()).await;
    assert!(ended.is_err(), "it does not wait");
    open.send(()).unwrap();
    agent.drain_and_wait_for_exit().await.unwrap();
    assert!(matches!(agent.client.response(&new), Some(Ok(_))), "{:?}", agent.client);
}

#[tokio::test]
async fn openings_that_hang_are_bounded_and_hold_up_nobody() {
    let (mut agent, first, open) = request_hanging_session().await;
    let params = json!({"cwd": std::env::temp_dir(), "mcpServers": []});
    let others =
        agent.send_request_many_times(limits::MAX_SESSIONS, "session/new", &params).await.unwrap();
    let (last, others) = others.split_last().unwrap();
    let Err(AgentTestError::ErrorResponse(error)) = agent.wait_for_result(last).await else {
        panic!("it is opened")
    };
    assert_eq!(error["data"]["reason"], "busy");
    assert!(others.iter().all(|id| agent.client.response(id).is_none()));
    // The disk responds again.
    drop(open);
    for id in std::iter::once(&first).chain(others) {
        agent.wait_for_result(id).await.unwrap();
    }
}

/// A model that replies with one word, and whose method `name` panics if the flag is set.
#[derive(Debug, Default)]
struct PanickingModel(AtomicBool);

impl Model for PanickingModel {
    fn name(&self) -> &str {
        assert!(!self.0.load(Relaxed), "it has no name");
        "nameless"
    }

    fn reply(&self, _: ModelRequest) -> ReplyStream {
        let word = futures::stream::iter([ModelEvent::Text("Hm".to_owned())]);
        Box::pin(word.chain(futures::stream::pending()))
    }
}

#[tokio::test]
async fn after_a_panic_outside_of_a_turn_every_prompt_is_answered_in_order() {
    let model = Arc::new(PanickingModel::default());
    let agent = crate::agent::CodingAgent::new(model.clone(), std::iter::empty());
    let mut agent = AgentUnderTest::in_process(agent, Answer::default());
    agent.initialize().await.unwrap();
    let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
    let mut prompts = vec![agent.send_prompt(&session, "a").await.unwrap()];
    agent.wait_until(|client| client.session(&session).message_text() == "Hm").await.unwrap();
    for _ in 1..limits::MAX_WAITING_PROMPTS {
        prompts.push(agent.send_prompt(&session, "b").await.unwrap());
    }
    model.0.store(true, Relaxed);
    agent.cancel_and_send_deferred_replies(&session).await.unwrap();
    for prompt in &prompts {
        assert_eq!(agent.wait_for_stop_reason(prompt).await.unwrap(), "cancelled");
    }
    let transcript = agent.client.transcript();
    let answer =
        |prompt: &serde_json::Value| transcript.find(&format!("\"id\":{prompt},\"result\""));
    let places: Vec<_> = prompts.iter().map(answer).collect();
    assert!(places[0].is_some() && places.is_sorted(), "{places:?}\n{transcript}");
    agent.send_request_and_wait("session/close", json!({ "sessionId": session })).await.unwrap();
}

/// A catalogue that opens its only model when a message is sent. The method `name` of this model
/// panics.
#[derive(Debug)]
struct HangingCatalogue(Mutex<mpsc::Receiver<()>>);

impl ModelCatalogue for HangingCatalogue {
    fn list(&self) -> Vec<ModelChoice> {
        vec![ModelChoice { value: "nameless".to_owned(), name: "N".to_owned(), description: None }]
    }

    fn open_model(&self, _: &str) -> std::result::Result<Arc<dyn Model>, ModelSpecError> {
        self.0.lock().unwrap().recv().unwrap_or(());
        Ok(Arc::new(PanickingModel(true.into())))
    }
}

/// Selects the model of `HangingCatalogue`. Returns the agent, the session, the request, and the
/// sender that lets the catalogue open the model.
async fn request_hanging_model() -> (AgentUnderTest, String, serde_json::Value, mpsc::Sender<()>) {
    let (open, gate) = mpsc::channel();
    let agent =
        crate::agent::CodingAgent::new(Arc::new(DirectModel::default()), std::iter::empty());
    let agent = agent.with_catalogue(Arc::new(HangingCatalogue(Mutex::new(gate))));
    let mut agent = AgentUnderTest::in_process(agent, Answer::default());
    agent.initialize().await.unwrap();
    let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
    let params = json!({ "sessionId": session, "configId": "model", "value": "nameless" });
    let set = agent.send_request("session/set_config_option", params).await.unwrap();
    (agent, session, set, open)
}

#[tokio::test]
async fn a_change_of_the_model_that_hangs_is_answered_when_its_session_closes() {
    let (mut agent, session, set, open) = request_hanging_model().await;
    agent.send_request_and_wait("session/close", json!({ "sessionId": session })).await.unwrap();
    let Err(AgentTestError::ErrorResponse(error)) = agent.wait_for_result(&set).await else {
        panic!("it is set")
    };
    assert_eq!(error["message"], errors::session_closing_error().message);
    drop(open);
}

#[tokio::test]
async fn a_change_of_the_model_that_panics_is_answered() {
    let (mut agent, _, set, open) = request_hanging_model().await;
    open.send(()).unwrap();
    let Err(AgentTestError::ErrorResponse(error)) = agent.wait_for_result(&set).await else {
        panic!("it is set")
    };
    assert_eq!(error["message"], errors::internal_error("something panicked").message);
}

#[tokio::test]
async fn sessions_have_the_settings_of_their_agent() {
    for bytes in [usize::MAX, 0] {
        let config = SessionConfig::default().with_max_content_bytes(bytes);
        let (mut agent, session, log) =
            start_with(Answer::default(), |agent| agent.with_session_config(config)).await;
        let prompt = agent.send_prompt(&session, "/undo").await.unwrap();
        let ran = |client: &acp_conformance::TestClient| {
            let calls = client.session(&session).calls();
            calls.first().is_some_and(|call| call.status == ToolCallStatus::InProgress)
        };
        agent.wait_until(ran).await.unwrap();
        while log.lock().unwrap().is_empty() {
            yield_now().await;
        }
        agent.cancel_and_send_deferred_replies(&session).await.unwrap();
        agent.wait_for_stop_reason(&prompt).await.unwrap();
        assert_eq!(agent.client.session(&session).any_call_shows_line("begun"), bytes > 0);
    }
}

/// A model, or a catalogue, with the given capabilities.
#[derive(Debug)]
struct Taking(ModelCapabilities);

impl Model for Taking {
    fn name(&self) -> &'static str {
        "taking"
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.0
    }

    fn reply(&self, _: ModelRequest) -> ReplyStream {
        futures::stream::empty().boxed()
    }
}

impl ModelCatalogue for Taking {
    fn list(&self) -> Vec<ModelChoice> {
        Vec::new()
    }

    fn open_model(&self, name: &str) -> std::result::Result<Arc<dyn Model>, ModelSpecError> {
        Err(ModelSpecError::Unknown { spec: name.to_owned() })
    }

    fn combined_capabilities(&self) -> ModelCapabilities {
        self.0
    }
}

#[tokio::test]
async fn clients_may_send_what_one_of_the_models_takes() {
    let (text, images) = (ModelCapabilities::new(), ModelCapabilities::new().with_images());
    for (model, catalogue, image, audio) in [
        (text, None, false, false),
        (images, None, true, false),
        (text, Some(images), true, false),
        (images, Some(text.with_audio()), true, true),
    ] {
        let agent = crate::agent::CodingAgent::new(Arc::new(Taking(model)), std::iter::empty());
        let agent = match catalogue {
            Some(catalogue) => agent.with_catalogue(Arc::new(Taking(catalogue))),
            None => agent,
        };
        let answer =
            AgentUnderTest::in_process(agent, Answer::default()).initialize().await.unwrap();
        let expected = json!({ "image": image, "audio": audio, "embeddedContext": true });
        assert_eq!(answer["agentCapabilities"]["promptCapabilities"], expected);
    }
}

#[tokio::test]
async fn undo_is_offered_only_with_a_folder_for_it() {
    let state = tempfile::tempdir().unwrap();
    for folder in [None, Some(state.path().to_owned())] {
        let is_kept = folder.is_some();
        let agent =
            crate::agent::CodingAgent::new(Arc::new(DirectModel::default()), std::iter::empty());
        let agent = match folder {
            Some(folder) => agent.with_state_folder(folder),
            None => agent,
        };
        let mut agent = AgentUnderTest::in_process(agent, Answer::default());
        agent.initialize().await.unwrap();
        let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
        agent.prompt_and_wait_for_stop(&session, "/help").await.unwrap();
        let menu = agent.client.transcript();
        assert_eq!(menu.contains(r#""name":"undo""#), is_kept, "{menu}");
        assert!(menu.contains(r#""name":"usage""#), "{menu}");
    }
}
