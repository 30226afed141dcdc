//! What to do about a key that a provider refuses.

use super::{Chooser, Fault, ModelError, Provider};

impl Chooser {
    /// Adds to an error about the key where the key is from and what to do about it.
    pub(super) fn advised(&self, provider: Provider, error: ModelError) -> ModelError {
        if error.fault != Fault::Auth || error.message.contains("callboard login") {
            return error;
        }
        let advice = match &self.config.provider(provider).key {
            Some(key) => {
                let place = self.config.file.place(&key.source);
                format!(
                    "The key is from `{place}`. Change it there, or remove it there and run `callboard login`"
                )
            }
            None if self.login_used(provider).is_some() => {
                "Run `callboard login` to store another key".to_owned()
            }
            None => format!("No key was sent: {}", self.how_to_set_key(provider)),
        };
        let said = error.to_string();
        let message = format!("{}. {advice}", said.trim_end_matches('.'));
        ModelError { message, status: None, ..error }
    }

    /// Returns how a provider gets its key.
    pub(super) fn how_to_set_key(&self, provider: Provider) -> String {
        let own = self.config.provider(provider).key_env.as_ref().map(|name| &*name.value);
        let names = own.as_ref().map_or(provider.key_variables(), std::slice::from_ref);
        match names {
            [] => "run `callboard login`".to_owned(),
            names => format!("set {}, or run `callboard login`", names.join(" or ")),
        }
    }
}
