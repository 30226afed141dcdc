//! What is configured as rows: a key, its value, where it is from. Keys of providers are not shown.

use std::path::Path;

use callboard_models::provider::{Provider, ToolCalling};
use serde::Serialize;

use super::{Config, Source, Value};

/// One value, as it is shown.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    pub(crate) key: String,
    /// None if there is none.
    pub(crate) value: Option<String>,
    /// `default`, `PATH:LINE`, the name of a variable, or a flag.
    pub(crate) source: String,
}

impl Config {
    /// Lists the values that are not specific to a provider, and those of providers that are set.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let file = self.path.as_deref().unwrap_or(Path::new(""));
        let mut rows = vec![
            row(file, "model", self.model.as_ref(), Clone::clone),
            row(file, "mode", Some(&self.mode), |mode| self::mode(*mode)),
            row(file, "locale", self.locale.as_ref(), Clone::clone),
            row(file, "terminal.env_pass", self.env_pass.as_ref(), |names| names.join(", ")),
        ];
        for provider in Provider::ALL {
            let of = self.provider(provider);
            let set = [
                row(file, "base_url", of.base_url.as_ref(), Clone::clone),
                row(file, "key_env", of.key_env.as_ref(), Clone::clone),
                row(file, "key", of.key.as_ref(), |_| "(set)".to_owned()),
                row(file, "ca_file", of.ca_file.as_ref(), |path| path.display().to_string()),
                row(file, "tools", of.tools.as_ref(), |tools| self::tools(*tools).to_owned()),
                row(file, "context_tokens", of.context_tokens.as_ref(), u64::to_string),
                row(file, "models", of.models.as_ref(), |models| models.join(", ")),
            ];
            let set = set.into_iter().filter(|row| row.value.is_some());
            rows.extend(set.map(|row| Row {
                key: format!("providers.{}.{}", provider.name(), row.key),
                ..row
            }));
        }
        rows
    }
}

fn row<T>(file: &Path, key: &str, value: Option<&Value<T>>, show: impl Fn(&T) -> String) -> Row {
    let source = value.map_or(&Source::Default, |value| &value.source).place(file);
    Row { key: key.to_owned(), value: value.map(|value| show(&value.value)), source }
}

fn mode(mode: callboard_runtime::Mode) -> String {
    mode.id().to_owned()
}

fn tools(tools: ToolCalling) -> &'static str {
    match tools {
        ToolCalling::Native => "native",
        ToolCalling::JsonSchema => "json_schema",
    }
}
