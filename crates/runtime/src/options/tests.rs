//! Tests of the available options, and of the updates that the client receives after a change. The
//! tests in `tests/it` cover the responses to requests.

use std::path::Path;
use std::time::SystemTime;

use acp_lifecycle::{Effect, Effects, OutboxItem, Session};
use acp_tools::Registry;
use callboard_models::direct::DirectModel;
use callboard_models::{
    Model, ModelCapabilities, ModelRequest, ModelSpecError, PromptCommand, ReplyStream, ToolSpec,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::command_sandbox::ShownSandbox;
use crate::commands::SlashCommands;
use crate::model_catalogue::{ModelCatalogue, ModelChoice};
use crate::offered_tools::OfferedTools;

/// A model that never replies.
#[derive(Debug)]
struct NamedModel(String);

impl Model for NamedModel {
    fn name(&self) -> &str {
        &self.0
    }

    fn capabilities(&self) -> ModelCapabilities {
        if self.0.starts_with("deep") {
            ModelCapabilities::new().with_adjustable_effort()
        } else {
            ModelCapabilities::new()
        }
    }

    fn commands(&self, tools: &[ToolSpec]) -> Vec<PromptCommand> {
        commands_of(self.name(), tools)
    }

    fn reply(&self, _: ModelRequest) -> ReplyStream {
        Box::pin(futures::stream::empty())
    }
}

/// Returns the commands of the model `direct`, and no commands for a model of another name.
fn commands_of(name: &str, tools: &[ToolSpec]) -> Vec<PromptCommand> {
    if name == "direct" { DirectModel::default().commands(tools) } else { Vec::new() }
}

/// A catalogue with these models, which can open every model except `missing`.
#[derive(Debug, Default)]
struct FakeCatalogue(Mutex<Vec<&'static str>>);

impl ModelCatalogue for FakeCatalogue {
    fn list(&self) -> Vec<ModelChoice> {
        let choice = |value: &&str| ModelChoice {
            value: (*value).to_owned(),
            name: value.to_uppercase(),
            description: None,
        };
        self.0.lock().unwrap().iter().map(choice).collect()
    }

    fn open_model(&self, name: &str) -> std::result::Result<Arc<dyn Model>, ModelSpecError> {
        match name {
            "missing" => Err(ModelSpecError::Unknown { spec: name.to_owned() }),
            name => Ok(Arc::new(NamedModel(name.to_owned()))),
        }
    }
}

fn selection(shelf: &Arc<FakeCatalogue>, mode: Option<PermissionMode>) -> OptionSelection {
    OptionSelection::new(
        shelf.clone(),
        Arc::new(NamedModel("direct".to_owned())),
        mode,
        ShownSandbox::Off,
    )
}

fn fake_catalogue(models: &[&'static str]) -> Arc<FakeCatalogue> {
    Arc::new(FakeCatalogue(Mutex::new(models.to_vec())))
}

/// Returns the function that determines the commands of a session with the built-in tools.
fn commands() -> impl Fn(&ActiveOptions) -> SessionStatePart + Send + Sync {
    let tools = OfferedTools::new(Registry::builtin());
    move |chosen| SlashCommands::builtin().available_commands(chosen, &tools)
}

fn open(
    shelf: &Arc<FakeCatalogue>,
    mode: Option<PermissionMode>,
) -> (Arc<SessionOptions>, SessionHandle) {
    let handle = SessionHandle::new(Session::new("/p"), SystemTime::now);
    let roots = vec![PathBuf::from("/p")];
    let options =
        SessionOptions::new(selection(shelf, mode), handle.clone(), commands(), roots, |_| {});
    queued_updates(&handle);
    (options, handle)
}

/// Removes the updates from the session's outbox, and returns them.
fn queued_updates(handle: &SessionHandle) -> Vec<Value> {
    let next = || {
        handle.update(|session, now| {
            session.make_all_items_due(now.monotonic);
            session.poll(now.monotonic)
        })
    };
    let sent = v1::V1Projection::new(v1::TerminalDisplay::Text);
    let updates = std::iter::from_fn(next).map(|item| match item {
        OutboxItem::State(state) => serde_json::to_value(sent.update_for_state(&state)).unwrap(),
        other => panic!("{other:?}"),
    });
    updates.collect()
}

/// Returns the kind of each update, with its mode or its option values.
fn update_kinds(updates: &[Value]) -> Vec<String> {
    let shown = |update: &Value| match update["sessionUpdate"].as_str().unwrap() {
        "current_mode_update" => format!("mode {}", update["currentModeId"].as_str().unwrap()),
        "config_option_update" => format!("options {}", option_values(&update["configOptions"])),
        "available_commands_update" => "commands".to_owned(),
        other => panic!("{other}"),
    };
    updates.iter().map(shown).collect()
}

fn option_values(options: &Value) -> String {
    let value = |option: &Value| option["currentValue"].as_str().unwrap().to_owned();
    options.as_array().unwrap().iter().map(value).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_option_has_its_category_and_an_offered_value() {
    let shelf = fake_catalogue(&["direct", "deep/one"]);
    let mut selection = selection(&shelf, Some(PermissionMode::Ask));
    selection.set_model(shelf.open_model("deep/one").unwrap());
    let options = serde_json::to_value(v1::encode_config_options(
        &selection.config_options(&selection.active_options()),
    ))
    .unwrap();
    let options = options.as_array().unwrap();
    let field = |name: &str| -> Vec<_> { options.iter().map(|it| it[name].clone()).collect() };
    let categories = json!(["model", "mode", "thought_level", null]);
    assert_eq!(Value::from(field("category")), categories);
    assert_eq!(field("type"), ["select"; 4]);
    assert_eq!(field("currentValue"), ["deep/one", "ask", "default", "off"]);
    for option in options {
        let mut offered = option["options"].as_array().unwrap().iter();
        assert!(offered.any(|value| value["value"] == option["currentValue"]), "{option}");
    }
    let modes =
        serde_json::to_value(selection.session_modes().as_ref().map(v1::encode_modes)).unwrap();
    assert_eq!(modes["currentModeId"], "ask");
    assert_eq!(modes["availableModes"].as_array().map(Vec::len), Some(PermissionMode::all().len()));
    let ask = json!({
        "id": "ask",
        "name": "Ask",
        "description": "Reads inside the roots are allowed, everything else is asked about.",
    });
    assert!(modes["availableModes"].as_array().unwrap().contains(&ask), "{modes}");
}

#[test]
fn a_value_that_is_not_offered_cannot_be_chosen() {
    let shelf = fake_catalogue(&["direct", "deep/one"]);
    let mut selection = selection(&shelf, Some(PermissionMode::Ask));
    let change =
        |selection: &OptionSelection, option, value| selection.parse_change(option, value).ok();
    assert_eq!(change(&selection, "mode", "auto"), Some(OptionChange::Mode(PermissionMode::Auto)));
    assert_eq!(
        change(&selection, "model", "deep/one"),
        Some(OptionChange::Model("deep/one".into()))
    );
    for (option, value) in [
        ("mode", "allow"),
        ("mode", ""),
        ("model", "missing"),
        ("model", "script:/etc/passwd"),
        ("thought_level", "high"),
        ("colour", "red"),
    ] {
        assert!(selection.parse_change(option, value).is_err(), "{option} {value}");
    }
    selection.set_model(shelf.open_model("deep/one").unwrap());
    assert!(change(&selection, "thought_level", "high").is_some());
    assert!(change(&selection, "thought_level", "utmost").is_none());
}

#[test]
fn an_embedders_own_policy_leaves_no_modes() {
    let selection = selection(&fake_catalogue(&[]), None);
    assert_eq!(selection.session_modes(), None);
    let options = serde_json::to_value(v1::encode_config_options(
        &selection.config_options(&selection.active_options()),
    ))
    .unwrap();
    assert_eq!(option_values(&options), "direct off");
    assert!(selection.parse_mode("ask").is_err() && selection.parse_change("mode", "ask").is_err());
}

#[test]
fn a_limited_number_of_used_models_can_be_chosen_again() {
    let shelf = fake_catalogue(&["listed"]);
    let mut selection = selection(&shelf, None);
    for number in 0..100 {
        selection.set_model(shelf.open_model(&format!("other/{number}")).unwrap());
    }
    let offered: Vec<_> = selection.model_choices().into_iter().map(|model| model.value).collect();
    assert_eq!(offered.len(), 1 + limits::MAX_USED_MODEL_CHOICES);
    assert_eq!((&*offered[0], &*offered[limits::MAX_USED_MODEL_CHOICES]), ("listed", "other/99"));
}

#[test]
fn an_effort_is_kept_for_models_that_support_it() {
    let shelf = fake_catalogue(&[]);
    let mut selection = selection(&shelf, None);
    selection.set_effort(Some(Effort::High));
    assert_eq!(selection.active_options().effort, None);
    selection.set_model(shelf.open_model("deep/one").unwrap());
    assert_eq!(selection.active_options().effort, Some(Effort::High));
}

#[tokio::test]
async fn a_command_updates_modes_and_options_and_sends_only_changes() {
    let shelf = fake_catalogue(&["direct", "deep/one"]);
    let (options, handle) = open(&shelf, Some(PermissionMode::Ask));
    options.set_mode(PermissionMode::Auto, ChangeOrigin::Command);
    assert_eq!(update_kinds(&queued_updates(&handle)), ["mode auto", "options direct auto off"]);
    options.set_mode(PermissionMode::Auto, ChangeOrigin::Command);
    options.advertise_unrequested_changes();
    assert_eq!(update_kinds(&queued_updates(&handle)), [""; 0]);
    options.open_and_set_model("deep/one".to_owned(), ChangeOrigin::Command).await.unwrap();
    // The commands of the model `direct` are gone, and the thought level is a new option.
    assert_eq!(
        update_kinds(&queued_updates(&handle)),
        ["options deep/one auto default off", "commands"]
    );
    options.set_effort(Some(Effort::Low), ChangeOrigin::Command);
    assert_eq!(update_kinds(&queued_updates(&handle)), ["options deep/one auto low off"]);
    let error =
        options.open_and_set_model("missing".to_owned(), ChangeOrigin::Command).await.unwrap_err();
    assert!(error.contains("unknown model"), "{error}");
    assert_eq!(options.active_options().model.name(), "deep/one");
    shelf.0.lock().unwrap().push("found/later");
    options.advertise_unrequested_changes();
    assert_eq!(update_kinds(&queued_updates(&handle)), ["options deep/one auto low off"]);
}

#[tokio::test]
async fn the_model_that_was_requested_last_is_used() {
    let (options, _) = open(&fake_catalogue(&[]), None);
    let first = options.open_and_set_model("a".to_owned(), ChangeOrigin::Command);
    let last = options.open_and_set_model("b".to_owned(), ChangeOrigin::Command);
    last.await.unwrap();
    first.await.unwrap();
    assert_eq!(options.active_options().model.name(), "b");
    assert_eq!(options.active_options().model_generation, 1);
}

#[test]
fn a_mode_applies_at_once() {
    let (options, handle) = open(&fake_catalogue(&[]), Some(PermissionMode::ReadOnly));
    let write = Effects::from(Effect::Write("/p/a".into()));
    for (mode, id) in [
        (PermissionMode::AcceptEdits, "a"),
        (PermissionMode::ReadOnly, "b"),
        (PermissionMode::Auto, "c"),
    ] {
        options.set_mode(mode, ChangeOrigin::Command);
        let permit = handle.update(|session, now| {
            let id = id.into();
            let subject =
                acp_lifecycle::PermissionSubject::for_call("t", &json!({}), Path::new("/p"), b"");
            session.announce_call(&id, &"t".into(), acp_types::ToolCallPatch::new(), now);
            session.decide_or_ask_permission(&id, &write, subject, true, now)
        });
        let is_granted = matches!(permit, acp_lifecycle::PermitDecision::Granted(_));
        assert_eq!(is_granted, mode != PermissionMode::ReadOnly, "{mode:?}: {permit:?}");
    }
}

/// A model whose name is `direct`, until the real model has been found.
#[derive(Debug, Default)]
struct LateNamedModel(std::sync::OnceLock<String>);

impl Model for LateNamedModel {
    fn name(&self) -> &str {
        self.0.get().map_or("direct", String::as_str)
    }

    fn commands(&self, tools: &[ToolSpec]) -> Vec<PromptCommand> {
        commands_of(self.name(), tools)
    }

    fn reply(&self, _: ModelRequest) -> ReplyStream {
        Box::pin(futures::stream::empty())
    }
}

#[test]
fn a_late_model_name_is_sent_and_offered() {
    let late = Arc::new(LateNamedModel::default());
    let handle = SessionHandle::new(Session::new("/p"), SystemTime::now);
    let selection =
        OptionSelection::new(fake_catalogue(&[]), late.clone(), None, ShownSandbox::Off);
    let options = SessionOptions::new(selection, handle.clone(), commands(), vec![], |_| {});
    queued_updates(&handle);
    late.0.set("found/one".to_owned()).unwrap();
    options.advertise_unrequested_changes();
    let updates = queued_updates(&handle);
    assert_eq!(update_kinds(&updates), ["options found/one off", "commands"]);
    let offered = &updates[0]["configOptions"][0]["options"];
    let offered: Vec<_> = offered.as_array().unwrap().iter().map(|it| &it["value"]).collect();
    assert_eq!(offered, ["direct", "found/one"]);
}
