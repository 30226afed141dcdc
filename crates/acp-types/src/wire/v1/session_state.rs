//! Encodes the state of a session for v1: commands, mode, options, title, usage, compactions.

use crate::schema::v1::{self, SessionUpdate};
use crate::wire::{compaction_token_counts_meta, maybe_undefined};
use crate::{
    AvailableCommand, Compaction, CompactionStatus, ConfigCategory, ConfigOption, ContextUsage,
    PermissionOption, PermissionOptionKind, SessionInfo, SessionModes, SessionStatePart,
};

/// Encodes the modes of a session for the response to `session/new`.
#[must_use]
pub fn encode_modes(modes: &SessionModes) -> v1::SessionModeState {
    let mode = |mode: &crate::SessionMode| {
        v1::SessionMode::new(mode.id.clone(), &*mode.name).description(mode.description.clone())
    };
    let available = modes.available.iter().map(mode).collect();
    v1::SessionModeState::new(modes.current.clone(), available)
}

/// Encodes the options of a session for the responses to `session/new` and
/// `session/set_config_option`.
#[must_use]
pub fn encode_config_options(options: &[ConfigOption]) -> Vec<v1::SessionConfigOption> {
    options.iter().map(encode_config_option).collect()
}

fn encode_config_option(option: &ConfigOption) -> v1::SessionConfigOption {
    let ConfigOption { id, name, description, category, current, values } = option;
    let value = |value: &crate::ConfigValue| {
        v1::SessionConfigSelectOption::new(value.value.clone(), &*value.name)
            .description(value.description.clone())
    };
    let values: Vec<_> = values.iter().map(value).collect();
    v1::SessionConfigOption::select(id.clone(), &**name, current.clone(), values)
        .description(description.clone())
        .category(category.map(encode_config_category))
}

fn encode_config_category(category: ConfigCategory) -> v1::SessionConfigOptionCategory {
    match category {
        ConfigCategory::Mode => v1::SessionConfigOptionCategory::Mode,
        ConfigCategory::Model => v1::SessionConfigOptionCategory::Model,
        ConfigCategory::ThoughtLevel => v1::SessionConfigOptionCategory::ThoughtLevel,
    }
}

pub(super) fn encode_permission_option(option: PermissionOption) -> v1::PermissionOption {
    let kind = match option.kind {
        PermissionOptionKind::AllowOnce => v1::PermissionOptionKind::AllowOnce,
        PermissionOptionKind::AllowAlways => v1::PermissionOptionKind::AllowAlways,
        PermissionOptionKind::RejectOnce => v1::PermissionOptionKind::RejectOnce,
        PermissionOptionKind::RejectAlways => v1::PermissionOptionKind::RejectAlways,
    };
    v1::PermissionOption::new(option.id, option.name, kind)
}

pub(super) fn encode_session_state(state: &SessionStatePart, meta_key: &str) -> SessionUpdate {
    match state {
        SessionStatePart::Commands(commands) => {
            let commands = commands.iter().map(encode_command).collect();
            SessionUpdate::AvailableCommandsUpdate(v1::AvailableCommandsUpdate::new(commands))
        }
        SessionStatePart::Mode(id) => {
            SessionUpdate::CurrentModeUpdate(v1::CurrentModeUpdate::new(id.clone()))
        }
        SessionStatePart::Options(options) => {
            let update = v1::ConfigOptionUpdate::new(encode_config_options(options));
            SessionUpdate::ConfigOptionUpdate(update)
        }
        SessionStatePart::Info(info) => SessionUpdate::SessionInfoUpdate(encode_session_info(info)),
        SessionStatePart::Usage(usage) => SessionUpdate::UsageUpdate(encode_context_usage(usage)),
        SessionStatePart::Compaction(compaction) => {
            SessionUpdate::CompactionUpdate(encode_compaction(compaction, meta_key))
        }
    }
}

fn encode_command(command: &AvailableCommand) -> v1::AvailableCommand {
    let AvailableCommand { name, description, hint } = command;
    let input = hint.as_ref().map(|hint| {
        v1::AvailableCommandInput::Unstructured(v1::UnstructuredCommandInput::new(hint))
    });
    v1::AvailableCommand::new(name, description).input(input)
}

fn encode_session_info(info: &SessionInfo) -> v1::SessionInfoUpdate {
    let mut update = v1::SessionInfoUpdate::new();
    update.title = maybe_undefined(info.title.clone());
    update.updated_at = maybe_undefined(info.updated_at.clone());
    update
}

fn encode_context_usage(usage: &ContextUsage) -> v1::UsageUpdate {
    let cost = usage.cost.as_ref().map(|cost| v1::Cost::new(cost.amount, &*cost.currency));
    v1::UsageUpdate::new(usage.used, usage.size).cost(cost)
}

fn encode_compaction(compaction: &Compaction, meta_key: &str) -> v1::CompactionUpdate {
    let status = match compaction.status {
        CompactionStatus::InProgress => v1::CompactionStatus::InProgress,
        CompactionStatus::Completed => v1::CompactionStatus::Completed,
        CompactionStatus::Failed => v1::CompactionStatus::Failed,
        CompactionStatus::Cancelled => v1::CompactionStatus::Cancelled,
    };
    let blocks = compaction.summary.iter().map(|text| v1::ContentBlock::from(text.as_str()));
    let mut update = v1::CompactionUpdate::new(compaction.id.clone(), status)
        .summary(blocks.collect::<Vec<_>>());
    update.error = maybe_undefined(compaction.error.clone());
    update.meta = maybe_undefined(compaction_token_counts_meta(compaction, meta_key));
    update
}
