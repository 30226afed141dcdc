//! The model, the mode and the thought level, changed in mid-session and in mid-turn.

use std::sync::{Arc, Mutex};

use acp_conformance::Side;
use acp_types::schema::v1::{PermissionOptionKind, SessionUpdate, ToolCallStatus};
use callboard_models::mock_server::{Asked, Dialect, ModelServer, Reply as Scripted};
use callboard_models::{Event, Reply, Request, SpecError, Stop, Traits, Usage};
use callboard_runtime::{Catalogue, Choice, SlashCommand};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::script::{Model, call, end, run, text};
use crate::harness::{Agent, Answer, Options, Permission};

const REJECT: Permission = Permission::Select(PermissionOptionKind::RejectOnce);

async fn set_mode(agent: &mut Agent, mode: &str) -> Answer {
    let params = json!({"sessionId": agent.session_id(), "modeId": mode});
    agent.request("session/set_mode", params).await
}

async fn set_option(agent: &mut Agent, option: &str, value: &str) -> Answer {
    let params = json!({"sessionId": agent.session_id(), "configId": option, "value": value});
    agent.request("session/set_config_option", params).await
}

/// What the agent says about a prompt.
async fn said(agent: &mut Agent, prompt: &str) -> String {
    let before = agent.session().said().len();
    assert_eq!(agent.turn(prompt).await, "end_turn");
    agent.session().said()[before..].to_owned()
}

/// Both views of the mode, which never disagree.
fn mode(agent: &Agent) -> String {
    let session = agent.session();
    assert_eq!(session.mode(), session.option("mode"));
    session.mode().expect("a mode").to_owned()
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
    assert_eq!(agent.session().option("model"), Some("direct"));
    assert_eq!(agent.session().option("thought_level"), None);
    agent.finish().await;
}

#[tokio::test]
async fn a_mode_that_is_set_in_one_view_is_told_in_the_other() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    assert_eq!(set_mode(&mut agent, "accept-edits").await, Ok(json!({})));
    agent.until(|client| !client.sessions().all(|(_, it)| it.option("mode") == Some("ask"))).await;
    assert_eq!(mode(&agent), "accept-edits");
    let answer = set_option(&mut agent, "mode", "auto").await.unwrap();
    assert_eq!(answer["configOptions"].as_array().map(Vec::len), Some(2), "the whole list");
    assert_eq!(mode(&agent), "auto");
    // Nobody is told what its own answer says.
    let is_mode = |update: &SessionUpdate| matches!(update, SessionUpdate::CurrentModeUpdate(_));
    let is_option = |update: &SessionUpdate| matches!(update, SessionUpdate::ConfigOptionUpdate(_));
    assert_eq!((count(&agent, is_mode), count(&agent, is_option)), (1, 1));
    agent.finish().await;
}

#[tokio::test]
async fn what_is_not_offered_is_refused_with_words() {
    let mut agent = Agent::ready(Model::Direct, Options::default()).await;
    let session = agent.session_id();
    let mut errors = vec![set_mode(&mut agent, "yolo").await.unwrap_err()];
    for (option, value) in [("mode", "allow"), ("model", "gpt"), ("colour", "red")] {
        errors.push(set_option(&mut agent, option, value).await.unwrap_err());
    }
    let params =
        json!({"sessionId": session, "configId": "mode", "type": "boolean", "value": true});
    errors.push(agent.request("session/set_config_option", params).await.unwrap_err());
    for error in errors {
        assert_eq!(error["code"], -32602, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("There is no such") || message.contains("one of those listed"));
    }
    let params = json!({"sessionId": "sess_none", "modeId": "ask"});
    let error = agent.request_unchecked("session/set_mode", params).await.unwrap_err();
    assert_eq!(error["data"]["reason"], "unknown_session");
    assert_eq!(mode(&agent), "ask");
    agent.finish().await;
}

#[tokio::test]
async fn each_mode_allows_asks_and_denies_what_it_says() {
    let edit = "edit notes.txt\n<<<\ntwo\n===\n2\n>>>";
    let protected = "write .git/config\n<<<\nx\n>>>";
    let prompts = ["read notes.txt", edit, protected, "run true"];
    for (mode, asked, completed) in [
        ("read-only", [0, 0, 0, 0], [true, false, false, false]),
        ("ask-always", [1, 1, 1, 1], [false, false, false, false]),
        ("ask", [0, 1, 1, 1], [true, false, false, false]),
        ("accept-edits", [0, 0, 1, 1], [true, true, false, false]),
        // Protected names are asked about in every mode that can ask.
        ("auto", [0, 0, 1, 0], [true, true, false, true]),
    ] {
        let mut agent = Agent::ready(Model::Direct, REJECT).await;
        set_mode(&mut agent, mode).await.unwrap();
        for (index, prompt) in prompts.iter().enumerate() {
            let before = agent.client.asked.len();
            agent.turn(prompt).await;
            assert_eq!(agent.client.asked.len() - before, asked[index], "{mode}: {prompt}");
            let status = agent.session().calls()[index].status;
            let is_completed = status == ToolCallStatus::Completed;
            assert_eq!(is_completed, completed[index], "{mode}: {prompt}");
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_rule_that_denies_wins_in_every_mode() {
    let mut agent = Agent::ready(Model::Direct, Permission::SelectId("reject_always")).await;
    agent.turn("run touch made").await;
    for mode in ["accept-edits", "auto", "ask-always"] {
        set_mode(&mut agent, mode).await.unwrap();
        agent.turn("run touch made").await;
    }
    assert_eq!(agent.client.asked.len(), 1);
    assert!(!agent.scratch.path("made").exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_mode_set_in_mid_turn_holds_for_the_calls_that_follow() {
    let script = [
        run("touch first"),
        end(),
        run("touch second"),
        end(),
        json!({"delay_ms": 1}),
        text("Done."),
    ];
    let mut agent = Agent::ready(script, Permission::Never).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| client.asked.len() == 1).await;
    set_mode(&mut agent, "auto").await.unwrap();
    // What was asked about still is; what follows is not.
    agent.permit(0, Permission::Select(PermissionOptionKind::AllowOnce)).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert_eq!(agent.client.asked.len(), 1);
    assert!(agent.scratch.path("first").exists() && agent.scratch.path("second").exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_yes_in_a_mode_that_denies_meanwhile_is_a_no() {
    let mut agent = Agent::ready([run("touch made"), end()], Permission::Never).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| client.asked.len() == 1).await;
    set_mode(&mut agent, "read-only").await.unwrap();
    agent.permit(0, Permission::Select(PermissionOptionKind::AllowOnce)).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert!(!agent.scratch.path("made").exists());
    agent.finish().await;
}

#[tokio::test]
async fn another_model_answers_the_next_prompt_and_its_commands_go_with_it() {
    let mut agent = Agent::ready([text("One."), end(), text("Two."), end()], REJECT).await;
    let script = agent.session().option("model").unwrap().to_owned();
    assert!(script.starts_with("script:"), "{script}");
    assert_eq!(said(&mut agent, "go").await, "One.");
    assert!(!commands(&agent).contains(&"read".to_owned()));

    assert!(set_option(&mut agent, "model", "direct").await.is_ok());
    assert_eq!(said(&mut agent, "read notes.txt").await, "Done: 1 call.");
    assert!(commands(&agent).contains(&"read".to_owned()));
    assert_eq!(commands(&agent).iter().filter(|name| *name == "help").count(), 1);

    // The session has had it, so it is still offered; taken up again, it begins anew.
    assert!(set_option(&mut agent, "model", &script).await.is_ok());
    assert_eq!(agent.session().option("model"), Some(&*script));
    assert_eq!(said(&mut agent, "go").await, "One.");
    assert!(!commands(&agent).contains(&"read".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn another_model_takes_over_in_mid_turn() {
    let script = [call("think", json!({"thought": "Hm."})), run("true"), end(), text("Never.")];
    let mut agent = Agent::ready(script, Permission::Never).await;
    let prompt = agent.prompt("say it").await;
    agent.until(|client| client.asked.len() == 1).await;
    assert!(set_option(&mut agent, "model", "direct").await.is_ok());
    agent.permit(0, Permission::Select(PermissionOptionKind::AllowOnce)).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    assert!(agent.session().said().contains("One command a line"), "{}", agent.session().said());
    agent.finish().await;
}

#[tokio::test]
async fn a_model_that_cannot_be_had_any_more_is_refused_and_the_old_one_stays() {
    let mut agent = Agent::ready([text("One."), end()], REJECT).await;
    let script = agent.session().option("model").unwrap().to_owned();
    assert!(set_option(&mut agent, "model", "direct").await.is_ok());
    std::fs::remove_file(script.trim_start_matches("script:")).unwrap();
    let error = set_option(&mut agent, "model", &script).await.unwrap_err();
    assert_eq!(error["code"], -32602);
    assert!(error["message"].as_str().unwrap().to_lowercase().contains("cannot read"), "{error}");
    assert_eq!(agent.session().option("model"), Some("direct"));
    assert_eq!(said(&mut agent, "read notes.txt").await, "Done: 1 call.");
    agent.finish().await;
}

/// A model that notes what it is asked, says its name, and can be told how much to think if it is
/// called so.
#[derive(Debug)]
struct Noting {
    name: &'static str,
    heard: Arc<Mutex<Vec<String>>>,
}

impl callboard_models::Model for Noting {
    fn name(&self) -> &str {
        self.name
    }

    fn traits(&self) -> Traits {
        if self.name == "deep" { Traits::new().with_efforts() } else { Traits::new() }
    }

    fn reply(&self, request: Request) -> Reply {
        let heard = format!("{} {} {:?}", self.name, request.index, request.effort);
        self.heard.lock().unwrap().push(heard);
        let usage = Usage { input_tokens: Some(10), output_tokens: Some(2), ..Usage::default() };
        let usage = Event::Usage(usage);
        let events = [Event::Text(self.name.to_owned()), usage, Event::Stop(Stop::EndTurn)];
        Box::pin(futures::stream::iter(events))
    }
}

#[derive(Debug)]
struct Two(Arc<Mutex<Vec<String>>>);

impl Catalogue for Two {
    fn list(&self) -> Vec<Choice> {
        ["deep", "flat"].map(|name| Choice::new(name, name)).into()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn callboard_models::Model>, SpecError> {
        let name = if name == "deep" { "deep" } else { "flat" };
        Ok(Arc::new(Noting { name, heard: self.0.clone() }))
    }
}

#[tokio::test]
async fn a_thought_level_reaches_the_models_that_can_be_told_and_no_other() {
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let catalogue = Arc::new(Two(heard.clone()));
    let agent = callboard_runtime::Agent::new(catalogue.open("deep").unwrap(), std::iter::empty())
        .with_catalogue(catalogue);
    let mut agent = acp_conformance::Agent::in_process(agent, REJECT);
    agent.initialize().await.unwrap();
    let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
    let level = |agent: &acp_conformance::Agent| {
        agent.client.session(&session).option("thought_level").map(str::to_owned)
    };
    assert_eq!(level(&agent).as_deref(), Some("default"));
    agent.turn(&session, "one").await.unwrap();
    let set = |option: &str, value: &str| json!({"sessionId": session, "configId": option, "value": value});
    agent.request("session/set_config_option", set("thought_level", "high")).await.unwrap();
    agent.turn(&session, "two").await.unwrap();
    agent.request("session/set_config_option", set("model", "flat")).await.unwrap();
    assert_eq!(level(&agent), None);
    agent.request("session/set_config_option", set("thought_level", "low")).await.unwrap_err();
    agent.turn(&session, "three").await.unwrap();
    agent.turn(&session, "/model deep").await.unwrap();
    assert_eq!(level(&agent).as_deref(), Some("high"), "kept for models that can be told");
    agent.turn(&session, "/effort off").await.unwrap();
    assert_eq!(level(&agent).as_deref(), Some("off"));
    agent.turn(&session, "four").await.unwrap();
    let expected = ["deep 0 None", "deep 1 Some(High)", "flat 0 None", "deep 0 Some(Off)"];
    assert_eq!(*heard.lock().unwrap(), expected);
    agent.turn(&session, "/usage").await.unwrap();
    let said = agent.client.session(&session).said();
    // Of all models together.
    assert!(said.contains("Tokens: 40 in (0 of them from a cache), 8 out"), "{said}");
    agent.end().await.unwrap();
    assert_eq!(agent.client.faults_of(Side::Agent), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_provider_goes_on_with_what_was_said_and_with_its_own_thought_level() {
    let replies = ["One.", "Two.", "Three."].map(|text| Scripted::new().text(text).into());
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
    assert_eq!(agent.session().option("thought_level"), Some("default"));
    assert_eq!(said(&mut agent, "first").await, "One.");
    set_option(&mut agent, "thought_level", "high").await.unwrap();
    assert_eq!(said(&mut agent, "second").await, "Two.");
    let told = said(&mut agent, "/model openai/local-model").await;
    assert_eq!(told, "The model is `openai/local-model` now.");
    assert_eq!(agent.session().option("thought_level"), None);
    assert_eq!(said(&mut agent, "third").await, "Three.");

    let asked = server.replies();
    let bodies: Vec<_> = asked.iter().map(Asked::json).collect();
    let models: Vec<_> = bodies.iter().map(|body| &body["model"]).collect();
    assert_eq!(models, ["claude-haiku-4-5", "claude-haiku-4-5", "local-model"]);
    let thinks = |body: &Value| body["thinking"]["budget_tokens"].as_u64();
    assert!(thinks(&bodies[0]).is_none() && thinks(&bodies[1]).is_some(), "{:?}", bodies[1]);
    let last = bodies[2].to_string();
    assert!(["first", "One.", "second", "Two.", "third"].iter().all(|text| last.contains(text)));
    assert!(!last.contains("reasoning_effort"), "{last}");
    agent.finish().await;
}

/// A catalogue whose only model takes its time.
#[derive(Debug)]
struct Slow(Mutex<std::sync::mpsc::Receiver<()>>);

impl Catalogue for Slow {
    fn list(&self) -> Vec<Choice> {
        let value = "flat".to_owned();
        vec![Choice::new(value.clone(), value)]
    }

    fn open(&self, _: &str) -> Result<Arc<dyn callboard_models::Model>, SpecError> {
        self.0.lock().unwrap().recv().unwrap();
        Two(Arc::default()).open("flat")
    }
}

#[tokio::test]
async fn a_model_that_takes_its_time_holds_nothing_up_and_is_answered_by_the_close() {
    let (go, waits) = std::sync::mpsc::channel();
    let deep = Two(Arc::default()).open("deep").unwrap();
    let agent = callboard_runtime::Agent::new(deep, std::iter::empty())
        .with_catalogue(Arc::new(Slow(Mutex::new(waits))));
    let mut agent = acp_conformance::Agent::in_process(agent, REJECT);
    agent.initialize().await.unwrap();
    let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
    let set = json!({"sessionId": session, "configId": "model", "value": "flat"});
    let model = agent.send("session/set_config_option", set).await.unwrap();
    let mode = json!({"sessionId": session, "modeId": "auto"});
    agent.request("session/set_mode", mode).await.unwrap();
    assert_eq!(agent.turn(&session, "go").await.unwrap(), "end_turn");
    assert_eq!(agent.client.session(&session).said(), "deep");
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    // It does not wait for the model, which may never open.
    assert!(matches!(agent.answer(&model).await, Err(acp_conformance::Error::Refused(_))));
    go.send(()).unwrap();
    agent.end().await.unwrap();
    assert_eq!(agent.client.faults_of(Side::Agent), []);
}

#[tokio::test]
async fn the_command_model_shows_and_changes_the_model() {
    let mut agent = Agent::ready([text("One."), end()], REJECT).await;
    let script = agent.session().option("model").unwrap().to_owned();
    let list = said(&mut agent, "/model").await;
    assert!(list.contains("- `direct`: Direct commands"), "{list}");
    assert!(list.contains(&format!("- `{script}` ← now")), "{list}");
    let told = said(&mut agent, "/model direct").await;
    assert_eq!(told, "The model is `direct` now.");
    assert_eq!(agent.session().option("model"), Some("direct"), "told before the answer");
    let told = said(&mut agent, "/model gpt").await;
    assert!(told.starts_with("The model is still `direct`: unknown model `gpt`"), "{told}");
    let told = said(&mut agent, &format!("/model {script}")).await;
    assert_eq!(told, format!("The model is `{script}` now."));
    assert_eq!(said(&mut agent, "go").await, "One.");
    agent.finish().await;
}

#[tokio::test]
async fn the_command_mode_shows_and_changes_the_mode() {
    let mut agent = Agent::ready(Model::Direct, REJECT).await;
    let list = said(&mut agent, "/mode").await;
    assert!(list.contains("- `ask`: reads inside the roots are allowed"), "{list}");
    assert!(list.lines().any(|line| line.starts_with("- `ask`") && line.ends_with("← now")));
    let told = said(&mut agent, "/mode auto").await;
    assert!(
        told.starts_with("The mode is `auto` now: everything inside the roots is allowed"),
        "{told}"
    );
    assert_eq!(mode(&agent), "auto", "told before the answer");
    agent.turn("run touch made").await;
    assert!(agent.scratch.path("made").exists() && agent.client.asked.is_empty());
    let told = said(&mut agent, "/mode yolo").await;
    assert!(told.starts_with("There is no such mode."), "{told}");
    assert_eq!(mode(&agent), "auto");
    agent.finish().await;
}

#[tokio::test]
async fn the_command_help_lists_the_commands_what_is_chosen_and_how_to_connect_a_model() {
    for model in [Model::Direct, [text("Never."), end()].into()] {
        let is_direct = matches!(model, Model::Direct);
        let mut agent = Agent::ready(model, REJECT).await;
        let help = said(&mut agent, "/help").await;
        for form in ["/model [NAME]", "/mode [NAME]", "/permissions", "/undo", "/usage", "/help"] {
            assert!(help.contains(&format!("- `{form}")), "{form}: {help}");
        }
        let model = agent.session().option("model").unwrap();
        assert!(help.contains(&format!("Model: `{model}`")), "{help}");
        assert!(help.contains("Mode: `ask`: reads inside"), "{help}");
        assert!(help.contains("--model"), "{help}");
        assert_eq!(help.contains("grep REGEX"), is_direct, "{help}");
        assert!(!help.contains("/effort"), "this model cannot be told: {help}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_command_undo_takes_the_last_change_back_whatever_the_model_is() {
    let script =
        [call("edit_file", json!({"path": "notes.txt", "old_text": "two", "new_text": "2"}))];
    let script = script.into_iter().chain([end(), text("Done."), json!({"end": "end_turn"})]);
    let mut agent = Agent::ready(
        script.collect::<Vec<_>>(),
        Permission::Select(PermissionOptionKind::AllowOnce),
    )
    .await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.scratch.read("notes.txt"), "one\n2\nthree\n");
    let told = said(&mut agent, "/undo").await;
    assert_eq!(told, "Took back the last change, of notes.txt.");
    assert_eq!(agent.scratch.read("notes.txt"), "one\ntwo\nthree\n");
    assert_eq!(agent.call("undo").status, ToolCallStatus::Completed);
    assert_eq!(agent.client.asked.len(), 2, "it is asked about like any call");
    let told = said(&mut agent, "/undo").await;
    assert!(told.contains("othing"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_command_that_is_not_ours_goes_to_the_model() {
    let mut agent = Agent::ready([text("I am the model."), end()], REJECT).await;
    for prompt in ["/frobnicate", "/models", "a /help in the middle", "//help"] {
        let before = agent.session().said().len();
        agent.turn(prompt).await;
        let said = &agent.session().said()[before..];
        assert!(!said.contains("/usage"), "{prompt}: {said}");
    }
    assert!(agent.session().said().starts_with("I am the model."));
    let told = said(&mut agent, "/effort high").await;
    assert_eq!(told, "This model cannot be told how much to think.");
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
    let hint = |command: &Value| (command["name"].clone(), command["input"]["hint"].clone());
    let hints: Vec<_> = commands.iter().map(hint).collect();
    assert_eq!(
        hints,
        [
            (json!("model"), json!("[NAME]")),
            (json!("mode"), json!("[NAME]")),
            (json!("permissions"), json!("[keep NUMBER | revoke NUMBER|all]")),
            (json!("undo"), Value::Null),
            (json!("usage"), Value::Null),
            (json!("help"), Value::Null),
        ]
    );
    agent.finish().await;
}

#[tokio::test]
async fn an_embedder_adds_commands_of_its_own_and_leaves_out_others() {
    let count = SlashCommand::new("count", "count the letters of a text", |command| {
        Box::pin(async move {
            let calls: u64 = command.session.usage().tools.iter().map(|(_, it)| it.calls()).sum();
            format!("{} letters, {calls} calls so far.", command.arguments.len())
        })
    });
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let model = Two(heard.clone()).open("flat").unwrap();
    let agent = callboard_runtime::Agent::new(model, std::iter::empty())
        .with_command(count.with_hint("TEXT"))
        .with_command(SlashCommand::new("model", "name it", |_| Box::pin(async { "Flat.".into() })))
        .without_command("usage");
    assert!(agent.is_command("/count") && !agent.is_command("/usage"));
    let mut agent = acp_conformance::Agent::in_process(agent, REJECT);
    agent.initialize().await.unwrap();
    let session = agent.new_session(&std::env::temp_dir()).await.unwrap();
    for (prompt, answer) in [
        ("/count  two words ", "9 letters, 0 calls so far."),
        ("/model deep", "Flat."),
        ("/usage", "flat"),
    ] {
        let before = agent.client.session(&session).said().len();
        agent.turn(&session, prompt).await.unwrap();
        assert_eq!(&agent.client.session(&session).said()[before..], answer, "{prompt}");
    }
    assert_eq!(*heard.lock().unwrap(), ["flat 0 None"], "a command is no prompt");
    agent.turn(&session, "/help").await.unwrap();
    let help = agent.client.session(&session).said();
    assert!(help.contains("- `/count TEXT`: count the letters of a text\n"), "{help}");
    assert!(help.contains("- `/model`: name it\n") && !help.contains("/usage"), "{help}");
    let mut updates = agent.client.session(&session).updates.iter().rev();
    let offered = updates.find_map(|update| match update {
        SessionUpdate::AvailableCommandsUpdate(update) => Some(&update.available_commands),
        _ => None,
    });
    let names = offered.unwrap().iter().map(|it| it.name.clone());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["model", "mode", "permissions", "undo", "help", "count"]
    );
    agent.end().await.unwrap();
    assert_eq!(agent.client.faults_of(Side::Agent), []);
}
