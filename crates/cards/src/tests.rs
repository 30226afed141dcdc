//! Tests of whole sessions: the messages, and the text that they print.

mod outcomes;
mod permission_requests;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::CardRenderer;
use crate::limits::{MAX_CALLS, MAX_DIFF_LINES, MAX_LIVE_OUTPUT_LINES};

/// Renders each message. A message with options is a permission request; any other message is an
/// update.
fn render_all(messages: &[Value]) -> String {
    let mut cards = CardRenderer::new("/p", 80);
    let mut text = render_messages(&mut cards, messages);
    text.push_str(&cards.finish_open_line());
    text
}

fn render_messages(cards: &mut CardRenderer, messages: &[Value]) -> String {
    let mut text = String::new();
    for message in messages {
        if message.get("options").is_some() {
            let request = serde_json::from_value(message.clone()).unwrap();
            text += &cards.render_permission_request(&request, message.to_string().len());
        } else {
            let update = serde_json::from_value(message.clone()).unwrap();
            text += &cards.render_update(&update, message.to_string().len());
        }
    }
    text
}

#[track_caller]
fn check(messages: &[Value], expected: &str) {
    let text = render_all(messages);
    println!("{text}");
    assert_eq!(text, expected.strip_prefix('\n').unwrap_or(expected));
}

fn call(id: &str, title: &str, kind: &str) -> Value {
    json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind})
}

fn change(id: &str, fields: Value) -> Value {
    with(json!({"sessionUpdate": "tool_call_update", "toolCallId": id}), fields)
}

fn ask(id: &str, fields: Value) -> Value {
    json!({
        "sessionId": "s",
        "toolCall": with(json!({"toolCallId": id}), fields),
        "options": [
            {"optionId": "a", "name": "Allow", "kind": "allow_once"},
            {"optionId": "r", "name": "Reject", "kind": "reject_once"},
        ],
    })
}

fn with(mut value: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("no object") };
    value.as_object_mut().unwrap().extend(fields);
    value
}

fn running(id: &str) -> Value {
    change(id, json!({"status": "in_progress"}))
}

fn ended(id: &str, status: &str, millis: u64) -> Value {
    change(id, json!({"status": status, "_meta": {"callboard": {"durationMs": millis}}}))
}

fn text(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

fn console(output: &str) -> Value {
    json!({"content": [text(&format!("```console\n{output}\n```"))]})
}

fn diff(old: &str, new: &str) -> Value {
    json!({"type": "diff", "path": "/p/src/a.rs", "oldText": old, "newText": new})
}

fn says(kind: &str, said: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": said}})
}

fn terminal(event: &str, value: Value) -> Value {
    change("1", json!({"_meta": {event: with(json!({"terminal_id": "t"}), value)}}))
}

#[test]
fn a_call_is_a_title_line_its_text_and_its_outcome() {
    check(
        &[
            says("agent_thought_chunk", "Where is\nit?"),
            says("agent_message_chunk", "I will **re"),
            says("agent_message_chunk", "ad** it."),
            call("1", "Read", "read"),
            change("1", json!({"title": "Read src/a.rs"})),
            running("1"),
            change("1", json!({"content": [text("```rust\nfn a() {}\n```")]})),
            ended("1", "completed", 3),
            says("agent_message_chunk", "\n\nDone."),
        ],
        "
▸ Where is
  it?

I will **read** it.

● Read src/a.rs  read
  │ fn a() {}
✓ 3 ms

Done.
",
    );
}

#[test]
fn a_carriage_return_hides_text_only_in_the_output_of_a_command() {
    let end = |content: Value| with(ended("1", "completed", 1), json!({"content": [content]}));
    for (kind, content, expected) in [
        (
            "read",
            text("```py\nhidden\rshown\r\n\u{1b}[2Kx\n```"),
            "hidden\\rshown\n  │ \\u{1b}[2Kx",
        ),
        ("search", text("a.py:1: hidden\rshown"), "a.py:1: hidden\\rshown"),
        ("read", text("```console\n10%\r100%\n```"), "100%"),
        ("execute", text("10%\r\u{1b}[1m100%"), "100%"),
    ] {
        let shown = render_all(&[call("1", "Do", kind), end(content)]);
        assert_eq!(shown, format!("○ Do  {kind}\n  │ {expected}\n✓ 1 ms\n"));
    }
}

#[test]
fn a_long_text_keeps_its_beginning_and_its_end() {
    let lines: Vec<_> = (1..=20).map(|line| line.to_string()).collect();
    check(
        &[
            call("1", "Read a", "read"),
            change("1", json!({"content": [text(&lines.join("\n"))], "status": "completed"})),
        ],
        "
○ Read a  read
  │ 1
  │ 2
  │ 3
  │ 4
  │ 5
  │ 6
  │ … 8 more lines
  │ 15
  │ 16
  │ 17
  │ 18
  │ 19
  │ 20
✓ completed
",
    );
}

#[test]
fn a_hunk_has_the_line_numbers_of_the_file() {
    let mut place = diff("a\n", "b\n");
    place["_meta"] = json!({"callboard": {"kind": "modify", "oldStart": 40, "newStart": 42}});
    let new = json!({"type": "diff", "path": "/q/n", "newText": "x\n"});
    let mut gone = diff("x\n", "");
    gone["_meta"] = json!({"callboard": {"kind": "delete"}});
    check(
        &[with(call("1", "Edit", "edit"), json!({"content": [place, new, gone]}))],
        "
○ Edit  edit
  src/a.rs  +1 −1
  @@ -40,1 +42,1 @@
  - a
  + b
  /q/n  new, +1 −0
  @@ -0,0 +1,1 @@
  + x
  src/a.rs  deleted, +0 −1
  @@ -1,1 +0,0 @@
  - x
",
    );
}

#[test]
fn a_missing_newline_at_the_end_of_a_file_is_shown() {
    let own = |old: &str, new: &str| {
        with(diff(old, new), json!({"_meta": {"callboard": {"kind": "modify"}}}))
    };
    let note = "\\ No newline at end of file";
    for (diff, lines) in [
        (own("a", "a\n"), vec!["- a", note, "+ a"]),
        (own("a\n", "a"), vec!["- a", "+ a", note]),
        (own("a\nb", "c\nb"), vec!["- a", "+ c", "  b", note]),
        // Another agent may send a part of a file.
        (diff("a", "b"), vec!["- a", "+ b"]),
        (diff("", "b"), vec!["+ b"]),
        (diff("a", "a\n"), vec!["- a", note, "+ a"]),
        (json!({"type": "diff", "path": "/p/n", "newText": "b"}), vec!["+ b", note]),
    ] {
        let shown = render_all(&[with(call("1", "Edit", "edit"), json!({"content": [diff]}))]);
        assert_eq!(shown.lines().skip(3).map(|line| &line[2..]).collect::<Vec<_>>(), lines);
    }
}

#[test]
fn output_that_is_replaced_is_printed_as_it_grows() {
    check(
        &[
            with(call("1", "Run `make`", "execute"), json!({"status": "in_progress"})),
            change("1", console("$ make\none")),
            change("1", console("$ make\none\ntwo\nthr")),
            change("1", console("$ make\n[… 4 bytes left out …]\ntwo\nthree\n10%")),
            says("agent_message_chunk", "Wait."),
            change("1", console("$ make\n[… 8 bytes left out …]\nthree\n10%\n20%")),
            change("1", console("$ make\n[… 99 bytes left out …]\nlater")),
            with(
                ended("1", "completed", 61_000),
                console("$ make\none\ntwo\nthree\n10%\n20%\nskipped\nlater\nend\n"),
            ),
        ],
        "
● Run `make`  execute
  │ $ make
  │ one
  │ two
  │ three

Wait.

● Run `make`
  │ 10%
  │ 20%
  │ …
  │ [… 99 bytes left out …]
  │ later
  │ end
✓ 1 min 1 s
",
    );
}

#[test]
fn the_whole_output_is_printed_before_the_diffs_of_a_command() {
    let output = text("```console\n$ make\none\ntwo\n```");
    check(
        &[
            with(call("1", "Run `make`", "execute"), json!({"status": "in_progress"})),
            change("1", console("$ make\none")),
            with(
                ended("1", "completed", 2_000),
                json!({"content": [output, diff("old\n", "new\n")]}),
            ),
        ],
        "
● Run `make`  execute
  │ $ make
  │ one
  │ two
  src/a.rs  +1 −1
  @@ -1,1 +1,1 @@
  - old
  + new
✓ 2.0 s
",
    );
}

#[test]
fn notes_of_a_question_are_not_repeated_after_the_call() {
    let notes = json!({"content": [text("Adds c."), text("Adds b."), text("Adds a.")]});
    let shown = render_all(&[
        call("1", "Undo the last change", "edit"),
        ask("1", notes.clone()),
        with(ended("1", "completed", 1_000), notes),
    ]);
    for note in ["Adds a.", "Adds b.", "Adds c."] {
        assert_eq!(shown.matches(note).count(), 1, "{shown}");
    }
}

#[test]
fn endless_output_stops_and_shows_its_end() {
    let lines: Vec<_> = (1..=MAX_LIVE_OUTPUT_LINES + 10).map(|line| line.to_string()).collect();
    let text = render_all(&[
        with(call("1", "Run", "execute"), console(&lines[..MAX_LIVE_OUTPUT_LINES].join("\n"))),
        change("1", console(&lines.join("\n"))),
        ended("1", "completed", 1),
    ]);
    let end = format!(
        "  │ {MAX_LIVE_OUTPUT_LINES}\n  │ … 4 more lines\n  │ {}\n",
        MAX_LIVE_OUTPUT_LINES + 5
    );
    assert!(text.contains(&end), "{text}");
    assert!(text.ends_with(&format!("  │ {}\n✓ 1 ms\n", MAX_LIVE_OUTPUT_LINES + 10)), "{text}");
}

#[test]
fn a_display_only_terminal_is_printed_by_lines() {
    check(
        &[
            with(
                call("1", "Run `make`", "execute"),
                json!({
                    "status": "in_progress",
                    "rawInput": {"command": "make"},
                    "content": [{"type": "terminal", "terminalId": "t"}],
                    "_meta": {"terminal_info": {"terminal_id": "t", "cwd": "/p"}},
                }),
            ),
            terminal("terminal_output", json!({"data": "one\r\n\u{1b}[3"})),
            terminal("terminal_output", json!({"data": "1mred\u{1b}[0m 1%\rred 2%"})),
            terminal("terminal_output", json!({"data": "\n\nno end"})),
            terminal("terminal_exit", json!({"exit_code": 2, "signal": null})),
            with(
                ended("1", "failed", 5),
                json!({"_meta": {"callboard": {"durationMs": 5, "exitCode": 2}}}),
            ),
        ],
        "
● Run `make`  execute
  │ one
  │ red 2%
  │
  │ no end
✗ failed: exit code 2  5 ms
",
    );
}

#[test]
fn on_a_terminal_messages_are_formatted_and_progress_is_redrawn() {
    let mut cards = CardRenderer::new("/p", 80).with_markdown_and_line_redraw();
    let text = render_messages(
        &mut cards,
        &[
            says("agent_message_chunk", "I will **re"),
            says("agent_message_chunk", "ad** it."),
            with(call("1", "Run", "execute"), json!({"status": "in_progress"})),
            terminal("terminal_output", json!({"data": "1 %"})),
            terminal("terminal_output", json!({"data": "\r2 %"})),
            says("agent_message_chunk", "So.\n\n"),
            terminal("terminal_output", json!({"data": "\rend\n"})),
            ended("1", "completed", 1),
        ],
    );
    assert_eq!(
        text,
        "I will read it.\n\n● Run  execute\n  │ 1 %\r  │ 2 %\n\nSo.\n\n● Run\n  │ end\n✓ 1 ms\n"
    );
}

#[test]
fn parallel_calls_are_distinguished() {
    check(
        &[
            with(call("1", "Run a", "execute"), json!({"status": "in_progress"})),
            with(call("2", "Run b", "execute"), json!({"status": "in_progress"})),
            change("1", console("a1")),
            change("2", console("b1\nb")),
            change("1", console("a1\na2")),
            change("2", console("b1\nb2")),
            ended("1", "completed", 1),
            ended("2", "completed", 2),
            call("3", "Think", "think"),
        ],
        "
● Run a  execute
● Run b  execute
  │ b1
● Run a
  │ a1
  │ a2
✓ 1 ms
● Run b
  │ b2
✓ 2 ms
",
    );
}

#[test]
fn parallel_calls_without_output_are_each_printed_once() {
    check(
        &[
            call("1", "Read a", "read"),
            call("2", "Read b", "read"),
            call("3", "Read c", "read"),
            running("1"),
            running("2"),
            running("3"),
            with(ended("2", "completed", 2), json!({"content": [text("b")]})),
            ended("1", "completed", 1),
            ended("3", "completed", 3),
        ],
        "
○ Read b  read
  │ b
✓ 2 ms
✓ Read a  1 ms

● Read c  read
✓ 3 ms
",
    );
}

#[test]
fn a_command_in_a_parallel_call_is_printed_once_in_its_title() {
    let runs = json!({
        "status": "in_progress",
        "rawInput": {"command": "make"},
        "_meta": {"terminal_info": {"terminal_id": "t", "cwd": "/p"}},
    });
    check(
        &[
            call("2", "Read b", "read"),
            with(call("1", "Run `make`", "execute"), runs),
            terminal("terminal_output", json!({"data": "out\n"})),
            ended("1", "completed", 1),
        ],
        "
● Run `make`  execute
  │ out
✓ 1 ms
",
    );
}

#[test]
fn an_agent_may_use_another_meta_key() {
    let mut place = diff("a\n", "b\n");
    place["_meta"] = json!({"own": {"oldStart": 40, "newStart": 42}});
    let end = json!({"status": "failed", "_meta": {"own": {"exitCode": 3, "durationMs": 7}}});
    let messages = [with(call("1", "Edit", "edit"), json!({"content": [place]})), change("1", end)];
    let own = render_messages(&mut CardRenderer::new("/p", 80).with_meta_key("own"), &messages);
    assert!(own.contains("@@ -40,1 +42,1 @@") && own.contains("exit code 3"), "{own}");
    let other = render_messages(&mut CardRenderer::new("/p", 80), &messages);
    assert!(other.contains("@@ -1,1 +1,1 @@") && !other.contains("exit code 3"), "{other}");
}

#[test]
fn a_new_title_is_printed_if_it_has_different_words() {
    let titled = |title: &str| change("1", json!({"title": title}));
    check(
        &[
            with(call("1", "Search", "search"), json!({"status": "in_progress"})),
            titled("Search: 10 files"),
            titled("Search: 20 files"),
            titled("Count matches"),
            titled("Count matches · 3/10 in src"),
            titled("Count matches · 4/10 elsewhere"),
            titled("Count matches (3)"),
            ended("1", "completed", 1),
        ],
        "
● Search  search
● Count matches
✓ Count matches (3)  1 ms
",
    );
}

#[test]
fn a_printed_title_contains_no_progress() {
    let progress = |message: &str| {
        json!({
            "status": "in_progress",
            "title": format!("Search for `a · b` · 12 {message}"),
            "_meta": {"callboard": {"progress": {"current": 12.0, "message": message}}},
        })
    };
    let streamed = json!({
        "title": "Write `a · b` · 2 KiB …",
        "_meta": {"callboard": {"arriving": {"content": 2048}}},
    });
    check(
        &[
            with(call("0", "Write `a · b`", "edit"), streamed),
            with(ended("0", "completed", 1_000), json!({"title": "Write `a · b`"})),
            with(call("1", "Search for `a · b`", "search"), progress("files, 3 matches")),
            change("1", progress("files, 4 matches")),
            says("agent_message_chunk", "Wait."),
            with(
                ended("1", "completed", 1_000),
                json!({"title": "Search for `a · b`", "content": [text("one\ntwo")]}),
            ),
        ],
        "
○ Write `a · b`  edit
✓ 1.0 s

● Search for `a · b`  search

Wait.

● Search for `a · b`
  │ one
  │ two
✓ 1.0 s
",
    );
}

#[test]
fn a_plan_is_printed_when_it_changes() {
    let plan = |entries: Value| json!({"sessionUpdate": "plan", "entries": entries});
    let entry = |content: &str, status: &str| json!({"content": content, "status": status, "priority": "medium"});
    let first = plan(json!([entry("Read", "in_progress"), entry("Write", "pending")]));
    check(
        &[
            plan(json!([])),
            first.clone(),
            first,
            plan(json!([entry("Read", "completed"), entry("Write\u{7}", "in_progress")])),
            plan(json!([])),
        ],
        "
Plan
  [~] Read
  [ ] Write

Plan
  [x] Read
  [~] Write\\u{7}

Plan: no steps
",
    );
}

#[test]
fn no_text_from_the_agent_moves_the_cursor() {
    let evil = "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}1A\r\u{8}\u{202e}b";
    let input = json!({"command": evil, evil: evil});
    let messages = [
        says("agent_message_chunk", evil),
        says("agent_thought_chunk", evil),
        with(
            call("1", evil, "execute"),
            json!({"content": [text(evil), {"type": "diff", "path": evil, "newText": evil}]}),
        ),
        with(
            ask("1", json!({"rawInput": input, "content": [text(evil)]})),
            json!({"options": [
                {"optionId": "a", "name": evil, "kind": "allow_once"},
            ]}),
        ),
        change("1", console(evil)),
        terminal("terminal_output", json!({"data": format!("{evil}\n")})),
        terminal("terminal_exit", json!({"exit_code": null, "signal": evil})),
        json!({"sessionUpdate": "plan", "entries": [
            {"content": evil, "status": "pending", "priority": "low"},
        ]}),
        change("1", json!({"status": "failed", "content": [text(evil)]})),
    ];
    // On a terminal, the renderer itself may write `\r` to redraw a line.
    for (mut cards, own) in [
        (CardRenderer::new("/p", 80), "\n"),
        (CardRenderer::new("/p", 80).with_markdown_and_line_redraw(), "\n\r"),
    ] {
        let text = render_messages(&mut cards, &messages) + &cards.finish_open_line();
        println!("{text}");
        let harmful = |c: &char| (c.is_control() && !own.contains(*c)) || *c == '\u{202e}';
        assert_eq!(text.chars().find(harmful), None);
        assert!(
            text.contains("○ \\u{1b}[2J\\u{1b}]0;x\\u{7}\\u{9b}1A\\r\\u{8}\\u{202e}b  execute\n")
        );
    }
}

#[test]
fn lines_of_the_renderer_fit_the_width() {
    let long = "word ".repeat(40);
    let text = render_all(&[
        call("1", &long, "execute"),
        change("1", json!({"status": "failed", "content": [text(&long)]})),
        json!({"sessionUpdate": "plan", "entries": [
            {"content": long, "status": "pending", "priority": "low"},
        ]}),
    ]);
    println!("{text}");
    let ours = |line: &&str| !line.starts_with("  │");
    assert!(text.lines().filter(ours).all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn colours_are_added_and_can_be_removed() {
    let messages = [
        with(call("1", "Edit a", "edit"), json!({"content": [diff("a\n", "b\n")]})),
        ended("1", "completed", 1),
    ];
    let coloured = render_messages(&mut CardRenderer::new("/p", 80).with_colours(), &messages);
    assert!(
        coloured.contains("\u{1b}[31m  - a\u{1b}[0m\n\u{1b}[32m  + b\u{1b}[0m\n"),
        "{coloured:?}"
    );
    assert!(coloured.contains("\u{1b}[32m✓ \u{1b}[0m\u{1b}[2m1 ms"), "{coloured:?}");
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), render_all(&messages));
}

#[test]
fn the_table_counts_messages_and_bytes() {
    let mut cards = CardRenderer::new("/p", 72);
    let messages = [
        call("1", "Read src/a.rs", "read"),
        ended("1", "completed", 3),
        call("1", "The same id again, with a title that is too long for the table", "execute"),
        change(
            "1",
            json!({
                "status": "failed",
                "content": [text("Cancelled by the user.")],
                "_meta": {"callboard": {"reason": "user", "durationMs": 12_000}},
            }),
        ),
        // An update of a finished call is counted, but not shown.
        change("1", json!({"title": "Late", "status": "completed"})),
        running("3"),
    ];
    render_messages(&mut cards, &messages);
    println!("{}", cards.render_call_table());
    let bytes: Vec<_> = messages.iter().map(|message| message.to_string().len()).collect();
    let [one, two, three] =
        [&bytes[..2], &bytes[2..5], &bytes[5..]].map(|part| part.iter().sum::<usize>());
    let all = one + two + three;
    assert_eq!(
        cards.render_call_table(),
        format!(
            "\
call                         kind     status       updates  bytes     ms
Read src/a.rs                read     completed          2    {one}      3
The same id again, with a …  execute  cancelled          3    {two}  12000
Tool call                             in_progress        1     {three}      –
3 calls                                                  6    {all}  12003
"
        )
    );
}

#[test]
fn the_oldest_calls_stay_in_the_totals() {
    let mut cards = CardRenderer::new("/p", 80);
    let ended =
        |id: usize| with(call(&id.to_string(), "Do", "other"), json!({"status": "completed"}));
    render_messages(&mut cards, &(0..MAX_CALLS + 2).map(ended).collect::<Vec<_>>());
    let table = cards.render_call_table();
    assert_eq!(table.lines().count(), MAX_CALLS + 3);
    assert!(table.lines().nth(1).unwrap().starts_with("2 earlier calls "), "{table}");
    assert!(table.lines().last().unwrap().starts_with(&format!("{} calls ", MAX_CALLS + 2)));
}

#[test]
fn irrelevant_updates_print_nothing() {
    check(
        &[
            json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}),
            json!({"sessionUpdate": "available_commands_update", "availableCommands": []}),
            json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}),
            says("user_message_chunk", "hello"),
            says("agent_message_chunk", "\n"),
        ],
        "",
    );
}
