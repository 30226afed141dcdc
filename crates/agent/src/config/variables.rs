//! The variables that configure: which there are, and what they say of a provider.
//!
//! It reads no environment but the one that it is given.

use super::{ProviderConfig, Source, Value};
use crate::model::provider::{Key, Provider};

/// Returns the value of a variable; an empty one is none.
pub(super) fn value(env: &[(String, String)], name: &str) -> Option<Value<String>> {
    let (name, value) = env.iter().find(|(other, value)| other == name && !value.is_empty())?;
    Some(Value { value: value.clone(), source: Source::Variable(name.clone()) })
}

/// Lays what the environment says of a provider over what the file says of it.
pub(super) fn lay_over(
    provider: Provider,
    configured: &mut ProviderConfig,
    env: &[(String, String)],
) {
    let urls = base_url_variables(provider).iter();
    if let Some(mut url) = urls.filter_map(|name| value(env, name)).next() {
        if provider == Provider::Ollama {
            url.value = ollama_url(&url.value);
        }
        configured.base_url = Some(url);
    }
    // A variable that the file names is the only one: the other may hold the key of another server.
    let named = configured.key_env.as_ref().map(|named| named.value.as_str());
    let names = named.as_ref().map_or(key_variables(provider), std::slice::from_ref);
    let mut found = names.iter().filter_map(|name| value(env, name));
    configured.key = found
        .find_map(|Value { value, source }| Key::new(&value).map(|value| Value { value, source }));
}

/// Returns the variables that hold a provider's key, the strongest first.
pub(crate) fn key_variables(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::Anthropic => &["ANTHROPIC_API_KEY"],
        Provider::OpenAi | Provider::OpenAiResponses => &["OPENAI_API_KEY"],
        Provider::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        Provider::Ollama => &["OLLAMA_API_KEY"],
    }
}

/// Returns the variables that say where a provider answers, the strongest first.
fn base_url_variables(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::Anthropic => &["ANTHROPIC_BASE_URL"],
        Provider::OpenAi | Provider::OpenAiResponses => &["OPENAI_BASE_URL"],
        Provider::Gemini => &["GEMINI_BASE_URL"],
        Provider::Ollama => &["OLLAMA_API_BASE_URL", "OLLAMA_HOST"],
    }
}

/// Ollama takes `HOST`, `HOST:PORT` and a URL, and listens on every address where it says 0.0.0.0.
fn ollama_url(host: &str) -> String {
    if host.contains("://") {
        return host.to_owned();
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if has_port { "" } else { ":11434" };
    format!("http://{host}{port}").replace("//0.0.0.0:", "//127.0.0.1:")
}
