//! Tests for background commands: how they start, report output and end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use acp_lifecycle::{CallExecutor as _, CallOutcome, Effect};
use acp_types::{CallEndReason, Content, Status, ToolCallId};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::TestSession;
use crate::limits::{MAX_BACKGROUND_ENDED_KEPT, MAX_BACKGROUND_RUNNING, MAX_TERMINAL_INPUT_BYTES};
use crate::sandbox::CommandIsolation;

/// Maximum duration of a step of a test. A step that takes longer fails the test.
const PATIENCE: Duration = Duration::from_secs(30);

impl TestSession {
    /// Runs a call, and returns its text for the model.
    async fn call_text(&mut self, name: &str, args: Value) -> String {
        self.call(name, args).await.0.text
    }

    /// Starts a command in the background.
    async fn start_in_background(&mut self, command: &str) -> String {
        self.call_text("terminal", json!({ "command": command, "background": true })).await
    }

    /// Polls a command until its output contains `text`. Returns the whole output that was read.
    async fn read_until(&mut self, id: &str, text: &str) -> String {
        let mut seen = String::new();
        let look = async {
            while !seen.contains(text) {
                seen += &self.call_text("terminal_output", json!({"id": id, "wait_ms": 20})).await;
            }
        };
        let waited = timeout(PATIENCE, look).await;
        assert!(waited.is_ok(), "no output with {text:?}: {seen}");
        seen
    }
}

/// Returns a command that runs for ten minutes. No other test runs the same command.
fn endless() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("sleep 600.{}00{count}", std::process::id())
}

/// Returns whether a process with exactly this command line is running.
fn is_running(command: &str) -> bool {
    let line = command.replace(' ', "\0") + "\0";
    std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
        std::fs::read(process.path().join("cmdline")).is_ok_and(|read| read == line.as_bytes())
    })
}

async fn wait_until_running(command: &str) {
    let begun = async {
        while !is_running(command) {
            tokio::task::yield_now().await;
        }
    };
    assert!(timeout(PATIENCE, begun).await.is_ok(), "{command} does not run");
}

async fn wait_until_gone(command: &str) {
    let gone = async {
        while is_running(command) {
            tokio::task::yield_now().await;
        }
    };
    assert!(timeout(PATIENCE, gone).await.is_ok(), "{command} still runs");
}

fn failure(ended: &CallOutcome) -> (Status, Option<CallEndReason>) {
    (ended.status, ended.reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_command_can_be_read_and_stopped() {
    let mut stage = TestSession::new();
    let sleep = endless();
    let command = format!("echo begun; cat gate; echo on; exec {sleep}");
    let gate = stage.folder.path().join("root/gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).unwrap();
    let args = json!({ "command": command, "background": true });
    let (ended, report) = stage.call("terminal", args).await;
    assert_eq!((ended.status, report.status), (Status::Completed, Status::Completed));
    assert!(ended.text.contains("in the background as bg-1"), "{}", ended.text);
    if !ended.text.ends_with("]\nbegun\n") {
        stage.read_until("bg-1", "begun\n").await;
    }
    let raw = report.raw_output.unwrap();
    assert_eq!((&raw["background"], &raw["running"]), (&json!("bg-1"), &json!(true)));
    assert!(report.content.iter().any(|content| matches!(content, Content::Terminal(_))));
    assert!(
        report.content.contains(&Content::from_text(
            "It still runs, and continues in the background as bg-1."
        ))
    );

    let nothing = stage.call_text("terminal_output", json!({ "id": "bg-1" })).await;
    assert!(nothing.ends_with("]\n[nothing new]\n"), "{nothing}");
    std::fs::write(&gate, "").unwrap();
    let seen = stage.read_until("bg-1", "on\n").await;
    assert!(!seen.contains("begun"), "{seen}");
    let whole = stage.call_text("terminal_output", json!({ "id": "bg-1", "whole": true })).await;
    assert!(whole.ends_with("]\nbegun\non\n"), "{whole}");
    let listed = stage.call_text("terminal_output", json!({})).await;
    assert!(listed.starts_with("bg-1 has run for ") && listed.ends_with(&command), "{listed}");

    wait_until_running(&sleep).await;
    let (stopped, report) = stage.call("terminal_stop", json!({ "id": "bg-1" })).await;
    assert_eq!(stopped.status, Status::Completed);
    assert!(stopped.text.starts_with("[bg-1 ended after "), "{}", stopped.text);
    assert!(stopped.text.contains(": it was stopped]\n"), "{}", stopped.text);
    assert_eq!(report.raw_output.unwrap()["running"], false);
    wait_until_gone(&sleep).await;
    // The call of `terminal_stop` has already reported the end of the command.
    assert_eq!(stage.context.workspace.background_commands().take_unreported_ended_id(), None);
    let again = stage.call_text("terminal_stop", json!({ "id": "bg-1" })).await;
    assert!(again.contains("ended after") && again.ends_with("[nothing new]\n"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ends_at_once_never_moves_to_the_background() {
    let (mut stage, (ended, report)) = loop {
        let mut stage = TestSession::new();
        let args = json!({ "command": "echo no; exit 3", "background": true });
        let called = stage.call("terminal", args).await;
        // On a busy machine, the command may take so long that it moves to the background.
        if called.0.status == Status::Failed {
            break (stage, called);
        }
    };
    assert_eq!(failure(&ended), (Status::Failed, Some(CallEndReason::Error)));
    assert_eq!((ended.text.as_str(), report.meta.exit_code), ("[exit code 3]\nno\n", Some(3)));
    let listed = stage.call_text("terminal_output", json!({})).await;
    assert!(listed.starts_with("No command of this session is in the background."), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_command_moves_to_the_background_and_ends_at_its_timeout() {
    let mut stage = TestSession::new();
    let sleep = endless();
    let args = json!({ "command": sleep, "background_after_ms": 1, "timeout_ms": 3000 });
    let output = stage.call_text("terminal", args).await;
    assert!(output.contains("continues in the background as bg-1"), "{output}");
    let waited =
        stage.call_text("terminal_output", json!({ "id": " bg-1\n", "wait_ms": 60_000 })).await;
    assert!(waited.contains("ended after its timeout of 3000 ms"), "{waited}");
    assert!(!is_running(&sleep));
    // If the arguments contain only a timeout, the command is ended in the foreground.
    let (ended, _) = stage.call("terminal", json!({ "command": sleep, "timeout_ms": 200 })).await;
    assert_eq!(failure(&ended), (Status::Failed, Some(CallEndReason::Timeout)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_ends_only_foreground_commands() {
    let mut stage = TestSession::new();
    let (kept, ended) = (endless(), endless());
    let turn = CancellationToken::new();
    let args = json!({ "command": kept, "background": true });
    stage.call_in(&turn, "terminal", args).await;
    let cancel = turn.clone();
    let line = ended.clone();
    let cancelling = tokio::spawn(async move {
        wait_until_running(&line).await;
        cancel.cancel();
    });
    // If the turn were not cancelled, this call would move the command to the background.
    let args = json!({ "command": ended, "background_after_ms": 20_000 });
    let (outcome, _) = stage.call_in(&turn, "terminal", args).await;
    cancelling.await.unwrap();
    assert_eq!(failure(&outcome), (Status::Cancelled, Some(CallEndReason::Turn)));
    wait_until_gone(&ended).await;
    assert!(is_running(&kept));
    // Cancelling the turn stops the wait for the command, but does not stop the command.
    let turn = CancellationToken::new();
    let cancel = turn.clone();
    let waiting =
        stage.call_in(&turn, "terminal_output", json!({ "id": "bg-1", "wait_ms": 60_000 }));
    let (waited, ()) = tokio::join!(waiting, async move { cancel.cancel() });
    assert_eq!(waited.0.status, Status::Cancelled);
    assert!(is_running(&kept));
    stage.context.workspace.background_commands().stop_all_and_wait().await;
    assert!(!is_running(&kept));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_commands_end_with_the_session() {
    let mut stage = TestSession::new();
    let (deaf, polite) = (endless(), endless());
    stage.start_in_background(&format!("trap '' TERM; {deaf}; {deaf}")).await;
    stage.start_in_background(&format!("setsid {polite} & wait")).await;
    wait_until_running(&deaf).await;
    wait_until_running(&polite).await;
    let TestSession { context, session, .. } = stage;
    drop((context, session));
    wait_until_gone(&deaf).await;
    wait_until_gone(&polite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_and_remembered_commands_are_limited() {
    let mut stage = TestSession::new();
    for _ in 0..MAX_BACKGROUND_RUNNING {
        stage.start_in_background(&endless()).await;
    }
    let args = json!({ "command": "true", "background": true });
    let (ended, report) = stage.call("terminal", args).await;
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(report.raw_output.unwrap()["code"], "too_many");
    // If all background slots are in use, the command runs in the foreground until it ends.
    let args = json!({ "command": "sleep 0.2; echo done", "background_after_ms": 1 });
    assert_eq!(stage.call_text("terminal", args).await, "[exit code 0]\ndone\n");
    stage.call_text("terminal_stop", json!({ "id": "bg-1" })).await;
    let args = json!({ "command": endless(), "background": true });
    assert_eq!(stage.call("terminal", args).await.0.status, Status::Completed);

    let background = stage.context.workspace.clone();
    let background = background.background_commands();
    for place in 0..=MAX_BACKGROUND_ENDED_KEPT {
        stage.call_text("terminal_stop", json!({ "id": format!("bg-{}", place + 2) })).await;
        let args = json!({ "command": "read", "tty": true, "background_after_ms": 1 });
        stage.call_text("terminal", args).await;
    }
    let ended = background.list().iter().filter(|command| !command.is_running()).count();
    assert_eq!(ended, MAX_BACKGROUND_ENDED_KEPT);
    assert!(background.find_by_id("bg-1").is_none());
    background.stop_all_and_wait().await;
    assert!(background.reserve_slot().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_command_reads_typed_input() {
    let mut stage = TestSession::new();
    let line = r#"stty -echo; echo ready; while read -r x; do echo "got <$x>"; done; echo over"#;
    let args = json!({ "command": line, "background": true, "tty": true });
    let output = stage.call_text("terminal", args).await;
    assert!(output.contains("terminal_input types at its terminal"), "{output}");
    if !output.contains("ready") {
        stage.read_until("bg-1", "ready").await;
    }
    let typed = stage.call_text("terminal_input", json!({ "id": "bg-1", "text": "a\n" })).await;
    if !typed.contains("got <a>\n") {
        stage.read_until("bg-1", "got <a>\n").await;
    }
    stage.read_until("bg-1", "and waits for input]").await;
    stage.call_text("terminal_input", json!({ "id": "bg-1", "text": "bc\n\u{4}" })).await;
    let end = stage.call_text("terminal_output", json!({ "id": "bg-1", "wait_ms": 60_000 })).await;
    let (whole, report) =
        stage.call("terminal_output", json!({ "id": "bg-1", "whole": true })).await;
    assert!(whole.text.ends_with("got <bc>\nover\n"), "{} {end}", whole.text);
    assert_eq!(report.meta.exit_code, Some(0));
    let (late, _) = stage.call("terminal_input", json!({ "id": "bg-1", "text": "d\n" })).await;
    assert_eq!(late.status, Status::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_interrupts_and_unread_input_does_not_block() {
    let mut stage = TestSession::new();
    let line = "stty raw -echo; trap 'echo caught; exit 7' INT; echo ready; sleep 600 & wait";
    let args = json!({ "command": line, "background": true, "tty": true });
    let output = stage.call_text("terminal", args).await;
    if !output.contains("ready") {
        stage.read_until("bg-1", "ready").await;
    }
    // A terminal buffers about 64 KiB of input that the program has not read.
    let mut failed = None;
    for _ in 0..40 {
        let text = "x".repeat(MAX_TERMINAL_INPUT_BYTES - 1) + "\n";
        let (ended, _) = stage.call("terminal_input", json!({ "id": "bg-1", "text": text })).await;
        if ended.status == Status::Failed {
            failed = Some(ended.text);
            break;
        }
    }
    assert!(failed.is_some_and(|text| text.starts_with("Only ")));
    stage.call_text("terminal_stop", json!({ "id": "bg-1" })).await;

    let line = "trap 'echo caught; exit 7' INT; echo ready; sleep 600 & wait";
    let args = json!({ "command": line, "background": true, "tty": true });
    let output = stage.call_text("terminal", args).await;
    if !output.contains("ready") {
        stage.read_until("bg-2", "ready").await;
    }
    stage.call_text("terminal_input", json!({ "id": "bg-2", "text": "\u{3}" })).await;
    let end = stage.call_text("terminal_output", json!({ "id": "bg-2", "wait_ms": 60_000 })).await;
    let whole = stage.call_text("terminal_output", json!({ "id": "bg-2", "whole": true })).await;
    assert!(whole.contains("caught") && whole.contains("exit code 7"), "{whole} {end}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_waits_for_input_moves_to_the_background() {
    let mut stage = TestSession::new();
    let line = r#"read -r -p "name? " x; echo "hello $x""#;
    let output = stage.call_text("terminal", json!({ "command": line, "tty": true })).await;
    assert!(output.starts_with("[It may be waiting for input, and continues in the background"));
    assert!(output.ends_with("]\nname? "), "{output}");
    let typed = stage.call_text("terminal_input", json!({ "id": "bg-1", "text": "Ann\n" })).await;
    let end = typed
        + &stage.call_text("terminal_output", json!({ "id": "bg-1", "wait_ms": 60_000 })).await;
    assert!(end.contains("hello Ann"), "{end}");
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_into_a_command_outside_of_the_sandbox_always_asks() {
    let mut stage = TestSession::new();
    let args = json!({ "command": "read -r x", "tty": true, "background": true });
    stage.call_text("terminal", args).await;
    let reason = "no namespaces".to_owned();
    for (isolation, asks) in
        [(CommandIsolation::Off, false), (CommandIsolation::Unavailable { reason }, true)]
    {
        let context = stage.context.clone().with_command_isolation(isolation);
        let (id, name) = (ToolCallId::new(format!("typing-{asks}")), "terminal_input");
        let cancel = CancellationToken::new();
        let open = stage
            .registry
            .announce_call(&stage.session, &id, &"t".into(), name, &context, &cancel)
            .unwrap();
        let args = json!({ "id": "bg-1", "text": "a\n" });
        let mut call = stage.registry.prepare_call(name, args, &context);
        let preview = call.preview(open.handle()).await.unwrap();
        assert_eq!(preview.effects.is_always_asked(), asks);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_calls_on_background_commands_are_errors() {
    let mut stage = TestSession::new();
    let input = |id: &str, text: &str| json!({ "id": id, "text": text });
    let (_, report) = stage.call("terminal_output", json!({ "id": "bg-1" })).await;
    assert_eq!(report.raw_output.unwrap()["code"], "not_found");
    stage.start_in_background(&endless()).await;
    for (tool, args, code, text) in [
        ("terminal_output", json!({ "id": "bg-7" }), "not_found", "bg-1"),
        ("terminal_output", json!({ "id": "", "wait_ms": 60_000 }), "not_found", "bg-1"),
        ("terminal_stop", json!({ "id": "1" }), "not_found", "bg-1"),
        ("terminal_input", input("bg-1", "y\n"), "invalid_arguments", "`tty`"),
        ("terminal_input", input("bg-1", ""), "invalid_arguments", "empty"),
        (
            "terminal_input",
            input("bg-1", &"x".repeat(MAX_TERMINAL_INPUT_BYTES + 1)),
            "too_large",
            "4000",
        ),
    ] {
        let (ended, report) = stage.call(tool, args).await;
        assert_eq!(ended.status, Status::Failed, "{tool}");
        assert_eq!(report.raw_output.unwrap()["code"], code, "{tool}: {}", ended.text);
        assert!(ended.text.contains(text), "{}", ended.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_requires_permission_and_reading_does_not() {
    let mut stage = TestSession::new();
    let args = json!({ "command": "cat", "background": true, "tty": true });
    stage.call_text("terminal", args).await;
    let TestSession { session, registry, context, .. } = &stage;
    let cancel = CancellationToken::new();
    for (place, (tool, text, effects, is_guarded)) in [
        ("terminal_input", Some("cargo test\n"), vec![&Effect::Unknown], false),
        ("terminal_input", Some("rm -rf ~\n"), vec![&Effect::Unknown], true),
        // The current directory of the shell is unknown.
        ("terminal_input", Some("rm -rf etc\n"), vec![&Effect::Unknown], true),
        ("terminal_input", Some("rm -r"), vec![&Effect::Unknown], true),
        ("terminal_input", Some("y\u{1b}[A\n"), vec![&Effect::Unknown], true),
        ("terminal_input", Some("\u{3}"), vec![&Effect::Unknown], false),
        ("terminal_output", None, vec![], false),
        ("terminal_stop", None, vec![], false),
    ]
    .into_iter()
    .enumerate()
    {
        let args = match text {
            Some(text) => json!({ "id": "bg-1", "text": text }),
            None => json!({ "id": "bg-1" }),
        };
        let id = ToolCallId::new(format!("look{place}"));
        let open =
            registry.announce_call(session, &id, &"t".into(), tool, context, &cancel).unwrap();
        let preview =
            registry.prepare_call(tool, args, context).preview(open.handle()).await.unwrap();
        assert_eq!(preview.effects.iter().collect::<Vec<_>>(), effects, "{tool}");
        assert_eq!(preview.effects.is_always_asked(), is_guarded, "{tool}: {text:?}");
        let title = session.call_report(&id).unwrap().title;
        assert!(title.contains("`cat`"), "{title}");
        let plain = text.map(str::trim_end).filter(|text| !text.contains(char::is_control));
        assert!(title.contains(plain.unwrap_or_default()), "{title}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_reported_once_and_secrets_are_redacted() {
    let mut stage = TestSession::new();
    std::fs::write(stage.folder.path().join("root/notes.txt"), "hunter2hunter2\n").unwrap();
    let gate = stage.folder.path().join("root/gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).unwrap();
    stage.start_in_background("cat notes.txt gate notes.txt; : hunter2hunter2; exit 4").await;
    let background = stage.context.workspace.clone();
    let background = background.background_commands();
    assert_eq!(background.take_unreported_ended_id(), None);
    std::fs::write(&gate, "").unwrap();
    background.wait_until_ended("bg-1").await;
    assert_eq!(background.take_unreported_ended_id().as_deref(), Some("bg-1"));
    assert_eq!(background.take_unreported_ended_id(), None);
    let (outcome, report) = stage.call("terminal_output", json!({ "id": "bg-1" })).await;
    assert!(
        outcome.text.contains(": exit code 4]\n") && outcome.text.ends_with("\n[redacted]\n"),
        "{}",
        outcome.text
    );
    assert!(report.title.contains("which has ended"), "{}", report.title);
    let whole = stage.call_text("terminal_output", json!({ "id": "bg-1", "whole": true })).await;
    assert!(whole.ends_with("]\n[redacted]\n[redacted]\n"), "{whole}");
    let (listed, report) = stage.call("terminal_output", json!({})).await;
    let shown = format!("{} {report:?}", listed.text);
    assert!(shown.contains("bg-1 ended after") && !shown.contains("hunter2"), "{shown}");
}
