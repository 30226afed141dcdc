//! Commands of a session in their sandbox: what they can do in each mode, and which permissions
//! they need.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::scratch::Scratch;
use crate::harness::script::{Model, call, end, run, text};
use crate::harness::session::call_text;
use crate::harness::{Agent, CALLBOARD, Options, PermissionReply, SANDBOX};
use crate::sandbox::has_namespaces;

const ALLOW: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowOnce);
const ALWAYS: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowAlways);
const REJECT: PermissionReply = PermissionReply::Select(PermissionOptionKind::RejectOnce);

/// Starts the agent with a sandbox, and opens a session in the given mode. Returns `None` if this
/// system has no namespaces.
async fn ready(model: impl Into<Model>, mode: &str, options: impl Into<Options>) -> Option<Agent> {
    let scratch = Scratch::outside_tmp();
    if !has_namespaces(&scratch) {
        return None;
    }
    let home = home(&scratch);
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/id"), "canary-key").unwrap();
    let model = scratch.model(&model.into());
    let args = ["acp", SANDBOX, "--model", &model, "--mode", mode];
    let mut agent = Agent::start_in(scratch, &args, &[], options);
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    Some(agent)
}

fn home(scratch: &Scratch) -> PathBuf {
    Path::new(&scratch.env()["HOME"]).to_owned()
}

/// Returns the status and the text of the last call.
fn last_call(agent: &Agent) -> (ToolCallStatus, String) {
    let calls = agent.session().calls();
    let call = calls.last().expect("a call");
    (call.status, call_text(call))
}

fn asked(agent: &Agent) -> usize {
    agent.client.permission_requests.len()
}

/// Writes a script that connects to a server on this computer. The agent cannot see from the
/// command, which only runs the script, that the network is used.
fn write_connecting_script(agent: &Agent, server: &TcpListener) {
    let port = server.local_addr().unwrap().port();
    let line = format!("echo > /dev/tcp/127.0.0.1/{port}");
    fs::write(agent.scratch.path("script.sh"), line).unwrap();
}

#[tokio::test]
async fn without_a_sandbox_only_a_variable_that_the_command_receives_asks_before_it_is_changed() {
    let Some(mut agent) = ready(Model::Direct, "auto", REJECT).await else { return };
    fs::write(agent.scratch.path("script.sh"), "env").unwrap();
    agent.turn("run sh script.sh").await;
    let environment = last_call(&agent).1;
    agent.finish().await;
    let names = environment.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned()));
    // Changes of these variables are harmless.
    let is_harmless = |name: &String| {
        ["_", "LANG", "LANGUAGE", "TERM"].contains(&&**name) || name.starts_with("LC_")
    };
    let names: Vec<_> = names.filter(|name| !is_harmless(name)).collect();
    assert!(
        ["HTTP_PROXY", "PATH", "TMPDIR"].iter().all(|name| names.contains(&(*name).to_owned()))
    );
    let args = ["acp", "--model", "direct", "--mode", "auto"];
    let mut agent = Agent::start_in(Scratch::outside_tmp(), &args, &[], REJECT);
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    agent.turn("run OUT_DIR=a; echo \"is $OUT_DIR\"").await;
    assert_eq!((asked(&agent), last_call(&agent).1.contains("is a")), (0, true));
    for (count, name) in names.iter().enumerate() {
        agent.turn(&format!("run {name}=x; true")).await;
        assert_eq!(asked(&agent), count + 1, "{name}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_command_with_unknown_effects_runs_in_namespaces_without_a_question() {
    let Some(mut agent) = ready(Model::Direct, "auto", REJECT).await else { return };
    for line in [
        "case a in a) echo done;; esac",
        "for ((i = 0; i < 1; i++)); do echo done; done",
        "PATH=/bin; X='echo done'; eval \"$X\"",
        "LOG=made; echo done > \"$LOG\"; cat made",
        "echo 'echo done' | sh",
    ] {
        agent.turn(&format!("run {line}")).await;
        let (status, shown) = last_call(&agent);
        let is_done = status == ToolCallStatus::Completed && shown.contains("done\n");
        assert_eq!((asked(&agent), is_done), (0, true), "{line}: {shown}");
    }
    agent.turn("run sudo true").await;
    assert_eq!((asked(&agent), last_call(&agent).0), (1, ToolCallStatus::Failed));
    agent.finish().await;
}

#[tokio::test]
async fn a_command_that_no_person_sees_changes_only_the_project_and_reads_no_keys() {
    let Some(mut agent) = ready(Model::Direct, "auto", REJECT).await else { return };
    let home = home(&agent.scratch);
    fs::create_dir_all(agent.scratch.path(".git/hooks")).unwrap();
    for (name, text) in [("HEAD", "ref: refs/heads/main"), ("config", "[core]")] {
        fs::write(agent.scratch.path(".git").join(name), text).unwrap();
    }
    for (line, expected) in [
        ("echo x > made && cat made", "x"),
        ("echo x > ~/made", "Read-only file system"),
        ("cat ~/.ssh/id", "No such file or directory"),
        ("echo x > .git/hooks/pre-commit", "Read-only file system"),
        ("echo x > .git/config", "Read-only file system"),
        ("mkdir .vscode", "File exists"),
        ("mkdir -p .github/workflows", "Not a directory"),
        ("rm .vscode", "Device or resource busy"),
    ] {
        // The line is run from a script, because the agent would recognize the line itself as
        // dangerous.
        fs::write(agent.scratch.path("script.sh"), line).unwrap();
        agent.turn("run sh script.sh").await;
        let (_, text) = last_call(&agent);
        assert!(text.contains(expected) && !text.contains("canary-key"), "{line}: {text}");
    }
    assert_eq!(asked(&agent), 0);
    assert!(agent.scratch.path("made").exists() && !home.join("made").exists());
    for name in [".vscode", ".github"] {
        assert!(fs::symlink_metadata(agent.scratch.path(name)).is_err(), "{name}");
    }
    agent.finish().await;
}

/// The agent runs as an ordinary user, because the capabilities of root can hide faults of the
/// sandbox.
#[tokio::test]
async fn commands_of_an_ordinary_user_run_in_the_sandbox() {
    const USER: u32 = 12345;
    let scratch = Scratch::new();
    if !rustix::process::geteuid().is_root() || !has_namespaces(&scratch) {
        return;
    }
    let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The program is copied, because another user may have no access to the folder of the built
    // program.
    let program = folder.path().join("callboard");
    fs::copy(CALLBOARD, &program).unwrap();
    fs::create_dir_all(home(&scratch).join(".npm")).unwrap();
    let script = [
        run("echo x > made && cat made && id -u"),
        end(),
        run("cat made; sh script.sh"),
        run("sh script.sh"),
        end(),
        text("Done."),
    ];
    let model = scratch.model(&script.into());
    let line = format!("echo x > {}", folder.path().join("made").display());
    fs::write(scratch.path("script.sh"), line).unwrap();
    scratch.give_to(USER);
    let args = ["acp", SANDBOX, "--model", &model, "--mode", "auto"];
    let mut agent = Agent::start_program(&program, scratch, &args, REJECT, |command| {
        command.uid(USER).gid(USER);
    });
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let calls = agent.session().calls();
    let shown: Vec<_> = calls.iter().map(|call| call_text(call)).collect();
    assert!(
        shown[0].contains("12345") && calls[0].status == ToolCallStatus::Completed,
        "{shown:?}"
    );
    assert!(shown[1..].iter().all(|text| text.contains("Read-only file system")), "{shown:?}");
    assert_eq!(asked(&agent), 0);
    agent.finish().await;
}

#[tokio::test]
async fn each_mode_decides_about_sandboxed_commands() {
    for (mode, requests, status) in [
        ("read-only", 0, ToolCallStatus::Failed),
        ("ask-always", 1, ToolCallStatus::Failed),
        ("ask", 1, ToolCallStatus::Failed),
        ("accept-edits", 0, ToolCallStatus::Completed),
        ("auto", 0, ToolCallStatus::Completed),
    ] {
        let Some(mut agent) = ready(Model::Direct, mode, REJECT).await else { return };
        agent.turn("run true").await;
        assert_eq!((asked(&agent), last_call(&agent).0), (requests, status), "{mode}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn only_a_command_that_was_asked_about_reaches_the_network_of_the_host() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(mut agent) = ready(Model::Direct, "ask", ALWAYS).await else { return };
    write_connecting_script(&agent, &server);
    agent.turn("run bash script.sh").await;
    let (status, shown) = last_call(&agent);
    assert_eq!(status, ToolCallStatus::Completed, "{shown}");
    assert!(shown.contains("in a sandbox") && shown.contains("access to the network"), "{shown}");
    // The remembered answer allows the command, but not its access to the network.
    agent.turn("run bash script.sh").await;
    assert_eq!((asked(&agent), last_call(&agent).0), (1, ToolCallStatus::Failed));
    agent.finish().await;
}

#[tokio::test]
async fn a_command_that_the_sandbox_stops_can_run_outside_after_a_question() {
    let outside =
        |why: &str| call("terminal", json!({"command": "sh script.sh", "outside_sandbox": why}));
    let script = [run("sh script.sh"), end(), outside("it installs a hook"), end(), text("Done.")];
    let Some(mut agent) = ready(script, "auto", ALLOW).await else { return };
    let made = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    let made = made.path().join("made");
    fs::write(agent.scratch.path("script.sh"), format!("echo x > '{}'", made.display())).unwrap();
    assert_eq!(agent.turn("go").await, "end_turn");
    let calls = agent.session().calls();
    let [stopped, ran] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((stopped.status, ran.status), (ToolCallStatus::Failed, ToolCallStatus::Completed));
    assert_eq!(asked(&agent), 1);
    let question = call_text(ran);
    let expected = ["outside of the sandbox", "Read-only file system", "it installs a hook"];
    assert!(expected.iter().all(|part| question.contains(part)), "{question}");
    assert!(made.exists());
    agent.finish().await;
}

#[tokio::test]
async fn commands_of_a_session_share_temporary_files_and_servers() {
    let serve = json!({
        "command": "python3 -m http.server 4000 --bind 127.0.0.1",
        "background": true,
    });
    let fetch = "for i in $(seq 50); do python3 -c 'import urllib.request as r; \
                 print(r.urlopen(\"http://127.0.0.1:4000/notes.txt\").read().decode())' && exit; \
                 sleep 0.1; done; exit 1";
    let script = [
        run("echo shared > /tmp/file; echo $TMPDIR"),
        end(),
        call("terminal", serve),
        end(),
        run("cat /tmp/file"),
        run(fetch),
        end(),
        text("Done."),
    ];
    let Some(mut agent) = ready(script, "auto", REJECT).await else { return };
    assert_eq!(agent.turn("go").await, "end_turn");
    let texts: Vec<_> =
        agent.session().calls().iter().map(|it| (it.status, call_text(it))).collect();
    for (index, expected) in [(0, "/tmp"), (2, "shared"), (3, "two")] {
        assert_eq!(texts[index].0, ToolCallStatus::Completed, "{texts:?}");
        assert!(texts[index].1.contains(expected), "{texts:?}");
    }
    assert_eq!(asked(&agent), 0);
    assert!(!Path::new("/tmp/file").exists());
    agent.finish().await;
}

#[tokio::test]
async fn caches_are_changed_only_for_the_commands_of_the_session() {
    let script = [
        run("cat ~/.npm/old && echo x > ~/.npm/new && rm ~/.npm/old && mkdir ~/.npm/closed && \
             chmod 0 ~/.npm/closed"),
        end(),
        run("ls ~/.npm; echo $XDG_CACHE_HOME; mkdir -p $XDG_CACHE_HOME/pip"),
        end(),
        text("Done."),
    ];
    let scratch = Scratch::new();
    if !has_namespaces(&scratch) {
        return;
    }
    // The home folder is not in `/tmp`, because the sandbox hides the system's `/tmp`.
    let home = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    fs::create_dir(home.path().join(".npm")).unwrap();
    fs::write(home.path().join(".npm/old"), "old").unwrap();
    let model = scratch.model(&script.to_vec().into());
    let args = ["acp", SANDBOX, "--model", &model, "--mode", "auto"];
    let env = [("HOME", home.path().to_str().unwrap())];
    let mut agent = Agent::start_in(scratch, &args, &env, ALLOW);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let texts: Vec<_> = agent.session().calls().iter().map(|call| call_text(call)).collect();
    assert!(texts[0].contains("old"), "{texts:?}");
    for expected in ["closed", "new", "/tmp/.caches/cache"] {
        assert!(texts[1].contains(expected), "{expected}: {texts:?}");
    }
    assert_eq!(agent.session().calls()[1].status, ToolCallStatus::Completed, "{texts:?}");
    let names: Vec<_> = fs::read_dir(home.path().join(".npm")).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(home.path().join(".npm/old").exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_command_cannot_read_a_file_that_a_rule_denies_reading() {
    let scratch = Scratch::new();
    if !has_namespaces(&scratch) {
        return;
    }
    let rules = scratch.sessions().with_file_name("permissions");
    fs::create_dir_all(&rules).unwrap();
    let rule = json!({
        "scope": "user",
        "matcher": {"path": {"access": "read", "glob": "/**/*.TXT"}},
        "verdict": "deny",
    });
    fs::write(rules.join("user.json"), json!({"rules": [rule]}).to_string()).unwrap();
    let args = ["acp", SANDBOX, "--model", "direct", "--mode", "auto"];
    let mut agent = Agent::start_in(scratch, &args, &[], REJECT);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    agent.turn("run cat notes.*").await;
    let (_, shown) = last_call(&agent);
    assert!(!shown.contains("two"), "{shown}");
    assert!(shown.contains("notes.txt: Permission denied"), "{shown}");
    agent.finish().await;
}

/// A command that requests two pages of one host and one page of another host. It is a Python
/// script, because Python reads the environment variables of the proxy.
const TWO_HOSTS: &str =
    "run python3 fetch.py http://a.example/1 http://a.example/2 http://b.example/";
const FETCH: &str = "import sys, urllib.request
for url in sys.argv[1:]:
    try: urllib.request.urlopen(url, timeout=30)
    except urllib.error.HTTPError as error: print(url, error.code, error.read().decode())
";

#[tokio::test]
async fn each_new_host_of_a_command_is_one_question_on_its_card() {
    let Some(mut agent) = ready(Model::Direct, "auto", REJECT).await else { return };
    fs::write(agent.scratch.path("fetch.py"), FETCH).unwrap();
    agent.turn(TWO_HOSTS).await;
    let (status, shown) = last_call(&agent);
    assert_eq!((asked(&agent), status), (2, ToolCallStatus::Completed), "{shown}");
    for expected in [
        "wants to connect to a.example.",
        "http://a.example/2 403 Connections to a.example are not permitted.",
        "Connections were refused to: a.example, b.example",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let request = &agent.client.permission_requests[0].request;
    assert_eq!(&*request.tool_call.tool_call_id.0, &*agent.session().calls()[0].tool_call_id.0);
    let names: Vec<_> = request.options.iter().map(|option| &*option.name).collect();
    assert!(names.contains(&"Always allow connecting to a.example in this session"), "{names:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_permitted_host_is_connected_to_and_remembered() {
    let Some(mut agent) = ready(Model::Direct, "auto", ALWAYS).await else { return };
    fs::write(agent.scratch.path("fetch.py"), FETCH).unwrap();
    for _ in 0..2 {
        agent.turn("run python3 fetch.py http://a.invalid/").await;
        let (_, shown) = last_call(&agent);
        // The host name does not exist, so the connection fails after the permission request.
        assert!(shown.contains("http://a.invalid/ 502"), "{shown}");
    }
    assert_eq!(asked(&agent), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_permitted_host_can_be_kept_for_the_project() {
    let Some(mut agent) = ready(Model::Direct, "auto", ALWAYS).await else { return };
    fs::write(agent.scratch.path("fetch.py"), FETCH).unwrap();
    agent.turn("run python3 fetch.py http://a.invalid/").await;
    agent.turn("/permissions keep 1").await;
    agent.new_session().await;
    agent.turn("run python3 fetch.py http://a.invalid/ http://b.invalid/").await;
    let (_, shown) = last_call(&agent);
    assert!(shown.contains("http://a.invalid/ 502"), "{shown}");
    let asked: Vec<_> = agent
        .client
        .permission_requests
        .iter()
        .map(|asked| &*asked.request.options[1].name)
        .collect();
    let expected =
        ["a", "b"].map(|host| format!("Always allow connecting to {host}.invalid in this session"));
    assert_eq!(asked, expected);
    agent.finish().await;
}

#[tokio::test]
async fn the_loopback_interface_of_the_host_is_no_host_that_can_be_permitted() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let Some(mut agent) = ready(Model::Direct, "auto", ALWAYS).await else { return };
    let fetch =
        FETCH.replace("import sys", "import os, sys; os.environ['no_proxy'] = ''; import sys");
    fs::write(agent.scratch.path("fetch.py"), fetch).unwrap();
    for host in ["127.0.0.1", "[::1]", "169.254.169.254"] {
        agent.turn(&format!("run python3 fetch.py http://{host}:{port}/")).await;
        let (_, shown) = last_call(&agent);
        assert!(shown.contains("/ 403 "), "{shown}");
    }
    server.set_nonblocking(true).unwrap();
    assert!(server.accept().is_err());
    agent.finish().await;
}

#[tokio::test]
async fn a_question_about_a_host_ends_with_its_turn() {
    let Some(mut agent) = ready(Model::Direct, "auto", PermissionReply::NoReply).await else {
        return;
    };
    fs::write(agent.scratch.path("fetch.py"), FETCH).unwrap();
    let prompt = agent.prompt(TWO_HOSTS).await;
    agent.until(|client| client.permission_requests.len() == 1).await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    assert_eq!(asked(&agent), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_sandboxed_command_runs_after_changes_that_no_person_saw() {
    let Some(mut agent) = ready(Model::Direct, "accept-edits", ALWAYS).await else { return };
    agent.turn("edit notes.txt\n<<<\ntwo\n===\n2\n>>>").await;
    agent.turn("run sh -c true").await;
    assert_eq!((asked(&agent), last_call(&agent).0), (0, ToolCallStatus::Completed));
    agent.finish().await;
}

#[tokio::test]
async fn parallel_commands_do_not_disturb_each_other() {
    for _ in 0..5 {
        let script =
            [run("echo a >> ran"), run("echo b >> ran"), run("echo c >> ran"), end(), end()];
        let Some(mut agent) = ready(script, "auto", REJECT).await else { return };
        assert_eq!(agent.turn("go").await, "end_turn");
        let mut lines: Vec<_> = agent.scratch.read("ran").lines().map(str::to_owned).collect();
        lines.sort();
        let shown: Vec<_> = agent.session().calls().iter().map(|call| call_text(call)).collect();
        assert_eq!(lines, ["a", "b", "c"], "{shown:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_sandbox_is_shown_in_the_options_and_in_the_response() {
    let Some(mut agent) = ready(Model::Direct, "auto", REJECT).await else { return };
    assert_eq!(agent.session().option_value("sandbox"), Some("namespaces"));
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": []});
    let response = agent.request("session/new", params).await.unwrap();
    let sandbox = &response["_meta"]["callboard"]["sandbox"];
    let expected = json!({
        "mode": "namespaces",
        "guarantees": {
            "fsIsolation": "workspace", "netIsolation": "restricted", "processCaps": true,
        },
    });
    assert_eq!(*sandbox, expected);
    let id = agent.session_id();
    for (value, is_offered) in [("namespaces", true), ("off", false)] {
        let params = json!({"sessionId": id, "configId": "sandbox", "value": value});
        assert_eq!(agent.request("session/set_config_option", params).await.is_ok(), is_offered);
    }
    agent.finish().await;
}

/// In the sandbox of `callboard sandbox run`, namespaces are refused, and Landlock works.
#[test]
fn where_namespaces_are_refused_landlock_isolates_commands() {
    let scratch = Scratch::new();
    if !has_namespaces(&scratch) {
        return;
    }
    let program = scratch.visible_program();
    let program = program.to_str().unwrap();
    let inside = |args: &[&str]| {
        crate::sandbox::run(&scratch, &[&["sandbox", "run", "--", program], args].concat())
    };
    let (_, report) = inside(&["doctor", "sandbox"]);
    assert!(report.starts_with("Sandbox: Landlock"), "{report}");
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let outside = outside.path().join("made");
    let script = format!(
        "echo x > made; echo x > {}; echo > /dev/tcp/127.0.0.1/9; echo evil > .envrc; \
         mkdir .vscode && echo evil > .vscode/tasks.json",
        outside.display()
    );
    // The outer sandbox protects only the names in its own project folder.
    fs::create_dir(scratch.path("inner")).unwrap();
    fs::write(scratch.path("inner/script.sh"), script).unwrap();
    let exec = ["exec", "--ephemeral", "--model", "direct", "--mode", "auto", "--cwd", "inner"];
    let (_, shown) = inside(&[&exec[..], &["run bash script.sh"]].concat());
    for line in ["made: Read-only file system", "socket: Operation not permitted"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!outside.exists());
    assert!(scratch.path("inner/made").exists(), "{shown}");
    // Landlock cannot prevent the creation of these names.
    assert!(shown.contains("changes were undone: .vscode, .envrc"), "{shown}");
    assert!(!scratch.path("inner/.envrc").exists() && !scratch.path("inner/.vscode").exists());
    let names = fs::read_dir(scratch.path("inner")).unwrap().map(|it| it.unwrap().file_name());
    let kept = names.filter(|name| name.to_string_lossy().contains(".changed-by-command-"));
    assert_eq!(kept.count(), 2);
}

#[tokio::test]
async fn executable_files_and_names_with_a_dot_that_a_command_makes_are_listed() {
    let Some(mut agent) = ready(Model::Direct, "auto", REJECT).await else { return };
    let line = "mkdir -p target/debug && touch target/debug/tool .settings plain && \
                chmod +x target/debug/tool && echo '#!/bin/sh' > run.sh && chmod +x run.sh";
    agent.turn(&format!("run {line}")).await;
    let (status, text) = last_call(&agent);
    assert!(status == ToolCallStatus::Completed, "{text}");
    assert!(text.contains("names with a dot were made or changed: .settings, run.sh"), "{text}");
    agent.turn("run true").await;
    let (_, text) = last_call(&agent);
    assert!(!text.contains("made or changed"), "{text}");
    agent.finish().await;
}

/// If a protected file changes while a command runs in the background, the user may have made the
/// change. The agent therefore does not undo it.
#[tokio::test]
async fn what_a_command_does_in_the_background_is_reported_at_its_end() {
    let start = json!({"command": "sh script.sh", "background": true});
    let wait = json!({"id": "bg-1", "wait_ms": 60_000});
    let script = [call("terminal", start), end(), text("Started."), json!({"end": "end_turn"})];
    let script = script.into_iter().chain([call("terminal_output", wait), end(), text("Done.")]);
    let Some(mut agent) = ready(script.collect::<Vec<_>>(), "auto", REJECT).await else { return };
    let line = "while [ ! -e go ]; do sleep 0.01; done; echo x > .gitmodules
                python3 fetch.py http://a.example/";
    fs::write(agent.scratch.path("script.sh"), line).unwrap();
    fs::write(agent.scratch.path("fetch.py"), FETCH).unwrap();
    agent.turn("start").await;
    let (_, text) = last_call(&agent);
    assert!(text.contains("continues in the background"), "{text}");
    fs::write(agent.scratch.path("go"), "").unwrap();
    agent.turn("wait").await;
    let (_, text) = last_call(&agent);
    for expected in [
        "it or another program changed protected files: .gitmodules.",
        "names with a dot were made or changed: .gitmodules",
        "Connections were refused to: a.example",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!((asked(&agent), agent.scratch.read(".gitmodules")), (0, "x\n".to_owned()));
    agent.finish().await;
}

/// While a command runs, the sandbox occupies missing names with placeholders.
#[tokio::test]
async fn placeholders_are_no_files_for_the_other_tools() {
    let start = json!({"command": "echo begun; sleep 600", "background": true});
    let write = json!({"path": "CLAUDE.md", "content": "x"});
    let script = [
        call("terminal", start),
        end(),
        call("list_directory", json!({})),
        call("find_path", json!({"pattern": "*.{md,txt}"})),
        call("write_file", write),
        end(),
        text("Done."),
    ];
    let Some(mut agent) = ready(script.to_vec(), "auto", ALLOW).await else { return };
    assert_eq!(agent.turn("go").await, "end_turn");
    assert!(fs::symlink_metadata(agent.scratch.path("CLAUDE.md")).is_ok());
    let texts: Vec<_> = agent.session().calls().iter().map(|call| call_text(call)).collect();
    let [_, listed, found, written] = &texts[..] else { panic!("{texts:#?}") };
    assert!(!listed.contains("socket") && listed.contains("notes.txt"), "{listed}");
    assert!(!found.contains("CLAUDE.md") && found.contains("notes.txt"), "{found}");
    assert!(written.contains("a command is running whose sandbox protects"), "{written}");
    agent.finish().await;
}

#[tokio::test]
async fn file_tools_and_commands_share_the_private_tmp() {
    let Some(mut agent) = ready(Model::Direct, "accept-edits", REJECT).await else { return };
    let name = format!("callboard-it-{}.txt", std::process::id());
    let path = format!("/tmp/{name}");
    agent.turn(&format!("run echo from-a-command > {path}")).await;
    agent.turn(&format!("read {path}")).await;
    let (status, text) = last_call(&agent);
    assert!(status == ToolCallStatus::Completed && text.contains("from-a-command"), "{text}");
    let calls = agent.session().calls();
    let read = calls.last().unwrap();
    assert!(read.title.contains(&path), "{}", read.title);
    let shown = &read.locations[0].path;
    assert_eq!(fs::read_to_string(shown).unwrap(), "from-a-command\n", "{}", shown.display());
    agent.turn(&format!("edit {path}\n<<<\nfrom-a-command\n===\nfrom-a-tool\n>>>")).await;
    let (status, text) = last_call(&agent);
    assert_eq!((asked(&agent), status), (0, ToolCallStatus::Completed), "{text}");
    agent.turn(&format!("run cat {path}")).await;
    let (_, text) = last_call(&agent);
    assert!(text.contains("from-a-tool"), "{text}");
    // A file in the system's own `/tmp` is outside of the private folder, so reading it needs
    // permission.
    let system = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    agent.turn(&format!("read {}", system.path().display())).await;
    assert_eq!((asked(&agent), Path::new(&path).exists()), (1, false));
    agent.finish().await;
}

#[tokio::test]
async fn placeholders_of_killed_commands_are_removed_when_a_session_opens() {
    use std::os::unix::net::UnixListener;
    let scratch = Scratch::new();
    let left = scratch.path(".vscode");
    drop(UnixListener::bind(&left).unwrap());
    fs::set_permissions(&left, fs::Permissions::from_mode(0o1444)).unwrap();
    let mut agent = Agent::start_in(scratch, &["acp", "--model", "direct"], &[], REJECT);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    let begun = Instant::now();
    while fs::symlink_metadata(&left).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    agent.finish().await;
}

#[tokio::test]
async fn commands_fail_if_namespaces_are_remembered_but_no_longer_work() {
    let scratch = Scratch::outside_tmp();
    if !has_namespaces(&scratch) {
        return;
    }
    let args = ["acp", SANDBOX, "--ephemeral", "--model", "direct", "--mode", "auto"];
    let memory = Path::new(&scratch.env()["XDG_STATE_HOME"]).join("callboard/namespaces");
    fs::create_dir_all(memory.parent().unwrap()).unwrap();
    let mut agent = Agent::start_in(scratch.clone(), &args, &[], ALLOW);
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    agent.finish().await;
    assert!(memory.exists());

    // Without any file size, the trial fails, because its helper gets its order in a file. Commands
    // need no such file, so they run until the trial.
    let limited = scratch.path("limited");
    let script = format!("#!/bin/sh\ntrap '' XFSZ\nulimit -f 0\nexec {CALLBOARD} \"$@\"\n");
    fs::write(&limited, script).unwrap();
    fs::set_permissions(&limited, fs::Permissions::from_mode(0o700)).unwrap();
    let mut agent = Agent::start_program(&limited, scratch, &args, ALLOW, |_| {});
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        agent.turn("run echo ran").await;
        let (status, text) = last_call(&agent);
        if status == ToolCallStatus::Failed {
            assert!(text.contains("a new session uses what works now"), "{text}");
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
    }
    assert!(!memory.exists());
    let folder = json!({"cwd": agent.scratch.cwd(), "mcpServers": []});
    let opened = agent.request("session/new", folder).await.expect("a session opens");
    let options = opened["configOptions"].as_array().expect("there are options");
    let sandbox = options.iter().find(|option| option["id"] == "sandbox");
    assert_eq!(sandbox.map(|option| &option["currentValue"]), Some(&json!("unavailable")));
    agent.finish().await;
}
