//! Encodes the state of a session for draft v2: commands, options, title, usage, compactions.

use crate::schema::v2::{self, SessionUpdate};
use crate::wire::{compaction_token_counts_meta, maybe_undefined};
use crate::{
    AvailableCommand, Compaction, CompactionStatus, ConfigCategory, ConfigOption, ContextUsage,
    PermissionOption, PermissionOptionKind, SessionInfo, SessionStatePart,
};

/// Encodes the options of a session for the responses to `session/new` and
/// `session/set_config_option`. In draft v2, the mode is one of the options.
#[must_use]
pub fn encode_config_options(options: &[ConfigOption]) -> Vec<v2::SessionConfigOption> {
    options.iter().map(encode_config_option).collect()
}

fn encode_config_option(option: &ConfigOption) -> v2::SessionConfigOption {
    let ConfigOption { id, name, description, category, current, values } = option;
    let value = |value: &crate::ConfigValue| {
        v2::SessionConfigSelectOption::new(value.value.clone(), &*value.name)
            .description(value.description.clone())
    };
    let values: Vec<_> = values.iter().map(value).collect();
    v2::SessionConfigOption::select(id.clone(), &**name, current.clone(), values)
        .description(description.clone())
        .category(category.map(encode_config_category))
}

fn encode_config_category(category: ConfigCategory) -> v2::SessionConfigOptionCategory {
    match category {
        ConfigCategory::Mode => v2::SessionConfigOptionCategory::Mode,
        ConfigCategory::Model => v2::SessionConfigOptionCategory::Model,
        ConfigCategory::ThoughtLevel => v2::SessionConfigOptionCategory::ThoughtLevel,
    }
}

pub(super) fn encode_permission_option(option: PermissionOption) -> v2::PermissionOption {
    let kind = match option.kind {
        PermissionOptionKind::AllowOnce => v2::PermissionOptionKind::AllowOnce,
        PermissionOptionKind::AllowAlways => v2::PermissionOptionKind::AllowAlways,
        PermissionOptionKind::RejectOnce => v2::PermissionOptionKind::RejectOnce,
        PermissionOptionKind::RejectAlways => v2::PermissionOptionKind::RejectAlways,
    };
    v2::PermissionOption::new(option.id, option.name, kind)
}

/// Encodes a part of the state. Returns `None` for a mode, which is an option in draft v2.
pub(super) fn encode_session_state(
    state: &SessionStatePart,
    meta_key: &str,
) -> Option<SessionUpdate> {
    Some(match state {
        SessionStatePart::Commands(commands) => {
            let commands = commands.iter().map(encode_command).collect();
            SessionUpdate::AvailableCommandsUpdate(v2::AvailableCommandsUpdate::new(commands))
        }
        SessionStatePart::Mode(_) => return None,
        SessionStatePart::Options(options) => {
            let update = v2::ConfigOptionUpdate::new(encode_config_options(options));
            SessionUpdate::ConfigOptionUpdate(update)
        }
        SessionStatePart::Info(info) => SessionUpdate::SessionInfoUpdate(encode_session_info(info)),
        SessionStatePart::Usage(usage) => SessionUpdate::UsageUpdate(encode_context_usage(usage)),
        SessionStatePart::Compaction(compaction) => {
            SessionUpdate::CompactionUpdate(encode_compaction(compaction, meta_key))
        }
    })
}

fn encode_command(command: &AvailableCommand) -> v2::AvailableCommand {
    let AvailableCommand { name, description, hint } = command;
    let input =
        hint.as_ref().map(|hint| v2::AvailableCommandInput::Text(v2::TextCommandInput::new(hint)));
    v2::AvailableCommand::Command(v2::Command::new(name, description).input(input))
}

fn encode_session_info(info: &SessionInfo) -> v2::SessionInfoUpdate {
    let mut update = v2::SessionInfoUpdate::new();
    update.title = maybe_undefined(info.title.clone());
    update.updated_at = maybe_undefined(info.updated_at.clone());
    update
}

fn encode_context_usage(usage: &ContextUsage) -> v2::UsageUpdate {
    let cost = usage.cost.as_ref().map(|cost| v2::Cost::new(cost.amount, &*cost.currency));
    let mut update = v2::UsageUpdate::new(usage.used, usage.size);
    update.cost = maybe_undefined(cost);
    update
}

fn encode_compaction(compaction: &Compaction, meta_key: &str) -> v2::CompactionUpdate {
    let status = match compaction.status {
        CompactionStatus::InProgress => v2::CompactionStatus::InProgress,
        CompactionStatus::Completed => v2::CompactionStatus::Completed,
        CompactionStatus::Failed => v2::CompactionStatus::Failed,
        CompactionStatus::Cancelled => v2::CompactionStatus::Cancelled,
    };
    let blocks = compaction.summary.iter().map(|text| v2::ContentBlock::from(text.as_str()));
    let mut update = v2::CompactionUpdate::new(compaction.id.clone(), status)
        .summary(blocks.collect::<Vec<_>>());
    update.error = maybe_undefined(compaction.error.clone());
    update.meta = maybe_undefined(compaction_token_counts_meta(compaction, meta_key));
    update
}
