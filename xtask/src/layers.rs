//! `layers`: checks which crates a workspace member depends on. Some dependencies are allowed, and
//! others are always forbidden.
//!
//! A table contains the rules. [`check_layers`] collects data from cargo, and [`find_violations`]
//! compares the data with the table.
//!
//! Direct dependencies come from `cargo metadata`. Transitive dependencies come from `cargo tree`
//! for one crate at a time, because `cargo metadata` unifies the features of the whole workspace.

mod modules;
mod surface;
mod table;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::process::{TaskError, TaskResult, capture_stdout};
use crate::ui::Ui;
use crate::workspace::Workspace;
use table::{BOUNDS, CrateCountLimit, LayerRule, MEMBERS_WITH_PROMISED_MSRV, TABLE};

/// The crate of the wire types. Only one version may be used, because the types of two versions are
/// incompatible.
const SINGLE_VERSION_CRATE: &str = "agent-client-protocol-schema";

/// The document that contains the dependency graph of the crates.
const GRAPH_DOCUMENT: &str = "ARCHITECTURE.md";

/// A workspace member and its dependencies.
struct WorkspaceMember {
    name: String,
    /// Name of each direct dependency, and its kind (normal, build or dev).
    uses: Vec<(String, String)>,
}

/// Checks the rules of the table against cargo's data about the workspace.
///
/// With the argument `--surface`, checks nothing, and prints the public items that are used only in
/// their own crate.
pub(crate) fn check_layers(workspace: &Workspace, ui: &mut Ui<'_>, args: &[String]) -> TaskResult {
    match args {
        [] => {}
        [only] if only == "--surface" => return print_unused_public_items(workspace, ui),
        _ => return Err(TaskError::Usage("`layers` takes `--surface` or nothing".to_owned())),
    }
    let members = parse_members(&workspace.metadata);
    let mut closures = BTreeMap::new();
    for row in TABLE.iter().filter(|row| needs_dependency_tree(row, &members)) {
        let mut tree =
            workspace.cargo_command("tree --no-default-features -e normal,build --prefix depth");
        tree.args(["-p", row.member, "--features", row.features]);
        closures.insert(row.member, capture_stdout(&mut tree)?);
    }
    let whole = capture_stdout(
        &mut workspace.cargo_command("tree --workspace --all-features --prefix depth"),
    )?;
    let mut violations = find_violations(TABLE, &members, &closures, &whole);
    for bound in BOUNDS {
        let mut tree =
            workspace.cargo_command("tree --no-default-features -e normal --prefix depth");
        tree.args(["-p", bound.member, "--features", bound.features]);
        let (line, violation) = check_crate_count(bound, &capture_stdout(&mut tree)?);
        ui.print_line_to_stdout(line);
        violations.extend(violation);
    }
    let host = capture_stdout(&mut workspace.cargo_command("-vV"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    // Without a platform, cargo would also fetch the dependencies of other platforms.
    let mut all =
        workspace.cargo_command("metadata --format-version 1 --all-features --filter-platform");
    let all = capture_stdout(all.arg(host))?;
    let all: Value = serde_json::from_str(&all)
        .map_err(|error| TaskError::Failed(format!("cargo metadata: {error}")))?;
    for member in MEMBERS_WITH_PROMISED_MSRV {
        let mut tree =
            workspace.cargo_command("tree --all-features -e normal,build --prefix depth");
        let tree = capture_stdout(tree.args(["-p", member]))?;
        violations.extend(dependencies_with_newer_msrv(&tree, &rust_versions(&all)));
    }
    let graph = format_member_graph(TABLE, &members);
    ui.print_line_to_stdout(&graph);
    let map = fs::read_to_string(workspace.root.join(GRAPH_DOCUMENT))
        .map_err(|error| TaskError::Failed(format!("{GRAPH_DOCUMENT}: {error}")))?;
    if !map.contains(&graph) {
        violations.push(format!(
            "{GRAPH_DOCUMENT}: the graph of the crates is another one by now; copy it"
        ));
    }
    for folder in member_folders(&workspace.metadata) {
        let mut files = Vec::new();
        read_rust_and_markdown_files(&Path::new(&folder).join("src"), "", &mut files)?;
        let name = Path::new(&folder).strip_prefix(&workspace.root).unwrap_or(Path::new(&folder));
        let found = modules::dependency_cycles(&files).into_iter();
        violations.extend(found.map(|circle| format!("{}: {circle}", name.display())));
    }
    for violation in &violations {
        ui.print_line_to_stdout(violation);
    }
    match violations.len() {
        0 => Ok(()),
        count => Err(TaskError::Failed(format!("{count} violations of the layers"))),
    }
}

/// Prints the number of public items of each library, and the public items that only the library
/// itself uses.
fn print_unused_public_items(workspace: &Workspace, ui: &mut Ui<'_>) -> TaskResult {
    let mut files = Vec::new();
    for part in ["crates", "tests"].iter().filter(|part| workspace.root.join(part).is_dir()) {
        read_rust_and_markdown_files(&workspace.root.join(part), &format!("{part}/"), &mut files)?;
    }
    let packages = workspace.metadata["packages"].as_array().into_iter().flatten();
    let libraries = packages.filter_map(|package| {
        let name = package["name"].as_str()?.replace('-', "_");
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let folder = manifest.parent()?.strip_prefix(&workspace.root).ok()?;
        workspace
            .root
            .join(folder)
            .join("src/lib.rs")
            .exists()
            .then_some((name, folder.to_str()?.to_owned()))
    });
    ui.print_line_to_stdout(surface::report_unused_public_items(
        &libraries.collect::<Vec<_>>(),
        &files,
    ));
    Ok(())
}

/// Formats the dependency graph of the members. Members without dependencies come first.
fn format_member_graph(table: &[LayerRule], members: &[WorkspaceMember]) -> String {
    let is_row = |name: &str| table.iter().any(|row| row.member == name);
    let widest = table.iter().map(|row| row.member.len()).max().unwrap_or_default();
    let line = |row: &LayerRule| {
        let member = members.iter().find(|member| member.name == row.member);
        let uses = member.into_iter().flat_map(|member| &member.uses);
        let uses = uses.filter(|(name, kind)| kind == "normal" && is_row(name));
        let uses: Vec<_> = uses.map(|(name, _)| name.as_str()).collect();
        let line = format!("{:widest$} → {}", row.member, uses.join(", "));
        line.trim_end_matches([' ', '→']).to_owned() + "\n"
    };
    table.iter().map(line).collect()
}

/// Returns the folders of the workspace members.
fn member_folders(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifests = packages.filter_map(|package| package["manifest_path"].as_str());
    manifests.filter_map(|path| path.strip_suffix("/Cargo.toml")).map(str::to_owned).collect()
}

/// Reads all Rust and Markdown files in a folder, each with its relative path.
fn read_rust_and_markdown_files(
    folder: &Path,
    before: &str,
    found: &mut Vec<(String, String)>,
) -> Result<(), TaskError> {
    let failed = |error| TaskError::Failed(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            read_rust_and_markdown_files(&path, &format!("{before}{name}/"), found)?;
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            let text = fs::read_to_string(&path).map_err(failed)?;
            found.push((format!("{before}{name}"), text));
        }
    }
    Ok(())
}

/// Returns every violation of the table, each with its dependency path.
///
/// `closures` and `whole` are outputs of `cargo tree --prefix depth`. `closures` contains one
/// output for each member with a list `never`. `whole` is the output for the workspace with all
/// features.
fn find_violations(
    table: &[LayerRule],
    members: &[WorkspaceMember],
    closures: &BTreeMap<&str, String>,
    whole: &str,
) -> Vec<String> {
    let mut found = Vec::new();
    for member in members {
        match table.iter().find(|row| row.member == member.name) {
            Some(row) => found.extend(find_forbidden_dependencies(row, member, members)),
            None => found.push(format!("{}: no row in the table; add one", member.name)),
        }
    }
    for row in table {
        if !members.iter().any(|member| member.name == row.member) {
            found.push(format!("{}: a row without a member; remove it", row.member));
        }
        let tree = closures.get(row.member).map_or("", String::as_str);
        found.extend(find_forbidden_crates(row, tree));
    }
    found.extend(check_single_version_of_crate(SINGLE_VERSION_CRATE, whole));
    found
}

fn find_forbidden_dependencies(
    row: &LayerRule,
    member: &WorkspaceMember,
    members: &[WorkspaceMember],
) -> Vec<String> {
    let is_member = |name: &str| members.iter().any(|other| other.name == name);
    let is_against = |name: &str| name != row.member && !row.may_use.contains(&name);
    let against = member.uses.iter().filter(|(name, _)| is_member(name) && is_against(name));
    against
        .map(|(name, kind)| {
            format!("{} → {name} ({kind} dependency): it may use {:?}", row.member, row.may_use)
        })
        .collect()
}

fn find_forbidden_crates(row: &LayerRule, tree: &str) -> Vec<String> {
    // The tree lists a crate once per dependent crate, and the first path is enough for the report.
    let mut seen = BTreeSet::new();
    parse_cargo_tree(tree)
        .into_iter()
        .filter(|package| row.never.contains(&package.name) && seen.insert(package.name))
        .map(|package| format!("{}: never {}", package.path, package.name))
        .collect()
}

/// Returns a line with the number of crates of a member. If the number is too large, also returns a
/// violation.
fn check_crate_count(bound: &CrateCountLimit, tree: &str) -> (String, Option<String>) {
    let CrateCountLimit { member, features, crates: most } = bound;
    let found: BTreeSet<_> =
        parse_cargo_tree(tree).into_iter().map(|package| (package.name, package.version)).collect();
    let crates = found.len();
    let with = if features.is_empty() { String::new() } else { format!(" with {features}") };
    let line = format!("{member}{with}: {crates} crates, at most {most}");
    let violation = (crates > *most).then(|| format!("{line}: find out what brought them"));
    (line, violation)
}

/// Returns the `rust-version` of each package. The keys are names and versions of packages.
fn rust_versions(metadata: &Value) -> BTreeMap<(&str, &str), &str> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let needs = packages.filter_map(|package| {
        let text = |key: &str| package[key].as_str();
        Some(((text("name")?, text("version")?), text("rust_version")?))
    });
    needs.collect()
}

/// Returns the packages of a tree that need a newer version of Rust than the package at its root.
fn dependencies_with_newer_msrv(tree: &str, needs: &BTreeMap<(&str, &str), &str>) -> Vec<String> {
    let number = |text: &str| -> [u32; 3] {
        let mut parts = text.split('.').map(|part| part.parse().unwrap_or_default());
        [(); 3].map(|()| parts.next().unwrap_or_default())
    };
    let need = |package: &TreePackage<'_>| {
        let version = package.version.trim_start_matches('v');
        needs.get(&(package.name, version)).copied().unwrap_or("1")
    };
    let mut seen = BTreeSet::new();
    let all = parse_cargo_tree(tree);
    let Some(promised) = all.first().map(need) else { return Vec::new() };
    all.iter()
        .filter(|it| number(need(it)) > number(promised) && seen.insert((it.name, it.version)))
        .map(|it| format!("{}: needs Rust {}, and {promised} is promised", it.path, need(it)))
        .collect()
}

fn check_single_version_of_crate(name: &str, whole: &str) -> Vec<String> {
    let all = parse_cargo_tree(whole).into_iter().filter(|package| package.name == name);
    let by_version: BTreeMap<_, _> = all.map(|found| (found.version, found.path)).collect();
    if by_version.len() == 1 {
        return Vec::new();
    }
    let ways = by_version.iter().map(|(version, path)| format!("\n  {version}: {path}"));
    vec![format!(
        "{name}: {} versions in the workspace, one is wanted{}",
        by_version.len(),
        ways.collect::<String>()
    )]
}

/// A package in a line of `cargo tree`.
struct TreePackage<'a> {
    name: &'a str,
    version: &'a str,
    /// The path from the root of the tree to this package: `a → b → c`.
    path: String,
}

/// Parses the output of `cargo tree --prefix depth`. A line looks like `2serde v1.0.0 (*)`.
fn parse_cargo_tree(tree: &str) -> Vec<TreePackage<'_>> {
    let mut path: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for line in tree.lines() {
        let after_depth = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let (depth, mut words) = (&line[..line.len() - after_depth.len()], after_depth.split(' '));
        let (Ok(depth), Some(name)) = (depth.parse(), words.next()) else {
            continue;
        };
        path.truncate(depth);
        path.push(name);
        let version = words.next().unwrap_or_default();
        found.push(TreePackage { name, version, path: path.join(" → ") });
    }
    found
}

fn needs_dependency_tree(row: &LayerRule, members: &[WorkspaceMember]) -> bool {
    !row.never.is_empty() && members.iter().any(|member| member.name == row.member)
}

fn parse_members(metadata: &Value) -> Vec<WorkspaceMember> {
    let text = |value: &Value, or: &str| value.as_str().unwrap_or(or).to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    list(&metadata["packages"])
        .iter()
        .map(|package| WorkspaceMember {
            name: text(&package["name"], ""),
            uses: list(&package["dependencies"])
                .iter()
                .map(|used| (text(&used["name"], ""), text(&used["kind"], "normal")))
                .collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ROWS: &[LayerRule] = &[
        LayerRule { member: "low", may_use: &[], never: &["tokio"], features: "" },
        LayerRule { member: "high", may_use: &["low"], never: &[], features: "" },
    ];
    const CLEAN: &str = "0low v0.1.0 (/x)\n1serde v1.0.0\n";
    const WHOLE: &str = "0low v0.1.0\n1agent-client-protocol-schema v1.15.1\n\n\
                         0high v0.1.0\n1agent-client-protocol-schema v1.15.1 (*)\n";

    fn member(name: &str, uses: &[(&str, &str)]) -> WorkspaceMember {
        let owned = |(name, kind): &(&str, &str)| ((*name).to_owned(), (*kind).to_owned());
        WorkspaceMember { name: name.to_owned(), uses: uses.iter().map(owned).collect() }
    }

    fn good() -> Vec<WorkspaceMember> {
        vec![
            member("low", &[("serde", "normal"), ("low", "dev")]),
            member("high", &[("low", "normal"), ("low", "dev")]),
        ]
    }

    #[track_caller]
    fn check(members: &[WorkspaceMember], closure: &str, whole: &str, expected: &[&str]) {
        let closures = BTreeMap::from([("low", closure.to_owned())]);
        assert_eq!(find_violations(ROWS, members, &closures, whole), expected);
    }

    #[test]
    fn the_graph_has_a_line_with_the_dependencies_of_each_member() {
        assert_eq!(format_member_graph(ROWS, &good()), "low\nhigh → low\n");
    }

    #[test]
    fn a_workspace_that_keeps_the_layers_passes() {
        check(&good(), CLEAN, WHOLE, &[]);
    }

    #[test]
    fn a_forbidden_dependency_is_found_whatever_its_kind() {
        for kind in ["normal", "build", "dev"] {
            let against = format!("low → high ({kind} dependency): it may use []");
            let members = [member("low", &[("high", kind)]), member("high", &[])];
            check(&members, CLEAN, WHOLE, &[&against]);
        }
    }

    #[test]
    fn the_real_table_forbids_types_to_use_tools() {
        let mut members: Vec<_> = TABLE.iter().map(|row| member(row.member, &[])).collect();
        let types = members.iter_mut().find(|it| it.name == "acp-types").unwrap();
        types.uses.push(("acp-tools".to_owned(), "normal".to_owned()));
        let found = find_violations(TABLE, &members, &BTreeMap::new(), WHOLE);
        let against = "acp-types → acp-tools (normal dependency): it may use [\"callboard-text\"]";
        assert_eq!(found, [against]);
    }

    #[test]
    fn a_forbidden_crate_deep_in_a_closure_is_found_once_with_its_path() {
        let tree = "0low v0.1.0 (/x)\n1a v1.0.0\n2b v1.0.0\n1c v1.0.0\n2tokio v1.54.1\n\
                    2tokio-util v0.7.0\n3tokio v1.54.1 (*)\n";
        check(&good(), tree, WHOLE, &["low → c → tokio: never tokio"]);
    }

    #[test]
    fn the_crates_of_a_tree_are_counted_once() {
        let tree = "0low v0.1.0 (/x)\n1a v1.0.0\n2b v1.0.0\n1b v1.0.0 (*)\n1b v2.0.0\n";
        let bound = |crates| CrateCountLimit { member: "low", features: "v2", crates };
        let line = "low with v2: 4 crates, at most 4".to_owned();
        assert_eq!(check_crate_count(&bound(4), tree), (line, None));
        assert!(check_crate_count(&bound(3), tree).1.is_some());
    }

    #[test]
    fn a_dependency_that_needs_a_newer_rust_is_found_with_its_path() {
        let metadata = json!({"packages": [
            {"name": "low", "version": "0.1.0", "rust_version": "1.88"},
            {"name": "a", "version": "1.0.0", "rust_version": "1.88.0"},
            {"name": "b", "version": "1.0.0", "rust_version": "1.90"},
            {"name": "c", "version": "1.0.0", "rust_version": "1.9"},
            {"name": "d", "version": "1.0.0", "rust_version": null},
        ]});
        let tree = "0low v0.1.0 (/x)\n1a v1.0.0\n2b v1.0.0\n1b v1.0.0 (*)\n1c v1.0.0\n1d v1.0.0\n";
        let found = dependencies_with_newer_msrv(tree, &rust_versions(&metadata));
        assert_eq!(found, ["low → a → b: needs Rust 1.90, and 1.88 is promised"]);
    }

    #[test]
    fn table_and_workspace_name_the_same_members() {
        let members = [member("low", &[]), member("new", &[])];
        let expected =
            ["new: no row in the table; add one", "high: a row without a member; remove it"];
        check(&members, CLEAN, WHOLE, &expected);
    }

    #[test]
    fn two_versions_of_the_wire_types_or_none_are_found() {
        let none = "agent-client-protocol-schema: 0 versions in the workspace, one is wanted";
        check(&good(), CLEAN, "0low v0.1.0\n", &[none]);
        let two = "agent-client-protocol-schema: 2 versions in the workspace, one is wanted\
                   \n  v1.14.0: high → sdk → agent-client-protocol-schema\
                   \n  v1.15.1: low → agent-client-protocol-schema";
        let whole = "0low v0.1.0\n1agent-client-protocol-schema v1.15.1\n0high v0.1.0\n\
                     1sdk v5.0.0\n2agent-client-protocol-schema v1.14.0\n";
        check(&good(), CLEAN, whole, &[two]);
    }

    #[test]
    fn edges_are_read_from_metadata() {
        let metadata = json!({"packages": [{"name": "high", "dependencies": [
            {"name": "low", "kind": null}, {"name": "tempfile", "kind": "dev"},
        ]}]});
        let read = parse_members(&metadata);
        assert_eq!(read[0].name, "high");
        assert_eq!(read[0].uses, member("", &[("low", "normal"), ("tempfile", "dev")]).uses);
    }
}
