//! The keys that a login stores: in the system's keyring, or in a file where there is none.
//!
//! It knows no provider's protocol, and nothing of the keys that variables hold. A small file says
//! which logins there are, so that nobody's keyring is asked in vain.

mod keyring;

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

/// The logins of the user that an environment is of. Its methods block: for a moment, or where a
/// keyring asks its user, for up to [`limits::KEYRING_DEADLINE`](crate::limits::KEYRING_DEADLINE).
#[derive(Debug, Clone)]
pub(crate) struct KeyStore {
    /// None where the environment names no folder; then nothing can be stored.
    folder: Option<PathBuf>,
    keyring: Arc<dyn Keyring>,
}

/// All logins, as they were at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Logins(BTreeMap<String, Login>);

impl Logins {
    /// Returns the login of a provider. OpenAI's two dialects share theirs.
    pub(crate) fn for_provider(&self, provider: Provider) -> Option<&Login> {
        self.0.get(entry_name(provider)).filter(|login| !login.is_left_over())
    }

    /// Returns the keys that lie in the file.
    fn keys(&self) -> impl Iterator<Item = &ApiKey> {
        self.0.values().filter_map(|login| login.key.as_ref())
    }
}

/// What a login left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// Tells it from an earlier one of the same provider, whose key may have been another.
    id: String,
    /// The only address that the key may be sent to; none for the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    /// None if the keyring holds it.
    #[serde(default, with = "written", skip_serializing_if = "Option::is_none")]
    key: Option<ApiKey>,
    /// Whether the keyring may hold the key of an earlier login, because it did not let go of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keyring_has_another: bool,
}

impl Login {
    fn new(base_url: Option<String>, key: Option<ApiKey>) -> Self {
        Self { id: Ulid::generate().to_string(), base_url, key, keyring_has_another: false }
    }

    /// Whether only the keyring can tell its key.
    pub(crate) fn needs_keyring(&self) -> bool {
        self.key.is_none()
    }

    /// Whether the keyring may hold a key.
    fn is_in_keyring(&self) -> bool {
        self.key.is_none() || self.keyring_has_another
    }

    /// Whether it is none any more, and only notes what the keyring is to be rid of.
    fn is_left_over(&self) -> bool {
        self.key.is_none() && self.keyring_has_another
    }
}

/// Where a key lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyLocation {
    Keyring,
    File(PathBuf),
}

/// What went wrong with stored keys; the text holds none of them.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct KeyError(String);

impl KeyError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// The providers that one can log in to.
pub(crate) const LOGIN_PROVIDERS: [Provider; 4] =
    [Provider::Anthropic, Provider::OpenAi, Provider::Gemini, Provider::Ollama];

/// Whether this process has read which logins there are.
pub(crate) fn are_logins_loaded() -> bool {
    LOGINS_LOADED.load(Ordering::Acquire)
}

static LOGINS_LOADED: AtomicBool = AtomicBool::new(false);

impl KeyStore {
    /// Makes the store in `$XDG_STATE_HOME/callboard/keys`, or below `~/.local/state`.
    pub(crate) fn from_env(env: &[(String, String)]) -> Self {
        Self::new(env, Arc::new(SystemKeyring))
    }

    fn new(env: &[(String, String)], keyring: Arc<dyn Keyring>) -> Self {
        let folder = user_folders::state_folder(env).map(|folder| folder.join("keys"));
        Self { folder, keyring }
    }

    /// Reads which logins there are; no keyring is asked. Nobody is shown their keys from then on.
    pub(crate) fn logins(&self) -> Result<Logins, KeyError> {
        let logins = self.read().map(Logins)?;
        logins.keys().for_each(secrets::add_key);
        LOGINS_LOADED.store(true, Ordering::Release);
        Ok(logins)
    }

    /// Returns the key of a login.
    pub(crate) fn key(&self, provider: Provider, login: &Login) -> Result<ApiKey, KeyError> {
        if let Some(key) = &login.key {
            return Ok(key.clone());
        }
        let key = self.keyring.read(entry_name(provider)).map_err(KeyError)?;
        key.as_deref().and_then(ApiKey::new).ok_or_else(|| {
            KeyError("the system's keyring has lost it; run `callboard login` again".to_owned())
        })
    }

    /// Stores a key for one address of a provider, in the place of an earlier one.
    pub(crate) fn store(
        &self,
        provider: Provider,
        base_url: Option<String>,
        key: ApiKey,
    ) -> Result<KeyLocation, KeyError> {
        // Nobody would look in the keyring for what no file knows of.
        self.folder()?;
        let name = entry_name(provider);
        let Err(why) = self.keyring.write(name, key.expose()) else {
            let noted = self.save_login(name, Login::new(base_url, None));
            if noted.is_err() {
                // It would be taken for the key of the login that is noted, perhaps elsewhere.
                drop(self.keyring.remove(name));
            }
            return noted.map(|_| KeyLocation::Keyring);
        };
        tracing::debug!(why, "the key goes into a file");
        let is_in_keyring = self.read()?.get(name).is_some_and(Login::is_in_keyring);
        let keyring_has_another = is_in_keyring && self.keyring.remove(name).is_err();
        let login = Login { keyring_has_another, ..Login::new(base_url, Some(key)) };
        self.save_login(name, login).map(KeyLocation::File)
    }

    /// Notes a login; returns where.
    fn save_login(&self, name: &str, login: Login) -> Result<PathBuf, KeyError> {
        let folder = self.folder()?;
        self.update_file(folder, |logins| drop(logins.insert(name.to_owned(), login)))?;
        Ok(file_path(folder))
    }

    /// Removes the keys of these providers, wherever they lie; returns those that had one.
    pub(crate) fn remove(&self, providers: &[Provider]) -> Result<Vec<Provider>, KeyError> {
        let logins = self.read()?;
        let had = providers.iter().filter(|it| logins.contains_key(entry_name(**it)));
        let had: Vec<_> = had.copied().collect();
        if had.is_empty() {
            return Ok(had);
        }
        // The keyring is asked for those in the file too: it may have taken a key after nobody
        // waited for it any more. Only where it is known to hold one its answer matters: often
        // there is none.
        let removed = had.iter().map(|it| (entry_name(*it), self.keyring.remove(entry_name(*it))));
        let is_kept = |name: &str| logins[name].is_in_keyring();
        let kept = removed.filter_map(|(name, removed)| Some((name, removed.err()?)));
        let kept: BTreeMap<_, _> = kept.filter(|(name, _)| is_kept(name)).collect();
        self.update_file(self.folder()?, |logins| {
            for name in had.iter().map(|it| entry_name(*it)) {
                match logins.get_mut(name) {
                    // It stays noted, so that it can be tried again.
                    Some(login) if kept.contains_key(name) => login.key = None,
                    _ => drop(logins.remove(name)),
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

    fn read(&self) -> Result<BTreeMap<String, Login>, KeyError> {
        let Some(folder) = &self.folder else { return Ok(BTreeMap::new()) };
        let path = file_path(folder);
        let text = private::read_secret(folder, &path, MAX_KEY_FILE_BYTES);
        let Some(text) = text.map_err(|error| path_error(&path, &error))? else {
            return Ok(BTreeMap::new());
        };
        // The parser's words could repeat a key.
        serde_json::from_slice(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            path_error(&path, &format!("it is damaged at line {line}, column {column}"))
        })
    }

    fn update_file(
        &self,
        folder: &Path,
        change: impl FnOnce(&mut BTreeMap<String, Login>),
    ) -> Result<(), KeyError> {
        let path = file_path(folder);
        let _lock = private::lock(folder).map_err(|error| path_error(folder, &error))?;
        let mut logins = self.read()?;
        change(&mut logins);
        let text = serde_json::to_vec_pretty(&logins).map_err(|error| path_error(&path, &error))?;
        private::replace(folder, &path, &text).map_err(|error| path_error(&path, &error))
    }
}

/// The name that a provider's login is stored under.
fn entry_name(provider: Provider) -> &'static str {
    match provider {
        Provider::OpenAiResponses => Provider::OpenAi.name(),
        other => other.name(),
    }
}

fn file_path(folder: &Path) -> PathBuf {
    folder.join("keys.json")
}

fn path_error(path: &Path, why: &dyn std::fmt::Display) -> KeyError {
    KeyError(format!("{}: {why}", path.display()))
}

/// How a key stands in the file.
mod written {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::ApiKey;

    pub(super) fn serialize<S: Serializer>(key: &Option<ApiKey>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(key.as_ref().map(ApiKey::expose).unwrap_or_default())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<ApiKey>, D::Error> {
        Ok(ApiKey::new(&String::deserialize(from)?))
    }
}

#[cfg(test)]
mod tests;
