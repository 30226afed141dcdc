//! The user's configuration from flags, environment and one file, with the source of each value.
//!
//! Files in a project folder are never part of the configuration.

mod edit;
mod env_vars;
mod file;
mod mcp;
mod positive_number;
mod rows;
mod server_text;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_lifecycle::{Titles, title};
use acp_mcp::McpServerConfig;
use acp_tools::sandbox::PreviewSetting;
use acp_tools::{CATALOGUES, WebSearchSettings};
use callboard_models::check_model_spec;
use callboard_models::provider::{ApiKey, Provider, ToolCalling};
use callboard_process::env::is_secret_name_or_value;
use callboard_runtime::{PermissionMode, SessionRetention, private_files as private};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize;

use crate::limits::MAX_CONFIG_FILE_BYTES;
use crate::{secrets, user_folders};

pub(crate) use edit::{add_mcp_server, remove_mcp_server};
use file::{ConfigFileLineIndex, ParsedConfig, SessionsSection};
use mcp::McpServerSection;
use positive_number::PositiveNumber;
pub(crate) use rows::ConfigRow;
use web::SearchSection;

/// A value with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourcedValue<T> {
    pub(crate) value: T,
    pub(crate) source: ValueSource,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueSource {
    Default,
    /// The file, with the byte offset of the value.
    File(usize),
    Variable(String),
    Flag(&'static str),
}

/// The flags of the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Flags {
    /// The model: PROVIDER/NAME, `direct` (commands, no model) or `script:FILE` (replies from a
    /// file). Default: CALLBOARD_MODEL, the configuration, or the first model that is found.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The language of messages, `en` or `de`. Default: CALLBOARD_LOCALE, the configuration,
    /// LC_ALL, LC_MESSAGES or LANG. English if LC_ALL, LC_MESSAGES or LANG name another language.
    #[arg(long, value_name = "LOCALE")]
    pub(crate) locale: Option<String>,
    /// The permission mode for calls that no rule matches. Default: CALLBOARD_MODE or the
    /// configuration.
    #[arg(long, value_parser = permission_mode_parser(), value_name = "MODE")]
    pub(crate) mode: Option<PermissionMode>,
    /// Do not store sessions; they end with this process.
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Run commands without a sandbox, with all rights of this user.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

fn permission_mode_parser() -> impl TypedValueParser<Value = PermissionMode> {
    let value = |mode: &PermissionMode| PossibleValue::new(mode.id()).help(mode.description());
    PossibleValuesParser::new(PermissionMode::all().iter().map(value))
        .try_map(|id| PermissionMode::parse(&id).ok_or("there is no such mode"))
}

/// The configuration. Values that are not set and have no default are `None`.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) file: ConfigFileLineIndex,
    pub(crate) model: Option<SourcedValue<String>>,
    pub(crate) mode: SourcedValue<PermissionMode>,
    pub(crate) locale: Option<SourcedValue<String>>,
    /// Additional environment variables for commands.
    pub(crate) env_pass: Option<SourcedValue<Vec<String>>>,
    /// When commands run on copies of the project folders first.
    pub(crate) command_preview: SourcedValue<PreviewSetting>,
    /// Whether sessions are stored.
    pub(crate) stores_sessions: SourcedValue<bool>,
    session_keep_days: SourcedValue<u64>,
    session_bytes: SourcedValue<u64>,
    /// The MCP servers of each session.
    pub(crate) mcp_servers: Vec<SourcedValue<McpServerConfig>>,
    /// Configured number of seconds for which the first prompt of a session waits for servers.
    pub(crate) first_prompt_wait: Option<SourcedValue<u64>>,
    /// The service for searches of the web.
    pub(crate) web_search: Option<SourcedValue<WebSearchSettings>>,
    providers: BTreeMap<Provider, ProviderConfig>,
}

/// The configuration of one provider.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderConfig {
    pub(crate) base_url: Option<SourcedValue<String>>,
    /// Name of the variable with the key. It replaces the provider's default variables.
    pub(crate) key_env: Option<SourcedValue<String>>,
    /// The API key, which comes from the environment and is never in the file.
    #[serde(skip)]
    pub(crate) key: Option<SourcedValue<ApiKey>>,
    pub(crate) ca_file: Option<SourcedValue<PathBuf>>,
    pub(crate) tools: Option<SourcedValue<ToolCalling>>,
    pub(crate) context_tokens: Option<SourcedValue<PositiveNumber>>,
    /// Models to choose from; the first model is the default of this provider.
    pub(crate) models: Option<SourcedValue<Vec<String>>>,
}

/// An error about an invalid value. The message contains the location of the value, but never a
/// value that may be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub(crate) struct ConfigError {
    place: String,
    what: String,
    is_unknown_model: bool,
}

impl ConfigError {
    fn new_at_place(place: String, what: String) -> Self {
        Self { place, what, is_unknown_model: false }
    }

    fn new_in_file(path: &Path, what: String) -> Self {
        Self::new_at_place(path.display().to_string(), what)
    }

    /// Returns whether the error is in a flag of the command line.
    pub(crate) fn is_flag_error(&self) -> bool {
        self.place.starts_with("--")
    }

    /// Returns whether the user named a model that does not exist.
    pub(crate) fn is_unknown_model(&self) -> bool {
        self.is_unknown_model
    }
}

impl Config {
    /// Loads the file that the environment selects, if it exists. Environment and flags override
    /// the values of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, if other users can write to it, or if a value
    /// is invalid.
    pub(crate) fn load(env: &[(String, String)], flags: Flags) -> Result<Self, ConfigError> {
        let path = config_file_path(env);
        let text = path.as_deref().map(read_config_text).transpose()?.flatten();
        Self::merge_sources(path, &text.unwrap_or_default(), env, flags)
    }

    /// Parses the text of the file, and overrides its values from environment and flags. The caller
    /// reads the file.
    pub(crate) fn merge_sources(
        path: Option<PathBuf>,
        text: &str,
        env: &[(String, String)],
        flags: Flags,
    ) -> Result<Self, ConfigError> {
        let file = ConfigFileLineIndex::new(path, text);
        let written = file.parse(text)?;
        check_overridable_file_values(&file, &written)?;
        let variable = |name: &str| env_vars::env_value(env, name);
        let mode = match (flags.mode, variable("CALLBOARD_MODE").or(written.mode)) {
            (Some(value), _) => SourcedValue { value, source: ValueSource::Flag("--mode") },
            (None, Some(SourcedValue { value, source })) => match PermissionMode::parse(&value) {
                Some(value) => SourcedValue { value, source },
                None => return Err(file.error_at_source(&source, unknown_mode_message())),
            },
            (None, None) => {
                SourcedValue { value: PermissionMode::default(), source: ValueSource::Default }
            }
        };
        let model = sourced_flag_value(flags.model, "--model")
            .or(variable("CALLBOARD_MODEL"))
            .or(written.model);
        let locale = sourced_flag_value(flags.locale, "--locale").or(variable("CALLBOARD_LOCALE"));
        let mut providers = written.providers;
        for provider in Provider::ALL {
            env_vars::override_base_url(provider, providers.entry(provider).or_default(), env);
        }
        let openai_servers = inherit_openai_dialect_settings(&mut providers);
        for (provider, of) in &mut providers {
            file.check_value(of.base_url.as_ref(), |url| check_base_url(url))?;
            file.check_value(of.key_env.as_ref(), |name| check_variable_name(name))?;
            file.check_value(of.models.as_ref(), |names| check_model_names_nonempty(names))?;
            if let Some(ca_file) = &mut of.ca_file {
                ca_file.value = file.folder().join(&ca_file.value);
            }
            let is_separate = *provider == Provider::OpenAiResponses
                && openai_servers == OpenAiServerSharing::Separate;
            if of.key_env.is_some() || !is_separate {
                of.key = env_vars::find_provider_key(*provider, of, env);
            }
        }
        check_model(&file, model.as_ref())?;
        let command_preview = match written.terminal.preview {
            Some(preview) => file.convert_value(preview, |id| parse_command_preview(&id))?,
            None => SourcedValue { value: PreviewSetting::default(), source: ValueSource::Default },
        };
        let env_pass = written.terminal.env_pass;
        file.check_value(env_pass.as_ref(), |names| check_env_pass_without_secrets(names))?;
        let stores_sessions = match (flags.ephemeral, written.sessions.enabled) {
            (true, _) => SourcedValue { value: false, source: ValueSource::Flag("--ephemeral") },
            (false, Some(enabled)) => enabled,
            (false, None) => SourcedValue { value: true, source: ValueSource::Default },
        };
        let default = SessionRetention::default();
        let SessionsSection { keep_days, max_bytes, .. } = written.sessions;
        let session_keep_days = number_or(keep_days, default.keep.as_secs() / SECONDS_OF_DAY);
        let session_bytes = number_or(max_bytes, default.max_bytes);
        let locale = locale.or(written.locale);
        file.check_value(locale.as_ref(), |locale| check_locale(locale))?;
        let mcp_servers = written.mcp_servers.into_iter().map(|(name, section)| {
            let to_config = |it: McpServerSection| it.to_server_config(&name, file.folder(), env);
            file.convert_value(section, to_config)
        });
        let mcp_servers = mcp_servers.collect::<Result<_, _>>()?;
        let to_search = |section: SearchSection| section.to_web_search(env);
        let search = written.web.search.map(|section| file.convert_value(section, to_search));
        Ok(Self {
            web_search: search.transpose()?,
            mcp_servers,
            first_prompt_wait: written.mcp.first_prompt_wait,
            model,
            mode,
            locale,
            env_pass,
            command_preview,
            stores_sessions,
            session_keep_days,
            session_bytes,
            providers,
            file,
        })
    }

    /// Returns the locale of messages: the configured locale, or else the locale of the
    /// environment.
    pub(crate) fn locale(&self, env: &[(String, String)]) -> String {
        let variable = |name: &str| env_vars::env_value(env, name).map(|found| found.value);
        let configured = self.locale.as_ref().map(|locale| locale.value.as_str());
        title::preferred_locale(configured, variable).unwrap_or_default()
    }

    /// Returns the limits of age and size for stored sessions.
    pub(crate) fn session_retention(&self) -> SessionRetention {
        let seconds = self.session_keep_days.value.saturating_mul(SECONDS_OF_DAY);
        let max_bytes = self.session_bytes.value;
        SessionRetention::new(Duration::from_secs(seconds), max_bytes)
    }

    /// Redacts the configured keys in all later output. This is necessary, because the user may
    /// choose any variable name for a key, even a name that does not look like a secret.
    pub(crate) fn redact_keys(&self) {
        let keys = Provider::ALL.into_iter().filter_map(|it| self.provider(it).key.as_ref());
        keys.for_each(|key| secrets::add_key_to_redact(&key.value));
    }

    /// Returns the configuration of a provider.
    pub(crate) fn provider(&self, provider: Provider) -> &ProviderConfig {
        // `merge_sources` inserts an entry for each provider.
        &self.providers[&provider]
    }
}

/// Checks the values of the file that flags and variables override. An invalid value is an error
/// even if it is overridden now, because the next start may use it.
fn check_overridable_file_values(
    file: &ConfigFileLineIndex,
    written: &ParsedConfig,
) -> Result<(), ConfigError> {
    let check_mode = |id: &String| PermissionMode::parse(id).map(drop);
    file.check_value(written.mode.as_ref(), |id| check_mode(id).ok_or_else(unknown_mode_message))?;
    check_model(file, written.model.as_ref())?;
    file.check_value(written.locale.as_ref(), |locale| check_locale(locale))
}

fn check_model(
    file: &ConfigFileLineIndex,
    model: Option<&SourcedValue<String>>,
) -> Result<(), ConfigError> {
    let check_spec = |name: &String| check_model_spec(name).map_err(|error| error.to_string());
    file.check_value(model, check_spec)
        .map_err(|error| ConfigError { is_unknown_model: true, ..error })
}

/// Whether OpenAI's two dialects have the same server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenAiServerSharing {
    Shared,
    Separate,
}

/// Copies each setting of OpenAI's first dialect to the second dialect, if the second dialect does
/// not have the setting. Both dialects belong to one account at one server. If the second dialect
/// has a different URL, its key and certificates stay separate, and the default variables do not
/// apply to it, because they contain the key of the first dialect.
fn inherit_openai_dialect_settings(
    providers: &mut BTreeMap<Provider, ProviderConfig>,
) -> OpenAiServerSharing {
    let openai = providers.entry(Provider::OpenAi).or_default();
    let (base_url, key_env) = (openai.base_url.clone(), openai.key_env.clone());
    let ca_file = openai.ca_file.clone();
    let responses = providers.entry(Provider::OpenAiResponses).or_default();
    let address = |url: &Option<SourcedValue<String>>| {
        let url = url.as_ref().map_or("https://api.openai.com", |url| url.value.as_str());
        let url = url.trim_end_matches('/');
        url.strip_suffix("/v1").unwrap_or(url).to_owned()
    };
    if responses.base_url.is_some() && address(&responses.base_url) != address(&base_url) {
        return OpenAiServerSharing::Separate;
    }
    responses.base_url = responses.base_url.take().or(base_url);
    responses.key_env = responses.key_env.take().or(key_env);
    responses.ca_file = responses.ca_file.take().or(ca_file);
    OpenAiServerSharing::Shared
}

/// Returns `$XDG_CONFIG_HOME/callboard/config.toml`, or else the same file below `~/.config`.
/// Returns `None` if neither of these paths is absolute
/// (<https://specifications.freedesktop.org/basedir-spec/latest/>).
pub(crate) fn config_file_path(env: &[(String, String)]) -> Option<PathBuf> {
    Some(user_folders::user_folder(env, "XDG_CONFIG_HOME", ".config")?.join("config.toml"))
}

/// Reads the text of the file. Returns `None` if there is no file.
fn read_config_text(path: &Path) -> Result<Option<String>, ConfigError> {
    let text = private::read_following_links(path, MAX_CONFIG_FILE_BYTES).and_then(|bytes| {
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|_bytes| std::io::Error::other("it is not UTF-8"))
    });
    text.map_err(|error| ConfigError::new_in_file(path, error.to_string()))
}

fn sourced_flag_value(value: Option<String>, name: &'static str) -> Option<SourcedValue<String>> {
    value.map(|value| SourcedValue { value, source: ValueSource::Flag(name) })
}

fn number_or(value: Option<SourcedValue<PositiveNumber>>, default: u64) -> SourcedValue<u64> {
    match value {
        Some(SourcedValue { value, source }) => SourcedValue { value: value.get(), source },
        None => SourcedValue { value: default, source: ValueSource::Default },
    }
}

const SECONDS_OF_DAY: u64 = 24 * 60 * 60;

/// Checks that there is a translation for a locale, e.g. `de`, `de-AT` or `de_DE.UTF-8`.
fn check_locale(locale: &str) -> Result<(), String> {
    let is_english = |name| locale.split('.').next() == Some(name);
    if Titles::has_language(CATALOGUES, locale) || ["C", "POSIX"].into_iter().any(is_english) {
        return Ok(());
    }
    let names: Vec<_> = CATALOGUES.iter().map(|(language, _)| format!("`{language}`")).collect();
    Err(format!("locale must be one of {}, or one of these with a region", names.join(", ")))
}

fn unknown_mode_message() -> String {
    let names: Vec<_> =
        PermissionMode::all().iter().map(|mode| format!("`{}`", mode.id())).collect();
    format!("mode must be one of {}", names.join(", "))
}

fn parse_command_preview(id: &str) -> Result<PreviewSetting, String> {
    let all = [PreviewSetting::Never, PreviewSetting::Offer, PreviewSetting::Always];
    let found = all.into_iter().find(|preview| command_preview_id(*preview) == id);
    found.ok_or_else(|| "preview must be one of `never`, `offer`, `always`".to_owned())
}

/// Returns the value of `terminal.preview` in the configuration.
fn command_preview_id(preview: PreviewSetting) -> &'static str {
    match preview {
        PreviewSetting::Never => "never",
        PreviewSetting::Always => "always",
        _ => "offer",
    }
}

/// Checks that a base URL has a host and uses http or https.
pub(crate) fn check_base_url(url: &str) -> Result<(), String> {
    let parsed = url::Url::parse(url).ok();
    let is_web = parsed.is_some_and(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    if is_web { Ok(()) } else { Err("base_url must be an http or https URL".to_owned()) }
}

/// Checks that a text is a valid name of a variable. The error does not contain the text, because
/// the text may be a key that the user wrote by mistake.
fn check_variable_name(name: &str) -> Result<(), String> {
    if is_variable_name(name) {
        return Ok(());
    }
    Err("key_env must name a variable, e.g. OPENAI_API_KEY, and not be a key".to_owned())
}

/// Returns whether a text is a usual name of a variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    name.starts_with(|first: char| !first.is_ascii_digit()) && name.chars().all(is_word)
}

fn check_env_pass_without_secrets(names: &[String]) -> Result<(), String> {
    let named = |name| format!("env_pass: {name} is named like a secret, which is never passed on");
    names
        .iter()
        .find(|name| is_secret_name_or_value(name, ""))
        .map_or(Ok(()), |name| Err(named(name)))
}

fn check_model_names_nonempty(names: &[String]) -> Result<(), String> {
    let is_named = !names.is_empty() && names.iter().all(|name| !name.is_empty());
    if is_named { Ok(()) } else { Err("models must be a list of model names".to_owned()) }
}

#[cfg(test)]
mod tests;
