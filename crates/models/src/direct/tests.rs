//! Tests of whole turns of the `direct` model.

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;

/// A session that stores messages as the agent does. Each call gets the next item of `results` as
/// its result.
#[derive(Default)]
struct FakeSession {
    request: ModelRequest,
    results: Vec<Result<&'static str, &'static str>>,
    /// Whether the session drops its oldest messages after each reply.
    is_too_large: bool,
}

impl FakeSession {
    fn answering(results: Vec<Result<&'static str, &'static str>>) -> Self {
        Self { results, ..Self::default() }
    }

    /// Keeps only the prompt and the newest reply with its results, as a session does that has
    /// become too large.
    fn drop_oldest(&mut self) {
        let messages = Arc::make_mut(&mut self.request.messages);
        let end = messages.len().saturating_sub(2).max(1);
        drop(messages.drain(1..end));
    }

    /// Runs a turn. Returns each call as the text `id name arguments`, and the text of the replies.
    async fn prompt(&mut self, prompt: &str) -> (Vec<String>, String) {
        let mut shown = Vec::new();
        Arc::make_mut(&mut self.request.messages).push(ChatMessage::user(prompt).into());
        loop {
            let (text, calls, stop) =
                collect_reply(DirectModel::default().reply(self.request.clone())).await;
            let assistant = ChatMessage::Assistant {
                text: text.clone(),
                thought: String::new(),
                calls: calls.clone(),
                replay: None,
            };
            Arc::make_mut(&mut self.request.messages).push(assistant.into());
            if stop != ModelStopReason::ToolCalls {
                return (shown, text);
            }
            let results = calls.iter().map(|call| self.run(call)).collect();
            Arc::make_mut(&mut self.request.messages)
                .push(ChatMessage::ToolResults(results).into());
            let show =
                |call: &ModelToolCall| format!("{} {} {}", call.id, call.name, call.arguments);
            shown.extend(calls.iter().map(show));
            if self.is_too_large {
                self.drop_oldest();
            }
        }
    }

    fn run(&mut self, call: &ModelToolCall) -> ToolResult {
        let result = self.results.remove(0);
        ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            text: result.unwrap_or_else(|error| error).to_owned(),
            parts: Vec::new(),
            is_error: result.is_err(),
        }
    }
}

/// Checks that a reply is well-formed, and returns the reply's text, calls and stop reason.
async fn collect_reply(mut reply: ReplyStream) -> (String, Vec<ModelToolCall>, ModelStopReason) {
    let (mut reply_text, mut calls, mut stop) = (String::new(), Vec::<ModelToolCall>::new(), None);
    while let Some(event) = reply.next().await {
        assert_eq!(stop, None, "nothing follows the stop");
        match event {
            ModelEvent::Text(text) => reply_text.push_str(&text),
            ModelEvent::CallStart { id, name } => {
                calls.push(ModelToolCall { id, name, arguments: String::new() });
            }
            ModelEvent::CallArguments { id, fragment } => {
                assert!(fragment.len() <= FRAGMENT_BYTES);
                let call = calls.last_mut().expect("a call has started");
                assert_eq!(call.id, id);
                call.arguments.push_str(&fragment);
            }
            ModelEvent::CallEnd { id } => assert_eq!(calls.last().map(|call| &call.id), Some(&id)),
            ModelEvent::Stop(reason) => stop = Some(reason),
            event => panic!("{event:?}"),
        }
    }
    (reply_text, calls, stop.expect("a reply stops"))
}

#[tokio::test]
async fn a_turn_makes_one_call_per_reply_and_then_a_summary() {
    let mut session = FakeSession::answering(vec![Ok("edited"), Ok("b")]);
    let (calls, text) = session.prompt("edit f\n<<<\na\n===\nb\n>>>\nread f").await;
    let expected = [
        r#"direct_1 edit_file {"path":"f","old_text":"a","new_text":"b"}"#,
        r#"direct_2 read_file {"path":"f"}"#,
    ];
    assert_eq!(calls, expected);
    assert_eq!(text, "Done: 2 calls.");
    assert_eq!(session.request.messages.len(), 6, "one call a reply");

    session.results = vec![Ok("x")];
    let (calls, text) = session.prompt("list").await;
    assert_eq!(calls, [r#"direct_1 list_directory {"path":"."}"#], "a new turn counts anew");
    assert_eq!(text, "Done: 1 call.");
}

#[tokio::test]
async fn no_call_is_repeated_after_older_messages_of_the_turn_were_dropped() {
    let mut session = FakeSession::answering(vec![Ok("1"), Ok("2"), Ok("3"), Err("no")]);
    session.is_too_large = true;
    let (calls, text) = session.prompt("run echo 1\nrun echo 2\nlist\nread x").await;
    let calls: Vec<_> =
        calls.iter().map(|call| call.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = ["direct_1 terminal", "direct_2 terminal", "direct_3 list_directory"];
    assert_eq!(calls, [&expected[..], &["direct_4 read_file"]].concat());
    assert_eq!(text, "4 calls, 1 failed:\n\n- `read_file`: no");
}

#[tokio::test]
async fn a_failed_call_does_not_stop_the_next_and_is_in_the_summary() {
    let mut session =
        FakeSession::answering(vec![Err("\nno such file: x\nat all"), Ok("."), Err("")]);
    let (calls, text) = session.prompt("read x\nlist\nrun false").await;
    assert_eq!(calls.len(), 3);
    let expected =
        "3 calls, 2 failed:\n\n- `read_file`: no such file: x\n- `terminal`: no reason given";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_long_error_is_quoted_in_part() {
    let mut session = FakeSession::answering(vec![Err("é".repeat(MAX_QUOTED_CHARS + 1).leak())]);
    let (_, text) = session.prompt("list").await;
    assert!(text.ends_with("é…") && text.chars().filter(|c| *c == 'é').count() == MAX_QUOTED_CHARS);
}

#[tokio::test]
async fn prompts_without_commands_get_a_text_and_no_call() {
    let cases = [
        ("", "One command a line"),
        ("help", "One command a line"),
        ("fix my bug", "Line 1 is not a command of the `direct` model. Nothing was run.\n\nOne "),
        ("list\nread", "Line 2: a path is missing"),
        ("list\nundo", "This session has no `undo`. Nothing was run."),
    ];
    for (prompt, expected) in cases {
        let (calls, text) = FakeSession::default().prompt(prompt).await;
        assert_eq!(calls, [""; 0], "{prompt}");
        assert!(text.starts_with(expected), "{prompt}: {text}");
    }
    let (text, _, stop) =
        collect_reply(DirectModel::with_text_after_help("Or else.").reply(ModelRequest::default()))
            .await;
    assert!(
        text.starts_with("One command a line") && stop == ModelStopReason::EndTurn,
        "no prompt at all"
    );
    assert!(text.ends_with(&format!("{HELP_FOOTER} Or else.")), "{text}");
}

#[tokio::test]
async fn undo_is_called_if_the_session_has_it() {
    let mut session = FakeSession::answering(vec![Ok("undone")]);
    session.request.tools = [undo()].into();
    assert_eq!(session.prompt("undo").await.0, ["direct_1 undo {}"]);
}

fn undo() -> ToolSpec {
    let input_schema = Value::Null;
    ToolSpec { name: "undo".into(), description: String::new(), input_schema }
}

#[test]
fn the_help_shows_every_command() {
    assert!(!commands_help(&[]).contains("`undo`"));
    let help = commands_help(&[undo()]);
    for command in COMMANDS {
        assert!(help.contains(&format!("- `{}`: ", command.usage())), "{}", command.name);
        assert!(help.contains(command.example), "{}", command.name);
    }
    assert!(help.ends_with(HELP_FOOTER));
}

#[test]
fn a_menu_shows_only_commands_whose_tools_are_available() {
    let names = |tools: &[ToolSpec]| -> Vec<_> {
        DirectModel::default().commands(tools).into_iter().map(|it| it.name).collect()
    };
    assert_eq!(names(&[]), ["tool", "help"]);
    assert_eq!(names(&[undo()]), ["undo", "tool", "help"]);
}
