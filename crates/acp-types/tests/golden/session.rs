//! The state of a session in v1 and draft v2.

use acp_types::wire::{v1, v2};
use acp_types::{
    AvailableCommand, Compaction, CompactionStatus, ConfigCategory, ConfigOption, ConfigValue,
    ContextUsage, Cost, Image, SessionInfo, SessionMode, SessionModes, SessionStatePart,
};
use acp_types::{Content, schema};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Checks the messages of both versions. Also checks that the schema crate parses the v1 message,
/// and that the JSON of the document can be parsed again.
fn check(state: &SessionStatePart, in_v1: Value, in_v2: Option<Value>) {
    let sent = v1::V1Projection::new(v1::TerminalDisplay::Text).with_meta_key("own");
    assert_eq!(crate::json(&sent.update_for_state(state)), in_v1);
    let read: schema::v1::SessionUpdate = serde_json::from_value(in_v1).unwrap();
    assert_eq!(read, *sent.update_for_state(state));
    let sent = v2::V2Projection::new().with_meta_key("own");
    assert_eq!(sent.update_for_state(state).map(|update| crate::json(&update)), in_v2);
    let stored = serde_json::to_value(state).unwrap();
    assert_eq!(serde_json::from_value::<SessionStatePart>(stored).unwrap(), *state);
}

#[test]
fn commands() {
    let commands = vec![
        AvailableCommand::new("undo", "Undoes the last step"),
        AvailableCommand::new("mode", "Chooses the mode").with_hint("<mode>"),
    ];
    let update = |type_: Option<&str>| {
        let mut update = json!({
            "sessionUpdate": "available_commands_update",
            "availableCommands": [
                {"name": "undo", "description": "Undoes the last step"},
                {"name": "mode", "description": "Chooses the mode", "input": {"hint": "<mode>"}},
            ],
        });
        if let Some(type_) = type_ {
            update["availableCommands"][0]["type"] = json!("command");
            update["availableCommands"][1]["type"] = json!("command");
            update["availableCommands"][1]["input"]["type"] = json!(type_);
        }
        update
    };
    check(&SessionStatePart::Commands(commands), update(None), Some(update(Some("text"))));
}

#[test]
fn the_mode_is_an_option_in_draft_v2() {
    check(
        &SessionStatePart::Mode("ask".to_owned()),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}),
        None,
    );
    let ask = SessionMode::new("ask", "Ask").with_description("Asks.");
    let modes = SessionModes::new("ask", vec![ask, SessionMode::new("auto", "Auto")]);
    assert_eq!(
        crate::json(&v1::encode_modes(&modes)),
        json!({
            "currentModeId": "ask",
            "availableModes": [
                {"id": "ask", "name": "Ask", "description": "Asks."},
                {"id": "auto", "name": "Auto"},
            ],
        })
    );
}

#[test]
fn options() {
    let values = || {
        vec![
            ConfigValue::new("low", "Low").with_description("A little".to_owned()),
            ConfigValue::new("high", "High"),
        ]
    };
    let of =
        |id: &str, category| ConfigOption::new(id, "Name", "low", values()).with_category(category);
    let options = vec![
        of("model", ConfigCategory::Model),
        of("mode", ConfigCategory::Mode).with_description("What runs without asking"),
        of("thought_level", ConfigCategory::ThoughtLevel),
        ConfigOption::new("other", "Name", "low", values()),
    ];
    let written = |id_key: &str, value_key: &str| {
        let values = json!([
            {value_key: "low", "name": "Low", "description": "A little"},
            {value_key: "high", "name": "High"},
        ]);
        let option = |id: &str| {
            json!({
                id_key: id, "name": "Name", "category": id, "type": "select",
                "currentValue": "low", "options": values,
            })
        };
        let mut all = ["model", "mode", "thought_level", "other"].map(option);
        all[1]["description"] = json!("What runs without asking");
        all[3].as_object_mut().unwrap().remove("category");
        json!(all)
    };
    let update =
        |options| json!({"sessionUpdate": "config_option_update", "configOptions": options});
    let (in_v1, in_v2) = (written("id", "value"), written("configId", "value"));
    assert_eq!(crate::json(&v1::encode_config_options(&options)), in_v1);
    assert_eq!(crate::json(&v2::encode_config_options(&options)), in_v2);
    check(&SessionStatePart::Options(options), update(in_v1), Some(update(in_v2)));
}

#[test]
fn unknown_session_info_is_not_sent() {
    let info = |fields: Value| {
        let mut update = json!({"sessionUpdate": "session_info_update"});
        update.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        update
    };
    let at = "2026-01-02T03:04:05Z";
    for (later, fields) in [
        (SessionInfo::new(), json!({})),
        (SessionInfo::new().with_title("T"), json!({"title": "T"})),
        (SessionInfo::new().with_updated_at(at), json!({"updatedAt": at})),
    ] {
        check(&SessionStatePart::Info(later), info(fields.clone()), Some(info(fields)));
    }
}

#[test]
fn later_session_info_keeps_other_fields() {
    let first = SessionStatePart::Info(SessionInfo::new().with_title("T").with_updated_at("1"));
    let later = SessionStatePart::Info(SessionInfo::new().with_updated_at("2"));
    let both = SessionInfo::new().with_title("T").with_updated_at("2");
    assert_eq!(first.then(later), SessionStatePart::Info(both));
    let (first, later) =
        (SessionStatePart::Mode("a".to_owned()), SessionStatePart::Mode("b".to_owned()));
    assert_eq!(first.then(later.clone()), later);
}

#[test]
fn usage_and_cost() {
    let usage = ContextUsage::new(5, 200);
    let mut update = json!({"sessionUpdate": "usage_update", "used": 5, "size": 200});
    check(&SessionStatePart::Usage(usage.clone()), update.clone(), Some(update.clone()));
    update["cost"] = json!({"amount": 0.25, "currency": "USD"});
    let usage = usage.with_cost(Cost::new(0.25, "USD"));
    check(&SessionStatePart::Usage(usage), update.clone(), Some(update));
}

#[test]
fn the_sizes_of_a_compaction_are_metadata() {
    let texts = vec!["It is shorter.".to_owned(), "All of it.".to_owned()];
    let mut compaction = Compaction::new("c1", CompactionStatus::InProgress, texts);
    let mut update = json!({
        "sessionUpdate": "compaction_update", "compactionId": "c1", "status": "in_progress",
        "summary": [
            {"type": "text", "text": "It is shorter."}, {"type": "text", "text": "All of it."},
        ],
    });
    check(&SessionStatePart::Compaction(compaction.clone()), update.clone(), Some(update.clone()));
    (compaction.tokens_before, compaction.context_tokens) = (Some(90), Some(100));
    update["_meta"] =
        json!({"own": {"tokensBefore": 90, "tokensAfter": null, "contextTokens": 100}});
    for (status, word) in [
        (CompactionStatus::InProgress, "in_progress"),
        (CompactionStatus::Completed, "completed"),
        (CompactionStatus::Failed, "failed"),
        (CompactionStatus::Cancelled, "cancelled"),
    ] {
        (compaction.status, update["status"]) = (status, json!(word));
        check(
            &SessionStatePart::Compaction(compaction.clone()),
            update.clone(),
            Some(update.clone()),
        );
    }
    compaction.error = Some("busy".to_owned());
    update["error"] = json!("busy");
    check(&SessionStatePart::Compaction(compaction), update.clone(), Some(update));
}

#[test]
fn an_image_is_a_block() {
    let image = Image::new("image/png", "AAEC");
    let content = Content::from(image.clone());
    assert_eq!(content.to_image(), Some(image));
    assert_eq!(Content::from_text("AAEC").to_image(), None);
    let shown = crate::v1_document(&crate::announce().with_appended_content(content), None);
    let block = json!({"type": "image", "mimeType": "image/png", "data": "AAEC"});
    assert_eq!(shown["content"], json!([{"type": "content", "content": block}]));
}
