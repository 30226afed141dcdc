//! The system's keyring: Secret Service, Keychain or Credential Manager.
//!
//! Whatever is asked of it ends by [`KEYRING_DEADLINE`], because it may wait for its user, or for a
//! service that hangs. What then still waits is left behind in its thread.

use crate::limits::KEYRING_DEADLINE;

/// The name that keys stand under in the keyring.
#[cfg(feature = "keyring")]
const SERVICE: &str = "callboard";

/// Returns what is stored under a name.
#[cfg(feature = "keyring")]
pub(super) fn read(name: &'static str) -> Result<Option<String>, String> {
    within(move || match open(name)?.get_password() {
        Ok(key) => Ok(Some(key)),
        Err(keyring::Error::NoEntry) => Ok(None),
        Err(error) => Err(error),
    })
}

/// Stores a key under a name.
#[cfg(feature = "keyring")]
pub(super) fn write(name: &'static str, key: &str) -> Result<(), String> {
    let key = key.to_owned();
    within(move || open(name)?.set_password(&key))
}

/// Removes what is stored under a name, if there is something.
#[cfg(feature = "keyring")]
pub(super) fn remove(name: &'static str) -> Result<(), String> {
    within(move || match open(name)?.delete_credential() {
        Err(keyring::Error::NoEntry) => Ok(()),
        other => other,
    })
}

#[cfg(feature = "keyring")]
fn open(name: &str) -> keyring::Result<keyring::Entry> {
    keyring::Entry::new(SERVICE, name)
}

#[cfg(feature = "keyring")]
fn within<T: Send + 'static>(
    ask: impl FnOnce() -> keyring::Result<T> + Send + 'static,
) -> Result<T, String> {
    let (to, answer) = std::sync::mpsc::sync_channel(1);
    // Who asked may have given up by then.
    let thread = std::thread::Builder::new().name("keyring".to_owned());
    let started = thread.spawn(move || drop(to.send(ask())));
    started.map_err(|error| format!("the system's keyring cannot be asked: {error}"))?;
    match answer.recv_timeout(KEYRING_DEADLINE) {
        Ok(answer) => answer.map_err(|error| format!("the system's keyring: {}", told(&error))),
        Err(_) => Err(format!(
            "the system's keyring did not answer within {} seconds",
            KEYRING_DEADLINE.as_secs()
        )),
    }
}

/// Some errors hold what was found, which may be a key.
#[cfg(feature = "keyring")]
fn told(error: &keyring::Error) -> String {
    match error {
        keyring::Error::PlatformFailure(why) | keyring::Error::NoStorageAccess(why) => {
            why.to_string()
        }
        keyring::Error::NoDefaultStore => "there is none".to_owned(),
        _ => "what it holds is of no use".to_owned(),
    }
}

#[cfg(not(feature = "keyring"))]
const NONE: &str = "this build has no part that asks the system's keyring";

/// Says that this build asks no keyring.
#[cfg(not(feature = "keyring"))]
pub(super) fn read(_: &'static str) -> Result<Option<String>, String> {
    Err(NONE.to_owned())
}

/// Says that this build asks no keyring.
#[cfg(not(feature = "keyring"))]
pub(super) fn write(_: &'static str, _: &str) -> Result<(), String> {
    Err(NONE.to_owned())
}

/// Says that this build asks no keyring.
#[cfg(not(feature = "keyring"))]
pub(super) fn remove(_: &'static str) -> Result<(), String> {
    Err(NONE.to_owned())
}
