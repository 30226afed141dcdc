//! Model providers, and the settings to connect to one.
//!
//! The dialects are implemented by the model library (rig-core). Only the submodules of this module
//! use the types of this library.

mod capabilities;
mod connect;
mod decode;
mod dialect;
mod encode;
mod encode_cache;
mod encoded_prefix;
mod env;
mod errors;
mod http;
mod local_servers;
mod model_list;
mod options;
mod replay;
#[cfg(test)]
mod test_server;

use std::{fmt, path::PathBuf};

use serde::Deserialize;

pub use connect::create_model;
pub use env::MissingKey;
pub use local_servers::LocalServerAddresses;
pub use model_list::{ListedModel, list_models};

/// A kind of provider, i.e. an HTTP dialect. The provider that defined the dialect uses it, and so
/// does every compatible server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Provider {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's chat completions, which most servers support.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own API.
    Ollama,
}

impl Provider {
    /// All providers, in the order in which they are tried.
    pub const ALL: [Self; 5] =
        [Self::Anthropic, Self::OpenAi, Self::OpenAiResponses, Self::Gemini, Self::Ollama];

    /// Returns the provider's name, which is the text before the slash in `--model`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the spec of one of the provider's models: `provider/model`.
    #[must_use]
    pub fn model_spec(self, model: &str) -> String {
        format!("{}/{model}", self.name())
    }

    /// Returns the provider's default model, and the dialect for this model. The dialect may differ
    /// from `self`, because OpenAI's newer models support tool calls only in Responses. Returns
    /// `None` if the provider has no default model, because the available models depend on the
    /// server.
    #[must_use]
    pub fn default_model(self) -> Option<(Self, &'static str)> {
        match self {
            Self::Anthropic => Some((self, "claude-sonnet-5-5")),
            Self::OpenAi | Self::OpenAiResponses => Some((Self::OpenAiResponses, "gpt-6-sol")),
            Self::Gemini => Some((self, "gemini-3.8-flash")),
            Self::Ollama => None,
        }
    }

    /// Parses `provider/name`. Returns `None` if no provider has this name, or if the model's name
    /// is empty. The name of the model may contain slashes.
    #[must_use]
    pub fn parse_model_spec(spec: &str) -> Option<(Self, &str)> {
        let (provider, model) = spec.split_once('/')?;
        let provider = Self::ALL.into_iter().find(|it| it.name() == provider)?;
        (!model.is_empty()).then_some((provider, model))
    }
}

/// A provider's API key. `Debug` hides the key. Use [`ApiKey::expose`] only for the header of a
/// request.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Creates a key from a text without the surrounding white space. Returns `None` if the text is
    /// empty.
    #[must_use]
    pub fn from_nonempty_text(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// Returns the key in plain text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(…)")
    }
}

/// The ways in which a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolCalling {
    /// With the native tool calls of the provider.
    #[default]
    Native,
    /// With a reply that a JSON Schema restricts to `{tool, arguments}` or `{text}`, for models
    /// without native tool calls.
    JsonSchema,
}

impl ToolCalling {
    /// Returns the name that users write in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::JsonSchema => "json_schema",
        }
    }
}

/// The settings to connect to one model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderSettings {
    /// Provider whose dialect is used.
    pub provider: Provider,
    /// Name of the model, as the provider uses it.
    pub model: String,
    /// Base URL; `None` for the provider's default address.
    pub base_url: Option<String>,
    /// API key; `None` if no key is needed.
    pub key: Option<ApiKey>,
    /// Path of a file (PEM) with additional trusted certificates.
    pub ca_file: Option<PathBuf>,
    /// The way in which the model calls tools.
    pub tools: ToolCalling,
    /// Maximum number of tokens of a request and its reply together. `None` means the model's known
    /// default.
    pub context_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::{ApiKey, Provider};

    #[test]
    fn a_spec_names_a_provider_and_its_model() {
        for (spec, expected) in [
            ("anthropic/claude", Some((Provider::Anthropic, "claude"))),
            ("openai/meta/llama-3", Some((Provider::OpenAi, "meta/llama-3"))),
            ("openai-responses/gpt", Some((Provider::OpenAiResponses, "gpt"))),
            ("gemini/", None),
            ("Gemini/x", None),
            ("ollama", None),
        ] {
            assert_eq!(Provider::parse_model_spec(spec), expected, "{spec}");
        }
    }

    #[test]
    fn a_key_is_hidden_in_debug_output() {
        let key = ApiKey::from_nonempty_text(" sk-secret\n").unwrap();
        assert_eq!(format!("{key:?}"), "Key(…)");
        assert_eq!(key.expose(), "sk-secret");
        assert_eq!(ApiKey::from_nonempty_text(" \n"), None);
    }
}
