//! If reading a file is forbidden, no byte of the file reaches the client, the model or the log.
//! The tests cover every call that accepts a path, and every way in which such a call fails.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::CALLBOARD;
use crate::harness::raw::{INITIALIZE, request};
use crate::harness::scratch::Scratch;

/// A marker that must never be visible. The marker is in each line of the protected files, and in
/// the name of one file.
const CANARY: &str = "k9Qz";

/// The way in which reading the files is forbidden.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ReadProtection {
    /// The mode `ask-always` asks before each read, and the client rejects every permission
    /// request.
    AskAlways,
    /// A rule of the user denies reading. The session has the given mode.
    Rule(&'static str),
}

const GUARDS: [ReadProtection; 5] = [
    ReadProtection::AskAlways,
    ReadProtection::Rule("ask"),
    ReadProtection::Rule("accept-edits"),
    ReadProtection::Rule("auto"),
    ReadProtection::Rule("read-only"),
];

/// Runs calls in one turn, and rejects every permission request. Returns all lines that the agent
/// wrote to stdout, and its log.
fn run_and_collect_output(
    guard: ReadProtection,
    files: &[(&str, Vec<u8>)],
    calls: &[(&str, Value)],
) -> String {
    let scratch = Scratch::new();
    for (name, bytes) in files {
        fs::create_dir_all(scratch.path(name).parent().unwrap()).unwrap();
        fs::write(scratch.path(name), bytes).unwrap();
    }
    let mode = match guard {
        ReadProtection::AskAlways => "ask-always",
        ReadProtection::Rule(mode) => {
            let folder =
                PathBuf::from(&scratch.env()["XDG_STATE_HOME"]).join("callboard/permissions");
            fs::create_dir_all(&folder).unwrap();
            let rule = |glob: &str| {
                let glob = scratch.path(glob);
                let path = json!({"access": "read", "glob": glob});
                json!({"scope": "user", "verdict": "deny", "matcher": {"path": path}})
            };
            let rules = json!({"rules": [rule("held/**"), rule("AGENTS.md")]});
            fs::write(folder.join("user.json"), rules.to_string()).unwrap();
            mode
        }
    };
    let log = scratch.cwd().with_file_name("log");
    let mut command = Command::new(CALLBOARD);
    command
        .args(["acp", "--no-sandbox", "--model", "direct", "--mode", mode])
        .current_dir(scratch.cwd());
    command.env_clear().envs(scratch.env()).env("CALLBOARD_LOG", "trace");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let mut agent = command.spawn().unwrap();
    let mut stdin = agent.stdin.take().unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut wire = String::new();
    let mut send = |line: &str| stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut until = |id: &str, send: &mut dyn FnMut(&str)| loop {
        let line = lines.next().expect("an answer");
        wire.push_str(&line);
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["method"] == "session/request_permission" {
            let options = message["params"]["options"].as_array().unwrap();
            let no = options.iter().find(|option| option["kind"] == "reject_once").unwrap();
            let outcome = json!({"outcome": "selected", "optionId": no["optionId"]});
            let answer =
                json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}});
            send(&answer.to_string());
        }
        if message["method"].is_null() && message["id"] == id {
            return message["result"].clone();
        }
    };
    send(INITIALIZE);
    until("init", &mut send);
    send(&request("new", "session/new", &json!({"cwd": scratch.cwd(), "mcpServers": []})));
    let session = until("new", &mut send)["sessionId"].clone();
    let prompt: String = calls.iter().map(|(tool, args)| format!("tool {tool} {args}\n")).collect();
    let prompt = json!([{"type": "text", "text": prompt}]);
    send(&request("turn", "session/prompt", &json!({"sessionId": session, "prompt": prompt})));
    assert_eq!(until("turn", &mut send)["stopReason"], "end_turn");
    drop(stdin);
    assert!(agent.wait().unwrap().success());
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("call"), "the log is written");
    wire + &log
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    let lines = |end: &str| {
        (0..60).map(|at| format!("alpha {CANARY} {at} beta{end}")).collect::<String>().into_bytes()
    };
    vec![
        ("held/a.txt", lines("\n")),
        ("held/crlf.txt", lines("\r\n")),
        ("held/latin.txt", [b"caf\xe9 ", &lines("\n")[..]].concat()),
        ("held/binary", [b"\0\x01\x02", &lines("\n")[..]].concat()),
        ("held/near-k9Qz-7.txt", lines("\n")),
        ("AGENTS.md", lines("\n")),
        ("open.txt", b"nothing here\n".to_vec()),
    ]
}

/// Returns several calls of each tool that accepts a path. Together, they end in every possible
/// way.
fn calls() -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for path in ["held/a.txt", "held/crlf.txt", "held/latin.txt", "held/binary", "AGENTS.md"] {
        let edit = |old: &str| json!({"path": path, "old_text": old, "new_text": "x"});
        calls.extend([
            ("read_file", json!({"path": path})),
            ("read_file", json!({"path": path, "offset": 9000})),
            ("read_file", json!({"path": format!("{path}/x")})),
            ("edit_file", edit("alpha")),
            ("edit_file", edit("alpha 3 beta")),
            ("edit_file", edit("alpha\nbeta")),
            ("edit_file", edit("completely different")),
            ("edit_file", edit("\u{1f980}")),
            ("edit_file", json!({"path": path, "old_text": "", "new_text": "x", "line": 3})),
            ("edit_file", json!({"path": path, "old_text": " beta", "new_text": "x", "occurrence": 3})),
            ("edit_file", json!({"path": path, "old_text": " beta", "new_text": "x", "line": 7})),
            ("edit_file", json!({"path": path, "old_text": " beta", "new_text": "x", "replace_all": true})),
            ("edit_file", json!({"path": path, "old_text": "beta", "new_text": "\u{65e5}", "replace_all": true})),
            ("edit_file", json!({"edits": [
                {"path": "open.txt", "old_text": "nothing", "new_text": "x"},
                {"path": path, "old_text": "alpha 3 beta", "new_text": "x"},
            ]})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("write_file", json!({"path": path, "content": "// ... existing code ...\n"})),
            ("delete_path", json!({"path": path})),
            ("move_path", json!({"from": path, "to": "open.txt"})),
            ("move_path", json!({"from": path, "to": "moved.txt"})),
            ("read_file", json!({"path": "moved.txt"})),
            ("grep", json!({"pattern": "alpha", "path": path})),
            ("grep", json!({"pattern": "(", "path": path})),
        ]);
    }
    calls.extend([
        ("read_file", json!({"path": "held/near-7.txt"})),
        ("read_file", json!({"path": "other/near-k9Q-7.txt"})),
        ("edit_file", json!({"path": "held/near--7.txt", "old_text": "a", "new_text": "b"})),
        ("delete_path", json!({"path": "held/near-7.txt"})),
        ("move_path", json!({"from": "held", "to": "moved"})),
        ("list_directory", json!({"path": "moved"})),
        ("delete_path", json!({"path": "held"})),
        ("grep", json!({"pattern": "alpha"})),
        ("grep", json!({"pattern": "alpha", "path": "held"})),
        ("grep", json!({"pattern": "alpha", "path": "moved"})),
        ("find_path", json!({"pattern": "held/*"})),
        ("undo", json!({})),
    ]);
    calls
}

#[test]
fn bytes_of_a_protected_file_appear_nowhere() {
    for guard in GUARDS {
        // A deny rule for reading does not hide the names of files from a search for paths.
        let calls: Vec<_> = calls()
            .into_iter()
            .filter(|(tool, _)| guard == ReadProtection::AskAlways || *tool != "find_path")
            .collect();
        let seen = run_and_collect_output(guard, &files(), &calls);
        let at =
            seen.find(CANARY).map(|at| &seen[at.saturating_sub(400)..(at + 100).min(seen.len())]);
        // This text is an argument of the calls, so the agent may repeat it.
        let is_said = |text: &str| text.contains("near-k9Q-7") && !text.contains(CANARY);
        assert!(at.is_none_or(is_said), "{guard:?}: {at:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    #[test]
    fn random_edits_of_a_protected_file_show_none_of_its_bytes(
        lines in prop::collection::vec("[ab]{0,3}( k9Qz)?[ab ]{0,3}", 1..30),
        needles in prop::collection::vec("[ab \n]{0,8}", 20),
        guard in prop::sample::select(&GUARDS[..]),
    ) {
        let files = [("held/a.txt", lines.join("\n").into_bytes())];
        let edit = |old: &String| ("edit_file", json!({
            "path": "held/a.txt", "old_text": old, "new_text": "x",
        }));
        let seen = run_and_collect_output(guard, &files, &needles.iter().map(edit).collect::<Vec<_>>());
        prop_assert!(!seen.contains(CANARY), "{guard:?}");
    }
}
