//! Texts that `callboard sessions` must not print, and the deleted data that `prune` must name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::CALLBOARD;
use crate::harness::scratch::Scratch;

/// The value of an environment variable. The value is a key only if the configuration names the
/// variable.
const IN_CONFIGURATION: &str = "word-89ab-cdef-0123-4567";

fn run(scratch: &Scratch, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(CALLBOARD);
    command.args(args).current_dir(scratch.cwd()).env_clear().envs(scratch.env());
    command.env("PLAIN_NAME", IN_CONFIGURATION);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    (output.status.code().unwrap(), out, err)
}

/// Runs the program, and returns its stdout. The program must succeed and write nothing to stderr.
fn printed(scratch: &Scratch, args: &[&str]) -> String {
    let (code, out, err) = run(scratch, args);
    assert_eq!((code, &*err), (0, ""), "{args:?}: {out}");
    out
}

/// Stores a session with this text as its prompt and its title. Returns the session id.
fn store(scratch: &Scratch, text: &str) -> String {
    let script = scratch.path("script.jsonl");
    fs::write(&script, format!("{}\n", json!({"text": text}))).unwrap();
    let model = format!("script:{}", script.display());
    printed(scratch, &["exec", "--model", &model, text]);
    let list: Value =
        serde_json::from_str(&printed(scratch, &["sessions", "list", "--json"])).unwrap();
    list[0]["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn keys_that_were_stored_after_the_session_are_redacted_in_every_output() {
    let key = "a-key-4567-89ab-cdef-0123";
    let scratch = Scratch::new();
    let id = store(&scratch, &format!("Use {key} or {IN_CONFIGURATION} here"));
    // The excerpts that a search for `edge` prints begin or end within a key.
    let near_edge = format!("{IN_CONFIGURATION} {} edge {}{key}", "x".repeat(40), "y ".repeat(68));
    store(&scratch, &near_edge);
    let shown = printed(&scratch, &["sessions", "show", &id]);
    assert!(shown.contains(key) && shown.contains(IN_CONFIGURATION), "{shown}");
    let home = scratch.cwd().with_file_name("home");
    let keys = home.join("STATE_HOME/callboard/keys");
    fs::create_dir_all(&keys).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o700)).unwrap();
    let login =
        json!({"id": "01M84J7AJHSMSAQWW8C0J8CGNX", "base_url": "http://127.0.0.1:9", "key": key});
    fs::write(keys.join("keys.json"), json!({"anthropic": login}).to_string()).unwrap();
    fs::set_permissions(keys.join("keys.json"), fs::Permissions::from_mode(0o600)).unwrap();
    let config = home.join("CONFIG_HOME/callboard");
    fs::create_dir_all(&config).unwrap();
    let named = "[providers.openai]\nkey_env = \"PLAIN_NAME\"\n";
    fs::write(config.join("config.toml"), named).unwrap();
    for args in [
        &["sessions", "show", &id][..],
        &["sessions", "list"],
        &["sessions", "list", "--json"],
        &["sessions", "search", "here", "--json"],
        &["sessions", "search", "edge"],
        &["sessions", "export", &id],
        &["sessions", "export", &id, "--format", "html"],
        &["sessions", "export", &id, "--format", "markdown"],
    ] {
        let out = printed(&scratch, args);
        assert!(out.contains("redacted"), "{args:?}: {out}");
        for secret in [key, IN_CONFIGURATION] {
            let is_shown = [secret, &secret[..12], &secret[secret.len() - 12..]];
            assert!(!is_shown.iter().any(|part| out.contains(part)), "{args:?}: {out}");
        }
    }
}

#[test]
fn json_output_contains_no_terminal_control_character() {
    let text = "Turn \u{9b}31m red \u{202e}back\u{7f}";
    let scratch = Scratch::new();
    let id = store(&scratch, text);
    let obeyed = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    for args in [
        &["sessions", "list", "--json"][..],
        &["sessions", "search", "red", "--json"],
        &["sessions", "export", &id],
    ] {
        let out = printed(&scratch, args);
        assert!(!out.contains(obeyed), "{args:?}: {out:?}");
        assert!(out.contains("\\u"), "{args:?}: {out:?}");
        for value in serde_json::Deserializer::from_str(&out).into_iter::<Value>() {
            value.unwrap();
        }
    }
}

#[test]
fn a_failed_store_and_an_unknown_session_have_different_exit_codes() {
    let scratch = Scratch::new();
    let resume = ["exec", "--model", "direct", "--resume", "nonsense", "list"];
    let (code, _, err) = run(&scratch, &resume);
    assert_eq!(code, 2, "{err}");
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.sessions()).unwrap();
    let garbage = "this is no database ".repeat(1000);
    fs::write(scratch.sessions().join("sessions.sqlite3"), garbage).unwrap();
    let (code, _, err) = run(&scratch, &resume);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("is damaged, or no database of sessions"), "{err}");
}

#[test]
fn an_argument_is_printed_without_terminal_escapes() {
    let scratch = Scratch::new();
    let (code, _, err) = run(&scratch, &["sessions", "show", "x\u{1b}[31m\u{9b}y"]);
    assert_eq!(code, 1);
    assert!(!err.contains('\u{1b}') && !err.contains('\u{9b}'), "{err:?}");
}

#[test]
fn prune_names_the_undo_data_and_outputs_that_it_deletes() {
    let scratch = Scratch::new();
    printed(&scratch, &["sessions", "list", "--json"]);
    let undo = scratch.sessions().with_file_name("undo").join("session-old");
    fs::create_dir_all(&undo).unwrap();
    fs::write(undo.join("1"), [0; 1234]).unwrap();
    let old = SystemTime::now() - Duration::from_secs(100 * 24 * 3600);
    fs::File::open(&undo).unwrap().set_modified(old).unwrap();
    let named = |end: &str| {
        format!("0 sessions (0 bytes) and undo data and outputs (1,234 bytes) {end}.\n")
    };
    assert_eq!(printed(&scratch, &["sessions", "prune", "--dry-run"]), named("would be deleted"));
    assert!(undo.exists());
    assert_eq!(printed(&scratch, &["sessions", "prune"]), named("deleted"));
    assert!(!undo.exists());
}
