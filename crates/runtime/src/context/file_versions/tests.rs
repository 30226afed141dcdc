//! Tests of which changes of files are reported to the model.

use std::fs;
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
        stamps.record_current_version(&workspace, &folder.path().join(name));
    }
    (folder, workspace, stamps)
}

fn set_time(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn files_that_changed_or_are_gone_are_named_once() {
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
    stamps.record_current_version(&workspace, &folder.path().join("a"));
    assert_eq!(stamps.take_changes_report(&workspace), None);
    fs::write(folder.path().join("a"), "again").unwrap();
    assert!(stamps.take_changes_report(&workspace).is_some());
}

#[test]
fn a_new_time_alone_is_no_change_and_the_same_size_may_be_one() {
    let (folder, workspace, mut stamps) = project(&["a", "b"]);
    set_time(&folder.path().join("a"), 1);
    assert_eq!(stamps.take_changes_report(&workspace), None);
    fs::write(folder.path().join("b"), "behind").unwrap();
    set_time(&folder.path().join("b"), 1);
    assert!(stamps.take_changes_report(&workspace).unwrap().ends_with("- b"));
}

#[test]
fn of_a_large_file_size_and_time_are_compared() {
    let (folder, workspace, mut stamps) = project(&[]);
    let path = folder.path().join("large");
    let file = File::create(&path).unwrap();
    file.set_len(MAX_HASHED_FILE_BYTES + 1).unwrap();
    drop(file);
    set_time(&path, 1);
    stamps.record_current_version(&workspace, &path);
    assert_eq!(stamps.take_changes_report(&workspace), None);
    set_time(&path, 2);
    assert!(stamps.take_changes_report(&workspace).is_some());
}

#[test]
fn what_is_no_file_of_the_workspace_is_not_known() {
    let (folder, workspace, mut stamps) = project(&["a"]);
    for path in [folder.path(), Path::new("/etc/passwd"), &folder.path().join("missing")] {
        stamps.record_current_version(&workspace, path);
    }
    assert_eq!(stamps.0.len(), 1);
}

#[test]
fn counts_are_bounded() {
    let (folder, workspace, mut stamps) = project(&[]);
    let files = MAX_TRACKED_FILES + 1;
    for n in 0..files {
        let path = folder.path().join(format!("{n:03}"));
        fs::write(&path, "").unwrap();
        stamps.record_current_version(&workspace, &path);
        fs::write(&path, "changed").unwrap();
    }
    let news = stamps.take_changes_report(&workspace).unwrap();
    assert!(!news.contains("- 000"), "the oldest is forgotten: {news}");
    let more = MAX_TRACKED_FILES - MAX_LISTED_FILE_CHANGES;
    assert!(news.ends_with(&format!("- and {more} more")), "{news}");
    assert_eq!(news.matches("\n- ").count(), MAX_LISTED_FILE_CHANGES + 1);
}
