//! Tests of keys in a file and in a keyring: storing, reading, removing, errors.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use callboard_models::provider::{ApiKey, Provider};
use pretty_assertions::assert_eq;

use super::keyring::Keyring;
use super::{KeyLocation, KeyStore, KeyringValue, LOGIN_PROVIDERS, Login};

const SECRET: &str = "sk-0123456789";

/// A keyring that can be locked.
#[derive(Debug, Default)]
pub(super) struct FakeKeyring {
    keys: Mutex<BTreeMap<String, String>>,
    is_locked: Mutex<bool>,
}

impl FakeKeyring {
    fn lock(&self, is_locked: bool) {
        *self.is_locked.lock().unwrap() = is_locked;
    }

    fn ask<T>(&self, ask: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> Result<T, String> {
        match *self.is_locked.lock().unwrap() {
            true => Err("it is locked".to_owned()),
            false => Ok(ask(&mut self.keys.lock().unwrap())),
        }
    }

    fn stored_keys(&self) -> Vec<String> {
        let keys = self.keys.lock().unwrap();
        let key = |text: &String| match serde_json::from_str::<KeyringValue>(text) {
            Ok(value) => value.key,
            Err(_) => text.clone(),
        };
        keys.values().map(key).collect()
    }
}

impl Keyring for FakeKeyring {
    fn read(&self, name: &str) -> Result<Option<String>, String> {
        self.ask(|keys| keys.get(name).cloned())
    }

    fn write(&self, name: &str, key: &str) -> Result<(), String> {
        self.ask(|keys| drop(keys.insert(name.to_owned(), key.to_owned())))
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        self.ask(|keys| drop(keys.remove(name)))
    }
}

impl KeyStore {
    /// Creates a store without a keyring.
    pub(crate) fn in_file(env: &[(String, String)]) -> Self {
        Self::new(
            env,
            Arc::new(FakeKeyring { is_locked: Mutex::new(true), ..FakeKeyring::default() }),
        )
    }
}

fn home() -> (tempfile::TempDir, [(String, String); 1]) {
    let home = tempfile::tempdir().unwrap();
    let env = [("HOME".to_owned(), home.path().to_string_lossy().into_owned())];
    (home, env)
}

/// Returns a store in a new folder.
pub(super) fn store() -> (tempfile::TempDir, KeyStore) {
    let (home, env) = home();
    (home, KeyStore::in_file(&env))
}

/// Returns a store in a new folder, with a keyring.
pub(super) fn store_with_keyring() -> (tempfile::TempDir, KeyStore, Arc<FakeKeyring>) {
    let ((home, env), keyring) = (home(), Arc::new(FakeKeyring::default()));
    (home, KeyStore::new(&env, keyring.clone()), keyring)
}

fn write(store: &KeyStore, provider: Provider, base_url: Option<&str>) -> KeyLocation {
    store
        .store_key(
            provider,
            base_url.map(str::to_owned),
            ApiKey::from_nonempty_text(SECRET).unwrap(),
        )
        .unwrap()
}

fn login(store: &KeyStore, provider: Provider) -> Option<Login> {
    store.read_logins_without_keyring().unwrap().for_provider(provider).cloned()
}

#[test]
fn a_stored_key_is_read_again_until_it_is_removed() {
    let (_home, store) = store();
    assert_eq!(login(&store, Provider::OpenAi), None);
    write(&store, Provider::OpenAi, Some("http://h/v1"));
    write(&store, Provider::Gemini, None);
    let login_before = login(&store, Provider::OpenAiResponses).unwrap();
    assert_eq!(login_before.base_url.as_deref(), Some("http://h/v1"));
    assert_eq!(store.read_key(Provider::OpenAi, &login_before).unwrap().expose(), SECRET);
    assert_eq!(store.read_logins_without_keyring().unwrap().keys_in_file().count(), 2);
    assert!(!format!("{login_before:?}").contains(SECRET), "{login_before:?}");

    write(&store, Provider::OpenAi, None);
    assert_ne!(login(&store, Provider::OpenAi).unwrap(), login_before);
    assert_eq!(store.remove_keys(&[Provider::OpenAi]).unwrap(), [Provider::OpenAi]);
    assert_eq!(login(&store, Provider::OpenAi), None);
    assert_eq!(store.remove_keys(&LOGIN_PROVIDERS).unwrap(), [Provider::Gemini]);
    assert_eq!(store.remove_keys(&LOGIN_PROVIDERS).unwrap(), []);
}

#[test]
fn keys_stored_by_an_earlier_build_are_read() {
    let (_home, store) = store();
    let KeyLocation::File(path) = write(&store, Provider::Gemini, None) else {
        panic!("a keyring")
    };
    // This file was written by a build of November 2026.
    fs::write(&path, include_str!("stored/keys.json")).unwrap();
    let stored = login(&store, Provider::Anthropic).unwrap();
    assert_eq!(stored.base_url.as_deref(), Some("http://127.0.0.1:9"));
    let key = store.read_key(Provider::Anthropic, &stored).unwrap();
    assert_eq!(key.expose(), "sk-stored-by-an-earlier-build");
}

#[test]
fn without_a_folder_nothing_is_stored() {
    let store = KeyStore::in_file(&[]);
    assert_eq!(login(&store, Provider::Gemini), None);
    assert_eq!(store.remove_keys(&LOGIN_PROVIDERS).unwrap(), []);
    let error = store
        .store_key(Provider::Gemini, None, ApiKey::from_nonempty_text(SECRET).unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("set HOME"), "{error}");
}

#[test]
fn a_damaged_file_is_reported_without_its_content() {
    let (_home, store) = store();
    let KeyLocation::File(path) = write(&store, Provider::Gemini, None) else {
        panic!("a keyring")
    };
    for text in [
        format!("{{\"gemini\": {{\"id\": \"1\", \"key\": [\"{SECRET}\"]}}}}"),
        format!("{{\"gemini\": {{\"id\": \"1\", \"{SECRET}\": 1}}}}"),
        SECRET.to_owned(),
    ] {
        fs::write(&path, text).unwrap();
        let error = store.read_logins_without_keyring().unwrap_err().to_string();
        assert!(error.contains("keys.json") && error.contains("damaged"), "{error}");
        assert!(!error.contains(SECRET), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let (_home, store) = store();
    let KeyLocation::File(path) = write(&store, Provider::Gemini, None) else {
        panic!("a keyring")
    };
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let error = store.read_logins_without_keyring().unwrap_err();
    assert!(error.to_string().contains("chmod 600"), "{error}");
}

#[test]
fn a_key_in_the_keyring_is_in_no_file_and_is_removed_by_logout() {
    let (home, store, keyring) = store_with_keyring();
    assert_eq!(write(&store, Provider::OpenAi, Some("http://h/v1")), KeyLocation::Keyring);
    let noted = login(&store, Provider::OpenAiResponses).unwrap();
    assert_eq!(noted.base_url.as_deref(), Some("http://h/v1"));
    assert_eq!(store.read_key(Provider::OpenAi, &noted).unwrap().expose(), SECRET);
    let file = home.path().join(".local/state/callboard/keys/keys.json");
    assert!(!fs::read_to_string(&file).unwrap().contains(SECRET));

    keyring.lock(true);
    assert_eq!(store.read_key(Provider::OpenAi, &noted).unwrap_err().to_string(), "it is locked");
    assert_eq!(store.remove_keys(&LOGIN_PROVIDERS).unwrap_err().to_string(), "it is locked");
    assert_eq!(login(&store, Provider::OpenAi), Some(noted.clone()));
    keyring.lock(false);
    assert_eq!(store.remove_keys(&LOGIN_PROVIDERS).unwrap(), [Provider::OpenAi]);
    assert_eq!((login(&store, Provider::OpenAi), keyring.stored_keys()), (None, vec![]));
    let lost = store.read_key(Provider::OpenAi, &noted).unwrap_err();
    assert!(lost.to_string().contains("callboard login"), "{lost}");
}

#[test]
fn a_login_removes_an_earlier_key_from_file_and_keyring() {
    let (_home, store, keyring) = store_with_keyring();
    keyring.lock(true);
    assert!(matches!(write(&store, Provider::Gemini, None), KeyLocation::File(_)));
    keyring.lock(false);
    assert_eq!(write(&store, Provider::Gemini, None), KeyLocation::Keyring);
    assert_eq!(store.read_logins_without_keyring().unwrap().keys_in_file().count(), 0);

    // A failed removal is recorded and retried as soon as possible.
    keyring.lock(true);
    assert!(matches!(write(&store, Provider::Gemini, None), KeyLocation::File(_)));
    assert!(matches!(write(&store, Provider::Gemini, None), KeyLocation::File(_)));
    let in_file = login(&store, Provider::Gemini).unwrap();
    assert_eq!(store.read_key(Provider::Gemini, &in_file).unwrap().expose(), SECRET);
    assert_eq!(store.remove_keys(&LOGIN_PROVIDERS).unwrap_err().to_string(), "it is locked");
    assert_eq!(login(&store, Provider::Gemini), None);
    assert_eq!(store.read_logins_without_keyring().unwrap().keys_in_file().count(), 0);
    keyring.lock(false);
    assert_eq!(keyring.stored_keys(), [SECRET]);
    assert_eq!(store.remove_keys(&LOGIN_PROVIDERS).unwrap(), [Provider::Gemini]);
    assert_eq!(
        (store.remove_keys(&LOGIN_PROVIDERS).unwrap(), keyring.stored_keys()),
        (vec![], vec![])
    );
}

#[test]
fn a_key_that_the_keyring_stored_too_late_is_removed_by_logout() {
    let (_home, store, keyring) = store_with_keyring();
    keyring.lock(true);
    write(&store, Provider::Gemini, None);
    keyring.lock(false);
    keyring.write(Provider::Gemini.name(), SECRET).unwrap();
    assert_eq!(store.remove_keys(&[Provider::Gemini]).unwrap(), [Provider::Gemini]);
    assert_eq!(keyring.stored_keys(), [""; 0]);
}

#[test]
fn a_key_that_cannot_be_listed_does_not_stay_in_the_keyring() {
    let (_home, store, keyring) = store_with_keyring();
    let file = super::key_file_path(store.folder().unwrap());
    fs::create_dir_all(&file).unwrap();
    store
        .store_key(Provider::Gemini, None, ApiKey::from_nonempty_text(SECRET).unwrap())
        .unwrap_err();
    assert_eq!(keyring.stored_keys(), [""; 0]);
}

#[test]
fn a_key_in_the_keyring_is_used_only_for_the_url_of_its_login() {
    let (_home, store, keyring) = store_with_keyring();
    write(&store, Provider::OpenAi, Some("http://old/v1"));
    let noted = login(&store, Provider::OpenAi).unwrap();
    // A later login has written its key, and ended before it wrote the list of logins.
    let (_other_home, other, other_keyring) = store_with_keyring();
    write(&other, Provider::OpenAi, Some("http://new/v1"));
    let value = other_keyring.read(Provider::OpenAi.name()).unwrap().unwrap();
    keyring.write(Provider::OpenAi.name(), &value).unwrap();
    let refused = store.read_key(Provider::OpenAi, &noted).unwrap_err();
    assert!(refused.to_string().contains("callboard login"), "{refused}");
    // Earlier versions stored only the key.
    keyring.write(Provider::OpenAi.name(), SECRET).unwrap();
    assert_eq!(store.read_key(Provider::OpenAi, &noted).unwrap().expose(), SECRET);
}
