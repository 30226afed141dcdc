//! Permission requests, and the result of each answer.

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::script::{call, end, run, text};
use crate::harness::session::{call_text, content_text, diff};
use crate::harness::{Agent, PermissionReply, ReceivedPermissionRequest};

const ALLOW: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowOnce);
const ALLOW_ALWAYS: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowAlways);
const REJECT: PermissionReply = PermissionReply::Select(PermissionOptionKind::RejectOnce);
const REJECT_ALWAYS: PermissionReply = PermissionReply::Select(PermissionOptionKind::RejectAlways);

const NOTES: &str = "one\ntwo\nthree\n";

fn edit() -> Value {
    let args = json!({"path": "notes.txt", "old_text": "two", "new_text": "2"});
    call("edit_file", args)
}

#[tokio::test]
async fn a_call_that_was_allowed_once_is_asked_about_again() {
    let mut agent = Agent::ready([run("echo a"), end(), run("echo a"), end()], ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.client.permission_requests.len(), 2);
    assert!(agent.session().calls().iter().all(|call| call.status == ToolCallStatus::Completed));
    agent.finish().await;
}

#[tokio::test]
async fn a_call_that_is_always_allowed_is_not_asked_about_again_and_others_are() {
    let script = [run("echo a"), end(), run("echo a"), end(), run("echo a; echo b"), end()];
    let mut agent = Agent::ready(script, ALLOW_ALWAYS).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let input =
        |asked: &ReceivedPermissionRequest| asked.request.tool_call.fields.raw_input.clone();
    let asked: Vec<_> = agent.client.permission_requests.iter().map(input).collect();
    let commands = [json!({"command": "echo a"}), json!({"command": "echo a; echo b"})];
    assert_eq!(asked, commands.map(Some));
    agent.finish().await;
}

#[tokio::test]
async fn every_answer_except_an_allow_fails_the_call_and_the_turn_continues() {
    for no in
        [REJECT, REJECT_ALWAYS, PermissionReply::Error, PermissionReply::SelectId("no such option")]
    {
        let mut agent = Agent::ready([edit(), end(), text("So be it.")], no).await;
        assert_eq!(agent.turn("go").await, "end_turn", "{no:?}");
        assert_eq!(agent.session().message_text(), "So be it.", "{no:?}");
        let call = agent.call("edit_file");
        assert_eq!(call.status, ToolCallStatus::Failed, "{no:?}");
        assert!(!agent.session().client_state.has_run(&call.tool_call_id.0), "{no:?}");
        let (words, code) = match no {
            PermissionReply::Error => ("Not run: permission was not granted", "not_permitted"),
            PermissionReply::SelectId(_) => ("is none of the options", "not_permitted"),
            _ => ("Rejected by the user", "rejected"),
        };
        assert!(call_text(&call).contains(words), "{no:?}: {}", call_text(&call));
        assert_eq!(call.raw_output.unwrap()["code"], code, "{no:?}");
        assert_eq!(agent.scratch.read("notes.txt"), NOTES, "{no:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_call_that_is_always_rejected_is_not_asked_about_again() {
    let script = [run("touch x"), end(), run("touch x"), end(), run("touch y"), end()];
    let mut agent = Agent::ready(script, REJECT_ALWAYS).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.client.permission_requests.len(), 2);
    let calls = agent.session().calls();
    assert!(calls.iter().all(|call| call.status == ToolCallStatus::Failed));
    assert_eq!(calls[1].raw_output.as_ref().unwrap()["code"], "not_permitted");
    assert!(!agent.scratch.path("x").exists() && !agent.scratch.path("y").exists());
    agent.finish().await;
}

#[tokio::test]
async fn the_outcome_cancelled_ends_the_turn() {
    let script = [edit(), end(), text("This is never said.")];
    let mut agent = Agent::ready(script, PermissionReply::Cancelled).await;
    assert_eq!(agent.turn("go").await, "cancelled");
    assert_eq!(agent.session().message_text(), "");
    assert_eq!(agent.call("edit_file").status, ToolCallStatus::Failed);
    assert_eq!(agent.scratch.read("notes.txt"), NOTES);
    agent.finish().await;
}

#[tokio::test]
async fn an_unanswered_permission_request_is_cancelled_with_its_turn() {
    let mut agent = Agent::ready([edit(), end()], PermissionReply::NoReply).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| !client.permission_requests.is_empty()).await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    agent.until(|client| !client.cancelled_requests.is_empty()).await;
    assert_eq!(agent.client.cancelled_requests, [agent.client.permission_requests[0].id.clone()]);
    // An answer that arrives after the cancel has no effect.
    agent.permit(0, ALLOW).await;
    agent.turn("again").await;
    assert_eq!(agent.call("edit_file").status, ToolCallStatus::Failed);
    assert_eq!(agent.scratch.read("notes.txt"), NOTES);
    agent.finish().await;
}

#[tokio::test]
async fn a_permission_request_shows_the_whole_action_and_offers_once_and_always() {
    let command = "echo one &&\n  echo two # to the end";
    let mut agent = Agent::ready_without_store([edit(), end(), run(command), end()], ALLOW).await;
    agent.turn("go").await;
    insta::assert_snapshot!(agent.wire());
    agent.finish().await;
}

/// The request must contain the whole command and its folder, because the title truncates a long
/// command and omits the session's own folder.
#[tokio::test]
async fn a_permission_request_shows_the_whole_command_its_folder_and_the_reason() {
    for cwd in [".", "src"] {
        let command = format!("sudo true\n# {} to the very end", "long ".repeat(1_000));
        let args = json!({"command": command, "cwd": cwd});
        let mut agent = Agent::ready([call("terminal", args), end()], REJECT).await;
        agent.turn("go").await;
        let fields = &agent.client.permission_requests[0].request.tool_call.fields;
        let content = fields.content.as_ref().unwrap();
        let asked: String = content.iter().filter_map(content_text).collect();
        let folder = match cwd {
            "." => agent.scratch.cwd(),
            other => agent.scratch.path(other),
        };
        let expected = format!("$ {command}\n[in {}]\n", folder.display());
        assert!(asked.contains(&expected), "{cwd}: {asked}");
        assert!(asked.contains("This needs permission each time: "), "{asked}");
        // The folder is only shown in the permission request.
        let after = call_text(&agent.call("terminal"));
        assert!(!after.contains("[in "), "{after}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn calls_that_only_read_or_think_need_no_permission() {
    let script = [
        call("read_file", json!({"path": "notes.txt"})),
        call("list_directory", json!({"path": "."})),
        call("grep", json!({"pattern": "two"})),
        call("think", json!({"thought": "Hm."})),
        end(),
    ];
    let mut agent = Agent::ready(script, REJECT).await;
    agent.turn("go").await;
    assert_eq!(agent.client.permission_requests.len(), 0);
    assert!(agent.session().calls().iter().all(|call| call.status == ToolCallStatus::Completed));
    agent.finish().await;
}

/// A permission applies to a change together with the lines around it. The permission does not
/// depend on the position of these lines in the file.
#[tokio::test]
async fn a_change_that_differs_from_the_shown_one_needs_permission_again() {
    for (now, again, text) in [
        ("\na\nb\nc\ntwo\n", None, "\na\nb\nc\n2\n"),
        ("a\nb\nC\ntwo\n", Some(ALLOW), "a\nb\nC\n2\n"),
        ("a\nb\nC\ntwo\n", Some(REJECT), "a\nb\nC\ntwo\n"),
    ] {
        let mut agent = Agent::ready([edit(), end()], PermissionReply::NoReply).await;
        std::fs::write(agent.scratch.path("notes.txt"), "a\nb\nc\ntwo\n").unwrap();
        let prompt = agent.prompt("go").await;
        agent.until(|client| !client.permission_requests.is_empty()).await;
        std::fs::write(agent.scratch.path("notes.txt"), now).unwrap();
        agent.permit(0, ALLOW).await;
        if let Some(answer) = again {
            agent.until(|client| client.permission_requests.len() > 1).await;
            let asked = &agent.client.permission_requests[1].request.tool_call.fields;
            let diff = diff(asked.content.as_ref().unwrap());
            assert_eq!((diff.old_text.as_deref(), &*diff.new_text), (Some(now), "a\nb\nC\n2\n"));
            assert_eq!(agent.scratch.read("notes.txt"), now);
            agent.permit(1, answer).await;
        }
        assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
        assert_eq!(agent.client.permission_requests.len(), 1 + usize::from(again.is_some()));
        assert_eq!(agent.scratch.read("notes.txt"), text);
        let is_done = agent.call("edit_file").status == ToolCallStatus::Completed;
        assert_eq!(is_done, text != now);
        agent.finish().await;
    }
}

#[tokio::test]
async fn permission_requests_of_parallel_calls_are_answered_separately() {
    let script = [run("echo a > a"), run("echo b > b"), end(), text("Done.")];
    let mut agent = Agent::ready(script, PermissionReply::NoReply).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| client.permission_requests.len() == 2).await;
    let title =
        |asked: &ReceivedPermissionRequest| asked.request.tool_call.fields.title.clone().unwrap();
    let a =
        agent.client.permission_requests.iter().position(|asked| title(asked).contains("echo a"));
    let a = a.expect("a question about a");
    agent.permit(1 - a, ALLOW).await;
    agent.permit(a, REJECT).await;
    assert_eq!(agent.stop_reason(&prompt).await, "end_turn");
    let statuses: Vec<_> = agent.session().calls().iter().map(|call| call.status).collect();
    assert_eq!(statuses, [ToolCallStatus::Failed, ToolCallStatus::Completed]);
    assert!(!agent.scratch.path("a").exists() && agent.scratch.path("b").exists());
    agent.finish().await;
}

#[tokio::test]
async fn invisible_and_reordering_characters_are_shown_escaped() {
    let command = "echo \u{202e}txt.exe\u{200b}; echo 'a\tb'";
    let mut agent = Agent::ready([run(command), end()], REJECT).await;
    agent.turn("go").await;
    let title = agent.client.permission_requests[0].request.tool_call.fields.title.clone().unwrap();
    assert!(title.contains("echo \\u{202e}txt.exe\\u{200b}; echo 'a\\tb'"), "{title}");
    agent.finish().await;
}

#[tokio::test]
async fn a_change_that_is_too_large_to_be_shown_can_be_allowed_only_once() {
    let content = "a line of some length\n".repeat(20_000);
    let write = call("write_file", json!({"path": "large.txt", "content": content}));
    let mut agent = Agent::ready([write, end()], ALLOW).await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let kinds: Vec<_> = agent.client.permission_requests[0]
        .request
        .options
        .iter()
        .map(|option| option.kind)
        .collect();
    assert_eq!(kinds, [PermissionOptionKind::AllowOnce, PermissionOptionKind::RejectOnce]);
    assert_eq!(agent.scratch.read("large.txt"), content);
    agent.finish().await;
}

#[tokio::test]
async fn the_outcome_cancelled_ends_the_parallel_calls() {
    let script = [run("sleep 600"), run("sleep 601"), end()];
    let mut agent = Agent::ready(script, PermissionReply::NoReply).await;
    let prompt = agent.prompt("go").await;
    agent.until(|client| client.permission_requests.len() == 2).await;
    agent.permit(1, PermissionReply::Cancelled).await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    agent.finish().await;
}

/// A faulty client: its answers to the permission request of a command, and the expected stop
/// reason of the turn.
struct Misbehaviour {
    name: &'static str,
    /// The answers that the client sends, in this order.
    answers: &'static [PermissionReply],
    /// Number of answers that the client sends before it cancels the turn. If the number is `None`,
    /// the client does not cancel.
    cancels_after: Option<usize>,
    stop: &'static str,
}

const ALLOW_FIRST: PermissionReply = PermissionReply::Select(PermissionOptionKind::AllowOnce);

const MISBEHAVIOURS: [Misbehaviour; 9] = [
    Misbehaviour { name: "never", answers: &[], cancels_after: Some(0), stop: "cancelled" },
    Misbehaviour {
        name: "late: after the cancel",
        answers: &[ALLOW_FIRST],
        cancels_after: Some(0),
        stop: "cancelled",
    },
    Misbehaviour {
        name: "no, then yes",
        answers: &[REJECT, ALLOW_FIRST],
        cancels_after: None,
        stop: "end_turn",
    },
    Misbehaviour {
        name: "no for good, then yes for good",
        answers: &[REJECT_ALWAYS, ALLOW_ALWAYS],
        cancels_after: None,
        stop: "end_turn",
    },
    Misbehaviour {
        name: "an error, then yes",
        answers: &[PermissionReply::Error, ALLOW_FIRST],
        cancels_after: None,
        stop: "end_turn",
    },
    Misbehaviour {
        name: "an error",
        answers: &[PermissionReply::Error],
        cancels_after: None,
        stop: "end_turn",
    },
    Misbehaviour {
        name: "an unknown option, then yes",
        answers: &[PermissionReply::SelectId("yes"), ALLOW_FIRST],
        cancels_after: None,
        stop: "end_turn",
    },
    Misbehaviour {
        name: "an option of another agent",
        answers: &[PermissionReply::SelectId("allow_once")],
        cancels_after: None,
        stop: "end_turn",
    },
    Misbehaviour {
        name: "cancelled, then yes",
        answers: &[PermissionReply::Cancelled, ALLOW_FIRST],
        cancels_after: None,
        stop: "cancelled",
    },
];

#[tokio::test]
async fn a_command_runs_only_if_the_first_answer_allows_it() {
    for Misbehaviour { name, answers, cancels_after, stop } in MISBEHAVIOURS {
        let script = [run("touch ran"), end(), text("So be it.")];
        let mut agent = Agent::ready(script, PermissionReply::NoReply).await;
        let prompt = agent.prompt("go").await;
        agent.until(|client| !client.permission_requests.is_empty()).await;
        for sent in 0..=answers.len() {
            if cancels_after == Some(sent) {
                agent.cancel().await;
            }
            if let Some(answer) = answers.get(sent) {
                agent.permit(0, *answer).await;
            }
        }
        assert_eq!(agent.stop_reason(&prompt).await, stop, "{name}");
        // This turn only waits for late messages: all of them arrive before its end.
        assert_eq!(agent.turn("again").await, "end_turn", "{name}");
        let call = agent.call("terminal");
        assert_eq!(call.status, ToolCallStatus::Failed, "{name}");
        assert!(!agent.session().client_state.has_run(&call.tool_call_id.0), "{name}");
        assert_eq!(agent.scratch.snapshot(), agent.scratch.untouched(), "{name}");
        agent.finish().await;
    }
}
