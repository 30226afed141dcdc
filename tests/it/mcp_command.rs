//! The command `callboard mcp`, which manages and tests the servers of the configuration file.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::DEADLINE;
use crate::harness::scratch::{SECRET, Scratch};
use crate::mcp::SERVER;
use crate::sessions_command::{failure, printed, run};

fn config_text(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.config_path()).unwrap()
}

const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

/// Adds the test server with a behaviour.
fn add(scratch: &Scratch, name: &str, behaviour: &str) -> String {
    let log = scratch.path(format!("{name}.log"));
    let args = ["mcp", "add", name, "--env", "MODE=quiet", "--", "python3", SERVER];
    printed(scratch, &[&args[..], &[log.to_str().unwrap(), behaviour]].concat())
}

#[test]
fn servers_are_added_listed_and_removed() {
    let scratch = Scratch::new();
    let (code, out, err) = run(&scratch, &["mcp", "list"]);
    assert_eq!((code, &*out), (0, ""));
    assert!(err.contains("`callboard mcp add NAME -- COMMAND` adds one"), "{err}");
    assert_eq!(run(&scratch, &["mcp", "list", "--json"]).1, "[]\n");
    let path = scratch.config_path();
    let shown = path.display();
    let added = add(&scratch, "my server", "");
    let expected = format!(
        "Added the MCP server my server to {shown}. Try it: callboard mcp test 'my server'\n"
    );
    assert_eq!(added, expected);
    let before = config_text(&scratch);
    let url = "https://docs.example.org/mcp";
    let args = ["mcp", "add", "docs", "--url", url, "--header-env", "Authorization=DOCS_AUTH"];
    let (code, out, err) = run(&scratch, &args);
    assert_eq!((code, out.starts_with("Added the MCP server docs to ")), (0, true), "{err}");
    assert!(err.contains("DOCS_AUTH is not set in this environment"), "{err}");
    let section = format!(
        "{before}\n[mcp_servers.docs]\nurl = \"{url}\"\nheaders_env = {{ Authorization = \"DOCS_AUTH\" }}\n"
    );
    assert_eq!(config_text(&scratch), section);
    let listed = run(&scratch, &["mcp", "list"]).1;
    let log = scratch.path("my server.log");
    let expected =
        format!("docs       {url}\nmy server  python3 {SERVER} '{}' ''\n", log.display());
    assert_eq!(listed, expected);
    let json: Value = serde_json::from_str(&run(&scratch, &["mcp", "list", "--json"]).1).unwrap();
    assert_eq!((&json[0]["url"], &json[1]["env"]), (&json!(url), &json!(["MODE"])));
    assert_eq!(json[1]["source"], json!(format!("{shown}:1")));
    // No server was started.
    assert!(!log.exists());
    let (code, err) = failure(&scratch, &["mcp", "add", "docs", "--", "x"]);
    assert!(code == 1 && err.contains("there is already a server `docs`"), "{err}");
    let removed = printed(&scratch, &["mcp", "remove", "docs"]);
    assert_eq!(removed, format!("Removed the MCP server docs from {shown}.\n"));
    assert_eq!(config_text(&scratch), before);
    let (code, err) = failure(&scratch, &["mcp", "remove", "docs"]);
    let unknown = format!(
        "callboard: {shown}: there is no server `docs`; `callboard mcp list` lists the servers\n"
    );
    assert_eq!((code, err), (1, unknown));
}

#[test]
fn nothing_is_written_that_would_be_refused_or_secret_or_depend_on_the_project() {
    let scratch = Scratch::new();
    let header = ["mcp", "add", "a", "--url", "https://a.example", "--header-env"];
    for (args, code, expected) in [
        (&["mcp", "add", "a"][..], 2, "<COMMAND>"),
        (&["mcp", "add", " ", "--", "x"], 2, "visible characters"),
        (&["mcp", "add", "a", "--url", "ftp://x"], 1, "must be an http or https URL"),
        (&["mcp", "add", "a", "--url", "https://x", "--", "y"], 2, "cannot be used with"),
        (&["mcp", "add", "a", "https://x"], 2, "--url https://x"),
        (&["mcp", "add", "a", "--env", "API_KEY=x1", "--", "x"], 2, "--env-pass API_KEY"),
        (&["mcp", "add", "a", "--env", "DB=pg://u:pw@h/", "--", "x"], 2, "--env-pass DB"),
        (&["mcp", "add", "a", "--", "x", SECRET], 2, "the command contains a secret"),
        (&["mcp", "add", "a", "--url", "https://u:pw@h/"], 2, "--header-env"),
        (&["mcp", "add", "a", "--env-pass", "T=hidden", "--", "x"], 2, "without its value"),
        (&["mcp", "add", "a", "--env-pass", TOKEN, "--", "x"], 2, "without its value"),
        (&["mcp", "add", "a", "--env", TOKEN, "--", "x"], 2, "an equals sign and its value"),
        (&["mcp", "add", "a", "--env", "A B=c", "--", "x"], 2, "the name of a variable"),
        (&["mcp", "add", "a", "--env", "U=https://h/?token=hidden", "--", "x"], 2, "--env-pass U"),
        (&["mcp", "add", "a", "--", "x", "--token", "hidden"], 2, "the command contains a secret"),
        (&["mcp", "add", "a", "--", "x", "--api-key=hidden"], 2, "the command contains a secret"),
        (&["mcp", "add", "a", "--", ""], 2, "the command is empty"),
        (&["mcp", "add", "a", "--header-env", "X=Y", "--", "x"], 2, "needs --url"),
        (&["mcp", "add", "a", "--url", "https://h/?api_key=hidden"], 2, "--url contains a secret"),
        (&["mcp", "add", "a", "--url", "https://h/#a"], 2, "after #"),
        (&[&header[..], &[TOKEN]].concat(), 2, "the name of a header"),
        (&[&header[..], &["A B=C"]].concat(), 2, "the name of a header"),
        (&[&header[..], &[&format!("X={TOKEN}")]].concat(), 2, "name of a variable"),
        (&["mcp", "add", "a", "--cwd", "missing", "--", "x"], 2, "missing is no folder"),
        (&[&header[..], &["X=Bearer hidden"]].concat(), 2, "name of a variable"),
    ] {
        let (failed, err) = failure(&scratch, args);
        assert!(failed == code && err.contains(expected), "{args:?}: {failed} {err}");
        let secrets = ["hidden", SECRET, TOKEN];
        assert!(!secrets.iter().any(|secret| err.contains(secret)), "{err}");
        assert!(!scratch.config_path().exists(), "{args:?}");
    }
    printed(&scratch, &["mcp", "add", "a", "--cwd", "src", "./tool", "-y", "--env", "x"]);
    let src = scratch.path("src");
    let src = src.display();
    assert_eq!(
        config_text(&scratch),
        format!(
            "[mcp_servers.a]\ncommand = \"{src}/tool\"\nargs = [\"-y\", \"--env\", \"x\"]\ncwd = \"{src}\"\n"
        )
    );
}

#[tokio::test]
async fn a_test_shows_tools_and_reasons_of_failures_and_leaves_no_process() {
    let scratch = Scratch::new();
    add(&scratch, "good", "forks");
    let tested = printed(&scratch, &["mcp", "test"]);
    let lines: Vec<_> = tested.lines().collect();
    assert_eq!(lines[..3], ["✓ good: 6 tools", "  echo    Echoes.", "  look"]);
    scratch.until_alone(None, DEADLINE).await;
    let log = scratch.read("good.log");
    assert!(log.contains("closed"), "{log}");
    add(&scratch, "dies", "dies");
    let (code, out, _) = run(&scratch, &["mcp", "test"]);
    assert_eq!(code, 1);
    let dies =
        "✗ dies: does not run: it ended with exit code 3; its last lines: The disk is full.\n";
    assert_eq!(out, format!("{dies}{tested}"));
    let (code, out, _) = run(&scratch, &["mcp", "test", "--json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &json[0]["state"], &json[1]["state"]),
        (1, &json!("failed"), &json!("ready"))
    );
    assert_eq!(json[1]["tools"][0], json!({"name": "echo", "description": "Echoes."}));
    assert_eq!(printed(&scratch, &["mcp", "test", "good"]), tested);
    assert!(failure(&scratch, &["mcp", "test", "x"]).1.contains("there is no MCP server `x`"));
    scratch.until_alone(None, DEADLINE).await;
}
