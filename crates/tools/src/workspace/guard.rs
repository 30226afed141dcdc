//! What of a place there is to know before anybody permits something: whether it is guarded, where
//! it leads, whether it has further names.
//!
//! It knows nothing of rules.

use std::path::{Path, PathBuf};

use acp_lifecycle::{Effect, Effects, is_protected};

use super::{Resolved, Root, Workspace};
use crate::sys::fs::links;

impl Workspace {
    /// Whether a change of a file is always asked about. It looks at the real place.
    ///
    /// What is kept, and the rules and keys that lie beside it, are as protected as any name.
    pub(crate) fn is_guarded(&self, real: &Resolved) -> bool {
        let path = self.real(real);
        let is_of = |root: &Root| path.strip_prefix(&root.real).is_ok_and(is_protected);
        let is_state =
            |folder: &PathBuf| path.starts_with(folder) || path.starts_with(without_links(folder));
        self.roots.iter().any(is_of) || self.state.as_ref().is_some_and(is_state)
    }

    /// Returns what looking at a place does: an effect on the path that was named and, where links
    /// lead elsewhere, on the real one, which rules may speak of.
    pub(crate) fn looked_at(&self, at: &Resolved, effect: fn(PathBuf) -> Effect) -> Effects {
        let real = self.settle(at).ok().map(|real| real.path().to_owned());
        let real = real.filter(|real| real != at.path());
        [at.path().to_owned()].into_iter().chain(real).map(effect).collect()
    }

    /// Whether a file has further names, which a change of it changes too, wherever they are.
    pub(crate) fn is_shared(&self, real: &Resolved) -> bool {
        let metadata = self
            .open_read(real)
            .and_then(|file| file.metadata().map_err(|error| self.explain(real, &error)));
        metadata.is_ok_and(|metadata| metadata.is_file() && links(&metadata) > 1)
    }
}

/// Spells out the links of a path as far as it exists.
fn without_links(path: &Path) -> PathBuf {
    let real = path.ancestors().find_map(|existing| {
        let rest = path.strip_prefix(existing).ok()?;
        Some(existing.canonicalize().ok()?.join(rest))
    });
    real.unwrap_or_else(|| path.to_owned())
}
