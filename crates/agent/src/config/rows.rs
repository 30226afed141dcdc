//! The configuration as rows: key, value and source. API keys are hidden.

use acp_mcp::McpTransport;
use acp_tools::WebSearchSettings;
use callboard_models::provider::Provider;
use serde::Serialize;

use super::{Config, SourcedValue, ValueSource, command_preview_id};

/// A value of the configuration, as it is displayed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ConfigRow {
    pub(crate) key: String,
    /// The value. `None` if the value is not set.
    pub(crate) value: Option<String>,
    /// Source: `default`, `PATH:LINE`, the name of a variable, or a flag.
    pub(crate) source: String,
}

impl Config {
    /// Returns the general values, even if they are not set. Also returns the values of providers
    /// and servers that are set.
    pub(crate) fn display_rows(&self) -> Vec<ConfigRow> {
        let mut rows = vec![
            self.display_row("model", self.model.as_ref(), Clone::clone),
            self.display_row("mode", Some(&self.mode), |mode| mode.id().to_owned()),
            self.display_row("locale", self.locale.as_ref(), Clone::clone),
            self.display_row("terminal.env_pass", self.env_pass.as_ref(), |names| names.join(", ")),
            self.display_row("terminal.preview", Some(&self.command_preview), |preview| {
                command_preview_id(*preview).to_owned()
            }),
            self.display_row("sessions.enabled", Some(&self.stores_sessions), ToString::to_string),
            self.display_row(
                "sessions.keep_days",
                Some(&self.session_keep_days),
                ToString::to_string,
            ),
            self.display_row("sessions.max_bytes", Some(&self.session_bytes), ToString::to_string),
            self.display_row(
                "mcp.first_prompt_wait",
                self.first_prompt_wait.as_ref(),
                ToString::to_string,
            ),
            self.display_row("web.search", self.web_search.as_ref(), WebSearchSettings::host),
        ];
        rows.extend(self.mcp_servers.iter().map(|server| {
            let key = format!("mcp_servers.{}", server.value.name);
            self.display_row(&key, Some(server), |server| match &server.transport {
                McpTransport::Stdio { command, .. } if server.is_sandboxed => {
                    format!("{command} (sandboxed)")
                }
                McpTransport::Stdio { command, .. } => command.clone(),
                McpTransport::Http { url, .. } => url.clone(),
            })
        }));
        for provider in Provider::ALL {
            let of = self.provider(provider);
            let set = [
                self.display_row("base_url", of.base_url.as_ref(), Clone::clone),
                self.display_row("key_env", of.key_env.as_ref(), Clone::clone),
                self.display_row("key", of.key.as_ref(), |_| "(set)".to_owned()),
                self.display_row("ca_file", of.ca_file.as_ref(), |path| path.display().to_string()),
                self.display_row("tools", of.tools.as_ref(), |tools| tools.name().to_owned()),
                self.display_row("context_tokens", of.context_tokens.as_ref(), |tokens| {
                    tokens.get().to_string()
                }),
                self.display_row("models", of.models.as_ref(), |models| models.join(", ")),
            ];
            let key = |key| format!("providers.{}.{key}", provider.name());
            let set = set.into_iter().filter(|row| row.value.is_some());
            rows.extend(set.map(|row| ConfigRow { key: key(row.key), ..row }));
        }
        rows
    }

    fn display_row<T>(
        &self,
        key: &str,
        value: Option<&SourcedValue<T>>,
        show: impl Fn(&T) -> String,
    ) -> ConfigRow {
        let source =
            self.file.describe_source(value.map_or(&ValueSource::Default, |value| &value.source));
        ConfigRow { key: key.to_owned(), value: value.map(|value| show(&value.value)), source }
    }
}
