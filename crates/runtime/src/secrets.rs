//! The secrets that sessions must not show: values of the environment that commands do not get, and
//! the keys that are learnt while the agent runs.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use acp_lifecycle::{Secrets, SessionHandle};
use callboard_process::env::{is_secret, password};

/// Secrets that every session hides, those that it is open for already too. Clones share them.
#[derive(Clone)]
pub struct LiveSecrets(Arc<Shared>);

struct Shared {
    /// How many were learnt.
    learnt: AtomicUsize,
    /// Made when it is first asked for: nothing of it is needed to initialize.
    known: LazyLock<RwLock<Known>, MakeKnown>,
}

type MakeKnown = Box<dyn FnOnce() -> RwLock<Known> + Send>;

struct Known {
    all: Secrets,
    /// Those that the environment does not hold.
    learnt: Vec<String>,
}

impl LiveSecrets {
    /// Begins with the variables of an environment whose names look like a secret. A value that is
    /// the path of a file or folder is none: paths are shown everywhere, and what lies there is not
    /// in the environment.
    pub fn of_env(env: impl IntoIterator<Item = (String, String)> + Send + 'static) -> Self {
        let make = move || RwLock::new(Known { all: of_env(env), learnt: Vec::new() });
        let known = LazyLock::new(Box::new(make) as MakeKnown);
        Self(Arc::new(Shared { learnt: AtomicUsize::new(0), known }))
    }

    /// Returns all of them as they are known by now.
    #[must_use]
    pub fn all(&self) -> Secrets {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).all.clone()
    }

    /// Adds a secret; a session that is open hides it from its next request to the model on.
    pub fn learn(&self, secret: &str) {
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.learnt.iter().all(|other| other != secret) {
            known.learnt.push(secret.to_owned());
            known.all = known.all.with([secret]);
            self.0.learnt.store(known.learnt.len(), Ordering::Release);
        }
    }
}

impl fmt::Debug for LiveSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LiveSecrets").finish_non_exhaustive()
    }
}

fn of_env(env: impl IntoIterator<Item = (String, String)>) -> Secrets {
    let is_path = |value: &str| Path::new(value).is_absolute() && Path::new(value).exists();
    let secret = |(name, value): (String, String)| match password(&value) {
        Some(password) => Some(password.to_owned()),
        None => (is_secret(&name, "") && !is_path(&value)).then_some(value),
    };
    Secrets::new(env.into_iter().filter_map(secret))
}

/// What a session does not show.
pub(crate) struct OfSession {
    handle: SessionHandle,
    live: LiveSecrets,
    /// How many of those that were learnt the session hides.
    hidden: AtomicUsize,
}

impl OfSession {
    pub(crate) fn new(handle: SessionHandle, live: LiveSecrets) -> Self {
        Self { handle, live, hidden: AtomicUsize::new(0) }
    }

    /// Hides what was learnt meanwhile. Costs next to nothing if nothing was.
    pub(crate) fn renew(&self) {
        let learnt = self.live.0.learnt.load(Ordering::Acquire);
        if self.hidden.swap(learnt, Ordering::AcqRel) != learnt {
            self.handle.with(|session, _| session.set_secrets(self.live.all()));
        }
    }

    /// Returns all of them as they are known by now.
    pub(crate) fn all(&self) -> Secrets {
        self.renew();
        self.handle.with(|session, _| session.secrets().clone())
    }

    /// Returns a text as it may be shown.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.all().redact(text).into_owned()
    }
}

impl fmt::Debug for OfSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OfSession").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::of_env;

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
            let secrets = of_env([(name.to_owned(), value.to_owned())]);
            assert_eq!(!secrets.is_empty(), is_secret, "{name}={value}");
        }
    }
}
