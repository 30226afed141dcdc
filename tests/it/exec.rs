//! `callboard exec` for users and scripts: exit codes, piped input, and output.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use callboard_models::mock_server::{Dialect, MockReply, ModelServer};
use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::normalized::normalized;
use crate::harness::scratch::Scratch;
use crate::harness::{CALLBOARD, DEADLINE, test_args};

const PAGE: &str = include_str!("../../docs/terminal.md");

/// Sets the address of Ollama to a port on which no server listens, so that the tests find no model
/// server on this machine.
const NO_SERVERS: [(&str, &str); 1] = [("OLLAMA_HOST", "127.0.0.1:1")];

fn command(scratch: &Scratch, env: &[(&str, &str)], args: &[&str]) -> Command {
    let mut command = Command::new(CALLBOARD);
    command.args(test_args(args)).current_dir(scratch.cwd()).env_clear().envs(scratch.env());
    command.envs(NO_SERVERS).envs(env.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(scratch: &Scratch, env: &[(&str, &str)], args: &[&str]) -> (Option<i32>, String, String) {
    outcome(command(scratch, env, args).output().unwrap())
}

/// Runs the program, and returns the command line, its output and its exit code as they would
/// appear in a terminal.
fn screen(scratch: &Scratch, env: &[(&str, &str)], args: &[&str]) -> String {
    let (exit, out, err) = run(scratch, env, args);
    let quoted = args.iter().map(|arg| match arg.contains(' ') || arg.is_empty() {
        true => format!(" {arg:?}"),
        false => format!(" {arg}"),
    });
    let (command, exit) = (quoted.collect::<String>(), exit.unwrap());
    let screen = format!("$ callboard{command}\n{out}[stderr]\n{err}[exit code {exit}]\n\n");
    normalized(scratch, &screen)
}

fn outcome(output: Output) -> (Option<i32>, String, String) {
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(!err.contains("panicked"), "{err}");
    (output.status.code(), out, err)
}

/// Waits for a line with this text on standard output, and then sends a signal. Returns the whole
/// output.
fn interrupt_at(child: &mut Child, text: &str, signal: Signal) -> String {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = String::new();
    for line in lines.by_ref().map(Result::unwrap) {
        said.push_str(&line);
        said.push('\n');
        if line.contains(text) {
            kill_process(Pid::from_child(child), signal).unwrap();
            break;
        }
    }
    said.extend(lines.map(|line| line.unwrap() + "\n"));
    said
}

/// Returns the documented examples of `callboard exec`. Each example consists of the exit code, the
/// arguments, and whether the run is interrupted.
fn rows() -> Vec<(i32, Vec<String>, bool)> {
    let table = PAGE.split("| exit code |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let example = cells[3].split('`').nth(1).unwrap();
        let mut quoted = example.split('"');
        let mut words: Vec<_> = quoted.next().unwrap().split_whitespace().collect();
        words.extend(quoted.next());
        assert_eq!(words.remove(0), "callboard");
        let words = words.into_iter().map(str::to_owned).collect();
        (cells[1].parse().unwrap(), words, cells[2].contains("Ctrl-C"))
    });
    rows.collect()
}

#[test]
fn each_exit_code_is_that_of_the_documents() {
    let rows = rows();
    let codes: BTreeSet<_> = rows.iter().map(|(code, ..)| *code).collect();
    assert_eq!(codes, BTreeSet::from([0, 1, 2, 3, 4, 130]));
    for (code, words, is_interrupted) in rows {
        let scratch = Scratch::new();
        fs::write(scratch.path("error.jsonl"), r#"{"error":{"message":"no"}}"#).unwrap();
        fs::write(scratch.path("refusal.jsonl"), r#"{"end":"refusal"}"#).unwrap();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        if is_interrupted {
            let mut child = command(&scratch, &[], &words).spawn().unwrap();
            interrupt_at(&mut child, "sleep 60", Signal::INT);
            assert_eq!(child.wait().unwrap().code(), Some(code), "{words:?}");
            continue;
        }
        let (exit, out, err) = run(&scratch, &[], &words);
        assert_eq!(exit, Some(code), "{words:?}: {out}{err}");
        assert!(!err.is_empty() || !matches!(code, 1 | 2), "{words:?}: {out}");
        if code == 2 {
            assert_eq!(out, "", "{words:?}");
        }
        if words.contains(&"read missing.txt") {
            assert!(err.starts_with("callboard: Read missing.txt failed: "), "{err}");
        }
        assert!(!scratch.path("made").exists());
    }
}

#[test]
fn without_a_model_no_command_runs_and_the_output_explains_how_to_set_one_up() {
    let scratch = Scratch::new();
    let prompts = ["fix the bug", "run touch made", "think about it", ""];
    let screens = prompts.map(|prompt| screen(&scratch, &[], &["exec", "--approve-all", prompt]));
    insta::assert_snapshot!(screens.concat());
    assert!(!scratch.path("made").exists());
}

#[test]
fn a_prompt_instead_of_a_subcommand_gets_a_hint_at_exec() {
    let scratch = Scratch::new();
    let lines = [
        &["fix the bug"][..],
        &["fix", "the", "bug"],
        &["exec", "fix", "the", "bug"],
        &["explain `ls` and $HOME"],
        &["modles"],
    ];
    insta::assert_snapshot!(lines.map(|words| screen(&scratch, &[], words)).concat());
}

#[test]
fn a_prompt_is_read_from_standard_input() {
    let scratch = Scratch::new();
    let args = ["exec", "--model", "direct", "-"];
    for (prompt, code) in
        [("read notes.txt\n", 0), ("read missing.txt", 1), ("fix it", 2), (" ", 2)]
    {
        let mut child = command(&scratch, &[], &args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
        let (exit, out, err) = outcome(child.wait_with_output().unwrap());
        assert_eq!(exit, Some(code), "{prompt}: {out}{err}");
    }
}

#[test]
fn an_argument_that_is_not_utf8_is_a_usage_error() {
    use std::os::unix::ffi::OsStrExt as _;

    let scratch = Scratch::new();
    let odd = std::ffi::OsStr::from_bytes(b"a\xff");
    for words in [&[][..], &["exec"], &["exec", "--mode"], &["models"]] {
        let (exit, out, err) = outcome(command(&scratch, &[], words).arg(odd).output().unwrap());
        assert_eq!((exit, &*out), (Some(2), ""), "{words:?}: {err}");
        assert!(!err.is_empty() && !err.contains("callboard exec \"a"), "{err}");
    }
}

#[test]
fn a_command_in_the_background_is_named_when_it_ends_with_the_program() {
    let line = r#"tool terminal {"command":"sleep 61","background":true}"#;
    let args = ["exec", "--approve-all", "--model", "direct", line];
    let (exit, out, _) = run(&Scratch::new(), &[], &args);
    assert_eq!(exit, Some(0), "{out}");
    assert!(out.contains("end with this program: `sleep 61` (bg-1)."), "{out}");
    let stopped = format!("{line}\ntool terminal_stop {{\"id\":\"bg-1\"}}");
    let args = ["exec", "--approve-all", "--model", "direct", &stopped];
    let (_, out, _) = run(&Scratch::new(), &[], &args);
    assert!(!out.contains("end with this program"), "{out}");

    let both = format!("{line}\nrun sleep 62");
    let scratch = Scratch::new();
    let args = ["exec", "--approve-all", "--model", "direct", &both];
    let mut child = command(&scratch, &[], &args).spawn().unwrap();
    let out = interrupt_at(&mut child, "sleep 62", Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(out.contains("end with this program: `sleep 61` (bg-1)."), "{out}");
}

/// Waits until a program has ended, for at most this time. Returns whether it has ended.
fn ends_within(child: &Child, time: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};

    let program = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
    let time = Timespec::try_from(time).unwrap();
    poll(&mut [PollFd::new(&program, PollFlags::IN)], Some(&time)).unwrap() > 0
}

#[test]
fn a_signal_ends_exec_although_its_output_is_not_read() {
    const ROOM: usize = 4096;
    let args = ["exec", "--approve-all", "--model", "direct", "run yes 'a line of output'"];
    for signal in [Signal::INT, Signal::TERM] {
        let scratch = Scratch::new();
        let mut child = command(&scratch, &[], &args).spawn().unwrap();
        let out = child.stdout.take().unwrap();
        rustix::pipe::fcntl_setpipe_size(&out, ROOM).unwrap();
        let begun = Instant::now();
        // Waits until the pipe has no room for one more line.
        while rustix::io::ioctl_fionread(&out).unwrap() < ROOM as u64 - 20 {
            assert!(!ends_within(&child, Duration::from_millis(5)) && begun.elapsed() < DEADLINE);
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        if !ends_within(&child, DEADLINE) {
            child.kill().unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal.as_raw()));
        drop(out);
    }
}

#[test]
fn without_a_permission_dialogue_no_options_are_printed_and_each_title_once() {
    for (flags, code) in [(&["--approve-all"][..], 0), (&["--deny-all"], 1), (&[], 3)] {
        for (line, title) in [
            ("run echo a title", "echo a title"),
            ("write new.txt\n<<<\nx\n>>>", "Write new.txt"),
            ("read notes.txt", "Read notes.txt"),
        ] {
            let scratch = Scratch::new();
            let args = [&["exec", "--model", "direct"], flags, &[line]].concat();
            let (exit, out, err) = run(&scratch, &[], &args);
            let is_asked = !line.starts_with("read");
            assert_eq!(exit, Some(if is_asked { code } else { 0 }), "{out}{err}");
            assert_eq!(out.matches(title).count(), 1, "{out}");
            assert!(!out.contains("Always allow") && !out.contains("  1  "), "{out}");
        }
    }
}

#[test]
fn progress_of_a_command_is_one_line() {
    let line = r"run for i in 1 2 3; do printf '\r%s %%' $i; sleep 0.3; done; echo; echo end";
    let args = ["exec", "--approve-all", "--model", "direct", line];
    let (_, out, _) = run(&Scratch::new(), &[], &args);
    assert!(out.contains("  │ 3 %\n  │ end\n"), "{out}");
    assert!(!out.contains("│ 1 %") && !out.contains("│ 2 %"), "{out}");
}

#[test]
fn redirected_output_of_a_command_has_its_first_and_last_lines() {
    for (count, omitted) in [(150, None), (300, Some(94))] {
        let filler = "x".repeat(60);
        let line = format!("run for i in $(seq {count}); do echo \"line $i {filler}\"; done");
        let scratch = Scratch::new();
        let args = ["exec", "--approve-all", "--model", "direct", &line];
        let (exit, out, err) = run(&scratch, &[], &args);
        assert_eq!(exit, Some(0), "{out}{err}");
        let is_shown = |number: usize| out.contains(&format!("│ line {number} {filler}\n"));
        let missing: Vec<_> = (1..=count).filter(|number| !is_shown(*number)).collect();
        let expected: Vec<_> = omitted.map_or(vec![], |omitted| (201..201 + omitted).collect());
        assert_eq!(missing, expected, "{out}");
        assert_eq!(out.contains("│ … 94 more lines\n"), omitted.is_some(), "{out}");
        assert!(!out.contains("bytes left out"), "{out}");
        let shown = run(&scratch, &[], &["sessions", "list"]).1;
        let id = shown.split_whitespace().next().unwrap();
        let shown = run(&scratch, &[], &["sessions", "show", id]).1;
        for number in [1, 100, count] {
            assert!(shown.contains(&format!("│ line {number} {filler}\n")), "{shown}");
        }
    }
}

#[test]
fn a_command_writes_to_a_pipe_if_exec_does() {
    let line = "run test -t 1 && echo to a terminal || echo to a pipe";
    let args = ["exec", "--approve-all", "--model", "direct", line];
    let (_, out, _) = run(&Scratch::new(), &[], &args);
    assert!(out.contains("│ to a pipe\n"), "{out}");
}

#[test]
fn an_unknown_model_has_one_exit_code_wherever_it_is_named() {
    let flag = &["exec", "--model", "nonsense", "hello"][..];
    let plain = &["exec", "hello"][..];
    for (file, variable, args) in [
        (None, None, flag),
        (None, Some(("CALLBOARD_MODEL", "nonsense")), plain),
        (Some("model = 'nonsense'\n"), None, plain),
    ] {
        let scratch = Scratch::new();
        file.iter().for_each(|text| drop(scratch.write_config(text)));
        let env: Vec<_> = variable.into_iter().collect();
        let (exit, out, err) = run(&scratch, &env, args);
        assert_eq!((exit, &*out), (Some(2), ""), "{file:?} {variable:?}: {err}");
        assert!(err.contains("unknown model `nonsense`"), "{err}");
    }
    let scratch = Scratch::new();
    scratch.write_config("mode = 'nonsense'\n");
    assert_eq!(run(&scratch, &[], plain).0, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn piped_input_is_context_for_the_model() {
    let replies = ["one", "two", "three"].map(|text| MockReply::new().with_text(text).into());
    let server = ModelServer::start(replies).await.unwrap();
    let url = server.base_url(Dialect::OpenAiChat);
    let env = [("OPENAI_API_KEY", "sk-x"), ("OPENAI_BASE_URL", &*url)];
    let scratch = Scratch::new();
    let args = ["exec", "--model", "openai/m", "explain"];
    let asked = |at: usize| server.reply_requests()[at].body_json().to_string();

    let mut child = command(&scratch, &env, &args).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"+ a line of a diff\n").unwrap();
    let (exit, out, err) = outcome(child.wait_with_output().unwrap());
    assert_eq!(exit, Some(0), "{out}{err}");
    assert!(asked(0).contains("Standard input:\\n```\\n+ a line of a diff\\n```"), "{}", asked(0));

    let file = fs::File::open(scratch.path("notes.txt")).unwrap();
    let (exit, out, err) = outcome(command(&scratch, &env, &args).stdin(file).output().unwrap());
    assert_eq!(exit, Some(0), "{out}{err}");
    assert!(asked(1).contains("Standard input:\\n```\\none\\ntwo\\nthree\\n```"), "{}", asked(1));

    // In this run, standard input arrives late.
    let mut child = command(&scratch, &env, &args).stdin(Stdio::piped()).spawn().unwrap();
    let mut slow = child.stdin.take().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("waiting for standard input") && line.contains("</dev/null"), "{line}");
    slow.write_all(b"late\n").unwrap();
    drop(slow);
    let (exit, out, _) = outcome(child.wait_with_output().unwrap());
    assert_eq!(exit, Some(0), "{out}");
    assert!(asked(2).contains("Standard input:\\n```\\nlate\\n```"), "{}", asked(2));
}

#[test]
fn piped_input_is_no_argument_of_a_slash_command() {
    let scratch = Scratch::new();
    fs::write(scratch.path("answer.jsonl"), r#"{"text":"Hello."}"#).unwrap();
    let model = ["exec", "--model", "script:answer.jsonl"];
    assert_eq!(run(&scratch, &[], &[&model[..], &["hi"]].concat()).0, Some(0));
    let args = [&model[..], &["--continue", "/fork 1"]].concat();
    let file = fs::File::open(scratch.path("notes.txt")).unwrap();
    let (exit, out, err) = outcome(command(&scratch, &[], &args).stdin(file).output().unwrap());
    assert_eq!(exit, Some(0), "{out}{err}");
    assert!(out.contains("Stored a copy of this session"), "{out}{err}");
}

/// Starts an HTTP server that runs until the test process ends. `answer` gets the head of each
/// request and whether its key is correct. Returns the address.
fn serve(answer: impl Fn(&str, bool) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(std::thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                head.push_str(&line.to_lowercase());
                line.clear();
            }
            let length = head.split("content-length:").nth(1).and_then(|it| it.split('\r').next());
            let length: usize = length.map_or(0, |it| it.trim().parse().unwrap());
            assert!(reader.read_exact(&mut vec![0; length]).is_ok());
            let (status, body) = answer(&head, head.contains("authorization: bearer good"));
            let answer = format!(
                "HTTP/1.1 {status} So\r\nconnection: close\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            drop(stream.write_all(answer.as_bytes()));
        }
    }));
    url
}

fn list() -> String {
    r#"{"data":[{"id":"a","object":"model"},{"id":"b","object":"model"}]}"#.to_owned()
}

#[test]
fn models_names_the_model_that_exec_runs_with() {
    let url = serve(|head, _| match head.starts_with("get") {
        true => (200, list()),
        false => (200, r#"{"choices":[{"message":{"content":"Hi."}}]}"#.to_owned()),
    });
    let env = [("OPENAI_API_KEY", "good"), ("OPENAI_BASE_URL", &*url)];
    let scratch = Scratch::new();
    let screens = screen(&scratch, &env, &["models"]) + &screen(&scratch, &[], &["models"]);
    insta::assert_snapshot!(screens.replace(&url, "[url]"));
    let (_, out, _) = run(&scratch, &env, &["exec", "hello"]);
    assert!(
        out.starts_with("The model is `openai/a`, because `OPENAI_API_KEY` is set.\n"),
        "{out}"
    );
}

#[test]
fn a_server_that_does_not_run_is_reported_at_once() {
    let scratch = Scratch::new();
    let begun = Instant::now();
    let ollama = screen(&scratch, &[], &["exec", "--model", "ollama/x", "hello"]);
    let env = [("OPENAI_BASE_URL", "http://localhost:2/v1"), ("OPENAI_API_KEY", "x")];
    let openai = screen(&scratch, &env, &["exec", "--model", "openai/x", "hello"]);
    insta::assert_snapshot!(ollama + &openai);
    assert!(begun.elapsed().as_secs() < 10);
}

#[test]
fn the_error_about_a_refused_key_names_its_source_and_the_login() {
    let url = serve(|_, _| (401, r#"{"error":{"message":"Wrong."}}"#.to_owned()));
    let env = [("OPENAI_API_KEY", "sk-wrong-1"), ("OPENAI_BASE_URL", &*url)];
    let scratch = Scratch::new();
    let lines = [&["exec", "--model", "openai/x", "hello"][..], &["exec", "hello"], &["models"]];
    let screens = lines.map(|args| screen(&scratch, &env, args)).concat();
    insta::assert_snapshot!(screens.replace(&url, "[url]"));
}

#[test]
fn a_login_says_that_the_key_works_only_where_the_list_needs_it() {
    for (status, verdict) in
        [(401, "The key works: 2 models"), (200, "not verified"), (500, "is not known")]
    {
        let url = serve(move |_, has_key| match (has_key, status) {
            (true, _) | (_, 200) => (200, list()),
            _ => (status, "{}".to_owned()),
        });
        let scratch = Scratch::new();
        let mut child = command(&scratch, &[], &["login", "openai"]);
        let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{url}\ngood\n").as_bytes()).unwrap();
        let (exit, out, err) = outcome(child.wait_with_output().unwrap());
        assert_eq!(exit, Some(0), "{out}{err}");
        assert!(out.contains(verdict), "{out}");
        assert_eq!(out.contains("The key works"), status == 401, "{out}");
    }
}

#[test]
fn a_login_without_answers_says_how_to_give_them() {
    let scratch = Scratch::new();
    for (args, input) in
        [(&["login"][..], ""), (&["login", "openai"], ""), (&["login", "openai"], "http://a/v1\n")]
    {
        let mut child = command(&scratch, &[], args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let (exit, _, err) = outcome(child.wait_with_output().unwrap());
        assert_eq!(exit, Some(1), "{args:?}: {err}");
        let ways = ["Run `callboard login` in a terminal", "two lines on standard input"];
        assert!(ways.iter().all(|way| err.contains(way)), "{args:?}: {err}");
    }
}

#[tokio::test]
async fn the_menu_of_models_is_filled_from_the_list_of_the_server_after_the_session_began() {
    use crate::harness::{Agent, Options};

    let (open, opened) = std::sync::mpsc::channel::<()>();
    let opened = std::sync::Mutex::new(opened);
    let url = serve(move |_, _| {
        // The server must not answer before the session has opened.
        assert!(opened.lock().unwrap().recv().is_err());
        (200, list())
    });
    let mut agent = Agent::start_changed(Scratch::new(), &["acp"], Options::default(), |command| {
        command.envs(NO_SERVERS).env("OPENAI_API_KEY", "good").env("OPENAI_BASE_URL", url);
    });
    agent.initialize().await.unwrap();
    let session = agent.new_session().await;
    drop(open);
    let has = |client: &crate::harness::TestClient| {
        let update =
            client.session(&session).updates.iter().rev().find_map(|update| match update {
                acp_types::schema::v1::SessionUpdate::ConfigOptionUpdate(update) => Some(update),
                _ => None,
            });
        let shown = serde_json::to_string(&update).unwrap();
        shown.contains("openai/a") && shown.contains("openai/b")
    };
    agent.until(has).await;
    agent.finish().await;
}

/// Returns every wrong plural after the number 1, such as `1 matches`.
fn plurals_of_one(text: &str) -> Vec<String> {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric() && c != ',' && c != '.').collect();
    let is_plural = |word: &str| {
        let is_unit =
            matches!(word, "ms" | "s" | "is" | "was" | "has" | "ss" | "this" | "less" | "process");
        word.ends_with('s') && word.chars().all(|c| c.is_ascii_lowercase()) && !is_unit
    };
    let pairs = words.windows(2).filter(|pair| pair[0] == "1" && is_plural(pair[1]));
    pairs.map(|pair| pair.join(" ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_has_a_plural_after_the_number_one() {
    use callboard_models::mock_server::MockToolCall;
    use serde_json::json;

    let calls = [
        ("grep", json!({"pattern": "two"})),
        ("grep", json!({"pattern": "one", "path": "one", "context": 1})),
        ("read_file", json!({"path": "one/one.txt"})),
        ("read_file", json!({"path": "one/one.txt", "offset": 9})),
        ("read_file", json!({"path": "one/zero.bin"})),
        ("list_directory", json!({"path": "one"})),
        ("find_path", json!({"pattern": "one.txt"})),
        ("todo_write", json!({"todos": [{"content": "a", "status": "pending"}]})),
        ("write_file", json!({"path": "made.txt", "content": "x"})),
        ("edit_file", json!({"path": "made.txt", "old_text": "x", "new_text": "y"})),
        (
            "edit_file",
            json!({"path": "made.txt", "old_text": "y", "new_text": "z", "occurrence": 2}),
        ),
        ("terminal", json!({"command": "printf x"})),
        ("terminal", json!({"command": "printf '\\0'"})),
        ("terminal", json!({"command": "sleep 63 & echo x"})),
        ("delete_path", json!({"path": "one"})),
        ("undo", json!({})),
    ];
    let mut replies: Vec<_> = Vec::new();
    for (name, args) in &calls {
        let reply = MockReply::new().with_call(MockToolCall::new(name, args));
        replies.push(reply.into());
    }
    replies.push(MockReply::new().with_text("Done.").into());
    let server = ModelServer::start(replies).await.unwrap();
    let url = server.base_url(Dialect::OpenAiChat);
    let env = [("OPENAI_API_KEY", "sk-x"), ("OPENAI_BASE_URL", &*url)];
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("one")).unwrap();
    fs::write(scratch.path("one/one.txt"), "one\n").unwrap();
    fs::write(scratch.path("one/zero.bin"), "\0").unwrap();
    let args = ["exec", "--approve-all", "--model", "openai/m", "count"];
    let (exit, out, err) = run(&scratch, &env, &args);
    assert_eq!(exit, Some(0), "{out}{err}");
    let messages = server.reply_requests().last().unwrap().body_json()["messages"]
        .to_string()
        .replace("\\n", " ");
    assert!(messages.contains("1 matching line in 1 file"), "{messages}");
    assert_eq!(plurals_of_one(&out), Vec::<String>::new(), "{out}");
    assert_eq!(plurals_of_one(&messages), Vec::<String>::new(), "{messages}");
    assert_eq!(plurals_of_one("[1 matches in 21 files]"), ["1 matches"]);
}
