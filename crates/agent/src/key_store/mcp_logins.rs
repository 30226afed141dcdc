//! The logins to MCP servers. They are stored next to the keys of providers.

use acp_mcp::McpLoginStore;
use callboard_models::provider::ApiKey;
use callboard_runtime::private_files as private;
use sha2::{Digest as _, Sha256};

use super::{KeyError, KeyLocation, KeyStore, key_file_path, path_error};
use crate::secrets;

/// Returns the name of the entry of a server. No provider has such a name.
fn entry_name(server: &str) -> String {
    format!("mcp:{server}")
}

impl KeyStore {
    /// Removes the login to an MCP server. If a session is renewing the login, first waits for the
    /// end of the renewal. Returns whether there was a login.
    pub(crate) fn remove_mcp_login(&self, server: &str) -> Result<bool, KeyError> {
        let lock = self.folder.is_some().then(|| self.lock(server));
        let _lock = lock.transpose().map_err(KeyError::new)?;
        Ok(!self.remove_entries(&[&entry_name(server)])?.is_empty())
    }

    /// Returns where the login to an MCP server is stored.
    pub(crate) fn mcp_login_location(&self, server: &str) -> Result<KeyLocation, KeyError> {
        match self.read_login_file()?.get(&entry_name(server)) {
            Some(login) if !login.needs_keyring() => {
                Ok(KeyLocation::File(key_file_path(self.folder()?)))
            }
            _ => Ok(KeyLocation::Keyring),
        }
    }
}

impl McpLoginStore for KeyStore {
    fn load(&self, server: &str, url: &str) -> Result<Option<String>, String> {
        let name = entry_name(server);
        let logins = self.read_login_file().map_err(|error| error.to_string())?;
        let login = logins.get(&name).filter(|login| login.base_url.as_deref() == Some(url));
        let Some(login) = login.filter(|login| !login.only_marks_key_to_remove()) else {
            return Ok(None);
        };
        let text = self.read_key_of_entry(&name, login).map_err(|error| error.to_string())?;
        Ok(text.map(|text| text.expose().to_owned()))
    }

    fn save(&self, server: &str, url: &str, login: &str) -> Result<(), String> {
        let login = ApiKey::from_nonempty_text(login).ok_or("the login is empty")?;
        let stored = self.store_entry(&entry_name(server), Some(url.to_owned()), login);
        stored.map(drop).map_err(|error| error.to_string())
    }

    fn lock(&self, server: &str) -> Result<Box<dyn Send>, String> {
        // The file of the logins has another lock, which is held only while that file is changed.
        let folder = self.folder().map_err(|error| error.to_string())?;
        // Every version of the program must compute the same name.
        let digest = Sha256::digest(server);
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let folder = folder.join("mcp").join(name);
        let lock = private::lock_private_folder(&folder);
        Ok(Box::new(lock.map_err(|error| path_error(&folder, &error).to_string())?))
    }

    fn redact(&self, secret: &str) {
        secrets::PROCESS_SECRETS.add_evictable(secret);
    }

    fn mark_secret_replaced(&self, secret: &str) {
        secrets::PROCESS_SECRETS.mark_replaced(secret);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::PathBuf;

    use callboard_models::provider::Provider;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::key_store::LOGIN_PROVIDERS;
    use crate::key_store::tests::{store, store_with_keyring};

    #[test]
    fn a_login_is_found_by_its_server_and_url_until_it_is_removed() {
        let (_file, in_file) = store();
        let (_other, in_keyring, _keyring) = store_with_keyring();
        for store in [in_file, in_keyring] {
            store.save("docs", "https://a/mcp", "secret").unwrap();
            store.save("openai", "https://b/mcp", "other").unwrap();
            let load = |server: &str, url: &str| store.load(server, url).unwrap();
            assert_eq!(load("docs", "https://a/mcp").as_deref(), Some("secret"));
            assert_eq!(load("docs", "https://a/other"), None);
            assert_eq!(load("other", "https://a/mcp"), None);
            // Logins and keys with the same name are different entries.
            assert!(
                store
                    .read_logins_without_keyring()
                    .unwrap()
                    .for_provider(Provider::OpenAi)
                    .is_none()
            );
            assert_eq!(store.remove_keys(&LOGIN_PROVIDERS).unwrap(), []);
            assert_eq!(load("openai", "https://b/mcp").as_deref(), Some("other"));
            assert_eq!(store.remove_mcp_login("docs").unwrap(), true);
            assert_eq!(store.remove_mcp_login("docs").unwrap(), false);
            assert_eq!(load("docs", "https://a/mcp"), None);
            // A renewal cannot store the login again, because the renewal needs the same lock.
            assert_eq!(lock_files(&store).len(), 1);
        }
    }

    fn lock_files(store: &KeyStore) -> Vec<PathBuf> {
        let folders = fs::read_dir(store.folder().unwrap().join("mcp")).unwrap();
        folders.map(|folder| folder.unwrap().path().join("lock")).collect()
    }

    #[test]
    fn one_process_at_a_time_renews_a_login() {
        let (_home, store) = store();
        let lock = store.lock("docs").unwrap();
        let file = File::open(&lock_files(&store)[0]).unwrap();
        assert!(file.try_lock().is_err());
        // The lock applies only to this server: other servers and the file of the logins are not
        // locked.
        drop(store.lock("other").unwrap());
        store.save("docs", "https://a/mcp", "secret").unwrap();
        drop(lock);
        file.try_lock().unwrap();
    }
}
