//! The system's keyring: Secret Service, Keychain or Credential Manager.
//!
//! Every method returns within `limits::KEYRING_TIMEOUT`, because the keyring may wait for the user
//! or hang. If a call takes longer, its thread is abandoned.

use std::time::Duration;

use super::Keyring;
use crate::limits::KEYRING_TIMEOUT;

/// Service name of the keys in the keyring.
const SERVICE: &str = "callboard";

/// The keyring of the user's session.
#[derive(Debug)]
pub(in crate::key_store) struct SystemKeyring;

impl Keyring for SystemKeyring {
    fn read(&self, name: &str) -> Result<Option<String>, String> {
        let name = name.to_owned();
        run_with_deadline(KEYRING_TIMEOUT, move || match open_entry(&name)?.get_password() {
            Ok(key) => Ok(Some(key)),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn write(&self, name: &str, key: &str) -> Result<(), String> {
        let (name, key) = (name.to_owned(), key.to_owned());
        run_with_deadline(KEYRING_TIMEOUT, move || open_entry(&name)?.set_password(&key))
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        let name = name.to_owned();
        run_with_deadline(KEYRING_TIMEOUT, move || match open_entry(&name)?.delete_credential() {
            Err(keyring::Error::NoEntry) => Ok(()),
            other => other,
        })
    }
}

fn open_entry(name: &str) -> keyring::Result<keyring::Entry> {
    keyring::Entry::new(SERVICE, name)
}

fn run_with_deadline<T: Send + 'static>(
    deadline: Duration,
    ask: impl FnOnce() -> keyring::Result<T> + Send + 'static,
) -> Result<T, String> {
    let (to, answer) = std::sync::mpsc::sync_channel(1);
    // The result cannot be sent if the receiver has already timed out.
    let thread = std::thread::Builder::new().name("keyring".to_owned());
    let started = thread.spawn(move || drop(to.send(ask())));
    started.map_err(|error| format!("cannot access the system's keyring: {error}"))?;
    match answer.recv_timeout(deadline) {
        Ok(answer) => {
            answer.map_err(|error| format!("the system's keyring: {}", redacted_message(&error)))
        }
        Err(_) => Err(format!(
            "the system's keyring did not answer within {} seconds",
            deadline.as_secs()
        )),
    }
}

/// Returns the message of an error. Values from the keyring are omitted, because they may be keys.
fn redacted_message(error: &keyring::Error) -> String {
    match error {
        keyring::Error::PlatformFailure(why) | keyring::Error::NoStorageAccess(why) => {
            why.to_string()
        }
        keyring::Error::NoDefaultStore => "there is none".to_owned(),
        _ => "the stored entry is invalid".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{KEYRING_TIMEOUT, run_with_deadline};

    #[test]
    fn a_keyring_that_hangs_is_abandoned_and_its_errors_contain_no_key() {
        let (open, gate) = mpsc::channel::<()>();
        let hung = run_with_deadline(Duration::ZERO, move || Ok(gate.recv().is_ok()));
        assert_eq!(hung.unwrap_err(), "the system's keyring did not answer within 0 seconds");
        drop(open);
        let of = |error: Option<keyring::Error>| {
            run_with_deadline(KEYRING_TIMEOUT, move || error.map_or(Ok(7), Err))
        };
        assert_eq!(of(None), Ok(7));
        for (error, expected) in [
            (keyring::Error::NoDefaultStore, "there is none"),
            (keyring::Error::NoStorageAccess("it is locked".into()), "it is locked"),
            (keyring::Error::BadEncoding(b"sk-0123".to_vec()), "the stored entry is invalid"),
        ] {
            assert_eq!(of(Some(error)).unwrap_err(), format!("the system's keyring: {expected}"));
        }
    }
}
