//! Tests for the recovery after a process was killed.

use crate::files::Durability;
use crate::files::content_hash::ContentHash;
use crate::files::state::journal::{
    JournalWriteKind, JournaledFile, PlannedWrite, RollbackJournal, in_place_new_content_name,
    recover_unlocked_journals, temporary_name,
};
use crate::files::system::{boot_id, simulated_file_system};
use crate::files::workspace::testing::{TestWorkspace, test_workspace};
use pretty_assertions::assert_eq;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Writes three files, and stops after `steps` steps. Returns the folder that contains the journal.
fn interrupt_after(tree: &TestWorkspace, steps: usize) -> PathBuf {
    let folder = tree.outer_folder().join("journal");
    let temporaries = [0, 1, 2].map(|number| temporary_name(7, number));
    let names = ["replaced", "added", "linked"].iter().zip(&temporaries);
    let names = names.map(|(name, temporary)| JournaledFile {
        dir: tree.workspace.cwd().into(),
        name: name.into(),
        temporary: temporary.clone(),
        made: Vec::new(),
        copies: None,
    });
    let [new, add, old] = [0, 1, 2].map(|at: usize| tree.workspace.cwd().join(&temporaries[at]));
    let mut journal = RollbackJournal::begin(&folder, names.collect()).unwrap();
    let identity = |path: &PathBuf| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.dev(), metadata.ino())
    };
    let mut ours = Vec::new();
    for step in 0..steps {
        match step {
            0 => fs::write(&new, "new").unwrap(),
            1 => fs::write(&add, "new").unwrap(),
            2 => {
                fs::write(&old, "old linked").unwrap();
                fs::write(
                    tree.path(in_place_new_content_name(&temporaries[2]).to_str().unwrap()),
                    "new li",
                )
                .unwrap();
            }
            3 => {
                ours = [&new, &add, &old].map(identity).to_vec();
                let ways =
                    [JournalWriteKind::Replace, JournalWriteKind::Add, JournalWriteKind::InPlace];
                let after = ["new", "new", "new li"]
                    .map(|it| *ContentHash::of_bytes(it.as_bytes()).as_bytes());
                let prepared = ours.iter().zip(ways).zip(after);
                let prepared = prepared.map(|((ours, way), after)| {
                    let old = (way == JournalWriteKind::Replace)
                        .then(|| identity(&tree.path("replaced")));
                    PlannedWrite::new(way, *ours, old, after)
                });
                journal.write_ready(prepared.collect()).unwrap();
            }
            4 => {
                let (other, name) = (tree.path("beside"), tree.path("replaced"));
                fs::rename(&name, &other).unwrap();
                fs::rename(&new, &name).unwrap();
                fs::rename(&other, &new).unwrap();
            }
            5 => fs::rename(&add, tree.path("added")).unwrap(),
            6 => fs::write(tree.path("linked"), "new li").unwrap(),
            _ => journal.write_done(Durability::System).unwrap(),
        }
    }
    drop(ours);
    let path = journal.path.clone();
    // The process and its lock are gone, but the journal still exists.
    let bytes = fs::read(&path).unwrap();
    drop(journal);
    fs::write(&path, bytes).unwrap();
    folder
}

#[test]
fn after_a_kill_all_files_are_the_old_ones_or_all_the_new_ones() {
    for steps in 0..=8 {
        let tree = test_workspace(&[("replaced", "old"), ("linked", "old linked")]);
        fs::hard_link(tree.path("linked"), tree.path("other")).unwrap();
        let folder = interrupt_after(&tree, steps);
        recover_unlocked_journals(&folder);
        let expected: &[_] = if steps == 8 {
            &[("added", "new"), ("linked", "new li"), ("other", "new li"), ("replaced", "new")]
        } else {
            &[("linked", "old linked"), ("other", "old linked"), ("replaced", "old")]
        };
        let names = tree.names(".");
        let found: Vec<_> = names.iter().map(|name| (&**name, tree.read(name))).collect();
        let found: Vec<_> = found.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(found, expected, "after {steps} steps");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

/// The journal of a call that exchanges one file is not synced. After a power failure, it may lack
/// the record that the call is complete, although the call was reported as complete.
#[test]
fn a_restart_of_the_system_reverts_no_exchanged_file() {
    let temporary = temporary_name(7, 0);
    let temporary_name = temporary.to_str().unwrap();
    for (is_restarted, is_exchanged, expected) in
        [(false, false, "old"), (false, true, "old"), (true, false, "old"), (true, true, "new")]
    {
        let tree = test_workspace(&[("file", "old"), (temporary_name, "new")]);
        let folder = tree.outer_folder().join("journal");
        let (dir, name) = (tree.workspace.cwd().into(), "file".into());
        let names = JournaledFile {
            dir,
            name,
            temporary: temporary.clone(),
            made: Vec::new(),
            copies: None,
        };
        let mut journal = RollbackJournal::begin(&folder, vec![names]).unwrap();
        let id = |name: &str| {
            let metadata = fs::metadata(tree.path(name)).unwrap();
            (metadata.dev(), metadata.ino())
        };
        let (old, after) = (Some(id("file")), *ContentHash::of_bytes(b"new").as_bytes());
        let write = JournalWriteKind::Replace;
        let planned = PlannedWrite::new(write, id(temporary_name), old, after);
        journal.bind_to_boot().unwrap();
        journal.write_ready(vec![planned]).unwrap();
        if is_exchanged {
            fs::rename(tree.path("file"), tree.path("beside")).unwrap();
            fs::rename(tree.path(temporary_name), tree.path("file")).unwrap();
            fs::rename(tree.path("beside"), tree.path(temporary_name)).unwrap();
        }
        let (path, mut text) = (journal.path.clone(), fs::read_to_string(&journal.path).unwrap());
        drop(journal);
        if is_restarted {
            text = text.replace(boot_id().unwrap(), "0");
        }
        fs::write(&path, text).unwrap();
        recover_unlocked_journals(&folder);
        assert_eq!(tree.read("file"), expected, "{is_restarted} {is_exchanged}");
        assert_eq!(tree.names("."), ["file"]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn recovery_keeps_files_that_another_program_replaced() {
    let tree = test_workspace(&[("replaced", "old"), ("linked", "old linked")]);
    let folder = interrupt_after(&tree, 5);
    tree.write("beside", "theirs");
    fs::rename(tree.path("beside"), tree.path("replaced")).unwrap();
    recover_unlocked_journals(&folder);
    assert_eq!(tree.read("replaced"), "theirs");
    assert_eq!(tree.names("."), ["linked", "replaced"]);
}

#[test]
fn recovery_keeps_later_writes_in_place() {
    for name in ["replaced", "added", "linked"] {
        let tree = test_workspace(&[("replaced", "old"), ("linked", "old linked")]);
        fs::hard_link(tree.path("linked"), tree.path("other")).unwrap();
        let folder = interrupt_after(&tree, 7);
        // The file is written in place, as some editors do when they save. The id of the file stays
        // the same.
        fs::write(tree.path(name), "theirs").unwrap();
        recover_unlocked_journals(&folder);
        assert_eq!(tree.read(name), "theirs", "{name}");
        assert!(!tree.names(".").iter().any(|it| it.starts_with(".acp-tools-")));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn the_journal_of_a_living_process_and_other_files_are_left_alone() {
    let tree = test_workspace(&[("replaced", "old")]);
    let folder = tree.outer_folder().join("journal");
    let names = |temporary: &str| JournaledFile {
        dir: tree.workspace.cwd().into(),
        name: "replaced".into(),
        temporary: temporary.into(),
        made: Vec::new(),
        copies: None,
    };
    let living = RollbackJournal::begin(&folder, vec![names(".acp-tools-1-0.tmp")]).unwrap();
    tree.write(".acp-tools-1-0.tmp", "new");
    recover_unlocked_journals(&folder);
    assert_eq!(tree.names("."), [".acp-tools-1-0.tmp", "replaced"]);
    drop(living);
    let forged = RollbackJournal::begin(&folder, vec![names("replaced")]).unwrap();
    let (path, bytes) = (forged.path.clone(), fs::read(&forged.path).unwrap());
    drop(forged);
    fs::write(path, bytes).unwrap();
    recover_unlocked_journals(&folder);
    assert_eq!(tree.read("replaced"), "old");
}

#[test]
fn recovery_restores_a_torn_file() {
    let (old, new) = ("old linked", "new li");
    for (torn, expected) in [
        ("new linked", old),
        ("new liked", "new liked"),
        ("new linked!", "new linked!"),
        (new, old),
        (old, old),
        ("ond linked", "ond linked"),
        ("old li", old),
        // The process was killed while it restored the old bytes.
        ("oew linked", old),
        ("old link", old),
        ("", ""),
    ] {
        let tree = test_workspace(&[("replaced", "old"), ("linked", old)]);
        fs::hard_link(tree.path("linked"), tree.path("other")).unwrap();
        let folder = interrupt_after(&tree, 6);
        fs::write(tree.path("linked"), torn).unwrap();
        recover_unlocked_journals(&folder);
        assert_eq!(tree.read("other"), expected, "{torn}");
    }
}

#[test]
fn recovery_keeps_an_unexpected_exchanged_file() {
    let tree = test_workspace(&[("replaced", "old"), ("linked", "old linked")]);
    let folder = interrupt_after(&tree, 5);
    // Another program replaced the file twice: just before the exchange, and again just after it.
    let beside = tree.workspace.cwd().join(temporary_name(7, 0));
    tree.write("theirs", "theirs");
    fs::rename(tree.path("theirs"), &beside).unwrap();
    tree.write("newer", "newer");
    fs::rename(tree.path("newer"), tree.path("replaced")).unwrap();
    recover_unlocked_journals(&folder);
    assert_eq!(tree.read("replaced"), "newer");
    assert_eq!(fs::read_to_string(&beside).unwrap(), "theirs");
}

#[test]
fn recovery_moves_an_entry_back_unless_its_name_is_taken() {
    for is_taken in [false, true] {
        let tree = test_workspace(&[("file", "old")]);
        let folder = tree.outer_folder().join("journal");
        let name = temporary_name(9, 0);
        let mut journal = RollbackJournal::begin_quarantine(
            &folder,
            tree.workspace.cwd(),
            "file".as_ref(),
            &name,
        )
        .unwrap();
        fs::rename(tree.path("file"), tree.workspace.cwd().join(&name)).unwrap();
        if is_taken {
            tree.write("file", "newer");
        }
        journal.keep_for_replay();
        drop(journal);
        recover_unlocked_journals(&folder);
        assert_eq!(tree.read("file"), if is_taken { "newer" } else { "old" });
        assert_eq!(tree.names(".").len(), 1 + usize::from(is_taken));
    }
}

/// The journal of an earlier version has neither kinds nor modes.
#[test]
fn a_journal_of_an_earlier_version_is_replayed() {
    let tree = test_workspace(&[("replaced", "old"), ("aside", "old")]);
    let folder = tree.outer_folder().join("journal");
    fs::create_dir(&folder).unwrap();
    let root = tree.workspace.cwd().to_owned();
    let [first, second, third] = [0, 1, 2].map(|number| temporary_name(7, number));
    fs::write(root.join("added"), "new").unwrap();
    fs::rename(root.join("replaced"), root.join(&first)).unwrap();
    fs::write(root.join("replaced"), "new").unwrap();
    fs::rename(root.join("aside"), root.join(&third)).unwrap();
    let text = |path: &dyn AsRef<OsStr>| format!("{:?}", path.as_ref().as_encoded_bytes());
    let names = [("replaced", &first), ("added", &second), ("aside", &third)];
    let names = names.map(|(name, temporary)| {
        let [dir, name, temporary] = [text(&root), text(&name), text(temporary)];
        format!(
            r#"{{"dir":{{"Unix":{dir}}},"name":{{"Unix":{name}}},"temporary":{{"Unix":{temporary}}},"made":[]}}"#
        )
    });
    let after = format!("{:?}", ContentHash::of_bytes(b"new").as_bytes());
    let id = |name: &str| {
        let metadata = fs::metadata(root.join(name)).unwrap();
        format!("[{},{}]", metadata.dev(), metadata.ino())
    };
    let old = id(first.to_str().unwrap());
    let ready = [
        format!(r#"{{"way":"Replace","ours":{},"old":{old},"after":{after}}}"#, id("replaced")),
        format!(r#"{{"way":"Add","ours":{},"old":null,"after":{after}}}"#, id("added")),
        format!(r#"{{"way":"Aside","ours":[0,0],"old":null,"after":{:?}}}"#, [0; 32]),
    ];
    let (names, ready) = (names.join(","), ready.join(","));
    let lines = format!("{{\"Begin\":[{names}]}}\n{{\"Ready\":[{ready}]}}\n");
    fs::write(folder.join("call-1"), lines).unwrap();
    recover_unlocked_journals(&folder);
    assert_eq!(tree.names("."), ["aside", "replaced"]);
    assert_eq!((tree.read("aside"), tree.read("replaced")), ("old".into(), "old".into()));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn limited_file_systems_give_the_same_results() {
    simulated_file_system::run_on_limited(&[
        after_a_kill_all_files_are_the_old_ones_or_all_the_new_ones,
        recovery_keeps_files_that_another_program_replaced,
        recovery_keeps_an_unexpected_exchanged_file,
        recovery_moves_an_entry_back_unless_its_name_is_taken,
    ]);
}
