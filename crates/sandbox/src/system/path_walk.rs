//! Follows paths one component at a time.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::limits::MAX_LINKS;

/// Maps the parents of earlier paths to the folders to which they lead, as paths without links.
#[derive(Debug, Default)]
pub(super) struct ResolvedParents(HashMap<PathBuf, PathBuf>);

impl ResolvedParents {
    /// Begins to walk along a path. If the parent of the path is known, the walk begins at the last
    /// component.
    pub(super) fn walk(&self, path: &Path) -> PathWalk {
        let known = path.parent().and_then(|parent| self.0.get(parent));
        match (known, path.file_name()) {
            (Some(folder), Some(name)) => {
                PathWalk { folder: folder.clone(), rest: [name.to_owned()].into(), links: 0 }
            }
            _ => PathWalk::new(path),
        }
    }

    /// Records the parent of a path, if a walk along the path has reached the last component.
    pub(super) fn record_parent_if_reached(&mut self, path: &Path, walk: &PathWalk) {
        // The last component of the path comes after all components of the links on the way.
        if walk.is_done()
            && let Some(parent) = path.parent()
            && !self.0.contains_key(parent)
        {
            self.0.insert(parent.to_owned(), walk.folder().to_owned());
        }
    }
}

/// Resolves a path one component at a time, as the kernel does.
#[derive(Debug)]
pub(super) struct PathWalk {
    /// Path without links and dots to the folder in which the next component is.
    folder: PathBuf,
    /// Components that are not resolved yet.
    rest: VecDeque<OsString>,
    links: usize,
}

impl PathWalk {
    pub(super) fn new(path: &Path) -> Self {
        Self { folder: "/".into(), rest: component_names(path).collect(), links: 0 }
    }

    /// Returns the next component.
    pub(super) fn next_name(&mut self) -> Option<OsString> {
        loop {
            let name = self.rest.pop_front()?;
            if name != ".." {
                return Some(name);
            }
            self.folder.pop();
        }
    }

    /// Returns whether the last component was returned.
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// Path of the folder in which the last returned component is.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Continues in the folder that is the last returned component.
    pub(super) fn enter(&mut self, name: OsString) {
        self.folder.push(name);
    }

    /// Continues at the target of the link that is the last returned component.
    pub(super) fn follow_link(&mut self, target: &CStr) -> io::Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = Path::new(OsStr::from_bytes(target.to_bytes()));
        if target.is_absolute() {
            self.folder = "/".into();
        }
        let before: Vec<_> = component_names(target).collect();
        before.into_iter().rev().for_each(|name| self.rest.push_front(name));
        Ok(())
    }
}

fn component_names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}
