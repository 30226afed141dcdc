//! Selection of the dialect for a provider or a server address.
//!
//! The library's clients contain no key. [`HttpSender`] adds the key to each request.

use rig_core::{
    DynModel,
    error::ProviderError,
    model::ModelList,
    operation::Completion,
    providers::{
        anthropic::{self, Anthropic, AnthropicConfig},
        gemini::{self, Gemini, GeminiConfig},
        ollama::{self, Ollama, OllamaConfig},
        openai::{
            OpenAI, OpenAIConfig,
            wire::{self, Auth, OutputCap, Quirks},
        },
    },
};
use url::Url;

use super::{Provider, ProviderSettings, encoded_prefix::PendingBody, http::HttpSender};

/// A client of the library for one dialect and one address.
#[derive(Debug)]
pub(super) struct DialectClient {
    client: RigClient,
    /// Sender of the client's requests.
    pub(super) http: HttpSender,
    /// Name of the vendor in the catalogue of models.
    pub(super) vendor: &'static str,
    /// Whether the server uses an OpenAI dialect, but the library has no configuration for this
    /// server.
    pub(super) is_compatible: bool,
    /// Whether requests may contain a key for the provider's prompt cache.
    pub(super) takes_cache_key: bool,
}

#[derive(Clone, Debug)]
enum RigClient {
    Anthropic(Anthropic),
    Gemini(Gemini),
    Ollama(Ollama),
    Chat(OpenAI),
    Responses(OpenAI),
}

impl DialectClient {
    /// Selects the dialect without reading a file or opening a connection.
    pub(super) fn from_settings(settings: &ProviderSettings) -> Self {
        let sender = HttpSender::new(settings);
        let http = sender.clone();
        let base_url = settings.base_url.as_deref().map(|url| url.trim_end_matches('/'));
        let (client, vendor) = match settings.provider {
            Provider::Anthropic => {
                let config = anthropic_config(base_url);
                let vendor = config.dialect.name;
                (RigClient::Anthropic(config.connect(http)), vendor)
            }
            Provider::Gemini => {
                let mut config = GeminiConfig::new("");
                if let Some(url) = base_url {
                    config = config.with_base_url(url.trim_end_matches("/v1beta"));
                }
                (RigClient::Gemini(config.connect(http)), gemini::completion::PROVIDER_NAME)
            }
            Provider::Ollama => {
                let mut config = OllamaConfig::new();
                if let Some(url) = base_url {
                    config = config.with_base_url(url.trim_end_matches("/v1"));
                }
                (RigClient::Ollama(config.connect(http)), ollama::PROVIDER_NAME)
            }
            Provider::OpenAi => {
                let config = openai_config(base_url);
                let vendor = config.dialect.name;
                (RigClient::Chat(config.connect(http)), vendor)
            }
            Provider::OpenAiResponses => {
                let config = openai_config(base_url);
                let vendor = config.dialect.name;
                (RigClient::Responses(config.connect(http)), vendor)
            }
        };
        let is_compatible = vendor == COMPATIBLE_DIALECT.name;
        let speaks_openai = matches!(client, RigClient::Chat(_) | RigClient::Responses(_));
        Self {
            client,
            http: sender,
            vendor: if is_compatible { wire::OPENAI.name } else { vendor },
            is_compatible,
            takes_cache_key: speaks_openai && vendor == wire::OPENAI.name,
        }
    }

    /// Creates a model of this dialect for one request.
    pub(super) fn model_for_request(
        &self,
        name: &str,
        pending_body: PendingBody,
    ) -> DynModel<Completion> {
        let http = self.http.for_request(pending_body);
        match self.client.clone() {
            RigClient::Anthropic(client) => {
                let mut model = client.with_http(http).completion(name);
                model.wire.prompt_caching = true;
                let tokens = model.wire.default_max_tokens.get_or_insert(DEFAULT_REPLY_TOKENS);
                *tokens = DEFAULT_REPLY_TOKENS.max(*tokens);
                model.erase()
            }
            RigClient::Gemini(client) => client.with_http(http).completion(name).erase(),
            RigClient::Ollama(client) => client.with_http(http).native_completion(name).erase(),
            RigClient::Chat(client) => client.with_http(http).chat(name).erase(),
            RigClient::Responses(client) => client.with_http(http).responses(name).erase(),
        }
    }

    /// Requests the list of available models.
    pub(super) async fn list_models(&self) -> Result<ModelList, ProviderError> {
        match &self.client {
            RigClient::Anthropic(client) => client.list_models().await,
            RigClient::Gemini(client) => client.list_models().await,
            RigClient::Ollama(client) => client.list_models().await,
            RigClient::Chat(client) | RigClient::Responses(client) => client.list_models().await,
        }
    }
}

/// Maximum number of tokens of a reply, in dialects that require such a number. It is used for
/// models that are not in the library's catalogue.
const DEFAULT_REPLY_TOKENS: u64 = 8_192;

/// Returns the configuration of an Anthropic-compatible dialect. Uses the library's configuration
/// for the host of the URL, if there is one.
fn anthropic_config(base_url: Option<&str>) -> AnthropicConfig {
    let Some(url) = base_url else { return AnthropicConfig::new("") };
    let dialect = anthropic::wire::all().find(|dialect| is_same_host(url, dialect.base_url));
    AnthropicConfig::with_key(dialect.unwrap_or(&anthropic::ANTHROPIC), "").with_base_url(url)
}

/// Returns the configuration of an OpenAI-compatible dialect. Uses the library's configuration for
/// the host of the URL, if there is one.
fn openai_config(base_url: Option<&str>) -> OpenAIConfig {
    let Some(url) = base_url else { return OpenAIConfig::new("") };
    match wire::all().find(|dialect| is_same_host(url, dialect.base_url)) {
        Some(dialect) => {
            // In some dialects, the path of a request already contains the version.
            let has_version = dialect.quirks.completion_path.starts_with("/v1/");
            let url = if has_version { url.trim_end_matches("/v1") } else { url };
            OpenAIConfig::with_key(dialect, "").with_base_url(url)
        }
        None => {
            OpenAIConfig::with_key(&COMPATIBLE_DIALECT, "").with_base_url(with_version_path(url))
        }
    }
}

/// Returns whether two URLs have the same host. Two `localhost` URLs never count as the same host,
/// because `localhost` does not identify a provider.
fn is_same_host(url: &str, other: &str) -> bool {
    let host = |url: &str| Some(Url::parse(url).ok()?.host_str()?.to_owned());
    host(url).is_some_and(|name| name != "localhost" && host(other) == Some(name))
}

/// Appends `/v1` to a URL without a path, because OpenAI-compatible servers serve their API under
/// this path.
fn with_version_path(url: &str) -> String {
    match Url::parse(url) {
        Ok(parsed) if parsed.path() == "/" => format!("{url}/v1"),
        _ => url.to_owned(),
    }
}

/// The dialect of servers for which the library has no configuration: llama.cpp, vLLM, LM Studio
/// and many more.
const COMPATIBLE_DIALECT: wire::Dialect =
    wire::Dialect::gateway("compatible", "", "").with_quirks(openai_compatible_quirks());

const fn openai_compatible_quirks() -> Quirks {
    let mut quirks = Quirks::openai();
    quirks.auth = Auth::OptionalBearer;
    quirks.output_cap = OutputCap::OpenAiReasoningFamilies;
    quirks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_host() {
        for (url, vendor, base) in [
            (None, "openai", "https://api.openai.com/v1"),
            (Some("https://openrouter.ai/api/v1"), "openrouter", "https://openrouter.ai/api/v1"),
            (Some("https://api.mistral.ai/v1"), "mistral", "https://api.mistral.ai"),
            (Some("https://api.deepseek.com"), "deepseek", "https://api.deepseek.com"),
            (Some("http://localhost:11434"), "compatible", "http://localhost:11434/v1"),
            (Some("http://10.0.0.1:8000/v1"), "compatible", "http://10.0.0.1:8000/v1"),
            (Some("https://proxy.example/openai"), "compatible", "https://proxy.example/openai"),
        ] {
            let config = openai_config(url);
            assert_eq!((config.dialect.name, &*config.base_url), (vendor, base), "{url:?}");
        }
    }
}
