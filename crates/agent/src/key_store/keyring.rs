//! The system's keyring, behind a trait.

use std::fmt::Debug;

#[cfg(feature = "keyring")]
mod system;

#[cfg(feature = "keyring")]
pub(super) use system::SystemKeyring;

/// Stores keys under names. Whatever is asked of it ends by itself; an error holds no key.
pub(super) trait Keyring: Debug + Send + Sync {
    /// Returns what is stored under a name.
    fn read(&self, name: &'static str) -> Result<Option<String>, String>;

    /// Stores a key under a name, in the place of an earlier one.
    fn write(&self, name: &'static str, key: &str) -> Result<(), String>;

    /// Removes what is stored under a name, if there is something.
    fn remove(&self, name: &'static str) -> Result<(), String>;
}

/// Says that this build asks no keyring.
#[cfg(not(feature = "keyring"))]
#[derive(Debug)]
pub(super) struct SystemKeyring;

#[cfg(not(feature = "keyring"))]
impl Keyring for SystemKeyring {
    fn read(&self, _: &'static str) -> Result<Option<String>, String> {
        Err(NONE.to_owned())
    }

    fn write(&self, _: &'static str, _: &str) -> Result<(), String> {
        Err(NONE.to_owned())
    }

    fn remove(&self, _: &'static str) -> Result<(), String> {
        Err(NONE.to_owned())
    }
}

#[cfg(not(feature = "keyring"))]
const NONE: &str = "this build has no part that asks the system's keyring";
