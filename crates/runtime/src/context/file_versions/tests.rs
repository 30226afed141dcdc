//! Tests that check which changes of files are reported to the model.

use std::time::Duration;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

fn project(names: &[&str]) -> (TempDir, Workspace, FileVersions) {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
    let mut stamps = FileVersions::default();
    for name in names {
        fs::write(folder.path().join(name), "before").unwrap();
        stamps.record_current_version(&workspace, &folder.path().join(name), 1);
    }
    (folder, workspace, stamps)
}

fn set_time(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn changed_and_deleted_files_are_reported_once() {
    let (folder, workspace, mut stamps) = project(&["a", "b", "c"]);
    assert_eq!(stamps.take_changes_report(&workspace), None);
    fs::write(folder.path().join("a"), "after, and longer").unwrap();
    fs::remove_file(folder.path().join("b")).unwrap();
    let news = stamps.take_changes_report(&workspace).unwrap();
    let (changed, gone) = news.split_once("\nThese files, which").unwrap();
    assert!(changed.contains("changed by the user") && changed.ends_with(":\n- a"), "{news}");
    assert!(gone.ends_with("are gone:\n- b"), "{news}");
    assert_eq!(stamps.take_changes_report(&workspace), None);
    // A file that is read again is tracked again.
    stamps.record_current_version(&workspace, &folder.path().join("a"), 1);
    assert_eq!(stamps.take_changes_report(&workspace), None);
    fs::write(folder.path().join("a"), "again").unwrap();
    assert!(stamps.take_changes_report(&workspace).is_some());
}

#[test]
fn a_later_process_reports_files_that_changed_in_the_meantime() {
    let (folder, workspace, stamps) = project(&["a", "b\n"]);
    let json = serde_json::to_string(&stamps.to_known_files()).unwrap();
    fs::write(folder.path().join("b\n"), "after, and longer").unwrap();
    let mut restored = FileVersions::from_known_files(serde_json::from_str(&json).unwrap());
    let news = restored.take_changes_report(&workspace).unwrap();
    assert!(news.ends_with(":\n- $'b\\n'"), "{news}");
}

#[test]
fn files_of_removed_prompts_are_reported_once_although_they_did_not_change() {
    let (folder, workspace, mut versions) = project(&["a", "b", "c"]);
    for name in ["b", "c"] {
        versions.record_current_version(&workspace, &folder.path().join(name), 2);
    }
    fs::remove_file(folder.path().join("c")).unwrap();
    versions.forget_versions_after_prompt(1);
    let json = serde_json::to_string(&versions.to_known_files()).unwrap();
    let mut versions = FileVersions::from_known_files(serde_json::from_str(&json).unwrap());
    let news = versions.take_changes_report(&workspace).unwrap();
    let (gone, forgotten) = news.split_once("\nYou read or wrote").unwrap();
    assert!(gone.ends_with("are gone:\n- c") && forgotten.ends_with(":\n- b"), "{news}");
    assert_eq!(versions.take_changes_report(&workspace), None);
}

#[test]
fn only_a_new_content_counts_as_a_change() {
    let (folder, workspace, mut stamps) = project(&["a", "b"]);
    set_time(&folder.path().join("a"), 1);
    assert_eq!(stamps.take_changes_report(&workspace), None);
    fs::write(folder.path().join("b"), "behind").unwrap();
    set_time(&folder.path().join("b"), 1);
    assert!(stamps.take_changes_report(&workspace).unwrap().ends_with("- b"));
}

#[test]
fn a_large_file_is_compared_by_size_and_time() {
    let (folder, workspace, mut stamps) = project(&[]);
    let path = folder.path().join("large");
    let file = File::create(&path).unwrap();
    file.set_len(MAX_HASHED_FILE_BYTES + 1).unwrap();
    drop(file);
    set_time(&path, 1);
    stamps.record_current_version(&workspace, &path, 1);
    assert_eq!(stamps.take_changes_report(&workspace), None);
    set_time(&path, 2);
    assert!(stamps.take_changes_report(&workspace).is_some());
}

#[test]
fn files_outside_of_the_workspace_are_not_tracked() {
    let (folder, workspace, mut stamps) = project(&["a"]);
    for path in [folder.path(), Path::new("/etc/passwd"), &folder.path().join("missing")] {
        stamps.record_current_version(&workspace, path, 1);
    }
    assert_eq!(stamps.0.len(), 1);
}

#[test]
fn the_numbers_of_tracked_and_listed_files_are_limited() {
    let (folder, workspace, mut stamps) = project(&[]);
    let files = MAX_TRACKED_FILES + 1;
    for n in 0..files {
        let path = folder.path().join(format!("{n:03}"));
        fs::write(&path, "").unwrap();
        stamps.record_current_version(&workspace, &path, 1);
        fs::write(&path, "changed").unwrap();
    }
    let news = stamps.take_changes_report(&workspace).unwrap();
    assert!(!news.contains("- 000"), "the oldest is forgotten: {news}");
    let more = MAX_TRACKED_FILES - MAX_LISTED_FILE_CHANGES;
    assert!(news.ends_with(&format!("- and {more} more")), "{news}");
    assert_eq!(news.matches("\n- ").count(), MAX_LISTED_FILE_CHANGES + 1);
}
