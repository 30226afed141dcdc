//! What the user has chosen, and where each value is from: flags, the environment, one file.
//!
//! It knows nothing of stored keys, and nothing of what a model does. Nothing in a workspace is
//! configuration.

mod file;
mod show;
mod variables;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use callboard_models::check_spec;
use callboard_models::provider::{Key, Provider, ToolCalling};
use callboard_process::env::is_secret;
use callboard_runtime::{Mode, private_files as private};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize;

use crate::folders;
use crate::limits::MAX_CONFIG_BYTES;

use file::File;
pub(crate) use show::Row;

/// A value, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value<T> {
    pub(crate) value: T,
    pub(crate) source: Source,
}

/// Where a value is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    /// The file, from this byte on.
    File(usize),
    Variable(String),
    Flag(&'static str),
}

/// What the command line says.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Flags {
    /// The model: PROVIDER/NAME, `direct` (commands, no model) or `script:FILE` (a written
    /// reply). Else that of CALLBOARD_MODEL, the configuration, or the first that is found.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The language of what is shown, such as `de`; else that of CALLBOARD_LOCALE, the configuration,
    /// LC_ALL, LC_MESSAGES or LANG. English where there are none in it.
    #[arg(long, value_name = "LOCALE")]
    pub(crate) locale: Option<String>,
    /// What is done about calls that no rule speaks of; else that of CALLBOARD_MODE or the
    /// configuration.
    #[arg(long, value_parser = modes(), value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
}

fn modes() -> impl TypedValueParser<Value = Mode> {
    let value = |mode: &Mode| PossibleValue::new(mode.id()).help(mode.description());
    PossibleValuesParser::new(Mode::all().iter().map(value))
        .try_map(|id| Mode::parse(&id).ok_or("there is no such mode"))
}

/// Everything that is configured. What nobody chose is none, where there is no default.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) file: File,
    pub(crate) model: Option<Value<String>>,
    pub(crate) mode: Value<Mode>,
    pub(crate) locale: Option<Value<String>>,
    /// Variables that commands get beside the usual ones.
    pub(crate) env_pass: Option<Value<Vec<String>>>,
    providers: BTreeMap<Provider, ProviderConfig>,
}

/// What is configured of one provider.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderConfig {
    pub(crate) base_url: Option<Value<String>>,
    /// The variable that holds the key, in the place of the provider's own.
    pub(crate) key_env: Option<Value<String>>,
    /// Never in the file.
    #[serde(skip)]
    pub(crate) key: Option<Value<Key>>,
    pub(crate) ca_file: Option<Value<PathBuf>>,
    pub(crate) tools: Option<Value<ToolCalling>>,
    pub(crate) context_tokens: Option<Value<NonZeroU64>>,
    /// Names of models to choose among; the first is what this provider's default is.
    pub(crate) models: Option<Value<Vec<String>>>,
}

/// A value that cannot be used. The text says where it stands, and never what it was if it may
/// have been a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub(crate) struct ConfigError {
    place: String,
    what: String,
}

impl ConfigError {
    /// Whether it is the command line that is wrong.
    pub(crate) fn is_of_flag(&self) -> bool {
        self.place.starts_with("--")
    }
}

impl Config {
    /// Reads the file that the environment names, if it is there, and lays environment and flags
    /// over it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or others can change it; the first value that makes no sense.
    pub(crate) fn load(env: &[(String, String)], flags: Flags) -> Result<Self, ConfigError> {
        let path = path(env);
        let text = path.as_ref().map(|path| {
            let text = private::read_linked(path, MAX_CONFIG_BYTES).and_then(|bytes| {
                let text = bytes.map(String::from_utf8).transpose();
                text.map_err(|_bytes| std::io::Error::other("it is not UTF-8"))
            });
            let place = || path.display().to_string();
            text.map_err(|error| ConfigError { place: place(), what: error.to_string() })
        });
        Self::of(path, &text.transpose()?.flatten().unwrap_or_default(), env, flags)
    }

    /// Lays environment and flags over the text of the file; reads nothing else.
    pub(crate) fn of(
        path: Option<PathBuf>,
        text: &str,
        env: &[(String, String)],
        flags: Flags,
    ) -> Result<Self, ConfigError> {
        let file = File::new(path, text);
        let written = file.parse(text)?;
        let variable = |name: &str| variables::value(env, name);
        let mode = match (flags.mode, variable("CALLBOARD_MODE").or(written.mode)) {
            (Some(value), _) => Value { value, source: Source::Flag("--mode") },
            (None, Some(Value { value, source })) => match Mode::parse(&value) {
                Some(value) => Value { value, source },
                None => return Err(file.error(&source, no_mode())),
            },
            (None, None) => Value { value: Mode::default(), source: Source::Default },
        };
        let model = flag(flags.model, "--model").or(variable("CALLBOARD_MODEL")).or(written.model);
        let locale = flag(flags.locale, "--locale").or(variable("CALLBOARD_LOCALE"));
        let mut providers = written.providers;
        for provider in Provider::ALL {
            variables::lay_url_over(provider, providers.entry(provider).or_default(), env);
        }
        inherit(&mut providers);
        for (provider, of) in &mut providers {
            file.check(of.base_url.as_ref(), |url| check_base_url(url))?;
            file.check(of.key_env.as_ref(), |name| check_variable(name))?;
            file.check(of.models.as_ref(), |names| check_models(names))?;
            if let Some(ca_file) = &mut of.ca_file {
                ca_file.value = file.folder().join(&ca_file.value);
            }
            of.key = variables::key(*provider, of, env);
        }
        let check_spec = |name: &String| check_spec(name).map_err(|error| error.to_string());
        file.check(model.as_ref(), check_spec)?;
        let env_pass = written.terminal.env_pass;
        file.check(env_pass.as_ref(), |names| check_passed(names))?;
        Ok(Self { model, mode, locale: locale.or(written.locale), env_pass, providers, file })
    }

    /// Returns what is configured of a provider.
    pub(crate) fn provider(&self, provider: Provider) -> &ProviderConfig {
        // `of` has made one for each.
        &self.providers[&provider]
    }
}

/// Gives the second dialect of OpenAI what is configured of the first, where it has none of its own:
/// they are one account at one server. A server of its own has a key and an authority of its own.
fn inherit(providers: &mut BTreeMap<Provider, ProviderConfig>) {
    let openai = providers.entry(Provider::OpenAi).or_default();
    let (base_url, key_env) = (openai.base_url.clone(), openai.key_env.clone());
    let ca_file = openai.ca_file.clone();
    let responses = providers.entry(Provider::OpenAiResponses).or_default();
    let address = |url: &Option<Value<String>>| url.as_ref().map(|url| url.value.clone());
    if responses.base_url.is_none() || address(&responses.base_url) == address(&base_url) {
        responses.base_url = responses.base_url.take().or(base_url);
        responses.key_env = responses.key_env.take().or(key_env);
        responses.ca_file = responses.ca_file.take().or(ca_file);
    }
}

/// `$XDG_CONFIG_HOME/callboard/config.toml`, or that below `~/.config`; none where neither is an
/// absolute path (<https://specifications.freedesktop.org/basedir-spec/latest/>).
pub(crate) fn path(env: &[(String, String)]) -> Option<PathBuf> {
    Some(folders::of_user(env, "XDG_CONFIG_HOME", ".config")?.join("config.toml"))
}

fn flag(value: Option<String>, name: &'static str) -> Option<Value<String>> {
    value.map(|value| Value { value, source: Source::Flag(name) })
}

fn no_mode() -> String {
    let names: Vec<_> = Mode::all().iter().map(|mode| format!("`{}`", mode.id())).collect();
    format!("mode has to be one of {}", names.join(", "))
}

/// Says what is wrong with the address of a server, if it is none.
pub(crate) fn check_base_url(url: &str) -> Result<(), String> {
    let parsed = url::Url::parse(url).ok();
    let is_web = parsed.is_some_and(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    if is_web { Ok(()) } else { Err("base_url has to be a URL with http or https".to_owned()) }
}

/// Who writes the key itself here must not find it in an error.
fn check_variable(name: &str) -> Result<(), String> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let starts_well = name.starts_with(|first: char| !first.is_ascii_digit());
    if starts_well && name.chars().all(is_word) {
        return Ok(());
    }
    Err("key_env has to name a variable, such as OPENAI_API_KEY, and not to be a key".to_owned())
}

fn check_passed(names: &[String]) -> Result<(), String> {
    let named = |name| format!("env_pass: {name} is named like a secret, which no command gets");
    names.iter().find(|name| is_secret(name, "")).map_or(Ok(()), |name| Err(named(name)))
}

fn check_models(names: &[String]) -> Result<(), String> {
    let is_named = !names.is_empty() && names.iter().all(|name| !name.is_empty());
    if is_named { Ok(()) } else { Err("models has to hold names of models".to_owned()) }
}

#[cfg(test)]
mod tests;
