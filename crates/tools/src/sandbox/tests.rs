//! Tests of the policies of projects.

use std::fs;

use pretty_assertions::assert_eq;

use super::*;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns the read-only names of a policy beneath a folder, as text.
fn read_only_beneath(policy: &SandboxPolicy, root: &Path) -> Vec<String> {
    let paths = policy.read_only.iter().filter_map(|name| name.path.strip_prefix(root).ok());
    paths.map(|path| path.display().to_string()).collect()
}

#[test]
fn the_names_that_decide_what_git_runs_are_read_only_and_objects_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    write(&root, ".git/HEAD", "ref: refs/heads/main\n");
    write(&root, ".git/config", "[core]\n\thooksPath = tools/hooks\n");
    write(&root, ".git/modules/sub/HEAD", "");
    let workspace = Workspace::new(root.clone(), Vec::new()).unwrap();
    let policy = sandbox_policy(&workspace, None);
    assert_eq!(policy.writable, [root.as_path()]);
    let names = read_only_beneath(&policy, &root);
    for name in [
        "AGENTS.md",
        ".github/workflows",
        ".vscode",
        ".git/config",
        ".git/hooks",
        ".git/modules/sub/config",
        "tools/hooks",
    ] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    for name in [".git", ".git/objects", ".git/refs", ".git/index", ".git/HEAD", "src"] {
        assert!(!names.iter().any(|it| it == name), "{name}");
    }
}

#[test]
fn a_folder_without_a_repository_can_become_one() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
    let policy = sandbox_policy(&workspace, None);
    let root = fs::canonicalize(folder.path()).unwrap();
    let names = read_only_beneath(&policy, &root);
    assert!(!names.iter().any(|name| name.starts_with(".git/")), "{names:?}");
}

#[test]
fn secrets_of_the_home_folder_and_the_state_folder_are_masked() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let (project, state) = (home.join("project"), home.join(".local/state/callboard"));
    fs::create_dir_all(&project).unwrap();
    let workspace = Workspace::new(project, Vec::new()).unwrap().with_state_folder(&state);
    let policy = sandbox_policy(&workspace, Some(&home));
    for secret in [home.join(".ssh"), home.join(".aws"), state] {
        assert!(policy.masked.contains(&secret), "{}", secret.display());
    }
    assert!(policy.readable.contains(&home.join(".cargo/bin")));
    assert_eq!(policy.home, Some(home));
}

/// A readable path beneath a masked path is an exception to the mask. The list of toolchains must
/// therefore not contain a path beneath a path with secrets.
#[test]
fn no_toolchain_lies_in_a_masked_folder() {
    let home = Path::new("/home/user");
    let secrets: Vec<_> = home_folder::secret_paths(home).collect();
    for toolchain in home_folder::toolchain_paths(home) {
        let masked = secrets.iter().find(|secret| toolchain.starts_with(secret));
        assert_eq!(masked, None, "{}", toolchain.display());
    }
}
