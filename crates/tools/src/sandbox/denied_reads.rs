//! Files that a rule denies reading. They are hidden from sandboxed commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use acp_lifecycle::rules::{FileAccess, PathGlob};
use acp_lifecycle::{Effect, Matcher, Rules, Verdict};

use crate::limits::MAX_ENTRIES_FOR_DENIED_READS;

/// A path or a pattern that a rule denies reading.
#[derive(Debug, Clone)]
pub(crate) enum DeniedReadPattern {
    Path(PathBuf),
    Glob(PathGlob),
}

/// Returns the paths and patterns of files that the rules of a session deny reading.
pub(crate) fn denied_read_patterns(rules: &Rules) -> Vec<DeniedReadPattern> {
    let denying = rules.iter().filter(|rule| rule.verdict == Verdict::Deny);
    let read = denying.filter_map(|rule| match &rule.matcher {
        Matcher::Path { access: FileAccess::Read, glob } => {
            Some(DeniedReadPattern::Glob(glob.clone()))
        }
        Matcher::Effect(Effect::Read(path)) => Some(DeniedReadPattern::Path(path.clone())),
        _ => None,
    });
    read.collect()
}

/// Returns the existing files and folders that must be hidden. If a pattern begins with a fixed
/// folder, this folder is searched. Otherwise the project folders are searched.
///
/// # Errors
///
/// Returns an error if the searched folders contain more than [`MAX_ENTRIES_FOR_DENIED_READS`]
/// entries.
pub(super) fn find_denied_paths(
    denied: &[DeniedReadPattern],
    roots: &[PathBuf],
) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    // Each folder is read once for all patterns.
    let mut globs: BTreeMap<&Path, Vec<&PathGlob>> = BTreeMap::new();
    for read in denied {
        match read {
            DeniedReadPattern::Path(path) => found.push(path.clone()),
            DeniedReadPattern::Glob(glob) if glob.matches_all_of_base() => {
                found.push(glob.literal_base().to_owned());
            }
            DeniedReadPattern::Glob(glob) if glob.literal_base() == Path::new("/") => {
                roots.iter().for_each(|root| globs.entry(root).or_default().push(glob));
            }
            DeniedReadPattern::Glob(glob) => {
                globs.entry(glob.literal_base()).or_default().push(glob);
            }
        }
    }
    let mut entries = 0;
    let folders = globs.iter().map(|(folder, globs)| (folder.to_path_buf(), globs));
    let mut folders: Vec<_> = folders.collect();
    while let Some((folder, globs)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES_FOR_DENIED_READS {
                return Err(too_many_entries_error());
            }
            let path = entry.path();
            if globs.iter().any(|glob| glob.covers_ignoring_case(&path)) {
                found.push(path);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push((path, globs));
            }
        }
    }
    // Do not hide a folder that contains a project folder, because the command would lose its
    // working directory.
    found.retain(|path| !roots.iter().any(|root| root.starts_with(path)));
    Ok(found)
}

/// Returns whether a rule denies reading files that may be in `folder`. Does not look for them.
pub(crate) fn may_contain_denied(denied: &[DeniedReadPattern], folder: &Path) -> bool {
    denied.iter().any(|read| match read {
        DeniedReadPattern::Path(path) => path.starts_with(folder),
        DeniedReadPattern::Glob(glob) => {
            let base = glob.literal_base();
            base.starts_with(folder) || folder.starts_with(base)
        }
    })
}

/// Returns the first file or folder in `folder` that a rule denies reading.
///
/// # Errors
///
/// Returns an error if the folder contains more than [`MAX_ENTRIES_FOR_DENIED_READS`] entries.
pub(crate) fn first_denied_in(
    denied: &[DeniedReadPattern],
    folder: &Path,
) -> io::Result<Option<PathBuf>> {
    let is_denied = |path: &Path| {
        denied.iter().any(|read| match read {
            DeniedReadPattern::Path(other) => other == path,
            DeniedReadPattern::Glob(glob) => glob.covers_ignoring_case(path),
        })
    };
    let (mut folders, mut entries) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop().filter(|_| !denied.is_empty()) {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES_FOR_DENIED_READS {
                return Err(too_many_entries_error());
            }
            let path = entry.path();
            if is_denied(&path) {
                return Ok(Some(path));
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    Ok(None)
}

fn too_many_entries_error() -> io::Error {
    io::Error::other("too many files may be ones that a rule denies reading")
}

#[cfg(test)]
mod tests {
    use acp_lifecycle::{Rule, RuleScope};
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn existing_files_that_a_rule_denies_reading_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("work");
        for name in ["work/a/.env", "work/b/c/.ENV", "work/.envrc", "secret/key", "other/x.pem"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let path = |name: &str| folder.path().join(name);
        let glob = |name: &str, verdict| {
            let glob = PathGlob::parse(name).unwrap();
            Rule::new(RuleScope::User, Matcher::Path { access: FileAccess::Read, glob }, verdict)
        };
        let secret = path("secret/**").display().to_string();
        let pem = path("other/*.pem").display().to_string();
        let mut rules = Rules::default();
        for rule in [
            glob("/**/.env", Verdict::Deny),
            glob(&secret, Verdict::Deny),
            glob(&pem, Verdict::Deny),
            glob("/**/.envrc", Verdict::Ask),
            Rule::new(RuleScope::User, Matcher::Effect(Effect::Read(path("one"))), Verdict::Deny),
        ] {
            assert!(rules.add_rule(rule));
        }
        let mut found = find_denied_paths(&denied_read_patterns(&rules), &[root]).unwrap();
        found.sort();
        let expected = ["one", "other/x.pem", "secret", "work/a/.env", "work/b/c/.ENV"];
        assert_eq!(found, expected.map(path));
    }

    #[test]
    fn a_folder_that_cannot_contain_denied_files_is_recognized() {
        for (denied, folder, expected) in [
            ("/**/.env", "/p", true),
            ("/p/secret/**", "/p", true),
            ("/p/secret/**", "/p/secret/deep", true),
            ("/p/secret/**", "/p/open", false),
            ("/p/*/key", "/ps", false),
        ] {
            let denied = [DeniedReadPattern::Glob(PathGlob::parse(denied).unwrap())];
            assert_eq!(may_contain_denied(&denied, Path::new(folder)), expected, "{denied:?}");
        }
        let denied = [DeniedReadPattern::Path("/p/a".into())];
        assert!(may_contain_denied(&denied, Path::new("/p")));
        assert!(!may_contain_denied(&denied, Path::new("/p/b")));
    }
}
