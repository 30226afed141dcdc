//! The file: TOML, every key of it known, every value with its place.
//!
//! It knows nothing of what lies over it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callboard_models::provider::Provider;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{ConfigError, ProviderConfig, SourcedValue, ValueSource};

/// What the file says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ParsedConfig {
    pub(super) model: Option<SourcedValue<String>>,
    pub(super) mode: Option<SourcedValue<String>>,
    pub(super) locale: Option<SourcedValue<String>>,
    pub(super) terminal: Terminal,
    pub(super) providers: BTreeMap<Provider, ProviderConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Terminal {
    pub(super) env_pass: Option<SourcedValue<Vec<String>>>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SourcedValue<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(from)?;
        Ok(Self { source: ValueSource::File(spanned.span().start), value: spanned.into_inner() })
    }
}

/// Where the file is, and where its lines end.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    /// Where it is, or would be; none where the environment names no folder for it.
    pub(crate) path: Option<PathBuf>,
    line_ends: Vec<usize>,
}

impl ConfigFile {
    pub(super) fn new(path: Option<PathBuf>, text: &str) -> Self {
        Self { path, line_ends: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// Parses the text of the file.
    pub(super) fn parse(&self, text: &str) -> Result<ParsedConfig, ConfigError> {
        if text.is_empty() {
            // As where there is no file, which is no reason to wake the parser at every start.
            return Ok(ParsedConfig::default());
        }
        toml::from_str(text).map_err(|error| {
            let source = ValueSource::File(error.span().map_or(text.len(), |span| span.start));
            // One line; the parser's own text would show that of the file, which may hold a key.
            self.error(&source, error.message().replace('\n', ", "))
        })
    }

    /// Says what is wrong with a value, if it is not as it has to be.
    pub(super) fn check_value<T>(
        &self,
        value: Option<&SourcedValue<T>>,
        check: impl FnOnce(&T) -> Result<(), String>,
    ) -> Result<(), ConfigError> {
        let Some(SourcedValue { value, source }) = value else { return Ok(()) };
        check(value).map_err(|what| self.error(source, what))
    }

    pub(super) fn error(&self, source: &ValueSource, what: String) -> ConfigError {
        ConfigError { place: self.describe_source(source), what }
    }

    /// Says where a value is from, in a few words.
    pub(crate) fn describe_source(&self, source: &ValueSource) -> String {
        match source {
            ValueSource::Default => "default".to_owned(),
            ValueSource::File(byte) => {
                let path = self.path.as_deref().unwrap_or(Path::new(""));
                let line = 1 + self.line_ends.partition_point(|end| end < byte);
                format!("{}:{line}", path.display())
            }
            ValueSource::Variable(name) => name.clone(),
            ValueSource::Flag(name) => (*name).to_owned(),
        }
    }

    /// Returns the folder that paths in it are relative to.
    pub(super) fn folder(&self) -> &Path {
        self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
    }
}
