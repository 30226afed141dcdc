//! `tidy`: checks the rules of this repository that neither the compiler nor a linter checks.
//!
//! Every rule is a function of the path and the text of one file. Only [`check_repository_files`]
//! lists and reads files. In the source code of the rules, each forbidden word is written in two
//! halves, so that the code obeys the rules.

mod links;
mod manifest;
mod prose;
mod rust;
mod text;

use std::fmt::{self, Display};
use std::fs;

use crate::process::{TaskError, TaskResult, capture_stdout};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// A violation of a rule, with advice how to fix it.
struct Violation {
    path: String,
    /// Number of the line, counted from 1.
    line: usize,
    what: String,
    level: ViolationLevel,
}

/// Whether a violation makes the step fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ViolationLevel {
    Error,
    Warning,
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.level {
            ViolationLevel::Error => "",
            ViolationLevel::Warning => "warning: ",
        };
        write!(f, "{}:{}: {weight}{}", self.path, self.line, self.what)
    }
}

/// A file, as it is passed to the rules.
struct CheckedFile<'a> {
    path: &'a str,
    text: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> CheckedFile<'a> {
    fn new(path: &'a str, text: &'a str) -> Self {
        let mut lines: Vec<_> = text.split('\n').collect();
        if lines.last() == Some(&"") {
            lines.pop();
        }
        Self { path, text, lines }
    }

    /// Creates an error for a line. `index` is the index of the line in `lines`, counted from 0.
    fn error_at(&self, index: usize, what: impl Into<String>) -> Violation {
        self.violation_at(index, what, ViolationLevel::Error)
    }

    fn violation_at(
        &self,
        index: usize,
        what: impl Into<String>,
        weight: ViolationLevel,
    ) -> Violation {
        Violation { path: self.path.to_owned(), line: index + 1, what: what.into(), level: weight }
    }
}

/// A rule: a function that returns all its violations in a file.
type TidyRule = fn(&CheckedFile<'_>) -> Vec<Violation>;

/// Checks every file that git tracks, and every new file that git does not ignore.
pub(crate) fn check_repository_files(
    workspace: &Workspace,
    ui: &mut Ui<'_>,
    _: &[String],
) -> TaskResult {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = capture_stdout(git.current_dir(&workspace.root))?;
    // git still lists a file that has been deleted but not removed from the index. Such a file
    // cannot be checked.
    let is_file = |path: &&str| workspace.root.join(path).is_file();
    let paths: Vec<&str> = listed.split_terminator('\0').filter(is_file).collect();
    let mut found = check_required_documents(&paths);
    let mut documents = Vec::new();
    for path in &paths {
        let bytes = fs::read(workspace.root.join(path))
            .map_err(|error| TaskError::Failed(format!("{path}: {error}")))?;
        if let Ok(text) = String::from_utf8(bytes) {
            found.extend(check_file(path, &text));
            if path.ends_with(".md") {
                documents.push((*path, text));
            }
        }
    }
    found.extend(links::check_links_and_summary(&documents, &paths));
    if let Some(page) = crate::limits::page_path_if_outdated(&workspace.root)? {
        found.push(
            CheckedFile::new(page, "").error_at(0, "is out of date; run `cargo xtask limits`"),
        );
    }
    let stale = crate::accept::find_stale_patches(&workspace.root);
    found.extend(stale.iter().map(|(path, what)| CheckedFile::new(path, "").error_at(0, what)));
    for violation in &found {
        ui.print_line_to_stdout(violation);
    }
    match found.iter().filter(|violation| violation.level == ViolationLevel::Error).count() {
        0 => Ok(()),
        count => Err(TaskError::Failed(format!("{count} violations"))),
    }
}

/// Checks that every required document exists.
fn check_required_documents(paths: &[&str]) -> Vec<Violation> {
    let members = paths.iter().filter_map(|path| path.strip_suffix("Cargo.toml"));
    let readmes = members.map(|folder| format!("{folder}README.md"));
    let root = ["ARCHITECTURE.md", "CHANGELOG.md", "README.md"].map(str::to_owned);
    let missing = root.into_iter().chain(readmes.filter(|path| path != "README.md"));
    missing
        .filter(|path| !paths.contains(&path.as_str()))
        .map(|path| CheckedFile::new(&path, "").error_at(0, "is missing; write it"))
        .collect()
}

/// The folder with web pages of other authors, and with snapshots of these pages.
const PAGES: &str = "crates/tools/tests/pages/";

/// Checks one file with all rules for its type.
fn check_file(path: &str, text: &str) -> Vec<Violation> {
    if path.starts_with(PAGES) && (path.ends_with(".html") || path.ends_with(".snap")) {
        return Vec::new();
    }
    let file = CheckedFile::new(path, text);
    let special: &[&[TidyRule]] = match path {
        path if path.ends_with(".rs") => &[rust::RULES, prose::COMMENT_RULES],
        path if path.ends_with(".md") => &[prose::MARKDOWN_RULES],
        path if path.ends_with("/Cargo.toml") => &[manifest::RULES],
        _ => &[],
    };
    let rules = text::RULES.iter().chain(special.iter().copied().flatten());
    rules.flat_map(|rule| rule(&file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks one file. Compares the line numbers and the beginnings of the messages with the
    /// expected ones.
    #[track_caller]
    pub(super) fn check(path: &str, text: &str, expected: &[(usize, &str)]) {
        let found = check_file(path, text);
        let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{path}: {shown:#?}");
        for (violation, (line, what)) in found.iter().zip(expected) {
            let right = violation.line == *line && violation.what.starts_with(what);
            assert!(right, "{path}: line {line}, `{what}` in {shown:#?}");
        }
    }

    #[test]
    fn a_violation_is_shown_as_path_line_and_what_to_do() {
        let found = check_file("src/a.rs", "fn a() {}\n");
        assert!(found[0].to_string().starts_with("src/a.rs:1: no `//!`"), "{}", found[0]);
    }

    #[test]
    fn pages_of_others_are_not_checked() {
        check("crates/tools/tests/pages/a.html", "no end", &[]);
        check("crates/tools/tests/pages/README.md", "no end", &[(1, "end the file")]);
        check("a.html", "no end", &[(1, "end the file")]);
    }

    #[test]
    fn each_member_and_the_root_have_their_documents() {
        let missing: Vec<_> = check_required_documents(&[
            "Cargo.toml",
            "README.md",
            "ARCHITECTURE.md",
            "crates/a/Cargo.toml",
        ])
        .into_iter()
        .map(|violation| violation.path)
        .collect();
        assert_eq!(missing, ["CHANGELOG.md", "crates/a/README.md"]);
    }

    #[test]
    fn untidy_files_of_a_repository_are_found_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let git = |args: &[&str]| {
            let mut git = std::process::Command::new("git");
            capture_stdout(git.args(args).current_dir(root)).unwrap();
        };
        git(&["init", "--quiet"]);
        for name in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
            fs::write(root.join(name), "# A\n").unwrap();
        }
        fs::write(root.join(".gitignore"), "ignored.rs\n").unwrap();
        fs::write(root.join("ignored.rs"), "fn a() {}\n").unwrap();
        fs::write(root.join("binary.rs"), [0xff, 0xfe]).unwrap();
        let workspace = Workspace {
            root: root.to_owned(),
            target: root.join("target"),
            metadata: serde_json::Value::Null,
        };
        let mut out = Vec::new();
        check_repository_files(&workspace, &mut Ui::new(&mut out), &[]).unwrap();
        assert!(out.is_empty());

        fs::write(root.join("new.rs"), "fn a() {}\n").unwrap();
        let stop = check_repository_files(&workspace, &mut Ui::new(&mut out), &[]).unwrap_err();
        assert_eq!(stop.message(), Some("1 violations"));
        assert!(String::from_utf8(out).unwrap().starts_with("new.rs:1: "));
    }
}
