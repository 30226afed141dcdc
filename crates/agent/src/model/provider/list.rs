//! The models that a provider offers.

use tokio::time::timeout;

use super::{Settings, dialect::Dialect, fault};
use crate::{limits, model::ModelError};

/// A model that a provider offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// What `--model` takes: `provider/name`.
    pub value: String,
    /// What the provider calls it for people, where that differs from its name.
    pub title: Option<String>,
    /// Tokens that a request and its reply may have together, if the provider says so.
    pub context_tokens: Option<u64>,
}

/// Asks a provider which models it offers, in its own order: at most
/// [`limits::MAX_LISTED_MODELS`], within [`limits::MODEL_LIST_DEADLINE`]. The settings' own model
/// does not matter. Must be called inside a tokio runtime.
///
/// # Errors
/// Those of a reply.
pub async fn models(settings: &Settings) -> Result<Vec<Listed>, ModelError> {
    let dialect = Dialect::of(settings);
    let list = match timeout(limits::MODEL_LIST_DEADLINE, dialect.list()).await {
        Ok(Ok(list)) => list,
        Ok(Err(error)) => return Err(fault::of(&error, settings.key.as_ref())),
        Err(_) => {
            let seconds = limits::MODEL_LIST_DEADLINE.as_secs();
            return Err(fault::transient(format!("it did not list its models within {seconds} s")));
        }
    };
    let models = list.iter().take(limits::MAX_LISTED_MODELS).map(|model| {
        let name = model.id.strip_prefix("models/").unwrap_or(&model.id);
        Listed {
            value: format!("{}/{name}", settings.provider.name()),
            title: model.name.clone().filter(|title| *title != model.id),
            context_tokens: model.context_length.map(u64::from),
        }
    });
    Ok(models.collect())
}
