//! File names with arbitrary bytes. Every call ends, and every tool accepts the file names that
//! other tools show.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use acp_types::schema::v1::ToolCallStatus;
use callboard_text::{path_text, unquote_path};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::session::call_text;
use crate::harness::{Agent, Options};

/// Maximum number of files in one folder, and therefore the maximum number of calls in a turn.
const AT_ONCE: usize = 40;

/// Generates a file name of arbitrary bytes. Bytes with a special meaning in shells or JSON are
/// more frequent than others.
fn name() -> impl Strategy<Value = OsString> {
    let byte = prop_oneof![
        2 => prop::sample::select(&b"$'\\\"`*?[]{}!#:; \n\t\x1b\x7f.-~xn0"[..]),
        2 => b'a'..=b'z',
        3 => 1_u8..=255,
    ];
    let bytes = prop::collection::vec(byte, 1..40);
    let letters =
        "[\u{e4}\u{65e5}\u{301}\u{200b}\u{202e}\u{feff}\u{85}\u{2028}\u{fffd}$'\\\\a]{1,12}";
    let name = prop_oneof![4 => bytes, 1 => letters.prop_map(String::into_bytes)];
    let name = name.prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != b'/').collect());
    name.prop_filter("a name", |name: &Vec<u8>| !matches!(&**name, b"" | b"." | b".." | b".git"))
        .prop_map(OsString::from_vec)
}

fn names(runner: &mut TestRunner, count: usize) -> BTreeSet<OsString> {
    let mut names = BTreeSet::new();
    while names.len() < count {
        names.insert(name().new_tree(runner).unwrap().current());
    }
    names
}

fn line(tool: &str, args: &Value) -> String {
    format!("tool {tool} {args}\n")
}

/// Runs calls in one turn, asserts that each completes, and returns the texts of the calls.
async fn calls(agent: &mut Agent, lines: &str) -> Vec<String> {
    let before = agent.session().calls().len();
    assert_eq!(agent.turn(lines).await, "end_turn");
    let calls = agent.session().calls().split_off(before);
    assert_eq!(calls.len(), lines.lines().count());
    let shown = calls.iter().map(|call| {
        assert_eq!(call.status, ToolCallStatus::Completed, "{call:?}");
        unfenced(&call_text(call))
    });
    shown.collect()
}

/// Returns the text without its first and its last line, which are a code fence.
fn unfenced(shown: &str) -> String {
    let lines: Vec<_> = shown.lines().collect();
    let inner = lines.get(1..lines.len().saturating_sub(1)).unwrap_or_default();
    inner.iter().map(|line| format!("{line}\n")).collect()
}

fn paths(names: &[String]) -> HashSet<PathBuf> {
    names.iter().map(|name| unquote_path(name).into_owned()).collect()
}

fn assert_same(shown: &HashSet<PathBuf>, all: &HashSet<PathBuf>, text: &str) {
    let differ: Vec<_> = shown.symmetric_difference(all).collect();
    assert!(differ.is_empty(), "{differ:?} in {text}");
}

/// Creates a folder of files. Then finds, lists, reads, edits, moves and deletes them by the names
/// that the tools show.
async fn use_all(agent: &mut Agent, folder: &Path, names: &BTreeSet<OsString>) {
    let root = agent.scratch.cwd();
    fs::create_dir(root.join(folder)).unwrap();
    for name in names {
        fs::write(root.join(folder).join(name), "a needle\n").unwrap();
    }
    let all: HashSet<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    let folder = path_text(folder);

    let looked = line("find_path", &json!({ "pattern": "*", "path": folder }))
        + &line("grep", &json!({ "pattern": "needle", "path": folder, "max_results": 200 }))
        + &line("list_directory", &json!({ "path": folder }));
    let looked = calls(agent, &looked).await;
    let found: Vec<_> = looked[0].lines().map(str::to_owned).collect();
    assert_same(&paths(&found), &all, &looked[0]);
    let matched = looked[1].lines().filter(|line| !matches!(*line, "1:a needle" | ""));
    let mut matched: Vec<_> = matched.map(str::to_owned).collect();
    let sum = matched.pop().unwrap_or_default();
    assert!(sum.starts_with(&format!("[{} ", all.len())), "{sum}");
    assert_same(&paths(&matched), &all, &looked[1]);
    let listed = looked[2].lines().filter_map(|line| line.strip_suffix(" (9 bytes)"));
    let listed: Vec<_> = listed.map(|name| format!("{folder}/{name}")).collect();
    assert_same(&paths(&listed), &all, &looked[2]);

    let each = |call: &dyn Fn(&String) -> String| found.iter().map(call).collect::<String>();
    for read in calls(agent, &each(&|path| line("read_file", &json!({ "path": path })))).await {
        assert!(read.contains("a needle"), "{read}");
    }
    let edit = |path: &String| {
        let edit = json!({ "path": path, "old_text": "a needle", "new_text": "a thread" });
        line("edit_file", &edit)
    };
    calls(agent, &each(&edit)).await;
    for path in &all {
        assert_eq!(fs::read_to_string(root.join(path)).unwrap(), "a thread\n");
    }
    let moved = |path: &String| {
        let to = unquote_path(path).into_owned();
        let mut name = OsString::from("m");
        name.push(to.file_name().unwrap());
        let to = to.with_file_name(name);
        line("move_path", &json!({ "from": path, "to": path_text(&to) }))
    };
    calls(agent, &each(&moved)).await;
    let moved = calls(agent, &line("find_path", &json!({ "pattern": "*", "path": folder }))).await;
    let moved: Vec<_> = moved[0].lines().map(str::to_owned).collect();
    assert_eq!(moved.len(), all.len());
    let delete = |path: &String| line("delete_path", &json!({ "path": path }));
    calls(agent, &moved.iter().map(delete).collect::<String>()).await;
    assert_eq!(fs::read_dir(root.join(&*unquote_path(&folder))).unwrap().count(), 0);
}

async fn ready(scratch: Scratch) -> Agent {
    let options = Options::default();
    let args = ["acp", "--model", "direct", "--mode", "auto"];
    let mut agent = Agent::start_in(scratch, &args, &[], options);
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    agent
}

#[tokio::test]
async fn tools_accept_the_shown_name_of_any_file() {
    // `PROPTEST_CASES` overrides the number of generated names.
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    let mut runner = TestRunner::default();
    let mut left = cases.unwrap_or(2 * AT_ONCE);
    while left > 0 {
        // A new agent starts after every ten folders, so that no session grows too large.
        let mut agent = ready(Scratch::new()).await;
        for _ in 0..10 {
            let count = left.min(AT_ONCE);
            left -= count;
            let folder = name().new_tree(&mut runner).unwrap().current();
            if count > 0 && !agent.scratch.path(&folder).exists() {
                let names = names(&mut runner, count);
                use_all(&mut agent, Path::new(&folder), &names).await;
            }
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_session_works_in_a_folder_whose_name_is_not_utf_8_or_looks_quoted() {
    let mut agent = ready(Scratch::new()).await;
    for name in [&b"f\xff"[..], b"$'g'"] {
        let folder = agent.scratch.path(OsString::from_vec(name.to_vec()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.txt"), "a needle\n").unwrap();
        // A client sends the original name if it can be part of a JSON string.
        let cwd = folder.to_str().map_or_else(|| path_text(&folder), Into::into);
        let new = json!({ "cwd": cwd, "mcpServers": [] });
        let opened = agent.request("session/new", new).await.expect("a session opens");
        let session = opened["sessionId"].as_str().unwrap().to_owned();
        for prompt in ["read a.txt", "run cat a.txt", "grep needle"] {
            let id = agent.prompt_in(&session, prompt).await;
            assert_eq!(agent.stop_reason(&id).await, "end_turn");
        }
        for call in agent.client.session(&session).calls() {
            assert!(call_text(call).contains("a needle"), "{call:?}");
        }
        for filter in [json!({}), json!({ "cwd": cwd })] {
            let list = agent.request("session/list", filter).await.expect("sessions are listed");
            assert_eq!(list["sessions"][0]["sessionId"], json!(session), "{list}");
            assert_eq!(list["sessions"][0]["cwd"], json!(cwd), "{list}");
        }
    }
    agent.finish().await;
}

/// Regression test: the last update of a call could not be serialized if it contained a name that
/// is not UTF-8. The turn then ended while the call was open.
#[tokio::test]
async fn calls_end_in_a_folder_with_a_file_name_that_is_not_utf_8() {
    let mut agent = ready(Scratch::new()).await;
    fs::write(agent.scratch.path(OsString::from_vec(b"a\xff.txt".to_vec())), "two\n").unwrap();
    let shown = calls(&mut agent, "find *.txt\ngrep two\n").await;
    assert!(shown[0].lines().any(|line| line == r"$'a\xff.txt'"), "{}", shown[0]);
    assert!(shown[1].lines().any(|line| line == r"$'a\xff.txt'"), "{}", shown[1]);
    agent.finish().await;
}
