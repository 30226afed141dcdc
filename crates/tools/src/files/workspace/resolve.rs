//! The resolution of paths: by their text, and with their links.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_text::path_text;

use super::errors::{outside_roots_error, target_changed_error};
use super::workspace_path::canonicalize_existing;
use super::{Workspace, WorkspacePath, WorkspaceRoot, inspect};
use crate::error::ToolError;

impl Workspace {
    /// Makes a path from the model absolute.
    fn absolute_path(&self, given: &str) -> Result<PathBuf, ToolError> {
        let path = inspect::absolute_path(&self.cwd, given)?;
        match self.temporary.get() {
            Some(folder)
                if !self.roots().chain(self.real_roots()).any(|root| path.starts_with(root)) =>
            {
                Ok(folder.to_host_path(path))
            }
            _ => Ok(path),
        }
    }

    /// Resolves a path from the model by its text alone. File names that text cannot represent,
    /// e.g. names that are not UTF-8, may be quoted in the format of [`path_text`].
    ///
    /// # Errors
    ///
    /// `invalid_arguments` for an invalid path, `outside_roots` for a path outside of all roots.
    pub fn resolve(&self, given: &str) -> Result<WorkspacePath, ToolError> {
        let path = self.absolute_path(given)?;
        self.locate_in_roots(given, &path).ok_or_else(|| outside_roots_error(self, given))
    }

    /// Resolves a path that does not come from the model. Unlike [`Workspace::resolve`], this
    /// method does not map a path in `/tmp` to the folder for temporary files of sandboxed
    /// commands.
    ///
    /// # Errors
    ///
    /// The errors of [`Workspace::resolve`].
    pub fn resolve_host_path(&self, path: &Path) -> Result<WorkspacePath, ToolError> {
        let given = path_text(path);
        let path = inspect::absolute_path(&self.cwd, &given)?;
        self.locate_in_roots(&given, &path).ok_or_else(|| outside_roots_error(self, &given))
    }

    /// Resolves a path from the model and follows its links, so that the call uses exactly the file
    /// that the preview shows.
    ///
    /// The path may be outside of the roots. In this case [`WorkspacePath::path`] is the real path,
    /// the directory is pinned, and the caller must request permission. Links in `/proc` to files
    /// that processes have open are never followed, and no file in `/proc` is accessible.
    ///
    /// # Errors
    ///
    /// - `invalid_arguments` for an invalid path.
    /// - `not_found` for a dangling link.
    /// - `not_a_regular_file` for a FIFO, socket or device.
    /// - `outside_roots` for a path that is refused without a permission request.
    /// - `not_a_directory`, `not_permitted`, `io`.
    pub fn resolve_and_follow_links(&self, given: &str) -> Result<WorkspacePath, ToolError> {
        inspect::follow_links_and_record_file(self, given, self.absolute_path(given)?)
    }

    /// Inspects a path that the session recorded earlier.
    pub(crate) fn follow_links_of_host_path(
        &self,
        path: &Path,
    ) -> Result<WorkspacePath, ToolError> {
        inspect::follow_links_and_record_file(self, &path_text(path), path.to_owned())
    }

    /// Resolves a path that the session recorded earlier. A link in the last component is not
    /// followed.
    pub(crate) fn locate_without_following(&self, path: &Path) -> Result<WorkspacePath, ToolError> {
        self.locate_in_roots(&path_text(path), path)
            .map_or_else(|| self.follow_links_of_host_path(path), Ok)
    }

    /// Follows all links of a path, including the last component. Missing components are not
    /// changed.
    ///
    /// The result is the path of the file that a write would change, so rules about names must
    /// check this path. Another process can invalidate the result at any time. So the result must
    /// not be used to decide whether a file is inside the roots: only opening the file checks this.
    /// If the path was inspected, its target must still be the recorded one.
    ///
    /// # Errors
    ///
    /// - `outside_roots` if a link leaves the roots.
    /// - `changed_since_preview` if the path was inspected and has another target now.
    /// - `not_a_directory`, `not_permitted`, `io`.
    pub fn canonicalize(&self, at: &WorkspacePath) -> Result<WorkspacePath, ToolError> {
        if at.inspected.is_some() && self.is_outside(at) {
            // The directory is pinned, so links in its path no longer matter.
            return Ok(at.clone());
        }
        let real = canonicalize_existing(&self.path_beneath_real_root(at))
            .map_err(|error| self.explain_io_error(at, &error))?;
        let beneath_own_root =
            || Some((at.root.clone(), real.strip_prefix(&at.root.real_path).ok()?));
        let placed = self.locate_in_roots(&at.given, &real).or_else(|| {
            let (root, beneath) = beneath_own_root()?;
            Some(WorkspacePath::new_in_root(&at.given, root, beneath))
        });
        match (placed, &at.inspected) {
            (Some(place), None) => Ok(place),
            (Some(place), Some(seen)) if place.path == seen.real_path => {
                Ok(WorkspacePath { inspected: Some(seen.clone()), ..place })
            }
            (_, Some(_)) => Err(target_changed_error(at)),
            (None, None) => Err(self.explain_io_error(at, &io::ErrorKind::CrossesDevices.into())),
        }
    }

    /// Finds the root of an absolute, normalised path. The path of the root may be written with or
    /// without links.
    pub(super) fn locate_in_roots(&self, given: &str, path: &Path) -> Option<WorkspacePath> {
        self.roots_and_temporary().find_map(|root| {
            let beneath = path
                .strip_prefix(&root.path)
                .or_else(|_| path.strip_prefix(&root.real_path))
                .ok()?;
            Some(WorkspacePath::new_in_root(given, root.clone(), beneath))
        })
    }

    /// Returns the project folders and the folder for temporary files.
    pub(super) fn roots_and_temporary(&self) -> impl Iterator<Item = &Arc<WorkspaceRoot>> {
        self.roots.iter().chain(self.temporary.get().map(|folder| &folder.root))
    }

    pub(crate) fn path_beneath_real_root(&self, at: &WorkspacePath) -> PathBuf {
        at.root.real_path.join(&at.path_in_root)
    }

    /// Returns whether a path is outside of all roots and outside of the folder for temporary
    /// files.
    pub(crate) fn is_outside(&self, at: &WorkspacePath) -> bool {
        !self.roots_and_temporary().any(|root| Arc::ptr_eq(root, &at.root))
    }
}
