//! The configuration file, which is TOML. Unknown keys are errors, and the location of each value
//! is recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callboard_models::provider::Provider;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::mcp::{McpSection, McpServerSection};
use super::positive_number::PositiveNumber;
use super::web::WebSection;
use super::{ConfigError, ProviderConfig, SourcedValue, ValueSource};

/// The values of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ParsedConfig {
    pub(super) model: Option<SourcedValue<String>>,
    pub(super) mode: Option<SourcedValue<String>>,
    pub(super) locale: Option<SourcedValue<String>>,
    pub(super) terminal: TerminalSection,
    pub(super) sessions: SessionsSection,
    pub(super) mcp: McpSection,
    pub(super) web: WebSection,
    pub(super) mcp_servers: BTreeMap<String, SourcedValue<McpServerSection>>,
    pub(super) providers: BTreeMap<Provider, ProviderConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TerminalSection {
    pub(super) env_pass: Option<SourcedValue<Vec<String>>>,
    pub(super) preview: Option<SourcedValue<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionsSection {
    pub(super) enabled: Option<SourcedValue<bool>>,
    pub(super) keep_days: Option<SourcedValue<PositiveNumber>>,
    pub(super) max_bytes: Option<SourcedValue<PositiveNumber>>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SourcedValue<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(from)?;
        Ok(Self { source: ValueSource::File(spanned.span().start), value: spanned.into_inner() })
    }
}

/// The path of the file, and the positions of its line ends.
#[derive(Debug)]
pub(crate) struct ConfigFileLineIndex {
    /// Path of the file. The file need not exist. `None` if the environment defines no folder for
    /// the file.
    pub(crate) path: Option<PathBuf>,
    line_ends: Vec<usize>,
}

impl ConfigFileLineIndex {
    pub(super) fn new(path: Option<PathBuf>, text: &str) -> Self {
        Self { path, line_ends: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// Parses the text of the file.
    pub(super) fn parse(&self, text: &str) -> Result<ParsedConfig, ConfigError> {
        if text.is_empty() {
            // An empty file is equivalent to a missing file. The early return avoids the cost of
            // the parser at every start.
            return Ok(ParsedConfig::default());
        }
        toml::from_str(text).map_err(|error| {
            let source = ValueSource::File(error.span().map_or(text.len(), |span| span.start));
            // The full error quotes the file, and the file may contain a key. The short message
            // may quote a value.
            let written = error.span().and_then(|span| text.get(span)).unwrap_or_default();
            let message = without_quoted_value(error.message(), written);
            self.error_at_source(&source, message.replace('\n', ", "))
        })
    }

    /// Converts a value. Adds the location of the value to an error.
    pub(super) fn convert_value<T, U>(
        &self,
        SourcedValue { value, source }: SourcedValue<T>,
        convert: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<SourcedValue<U>, ConfigError> {
        match convert(value) {
            Ok(value) => Ok(SourcedValue { value, source }),
            Err(what) => Err(self.error_at_source(&source, what)),
        }
    }

    /// Checks a value, if the file contains the value. Adds the location of the value to an error.
    pub(super) fn check_value<T>(
        &self,
        value: Option<&SourcedValue<T>>,
        check: impl FnOnce(&T) -> Result<(), String>,
    ) -> Result<(), ConfigError> {
        let Some(SourcedValue { value, source }) = value else { return Ok(()) };
        check(value).map_err(|what| self.error_at_source(source, what))
    }

    pub(super) fn error_at_source(&self, source: &ValueSource, what: String) -> ConfigError {
        ConfigError::new_at_place(self.describe_source(source), what)
    }

    /// Returns a short description of the source of a value.
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

    /// Returns the folder to which paths in the file are relative.
    pub(super) fn folder(&self) -> &Path {
        self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
    }
}

/// Returns the message of an error without the quoted value, which may be a key. `written` is the
/// text at the location of the error. The names of keys stay in the message: a name is written
/// without quotes, unlike a string.
fn without_quoted_value(message: &str, written: &str) -> String {
    let kinds = ["unknown variant", "invalid type", "invalid value", "invalid length"];
    let kind = kinds.into_iter().find(|kind| message.starts_with(kind));
    let is_name = message.strip_prefix("unknown variant `").is_some_and(|rest| {
        !written.is_empty() && rest.strip_prefix(written).is_some_and(|rest| rest.starts_with('`'))
    });
    match (kind, message.rsplit_once("expected ")) {
        (Some(kind), Some((_, expected))) if !is_name => format!("{kind}, expected {expected}"),
        (Some(kind), None) if !is_name => kind.to_owned(),
        _ => message.to_owned(),
    }
}
