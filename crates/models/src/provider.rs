//! Which providers of models there are, and what it takes to reach one.
//!
//! The dialects are the model library's (rig-core); its types stay in the modules below this one.

mod cached_prefix;
mod capabilities;
mod connect;
mod decode;
mod dialect;
mod encode;
mod encode_cache;
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

pub use connect::connect;
pub use env::MissingKey;
pub use local_servers::LocalServers;
pub use model_list::{ListedModel, list_models};

/// A kind of provider: a dialect of HTTP, spoken by its first provider and by every server that is
/// compatible with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Provider {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's chat completions, which most servers speak.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own.
    Ollama,
}

impl Provider {
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Self; 5] =
        [Self::Anthropic, Self::OpenAi, Self::OpenAiResponses, Self::Gemini, Self::Ollama];

    /// Returns the name that stands before the slash in `--model`.
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

    /// Returns what names one of its models: `provider/model`.
    #[must_use]
    pub fn model_spec(self, model: &str) -> String {
        format!("{}/{model}", self.name())
    }

    /// Returns the default model of the provider, and the dialect that it
    /// is used with: OpenAI's newer models call tools by its Responses only. `None` where only a server
    /// knows which models it has.
    #[must_use]
    pub fn default_model(self) -> Option<(Self, &'static str)> {
        match self {
            Self::Anthropic => Some((self, "claude-sonnet-5-5")),
            Self::OpenAi | Self::OpenAiResponses => Some((Self::OpenAiResponses, "gpt-6-sol")),
            Self::Gemini => Some((self, "gemini-3.8-flash")),
            Self::Ollama => None,
        }
    }

    /// Reads `provider/name`; `None` if there is no such provider or the name is empty. The name
    /// may hold slashes itself.
    #[must_use]
    pub fn parse(spec: &str) -> Option<(Self, &str)> {
        let (provider, model) = spec.split_once('/')?;
        let provider = Self::ALL.into_iter().find(|it| it.name() == provider)?;
        (!model.is_empty()).then_some((provider, model))
    }
}

/// A key of a provider. Shows itself to nobody; [`Key::expose`] is for the request's header alone.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes a key; `None` if nothing is left of it without the white space around it.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// Returns the key itself.
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

/// How a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCalling {
    /// In the provider's own way.
    #[default]
    Native,
    /// By a reply that a JSON Schema constrains to `{tool, arguments}` or `{text}`: for models that
    /// know no tools.
    JsonSchema,
}

impl ToolCalling {
    /// Returns the name that it has in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::JsonSchema => "json_schema",
        }
    }
}

/// What it takes to reach one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Who answers.
    pub provider: Provider,
    /// The model, as the provider names it.
    pub model: String,
    /// Where it answers; `None` for the provider's own address.
    pub base_url: Option<String>,
    /// The key; `None` where none is needed.
    pub key: Option<ApiKey>,
    /// A file of further certificates (PEM) to trust.
    pub ca_file: Option<PathBuf>,
    /// How it calls tools.
    pub tools: ToolCalling,
    /// Tokens that a request and its reply may have together; `None` for what is known of it.
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
            assert_eq!(Provider::parse(spec), expected, "{spec}");
        }
    }

    #[test]
    fn a_key_shows_itself_to_nobody() {
        let key = ApiKey::new(" sk-secret\n").unwrap();
        assert_eq!(format!("{key:?}"), "Key(…)");
        assert_eq!(key.expose(), "sk-secret");
        assert_eq!(ApiKey::new(" \n"), None);
    }
}
