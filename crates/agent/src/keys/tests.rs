//! Keys in a file: stored, read, removed, refused.

use std::fs;

use pretty_assertions::assert_eq;

use super::{KeyStore, LOGINS, Login, Place};
use crate::model::provider::{Key, Provider};

const SECRET: &str = "sk-0123456789";

/// A store in a folder of its own. No keyring answers here: tests have no session bus.
fn store() -> (tempfile::TempDir, KeyStore) {
    let home = tempfile::tempdir().unwrap();
    let env = [("HOME".to_owned(), home.path().to_string_lossy().into_owned())];
    let store = KeyStore::of_env(&env);
    (home, store)
}

fn write(store: &KeyStore, provider: Provider, base_url: Option<&str>) -> Place {
    let base_url = base_url.map(str::to_owned);
    store.store_in_file(provider, base_url, Key::new(SECRET).unwrap()).unwrap()
}

fn login(store: &KeyStore, provider: Provider) -> Option<Login> {
    store.logins().unwrap().of(provider).cloned()
}

#[test]
fn a_stored_key_is_read_again_until_it_is_removed() {
    let (_home, store) = store();
    assert_eq!(login(&store, Provider::OpenAi), None);
    write(&store, Provider::OpenAi, Some("http://h/v1"));
    write(&store, Provider::Gemini, None);
    let login_before = login(&store, Provider::OpenAiResponses).unwrap();
    assert_eq!(login_before.base_url.as_deref(), Some("http://h/v1"));
    assert_eq!(store.key(Provider::OpenAi, &login_before).unwrap().expose(), SECRET);
    assert_eq!(store.logins().unwrap().keys().count(), 2);
    assert!(!format!("{login_before:?}").contains(SECRET), "{login_before:?}");

    write(&store, Provider::OpenAi, None);
    assert_ne!(login(&store, Provider::OpenAi).unwrap(), login_before);
    assert_eq!(store.remove(&[Provider::OpenAi]).unwrap(), [Provider::OpenAi]);
    assert_eq!(login(&store, Provider::OpenAi), None);
    assert_eq!(store.remove(&LOGINS).unwrap(), [Provider::Gemini]);
    assert_eq!(store.remove(&LOGINS).unwrap(), []);
}

#[test]
fn without_a_folder_nothing_is_stored() {
    let store = KeyStore::of_env(&[]);
    assert_eq!(login(&store, Provider::Gemini), None);
    assert_eq!(store.remove(&LOGINS).unwrap(), []);
    let error = store.store(Provider::Gemini, None, Key::new(SECRET).unwrap()).unwrap_err();
    assert!(error.to_string().contains("set HOME"), "{error}");
}

#[test]
fn a_damaged_file_is_told_without_what_it_holds() {
    let (_home, store) = store();
    let Place::File(path) = write(&store, Provider::Gemini, None) else { panic!("a keyring") };
    for text in [
        format!("{{\"gemini\": {{\"id\": \"1\", \"key\": [\"{SECRET}\"]}}}}"),
        format!("{{\"gemini\": {{\"id\": \"1\", \"{SECRET}\": 1}}}}"),
        SECRET.to_owned(),
    ] {
        fs::write(&path, text).unwrap();
        let error = store.logins().unwrap_err().to_string();
        assert!(error.contains("keys.json") && error.contains("damaged"), "{error}");
        assert!(!error.contains(SECRET), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let (_home, store) = store();
    let Place::File(path) = write(&store, Provider::Gemini, None) else { panic!("a keyring") };
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let error = store.logins().unwrap_err();
    assert!(error.to_string().contains("chmod 600"), "{error}");
}
