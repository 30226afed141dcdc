//! The caches of package managers. A sandboxed command changes only a copy of a cache, and the
//! copies are removed at the end of the session.
//!
//! Because of these copies, no program outside of the sandbox executes files that a sandboxed
//! command wrote to a cache.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, io};

use callboard_sandbox::CopyOnWriteFolder;

use crate::lock::lock;

/// A cache in the home folder.
struct Cache {
    /// The environment variable that contains the path of the cache. Empty if no variable does.
    variable: &'static str,
    /// The default path in the home folder.
    path: &'static str,
    /// The subfolders of the cache that commands may write. The rest of the cache, e.g. installed
    /// programs, stays read-only.
    folders: &'static [&'static str],
}

const CACHES: &[Cache] = &[
    Cache { variable: "XDG_CACHE_HOME", path: ".cache", folders: &[""] },
    Cache { variable: "CARGO_HOME", path: ".cargo", folders: &["registry", "git"] },
    Cache { variable: "GOPATH", path: "go", folders: &["pkg"] },
    Cache { variable: "GRADLE_USER_HOME", path: ".gradle", folders: &[""] },
    Cache { variable: "NUGET_PACKAGES", path: ".nuget/packages", folders: &[""] },
    Cache { variable: "npm_config_cache", path: ".npm", folders: &[""] },
    Cache { variable: "", path: ".bun/install/cache", folders: &[""] },
    Cache { variable: "", path: ".local/share/pnpm/store", folders: &[""] },
    Cache { variable: "", path: ".m2/repository", folders: &[""] },
    Cache { variable: "", path: ".yarn/berry", folders: &[""] },
];

/// Returns the names of the variables that contain the paths of caches.
pub(super) fn cache_variable_names() -> impl Iterator<Item = &'static str> {
    CACHES.iter().map(|cache| cache.variable).filter(|name| !name.is_empty())
}

/// Name of the folder for caches that do not exist, in the folder for temporary files.
const MISSING_CACHES: &str = ".caches";

/// The copies of the caches of a session. Commands that run at the same time use different copies,
/// because the kernel allows only one mount of a copy at a time.
#[derive(Debug, Default)]
pub(super) struct CacheCopies {
    /// Whether the copy with this number is in use.
    in_use: Mutex<Vec<bool>>,
}

/// The copies that a command uses. Another command can use them when the value is dropped.
#[derive(Debug)]
pub(super) struct ClaimedCacheCopies {
    number: usize,
    copies: Arc<CacheCopies>,
}

impl CacheCopies {
    pub(super) fn claim_unused(self: &Arc<Self>) -> ClaimedCacheCopies {
        let mut in_use = lock(&self.in_use);
        let free = in_use.iter().position(|is_used| !is_used);
        let number = free.unwrap_or_else(|| {
            in_use.push(true);
            in_use.len() - 1
        });
        in_use[number] = true;
        ClaimedCacheCopies { number, copies: self.clone() }
    }
}

impl Drop for ClaimedCacheCopies {
    fn drop(&mut self) {
        lock(&self.copies.in_use)[self.number] = false;
    }
}

/// The caches of a user.
pub(super) struct FoundCaches {
    /// The folders of the caches that exist.
    folders: Vec<PathBuf>,
    missing: Vec<&'static Cache>,
}

impl FoundCaches {
    pub(super) fn find(home: &Path, env: &BTreeMap<String, String>) -> Self {
        let mut found = Self { folders: Vec::new(), missing: Vec::new() };
        for cache in CACHES {
            let before = found.folders.len();
            found.folders.extend(cache.existing_folders(home, env));
            if found.folders.len() == before {
                found.missing.push(cache);
            }
        }
        found
    }

    /// Returns environment variables with which programs create the missing caches in the folder
    /// `tmp` for temporary files.
    pub(super) fn variables_for_missing(
        &self,
        tmp: &Path,
    ) -> impl Iterator<Item = (String, String)> {
        let missing = self.missing.iter().filter(|cache| !cache.variable.is_empty());
        missing.map(|cache| {
            let path = tmp.join(MISSING_CACHES).join(cache.path.trim_start_matches('.'));
            (cache.variable.to_owned(), path.to_string_lossy().into_owned())
        })
    }
}

impl ClaimedCacheCopies {
    /// Creates folders for the changed files of all existing caches. The folders are created
    /// beneath `layers`.
    pub(super) fn create_layer_folders(
        &self,
        layers: &Path,
        caches: &FoundCaches,
    ) -> io::Result<Vec<CopyOnWriteFolder>> {
        let create = |path: &PathBuf| {
            // The name of a layer depends only on its folder, so the folder keeps its layer when
            // other caches are created later.
            let name = path.to_string_lossy().replace(['%', '/', ':', '\\'], "%");
            let layer = layers.join(self.number.to_string()).join(name);
            for folder in ["upper", "work"].map(|name| layer.join(name)) {
                if !folder.is_dir() {
                    fs::create_dir_all(folder)?;
                }
            }
            Ok(CopyOnWriteFolder::new(path, layer))
        };
        caches.folders.iter().map(create).collect()
    }
}

impl Cache {
    fn existing_folders(
        &self,
        home: &Path,
        env: &BTreeMap<String, String>,
    ) -> impl Iterator<Item = PathBuf> {
        // `GOPATH` may be a list of paths. Programs write to the first of these paths.
        let first = |paths: &String| PathBuf::from(paths.split(':').next().unwrap_or_default());
        let path = env.get(self.variable).map_or_else(|| home.join(self.path), first);
        let folders = self.folders.iter().map(|folder| path.join(folder));
        let mut folders: Vec<_> = folders.filter(|folder| folder.is_dir()).collect();
        // If none of the subfolders exists yet, the whole cache is copied, so that a command can
        // create them in the copy.
        if folders.is_empty() && path.is_dir() {
            folders.push(path.clone());
        }
        folders.into_iter().filter(|folder| folder.is_absolute())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::sync::Arc;

    use pretty_assertions::assert_eq;

    use super::{CacheCopies, FoundCaches};

    #[test]
    fn existing_caches_get_a_copy_and_missing_ones_another_place() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        for name in ["home/.cargo/registry", "home/.cargo/bin", "home/.npm", "own/pkg"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let own = folder.path().join("own").to_string_lossy().into_owned();
        let env = BTreeMap::from([("GOPATH".to_owned(), own)]);
        let copies = Arc::new(CacheCopies::default());
        let copy = copies.claim_unused();
        let layers = folder.path().join("layers");
        let folders = copy.create_layer_folders(&layers, &FoundCaches::find(&home, &env)).unwrap();
        let paths: Vec<_> =
            folders.iter().map(|it| it.path.strip_prefix(folder.path()).unwrap()).collect();
        assert_eq!(
            paths,
            ["home/.cargo/registry", "own/pkg", "home/.npm/"].map(std::path::Path::new)
        );
        assert!(folders.iter().all(|it| it.layer.join("work").is_dir()));
        fs::create_dir_all(home.join(".cargo/git")).unwrap();
        let caches = FoundCaches::find(&home, &env);
        let later = copy.create_layer_folders(&layers, &caches).unwrap();
        assert!(folders.iter().all(|folder| later.contains(folder)));
        assert_eq!(later.len(), folders.len() + 1);
        let names: Vec<_> = caches.variables_for_missing(folder.path()).map(|it| it.0).collect();
        assert_eq!(names, ["XDG_CACHE_HOME", "GRADLE_USER_HOME", "NUGET_PACKAGES"]);
    }

    #[test]
    fn commands_at_the_same_time_have_different_copies() {
        let copies = Arc::new(CacheCopies::default());
        let (first, second) = (copies.claim_unused(), copies.claim_unused());
        assert_eq!((first.number, second.number), (0, 1));
        drop(first);
        assert_eq!(copies.claim_unused().number, 0);
    }
}
