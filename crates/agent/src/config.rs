//! What the user has chosen, and where each value is from: flags, the environment, one file.
//!
//! It knows nothing of stored keys, and nothing of what a model does. Nothing in a workspace is
//! configuration.

mod file;
mod show;
mod variables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callboard_models::direct;
use callboard_models::provider::{Key, Provider, ToolCalling};
use callboard_runtime::{Mode, private_files as private};

use crate::folders;
use crate::limits::MAX_CONFIG_BYTES;

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
    /// A line of the file, from 1.
    File(usize),
    Variable(String),
    Flag(&'static str),
}

/// What the command line says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<Mode>,
    pub(crate) locale: Option<String>,
}

impl ConfigError {
    /// Whether it is the command line that is wrong.
    pub(crate) fn is_of_flag(&self) -> bool {
        self.place.starts_with("--")
    }
}

/// Everything that is configured. What nobody chose is none, where there is no default.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where the file is, or would be; none where the environment names no folder for it.
    pub(crate) path: Option<PathBuf>,
    pub(crate) model: Option<Value<String>>,
    pub(crate) mode: Value<Mode>,
    pub(crate) locale: Option<Value<String>>,
    /// Variables that commands get beside the usual ones.
    pub(crate) env_pass: Option<Value<Vec<String>>>,
    providers: BTreeMap<Provider, ProviderConfig>,
}

/// What is configured of one provider.
#[derive(Debug, Default)]
pub(crate) struct ProviderConfig {
    pub(crate) base_url: Option<Value<String>>,
    /// The variable that holds the key, in the place of the provider's own.
    pub(crate) key_env: Option<Value<String>>,
    pub(crate) key: Option<Value<Key>>,
    pub(crate) ca_file: Option<Value<PathBuf>>,
    pub(crate) tools: Option<Value<ToolCalling>>,
    pub(crate) context_tokens: Option<Value<u64>>,
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

impl Config {
    /// Reads the file that the environment names, if it is there, and lays environment and flags
    /// over it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or others can change it; the first value that makes no sense.
    pub(crate) fn load(env: &[(String, String)], flags: Flags) -> Result<Self, ConfigError> {
        let path = path(env);
        let text = path.as_deref().map(read).transpose()?.flatten().unwrap_or_default();
        Self::of(path, &text, env, flags)
    }

    /// Lays environment and flags over the text of the file; reads nothing else.
    pub(crate) fn of(
        path: Option<PathBuf>,
        text: &str,
        env: &[(String, String)],
        flags: Flags,
    ) -> Result<Self, ConfigError> {
        let file = path.as_deref().unwrap_or(Path::new(""));
        let written = file::parse(file, text)?;
        let variable = |name: &str| variables::value(env, name);
        let mode = match (flags.mode, variable("CALLBOARD_MODE").or(written.mode)) {
            (Some(value), _) => Value { value, source: Source::Flag("--mode") },
            (None, Some(named)) => named.checked(file, to_mode)?,
            (None, None) => Value { value: Mode::default(), source: Source::Default },
        };
        let model = flag(flags.model, "--model").or(variable("CALLBOARD_MODEL")).or(written.model);
        let locale = flag(flags.locale, "--locale").or(variable("CALLBOARD_LOCALE"));
        let mut providers = written.providers;
        for provider in Provider::ALL {
            variables::lay_url_over(provider, providers.entry(provider).or_default(), env);
        }
        inherit(&mut providers);
        for provider in Provider::ALL {
            let configured = providers.entry(provider).or_default();
            configured.key = variables::key(provider, configured, env);
            if let Some(url) = configured.base_url.take() {
                configured.base_url = Some(url.checked(file, to_base_url)?);
            }
        }
        Ok(Self {
            model: model.map(|model| model.checked(file, to_model)).transpose()?,
            mode,
            locale: locale.or(written.locale),
            env_pass: written.env_pass,
            providers,
            path,
        })
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

impl<T> Value<T> {
    fn checked<U>(
        self,
        file: &Path,
        check: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<Value<U>, ConfigError> {
        let Self { value, source } = self;
        match check(value) {
            Ok(value) => Ok(Value { value, source }),
            Err(what) => Err(ConfigError { place: source.place(file), what }),
        }
    }
}

impl Source {
    /// Says where it is, in a few words.
    pub(crate) fn place(&self, file: &Path) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File(line) => format!("{}:{line}", file.display()),
            Self::Variable(name) => name.clone(),
            Self::Flag(name) => (*name).to_owned(),
        }
    }
}

/// `$XDG_CONFIG_HOME/callboard/config.toml`, or that below `~/.config`; none where neither is an
/// absolute path (<https://specifications.freedesktop.org/basedir-spec/latest/>).
pub(crate) fn path(env: &[(String, String)]) -> Option<PathBuf> {
    let config = folders::named(env, "XDG_CONFIG_HOME");
    let config = config.or_else(|| Some(folders::named(env, "HOME")?.join(".config")))?;
    Some(config.join("callboard/config.toml"))
}

fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let text = private::read_linked(path, MAX_CONFIG_BYTES).and_then(|bytes| {
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|_bytes| std::io::Error::other("it is not UTF-8"))
    });
    text.map_err(|error| ConfigError { place: path.display().to_string(), what: error.to_string() })
}

fn flag(value: Option<String>, name: &'static str) -> Option<Value<String>> {
    value.map(|value| Value { value, source: Source::Flag(name) })
}

fn to_mode(name: String) -> Result<Mode, String> {
    let names: Vec<_> = Mode::all().iter().map(|mode| format!("`{}`", mode.id())).collect();
    Mode::parse(&name).ok_or_else(|| format!("mode has to be one of {}", names.join(", ")))
}

fn to_model(name: String) -> Result<String, String> {
    let is_script = name.strip_prefix("script:").is_some_and(|file| !file.is_empty());
    if name == direct::NAME || is_script || Provider::parse(&name).is_some() {
        return Ok(name);
    }
    let providers = Provider::ALL.map(Provider::name).join(", ");
    Err(format!(
        "unknown model `{name}`: it has to be PROVIDER/NAME, `direct` or `script:FILE`; the \
         providers are {providers}"
    ))
}

fn to_base_url(url: String) -> Result<String, String> {
    check_base_url(&url).map(|()| url)
}

/// Says what is wrong with the address of a server, if it is none.
pub(crate) fn check_base_url(url: &str) -> Result<(), String> {
    let parsed = url::Url::parse(url).ok();
    let is_web = parsed.is_some_and(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    if is_web { Ok(()) } else { Err("base_url has to be a URL with http or https".to_owned()) }
}

#[cfg(test)]
mod tests;
