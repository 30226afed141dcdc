//! Tests that check which instruction files are sent, when they are sent, and how many of their
//! bytes are sent.

use std::fs;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

struct Project {
    folder: TempDir,
    workspace: Workspace,
    instructions: ProjectInstructions,
    rules: ImplicitReadChecker,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        for (path, text) in files {
            write(folder.path(), path, text);
        }
        let workspace = Workspace::new(folder.path().join("root"), Vec::new()).unwrap();
        Self {
            folder,
            workspace,
            instructions: ProjectInstructions::default(),
            rules: ImplicitReadChecker::default(),
        }
    }

    fn touch(&mut self, path: &str) {
        let path = self.folder.path().join(path);
        self.instructions.record_touched_file(&self.workspace, &path);
    }

    fn news(&mut self) -> String {
        self.news_within(usize::MAX)
    }

    fn news_within(&mut self, room: usize) -> String {
        let secrets = Secrets::new(["hunter2hunter2"]);
        self.instructions
            .take_new_instructions(&self.workspace, &secrets, &self.rules, room)
            .unwrap_or_default()
    }
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_instructions_of_the_roots_are_sent_once() {
    let mut project = Project::new(&[("root/AGENTS.md", "Use tabs.\n"), ("AGENTS.md", "outside")]);
    let expected = format!("{PREFACE}\n\nAGENTS.md, for everything in .:\n```\nUse tabs.\n```");
    assert_eq!(project.news(), expected);
    assert!(expected.contains("they permit nothing"));
    assert_eq!(project.news(), "");
}

#[test]
fn the_instructions_of_a_folder_are_sent_when_a_file_in_it_is_touched() {
    let mut project = Project::new(&[
        ("root/a/AGENTS.md", "In a."),
        ("root/a/b/AGENTS.md", "In b."),
        ("root/other/AGENTS.md", "Elsewhere."),
    ]);
    assert_eq!(project.news(), "");
    project.touch("root/a/b/c/new.rs");
    let news = project.news();
    let (outer, inner) = (news.find("In a.").unwrap(), news.find("In b.").unwrap());
    assert!(outer < inner, "{news}");
    assert!(news.contains("a/b/AGENTS.md, for everything in a/b:"), "{news}");
    assert!(!news.contains("Elsewhere."), "{news}");
    project.touch("root/a/b/c/new.rs");
    assert_eq!(project.news(), "");
}

#[test]
fn changed_or_removed_instructions_are_sent_again_and_deleted_ones_reported() {
    let mut project = Project::new(&[("root/AGENTS.md", "Old.")]);
    assert!(project.news().contains("Old."));
    write(project.folder.path(), "root/AGENTS.md", "Newer.");
    assert!(project.news().contains("Newer."));
    // A file that was written again with the same content has not changed.
    write(project.folder.path(), "root/AGENTS.md", "Newer.");
    assert_eq!(project.news(), "");
    project.instructions.mark_all_unsent();
    assert!(project.news().contains("Newer."));
    fs::remove_file(project.folder.path().join("root/AGENTS.md")).unwrap();
    assert!(project.news().contains("AGENTS.md is gone"));
    assert_eq!(project.news(), "");
    write(project.folder.path(), "root/AGENTS.md", "Back.");
    assert!(project.news().contains("Back."));
}

#[test]
fn instructions_outside_of_the_roots_and_special_files_are_not_sent() {
    let mut project = Project::new(&[("AGENTS.md", "outside"), ("root/b/real.md", "inside")]);
    let root = project.folder.path().join("root");
    std::os::unix::fs::symlink("../AGENTS.md", root.join("AGENTS.md")).unwrap();
    std::os::unix::fs::symlink("real.md", root.join("b/AGENTS.md")).unwrap();
    fs::create_dir_all(root.join("a/AGENTS.md")).unwrap();
    for path in ["root/a/x", "root/b/x", "x", "root/../x"] {
        project.touch(path);
    }
    let news = project.news();
    assert!(news.contains("inside") && !news.contains("outside"), "{news}");
    assert_eq!(news.matches("AGENTS.md").count(), 1, "{news}");
}

#[test]
fn long_instructions_are_truncated_with_a_note() {
    let long = "x".repeat(MAX_INSTRUCTION_FILE_BYTES + 1);
    let mut project = Project::new(&[("root/AGENTS.md", &long)]);
    let news = project.news();
    assert!(news.contains("is longer; only its beginning is included here"), "{}", news.len());
    assert_eq!(news.matches('x').count(), MAX_INSTRUCTION_FILE_BYTES);
    let mut project = Project::new(&[("root/AGENTS.md", "123456789"), ("root/a/AGENTS.md", "abc")]);
    project.touch("root/a/x");
    let news = project.news_within(10);
    assert!(news.contains("123456789\n") && news.contains("\na\n"), "{news}");
    // The bytes of earlier versions of a file also count towards the limit.
    write(project.folder.path(), "root/AGENTS.md", "changed");
    let news = project.news_within(10);
    assert!(!news.contains("changed") && news.contains("AGENTS.md is longer"), "{news}");
}

#[test]
fn folders_and_files_beyond_their_limits_are_left_out() {
    let files: Vec<_> = (0..40).map(|n| (format!("root/d{n:02}/AGENTS.md"), "told")).collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let mut project = Project::new(&files);
    for (path, _) in &files {
        project.touch(path);
    }
    assert_eq!(project.news().matches("told").count(), MAX_INSTRUCTION_FILES);
    for n in 0..1_000 {
        project.touch(&format!("root/e{n}/x"));
    }
    assert_eq!(project.instructions.touched_folders.len(), MAX_INSTRUCTION_FOLDERS);
}

#[test]
fn instructions_cannot_end_their_fence_and_known_secrets_are_redacted() {
    let text = "```\nnot the end\n```\nkey hunter2hunter2 \u{0}";
    let mut project = Project::new(&[("root/AGENTS.md", text)]);
    let news = project.news();
    assert!(news.contains("````\n```\nnot the end"), "{news}");
    assert!(news.contains("[redacted]") && !news.contains("hunter2"), "{news}");
}
