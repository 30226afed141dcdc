//! Servers of the Model Context Protocol in the sandbox of commands.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_types::schema::v1::ToolCallStatus;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::harness::scratch::Scratch;
use crate::harness::script::{call, end, run, text};
use crate::harness::session::call_text;
use crate::harness::{Agent, DEADLINE, PermissionReply, SANDBOX};
use crate::mcp::PATIENT;
use crate::sandbox::has_namespaces;

const SERVER: &str = include_str!("harness/mcp_server.py");

/// The sandbox that the agent finds on its system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    Namespaces,
    /// In the sandbox of `callboard sandbox run`, namespaces are refused, and Landlock works.
    Landlock,
    /// The agent runs with `--no-sandbox`.
    Off,
}

/// Returns the project folder of the sessions.
fn project(scratch: &Scratch) -> PathBuf {
    scratch.path("inner")
}

fn log(scratch: &Scratch, name: &str) -> PathBuf {
    project(scratch).join(format!("{name}.log"))
}

/// Writes the configuration of the servers `boxed`, which is sandboxed, and `free`. A folder of the
/// configuration is hidden in the sandbox.
fn write_files(scratch: &Scratch) {
    let (project, config) = (project(scratch), scratch.path("config/callboard"));
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(&config).unwrap();
    fs::write(project.join("mcp_server.py"), SERVER).unwrap();
    fs::write(config.join("key"), "canary-key").unwrap();
    fs::write(project.join("denied.pem"), "canary-key").unwrap();
    let section = |name: &str| {
        let log = log(scratch, name);
        format!(
            "[mcp_servers.{name}]\ncommand = 'python3'\nsandbox = {}\n\
             args = ['mcp_server.py', '{}', 'probes', 'forks']\n",
            name == "boxed",
            log.display(),
        )
    };
    let servers = section("boxed") + &section("free");
    fs::write(config.join("config.toml"), format!("{PATIENT}{servers}")).unwrap();
}

/// Writes a rule of the user that denies reading files.
fn deny_reading(scratch: &Scratch, glob: &str) {
    let matcher = json!({"path": {"access": "read", "glob": glob}});
    scratch.write_rules(&[json!({"scope": "user", "matcher": matcher, "verdict": "deny"})]);
}

/// Starts the agent with both servers, and opens a session. Returns `None` if this system does not
/// support the sandbox `tier`.
async fn ready(scratch: Scratch, script: Vec<Value>, tier: Tier) -> Option<Agent> {
    if tier != Tier::Off && !has_namespaces(&scratch) {
        return None;
    }
    write_files(&scratch);
    let config = format!("XDG_CONFIG_HOME={}", scratch.path("config").display());
    let model = scratch.model(&script.into());
    let program = scratch.visible_program();
    let mut args = vec!["acp", "--ephemeral", "--model", &model, "--mode", "auto"];
    match tier {
        Tier::Namespaces => args.push(SANDBOX),
        Tier::Landlock => {
            args.splice(0..0, ["sandbox", "run", "--", "env", &config, program.to_str().unwrap()]);
        }
        Tier::Off => {}
    }
    let env = config.split_once('=').filter(|_| tier != Tier::Landlock);
    let env: Vec<_> = env.into_iter().collect();
    let project = project(&scratch);
    let mut agent = Agent::start_in(scratch, &args, &env, PermissionReply::NoReply);
    agent.initialize().await.unwrap();
    let params = json!({"cwd": project, "mcpServers": []});
    agent.request("session/new", params).await.unwrap();
    Some(agent)
}

/// Returns the script of a turn in which both servers receive each of the probes.
fn probes(probes: &[Value]) -> Vec<Value> {
    let calls = probes.iter().flat_map(|probe| {
        ["boxed", "free"].map(|server| call(&format!("mcp__{server}__probe"), probe.clone()))
    });
    calls.flat_map(|call| [call, end()]).chain([text("Done.")]).collect()
}

/// Returns the results of the calls, in pairs: the result of the sandboxed server, and the result
/// of the other server.
fn results(agent: &Agent) -> Vec<(String, String)> {
    let calls = agent.session().calls();
    assert!(calls.iter().all(|call| call.status == ToolCallStatus::Completed), "{calls:?}");
    let texts: Vec<_> = calls.iter().map(|call| call_text(call)).collect();
    texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn assert_probed(results: &(String, String), expected: (&str, &str)) {
    let is_expected = results.0.starts_with(&format!("probe: {}", expected.0))
        && results.1.starts_with(&format!("probe: {}", expected.1));
    assert!(is_expected, "{results:?}, not {expected:?}");
}

fn starts(log: &Path) -> usize {
    fs::read_to_string(log).unwrap_or_default().matches("started ").count()
}

#[tokio::test]
async fn a_sandboxed_server_is_confined_like_a_command() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let scratch = Scratch::outside_tmp();
    let home = PathBuf::from(&scratch.env()["HOME"]);
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/id"), "canary-key").unwrap();
    deny_reading(&scratch, "/**/*.pem");
    let script = probes(&[
        json!({"read": scratch.path("config/callboard/key")}),
        json!({"read": home.join(".ssh/id")}),
        json!({"write": scratch.path("outside/made")}),
        json!({"connect": listener.local_addr().unwrap().port()}),
        json!({"write": project(&scratch).join("src/made")}),
        json!({"write": project(&scratch).join(".vscode/tasks.json")}),
        json!({"read": project(&scratch).join("denied.pem")}),
    ]);
    let Some(mut agent) = ready(scratch, script, Tier::Namespaces).await else { return };
    assert_eq!(agent.turn("go").await, "end_turn");
    let results = results(&agent);
    assert_probed(&results[0], ("refused: [Errno 2]", "read canary-key"));
    assert_probed(&results[1], ("refused: [Errno 2]", "read canary-key"));
    assert_probed(&results[2], ("refused: [Errno 30]", "written"));
    assert_probed(&results[3], ("refused: [Errno 111]", "connected"));
    assert_probed(&results[4], ("written", "written"));
    // While the sandboxed server runs, no program can create the protected name.
    assert_probed(&results[5], ("refused: [Errno", "refused: [Errno"));
    assert!(!results[6].0.contains("canary"), "{results:?}");
    assert!(results[6].1.contains("read canary-key"), "{results:?}");
    agent.turn("/mcp").await;
    let text = agent.session().message_text();
    for expected in ["**boxed** (sandboxed): 7 tools", "**free**: 7 tools"] {
        assert!(text.contains(expected), "{text}");
    }
    let processes = agent.processes();
    let boxed = processes.iter().filter(|process| process.contains("boxed.log"));
    assert!(boxed.count() >= 2, "{processes:?}");
    let vscode = project(&agent.scratch).join(".vscode");
    assert!(fs::symlink_metadata(&vscode).is_ok());
    let scratch = agent.scratch.clone();
    agent.finish().await;
    assert!(fs::symlink_metadata(&vscode).is_err());
    drop(scratch);
}

#[tokio::test]
async fn a_sandboxed_server_gets_no_proxy_even_if_a_host_is_allowed() {
    let scratch = Scratch::outside_tmp();
    let matcher = json!({"host": "allowed.example"});
    scratch.write_rules(&[json!({"scope": "user", "matcher": matcher, "verdict": "allow"})]);
    // A command gets the proxy.
    let script = vec![run("env"), end(), text("Done.")];
    let Some(mut agent) = ready(scratch, script, Tier::Namespaces).await else { return };
    assert_eq!(agent.turn("go").await, "end_turn");
    let of_command = call_text(&agent.call("terminal")).to_lowercase();
    assert!(of_command.contains("http_proxy="), "{of_command}");
    let log = fs::read_to_string(log(&agent.scratch, "boxed")).unwrap();
    let names = log.lines().find_map(|line| line.strip_prefix("environment ")).unwrap();
    assert!(names.split(' ').any(|name| name == "PATH"), "{names}");
    assert!(!names.to_lowercase().contains("proxy"), "{names}");
    agent.finish().await;
}

#[tokio::test]
async fn with_landlock_changes_of_protected_names_are_reported() {
    let scratch = Scratch::outside_tmp();
    let home_file = PathBuf::from(&scratch.env()["HOME"]).join("plain");
    fs::write(&home_file, "canary").unwrap();
    let first = probes(&[
        json!({"read": scratch.path("config/callboard/key")}),
        json!({"read": home_file}),
        json!({"write": scratch.path("outside/made")}),
        json!({"connect": 9}),
        json!({"write": project(&scratch).join("src/made")}),
        json!({"write": project(&scratch).join(".vscode/tasks.json")}),
    ]);
    let script = [first, vec![json!({"end": "end_turn"}), text("Done.")]].concat();
    let Some(mut agent) = ready(scratch, script, Tier::Landlock).await else { return };
    assert_eq!(agent.turn("go").await, "end_turn");
    let results = results(&agent);
    assert_probed(&results[0], ("refused: [Errno 13]", "read canary-key"));
    assert_probed(&results[1], ("refused: [Errno 13]", "read canary"));
    assert_probed(&results[2], ("refused: [Errno 13]", "written"));
    assert_probed(&results[3], ("refused: [Errno 1]", "refused: [Errno 111]"));
    assert_probed(&results[4], ("written", "written"));
    assert_probed(&results[5], ("written", "written"));
    agent.turn("/mcp restart boxed").await;
    let log = log(&agent.scratch, "boxed");
    let started_again = async {
        while starts(&log) < 2 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, started_again).await.unwrap();
    agent.turn("again").await;
    let notice = "Protected files have changed while the MCP server boxed ran, possibly by others: \
                  .vscode.";
    let thoughts = agent.session().thought_text();
    assert!(thoughts.contains(notice), "{thoughts}");
    agent.finish().await;
}

#[tokio::test]
async fn without_a_sandbox_a_sandboxed_server_does_not_start() {
    let script = vec![text("Done.")];
    let mut agent = ready(Scratch::new(), script, Tier::Off).await.unwrap();
    assert_eq!(agent.turn("go").await, "end_turn");
    let thoughts = agent.session().thought_text();
    let expected = "The MCP server boxed does not run: its configuration has `sandbox = true`, and \
                    the sandbox of this session is switched off";
    assert!(thoughts.contains(expected), "{thoughts}");
    agent.turn("/mcp").await;
    let text = agent.session().message_text();
    for expected in ["**boxed** (sandboxed): does not run: ", "**free**: 7 tools"] {
        assert!(text.contains(expected), "{text}");
    }
    let (boxed, free) = (log(&agent.scratch, "boxed"), log(&agent.scratch, "free"));
    assert_eq!((starts(&boxed), starts(&free)), (0, 1));
    agent.finish().await;
}
