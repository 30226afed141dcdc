//! The environment variables of the configuration.

use callboard_models::provider::{ApiKey, Provider, ProviderSettings};

use super::{ProviderConfig, SourcedValue, ValueSource, check_base_url};
use crate::secrets;

/// Returns the value of a variable. A variable with an empty value counts as unset.
pub(super) fn env_value(env: &[(String, String)], name: &str) -> Option<SourcedValue<String>> {
    let (name, value) = env.iter().find(|(other, value)| other == name && !value.is_empty())?;
    Some(SourcedValue { value: value.clone(), source: ValueSource::Variable(name.clone()) })
}

/// Returns the secret in a variable, and redacts the secret in all later output. `named_by` is the
/// key of the file that names the variable. A missing variable is logged.
pub(super) fn env_secret(
    env: &[(String, String)],
    variable: &str,
    named_by: &str,
) -> Option<String> {
    let found = env_value(env, variable).map(|found| found.value);
    match &found {
        Some(secret) => secrets::add_to_redact(secret),
        None => tracing::warn!("{named_by}: {variable} is not set"),
    }
    found
}

/// Overrides the base URL of the file with the base URL from the environment. `OLLAMA_HOST` is
/// meant for the server itself, so an unusable value is logged and ignored: it must not prevent
/// the use of other providers.
pub(super) fn override_base_url(
    provider: Provider,
    configured: &mut ProviderConfig,
    env: &[(String, String)],
) {
    let mut urls = provider.url_variables().iter().filter_map(|name| env_value(env, name));
    if let Some(mut url) = urls.next() {
        // `OLLAMA_HOST` may omit parts of the URL.
        let read = ProviderSettings::from_env(provider, "", env.iter().cloned());
        url.value = read.ok().and_then(|settings| settings.base_url).unwrap_or(url.value);
        let is_host = url.source == ValueSource::Variable("OLLAMA_HOST".to_owned());
        if is_host && check_base_url(&url.value).is_err() {
            tracing::warn!("OLLAMA_HOST is not the address of a server, and is ignored");
            return;
        }
        configured.base_url = Some(url);
    }
}

/// Returns the key of a provider.
pub(super) fn find_provider_key(
    provider: Provider,
    configured: &ProviderConfig,
    env: &[(String, String)],
) -> Option<SourcedValue<ApiKey>> {
    // If the file names a variable, only this variable is used: the default variables may contain
    // the key of another server.
    let named = configured.key_env.as_ref().map(|named| named.value.as_str());
    let names = named.as_ref().map_or(provider.key_variables(), std::slice::from_ref);
    let mut found = names.iter().filter_map(|name| env_value(env, name));
    found.find_map(|SourcedValue { value, source }| {
        ApiKey::from_nonempty_text(&value).map(|value| SourcedValue { value, source })
    })
}
