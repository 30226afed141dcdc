//! Stores the keys of logins in the system's keyring, or in a file if there is no keyring.
//!
//! A small file lists the logins, so that the keyring is accessed only if it may contain a key.

mod keyring;
mod mcp_logins;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use callboard_models::provider::{ApiKey, Provider};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::limits::MAX_KEY_FILE_BYTES;
use crate::{secrets, user_folders};
use callboard_runtime::private_files as private;
use keyring::{Keyring, SystemKeyring};

/// The stored logins of a user. The methods block the thread. They usually return quickly, but may
/// take up to [`limits::KEYRING_TIMEOUT`](crate::limits::KEYRING_TIMEOUT) if the keyring asks the
/// user.
#[derive(Debug, Clone)]
pub(crate) struct KeyStore {
    /// The folder of the file. `None` if the environment defines no folder; no key can be stored
    /// then.
    folder: Option<PathBuf>,
    keyring: Arc<dyn Keyring>,
}

/// A snapshot of all logins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Logins(BTreeMap<String, Login>);

impl Logins {
    /// Returns the login of a provider. OpenAI's two dialects share one login.
    pub(crate) fn for_provider(&self, provider: Provider) -> Option<&Login> {
        self.0.get(entry_name(provider)).filter(|login| !login.only_marks_key_to_remove())
    }

    /// Returns the keys that are stored in the file.
    fn keys_in_file(&self) -> impl Iterator<Item = &ApiKey> {
        self.0.values().filter_map(|login| login.key.as_ref())
    }
}

/// The stored data of a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// Identifies the login. A later login to the same provider has another id, because its key may
    /// differ.
    id: String,
    /// The only URL to which the key may be sent. `None` for the provider's own URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    /// The key. `None` if the key is in the keyring.
    #[serde(default, with = "written", skip_serializing_if = "Option::is_none")]
    key: Option<ApiKey>,
    /// Whether the keyring may still contain the key of an earlier login, because the removal of
    /// that key failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keyring_has_another: bool,
}

impl Login {
    fn new(base_url: Option<String>, key: Option<ApiKey>) -> Self {
        Self { id: Ulid::generate().to_string(), base_url, key, keyring_has_another: false }
    }

    /// Returns whether the key is available only from the keyring.
    pub(crate) fn needs_keyring(&self) -> bool {
        self.key.is_none()
    }

    /// Returns whether the keyring may contain a key of this entry.
    fn may_be_in_keyring(&self) -> bool {
        self.key.is_none() || self.keyring_has_another
    }

    /// Returns whether the login was removed. In this case, the entry only records that a key must
    /// still be removed from the keyring.
    fn only_marks_key_to_remove(&self) -> bool {
        self.key.is_none() && self.keyring_has_another
    }
}

/// The value of an entry in the keyring. The entry is written before the list of logins, so the
/// list may still contain an older login to another server.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyringValue {
    /// The only URL to which the key may be sent. `None` for the provider's own URL.
    base_url: Option<String>,
    key: String,
}

impl KeyringValue {
    fn to_text(&self) -> Result<String, KeyError> {
        serde_json::to_string(self).map_err(|_error| KeyError::new("the key cannot be stored"))
    }

    /// Returns the key of a stored text if the key may be sent to `base_url`. Earlier versions
    /// stored only the key, without the URL.
    fn key_for_url(text: String, base_url: Option<&str>) -> Option<String> {
        match serde_json::from_str::<Self>(&text) {
            Ok(value) => (value.base_url.as_deref() == base_url).then_some(value.key),
            Err(_) => Some(text),
        }
    }
}

/// The location of a stored key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyLocation {
    Keyring,
    File(PathBuf),
}

/// An error of the key store. The message never contains a key.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct KeyError(String);

impl KeyError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// Providers to which users can log in.
pub(crate) const LOGIN_PROVIDERS: [Provider; 4] =
    [Provider::Anthropic, Provider::OpenAi, Provider::Gemini, Provider::Ollama];

/// Returns whether this process has loaded the list of logins.
pub(crate) fn are_logins_loaded() -> bool {
    LOGINS_LOADED.load(Ordering::Acquire)
}

static LOGINS_LOADED: AtomicBool = AtomicBool::new(false);

impl KeyStore {
    /// Creates the store in `$XDG_STATE_HOME/callboard/keys`, or else in the same folder below
    /// `~/.local/state`.
    pub(crate) fn from_env(env: &[(String, String)]) -> Self {
        Self::new(env, Arc::new(SystemKeyring))
    }

    fn new(env: &[(String, String)], keyring: Arc<dyn Keyring>) -> Self {
        let folder = user_folders::state_folder(env).map(|folder| folder.join("keys"));
        Self { folder, keyring }
    }

    /// Reads the list of logins, without accessing the keyring. The keys in the file are redacted
    /// in all later output.
    pub(crate) fn read_logins_without_keyring(&self) -> Result<Logins, KeyError> {
        let logins = self.read_login_file().map(Logins)?;
        logins.keys_in_file().for_each(secrets::add_key_to_redact);
        LOGINS_LOADED.store(true, Ordering::Release);
        Ok(logins)
    }

    /// Returns the key of a login.
    pub(crate) fn read_key(&self, provider: Provider, login: &Login) -> Result<ApiKey, KeyError> {
        self.read_key_of_entry(entry_name(provider), login)?.ok_or_else(|| {
            KeyError("it is not in the system's keyring; run `callboard login` again".to_owned())
        })
    }

    fn read_key_of_entry(&self, name: &str, login: &Login) -> Result<Option<ApiKey>, KeyError> {
        if let Some(key) = &login.key {
            return Ok(Some(key.clone()));
        }
        let value = self.keyring.read(name).map_err(KeyError)?;
        let url = login.base_url.as_deref();
        let key = value.and_then(|value| KeyringValue::key_for_url(value, url));
        Ok(key.as_deref().and_then(ApiKey::from_nonempty_text))
    }

    /// Stores a key for one base URL of a provider, and replaces an earlier key.
    pub(crate) fn store_key(
        &self,
        provider: Provider,
        base_url: Option<String>,
        key: ApiKey,
    ) -> Result<KeyLocation, KeyError> {
        self.store_entry(entry_name(provider), base_url, key)
    }

    fn store_entry(
        &self,
        name: &str,
        base_url: Option<String>,
        key: ApiKey,
    ) -> Result<KeyLocation, KeyError> {
        // If there is no folder for the list of logins, the key must not be stored: a key in the
        // keyring would never be found again.
        self.folder()?;
        let value = KeyringValue { base_url: base_url.clone(), key: key.expose().to_owned() };
        let Err(why) = self.keyring.write(name, &value.to_text()?) else {
            let noted = self.record_login_in_file(name, Login::new(base_url, None));
            if noted.is_err() {
                // The file may still contain an older login, perhaps for another server. If the new
                // key stayed in the keyring, the older login would use it.
                drop(self.keyring.remove(name));
            }
            return noted.map(|_| KeyLocation::Keyring);
        };
        tracing::debug!(why, "storing the key in a file instead");
        let is_in_keyring = self.read_login_file()?.get(name).is_some_and(Login::may_be_in_keyring);
        let keyring_has_another = is_in_keyring && self.keyring.remove(name).is_err();
        let login = Login { keyring_has_another, ..Login::new(base_url, Some(key)) };
        self.record_login_in_file(name, login).map(KeyLocation::File)
    }

    /// Records a login, and returns the path of the file.
    fn record_login_in_file(&self, name: &str, login: Login) -> Result<PathBuf, KeyError> {
        let folder = self.folder()?;
        self.update_login_file(folder, |logins| drop(logins.insert(name.to_owned(), login)))?;
        Ok(key_file_path(folder))
    }

    /// Removes the keys of these providers from all locations. Returns the providers that had a
    /// key.
    pub(crate) fn remove_keys(&self, providers: &[Provider]) -> Result<Vec<Provider>, KeyError> {
        let names: Vec<_> = providers.iter().map(|provider| entry_name(*provider)).collect();
        let had = self.remove_entries(&names)?;
        let providers = providers.iter().filter(|provider| had.contains(&entry_name(**provider)));
        Ok(providers.copied().collect())
    }

    /// Removes these entries from all locations. Returns those that existed.
    fn remove_entries<'a>(&self, names: &[&'a str]) -> Result<Vec<&'a str>, KeyError> {
        let logins = self.read_login_file()?;
        let had = names.iter().filter(|name| logins.contains_key(**name));
        let had: Vec<_> = had.copied().collect();
        if had.is_empty() {
            return Ok(had);
        }
        // If the keyring did not answer within the time limit, the key was stored in the file, but
        // the keyring may have stored the key later too. The key is therefore always removed from
        // the keyring. Many systems have no keyring, so an error of the keyring matters only if the
        // keyring is known to contain a key.
        let removed = had.iter().map(|name| (*name, self.keyring.remove(name)));
        let is_kept = |name: &str| logins[name].may_be_in_keyring();
        let kept = removed.filter_map(|(name, removed)| Some((name, removed.err()?)));
        let kept: BTreeMap<_, _> = kept.filter(|(name, _)| is_kept(name)).collect();
        self.update_login_file(self.folder()?, |logins| {
            for name in &had {
                match logins.get_mut(*name) {
                    // The login stays in the list, so that its removal can be retried.
                    Some(login) if kept.contains_key(name) => login.key = None,
                    _ => drop(logins.remove(*name)),
                }
            }
        })?;
        match kept.into_values().next() {
            Some(why) => Err(KeyError(why)),
            None => Ok(had),
        }
    }

    fn folder(&self) -> Result<&Path, KeyError> {
        let nowhere = || KeyError("there is no folder for keys: set HOME".to_owned());
        self.folder.as_deref().ok_or_else(nowhere)
    }

    fn read_login_file(&self) -> Result<BTreeMap<String, Login>, KeyError> {
        let Some(folder) = &self.folder else { return Ok(BTreeMap::new()) };
        let path = key_file_path(folder);
        let text = private::read_secret_file(folder, &path, MAX_KEY_FILE_BYTES);
        let Some(text) = text.map_err(|error| path_error(&path, &error))? else {
            return Ok(BTreeMap::new());
        };
        // The parser's message could quote a key.
        serde_json::from_slice(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            path_error(&path, &format!("it is damaged at line {line}, column {column}"))
        })
    }

    fn update_login_file(
        &self,
        folder: &Path,
        change: impl FnOnce(&mut BTreeMap<String, Login>),
    ) -> Result<(), KeyError> {
        let path = key_file_path(folder);
        let _lock =
            private::lock_private_folder(folder).map_err(|error| path_error(folder, &error))?;
        let mut logins = self.read_login_file()?;
        change(&mut logins);
        let text = serde_json::to_vec_pretty(&logins).map_err(|error| path_error(&path, &error))?;
        if text.len() as u64 > MAX_KEY_FILE_BYTES {
            return Err(path_error(&path, &format!("it would be over {MAX_KEY_FILE_BYTES} bytes")));
        }
        private::replace_file_atomically(folder, &path, &text)
            .map_err(|error| path_error(&path, &error))
    }
}

/// Returns the name under which a provider's login is stored.
fn entry_name(provider: Provider) -> &'static str {
    match provider {
        Provider::OpenAiResponses => Provider::OpenAi.name(),
        other => other.name(),
    }
}

fn key_file_path(folder: &Path) -> PathBuf {
    folder.join("keys.json")
}

fn path_error(path: &Path, why: &dyn std::fmt::Display) -> KeyError {
    KeyError(format!("{}: {why}", path.display()))
}

/// The serialized form of a key in the file.
mod written {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::ApiKey;

    pub(super) fn serialize<S: Serializer>(key: &Option<ApiKey>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(key.as_ref().map(ApiKey::expose).unwrap_or_default())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<ApiKey>, D::Error> {
        Ok(ApiKey::from_nonempty_text(&String::deserialize(from)?))
    }
}

#[cfg(test)]
mod tests;
