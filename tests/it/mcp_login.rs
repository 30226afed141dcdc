//! Logins to MCP servers over HTTP, by the shipped binary.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::json;
use url::Url;

use crate::harness::scratch::Scratch;
use crate::harness::script::{Model, call, end, text};
use crate::harness::session::call_text;
use crate::harness::{Agent, CALLBOARD, PermissionReply};
use crate::mcp::until_listed;
use crate::sessions_command::run;

const ALLOW: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowOnce);

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/src/oauth/tests/oauth_server.py");

/// A server with a login, which runs until the value is dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(behaviour: &str) -> Self {
        let mut command = Command::new("/usr/bin/env");
        let command = command.args(["python3", SERVER, behaviour]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }

    fn post(&self, path: &str) {
        request("POST", &self.url.replace("/mcp", path));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends a request, as a browser does. Returns the address to which the answer redirects, and the
/// text of the answer.
fn request(method: &str, url: &str) -> (Option<String>, String) {
    let url = Url::parse(url).unwrap();
    let address = (url.host_str().unwrap(), url.port().unwrap());
    let mut stream = TcpStream::connect(address).unwrap();
    let target = &url[url::Position::BeforePath..];
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    (location.map(str::to_owned), answer)
}

/// Returns a folder whose configuration has a server `docs`.
fn configured(url: &str, more: &str) -> Scratch {
    let scratch = Scratch::new();
    let config = format!(
        "[mcp_servers.docs]\nurl = \"{url}\"\n{more}\n[mcp_servers.program]\ncommand = \"true\"\n"
    );
    scratch.write_config(&config);
    scratch
}

fn key_file(scratch: &Scratch) -> PathBuf {
    Path::new(&scratch.env()["XDG_STATE_HOME"]).join("callboard/keys/keys.json")
}

/// The way in which the user opens the page of a login.
#[derive(Clone, Copy)]
enum Browser {
    /// Opens the page, and every page to which it leads.
    Here,
    /// Opens the page on another computer, and pastes the last address.
    Elsewhere,
}

/// Runs `callboard mcp login NAME`. Returns the exit code, and everything that was printed.
fn log_in(scratch: &Scratch, name: &str, browser: Browser) -> (i32, String) {
    let mut command = Command::new(CALLBOARD);
    command.args(["mcp", "login", name]).current_dir(scratch.cwd()).env_clear();
    command.envs(scratch.env()).env("CALLBOARD_LOG", "debug");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).map(|_| text).unwrap()
    });
    let mut printed = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        printed += &format!("{line}\n");
        if line.starts_with("http") {
            let location = request("GET", &line).0.unwrap();
            match browser {
                Browser::Here => drop(request("GET", &location)),
                Browser::Elsewhere => {
                    let stdin = child.stdin.as_mut().unwrap();
                    stdin.write_all(format!("\nyes\n{location}\n").as_bytes()).unwrap();
                }
            }
        }
    }
    let code = child.wait().unwrap().code().unwrap();
    (code, printed + &errors.join().unwrap())
}

/// Returns everything that the program prints.
fn printed(scratch: &Scratch, args: &[&str]) -> String {
    let (_, out, err) = run(scratch, args);
    out + &err
}

#[tokio::test]
async fn a_login_serves_open_sessions_until_it_is_revoked() {
    let server = Server::start("");
    let scratch = configured(&server.url, "");
    let echo = || call("mcp__docs__echo", json!({}));
    let done = || [text("Done."), json!({"end": "end_turn"})];
    let calls = || [echo(), echo(), end()];
    let script = done().into_iter().chain(calls()).chain(done()).chain(calls()).chain(done());
    let model = scratch.model(&Model::from(script.chain(done()).collect::<Vec<_>>()));
    let args = ["acp", "--model", &model, "--mode", "auto"];
    let env = [("CALLBOARD_LOG", "debug")];
    let mut agent = Agent::start_in(scratch.clone(), &args, &env, ALLOW);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    agent.turn("too early").await;
    let need = "it needs a login: run `callboard mcp login docs`.";
    assert_eq!(agent.session().thought_text().matches(need).count(), 1);

    let (code, output) = log_in(&scratch, "docs", Browser::Here);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("Logged in to docs. The login is stored in "), "{output}");
    let mode = fs::metadata(key_file(&scratch)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    agent.turn("/mcp restart docs").await;
    until_listed(&mut agent, "**docs**: 1 tool").await;
    agent.turn("works").await;
    let calls = agent.session().calls();
    let states: Vec<_> = calls.iter().map(|call| call.status).collect();
    assert_eq!(states, [ToolCallStatus::Completed; 2], "{calls:?}");
    let logins = fs::read_to_string(key_file(&scratch)).unwrap();

    server.post("/revoke?2");
    agent.turn("is revoked").await;
    let calls = agent.session().calls();
    for call in &calls[2..] {
        assert_eq!(call.status, ToolCallStatus::Failed);
        let text = call_text(call);
        assert!(text.contains("cannot be used") && text.contains(need), "{text}");
    }
    until_listed(&mut agent, "**docs**: does not run: it needs a login").await;
    agent.turn("late").await;
    // The agent has sent two notices: one before the login, and one for both failed calls.
    assert_eq!(agent.session().thought_text().matches(need).count(), 2);
    let (code, output) = log_in(&scratch, "docs", Browser::Here);
    assert_eq!(code, 0, "{output}");
    agent.turn("/mcp restart docs").await;
    until_listed(&mut agent, "**docs**: 1 tool").await;
    agent.finish().await;

    // No token is shown or logged.
    let logins = logins + &fs::read_to_string(key_file(&scratch)).unwrap();
    let tokens = logins.split(|letter: char| !(letter.is_alphanumeric() || letter == '-'));
    let tokens: Vec<_> =
        tokens.filter(|it| it.starts_with("access-") || it.starts_with("refresh-")).collect();
    assert_eq!(tokens.len(), 4, "{logins}");
    let shown = agent.client.transcript() + &agent.stderr_log() + &output;
    assert!(!tokens.iter().any(|token| shown.contains(token)), "{shown}");
    assert!(!shown.contains("identity-"), "{shown}");
}

#[test]
fn an_address_is_pasted_and_a_login_is_removed() {
    let server = Server::start("");
    let scratch = configured(&server.url, "oauth.scopes = [\"use\"]");
    let (code, output) = log_in(&scratch, "docs", Browser::Elsewhere);
    assert_eq!(code, 0, "{output}");
    assert_eq!(output.matches("not the address of the last page of this login").count(), 1);
    // Neither the log of the SDK nor an error contains the code.
    assert!(!output.contains("start exchange code"), "{output}");
    let test = || printed(&scratch, &["mcp", "test", "docs"]);
    assert!(test().contains("✓ docs: 1 tool"), "{}", test());
    let logout = || printed(&scratch, &["mcp", "logout", "docs"]);
    assert_eq!(logout(), "Removed the login to the MCP server docs.\n");
    assert_eq!(logout(), "There was no login to the MCP server docs.\n");
    let failed = test();
    assert!(failed.contains("it needs a login: run `callboard mcp login docs`"), "{failed}");
}

#[test]
fn a_login_that_is_not_possible_says_what_to_do() {
    for (behaviour, name, expected) in [
        ("", "other", "there is no MCP server `other` in the configuration"),
        (
            "",
            "program",
            "no login to the MCP server program: it is a program, which needs no login",
        ),
        ("open silent", "docs", "no login to the MCP server docs: it needs no login"),
        ("refuses", "docs", "set `client_id` in [mcp_servers.docs.oauth]"),
        ("denies", "docs", "no login to the MCP server docs: the login was refused"),
    ] {
        let server = Server::start(behaviour);
        let scratch = configured(&server.url, "");
        let (code, output) = log_in(&scratch, name, Browser::Here);
        assert!(code == 1 && output.contains(expected), "{behaviour}: {output}");
        assert!(!key_file(&scratch).exists(), "{behaviour}");
    }
    for (oauth, expected) in [
        ("{ client_secret_env = \"X\" }", "client_secret_env needs `client_id`"),
        ("{ client_id = \"a\", client_secret_env = \"X\" }", "client_secret_env needs `issuer`"),
        ("{ issuer = \"https://a.example\" }", "issuer needs `client_id`"),
        ("{ client_id = \"a\", issuer = \"a\" }", "issuer must be an http or https URL"),
    ] {
        let scratch = configured("https://a.example/mcp", &format!("oauth = {oauth}"));
        let shown = printed(&scratch, &["config", "show"]);
        assert!(shown.contains(&format!("mcp_servers.docs.oauth.{expected}")), "{shown}");
    }
}
