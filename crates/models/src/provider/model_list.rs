//! The list of models that a provider offers.

use callboard_text::escape_invisible;
use tokio::time::timeout;

use super::{ProviderSettings, dialect::DialectClient, errors};
use crate::{ModelError, limits};

/// A model that a provider offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedModel {
    /// Name for [`ProviderSettings::model`].
    pub name: String,
    /// Display name, if it differs from `name`.
    pub title: Option<String>,
    /// Maximum number of tokens of a request and its reply together, if the provider reports this
    /// number.
    pub context_tokens: Option<u64>,
}

/// Requests the list of a provider's models. The list keeps the provider's order and has at most
/// 1,000 models. The request takes at most 20 s. Names with control characters or invisible
/// characters are omitted. The field `model` of `settings` is ignored. Call this function inside a
/// tokio runtime.
///
/// # Errors
/// Returns the same errors as a reply of the provider.
pub async fn list_models(settings: &ProviderSettings) -> Result<Vec<ListedModel>, ModelError> {
    let dialect = DialectClient::from_settings(settings);
    let list = match timeout(limits::MODEL_LIST_TIMEOUT, dialect.list_models()).await {
        Ok(Ok(list)) => list,
        Ok(Err(error)) => return Err(errors::from_provider_error(&error, settings.key.as_ref())),
        Err(_) => {
            let seconds = limits::MODEL_LIST_TIMEOUT.as_secs();
            return Err(errors::transient_error(format!(
                "it did not list its models within {seconds} s"
            )));
        }
    };
    let shown = list.iter().filter(|model| is_displayable_name(&model.id));
    let models = shown.take(limits::MAX_LISTED_MODELS).map(|model| {
        let name = model.id.strip_prefix("models/").unwrap_or(&model.id);
        let title = model.name.as_ref().filter(|title| **title != model.id);
        ListedModel {
            name: name.to_owned(),
            title: title.map(|title| escape_invisible(title)),
            context_tokens: model.context_length.map(u64::from),
        }
    });
    Ok(models.collect())
}

/// Returns whether a model's name is safe to display. Terminals and the menus of clients show these
/// names, so names with control characters or invisible characters are rejected.
pub(super) fn is_displayable_name(name: &str) -> bool {
    escape_invisible(name) == name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{
        ApiKey, Provider,
        test_server::{format_response, serve_responses},
    };

    #[tokio::test]
    async fn each_provider_lists_its_models() {
        let openai = r#"{"data":[{"id":"b","object":"model"},{"id":"\u001b[2Jc","object":"model"},{"id":"\u202ed","object":"model"},{"id":"a","object":"model"}]}"#;
        let anthropic = r#"{"data":[{"type":"model","id":"claude-x","display_name":"Claude\u0007 X","created_at":"2026-01-01T00:00:00Z"}],"has_more":false}"#;
        let gemini = r#"{"models":[{"name":"models/gemini-x","displayName":"Gemini X","inputTokenLimit":1000,"outputTokenLimit":10,"supportedGenerationMethods":["generateContent"]}]}"#;
        let ollama = r#"{"models":[{"name":"qwen3:4b","model":"qwen3:4b","modified_at":"2026-01-01T00:00:00Z","size":1,"digest":"d","details":{}}]}"#;
        for (provider, body, path, expected) in [
            (Provider::OpenAi, openai, "GET /v1/models ", vec!["b", "a"]),
            (Provider::Anthropic, anthropic, "GET /v1/models", vec!["claude-x"]),
            (Provider::Gemini, gemini, "GET /v1beta/models", vec!["gemini-x"]),
            (Provider::Ollama, ollama, "GET /api/tags ", vec!["qwen3:4b"]),
        ] {
            let reply = format_response("200 OK", "content-type: application/json", body);
            let (url, asked) = serve_responses(vec![reply]).await;
            let settings = ProviderSettings {
                base_url: Some(url),
                key: ApiKey::from_nonempty_text("sk-test-secret"),
                ..ProviderSettings::new(provider, "")
            };
            let listed = list_models(&settings).await.unwrap();
            assert!(listed.iter().flat_map(|model| &model.title).all(|it| is_displayable_name(it)));
            let listed: Vec<_> = listed.iter().map(|model| model.name.as_str()).collect();
            assert_eq!(listed, expected);
            let head = &asked.await.unwrap()[0].head;
            assert!(head.starts_with(path), "{head}");
            assert_eq!(head.matches("sk-test-secret").count(), 1, "{head}");
        }
    }

    #[tokio::test]
    async fn a_refused_list_reports_the_reason() {
        let (url, _asked) =
            serve_responses(vec![format_response("401 No", "", r#"{"error":"no key"}"#)]).await;
        let settings =
            ProviderSettings { base_url: Some(url), ..ProviderSettings::new(Provider::OpenAi, "") };
        let error = list_models(&settings).await.unwrap_err();
        assert_eq!(error.to_string(), "no key (status 401)");
    }
}
