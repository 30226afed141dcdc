//! Reads settings from the usual environment variables of each provider.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use super::{ApiKey, Provider, ProviderSettings, ToolCalling};

/// The provider needs a key, but no key is set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` needs a key: set {}", provider.name(), joined_key_variables(*provider))]
#[non_exhaustive]
pub struct MissingKey {
    /// Provider whose key is missing.
    pub provider: Provider,
}

fn joined_key_variables(provider: Provider) -> String {
    provider.key_variables().join(" or ")
}

impl Provider {
    /// Returns the names of the variables for the key. The first variable that is set is used.
    #[must_use]
    pub fn key_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::OpenAi | Self::OpenAiResponses => &["OPENAI_API_KEY"],
            Self::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            Self::Ollama => &["OLLAMA_API_KEY"],
        }
    }

    /// Returns the names of the variables for the base URL. The first variable that is set is used.
    #[must_use]
    pub fn url_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_BASE_URL"],
            Self::OpenAi | Self::OpenAiResponses => &["OPENAI_BASE_URL"],
            Self::Gemini => &["GEMINI_BASE_URL"],
            Self::Ollama => &["OLLAMA_API_BASE_URL", "OLLAMA_HOST"],
        }
    }

    /// Returns whether the provider requires a key. All providers except Ollama require a key at
    /// their default addresses. A server at another address may work without a key.
    #[must_use]
    pub fn needs_key(self, base_url: Option<&str>) -> bool {
        self != Self::Ollama && base_url.is_none()
    }
}

impl ProviderSettings {
    /// Creates the settings of a model with the defaults of its provider.
    #[must_use]
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: model.into(),
            base_url: None,
            key: None,
            ca_file: None,
            tools: ToolCalling::default(),
            context_tokens: None,
        }
    }

    /// Sets the base URL, if it is not the provider's default address.
    #[must_use]
    pub fn with_base_url(self, base_url: impl Into<Option<String>>) -> Self {
        Self { base_url: base_url.into(), ..self }
    }

    /// Reads the key and the base URL of a provider from environment variables: see
    /// [`Provider::key_variables`] and [`Provider::url_variables`]. An empty variable counts as
    /// unset.
    ///
    /// # Errors
    /// Returns [`MissingKey`] if the provider [needs](Provider::needs_key) a key and no key is set.
    pub fn from_env(
        provider: Provider,
        model: &str,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, MissingKey> {
        let env: BTreeMap<_, _> =
            env.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect();
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| Some((*name, env.get(*name)?.trim())))
        };
        let base_url = first(provider.url_variables()).map(|(name, value)| match name {
            "OLLAMA_HOST" => parse_ollama_host(value),
            _ => value.to_owned(),
        });
        let key = first(provider.key_variables())
            .and_then(|(_, value)| ApiKey::from_nonempty_text(value));
        if key.is_none() && provider.needs_key(base_url.as_deref()) {
            return Err(MissingKey { provider });
        }
        Ok(Self { base_url, key, ..Self::new(provider, model) })
    }
}

/// Port of Ollama if the configured address has neither a port nor a scheme.
const OLLAMA_PORT: &str = "11434";

/// Parses an address in the way Ollama parses `OLLAMA_HOST`: each part is optional, and loopback
/// replaces a wildcard address. Like Ollama, accepts quotes around the address, and an IPv6 address
/// without brackets.
pub(super) fn parse_ollama_host(host: &str) -> String {
    let host = host.trim().trim_matches(['"', '\'']);
    let (scheme, rest) = host.split_once("://").unwrap_or(("", host));
    let (rest, path) = rest.split_once('/').map_or((rest, ""), |(rest, path)| (rest, path));
    let bracketed = rest.parse::<Ipv6Addr>().map(|address| format!("[{address}]"));
    let rest = bracketed.as_deref().unwrap_or(rest);
    let (name, port) = match rest.rsplit_once(':') {
        // The colons of an IPv6 address are inside brackets.
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (rest, ""),
    };
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        name => name,
    };
    let port = match (port, scheme) {
        ("", "http") => "80",
        ("", "https") => "443",
        ("", _) => OLLAMA_PORT,
        (port, _) => port,
    };
    let scheme = if scheme.is_empty() { "http" } else { scheme };
    let url = format!("{scheme}://{name}:{port}/{path}");
    url.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Env<'a> = &'a [(&'a str, &'a str)];
    /// Either the expected base URL and key, or a part of the expected error.
    type Expected = Result<(Option<&'static str>, Option<&'static str>), &'static str>;

    fn settings_from(provider: Provider, env: Env<'_>) -> Result<ProviderSettings, String> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ProviderSettings::from_env(provider, "m", env).map_err(|error| error.to_string())
    }

    #[test]
    fn key_and_url_come_from_the_usual_variables() {
        use Provider::{Anthropic, Gemini, Ollama, OpenAi, OpenAiResponses};
        let cases: [(Provider, Env<'_>, Expected); 10] = [
            (OpenAi, &[("OPENAI_API_KEY", "k")], Ok((None, Some("k")))),
            (
                OpenAiResponses,
                &[("OPENAI_BASE_URL", "http://h/v1")],
                Ok((Some("http://h/v1"), None)),
            ),
            (OpenAi, &[("OPENAI_API_KEY", " ")], Err("set OPENAI_API_KEY")),
            (
                Anthropic,
                &[("OPENAI_API_KEY", "k")],
                Err("`anthropic` needs a key: set ANTHROPIC_API_KEY"),
            ),
            (Gemini, &[], Err("GEMINI_API_KEY or GOOGLE_API_KEY")),
            (Gemini, &[("GOOGLE_API_KEY", "b"), ("GEMINI_API_KEY", "a")], Ok((None, Some("a")))),
            (Gemini, &[("GOOGLE_API_KEY", "b")], Ok((None, Some("b")))),
            (Ollama, &[], Ok((None, None))),
            (
                Ollama,
                &[("OLLAMA_HOST", "box"), ("OLLAMA_API_KEY", "k")],
                Ok((Some("http://box:11434"), Some("k"))),
            ),
            (
                Ollama,
                &[("OLLAMA_HOST", "a"), ("OLLAMA_API_BASE_URL", "http://b:1")],
                Ok((Some("http://b:1"), None)),
            ),
        ];
        for (provider, env, expected) in cases {
            match (settings_from(provider, env), expected) {
                (Ok(settings), Ok((url, key))) => {
                    assert_eq!(settings.base_url.as_deref(), url, "{env:?}");
                    assert_eq!(settings.key.as_ref().map(ApiKey::expose), key, "{env:?}");
                }
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (got, expected) => panic!("{provider:?} {env:?}: {got:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn each_part_of_ollamas_host_is_optional() {
        for (host, url) in [
            ("127.0.0.1:11435", "http://127.0.0.1:11435"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            (":1234", "http://127.0.0.1:1234"),
            ("http://box", "http://box:80"),
            ("https://box/proxy/", "https://box:443/proxy"),
            ("[::1]", "http://[::1]:11434"),
            ("[::]:80", "http://[::1]:80"),
            ("::", "http://[::1]:11434"),
            ("::1", "http://[::1]:11434"),
            ("fe80::2", "http://[fe80::2]:11434"),
            ("http://::1/x", "http://[::1]:80/x"),
            ("\"127.0.0.1:11434\"", "http://127.0.0.1:11434"),
            ("'box'", "http://box:11434"),
        ] {
            assert_eq!(parse_ollama_host(host), url, "{host}");
        }
    }
}
