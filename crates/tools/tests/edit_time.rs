//! Measures how long it takes to change one line in a file of 100,000 lines. The time is compared
//! with that of a simple program. This program reads the file, finds the place, writes another file
//! and renames it.
//!
//! `cargo xtask accept edit-engine` runs this test. `EDIT_ROUNDS` sets the number of measurements
//! of each program.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use acp_tools::Workspace;
use acp_tools::edit::{Edit, apply};
use acp_tools::files::Durability;
use acp_tools::files::content_hash::ContentHash;
use acp_tools::files::encoding::DecodedText;
use acp_tools::files::write::{FileWrite, PreImage, read_whole, write_all_or_none};
use acp_types::diff::change_from_edits;
use serde_json::json;

const LINES: usize = 100_000;
const CAP: u64 = 64 * 1024 * 1024;

/// Performs all steps of `edit_file` except the permission request: the preview with its diff and
/// hash, and the write with a backup of the old file.
fn edit_with_engine(workspace: &Workspace, old: &str, new: &str) {
    let at = workspace.resolve_and_follow_links("file").unwrap();
    let PreImage::Bytes(bytes) = read_whole(workspace, &at, CAP).unwrap() else { return };
    let stamp = ContentHash::of_bytes(&bytes);
    let text = DecodedText::decode("file", bytes).unwrap();
    let edit = Edit::new(old, new);
    let edited = apply(text.as_str(), &[edit]).unwrap();
    let change = change_from_edits(at.path(), text.as_str(), &edited.text, &edited.splices);
    let bytes = edited.into_bytes(&text).unwrap();
    write_all_or_none(workspace, &[FileWrite::new(&at, Some(text.original_bytes()), &bytes)])
        .unwrap();
    assert_eq!((change.line_counts(), stamp.as_bytes().len()), ((1, 1), 32));
}

fn edit_without_engine(folder: &Path, old: &str, new: &str) {
    let (path, beside) = (folder.join("file"), folder.join("beside"));
    let bytes = fs::read(&path).unwrap();
    let start = memchr::memmem::find(&bytes, old.as_bytes()).unwrap();
    let mut changed = Vec::with_capacity(bytes.len() + new.len());
    changed.extend_from_slice(&bytes[..start]);
    changed.extend_from_slice(new.as_bytes());
    changed.extend_from_slice(&bytes[start + old.len()..]);
    fs::write(&beside, changed).unwrap();
    fs::rename(&beside, &path).unwrap();
}

fn line(number: usize, round: usize) -> String {
    format!(
        "    let value_{number:06} = compute(argument_{round:04}, {number:06}) + other_term;  //\n"
    )
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1_000.0
}

#[test]
#[ignore = "it measures; cargo xtask accept edit-engine runs it"]
fn one_line_of_many_changes_in_little_more_than_a_plain_rewrite_takes() {
    let rounds = std::env::var("EDIT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds: usize = rounds.unwrap_or(30);
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    let text: String = (0..LINES).map(|number| line(number, 0)).collect();
    fs::write(root.join("file"), text).unwrap();
    let workspace = Workspace::new(root.clone(), Vec::new()).unwrap();
    let workspace = workspace.with_durability(Durability::System);
    let workspace = workspace.with_state_folder(&outer.path().join("state"));
    let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let [before, between, after] = [2 * round, 2 * round + 1, 2 * round + 2];
        let at = LINES / 2;
        let start = Instant::now();
        edit_with_engine(&workspace, &line(at, before), &line(at, between));
        ours.push(start.elapsed());
        let start = Instant::now();
        edit_without_engine(&root, &line(at, between), &line(at, after));
        theirs.push(start.elapsed());
    }
    let expected = line(LINES / 2, 2 * rounds);
    assert!(fs::read_to_string(root.join("file")).unwrap().contains(&expected));
    let (ours, theirs) = (median(ours), median(theirs));
    let figures = json!({ "value": ours / theirs, "edit_ms": ours, "plain_ms": theirs });
    println!("figures {figures}");
}
