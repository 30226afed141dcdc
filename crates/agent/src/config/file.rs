//! The file: TOML, every key of it known, every value with its place.
//!
//! It knows nothing of what lies over it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callboard_models::provider::Provider;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{ConfigError, ProviderConfig, Source, Value};

/// What the file says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Written {
    pub(super) model: Option<Value<String>>,
    pub(super) mode: Option<Value<String>>,
    pub(super) locale: Option<Value<String>>,
    pub(super) terminal: Terminal,
    pub(super) providers: BTreeMap<Provider, ProviderConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Terminal {
    pub(super) env_pass: Option<Value<Vec<String>>>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Value<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(from)?;
        Ok(Self { source: Source::File(spanned.span().start), value: spanned.into_inner() })
    }
}

/// Where the file is, and where its lines end.
#[derive(Debug)]
pub(crate) struct File {
    /// Where it is, or would be; none where the environment names no folder for it.
    pub(crate) path: Option<PathBuf>,
    ends: Vec<usize>,
}

impl File {
    pub(super) fn new(path: Option<PathBuf>, text: &str) -> Self {
        Self { path, ends: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// Parses the text of the file.
    pub(super) fn parse(&self, text: &str) -> Result<Written, ConfigError> {
        if text.is_empty() {
            // As where there is no file, which is no reason to wake the parser at every start.
            return Ok(Written::default());
        }
        toml::from_str(text).map_err(|error| {
            let source = Source::File(error.span().map_or(text.len(), |span| span.start));
            // One line; the parser's own text would show that of the file, which may hold a key.
            self.error(&source, error.message().replace('\n', ", "))
        })
    }

    /// Says what is wrong with a value, if it is not as it has to be.
    pub(super) fn check<T>(
        &self,
        value: Option<&Value<T>>,
        check: impl FnOnce(&T) -> Result<(), String>,
    ) -> Result<(), ConfigError> {
        let Some(Value { value, source }) = value else { return Ok(()) };
        check(value).map_err(|what| self.error(source, what))
    }

    pub(super) fn error(&self, source: &Source, what: String) -> ConfigError {
        ConfigError { place: self.place(source), what }
    }

    /// Says where a value is from, in a few words.
    pub(crate) fn place(&self, source: &Source) -> String {
        match source {
            Source::Default => "default".to_owned(),
            Source::File(byte) => {
                let path = self.path.as_deref().unwrap_or(Path::new(""));
                let line = 1 + self.ends.partition_point(|end| end < byte);
                format!("{}:{line}", path.display())
            }
            Source::Variable(name) => name.clone(),
            Source::Flag(name) => (*name).to_owned(),
        }
    }

    /// Returns the folder that paths in it are relative to.
    pub(super) fn folder(&self) -> &Path {
        self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
    }
}
