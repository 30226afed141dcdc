//! The choice of the model: configuration, logins, and the messages about them in a session.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use callboard_models::mock_server::{Dialect, MockReply, ModelServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::normalized::normalized;
use crate::harness::scratch::Scratch;
use crate::harness::session::call_text;
use crate::harness::{Agent, CALLBOARD, Options, test_args};

const KEY: &str = "sk-a-key-that-nobody-sees";

/// Runs the program in the scratch folder, with `input` on standard input.
fn run(scratch: &Scratch, env: &[(&str, &str)], args: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new(CALLBOARD);
    command.args(test_args(args)).current_dir(scratch.cwd()).env_clear().envs(scratch.env());
    let piped = command.envs(env.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let said = [stdout, stderr].map(|said| String::from_utf8(said).unwrap()).concat();
    assert!(!said.contains(KEY) && !said.contains("panicked"), "{said}");
    (status.success(), said)
}

/// Returns the path of the user's configuration file. Creates its folder.
fn config_file(scratch: &Scratch) -> PathBuf {
    let folder = PathBuf::from(&scratch.env()["XDG_CONFIG_HOME"]).join("callboard");
    fs::create_dir_all(&folder).unwrap();
    folder.join("config.toml")
}

fn keys_file(scratch: &Scratch) -> PathBuf {
    PathBuf::from(&scratch.env()["XDG_STATE_HOME"]).join("callboard/keys/keys.json")
}

/// Logs in to the provider `openai`, whose server is at `url`.
fn log_in(scratch: &Scratch, url: &str) -> (bool, String) {
    run(scratch, &[], &["login", "openai"], &format!("{url}\n{KEY}\n"))
}

/// Sends a prompt that the agent must answer with an error, and returns the error.
async fn prompt_error(agent: &mut Agent, text: &str) -> Value {
    let id = agent.prompt(text).await;
    agent.answer(&id).await.unwrap_err()
}

/// Starts a server that rejects the key of one request, and returns its address.
fn refusing_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).is_ok());
        let answer =
            "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(answer.as_bytes()).unwrap();
    }));
    url
}

#[test]
fn config_show_names_the_source_of_each_value_and_shows_no_key() {
    let scratch = Scratch::new();
    let file = config_file(&scratch);
    fs::write(&file, "mode = 'read-only'\nlocale = 'de'\n").unwrap();
    let env = [("OPENAI_API_KEY", KEY), ("CALLBOARD_LOCALE", "en")];
    let shows = [
        &["config", "show", "--model", "openai/x"][..],
        &["config", "show", "--json", "--model", "openai/x"],
        &["config", "path"],
    ];
    let shown = shows.map(|args| {
        let (is_ok, shown) = run(&scratch, &env, args, "");
        assert!(is_ok, "{shown}");
        shown + "\n"
    });
    insta::assert_snapshot!(normalized(&scratch, &shown.concat()));
}

#[test]
fn a_configuration_file_that_is_a_link_without_a_target_is_an_error() {
    use std::os::unix::fs::symlink;

    let exec = ["exec", "--model", "direct", "--approve-all", "run touch made"];
    for is_folder in [false, true] {
        let scratch = Scratch::new();
        let file = config_file(&scratch);
        let link = if is_folder { file.parent().unwrap() } else { &file };
        if is_folder {
            fs::remove_dir(link).unwrap();
        }
        symlink("/nonexistent/x", link).unwrap();
        for args in [&exec[..], &["config", "show"]] {
            let (is_ok, said) = run(&scratch, &[], args, "");
            let why = format!("{} is a link to /nonexistent/x, which does not", link.display());
            assert!(!is_ok && said.contains(&format!("{}: {why}", file.display())), "{said}");
        }
        assert!(!scratch.path("made").exists());
    }
    // A folder without the file is no error, also if the folder is a link.
    let scratch = Scratch::new();
    let file = config_file(&scratch);
    fs::remove_dir(file.parent().unwrap()).unwrap();
    symlink(scratch.cwd(), file.parent().unwrap()).unwrap();
    let (is_ok, said) = run(&scratch, &[], &exec, "");
    assert!(is_ok && scratch.path("made").exists(), "{said}");
}

#[test]
fn commands_get_the_variables_that_the_configuration_names() {
    let scratch = Scratch::new();
    fs::write(config_file(&scratch), "[terminal]\nenv_pass = ['MY_HOST']\n").unwrap();
    let env = [("MY_HOST", "stage"), ("MY_OTHER", "hidden")];
    let line = "run echo [$MY_HOST] [$MY_OTHER]";
    let (ok, said) = run(&scratch, &env, &["exec", "--approve-all", "--model", "direct", line], "");
    assert!(ok && said.contains("[stage] []"), "{said}");
}

#[test]
fn nothing_in_the_workspace_is_configuration() {
    let scratch = Scratch::new();
    for name in [".callboard/config.toml", "callboard/config.toml", "config.toml", ".env"] {
        let path = scratch.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "mode = 'auto'\nCALLBOARD_MODE=auto\n").unwrap();
    }
    let (_, said) = run(&scratch, &[], &["config", "show"], "");
    let mode = said.lines().find(|line| line.starts_with("mode ")).unwrap();
    assert_eq!(mode.split_whitespace().collect::<Vec<_>>(), ["mode", "ask", "default"]);
}

#[tokio::test]
async fn an_invalid_configuration_is_reported_at_the_prompt_and_no_command_runs() {
    let scratch = Scratch::new();
    let file = config_file(&scratch);
    fs::write(&file, "mode = 'read-only'\nmodell = 'x'\n").unwrap();
    let place = format!("{}:2: unknown field `modell`", file.display());
    let (ok, said) = run(&scratch, &[], &["exec", "run touch made"], "");
    assert!(!ok && said.contains(&place), "{said}");

    let mut agent = Agent::start_changed(scratch, &["acp"], Options::default(), |_| ());
    agent.initialize().await.unwrap();
    agent.new_session().await;
    let error = prompt_error(&mut agent, "run touch made").await;
    assert!(error["message"].as_str().unwrap().contains(&place), "{error}");
    assert!(!agent.scratch.path("made").exists());
    agent.finish().await;
    assert!(agent.stderr_log().contains(&place), "{}", agent.stderr_log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_stored_used_and_removed() {
    let server = ModelServer::start([MockReply::new().with_text("Hello.").into()]).await.unwrap();
    let url = server.base_url(Dialect::OpenAiChat);
    let scratch = Scratch::new();
    let (ok, said) = log_in(&scratch, &url);
    let file = keys_file(&scratch);
    assert!(ok && said.contains(&file.display().to_string()), "{said}");
    assert!(said.contains("1 model, scripted"), "{said}");
    assert_eq!(server.requests()[0].header("authorization"), Some(&*format!("Bearer {KEY}")));

    let (ok, said) = run(&scratch, &[], &["models", "--json"], "");
    assert!(ok, "{said}");
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["providers"][0]["models"], json!(["openai/scripted"]), "{report}");

    let (ok, said) = run(&scratch, &[], &["exec", "hello"], "");
    assert!(ok && said.contains("Hello."), "{said}");
    assert!(said.contains("`openai/scripted`, because you are logged in to openai"), "{said}");

    let (ok, said) = run(&scratch, &[], &["logout"], "");
    assert!(ok && said.contains("openai"), "{said}");
    assert!(!fs::read_to_string(&file).unwrap().contains(KEY));
    let (ok, said) = run(&scratch, &[], &["logout"], "");
    assert!(ok && said.contains("no stored key"), "{said}");
}

#[test]
fn a_key_that_is_refused_or_missing_is_not_stored() {
    let scratch = Scratch::new();
    let (ok, said) = log_in(&scratch, &refusing_server());
    assert!(!ok && said.contains("rejected the key"), "{said}");
    let (ok, said) = run(&scratch, &[], &["login"], "openai\n\n\n");
    assert!(!ok && said.contains("the key is empty"), "{said}");
    let (ok, said) = run(&scratch, &[], &["login"], "9\n");
    assert!(!ok && said.contains("no such provider"), "{said}");
    assert!(!keys_file(&scratch).exists());
}

#[test]
fn a_key_that_cannot_be_verified_is_stored_only_after_confirmation() {
    let scratch = Scratch::new();
    // The listener is dropped, so that no server listens at this port.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let (ok, said) = log_in(&scratch, &url);
    assert!(!ok && said.contains("cannot be tried"), "{said}");
    assert!(!keys_file(&scratch).exists());
    // A client may append the flag `--setup` to the command that starts the agent.
    let input = format!("2\n{url}\n{KEY}\ny\n");
    let (ok, said) = run(&scratch, &[], &["acp", "--mode", "ask", "--setup"], &input);
    assert!(ok && keys_file(&scratch).exists(), "{said}");
}

#[test]
fn a_stored_key_is_redacted_in_the_output_of_commands() {
    let scratch = Scratch::new();
    let server = refusing_server();
    let address = server.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    // The server answers only one connection, which is this one, so the login cannot connect.
    drop(TcpStream::connect(address).unwrap().write_all(b"\r\n"));
    let input = format!("{server}\n{KEY}\ny\n");
    let (ok, said) = run(&scratch, &[], &["login", "openai"], &input);
    assert!(ok, "{said}");
    let prompt = format!("run cat {}", keys_file(&scratch).display());
    let args = ["exec", "--model", "direct", "--approve-all", &prompt];
    let (_, said) = run(&scratch, &[], &args, "");
    assert!(said.contains("[redacted]"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_and_a_logout_apply_to_the_next_prompt() {
    if [8080, 1234].iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()) {
        eprintln!("a server of this machine may be one of models, and would be found");
        return;
    }
    let server = ModelServer::start([MockReply::new().with_text("Hello.").into()]).await.unwrap();
    let mut agent = Agent::start_changed(Scratch::new(), &["acp"], Options::default(), |command| {
        command.env("OLLAMA_HOST", "127.0.0.1:1").env("CALLBOARD_LOG", "trace");
    });
    agent.initialize().await.unwrap();
    let session = agent.new_session().await;
    assert_eq!(agent.turn("hello").await, "end_turn");
    let said = agent.session().message_text();
    assert!(said.contains("- run `callboard login`"), "{said}");
    assert_eq!(agent.turn("read notes.txt").await, "end_turn");
    assert!(call_text(&agent.call("read_file")).contains("two"));

    let (ok, said) = log_in(&agent.scratch, &server.base_url(Dialect::OpenAiChat));
    assert!(ok, "{said}");
    assert_eq!(agent.turn("hello").await, "end_turn");
    let said = agent.client.session(&session).message_text();
    assert!(said.contains("`openai/scripted`, because you are logged in to openai"), "{said}");
    assert!(said.ends_with("Hello."), "{said}");
    let replies = server.reply_requests();
    assert_eq!(replies[0].header("authorization"), Some(&*format!("Bearer {KEY}")));

    assert_eq!(agent.request("logout", json!({})).await, Ok(json!({})));
    let error = prompt_error(&mut agent, "hello").await;
    assert!(error["message"].as_str().unwrap().contains("callboard login"), "{error}");
    agent.finish().await;
    assert!(!agent.client.transcript().contains(KEY) && !agent.stderr_log().contains(KEY));
}
