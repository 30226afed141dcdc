//! The folder for temporary files that the commands of a session share.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::workspace_path::WorkspaceRoot;

/// A folder that sandboxed commands see at another path, usually as `/tmp`.
#[derive(Debug)]
pub(super) struct TemporaryFolder {
    pub(super) root: Arc<WorkspaceRoot>,
    /// The path at which commands see the folder.
    visible: PathBuf,
}

impl TemporaryFolder {
    /// Opens the folder, whose path must not contain links.
    pub(super) fn open(path: &Path, visible: &Path) -> io::Result<Self> {
        let root = Arc::new(WorkspaceRoot::pin_at_real_path(path)?);
        Ok(Self { root, visible: visible.to_owned() })
    }

    /// Converts a path in the view of a sandboxed command to the path outside of the sandbox. The
    /// path is not changed if more of its components exist in the system's own folder for temporary
    /// files than in this folder.
    pub(super) fn to_host_path(&self, path: PathBuf) -> PathBuf {
        if path.starts_with(&self.root.path) {
            return path;
        }
        let Ok(beneath) = path.strip_prefix(&self.visible) else { return path };
        let existing_depth = |folder: &Path| {
            let exists = |path: &&Path| folder.join(path).symlink_metadata().is_ok();
            beneath.ancestors().find(exists).map_or(0, |path| path.components().count())
        };
        if existing_depth(&self.root.path) < existing_depth(&self.visible) {
            return path;
        }
        self.root.path.join(beneath)
    }

    /// Converts a path outside of the sandbox to the path that commands see. Returns `None` for a
    /// path that is not in the folder.
    pub(super) fn to_visible_path(&self, path: &Path) -> Option<PathBuf> {
        Some(self.visible.join(path.strip_prefix(&self.root.path).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn paths_lead_to_the_folder_unless_only_the_system_has_the_file() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let (private, system) = (base.join("private"), base.join("system"));
        for folder in [&private, &system] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("both"), "").unwrap();
        }
        fs::write(private.join("own"), "").unwrap();
        fs::write(system.join("other"), "").unwrap();
        // If a project folder is mounted beneath `/tmp` in a sandbox, the mount point is a folder
        // in the private folder.
        fs::create_dir_all(private.join("shared/project")).unwrap();
        fs::create_dir_all(system.join("shared/project")).unwrap();
        fs::write(system.join("shared/sibling"), "").unwrap();
        let folder = TemporaryFolder::open(&private, &system).unwrap();
        for (path, expected) in [
            ("system/both", "private/both"),
            ("system/own", "private/own"),
            ("system/own/x", "private/own/x"),
            ("system/other", "system/other"),
            ("system/other/x", "system/other/x"),
            ("system/both/x", "private/both/x"),
            ("system/new/x", "private/new/x"),
            ("system/shared/sibling", "system/shared/sibling"),
            ("system/shared/new", "private/shared/new"),
            ("system", "private"),
            ("private/own", "private/own"),
            ("systematic", "systematic"),
        ] {
            assert_eq!(folder.to_host_path(base.join(path)), base.join(expected), "{path}");
        }
        assert_eq!(folder.to_visible_path(&private.join("own")), Some(system.join("own")));
        assert_eq!(folder.to_visible_path(&system.join("own")), None);
    }
}
