//! The variables that configure: which there are, and what they say of a provider.
//!
//! It reads no environment but the one that it is given.

use callboard_models::provider::{Key, Provider, Settings};

use super::{ProviderConfig, Source, Value};

/// Returns the value of a variable; an empty one is none.
pub(super) fn value(env: &[(String, String)], name: &str) -> Option<Value<String>> {
    let (name, value) = env.iter().find(|(other, value)| other == name && !value.is_empty())?;
    Some(Value { value: value.clone(), source: Source::Variable(name.clone()) })
}

/// Lays the address that the environment says over the one that the file says.
pub(super) fn lay_url_over(
    provider: Provider,
    configured: &mut ProviderConfig,
    env: &[(String, String)],
) {
    let mut urls = provider.url_variables().iter().filter_map(|name| value(env, name));
    if let Some(mut url) = urls.next() {
        // Ollama's own variable may leave parts of an address out.
        let read = Settings::of_env(provider, "", env.iter().cloned());
        url.value = read.ok().and_then(|settings| settings.base_url).unwrap_or(url.value);
        configured.base_url = Some(url);
    }
}

/// Finds the key of a provider.
pub(super) fn key(
    provider: Provider,
    configured: &ProviderConfig,
    env: &[(String, String)],
) -> Option<Value<Key>> {
    // A variable that the file names is the only one: the other may hold the key of another server.
    let named = configured.key_env.as_ref().map(|named| named.value.as_str());
    let names = named.as_ref().map_or(provider.key_variables(), std::slice::from_ref);
    let mut found = names.iter().filter_map(|name| value(env, name));
    found.find_map(|Value { value, source }| Key::new(&value).map(|value| Value { value, source }))
}
