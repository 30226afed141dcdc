//! `package`: packages every published crate, builds the documentation of the package, and checks
//! the package as users of the crate receive it.
//!
//! Cargo's own verification has two problems with packages that depend on each other. If a version
//! has not changed, cargo verifies the sources that an earlier run unpacked. Cargo also builds
//! every dependency again. The packages are therefore unpacked into a separate workspace that uses
//! the same target folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::{self, TaskError, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Crates that are only checked together with all others, because a separate check of these crates
/// would build most dependencies again. The other crates are also checked alone or in a group. This
/// check fails if a crate needs a feature of a dependency that only a crate outside of its group
/// enables.
const CHECKED_WITH_ALL: [&str; 3] = ["callboard-runtime", "callboard-sessions", "callboard"];

/// Groups of crates that are checked together, because they have most dependencies in common, and
/// build them with other features than the crates of other groups.
const GROUPS: [&[&str]; 3] = [
    &["callboard-sandbox", "callboard-process"],
    &["acp-transport", "acp-connection", "acp-conformance", "callboard-exec"],
    &["acp-tools", "acp-mcp", "acp-store", "callboard-models"],
];

/// A published crate.
struct PublishedCrate {
    name: String,
    version: String,
}

impl PublishedCrate {
    /// Returns the file name of the package without `.crate`. The folder inside the package has the
    /// same name.
    fn package_folder_name(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

pub(crate) fn check_packages(workspace: &Workspace, _: &mut Ui<'_>, _: &[String]) -> TaskResult {
    let all = published_crates(&workspace.metadata);
    // A lock file for each package would take most of the time of this step.
    let mut package =
        workspace.cargo_command("package --no-verify --allow-dirty --exclude-lockfile");
    package.args(all.iter().flat_map(|one| ["-p", &one.name]));
    process::run_expecting_success(package.arg("--target-dir").arg(&workspace.target))?;

    let packages = workspace.target.join("package");
    let unpacked = packages.join("unpacked");
    recreate_workspace_folder(&unpacked, &all, &workspace.root)
        .map_err(|error| TaskError::Failed(format!("{}: {error}", unpacked.display())))?;
    for one in &all {
        let mut tar = Command::new("tar");
        // `m` gives each file the current time. Otherwise, cargo would not detect that the file has
        // changed.
        tar.arg("-xzmf").arg(packages.join(format!("{}.crate", one.package_folder_name())));
        process::run_expecting_success(tar.current_dir(&unpacked))?;
    }
    let run = |command: &str, selection: &[&str]| {
        let mut command = workspace.cargo_command(command);
        command.args(selection).arg("--target-dir").arg(&workspace.target);
        command.env("RUSTDOCFLAGS", "-D warnings").current_dir(&unpacked);
        process::run_expecting_success(&mut command)
    };
    run("doc --workspace --no-deps --all-features", &[])?;
    // The documentation of a crate is built without a check of its functions. Most crates are
    // checked by then, because others depend on them.
    run("check --workspace --all-features", &[])?;
    let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
    groups_checked_together(&names).into_iter().try_for_each(|group| {
        run("check", &group.into_iter().flat_map(|name| ["-p", name]).collect::<Vec<_>>())
    })
}

/// Divides crates into the groups that are checked together. A crate that is in no group is checked
/// alone.
fn groups_checked_together<'a>(names: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut groups = vec![Vec::new(); GROUPS.len()];
    for name in names.iter().filter(|name| !CHECKED_WITH_ALL.contains(name)) {
        match GROUPS.iter().position(|group| group.contains(name)) {
            Some(group) => groups[group].push(*name),
            None => groups.push(vec![*name]),
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

fn published_crates(metadata: &Value) -> Vec<PublishedCrate> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    packages
        .iter()
        .filter(|package| package["publish"].is_null())
        .map(|package| PublishedCrate {
            name: text(&package["name"]),
            version: text(&package["version"]),
        })
        .collect()
}

/// Recreates the folder. The new folder contains a workspace manifest, and the lock file of the
/// real workspace.
fn recreate_workspace_folder(
    folder: &Path,
    all: &[PublishedCrate],
    root: &Path,
) -> std::io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    fs::write(folder.join("Cargo.toml"), workspace_manifest(all))?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map(drop)
}

/// Returns the manifest of a workspace in which each crate depends on the packages of the other
/// crates.
///
/// The cargo profile is the same as in the real workspace, so that both share the builds of
/// dependencies.
fn workspace_manifest(all: &[PublishedCrate]) -> String {
    let folders: Vec<_> = all.iter().map(PublishedCrate::package_folder_name).collect();
    let patches = all.iter().zip(&folders);
    let patches = patches.map(|(one, folder)| format!("{} = {{ path = {folder:?} }}\n", one.name));
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = {folders:?}\n\n[patch.crates-io]\n{}\n\
         [profile.dev]\ndebug = \"line-tables-only\"\n\n\
         [profile.dev.package.\"*\"]\ndebug = false\n",
        patches.collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_crate_is_checked_once_in_its_group_or_alone() {
        let names = ["alone", "acp-mcp", "callboard", "acp-tools", "callboard-process"];
        let checked = groups_checked_together(&names);
        assert_eq!(checked, [&["callboard-process"][..], &["acp-mcp", "acp-tools"], &["alone"]]);
    }

    #[test]
    fn every_published_crate_is_a_member_and_a_patch_of_the_unpacked_workspace() {
        let metadata = json!({"packages": [
            {"name": "low", "version": "0.1.0", "publish": null},
            {"name": "high", "version": "0.2.0", "publish": null},
            {"name": "own", "version": "0.1.0", "publish": []},
        ]});
        let manifest = workspace_manifest(&published_crates(&metadata));
        for line in [
            r#"members = ["low-0.1.0", "high-0.2.0"]"#,
            r#"low = { path = "low-0.1.0" }"#,
            r#"high = { path = "high-0.2.0" }"#,
        ] {
            assert!(manifest.lines().any(|other| other == line), "{line} in:\n{manifest}");
        }
        assert!(!manifest.contains("own"), "{manifest}");
    }
}
