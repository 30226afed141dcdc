//! The parts of a sandbox that belong to one command, and the findings of the sandbox about this
//! command.

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::caches::ClaimedCacheCopies;
use super::connections::CommandConnections;
use super::made_names::{ChangeTime, ChangedExecutableOrHiddenFiles};
use super::protected_copies::{ProtectedCopies, ProtectedRestoreOutcome};
use crate::files::workspace::Workspace;
use crate::lock::lock;
use crate::note::Note;

/// The parts of a sandbox that belong to one command.
#[derive(Debug)]
pub(crate) struct SandboxLease {
    /// The project folders.
    roots: Vec<PathBuf>,
    watched: Mutex<WatchedNames>,
    connections: Option<CommandConnections>,
    _cache_copy: Option<ClaimedCacheCopies>,
}

#[derive(Debug)]
struct WatchedNames {
    /// Copies of the files with protected names, made before the command started. `None` after the
    /// first examination.
    protected: Option<Arc<ProtectedCopies>>,
    /// Copies of the files with protected names, made when the command moved to the background.
    in_background: Option<ProtectedCopies>,
    /// The time of the last examination. Before the first examination, this is the time at which
    /// the command started.
    since: ChangeTime,
}

/// The changes that a command made to protected and executable files in the project, and the hosts
/// to which the sandbox refused connections.
#[derive(Debug, Default)]
pub(crate) struct SandboxFindings {
    restored: ProtectedRestoreOutcome,
    /// The protected names that changed while the command ran in the background.
    changed_in_background: Vec<PathBuf>,
    made: ChangedExecutableOrHiddenFiles,
    refused_hosts: Option<String>,
}

impl SandboxLease {
    /// Creates a lease for a command that starts now in these project folders.
    pub(super) fn new(
        roots: Vec<PathBuf>,
        protected: Arc<ProtectedCopies>,
        cache_copy: Option<ClaimedCacheCopies>,
    ) -> Self {
        let watched = WatchedNames {
            protected: Some(protected),
            in_background: None,
            since: ChangeTime::now(),
        };
        let watched = Mutex::new(watched);
        Self { roots, watched, connections: None, _cache_copy: cache_copy }
    }

    pub(super) fn set_connections(&mut self, connections: CommandConnections) {
        self.connections = Some(connections);
    }

    /// Returns what the command has changed since the last examination, or since its start. The
    /// first examination undoes changes of protected names. Later examinations only report such
    /// changes, because other programs may have made them. Blocks.
    ///
    /// `continues` is `true` if the command moves to the background and will be examined again.
    pub(crate) fn examine(&self, continues: bool) -> SandboxFindings {
        let mut watched = lock(&self.watched);
        let since = mem::replace(&mut watched.since, ChangeTime::now());
        let earlier = watched.in_background.take();
        let changed_in_background = earlier.map(|copies| copies.find_changed()).unwrap_or_default();
        let restored = watched.protected.take().map(|copies| {
            let restored = copies.restore();
            watched.in_background = continues.then(|| copies.without_paths(&restored.failed));
            restored
        });
        SandboxFindings {
            restored: restored.unwrap_or_default(),
            changed_in_background,
            made: ChangedExecutableOrHiddenFiles::find(&self.roots, since),
            refused_hosts: self.connections.as_ref().and_then(CommandConnections::take_refused),
        }
    }

    /// If a permission request for a host is open, waits until the user has answered it.
    pub(crate) async fn wait_for_open_permission_request(&self) {
        if let Some(connections) = &self.connections {
            connections.wait_for_open_permission_request().await;
        }
    }
}

impl Drop for SandboxLease {
    /// Restores the protected names if the command was not examined because its call was dropped.
    fn drop(&mut self) {
        if let Some(copies) = lock(&self.watched).protected.take() {
            // The thread ignores the result, because `restore` logs each failure.
            std::thread::spawn(move || drop(copies.restore()));
        }
    }
}

impl SandboxFindings {
    /// Returns notes for the user and the model.
    pub(crate) fn notes(&self, workspace: &Workspace) -> Vec<Note> {
        let made = if self.made.is_cut { "made-names-and-more" } else { "made-names" };
        let named = [
            ("protected-restored", &self.restored.restored),
            ("protected-changed", &self.restored.failed),
            ("protected-changed-in-background", &self.changed_in_background),
            (made, &self.made.names),
        ];
        let named = named.into_iter().filter(|(_, names)| !names.is_empty());
        let named = named.map(|(key, names)| {
            let shown: Vec<_> = names.iter().map(|path| workspace.display(path)).collect();
            Note::new(key).with_text("names", shown.join(", "))
        });
        let hosts = self.refused_hosts.iter();
        let hosts = hosts.map(|hosts| Note::new("refused-hosts").with_text("hosts", hosts));
        named.chain(hosts).collect()
    }

    /// Returns whether the search for changed names was stopped before it found any name.
    pub(crate) fn is_search_cut_without_names(&self) -> bool {
        self.made.is_cut && self.made.names.is_empty()
    }
}
