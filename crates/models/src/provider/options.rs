//! Request options other than the messages, in the library's form or as parameters of the dialect.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rig_core::completion::CompletionRequest;
use serde_json::{Map, Value, json};

use super::{Provider, ProviderSettings, capabilities, dialect::DialectClient};
use crate::{Effort, ModelCapabilities, ModelRequest};

/// Sets the thinking effort, the format of the reply, and the parameters of the dialect on the
/// library's request.
pub(super) fn set_request_options(
    completion: &mut CompletionRequest,
    request: &ModelRequest,
    settings: &ProviderSettings,
    dialect: &DialectClient,
    traits: ModelCapabilities,
) {
    let known = capabilities::find_catalogue_spec(settings, dialect.vendor);
    let mut params = Map::new();
    let reasoning = request
        .effort
        .and_then(|effort| capabilities::find_reasoning_for_effort(settings, known, effort));
    match reasoning {
        Some(reasoning) if dialect.is_compatible => {
            params.extend(capabilities::openai_effort_param(settings.provider, &reasoning));
        }
        reasoning => completion.options.reasoning = reasoning,
    }
    let thinks = capabilities::supports_thinking(settings, known);
    match settings.provider {
        Provider::Ollama => {
            // Ollama's default context is small, and Ollama silently truncates longer requests.
            params.insert("num_ctx".to_owned(), json!(traits.context_tokens));
        }
        Provider::OpenAiResponses => {
            // Each request contains the whole session, so the provider need not store it.
            params.insert("store".to_owned(), json!(false));
            if thinks {
                params.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
            }
        }
        Provider::Gemini if thinks && request.effort != Some(Effort::Off) => {
            let thoughts = json!({ "thinkingConfig": { "includeThoughts": true } });
            params.insert("generationConfig".to_owned(), thoughts);
        }
        Provider::Gemini | Provider::Anthropic | Provider::OpenAi => {}
    }
    if dialect.takes_cache_key {
        params.insert("prompt_cache_key".to_owned(), json!(prompt_cache_key(&request.system)));
    }
    if let Some(schema) = request.response_schema.as_deref() {
        match schema_param(settings.provider, schema) {
            Some((name, form)) => drop(params.insert(name.to_owned(), form)),
            None => completion.output_schema = serde_json::from_value(schema.clone()).ok(),
        }
    }
    completion.additional_params = (!params.is_empty()).then(|| params.into());
}

/// Returns the parameter that restricts a reply to a JSON Schema. The library's own conversion
/// would make optional properties required where possible. A model would then invent values for
/// these properties.
fn schema_param(provider: Provider, schema: &Value) -> Option<(&'static str, Value)> {
    Some(match provider {
        Provider::OpenAi => {
            let named = json!({ "name": "reply", "schema": schema });
            ("response_format", json!({ "type": "json_schema", "json_schema": named }))
        }
        Provider::OpenAiResponses => {
            let format = json!({
                "type": "json_schema", "name": "reply", "schema": schema, "strict": false,
            });
            ("text", json!({ "format": format }))
        }
        Provider::Ollama => ("format", schema.clone()),
        Provider::Anthropic | Provider::Gemini => return None,
    })
}

/// Returns a key for the common prefix of a session's requests. The provider routes requests with
/// the same key to a machine that has this prefix in its cache.
fn prompt_cache_key(system: &str) -> String {
    let mut hasher = DefaultHasher::new();
    system.hash(&mut hasher);
    format!("callboard-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(settings: &ProviderSettings, request: &ModelRequest) -> Value {
        let mut completion = CompletionRequest::new("hi");
        let (dialect, traits) =
            (DialectClient::from_settings(settings), ModelCapabilities::default());
        set_request_options(&mut completion, request, settings, &dialect, traits);
        completion.additional_params.unwrap_or_default()
    }

    #[test]
    fn each_dialect_gets_the_parameters_that_an_agent_needs() {
        let plain = ModelRequest::default();
        let of = |provider, model: &str| params(&ProviderSettings::new(provider, model), &plain);
        assert_eq!(of(Provider::OpenAiResponses, "gpt-4o")["store"], false);
        assert_eq!(of(Provider::OpenAiResponses, "gpt-4o")["include"], Value::Null);
        let sealed = json!(["reasoning.encrypted_content"]);
        assert_eq!(of(Provider::OpenAiResponses, "gpt-5")["include"], sealed);
        let thoughts = "/generationConfig/thinkingConfig/includeThoughts";
        let gemini = of(Provider::Gemini, "gemini-2.5-flash");
        assert_eq!(gemini.pointer(thoughts), Some(&json!(true)));
        assert_eq!(of(Provider::Gemini, "gemini-2.0-flash"), Value::Null);
        assert!(of(Provider::OpenAi, "gpt-4o")["prompt_cache_key"].is_string());

        let elsewhere = ProviderSettings {
            base_url: Some("http://127.0.0.1:1".into()),
            ..ProviderSettings::new(Provider::OpenAi, "gpt-5")
        };
        let request = ModelRequest { effort: Some(Effort::Low), ..ModelRequest::default() };
        assert_eq!(params(&elsewhere, &request), json!({ "reasoning_effort": "low" }));
    }

    #[test]
    fn a_schema_is_sent_unchanged_if_the_dialect_supports_it() {
        let schema = json!({ "type": "object", "properties": { "limit": { "type": "integer" } } });
        let request = ModelRequest {
            response_schema: Some(schema.clone().into()),
            ..ModelRequest::default()
        };
        for (provider, pointer) in [
            (Provider::OpenAi, "/response_format/json_schema/schema"),
            (Provider::OpenAiResponses, "/text/format/schema"),
            (Provider::Ollama, "/format"),
        ] {
            let params = params(&ProviderSettings::new(provider, "m"), &request);
            assert_eq!(params.pointer(pointer), Some(&schema), "{provider:?}");
        }
    }
}
