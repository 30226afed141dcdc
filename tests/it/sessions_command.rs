//! The command `callboard sessions`, and the flags of `exec` that continue a session.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use acp_store::{
    NewSession, SessionChange, SessionCwdPaths, SessionHolder, SessionRecord, SessionStore as _,
    SqliteSessionStore,
};
use acp_types::schema::v1::SessionUpdate;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::exec_terminal::TestTerminal;
use crate::harness::scratch::Scratch;
use crate::harness::{Agent, CALLBOARD, DEADLINE, Options};

/// Runs the program in the project folder. Returns its exit code, its stdout and its stderr.
pub(crate) fn run(scratch: &Scratch, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(CALLBOARD);
    command.args(args).current_dir(scratch.cwd()).env_clear().envs(scratch.env());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(!err.contains("panicked"), "{err}");
    (output.status.code().unwrap(), out, err)
}

/// Runs the program, and returns its stdout. The program must succeed and write nothing to stderr.
pub(crate) fn printed(scratch: &Scratch, args: &[&str]) -> String {
    let (code, out, err) = run(scratch, args);
    assert_eq!((code, &*err), (0, ""), "{args:?}: {out}");
    out
}

/// Runs the program, and returns its exit code and its stderr. The program must fail.
pub(crate) fn failure(scratch: &Scratch, args: &[&str]) -> (i32, String) {
    let (code, out, err) = run(scratch, args);
    assert_ne!(code, 0, "{args:?}: {out}{err}");
    (code, err)
}

/// Runs a prompt of the model `direct` in a stored session, and returns the output.
fn exec(scratch: &Scratch, prompt: &str, args: &[&str]) -> String {
    printed(scratch, &[&["exec", "--model", "direct"], args, &[prompt]].concat())
}

/// Returns the stored sessions of all folders. The newest session comes first.
fn listed(scratch: &Scratch) -> Vec<Value> {
    serde_json::from_str(&printed(scratch, &["sessions", "list", "--all", "--json"])).unwrap()
}

fn newest_id(scratch: &Scratch) -> String {
    listed(scratch)[0]["sessionId"].as_str().unwrap().to_owned()
}

/// Starts an agent, and loads a session as a client does. Returns the agent and the response.
async fn load(scratch: &Scratch, id: &str) -> (Agent, Result<Value, Value>) {
    let args = ["acp", "--model", "direct"];
    let mut agent = Agent::start_in(scratch.clone(), &args, &[], Options::default());
    agent.initialize().await.unwrap();
    let params = json!({"sessionId": id, "cwd": scratch.cwd(), "mcpServers": []});
    let loaded = agent.request("session/load", params).await;
    (agent, loaded)
}

#[test]
fn sessions_are_listed_newest_first_for_the_folder_or_for_all() {
    let scratch = Scratch::new();
    let (code, out, err) = run(&scratch, &["sessions"]);
    assert_eq!((code, &*out), (0, ""));
    assert!(err.contains("there is no stored session of ") && err.contains("--all"), "{err}");
    exec(&scratch, "read notes.txt", &[]);
    exec(&scratch, "read README.md", &[]);
    exec(&scratch, "list", &["--cwd", "src"]);
    let all = listed(&scratch);
    let titles: Vec<_> = all.iter().map(|session| session["title"].clone()).collect();
    assert_eq!(titles, ["list", "read README.md", "read notes.txt"]);
    assert_eq!((&all[1]["prompts"], &all[1]["cwd"]), (&json!(1), &json!(scratch.cwd())));
    let line = |at: usize| {
        format!(
            "{}         now  {}",
            all[at]["sessionId"].as_str().unwrap(),
            titles[at].as_str().unwrap()
        )
    };
    let here = printed(&scratch, &["sessions"]);
    assert_eq!(here, format!("{}\n{}\n", line(1), line(2)));
    assert_eq!(here, printed(&scratch, &["sessions", "list"]));
    let everywhere = printed(&scratch, &["sessions", "--all"]);
    let first = format!("{}  {}", line(0), scratch.path("src").display());
    assert_eq!(everywhere.lines().next().unwrap(), first);
    assert_eq!(everywhere.lines().count(), 3);
}

#[test]
fn a_session_is_shown_as_exec_printed_it_with_its_prompts() {
    let scratch = Scratch::new();
    let printed_live = exec(&scratch, "run echo made-by-a-command", &["--approve-all"]);
    let id = newest_id(&scratch);
    let shown = printed(&scratch, &["sessions", "show", &id]);
    let (header, rest) = shown.split_once('\n').unwrap();
    assert_eq!(header, format!("{id} “run echo made-by-a-command” (1 prompt, now)"));
    assert!(rest.contains("› run echo made-by-a-command\n"), "{rest}");
    let output = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("made-by-a-command"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let live = output(&printed_live);
    assert!(live.len() > 1, "{printed_live}");
    assert!(output(rest).iter().any(|line| live.contains(line)), "{rest}");
    // `sessions show` must also work if the folder of the session is gone.
    fs::rename(scratch.cwd(), scratch.cwd().with_extension("moved")).unwrap();
    fs::create_dir(scratch.cwd()).unwrap();
    assert_eq!(printed(&scratch, &["sessions", "show", &id]), shown);
}

#[test]
fn a_long_title_ends_with_one_ellipsis() {
    let scratch = Scratch::new();
    exec(&scratch, &format!("think {}", "ö".repeat(200)), &[]);
    let list = printed(&scratch, &["sessions"]);
    let line = list.lines().next().unwrap();
    assert!(line.ends_with('…') && !line.ends_with("……"), "{list}");
}

#[test]
fn the_beginning_of_an_id_is_enough_if_it_is_unique() {
    let scratch = Scratch::new();
    exec(&scratch, "read notes.txt", &[]);
    exec(&scratch, "list", &[]);
    let id = newest_id(&scratch);
    for beginning in [&id[..], &id[..id.len() - 2], &id["sess_".len()..id.len() - 1]] {
        let shown = printed(&scratch, &["sessions", "show", beginning]);
        assert!(shown.starts_with(&format!("{id} “list”")), "{shown}");
    }
    // All ids begin with the time, so both ids begin with the same characters.
    let common = &id[.."sess_".len() + 4];
    let (code, err) = failure(&scratch, &["sessions", "show", common]);
    let both = listed(&scratch);
    let both: Vec<_> = both.iter().map(|it| it["sessionId"].as_str().unwrap()).collect();
    let several =
        format!("callboard: `{common}` is the beginning of several ids: {}\n", both.join(", "));
    assert_eq!((code, err), (1, several));
    for command in ["show", "export", "delete"] {
        let (code, err) = failure(&scratch, &["sessions", command, "nonsense"]);
        let unknown = "callboard: no stored session has an id that begins with `nonsense`\n";
        assert_eq!((code, &*err), (1, unknown));
        // A script may pass an empty variable as the id.
        for short in ["", "sess_", "sess_01M"] {
            let (code, err) = failure(&scratch, &["sessions", command, short]);
            let need = "give at least 4 characters after `sess_`";
            let expected = format!("callboard: `{short}` is too short: {need}\n");
            assert_eq!((code, err), (1, expected), "{command}");
        }
    }
}

#[test]
fn words_are_found_in_prompts_and_answers() {
    let scratch = Scratch::new();
    fs::write(scratch.path("answer.jsonl"), "{\"text\": \"The heron stands in the reeds.\"}\n")
        .unwrap();
    let model = ["--model", "script:answer.jsonl"];
    printed(&scratch, &[&["exec"], &model[..], &["Which bird is it?"]].concat());
    exec(&scratch, "read notes.txt", &[]);
    let id = listed(&scratch)[1]["sessionId"].as_str().unwrap().to_owned();
    for words in [&["heron"][..], &["REEDS", "her"], &["stands in"]] {
        let found = printed(&scratch, &[&["sessions", "search"], words].concat());
        let lines: Vec<_> = found.lines().collect();
        assert_eq!(lines.len(), 2, "{found}");
        assert!(lines[0].starts_with(&id) && lines[0].ends_with("Which bird is it?"), "{found}");
        assert!(lines[1].starts_with("    1: ") && lines[1].contains("stands"), "{found}");
    }
    let found = printed(&scratch, &["sessions", "search", "bird", "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found[0]["sessionId"], &found[0]["prompt"]), (&json!(id), &json!(1)));
    assert_eq!(found[0]["excerpt"], "Which bird is it?");
    let (code, out, err) = run(&scratch, &["sessions", "search", "ostrich"]);
    assert_eq!((code, &*out), (0, ""));
    assert!(err.contains("there is no match in a stored session of "), "{err}");
}

#[tokio::test]
async fn an_export_has_the_messages_that_a_load_sends() {
    let scratch = Scratch::new();
    exec(&scratch, "read notes.txt", &[]);
    exec(&scratch, "run echo two", &["--continue", "--approve-all"]);
    let id = newest_id(&scratch);
    let exported = printed(&scratch, &["sessions", "export", &id]);
    let file = scratch.path("session.jsonl");
    let path = file.to_str().unwrap();
    printed(&scratch, &["sessions", "export", &id, "--format", "jsonl", "-o", path]);
    assert_eq!(fs::read_to_string(&file).unwrap(), exported);
    let updates = exported.lines().map(|line| {
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&message["jsonrpc"], &message["method"]),
            (&json!("2.0"), &json!("session/update"))
        );
        assert_eq!(message["params"]["sessionId"], json!(id));
        serde_json::from_value(message["params"]["update"].clone()).unwrap()
    });
    let updates: Vec<SessionUpdate> = updates.collect();
    let (mut agent, loaded) = load(&scratch, &id).await;
    loaded.unwrap();
    let sent = agent.client.session(&id).updates.clone();
    // The list of commands and the options belong to the agent, and not to the session.
    let sent = sent.into_iter().filter(|update| {
        !matches!(
            update,
            SessionUpdate::AvailableCommandsUpdate(_) | SessionUpdate::ConfigOptionUpdate(_)
        )
    });
    assert_eq!(updates, sent.collect::<Vec<_>>());
    assert!(updates.len() > 6, "{exported}");
    agent.finish().await;
    // A link stays a link, and a pipe stays a pipe.
    let (link, fifo) = (scratch.path("link"), scratch.path("fifo"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    printed(&scratch, &["sessions", "export", &id, "-o", link.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&file).unwrap(), exported);
    assert!(link.is_symlink());
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || fs::read_to_string(fifo).unwrap())
    };
    printed(&scratch, &["sessions", "export", &id, "-o", fifo.to_str().unwrap()]);
    assert_eq!(reader.join().unwrap(), exported);
    let unwritable = scratch.path("no-such-folder/x");
    let unwritable = unwritable.to_str().unwrap();
    let (code, err) = failure(&scratch, &["sessions", "export", &id, "-o", unwritable]);
    assert_eq!(code, 1);
    assert!(err.starts_with(&format!("callboard: cannot write {unwritable}: ")), "{err}");
}

#[test]
fn an_export_as_html_or_markdown_shows_prompts_calls_and_output() {
    let scratch = Scratch::new();
    exec(&scratch, "run echo '<b>made</b>'", &["--approve-all"]);
    let id = newest_id(&scratch);
    let html = printed(&scratch, &["sessions", "export", &id, "--format", "html"]);
    assert!(html.starts_with("<!doctype html>") || html.starts_with("<!DOCTYPE html>"), "{html}");
    assert!(html.contains("&lt;b&gt;made&lt;/b&gt;") && !html.contains("<b>made"), "{html}");
    let markdown = printed(&scratch, &["sessions", "export", &id, "--format", "markdown"]);
    assert!(markdown.contains("## 1. ") && markdown.contains("✓ **"), "{markdown}");
}

#[tokio::test]
async fn a_session_is_deleted_if_it_is_confirmed_and_not_open() {
    let scratch = Scratch::new();
    exec(&scratch, "read notes.txt", &[]);
    let id = newest_id(&scratch);
    let (code, err) = failure(&scratch, &["sessions", "delete", &id]);
    assert_eq!(code, 1);
    assert!(err.contains("no terminal to ask at") && err.contains("--yes"), "{err}");
    let (mut agent, loaded) = load(&scratch, &id).await;
    loaded.unwrap();
    let process = agent.process_id().unwrap();
    let (code, err) = failure(&scratch, &["sessions", "delete", "--yes", &id]);
    let held = format!("callboard: session {id} is open in process {process} on ");
    assert!(code == 1 && err.starts_with(&held), "{err}");
    // A session that is open in another process can still be read.
    assert!(printed(&scratch, &["sessions", "show", &id]).contains("› read notes.txt"));
    agent.finish().await;
    for (answer, is_kept) in [("n", true), ("", true), ("y", false)] {
        let line = format!("\"$0\" sessions delete {id}");
        let mut terminal = TestTerminal::wide(&scratch, 200, &line);
        let shown = terminal.until_times("[y/N] ", 1);
        assert!(shown.contains(&format!("Delete {id} “read notes.txt”")), "{shown}");
        terminal.types(&format!("{answer}\n"));
        let (code, shown) = terminal.end();
        assert_eq!((code, listed(&scratch).len()), (0, usize::from(is_kept)), "{shown}");
    }
    exec(&scratch, "list", &[]);
    let id = newest_id(&scratch);
    let deleted = printed(&scratch, &["sessions", "delete", "--yes", &id]);
    assert_eq!(deleted, format!("Deleted {id} “list” (1 prompt, now).\n"));
    assert_eq!(listed(&scratch), [json!(null); 0]);
}

/// Stores a session whose last update was this number of days ago.
fn store_old_session(scratch: &Scratch, id: &str, days: u64) {
    let now = SystemTime::now();
    let holder = SessionHolder::new(1, "test", now);
    let store = SqliteSessionStore::open(&scratch.sessions(), holder, || 4).unwrap();
    let folder = SessionCwdPaths { cwd: scratch.cwd(), canonical: scratch.cwd() };
    let new = NewSession::new(id.to_owned(), folder);
    let prompt = SessionChange::Prompt(SessionRecord::new("prompt", 1, &json!({})).unwrap());
    drop(store.create(&new, &[prompt], now - Duration::from_secs(days * 24 * 3600)).unwrap());
}

#[tokio::test]
async fn old_sessions_are_deleted_by_prune_and_once_a_day_when_a_session_begins() {
    let scratch = Scratch::new();
    for (id, days) in [("new", 1), ("old", 8), ("oldest", 91)] {
        store_old_session(&scratch, id, days);
    }
    let ids = || listed(&scratch).iter().map(|it| it["sessionId"].clone()).collect::<Vec<_>>();
    let dry = printed(&scratch, &["sessions", "prune", "--dry-run"]);
    assert!(dry.starts_with("oldest ") && dry.contains("\n1 session ("), "{dry}");
    assert!(dry.ends_with(" would be deleted.\n"), "{dry}");
    assert_eq!(ids(), ["new", "old", "oldest"]);
    let pruned = printed(&scratch, &["sessions", "prune"]);
    assert!(pruned.starts_with("1 session (") && pruned.ends_with(" deleted.\n"), "{pruned}");
    assert_eq!(ids(), ["new", "old"]);
    let config = scratch.cwd().with_file_name("home").join("CONFIG_HOME/callboard/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "[sessions]\nkeep_days = 7\n").unwrap();
    // Marks the last automatic deletion as two days old.
    let mark = fs::File::create(scratch.sessions().with_file_name("pruned")).unwrap();
    mark.set_modified(SystemTime::now() - Duration::from_secs(2 * 24 * 3600)).unwrap();
    let args = ["acp", "--model", "direct"];
    let mut agent = Agent::start_in(scratch.clone(), &args, &[], Options::default());
    agent.initialize().await.unwrap();
    agent.new_session().await;
    let deadline = Instant::now() + DEADLINE;
    while ids() != ["new"] {
        assert!(Instant::now() < deadline, "{:?}", ids());
    }
    agent.finish().await;
}

#[test]
fn exec_continues_the_newest_session_of_the_folder_or_a_named_session() {
    let scratch = Scratch::new();
    for flags in [&["--continue"][..], &["--resume", "nonsense"]] {
        let (code, err) =
            failure(&scratch, &[&["exec", "--model", "direct", "list"], flags].concat());
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("no stored session"), "{err}");
    }
    exec(&scratch, "read notes.txt", &[]);
    let first = newest_id(&scratch);
    exec(&scratch, "list", &["--cwd", "src"]);
    let shown = exec(&scratch, "read README.md", &["--continue"]);
    let line = format!("Continuing {first} “read notes.txt” (1 prompt, now).\n");
    assert!(shown.starts_with(&line), "{shown}");
    assert!(shown.contains("README.md"), "{shown}");
    let shown = exec(&scratch, "/help", &["--resume", &first["sess_".len()..]]);
    assert!(shown.starts_with(&format!("Continuing {first} “read notes.txt” (2 prompts, now).\n")));
    let all = listed(&scratch);
    assert_eq!((&all[0]["sessionId"], &all[0]["prompts"]), (&json!(first), &json!(3)));
    assert_eq!(all.len(), 2);
    // Continues the session in another folder.
    let shown = exec(&scratch, "list", &["--resume", &first, "--cwd", "src"]);
    let moved = format!(" It was in {}.\n", scratch.cwd().display());
    assert!(shown.contains(&moved), "{shown}");
    assert_eq!(listed(&scratch)[0]["cwd"], json!(scratch.path("src")));
    let locks = fs::read_dir(scratch.sessions().join("open")).unwrap();
    assert_eq!(locks.count(), 0, "each run closed its session");
}

#[test]
fn exec_continues_a_copy_and_leaves_the_session_as_it_was() {
    let scratch = Scratch::new();
    exec(&scratch, "read notes.txt", &[]);
    let id = newest_id(&scratch);
    let before = printed(&scratch, &["sessions", "export", &id]);
    let shown = exec(&scratch, "read README.md", &["--fork", &id]);
    let all = listed(&scratch);
    let copy = all[0]["sessionId"].as_str().unwrap();
    let line = format!("Continuing {copy}, a copy of {id} “read notes.txt” (1 prompt, now).\n");
    assert!(shown.starts_with(&line), "{shown}");
    assert_eq!((&all[0]["prompts"], &all[0]["parent"]), (&json!(2), &json!(id)));
    assert_eq!(all.len(), 2);
    assert_eq!(printed(&scratch, &["sessions", "export", &id]), before);
    let copied = printed(&scratch, &["sessions", "show", copy]);
    assert!(copied.contains("› read notes.txt") && copied.contains("› read README.md"), "{copied}");
}

#[test]
fn flags_replace_the_mode_and_the_model_of_a_continued_session() {
    let scratch = Scratch::new();
    exec(&scratch, "read notes.txt", &["--mode", "read-only"]);
    fs::write(scratch.path("answer.jsonl"), "{\"text\": \"From the script.\"}\n").unwrap();
    let prompt = "write new.txt\n<<<\nx\n>>>";
    run(&scratch, &["exec", "--model", "direct", "--continue", prompt]);
    assert!(!scratch.path("new.txt").exists());
    let flags = ["--continue", "--mode", "auto"];
    exec(&scratch, prompt, &flags);
    assert!(scratch.path("new.txt").exists());
    let model = ["exec", "--continue", "--model", "script:answer.jsonl", "Hello"];
    assert!(printed(&scratch, &model).contains("From the script."));
}

#[test]
fn a_continued_session_keeps_its_model_although_no_model_is_set_up() {
    let scratch = Scratch::new();
    // The session is searched for before the model.
    for flags in [&["--continue"][..], &["--resume", "nonsense"]] {
        let (code, err) = failure(&scratch, &[&["exec", "list"], flags].concat());
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("no stored session"), "{err}");
    }
    exec(&scratch, "read notes.txt", &[]);
    let id = newest_id(&scratch);
    for flags in [&["--continue"][..], &["--resume", &id], &["--fork", &id]] {
        for prompt in ["/mode", "read README.md"] {
            let shown = printed(&scratch, &[&["exec", prompt], flags].concat());
            assert!(shown.contains("README.md") || prompt == "/mode", "{shown}");
        }
    }
}

#[test]
fn a_continued_session_keeps_its_mode_unless_a_stricter_mode_is_set() {
    let notice = "The mode of this session was `auto`.";
    for (file, flags, expected, is_notified) in [
        ("", &[][..], "auto", false),
        ("mode = 'auto'\n", &[], "auto", false),
        ("mode = 'ask-always'\n", &[], "ask-always", true),
        ("mode = 'ask-always'\n", &["--mode", "auto"], "auto", false),
        ("", &["--mode", "ask"], "ask", true),
    ] {
        let scratch = Scratch::new();
        exec(&scratch, "read notes.txt", &["--mode", "auto"]);
        scratch.write_config(file);
        let shown = exec(&scratch, "/mode", &[&["--continue"], flags].concat());
        let now = shown.lines().find(|line| line.ends_with("← now")).unwrap();
        assert!(now.contains(&format!("`{expected}`")), "{file} {flags:?}: {shown}");
        assert_eq!(shown.contains(notice), is_notified, "{file} {flags:?}: {shown}");
    }
    let scratch = Scratch::new();
    exec(&scratch, "read notes.txt", &["--mode", "read-only"]);
    scratch.write_config("mode = 'auto'\n");
    let shown = exec(&scratch, "/mode", &["--continue"]);
    assert!(shown.lines().any(|line| line.contains("`read-only`") && line.ends_with("← now")));
}

#[test]
fn the_command_that_fork_prints_continues_the_copy() {
    let scratch = Scratch::new();
    exec(&scratch, "read notes.txt", &[]);
    let shown = exec(&scratch, "/fork", &["--continue"]);
    let command = shown.lines().find_map(|line| line.trim().strip_prefix("callboard ")).unwrap();
    let (flags, prompt) = command.rsplit_once(' ').unwrap();
    assert_eq!(prompt, "\"PROMPT\"");
    let args: Vec<_> = flags.split(' ').chain(["list"]).collect();
    let id = args[2];
    let shown = printed(&scratch, &args);
    assert!(shown.starts_with(&format!("Continuing {id} ")), "{shown}");
}

#[test]
fn an_export_to_a_dash_is_printed_and_an_error_names_the_given_file() {
    let scratch = Scratch::new();
    exec(&scratch, "read notes.txt", &[]);
    let id = newest_id(&scratch);
    let exported = printed(&scratch, &["sessions", "export", &id]);
    assert_eq!(printed(&scratch, &["sessions", "export", &id, "-o", "-"]), exported);
    assert!(!scratch.path("-").exists());
    let file = "/nonexistent/x.html";
    let (code, err) = failure(&scratch, &["sessions", "export", &id, "-o", file]);
    assert_eq!(code, 1);
    let expected = format!("callboard: cannot write {file}: No such file or directory");
    assert!(err.starts_with(&expected), "{err}");
}
