//! Rules for the manifests of workspace members. A manifest must inherit some settings from the
//! root manifest.
//!
//! The rules check single lines without parsing TOML, because each dependency in these manifests is
//! on one line.

use super::{CheckedFile, TidyRule, Violation};

pub(super) const RULES: &[TidyRule] = &[inherits_lints, names_its_license, inherits_dependencies];

fn inherits_lints(file: &CheckedFile<'_>) -> Vec<Violation> {
    let wanted = [("", "lints.workspace = true"), ("lints", "workspace = true")];
    require_line(file, "inherit the lints: [lints] workspace = true", |section, line| {
        wanted.contains(&(section, line))
    })
}

fn names_its_license(file: &CheckedFile<'_>) -> Vec<Violation> {
    require_line(file, "name the license: license.workspace = true", |section, line| {
        section == "package" && line.starts_with("license")
    })
}

fn inherits_dependencies(file: &CheckedFile<'_>) -> Vec<Violation> {
    let what = "take the version from the root: NAME.workspace = true";
    let breaks = |section: &str, line: &str| {
        let names = line.split_once('=').filter(|_| !line.starts_with(['#', '"', '[']));
        let inherits = |(name, value): (&str, &str)| {
            name.trim().ends_with(".workspace") || value.contains("workspace = true")
        };
        let in_list = section.ends_with("dependencies");
        in_list && names.is_some_and(|pair| !inherits(pair))
            || section.contains("dependencies.") && line.starts_with('[')
    };
    lines_with_section(file)
        .filter(|(_, section, line)| breaks(section, line))
        .map(|(index, _, _)| file.error_at(index, what))
        .collect()
}

/// If no line of the manifest matches, reports an error at the first line.
fn require_line(
    file: &CheckedFile<'_>,
    what: &str,
    says: impl Fn(&str, &str) -> bool,
) -> Vec<Violation> {
    let is_said = lines_with_section(file).any(|(_, section, line)| says(section, line));
    if is_said { Vec::new() } else { vec![file.error_at(0, what)] }
}

/// Returns the lines of a member's manifest, each with its index and section. For the root
/// manifest, returns an empty list.
fn lines_with_section<'a>(
    file: &'a CheckedFile<'_>,
) -> impl Iterator<Item = (usize, &'a str, &'a str)> {
    let mut section = "";
    file.lines.iter().enumerate().map(move |(index, line)| {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end().trim_matches(['[', ']']);
        }
        (index, section, line.trim())
    })
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::check;

    const GOOD: &str = "[package]\nlicense.workspace = true\n\n[lints]\nworkspace = true\n\n\
                        [dependencies]\nserde.workspace = true\n";

    #[test]
    fn a_manifest_that_inherits_passes() {
        check("crates/a/Cargo.toml", GOOD, &[]);
        let more = "# a = 1\ntokio = { workspace = true, features = [\n  \"rt\",\n] }\n";
        check("crates/a/Cargo.toml", &format!("{GOOD}{more}"), &[]);
    }

    #[test]
    fn the_root_manifest_may_contain_versions() {
        check("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\n", &[]);
    }

    #[test]
    fn a_manifest_without_lints_and_license_is_found() {
        check("a/Cargo.toml", "[package]\n", &[(1, "inherit the lints"), (1, "name the license")]);
    }

    #[test]
    fn versions_in_a_member_are_found_in_every_dependency_table() {
        for (added, line) in [
            ("rand = \"0.9\"\n", 9),
            ("rand = { version = \"0.9\" }\n", 9),
            ("[dev-dependencies]\nrand = { path = \"../rand\" }\n", 10),
            ("[target.'cfg(os = \"x\")'.dependencies]\nrand = \"0.9\"\n", 10),
            ("[dependencies.rand]\nversion = \"0.9\"\n", 9),
        ] {
            check("a/Cargo.toml", &format!("{GOOD}{added}"), &[(line, "take the version")]);
        }
    }
}
