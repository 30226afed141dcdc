//! Tests of the files that the store writes, and of the files that it refuses to read.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use acp_lifecycle::{Effect, Matcher, Verdict};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use super::*;

/// Returns a store in a new temporary folder. The store's own folder does not exist yet.
fn store() -> (TempDir, FileRuleStore) {
    let dir = TempDir::new().unwrap();
    let store = FileRuleStore::new(dir.path().join("state/callboard/permissions"));
    (dir, store)
}

fn rule(scope: RuleScope, command: &str) -> Rule {
    let effect = Effect::Run { command: command.to_owned(), cwd: "/p".into() };
    Rule::new(scope, Matcher::Effect(effect), Verdict::Deny)
}

fn add(store: &FileRuleStore, root: &str, rules: &[&Rule]) -> Result<(), RuleStoreError> {
    let changes: Vec<_> = rules.iter().map(|rule| RuleChange::Add((*rule).clone())).collect();
    store.save_rule_changes(root.as_ref(), &changes)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn rules_persist_and_apply_only_to_their_project() {
    let (_dir, store) = store();
    assert_eq!(store.load("/p".as_ref()).unwrap(), []);
    assert!(!store.folder.exists(), "looking changes nothing");
    let (mine, users) = (rule(RuleScope::Project, "a"), rule(RuleScope::User, "b"));
    add(&store, "/p", &[&mine, &users, &mine]).unwrap();
    let again = FileRuleStore::new(store.folder.clone());
    assert_eq!(again.load("/p".as_ref()).unwrap(), [mine.clone(), users.clone()]);
    assert_eq!(again.load("/p/q".as_ref()).unwrap(), std::slice::from_ref(&users));
    again.save_rule_changes("/p".as_ref(), &[RuleChange::Remove(mine)]).unwrap();
    assert_eq!(store.load("/p".as_ref()).unwrap(), [users]);
}

#[test]
fn files_are_accessible_only_to_the_user() {
    let (_dir, store) = store();
    add(&store, "/p", &[&rule(RuleScope::Project, "a"), &rule(RuleScope::User, "b")]).unwrap();
    assert_eq!(mode(&store.folder), 0o700);
    for scope in [RuleScope::Project, RuleScope::User] {
        assert_eq!(mode(&store.file_path(scope, "/p".as_ref())), 0o600);
    }
    assert_eq!(mode(&store.folder.join("lock")), 0o600);
    let left = fs::read_dir(&store.folder).unwrap().count();
    assert_eq!(left, 3, "two files, the lock, and nothing temporary");
}

#[test]
fn a_file_names_its_project_for_people() {
    let (_dir, store) = store();
    add(&store, "/p", &[&rule(RuleScope::Project, "a")]).unwrap();
    let text = fs::read(store.file_path(RuleScope::Project, "/p".as_ref())).unwrap();
    let expected = json!({"root": "/p", "rules": [{
        "scope": "project",
        "matcher": {"effect": {"run": {"command": "a", "cwd": "/p"}}},
        "verdict": "deny",
    }]});
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&text).unwrap(), expected);
}

#[test]
fn rules_written_by_people_are_read() {
    let (_dir, store) = store();
    private::create_private_folder(&store.folder).unwrap();
    let text = r#"{"rules": [
        {"scope": "user", "verdict": "allow", "matcher": {"argv": ["cargo", "test"]}},
        {"scope": "user", "verdict": "ask", "matcher": {"argv": ["git"]}},
        {"scope": "user", "verdict": "deny", "matcher": {"path": {"access": "read", "glob": "/**/.env"}}},
        {"scope": "user", "verdict": "deny", "matcher": {"mcp": {"server": "s"}}}
    ]}"#;
    fs::write(store.folder.join("user.json"), text).unwrap();
    assert_eq!(store.load("/p".as_ref()).unwrap().len(), 4);
}

#[test]
fn files_that_others_could_write_are_refused_and_not_changed() {
    type Spoil = fn(&FileRuleStore, &Path);
    let spoil: [(&str, Spoil); 9] = [
        ("others may write it", |_, file| set_mode(file, 0o602)),
        ("others may write it", |_, file| set_mode(file, 0o620)),
        ("others may write it", |store, _| set_mode(&store.folder, 0o777)),
        ("(os error", |_, file| {
            let elsewhere = file.with_extension("elsewhere");
            fs::rename(file, &elsewhere).unwrap();
            symlink(elsewhere, file).unwrap();
        }),
        ("it is no file", |_, file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }),
        ("it is over", |_, file| {
            let file = fs::File::options().write(true).open(file).unwrap();
            file.set_len(MAX_RULE_FILE_BYTES + 1).unwrap();
        }),
        ("EOF while parsing", |_, file| fs::write(file, "{\"rules\": [").unwrap()),
        ("unknown", |_, file| {
            let matcher = json!({"something_new": 1});
            let rule = json!({"scope": "user", "matcher": matcher, "verdict": "allow"});
            fs::write(file, json!({"rules": [rule]}).to_string()).unwrap();
        }),
        ("another scope", |_, file| {
            let rule = serde_json::to_value(rule(RuleScope::Project, "a")).unwrap();
            fs::write(file, json!({"rules": [rule]}).to_string()).unwrap();
        }),
    ];
    for (why, spoil) in spoil {
        let (_dir, store) = store();
        add(&store, "/p", &[&rule(RuleScope::User, "a")]).unwrap();
        let file = store.file_path(RuleScope::User, "/p".as_ref());
        spoil(&store, &file);
        let error = store.load("/p".as_ref()).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
        add(&store, "/p", &[&rule(RuleScope::User, "b")]).unwrap_err();
        assert_eq!(store.load("/p".as_ref()).unwrap_err().to_string(), error);
    }
}

#[test]
fn a_folder_that_is_a_link_is_refused() {
    let (dir, store) = store();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir_all(store.folder.parent().unwrap()).unwrap();
    symlink(elsewhere, &store.folder).unwrap();
    store.load("/p".as_ref()).unwrap_err();
    add(&store, "/p", &[&rule(RuleScope::User, "b")]).unwrap_err();
}

#[test]
fn concurrent_changes_lose_no_rule() {
    let (_dir, store) = store();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..10 {
                    add(store, "/p", &[&rule(RuleScope::Project, &format!("{thread} {n}"))])
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(store.load("/p".as_ref()).unwrap().len(), 40);
}

/// Files as a build of November 2026 wrote them, with their names.
const STORED: [(&str, &str); 2] = [
    ("user.json", include_str!("stored/user.json")),
    (
        "project-00d74baf14ea415c6164614838c91f834c38c3e564444dfa5bc3aa0d2809e265.json",
        include_str!(
            "stored/project-00d74baf14ea415c6164614838c91f834c38c3e564444dfa5bc3aa0d2809e265.json"
        ),
    ),
];

#[test]
fn rules_that_earlier_builds_stored_are_read() {
    let (_dir, store) = store();
    private::create_private_folder(&store.folder).unwrap();
    for (name, text) in STORED {
        fs::write(store.folder.join(name), text).unwrap();
    }
    let allow = |scope, matcher| Rule::new(scope, matcher, Verdict::Allow);
    let words = |words: &str| {
        serde_json::from_value(json!({ "argv": words.split(' ').collect::<Vec<_>>() }))
    };
    let run = Effect::Run { command: "cargo --version".to_owned(), cwd: "/p".into() };
    let expected = [
        allow(RuleScope::Project, words("git status").unwrap()),
        allow(RuleScope::Project, Matcher::Effect(Effect::Write("/p/b.txt".into()))),
        allow(RuleScope::Project, Matcher::Effect(run)),
        allow(RuleScope::User, words("git log").unwrap()),
    ];
    assert_eq!(store.load("/p".as_ref()).unwrap(), expected);
}
