//! Tests how updates are folded into entries. Each test lists updates and the expected text of the
//! page.

use serde_json::{Value, json};

use crate::{call, change, main_part, says, text, transcript};

/// Checks the text of the page. The character `|` marks the beginning or the end of a block.
#[track_caller]
fn check(updates: &[Value], expected: &str) {
    let page = transcript(updates).to_html();
    let mut shown = String::new();
    for piece in main_part(&page).split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        let is_inline = ["/code", "code", "strong", "/strong", "span", "/span"]
            .iter()
            .any(|inline| tag.split(' ').next() == Some(inline));
        shown.push_str(if is_inline { "" } else { "|" });
        shown.push_str(text);
    }
    while ["\n|", "|\n", "||"].iter().any(|edge| shown.contains(edge)) {
        shown = shown.replace("\n|", "|").replace("|\n", "|").replace("||", "|");
    }
    assert_eq!(shown.trim_matches('|'), expected, "{}", main_part(&page));
}

fn done(id: &str) -> Value {
    change(id, json!({"status": "completed"}))
}

#[test]
fn a_later_update_changes_the_card_of_its_call() {
    check(
        &[
            call("1", json!({"title": "A"})),
            call("2", json!({"title": "B"})),
            says("agent_message_chunk", "said"),
            done("1"),
            change("2", json!({"status": "failed", "title": "C"})),
            change("2", json!({"content": [text("Not found.")]})),
        ],
        "A✓ completed|C✗ failed|Not found.|said",
    );
}

#[test]
fn a_reused_id_is_another_call() {
    check(
        &[call("1", json!({})), done("1"), call("1", json!({"title": "Again"}))],
        "Do✓ completed|Again○ pending",
    );
    check(
        &[call("1", json!({})), call("1", json!({"title": "Better"})), done("1")],
        "Better✓ completed",
    );
}

#[test]
fn a_call_that_was_never_announced_is_shown() {
    check(&[done("1")], "Tool call✓ completed");
    check(&[change("1", json!({"name": "grep"}))], "grep○ pending");
}

#[test]
fn chunks_of_one_message_are_one_text() {
    let said = |id: &str, said: &str| {
        let mut chunk = says("agent_message_chunk", said);
        chunk["messageId"] = json!(id);
        chunk
    };
    check(&[said("1", "a *b"), said("1", "* c"), said("2", "d")], "a |b| c|d");
    check(&[said("1", "a"), says("agent_thought_chunk", "t"), said("1", "b")], "a|Thought|t|b");
}

#[test]
fn each_prompt_is_a_heading_and_a_long_prompt_is_repeated() {
    check(
        &[
            says("user_message_chunk", "one"),
            says("agent_message_chunk", "a"),
            says("user_message_chunk", "\n two \nlines"),
        ],
        "1| one|a|2| two|lines",
    );
    let long = "word ".repeat(30);
    let shown = format!("1| {}…|{}", &long[..99], long.trim());
    check(&[says("user_message_chunk", &long)], &shown);
}

#[test]
fn a_plan_is_shown_once_per_prompt_in_its_last_state() {
    let plan = |status: &str| {
        let step = json!({"content": "step", "priority": "low", "status": status});
        json!({"sessionUpdate": "plan", "entries": [step]})
    };
    check(
        &[
            plan("pending"),
            says("agent_message_chunk", "a"),
            plan("completed"),
            says("user_message_chunk", "next"),
            plan("in_progress"),
        ],
        "Plan|✓ step|a|1| next|Plan|● step",
    );
    check(&[plan("pending"), json!({"sessionUpdate": "plan", "entries": []})], "");
}

#[test]
fn a_call_that_does_not_complete_says_why() {
    for (fields, expected) in [
        (json!({}), "Do✗ failed"),
        (json!({"_meta": {"callboard": {"exitCode": 101}}}), "Doexit code 101✗ failed"),
        (json!({"_meta": {"callboard": {"signal": "SIGKILL"}}}), "Doended by SIGKILL✗ failed"),
        (
            json!({"_meta": {"callboard": {"reason": "timeout", "durationMs": 1500}}}),
            "DoEnded because it took too long.1.5 s✗ failed",
        ),
        (
            json!({
                "content": [text("Cancelled with its turn.")],
                "_meta": {"callboard": {"reason": "turn"}},
            }),
            "Do⊘ cancelled|Cancelled with its turn.",
        ),
        (
            json!({
                "content": [text("Rejected.")],
                "_meta": {"callboard": {"reason": "user", "durationMs": 0}},
            }),
            "DoCancelled by the user.✗ failed|Rejected.",
        ),
    ] {
        let fields = crate::with(json!({"status": "failed"}), fields);
        check(&[call("1", json!({})), change("1", fields)], expected);
    }
}

#[test]
fn output_is_shown_with_its_command_once() {
    let output = |data: &str| {
        change("1", json!({"_meta": {"terminal_output": {"terminal_id": "t", "data": data}}}))
    };
    let exit = json!({"_meta": {"terminal_exit": {"terminal_id": "t", "exit_code": 2}}});
    let run = |title: &str| {
        let input = json!({"command": "ls -l"});
        call("1", json!({"title": title, "rawInput": input, "status": "in_progress"}))
    };
    let raw = "Raw input|{\n  \"command\": \"ls -l\"\n}".replace('"', "&quot;");
    check(
        &[run("List"), output("a\u{1b}[3"), output("1mb\r\nc"), change("1", exit)],
        &format!("Listexit code 2● running|$ ls -l\nab\nc|{raw}"),
    );
    check(&[run("Run `ls -l`"), output("x")], &format!("Run ls -l● running|x|{raw}"));
    let console = change("1", json!({"content": [text("```console\n$ ls -l\nx\n```")]}));
    check(&[run("List"), console], &format!("List● running|$ ls -l\nx|{raw}"));
}

#[test]
fn hunks_of_a_file_are_one_change_with_its_line_numbers() {
    let hunk = |start: u32, old: &str, new: &str| {
        let meta = json!({"callboard": {"oldStart": start, "newStart": start + 1}});
        json!({"type": "diff", "path": "/p/a", "oldText": old, "newText": new, "_meta": meta})
    };
    let content = json!([hunk(10, "x\ny\n", "x\nz\n"), hunk(50, "b\n", "")]);
    check(
        &[call("1", json!({"content": content}))],
        "Do○ pending|a+1−2|@@ -10,2 +11,2 @@|10|11| |x|11|−|y|12|+|z|@@ -50,1 +50,0 @@|50|−|b",
    );
}

#[test]
fn a_path_is_relative_to_the_project_folder() {
    let places = json!([{"path": "/p/src/a.rs", "line": 3}, {"path": "/etc/hosts"}]);
    check(&[call("1", json!({"locations": places}))], "Do○ pending|src/a.rs:3|/etc/hosts");
}

#[test]
fn the_head_has_the_latest_state_of_the_session() {
    let page = transcript(&[
        json!({"sessionUpdate": "session_info_update", "title": "Old"}),
        json!({"sessionUpdate": "session_info_update", "title": "New", "updatedAt": "today"}),
        json!({"sessionUpdate": "usage_update", "used": 1200, "size": 8000}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "ask"}),
    ])
    .to_html();
    for expected in ["<h1>New</h1>", "today", "1,200 of 8,000 tokens", ">ask<"] {
        assert!(page.contains(expected), "{expected}");
    }
    assert!(!page.contains("Old"));
    let own = transcript(&[]).with_title("Mine").with_date("now").to_markdown();
    assert_eq!(own, "# Mine\n\n- Folder: /p\n- Date: now\n\n");
}

#[test]
fn no_message_of_a_document_affects_later_text() {
    for (message, expected) in [
        ("```\nx", "```\nx\n```\n\n✓ **Do**"),
        ("    code", "```\ncode\n```\n\n✓ **Do**"),
        ("a `b", "a \\`b\n\n✓ **Do**"),
        ("[a]: https://a.example", "\n\n✓ **Do**"),
        ("# Title", "### Title\n\n✓ **Do**"),
    ] {
        let updates = [says("agent_message_chunk", message), call("1", json!({})), done("1")];
        let document = transcript(&updates).to_markdown();
        assert!(document.ends_with(&format!("{expected}\n\n")), "{message:?}: {document}");
    }
}

#[test]
fn a_carriage_return_in_a_file_is_shown() {
    let read = text("```\na\rb\r\nc\n```");
    let read = transcript(&[call("1", json!({"status": "completed", "content": [read]}))]);
    assert!(read.to_html().contains("a\\rb\nc\n"), "{}", read.to_html());
    assert!(read.to_markdown().contains("\na\\rb\nc\n"), "{}", read.to_markdown());
}

#[test]
fn line_endings_that_a_change_adds_or_removes_are_shown() {
    let diff = json!({"type": "diff", "path": "/p/a", "oldText": "a\r\nb", "newText": "a\nb\n"});
    let edit = transcript(&[call("1", json!({"status": "completed", "content": [diff]}))]);
    assert!(
        edit.to_markdown().contains("\n-a\\r\n-b\n\\ No newline at end of file\n+a\n+b\n"),
        "{}",
        edit.to_markdown()
    );
    check(
        &[call("1", json!({"status": "completed", "content": [diff]}))],
        "Do✓ completed|a+2−2|@@ -1,2 +1,2 @@|1|−|a\\r|2|−|b|\\ No newline at end of file|1|+|a|2|+|b",
    );
}
