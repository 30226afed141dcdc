//! The preview of a command. The command runs on copies of the project folders, so that the real
//! folders stay as they are. Afterwards, the copies are compared with the real folders.

mod changes;
mod comparison;
mod generated;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use callboard_sandbox::CopyOnWriteFolder;
use tempfile::TempDir;

use super::caches::ClaimedCacheCopies;
use super::connections::CommandConnections;
use super::private_folder::make_folder_content_removable;
use super::proxied_network::ProxiedNetwork;
use crate::files::system::file_clock_now;
use crate::files::workspace::Workspace;

pub(crate) use changes::{CommandChanges, PreviewObstacle};

/// The parts of a sandbox that belong to one preview of a command. The copies of the project
/// folders are removed after the value is dropped.
#[derive(Debug)]
pub(crate) struct PreviewLease {
    /// `None` only while the value is dropped.
    copies: Option<PreviewCopies>,
    network: Option<ProxiedNetwork>,
    connections: CommandConnections,
    _cache_copy: Option<ClaimedCacheCopies>,
}

/// The copies of the project folders. A copy contains only the differences to the real folder.
#[derive(Debug)]
pub(super) struct PreviewCopies {
    /// The folder that contains the layers.
    layers: TempDir,
    folders: Vec<CopyOnWriteFolder>,
    /// Protected paths that did not exist, and that the sandbox cannot protect. Changes of them are
    /// not applied.
    protected: Vec<PathBuf>,
    /// The time before the command started.
    since: i128,
}

impl PreviewLease {
    pub(super) fn new(
        copies: PreviewCopies,
        (network, connections): (ProxiedNetwork, CommandConnections),
        cache_copy: Option<ClaimedCacheCopies>,
    ) -> Self {
        let (copies, network) = (Some(copies), Some(network));
        Self { copies, network, connections, _cache_copy: cache_copy }
    }

    /// Waits until the command wants to connect to another host. A preview has no network.
    pub(crate) async fn wait_for_connection_attempt(&self) {
        self.connections.wait_for_refusal().await;
    }

    /// Compares the copies with the real folders, after the command has ended. Blocks.
    ///
    /// # Errors
    ///
    /// Returns the reason if the changes cannot be determined, shown or applied.
    pub(crate) fn find_changes(
        &self,
        workspace: &Workspace,
    ) -> Result<CommandChanges, PreviewObstacle> {
        let copies = self.copies.as_ref().ok_or(PreviewObstacle::Outdated)?;
        comparison::compare(copies, workspace)
    }

    /// Returns the hosts to which the command could not connect, as text.
    pub(crate) fn take_refused_hosts(&self) -> Option<String> {
        self.connections.take_refused()
    }
}

impl Drop for PreviewLease {
    fn drop(&mut self) {
        let (copies, network) = (self.copies.take(), self.network.take());
        // Removing the copies and ending the network may take long, so no caller waits for it. If
        // the thread cannot be started, they are dropped here.
        drop(std::thread::Builder::new().spawn(move || drop((copies, network))));
    }
}

impl PreviewCopies {
    /// Creates an empty layer for each project folder, in a new folder in `parent`.
    pub(super) fn create(
        parent: &Path,
        roots: &[PathBuf],
        protected: Vec<PathBuf>,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(parent)?;
        let layers = TempDir::with_prefix_in("preview-", parent)?;
        let create = |(number, root): (usize, &PathBuf)| {
            let layer = layers.path().join(number.to_string());
            for folder in ["upper", "work"] {
                std::fs::create_dir_all(layer.join(folder))?;
            }
            Ok(CopyOnWriteFolder::new(root, layer))
        };
        // A project folder may be named twice.
        let roots: BTreeSet<_> = roots.iter().collect();
        let folders = roots.into_iter().enumerate().map(create).collect::<io::Result<_>>()?;
        Ok(Self { layers, folders, protected, since: file_clock_now() })
    }

    pub(super) fn folders(&self) -> &[CopyOnWriteFolder] {
        &self.folders
    }
}

impl Drop for PreviewCopies {
    fn drop(&mut self) {
        // The kernel and the command create folders that their owner cannot change.
        make_folder_content_removable(self.layers.path());
    }
}
