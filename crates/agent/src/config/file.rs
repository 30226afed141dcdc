//! The file: TOML, every key of it known, every value with its line.
//!
//! It knows nothing of what lies over it.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use callboard_models::provider::{Provider, ToolCalling};
use callboard_process::env::is_secret;
use serde::Deserialize;
use toml::Spanned;

use super::{ConfigError, ProviderConfig, Source, Value};

/// What the file says.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) model: Option<Value<String>>,
    pub(super) mode: Option<Value<String>>,
    pub(super) locale: Option<Value<String>>,
    pub(super) env_pass: Option<Value<Vec<String>>>,
    pub(super) providers: BTreeMap<Provider, ProviderConfig>,
}

/// Parses the text of the file at `path`. Paths in it are relative to its folder.
pub(super) fn parse(path: &Path, text: &str) -> Result<Written, ConfigError> {
    if text.is_empty() {
        // As where there is no file, which is no reason to wake the parser at every start.
        return Ok(Written::default());
    }
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| format!(":{}", line(text, span.start)));
        let place = format!("{}{}", path.display(), line.unwrap_or_default());
        // One line; the parser's own text would show that of the file, which may hold a key.
        ConfigError { place, what: error.message().replace('\n', ", ") }
    })?;
    let tables = [
        (Provider::Anthropic, file.providers.anthropic),
        (Provider::OpenAi, file.providers.openai),
        (Provider::OpenAiResponses, file.providers.openai_responses),
        (Provider::Gemini, file.providers.gemini),
        (Provider::Ollama, file.providers.ollama),
    ];
    let at = At { path, text };
    let env_pass = file.terminal.env_pass.map(|it| at.value(it).checked(path, to_passed));
    let providers = tables.into_iter().map(|(provider, table)| Ok((provider, at.table(table)?)));
    Ok(Written {
        providers: providers.collect::<Result<_, ConfigError>>()?,
        model: file.model.map(|it| at.value(it)),
        mode: file.mode.map(|it| at.value(it)),
        locale: file.locale.map(|it| at.value(it)),
        env_pass: env_pass.transpose()?,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Option<Spanned<String>>,
    mode: Option<Spanned<String>>,
    locale: Option<Spanned<String>>,
    #[serde(default)]
    terminal: Terminal,
    #[serde(default)]
    providers: Providers,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Terminal {
    env_pass: Option<Spanned<Vec<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Providers {
    anthropic: Table,
    openai: Table,
    openai_responses: Table,
    gemini: Table,
    ollama: Table,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    base_url: Option<Spanned<String>>,
    key_env: Option<Spanned<String>>,
    ca_file: Option<Spanned<PathBuf>>,
    tools: Option<Spanned<Tools>>,
    context_tokens: Option<Spanned<NonZeroU64>>,
    models: Option<Spanned<Vec<String>>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tools {
    Native,
    JsonSchema,
}

impl From<Tools> for ToolCalling {
    fn from(tools: Tools) -> Self {
        match tools {
            Tools::Native => Self::Native,
            Tools::JsonSchema => Self::JsonSchema,
        }
    }
}

/// The file that spans point into.
struct At<'a> {
    path: &'a Path,
    text: &'a str,
}

impl At<'_> {
    fn value<T, U: From<T>>(&self, spanned: Spanned<T>) -> Value<U> {
        let source = Source::File(line(self.text, spanned.span().start));
        Value { value: spanned.into_inner().into(), source }
    }

    fn table(&self, table: Table) -> Result<ProviderConfig, ConfigError> {
        let key_env = table.key_env.map(|it| self.value(it).checked(self.path, to_variable));
        let models = table.models.map(|it| self.value(it).checked(self.path, to_models));
        let ca_file = table.ca_file.map(|it| self.value::<_, PathBuf>(it));
        let folder = self.path.parent().unwrap_or(self.path);
        Ok(ProviderConfig {
            base_url: table.base_url.map(|it| self.value(it)),
            key_env: key_env.transpose()?,
            key: None,
            ca_file: ca_file.map(|it| Value { value: folder.join(it.value), ..it }),
            tools: table.tools.map(|it| self.value(it)),
            context_tokens: table.context_tokens.map(|it| self.value(it)),
            models: models.transpose()?,
        })
    }
}

/// Who writes the key itself here must not find it in an error.
fn to_variable(name: String) -> Result<String, String> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let starts_well = name.starts_with(|first: char| !first.is_ascii_digit());
    if starts_well && name.chars().all(is_word) {
        return Ok(name);
    }
    Err("key_env has to name a variable, such as OPENAI_API_KEY, and not to be a key".to_owned())
}

fn to_passed(names: Vec<String>) -> Result<Vec<String>, String> {
    match names.iter().find(|name| is_secret(name, "")) {
        Some(name) => {
            Err(format!("env_pass: {name} is named like a secret, which no command gets"))
        }
        None => Ok(names),
    }
}

fn to_models(names: Vec<String>) -> Result<Vec<String>, String> {
    let is_named = !names.is_empty() && names.iter().all(|name| !name.is_empty());
    if is_named { Ok(names) } else { Err("models has to hold names of models".to_owned()) }
}

fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    1 + before.filter(|byte| **byte == b'\n').count()
}
