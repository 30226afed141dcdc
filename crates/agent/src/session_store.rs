//! The store of this user's sessions, in the state folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use acp_store::{SessionHolder, SessionStore, SessionStoreError, SqliteSessionStore};
use callboard_runtime::SessionArchive;

use crate::{secrets, user_folders};

/// Returns the folder of stored sessions for an environment.
pub(crate) fn folder(env: &[(String, String)]) -> Option<PathBuf> {
    Some(user_folders::state_folder(env)?.join("sessions"))
}

/// Opens the store in a folder, and creates the folder if it is missing. May block the thread.
pub(crate) fn open(folder: &Path) -> Result<Arc<dyn SessionStore>, SessionStoreError> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let holder = SessionHolder::new(std::process::id(), host, SystemTime::now());
    Ok(Arc::new(SqliteSessionStore::open(folder, holder, random_for_lock_retry)?))
}

/// Opens the stored sessions of the user to whom the environment belongs.
pub(crate) fn open_archive(env: &[(String, String)]) -> Result<SessionArchive, String> {
    let folder = folder(env)
        .ok_or("no folder for stored sessions: set HOME or XDG_STATE_HOME to an absolute path")?;
    let store = open(&folder).map_err(|error| error.to_string())?;
    let archive = SessionArchive::new(store).with_secrets(secrets::process_secrets());
    Ok(match user_folders::state_folder(env) {
        Some(state) => archive.with_state_folder(state),
        None => archive,
    })
}

/// Returns a random number. It makes processes that wait for the same lock retry at different
/// times.
fn random_for_lock_retry() -> u64 {
    u64::try_from(ulid::Ulid::generate().random() & u128::from(u64::MAX)).unwrap_or_default()
}
