//! The model, the mode and the thought level of a session, changed between two turns and within a
//! turn.

use std::sync::{Arc, Mutex};

use acp_conformance::Side;
use acp_types::schema::v1::{PermissionOptionKind, SessionUpdate, ToolCallStatus};
use callboard_models::mock_server::{Dialect, MockReply as Scripted, ModelServer, RecordedRequest};
use callboard_models::{
    ModelCapabilities, ModelEvent, ModelRequest, ModelSpecError, ModelStopReason, ReplyStream,
    TokenUsage,
};
use callboard_runtime::{ModelCatalogue, ModelChoice, SlashCommand};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::script::{Model, call, end, run, text};
use crate::harness::{Agent, JsonRpcResult, Options, PermissionReply};

const REJECT: PermissionReply = PermissionReply::Select(PermissionOptionKind::RejectOnce);

async fn set_mode(agent: &mut Agent, mode: &str) -> JsonRpcResult {
    let params = json!({"sessionId": agent.session_id(), "modeId": mode});
    agent.request("session/set_mode", params).await
}

async fn set_option(agent: &mut Agent, option: &str, value: &str) -> JsonRpcResult {
    let params = json!({"sessionId": agent.session_id(), "configId": option, "value": value});
    agent.request("session/set_config_option", params).await
}

/// Runs a turn, and returns the text of the agent's message.
async fn prompt_and_reply(agent: &mut Agent, prompt: &str) -> String {
    let before = agent.session().message_text().len();
    assert_eq!(agent.turn(prompt).await, "end_turn");
    agent.session().message_text()[before..].to_owned()
}

/// Returns the current mode. Asserts that the session mode and the option `mode` have the same
/// value.
fn mode(agent: &Agent) -> String {
    let session = agent.session();
    assert_eq!(session.current_mode(), session.option_value("mode"));
    session.current_mode().expect("a mode").to_owned()
}

fn count(agent: &Agent, is: impl Fn(&SessionUpdate) -> bool) -> usize {
    agent.session().updates.iter().filter(|update| is(update)).count()
}

fn commands(agent: &Agent) -> Vec<String> {
    let commands = agent.session().updates.iter().rev().find_map(|update| match update {
        SessionUpdate::AvailableCommandsUpdate(update) => Some(&update.available_commands),
        _ => None,
    });
    commands.expect("commands").iter().map(|command| command.name.clone()).collect()
}

#[tokio::test]
async fn a_session_begins_with_modes_and_options() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    assert_eq!(mode(&agent), "ask");
    assert_eq!(agent.session().option_value("model"), Some("direct"));
    assert_eq!(agent.session().option_value("thought_level"), None);
    agent.finish().await;
}

#[tokio::test]
async fn a_mode_change_updates_the_session_mode_and_the_option() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    assert_eq!(set_mode(&mut agent, "accept-edits").await, Ok(json!({})));
    agent
        .until(|client| !client.sessions().all(|(_, it)| it.option_value("mode") == Some("ask")))
        .await;
    assert_eq!(mode(&agent), "accept-edits");
    let answer = set_option(&mut agent, "mode", "auto").await.unwrap();
    assert_eq!(answer["configOptions"].as_array().map(Vec::len), Some(3), "the whole list");
    assert_eq!(mode(&agent), "auto");
    // The agent sends no update about a change if the client's request already named the new value.
    let is_mode = |update: &SessionUpdate| matches!(update, SessionUpdate::CurrentModeUpdate(_));
    let is_option = |update: &SessionUpdate| matches!(update, SessionUpdate::ConfigOptionUpdate(_));
    assert_eq!((count(&agent, is_mode), count(&agent, is_option)), (1, 1));
    agent.finish().await;
}

#[tokio::test]
async fn a_value_that_is_not_offered_is_refused_with_an_explanation() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    let session = agent.session_id();
    let mut errors = vec![set_mode(&mut agent, "yolo").await.unwrap_err()];
    for (option, value) in [("mode", "allow"), ("model", "gpt"), ("colour", "red")] {
        errors.push(set_option(&mut agent, option, value).await.unwrap_err());
    }
    let params =
        json!({"sessionId": session, "configId": "mode", "type": "boolean", "value": true});
    errors.push(agent.request("session/set_config_option", params).await.unwrap_err());
    let params = json!({"sessionId": "sess_none", "modeId": "ask"});
    let error = agent.request_unchecked("session/set_mode", params).await.unwrap_err();
    errors.push(error);
    insta::assert_snapshot!(errors.iter().map(|it| format!("{it}\n")).collect::<String>());
    assert_eq!(mode(&agent), "ask");
    agent.finish().await;
}

#[tokio::test]
async fn each_mode_allows_asks_and_denies_the_expected_calls() {
    let edit = "edit notes.txt\n<<<\ntwo\n===\n2\n>>>";
    let protected = "write .git/config\n<<<\nx\n>>>";
    let prompts = ["read notes.txt", edit, protected, "run true"];
    for (mode, asked, completed) in [
        ("read-only", [0, 0, 0, 0], [true, false, false, false]),
        ("ask-always", [1, 1, 1, 1], [false, false, false, false]),
        ("ask", [0, 1, 1, 1], [true, false, false, false]),
        ("accept-edits", [0, 0, 1, 1], [true, true, false, false]),
        // In every mode that can ask, a change of a file with a protected name needs permission.
        ("auto", [0, 0, 1, 0], [true, true, false, true]),
    ] {
        let mut agent = Agent::ready(Model::Direct, REJECT).await;
        set_mode(&mut agent, mode).await.unwrap();
        for (index, prompt) in prompts.iter().enumerate() {
            let before = agent.client.permission_requests.len();
            agent.turn(prompt).await;
            assert_eq!(
                agent.client.permission_requests.len() - before,
                asked[index],
                "{mode}: {prompt}"
            );
            let status = agent.session().calls()[index].status;
            let is_completed = status == ToolCallStatus::Completed;
            assert_eq!(is_completed, completed[index], "{mode}: {prompt}");
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_rule_that_denies_wins_in_every_mode() {
    let mut agent = Agent::ready(Model::Direct, PermissionReply::SelectId("reject_always")).await;
    agent.turn("run touch made").await;
    for mode in ["accept-edits", "auto", "ask-always"] {
        set_mode(&mut agent, mode).await.unwrap();
        agent.turn("run touch made").await;
    }
    assert_eq!(agent.client.permission_requests.len(), 1);
    assert!(!agent.scratch.path("made").exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_mode_set_during_a_turn_applies_to_its_next_calls() {
    let script = [
        run("touch first"),
        end(),
        run("touch second"),
        end(),
        json!({"delay_ms": 1}),
        text("Done."),
    ];
    let mut agent = Agent::ready(script, PermissionReply::NoReply).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| client.permission_requests.len() == 1).await;
    set_mode(&mut agent, "auto").await.unwrap();
    // The new mode does not answer the open permission request. The calls after it need no
    // permission.
    agent.permit(0, PermissionReply::Select(PermissionOptionKind::AllowOnce)).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert_eq!(agent.client.permission_requests.len(), 1);
    assert!(agent.scratch.path("first").exists() && agent.scratch.path("second").exists());
    agent.finish().await;
}

#[tokio::test]
async fn an_allowed_call_does_not_run_if_the_mode_denies_it_by_then() {
    let mut agent = Agent::ready([run("touch made"), end()], PermissionReply::NoReply).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| client.permission_requests.len() == 1).await;
    set_mode(&mut agent, "read-only").await.unwrap();
    agent.permit(0, PermissionReply::Select(PermissionOptionKind::AllowOnce)).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert!(!agent.scratch.path("made").exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_new_model_answers_the_next_prompt_and_replaces_the_commands() {
    let mut agent = Agent::ready([text("One."), end(), text("Two."), end()], REJECT).await;
    let script = agent.session().option_value("model").unwrap().to_owned();
    assert!(script.starts_with("script:"), "{script}");
    assert_eq!(prompt_and_reply(&mut agent, "go").await, "One.");
    assert!(!commands(&agent).contains(&"read".to_owned()));

    assert!(set_option(&mut agent, "model", "direct").await.is_ok());
    assert_eq!(prompt_and_reply(&mut agent, "read notes.txt").await, "Done: 1 call.");
    assert!(commands(&agent).contains(&"read".to_owned()));
    assert_eq!(commands(&agent).iter().filter(|name| *name == "help").count(), 1);

    // The agent still offers the script, because the session has used it. A selected script starts
    // from its beginning.
    assert!(set_option(&mut agent, "model", &script).await.is_ok());
    assert_eq!(agent.session().option_value("model"), Some(&*script));
    assert_eq!(prompt_and_reply(&mut agent, "go").await, "One.");
    assert!(!commands(&agent).contains(&"read".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn a_new_model_continues_the_turn() {
    let script = [call("think", json!({"thought": "Hm."})), run("true"), end(), text("Never.")];
    let mut agent = Agent::ready(script, PermissionReply::NoReply).await;
    let prompt = agent.prompt("say it").await;
    agent.until(|client| client.permission_requests.len() == 1).await;
    assert!(set_option(&mut agent, "model", "direct").await.is_ok());
    agent.permit(0, PermissionReply::Select(PermissionOptionKind::AllowOnce)).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert!(
        agent.session().message_text().contains("One command a line"),
        "{}",
        agent.session().message_text()
    );
    agent.finish().await;
}

#[tokio::test]
async fn a_model_that_can_no_longer_be_opened_is_refused_and_the_old_one_stays() {
    let mut agent = Agent::ready([text("One."), end()], REJECT).await;
    let script = agent.session().option_value("model").unwrap().to_owned();
    assert!(set_option(&mut agent, "model", "direct").await.is_ok());
    std::fs::remove_file(script.trim_start_matches("script:")).unwrap();
    let error = set_option(&mut agent, "model", &script).await.unwrap_err();
    assert_eq!(error["code"], -32602);
    assert!(error["message"].as_str().unwrap().to_lowercase().contains("cannot read"), "{error}");
    assert_eq!(agent.session().option_value("model"), Some("direct"));
    assert_eq!(prompt_and_reply(&mut agent, "read notes.txt").await, "Done: 1 call.");
    agent.finish().await;
}

/// A model that records its requests and replies with its name. The model supports thought levels
/// if its name is `deep`.
#[derive(Debug)]
struct RecordingModel {
    name: &'static str,
    requests: Arc<Mutex<Vec<String>>>,
}

impl callboard_models::Model for RecordingModel {
    fn name(&self) -> &str {
        self.name
    }

    fn capabilities(&self) -> ModelCapabilities {
        if self.name == "deep" {
            ModelCapabilities::new().with_adjustable_effort()
        } else {
            ModelCapabilities::new()
        }
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let record = format!("{} {} {:?}", self.name, request.index, request.effort);
        self.requests.lock().unwrap().push(record);
        let mut usage = TokenUsage::default();
        usage.input_tokens = Some(10);
        usage.output_tokens = Some(2);
        let usage = ModelEvent::Usage(usage);
        let events = [
            ModelEvent::Text(self.name.to_owned()),
            usage,
            ModelEvent::Stop(ModelStopReason::EndTurn),
        ];
        Box::pin(futures::stream::iter(events))
    }
}

#[derive(Debug)]
struct TwoModelCatalogue(Arc<Mutex<Vec<String>>>);

impl ModelCatalogue for TwoModelCatalogue {
    fn list(&self) -> Vec<ModelChoice> {
        ["deep", "flat"].map(|name| ModelChoice::new(name, name)).into()
    }

    fn open_model(&self, name: &str) -> Result<Arc<dyn callboard_models::Model>, ModelSpecError> {
        let name = if name == "deep" { "deep" } else { "flat" };
        Ok(Arc::new(RecordingModel { name, requests: self.0.clone() }))
    }
}

#[tokio::test]
async fn a_thought_level_is_sent_only_to_models_that_support_it() {
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let catalogue = Arc::new(TwoModelCatalogue(requests.clone()));
    let agent = callboard_runtime::CodingAgent::new(
        catalogue.open_model("deep").unwrap(),
        std::iter::empty(),
    )
    .with_catalogue(catalogue);
    let mut agent = acp_conformance::AgentUnderTest::in_process(agent, REJECT);
    agent.initialize().await.unwrap();
    let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
    let level = |agent: &acp_conformance::AgentUnderTest| {
        agent.client.session(&session).option_value("thought_level").map(str::to_owned)
    };
    assert_eq!(level(&agent).as_deref(), Some("default"));
    agent.prompt_and_wait_for_stop(&session, "one").await.unwrap();
    let set = |option: &str, value: &str| json!({"sessionId": session, "configId": option, "value": value});
    agent
        .send_request_and_wait("session/set_config_option", set("thought_level", "high"))
        .await
        .unwrap();
    agent.prompt_and_wait_for_stop(&session, "two").await.unwrap();
    agent.send_request_and_wait("session/set_config_option", set("model", "flat")).await.unwrap();
    assert_eq!(level(&agent), None);
    agent
        .send_request_and_wait("session/set_config_option", set("thought_level", "low"))
        .await
        .unwrap_err();
    agent.prompt_and_wait_for_stop(&session, "three").await.unwrap();
    agent.prompt_and_wait_for_stop(&session, "/model deep").await.unwrap();
    assert_eq!(level(&agent).as_deref(), Some("high"), "kept for models that can be told");
    agent.prompt_and_wait_for_stop(&session, "/effort off").await.unwrap();
    assert_eq!(level(&agent).as_deref(), Some("off"));
    agent.prompt_and_wait_for_stop(&session, "four").await.unwrap();
    let expected = ["deep 0 None", "deep 1 Some(High)", "flat 0 None", "deep 0 Some(Off)"];
    assert_eq!(*requests.lock().unwrap(), expected);
    agent.prompt_and_wait_for_stop(&session, "/usage").await.unwrap();
    let said = agent.client.session(&session).message_text();
    // The totals of `/usage` include the requests to all models.
    assert!(said.contains("Tokens: 40 in (0 of them from a cache), 8 out"), "{said}");
    agent.close_input_and_wait_for_exit().await.unwrap();
    assert_eq!(agent.client.violations_by(Side::Agent), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_provider_receives_the_history_and_has_its_own_thought_level() {
    let replies = ["One.", "Two.", "Three."].map(|text| Scripted::new().with_text(text).into());
    let server = ModelServer::start(replies).await.unwrap();
    let (anthropic, openai) =
        (server.base_url(Dialect::Anthropic), server.base_url(Dialect::OpenAiChat));
    let env = [
        ("ANTHROPIC_API_KEY", "sk-one"),
        ("ANTHROPIC_BASE_URL", &*anthropic),
        ("OPENAI_API_KEY", "sk-two"),
        ("OPENAI_BASE_URL", &*openai),
    ];
    let args = ["acp", "--model", "anthropic/claude-haiku-4-5"];
    let mut agent = Agent::start_in(Scratch::new(), &args, &env, REJECT);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_eq!(agent.session().option_value("thought_level"), Some("default"));
    assert_eq!(prompt_and_reply(&mut agent, "first").await, "One.");
    set_option(&mut agent, "thought_level", "high").await.unwrap();
    assert_eq!(prompt_and_reply(&mut agent, "second").await, "Two.");
    let reply = prompt_and_reply(&mut agent, "/model openai/local-model").await;
    assert_eq!(reply, "The model is `openai/local-model` now.");
    assert_eq!(agent.session().option_value("thought_level"), None);
    assert_eq!(prompt_and_reply(&mut agent, "third").await, "Three.");

    let asked = server.reply_requests();
    let bodies: Vec<_> = asked.iter().map(RecordedRequest::body_json).collect();
    let models: Vec<_> = bodies.iter().map(|body| &body["model"]).collect();
    assert_eq!(models, ["claude-haiku-4-5", "claude-haiku-4-5", "local-model"]);
    let thinks = |body: &Value| body["thinking"]["budget_tokens"].as_u64();
    assert!(thinks(&bodies[0]).is_none() && thinks(&bodies[1]).is_some(), "{:?}", bodies[1]);
    let last = bodies[2].to_string();
    assert!(["first", "One.", "second", "Two.", "third"].iter().all(|text| last.contains(text)));
    assert!(!last.contains("reasoning_effort"), "{last}");
    agent.finish().await;
}

/// A catalogue whose only model takes a long time to open.
#[derive(Debug)]
struct SlowCatalogue(Mutex<std::sync::mpsc::Receiver<()>>);

impl ModelCatalogue for SlowCatalogue {
    fn list(&self) -> Vec<ModelChoice> {
        let value = "flat".to_owned();
        vec![ModelChoice::new(value.clone(), value)]
    }

    fn open_model(&self, _: &str) -> Result<Arc<dyn callboard_models::Model>, ModelSpecError> {
        self.0.lock().unwrap().recv().unwrap();
        TwoModelCatalogue(Arc::default()).open_model("flat")
    }
}

#[tokio::test]
async fn a_slow_model_change_delays_nothing_and_is_answered_at_the_close() {
    let (go, waits) = std::sync::mpsc::channel();
    let deep = TwoModelCatalogue(Arc::default()).open_model("deep").unwrap();
    let agent = callboard_runtime::CodingAgent::new(deep, std::iter::empty())
        .with_catalogue(Arc::new(SlowCatalogue(Mutex::new(waits))));
    let mut agent = acp_conformance::AgentUnderTest::in_process(agent, REJECT);
    agent.initialize().await.unwrap();
    let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
    let set = json!({"sessionId": session, "configId": "model", "value": "flat"});
    let model = agent.send_request("session/set_config_option", set).await.unwrap();
    let mode = json!({"sessionId": session, "modeId": "auto"});
    agent.send_request_and_wait("session/set_mode", mode).await.unwrap();
    assert_eq!(agent.prompt_and_wait_for_stop(&session, "go").await.unwrap(), "end_turn");
    assert_eq!(agent.client.session(&session).message_text(), "deep");
    agent.send_request_and_wait("session/close", json!({"sessionId": session})).await.unwrap();
    // The request is answered when the session closes. The answer does not wait for the model,
    // which may never open.
    assert!(matches!(
        agent.wait_for_result(&model).await,
        Err(acp_conformance::AgentTestError::ErrorResponse(_))
    ));
    go.send(()).unwrap();
    agent.close_input_and_wait_for_exit().await.unwrap();
    assert_eq!(agent.client.violations_by(Side::Agent), []);
}

#[tokio::test]
async fn the_command_model_shows_and_changes_the_model() {
    let mut agent = Agent::ready([text("One."), end()], REJECT).await;
    let script = agent.session().option_value("model").unwrap().to_owned();
    let mut dialogue = agent.dialogue(&["/model", "/model direct", "/model gpt"]).await;
    assert_eq!(agent.session().option_value("model"), Some("direct"), "sent before the answer");
    dialogue += &agent.dialogue(&[&format!("/model {script}"), "go"]).await;
    insta::assert_snapshot!(dialogue);
    agent.finish().await;
}

#[tokio::test]
async fn the_command_mode_shows_and_changes_the_mode() {
    let mut agent = Agent::ready(Model::Direct, REJECT).await;
    let dialogue = agent.dialogue(&["/mode", "/mode auto", "/mode yolo", "run touch made"]).await;
    insta::assert_snapshot!(dialogue);
    assert_eq!(mode(&agent), "auto");
    assert!(agent.scratch.path("made").exists() && agent.client.permission_requests.is_empty());
    agent.finish().await;
}

#[tokio::test]
async fn the_command_help_lists_the_commands_the_options_and_how_to_connect_a_model() {
    for (name, model) in [("direct", Model::Direct), ("script", [text("Never."), end()].into())] {
        let mut agent = Agent::ready(model, REJECT).await;
        insta::assert_snapshot!(format!("help_of_{name}"), agent.dialogue(&["/help"]).await);
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_command_undo_reverts_the_last_change_with_every_model() {
    let script =
        [call("edit_file", json!({"path": "notes.txt", "old_text": "two", "new_text": "2"}))];
    let script = script.into_iter().chain([end(), text("Done."), json!({"end": "end_turn"})]);
    let mut agent = Agent::ready(
        script.collect::<Vec<_>>(),
        PermissionReply::Select(PermissionOptionKind::AllowOnce),
    )
    .await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.scratch.read("notes.txt"), "one\n2\nthree\n");
    let reply = prompt_and_reply(&mut agent, "/undo").await;
    assert_eq!(reply, "Took back the last change, of notes.txt.");
    assert_eq!(agent.scratch.read("notes.txt"), "one\ntwo\nthree\n");
    assert_eq!(agent.call("undo").status, ToolCallStatus::Completed);
    assert_eq!(agent.client.permission_requests.len(), 2, "it is asked about like any call");
    let reply = prompt_and_reply(&mut agent, "/undo").await;
    assert!(reply.contains("othing"), "{reply}");
    agent.finish().await;
}

#[tokio::test]
async fn an_unknown_command_is_sent_to_the_model() {
    let mut agent = Agent::ready([text("I am the model."), end()], REJECT).await;
    for prompt in ["/frobnicate", "/models", "a /help in the middle", "//help"] {
        let before = agent.session().message_text().len();
        agent.turn(prompt).await;
        let said = &agent.session().message_text()[before..];
        assert!(!said.contains("/usage"), "{prompt}: {said}");
    }
    assert!(agent.session().message_text().starts_with("I am the model."));
    let told = prompt_and_reply(&mut agent, "/effort high").await;
    assert_eq!(told, "This model has no thought levels.");
    agent.finish().await;
}

#[tokio::test]
async fn every_command_is_advertised_with_its_hint() {
    let mut agent = Agent::ready([text("Hello."), end()], REJECT).await;
    agent.turn("go").await;
    let advertised = agent.session().updates.iter().find_map(|update| match update {
        SessionUpdate::AvailableCommandsUpdate(update) => Some(update.clone()),
        _ => None,
    });
    let advertised = serde_json::to_value(advertised.unwrap()).unwrap();
    let commands = advertised["availableCommands"].as_array().unwrap();
    insta::assert_snapshot!(commands.iter().map(|it| format!("{it}\n")).collect::<String>());
    agent.finish().await;
}

#[tokio::test]
async fn an_embedder_can_add_replace_and_remove_commands() {
    let count = SlashCommand::new("count", "count the letters of a text", |command| {
        Box::pin(async move {
            let calls: u64 = command
                .session
                .total_call_usage()
                .tools
                .iter()
                .map(|(_, it)| it.ended_calls())
                .sum();
            format!("{} letters, {calls} calls so far.", command.arguments.len())
        })
    });
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let model = TwoModelCatalogue(requests.clone()).open_model("flat").unwrap();
    let agent = callboard_runtime::CodingAgent::new(model, std::iter::empty())
        .with_slash_command(count.with_hint("TEXT"))
        .with_slash_command(SlashCommand::new("model", "name it", |_| {
            Box::pin(async { "Flat.".into() })
        }))
        .without_slash_command("usage");
    assert!(agent.is_slash_command("/count") && !agent.is_slash_command("/usage"));
    let mut agent = acp_conformance::AgentUnderTest::in_process(agent, REJECT);
    agent.initialize().await.unwrap();
    let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
    for (prompt, answer) in [
        ("/count  two words ", "9 letters, 0 calls so far."),
        ("/model deep", "Flat."),
        ("/usage", "flat"),
    ] {
        let before = agent.client.session(&session).message_text().len();
        agent.prompt_and_wait_for_stop(&session, prompt).await.unwrap();
        assert_eq!(&agent.client.session(&session).message_text()[before..], answer, "{prompt}");
    }
    assert_eq!(*requests.lock().unwrap(), ["flat 0 None"], "a command is no prompt");
    agent.prompt_and_wait_for_stop(&session, "/help").await.unwrap();
    let help = agent.client.session(&session).message_text();
    assert!(help.contains("- `/count TEXT`: count the letters of a text\n"), "{help}");
    assert!(help.contains("- `/model`: name it\n") && !help.contains("/usage"), "{help}");
    let mut updates = agent.client.session(&session).updates.iter().rev();
    let offered = updates.find_map(|update| match update {
        SessionUpdate::AvailableCommandsUpdate(update) => Some(&update.available_commands),
        _ => None,
    });
    let names = offered.unwrap().iter().map(|it| it.name.clone());
    // The command `undo` is missing, because this agent has no state folder.
    assert_eq!(names.collect::<Vec<_>>(), ["model", "mode", "permissions", "help", "count"]);
    agent.close_input_and_wait_for_exit().await.unwrap();
    assert_eq!(agent.client.violations_by(Side::Agent), []);
}
