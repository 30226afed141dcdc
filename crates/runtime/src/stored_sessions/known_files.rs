//! The part of a stored session that contains the versions of the files that the model knows.

use std::collections::BTreeSet;
use std::path::PathBuf;

use acp_store::{SessionChange, StoredParts};
use callboard_text::path_text;
use serde::{Deserialize, Serialize};

use crate::context::KnownFile;

const PART: &str = "known_files.1";

/// The files that the model knows, with the project folders of the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredKnownFiles {
    /// The canonical paths of the project folders, as text.
    folders: BTreeSet<String>,
    files: Vec<KnownFile>,
}

impl StoredKnownFiles {
    pub(crate) fn new(folders: &[PathBuf], files: Vec<KnownFile>) -> Self {
        let folders = folders.iter().map(|folder| path_text(folder).into_owned()).collect();
        Self { folders, files }
    }

    /// Returns the files if the session works in the same folders.
    pub(crate) fn into_files_if_same_folders(self, folders: &[PathBuf]) -> Vec<KnownFile> {
        let is_same = Self::new(folders, Vec::new()).folders == self.folders;
        if is_same { self.files } else { Vec::new() }
    }

    /// Reads the stored files. If they are missing or damaged, the model is not notified of
    /// changes.
    pub(super) fn read(parts: &StoredParts) -> Self {
        let part = parts.parts.get(PART).and_then(|json| serde_json::from_str(json).ok());
        part.unwrap_or_default()
    }

    pub(super) fn to_change(&self) -> SessionChange {
        SessionChange::Part { name: PART.to_owned(), json: serde_json::to_string(self).ok() }
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_restored_in_the_same_folders_only_and_damaged_ones_are_dropped() {
        let version = json!({"len": 1, "modified": null, "content": 2});
        let file: KnownFile =
            serde_json::from_value(json!({"path": "/p/a", "version": version, "prompt": 3}))
                .unwrap();
        let stored = StoredKnownFiles::new(&["/p".into()], vec![file.clone()]);
        let SessionChange::Part { name, json } = stored.to_change() else { panic!("no part") };
        let parts = |json: Option<String>| {
            let mut parts = StoredParts::default();
            parts.parts.insert(name.clone(), json.unwrap());
            parts
        };
        let read = StoredKnownFiles::read(&parts(json));
        assert_eq!(read.clone().into_files_if_same_folders(&["/p".into()]), [file]);
        assert_eq!(read.into_files_if_same_folders(&["/q".into()]), []);
        let damaged = StoredKnownFiles::read(&parts(Some("{\"folders\":[1]}".to_owned())));
        assert_eq!(damaged.into_files_if_same_folders(&["/p".into()]), []);
    }
}
