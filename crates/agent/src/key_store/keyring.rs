//! The interface to the system's keyring.

use std::fmt::Debug;

#[cfg(feature = "keyring")]
mod system;

#[cfg(feature = "keyring")]
pub(super) use system::SystemKeyring;

/// A keyring, which stores keys by name. Every method returns within a time limit. Errors never
/// contain a key.
pub(super) trait Keyring: Debug + Send + Sync {
    /// Returns the key with this name.
    fn read(&self, name: &str) -> Result<Option<String>, String>;

    /// Stores a key under a name. Replaces an earlier key with the same name.
    fn write(&self, name: &str, key: &str) -> Result<(), String>;

    /// Removes the key with this name, if it exists.
    fn remove(&self, name: &str) -> Result<(), String>;
}

/// A placeholder for builds without support for keyrings. Every method fails.
#[cfg(not(feature = "keyring"))]
#[derive(Debug)]
pub(super) struct SystemKeyring;

#[cfg(not(feature = "keyring"))]
impl Keyring for SystemKeyring {
    fn read(&self, _: &str) -> Result<Option<String>, String> {
        Err(NONE.to_owned())
    }

    fn write(&self, _: &str, _: &str) -> Result<(), String> {
        Err(NONE.to_owned())
    }

    fn remove(&self, _: &str) -> Result<(), String> {
        Err(NONE.to_owned())
    }
}

#[cfg(not(feature = "keyring"))]
const NONE: &str = "this build does not support the system's keyring";
