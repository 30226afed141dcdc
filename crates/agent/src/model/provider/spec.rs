//! What is known of a model by its name, from the model library's catalogue.

use rig_core::{
    catalog::{Catalog, ModelSpec},
    completion::{Effort as Level, Reasoning},
    providers::registry::ProviderId,
};

use super::{Provider, Settings};
use crate::model::{Effort, Traits};

/// Finds a model among those of a vendor, else, for a server that serves others' models, among
/// those of the vendor that its name begins with.
pub(super) fn find(settings: &Settings, vendor: &str) -> Option<&'static ModelSpec> {
    let catalog = Catalog::builtin();
    let of = |vendor: &str, model: &str| catalog.find(ProviderId::catalog(vendor)?, model);
    of(vendor, &settings.model).or_else(|| {
        let (_, model) = settings.model.rsplit_once('/')?;
        of(vendor, model)
    })
}

/// Says what a model takes. One that nobody knows is taken to see images and to hear nothing.
pub(super) fn traits(settings: &Settings, spec: Option<&ModelSpec>) -> Traits {
    let listed = spec.and_then(|spec| spec.context_window).map(u64::from);
    Traits {
        images: spec.is_none_or(|spec| spec.input.image),
        audio: spec.is_some_and(|spec| spec.input.audio),
        efforts: match spec {
            Some(spec) => {
                EFFORTS.iter().any(|effort| reasoning(settings, Some(spec), *effort).is_some())
            }
            None => thinks_when_told(settings),
        },
        context_tokens: settings.context_tokens.or(listed),
    }
}

const EFFORTS: [Effort; 3] = [Effort::Low, Effort::Medium, Effort::High];

/// Models that came after the catalogue: those of these families can all be told.
fn thinks_when_told(settings: &Settings) -> bool {
    let families: &[&str] = match settings.provider {
        Provider::Anthropic => &["claude-"],
        Provider::Gemini => &["gemini-"],
        Provider::OpenAi | Provider::OpenAiResponses => &["gpt-5", "gpt-6", "o3", "o4"],
        Provider::Ollama => &["gpt-oss", "qwen3", "deepseek-r1", "deepseek-v3"],
    };
    families.iter().any(|family| settings.model.starts_with(family))
}

/// Says how to tell a model how much to think: the first way that it takes, if any.
pub(super) fn reasoning(
    settings: &Settings,
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
        return off.into_iter().chain(levels).next().filter(|_| thinks_when_told(settings));
    };
    let budget = spec
        .reasoning
        .budget
        .as_ref()
        .filter(|_| effort != Effort::Off)
        .map(|range| Reasoning::Budget { tokens: tokens.clamp(*range.start(), *range.end()) });
    off.into_iter().chain(levels).chain(budget).find(|way| spec.reasoning.refusal(way).is_none())
}
