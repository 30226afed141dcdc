//! The state of a session, except its messages and calls.

use acp_types::schema::MaybeUndefined;
use acp_types::schema::v1::{
    AvailableCommand, SessionConfigKind, SessionConfigOption, SessionConfigSelectOptions,
    SessionUpdate, UsageUpdate,
};
use callboard_text::{escape_invisible_truncated, group_thousands};

use crate::limits::{MAX_LINE_CHARS, MAX_LIST_ITEMS};

/// The latest title, options, usage and commands of a session, as escaped lines.
#[derive(Debug, Default)]
pub(super) struct SessionFacts {
    pub(super) title: Option<String>,
    pub(super) updated_at: Option<String>,
    mode: Option<String>,
    /// Names of the options and of their values.
    options: Vec<(String, String)>,
    context: Option<String>,
    cost: Option<String>,
    /// Names of the commands and their descriptions.
    pub(super) commands: Vec<(String, String)>,
}

impl SessionFacts {
    /// Applies an update. Other kinds of updates change nothing.
    pub(super) fn apply_update(&mut self, update: &SessionUpdate) {
        match update {
            SessionUpdate::SessionInfoUpdate(info) => {
                set_or_clear_if_defined(&mut self.title, &info.title);
                set_or_clear_if_defined(&mut self.updated_at, &info.updated_at);
            }
            SessionUpdate::CurrentModeUpdate(update) => {
                self.mode = Some(escape_and_truncate_line(&update.current_mode_id.0));
            }
            SessionUpdate::ConfigOptionUpdate(update) => {
                let options = update.config_options.iter().take(MAX_LIST_ITEMS);
                self.options = options.filter_map(option_name_and_value).collect();
            }
            SessionUpdate::UsageUpdate(usage) => self.set_usage(usage),
            SessionUpdate::AvailableCommandsUpdate(update) => {
                let commands = update.available_commands.iter().take(MAX_LIST_ITEMS);
                self.commands = commands.map(command_name_and_description).collect();
            }
            _ => {}
        }
    }

    fn set_usage(&mut self, usage: &UsageUpdate) {
        let [used, size] = [usage.used, usage.size].map(group_thousands);
        self.context = Some(format!("{used} of {size} tokens"));
        if let Some(cost) = &usage.cost {
            self.cost =
                Some(format!("{:.2} {}", cost.amount, escape_and_truncate_line(&cost.currency)));
        }
    }

    /// Returns the names and values that are shown at the beginning of a transcript.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, &str)> {
        // Many agents send the mode as an option too.
        let has_option = |name: &str| self.options.iter().any(|(own, _)| own == name);
        let mode = self.mode.as_deref().filter(|_| !has_option("Mode"));
        let row = |name, value| Option::map(value, |value| (name, value));
        let options = self.options.iter().map(|(name, value)| (&**name, &**value));
        options
            .chain(row("Mode", mode))
            .chain(row("Context", self.context.as_deref()))
            .chain(row("Cost", self.cost.as_deref()))
    }
}

fn set_or_clear_if_defined(field: &mut Option<String>, value: &MaybeUndefined<String>) {
    match value {
        MaybeUndefined::Undefined => {}
        MaybeUndefined::Null => *field = None,
        MaybeUndefined::Value(text) => *field = Some(escape_and_truncate_line(text)),
    }
}

fn option_name_and_value(option: &SessionConfigOption) -> Option<(String, String)> {
    let value = match &option.kind {
        SessionConfigKind::Select(select) => {
            let groups: Vec<_> = match &select.options {
                SessionConfigSelectOptions::Ungrouped(all) => vec![all],
                SessionConfigSelectOptions::Grouped(groups) => {
                    groups.iter().map(|group| &group.options).collect()
                }
                _ => Vec::new(),
            };
            let mut all = groups.into_iter().flatten();
            let current = all.find(|option| option.value == select.current_value);
            escape_and_truncate_line(
                current.map_or(&*select.current_value.0, |current| &current.name),
            )
        }
        SessionConfigKind::Boolean(switch) => {
            if switch.current_value { "on" } else { "off" }.to_owned()
        }
        _ => return None,
    };
    Some((escape_and_truncate_line(&option.name), value))
}

fn command_name_and_description(command: &AvailableCommand) -> (String, String) {
    (escape_and_truncate_line(&command.name), escape_and_truncate_line(&command.description))
}

fn escape_and_truncate_line(text: &str) -> String {
    escape_invisible_truncated(text, MAX_LINE_CHARS).0
}
