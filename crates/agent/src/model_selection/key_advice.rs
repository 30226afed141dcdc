//! Adds advice to errors about keys.

use super::{ModelError, ModelErrorKind, ModelSelector, Provider};

impl ModelSelector {
    /// Appends the source of the key and advice for the user to an error about the key.
    pub(super) fn add_key_advice(&self, provider: Provider, mut error: ModelError) -> ModelError {
        if error.kind != ModelErrorKind::Auth || error.message.contains("callboard login") {
            return error;
        }
        let advice = match &self.config.provider(provider).key {
            Some(key) => {
                let place = self.config.file.describe_source(&key.source);
                format!(
                    "The key is from `{place}`. Change it there, or remove it there and run `callboard login`"
                )
            }
            None if self.active_login(provider).is_some() => {
                "Run `callboard login` to store another key".to_owned()
            }
            None => format!("No key was sent: {}", self.key_instructions(provider)),
        };
        let text = error.to_string();
        error.message = format!("{}. {advice}", text.trim_end_matches('.'));
        error.with_status(None)
    }

    /// Returns instructions for setting the key of a provider.
    pub(super) fn key_instructions(&self, provider: Provider) -> String {
        let own = self.config.provider(provider).key_env.as_ref().map(|name| &*name.value);
        let names = own.as_ref().map_or(provider.key_variables(), std::slice::from_ref);
        match names {
            [] => "run `callboard login`".to_owned(),
            names => format!("set {}, or run `callboard login`", names.join(" or ")),
        }
    }
}
