//! Capabilities of models by name, from the model library's catalogue.

use rig_core::{
    catalog::{Catalog, ModelSpec},
    completion::{Effort as Level, Reasoning},
    providers::registry::ProviderId,
};

use serde_json::json;

use super::{Provider, ProviderSettings};
use crate::{Effort, ModelCapabilities};

/// Finds a model in the catalogue of a vendor. If the full name is not found, searches for the part
/// after the last `/`, because servers with models of several vendors use names of the form
/// `vendor/name`.
pub(super) fn find_catalogue_spec(
    settings: &ProviderSettings,
    vendor: &str,
) -> Option<&'static ModelSpec> {
    let catalog = Catalog::builtin();
    let of = |vendor: &str, model: &str| catalog.find(ProviderId::catalog(vendor)?, model);
    of(vendor, &settings.model).or_else(|| {
        let (_, model) = settings.model.rsplit_once('/')?;
        of(vendor, model)
    })
}

/// Returns the capabilities of a model. An unknown model is assumed to accept images but no audio.
pub(super) fn model_capabilities(
    settings: &ProviderSettings,
    spec: Option<&ModelSpec>,
) -> ModelCapabilities {
    let listed = spec.and_then(|spec| spec.context_window).map(u64::from);
    ModelCapabilities {
        images: spec.is_none_or(|spec| spec.input.image),
        audio: spec.is_some_and(|spec| spec.input.audio),
        efforts: match spec {
            Some(spec) => THINKING_EFFORTS
                .iter()
                .any(|effort| find_reasoning_for_effort(settings, Some(spec), *effort).is_some()),
            None => is_thinking_family(settings),
        },
        context_tokens: settings.context_tokens.or(match settings.provider {
            Provider::Ollama if !is_cloud_model(settings) => Some(OLLAMA_CONTEXT_TOKENS),
            _ => listed,
        }),
        ..ModelCapabilities::new()
    }
}

/// Context size in tokens for requests to a local Ollama, if no size is configured. This size is
/// sufficient for an agent's work. A model's full context may not fit into memory.
const OLLAMA_CONTEXT_TOKENS: u64 = 16_384;

fn is_cloud_model(settings: &ProviderSettings) -> bool {
    settings.model.ends_with("-cloud") || settings.model.ends_with(":cloud")
}

/// Returns whether a model supports thinking.
pub(super) fn supports_thinking(settings: &ProviderSettings, spec: Option<&ModelSpec>) -> bool {
    spec.map_or_else(|| is_thinking_family(settings), |spec| spec.reasoning.supported)
}

/// Returns the thinking effort as a request parameter in OpenAI's format. The parameter is used for
/// servers for which the library has no configuration.
pub(super) fn openai_effort_param(
    provider: Provider,
    reasoning: &Reasoning,
) -> Option<(String, serde_json::Value)> {
    let effort = match reasoning {
        Reasoning::Off => "none",
        Reasoning::Effort(level) => level.as_str(),
        _ => return None,
    };
    Some(match provider {
        Provider::OpenAiResponses => ("reasoning".to_owned(), json!({ "effort": effort })),
        _ => ("reasoning_effort".to_owned(), json!(effort)),
    })
}

const THINKING_EFFORTS: [Effort; 3] = [Effort::Low, Effort::Medium, Effort::High];

/// Returns whether a model that is newer than the catalogue belongs to a family with a configurable
/// thinking effort.
fn is_thinking_family(settings: &ProviderSettings) -> bool {
    let families: &[&str] = match settings.provider {
        Provider::Anthropic => &["claude-"],
        Provider::Gemini => &["gemini-2.5", "gemini-3", "gemini-4"],
        Provider::OpenAi | Provider::OpenAiResponses => &["gpt-5", "gpt-6", "o3", "o4"],
        Provider::Ollama => &["gpt-oss", "qwen3", "deepseek-r1", "deepseek-v3"],
    };
    families.iter().any(|family| settings.model.starts_with(family))
}

/// Returns a setting for a thinking effort. If several settings are possible, returns the first
/// setting that the model supports. Returns `None` if the model supports none of these settings.
pub(super) fn find_reasoning_for_effort(
    settings: &ProviderSettings,
    spec: Option<&ModelSpec>,
    effort: Effort,
) -> Option<Reasoning> {
    let (levels, tokens): (&[Level], u32) = match effort {
        Effort::Off => (&[Level::Minimal, Level::Low], 0),
        Effort::Low => (&[Level::Low, Level::Medium], 2_048),
        Effort::Medium => (&[Level::Medium, Level::High], 8_192),
        Effort::High => (&[Level::High, Level::Medium], 24_576),
    };
    let levels = levels.iter().map(|level| Reasoning::Effort(*level));
    let off = (effort == Effort::Off).then_some(Reasoning::Off);
    let Some(spec) = spec else {
        return off.into_iter().chain(levels).next().filter(|_| is_thinking_family(settings));
    };
    let budget = spec
        .reasoning
        .budget
        .as_ref()
        .filter(|_| effort != Effort::Off)
        .map(|range| Reasoning::Budget { tokens: tokens.clamp(*range.start(), *range.end()) });
    off.into_iter().chain(levels).chain(budget).find(|way| spec.reasoning.refusal(way).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_model_determines_its_capabilities() {
        for (provider, vendor, model, images, efforts, context) in [
            (Provider::Anthropic, "anthropic", "claude-haiku-4-5", true, true, Some(200_000)),
            (Provider::Anthropic, "anthropic", "claude-next-9", true, true, None),
            (Provider::OpenAi, "openai", "gpt-4o", true, false, Some(128_000)),
            (Provider::OpenAi, "openai", "openai/gpt-4o", true, false, Some(128_000)),
            (Provider::OpenAi, "openai", "local-model", true, false, None),
            (Provider::Gemini, "gcp.gemini", "gemini-2.5-flash", true, true, Some(1_048_576)),
            (Provider::Ollama, "ollama", "llama3.2", false, false, Some(16_384)),
            (Provider::Ollama, "ollama", "my-own", true, false, Some(16_384)),
        ] {
            let settings = ProviderSettings::new(provider, model);
            let traits = model_capabilities(&settings, find_catalogue_spec(&settings, vendor));
            let got = (traits.images, traits.efforts, traits.context_tokens);
            assert_eq!(got, (images, efforts, context), "{model}");
        }
        let settings = ProviderSettings {
            context_tokens: Some(5),
            ..ProviderSettings::new(Provider::OpenAi, "gpt-4o")
        };
        assert_eq!(
            model_capabilities(&settings, find_catalogue_spec(&settings, "openai")).context_tokens,
            Some(5)
        );
    }

    #[test]
    fn an_effort_uses_the_first_setting_that_the_model_supports() {
        let of = |provider, vendor, model: &str, effort| {
            let settings = ProviderSettings::new(provider, model);
            find_reasoning_for_effort(&settings, find_catalogue_spec(&settings, vendor), effort)
        };
        let anthropic = |model, effort| of(Provider::Anthropic, "anthropic", model, effort);
        let budget = Some(Reasoning::Budget { tokens: 8_192 });
        assert_eq!(anthropic("claude-haiku-4-5", Effort::Medium), budget);
        assert_eq!(anthropic("claude-haiku-4-5", Effort::Off), Some(Reasoning::Off));
        let high = Some(Reasoning::Effort(Level::High));
        assert_eq!(anthropic("claude-next-9", Effort::High), high);
        assert_eq!(of(Provider::OpenAi, "openai", "gpt-4o", Effort::High), None);
        let gemini = |effort| of(Provider::Gemini, "gcp.gemini", "gemini-2.5-pro", effort);
        assert_eq!(gemini(Effort::Medium), budget);
        assert_eq!(of(Provider::OpenAi, "openai", "local-model", Effort::Low), None);
    }
}
