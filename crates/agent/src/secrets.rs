//! The secrets that this program knows: values of its own environment that commands do not get, and
//! the keys that it learns while it runs.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

use acp_lifecycle::{Secrets, SessionHandle};
use callboard_models::provider::Key;
use callboard_process::env::{is_secret, password};

/// Returns the values of variables whose names look like a secret. One that is the path of a file
/// or folder is none: paths are shown everywhere, and what lies there is not in the environment.
pub(crate) fn of_env<'a>(env: impl Iterator<Item = (&'a str, &'a str)>) -> Secrets {
    let is_path = |value: &str| Path::new(value).is_absolute() && Path::new(value).exists();
    let secret = |(name, value): (&'a str, &'a str)| match password(value) {
        Some(password) => Some(password),
        None => (is_secret(name, "") && !is_path(value)).then_some(value),
    };
    let secrets = Secrets::new(env.filter_map(secret));
    if secrets.left_out() > 0 {
        tracing::warn!(count = secrets.left_out(), "too many secrets; not all of them are hidden");
    }
    secrets
}

/// What this process must not show, for what it writes to standard error.
struct Known {
    all: Secrets,
    /// The values that its environment did not tell.
    learnt: Vec<String>,
}

/// Returns the secrets of this process as they are known by now.
pub(crate) fn of_process() -> Secrets {
    known(|known| known.all.clone())
}

/// Takes a key that was stored; from now on it is shown by nobody.
pub(crate) fn learn(key: &Key) {
    let is_known = known(|known| known.learnt.iter().any(|other| other == key.expose()));
    if !is_known {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        known.learnt.push(key.expose().to_owned());
        known.all = known.all.with([key.expose()]);
        LEARNT.store(known.learnt.len(), Ordering::Release);
    }
}

/// What a session does not show: the secrets that it began with, and whatever is learnt.
pub(crate) struct OfSession {
    handle: SessionHandle,
    began: Secrets,
    /// How many of those that were learnt the session hides.
    hidden: AtomicUsize,
}

impl OfSession {
    pub(crate) fn new(handle: SessionHandle, began: Secrets) -> Self {
        Self { handle, began, hidden: AtomicUsize::new(0) }
    }

    /// Hides what was learnt meanwhile. Costs next to nothing if nothing was.
    pub(crate) fn renew(&self) {
        let learnt = LEARNT.load(Ordering::Acquire);
        if self.hidden.swap(learnt, Ordering::AcqRel) != learnt {
            let secrets = with_learnt(&self.began);
            self.handle.with(|session, _| session.set_secrets(secrets));
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

/// Returns these and what was learnt.
pub(crate) fn with_learnt(secrets: &Secrets) -> Secrets {
    known(
        |known| {
            if known.learnt.is_empty() { secrets.clone() } else { secrets.with(&known.learnt) }
        },
    )
}

fn known<T>(look: impl FnOnce(&Known) -> T) -> T {
    look(&KNOWN.read().unwrap_or_else(PoisonError::into_inner))
}

/// How many secrets were learnt.
static LEARNT: AtomicUsize = AtomicUsize::new(0);

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(|| {
    let env: Vec<_> = callboard_process::env::parent().collect();
    let all = of_env(env.iter().map(|(name, value)| (&**name, &**value)));
    RwLock::new(Known { all, learnt: Vec::new() })
});

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
            let secrets = of_env([(name, value)].into_iter());
            assert_eq!(!secrets.is_empty(), is_secret, "{name}={value}");
        }
    }
}
