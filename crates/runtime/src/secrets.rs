//! The secrets that sessions redact: values of environment variables that commands do not receive,
//! and keys that the agent receives while it runs.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};

use acp_lifecycle::{Secrets, SessionHandle};
use callboard_process::env::{is_secret_name_or_value, url_password};

use crate::lock::lock;

/// The secrets that all sessions redact, including open sessions. Clones share the same secrets.
#[derive(Clone)]
pub struct LiveSecrets(Arc<SharedSecrets>);

struct SharedSecrets {
    /// The open sessions, which receive each change.
    sessions: Mutex<Vec<Weak<SessionHandle>>>,
    /// The secrets. The environment is searched for secrets when they are first needed, so that
    /// `initialize` does not wait for the search.
    known: LazyLock<RwLock<KnownSecrets>, InitSecretsFn>,
}

type InitSecretsFn = Box<dyn FnOnce() -> RwLock<KnownSecrets> + Send>;

struct KnownSecrets {
    all: Secrets,
    /// Permanent secrets that were added after the start.
    learnt: Vec<String>,
}

impl LiveSecrets {
    /// Collects the values of environment variables whose names look like names of secrets, and the
    /// passwords in URLs. A value that is the path of an existing file or folder is not collected:
    /// paths are shown in many places, and the secret is only the content of the file.
    pub fn from_env(env: impl IntoIterator<Item = (String, String)> + Send + 'static) -> Self {
        let make = move || RwLock::new(KnownSecrets { all: env_secrets(env), learnt: Vec::new() });
        let known = LazyLock::new(Box::new(make) as InitSecretsFn);
        Self(Arc::new(SharedSecrets { sessions: Mutex::default(), known }))
    }

    /// Returns all secrets that are currently known to the agent.
    #[must_use]
    pub fn current(&self) -> Secrets {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).all.clone()
    }

    /// Adds a secret that is used until the process ends, e.g. from the configuration. When this
    /// method returns, open sessions redact the secret. The caller must not hold the lock of a
    /// session.
    pub fn add_permanent(&self, secret: &str) {
        self.update_and_pass_to_sessions(|known| {
            if known.learnt.iter().all(|other| other != secret) {
                known.learnt.push(secret.to_owned());
                known.all = known.all.with_added_values([secret]);
            }
        });
    }

    /// Adds a secret that may be replaced, or is used by one session only, e.g. an access token. If
    /// there are too many, the [oldest are forgotten](Secrets::with_temporary_value). When this
    /// method returns, open sessions redact the secret.
    pub fn add_evictable(&self, secret: &str) {
        self.update_and_pass_to_sessions(|known| {
            known.all = known.all.with_temporary_value(secret);
        });
    }

    /// Records that a temporary secret was replaced by a newer one. If there are too many secrets,
    /// it is [forgotten first](Secrets::with_value_marked_oldest).
    pub fn mark_replaced(&self, secret: &str) {
        self.update_and_pass_to_sessions(|known| {
            known.all = known.all.with_value_marked_oldest(secret);
        });
    }

    /// Changes the secrets, and passes them to the open sessions. A renewed token may occur in the
    /// result of the call that renewed it, so the sessions must not receive it later.
    fn update_and_pass_to_sessions(&self, change: impl FnOnce(&mut KnownSecrets)) {
        change(&mut self.0.known.write().unwrap_or_else(PoisonError::into_inner));
        let open: Vec<_> = {
            let mut sessions = lock(&self.0.sessions);
            sessions.retain(|session| session.strong_count() > 0);
            sessions.iter().filter_map(Weak::upgrade).collect()
        };
        open.iter().for_each(|handle| self.pass_to_session(handle));
    }

    /// Reads the secrets while the session is locked, so that an older set never replaces a newer
    /// one.
    fn pass_to_session(&self, handle: &SessionHandle) {
        handle.update(|session, _| session.set_secrets(self.current()));
    }
}

impl fmt::Debug for LiveSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LiveSecrets").finish_non_exhaustive()
    }
}

fn env_secrets(env: impl IntoIterator<Item = (String, String)>) -> Secrets {
    let is_path = |value: &str| Path::new(value).is_absolute() && Path::new(value).exists();
    let secret = |(name, value): (String, String)| match url_password(&value) {
        Some(password) => Some(password.to_owned()),
        None => (is_secret_name_or_value(&name, "") && !is_path(&value)).then_some(value),
    };
    Secrets::new(env.into_iter().filter_map(secret))
}

/// The secrets that one session redacts. While this value exists, the session receives secrets that
/// become known later.
pub(crate) struct SessionSecrets {
    handle: Arc<SessionHandle>,
}

impl SessionSecrets {
    pub(crate) fn new(handle: SessionHandle, live: &LiveSecrets) -> Self {
        let handle = Arc::new(handle);
        lock(&live.0.sessions).push(Arc::downgrade(&handle));
        // Pass the secrets that became known before the session was registered.
        live.pass_to_session(&handle);
        Self { handle }
    }

    /// Returns all secrets that are currently known to the agent.
    pub(crate) fn current(&self) -> Secrets {
        self.handle.update(|session, _| session.secrets().clone())
    }

    /// Returns a text in which all known secrets are redacted.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.current().redact(text).into_owned()
    }
}

impl fmt::Debug for SessionSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionSecrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::env_secrets;

    #[test]
    fn values_are_secret_by_the_name_of_their_variable() {
        for (name, value, is_secret) in [
            ("OPENAI_API_KEY", "sk-0123456789", true),
            ("GITHUB_TOKEN", "ghp_0123456789", true),
            ("DB_PASSWORD", "/no such path/", true),
            ("DB_PASSWORD", "short", false),
            ("GNOME_KEYRING_CONTROL", "/", false),
            ("PASSWORD_STORE_DIR", env!("CARGO_MANIFEST_DIR"), false),
            ("EDITOR", "an editor of texts", false),
        ] {
            let secrets = env_secrets([(name.to_owned(), value.to_owned())]);
            assert_eq!(!secrets.is_empty(), is_secret, "{name}={value}");
        }
    }
}
