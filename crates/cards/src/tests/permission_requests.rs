//! Tests of permission requests.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn an_edit_shows_its_diff_once_before_the_options() {
    let change_of_a = diff("1\n2\n3\n4\n5\n6\nseven\n8\n", "1\n2\n3\n4\n5\n6\n7\n8\n");
    let fields = json!({
        "title": "Edit src/a.rs", "kind": "edit", "status": "pending",
        "content": [change_of_a], "rawInput": {"path": "src/a.rs"},
    });
    check(
        &[
            call("1", "Edit", "edit"),
            change("1", json!({"title": "Edit src/a.rs", "content": [change_of_a]})),
            ask("1", fields),
            running("1"),
            change("1", json!({"content": [change_of_a]})),
            ended("1", "completed", 1_234),
        ],
        "
○ Edit src/a.rs  edit
  src/a.rs  +1 −1
  @@ -4,5 +4,5 @@
    4
    5
    6
  - seven
  + 7
    8
▸ asks for permission
  1  Allow
  2  Reject
✓ 1.2 s
",
    );
}

#[test]
fn a_long_diff_is_truncated_except_in_a_permission_request() {
    let long = diff("", &"x\n".repeat(MAX_DIFF_LINES + 9));
    let first = render_all(&[with(call("1", "Edit", "edit"), json!({"content": [long]}))]);
    assert_eq!(first.matches("+ x\n").count(), MAX_DIFF_LINES - 1);
    assert!(first.ends_with("  … 10 more lines\n"), "{first}");
    let both = render_all(&[
        with(call("1", "Edit", "edit"), json!({"content": [long]})),
        ask("1", json!({"content": [long]})),
        ask("1", json!({"content": [long]})),
    ]);
    assert_eq!(both.matches("+ x\n").count(), MAX_DIFF_LINES - 1 + MAX_DIFF_LINES + 9);
}

/// Returns a diff of one of many equal functions, which begins at a line.
fn diff_at(line: u32) -> Value {
    let meta = json!({"callboard": {"kind": "update", "oldStart": line, "newStart": line}});
    with(diff("fn f() {\n    a\n", "fn f() {\n    b\n"), json!({"_meta": meta}))
}

#[test]
fn equal_hunks_of_a_change_are_all_shown_below_one_line() {
    let hunks: Vec<_> = (0..3).map(|at| diff_at(1 + 20 * at)).collect();
    let title = json!({"title": "Edit src/a.rs", "kind": "edit"});
    check(
        &[
            call("1", "Edit", "edit"),
            // The beginning of a large change.
            change("1", json!({"title": "Edit src/a.rs", "content": [hunks[0]]})),
            ask("1", with(title, json!({"content": hunks}))),
            running("1"),
            change("1", json!({"content": hunks})),
            ended("1", "completed", 1),
        ],
        "
○ Edit src/a.rs  edit
  src/a.rs  +1 −1
  @@ -1,2 +1,2 @@
    fn f() {
  -     a
  +     b
▸ asks for permission
  src/a.rs  +2 −2
  @@ -21,2 +21,2 @@
    fn f() {
  -     a
  +     b
  @@ -41,2 +41,2 @@
    fn f() {
  -     a
  +     b
  1  Allow
  2  Reject
✓ 1 ms
",
    );
}

#[test]
fn the_limit_of_lines_holds_for_all_hunks_of_a_change() {
    let hunks: Vec<_> = (0..300).map(|at| diff_at(1 + 20 * at)).collect();
    let fields = json!({"title": "Edit src/a.rs", "content": hunks});
    let shown = render_all(&[
        call("1", "Edit", "edit"),
        change("1", fields.clone()),
        with(ended("1", "completed", 1), json!({"content": hunks})),
    ]);
    assert!(shown.contains("  src/a.rs  +300 −300\n"), "{shown}");
    assert!(shown.contains("  … 1160 more lines\n"), "{shown}");
    assert_eq!(shown.lines().count(), 1 + 1 + MAX_DIFF_LINES + 1 + 1, "{shown}");
    // A question shows all hunks, once.
    let asked =
        render_all(&[call("1", "Edit", "edit"), ask("1", fields.clone()), ask("1", fields)]);
    assert_eq!(asked.matches("+     b\n").count(), 300, "{asked}");
}

#[test]
fn a_permission_request_hides_nothing() {
    let command = format!("echo {}\nrm -rf \u{202e}x", "y".repeat(100));
    let input = json!({"command": command, "timeout_ms": 5, "why": "a\u{1b}[8mb"});
    let title = format!("Run `{}`", "y".repeat(100));
    check(
        &[
            ask("1", json!({"title": title, "kind": "execute", "rawInput": input})),
            change("1", json!({"status": "failed", "content": [text("Rejected by the user.")]})),
        ],
        &format!(
            "
▸ {title}  execute  asks for permission
  $ echo {}
    rm -rf \\u{{202e}}x
  timeout_ms: 5
  why: a\\u{{1b}}[8mb
  1  Allow
  2  Reject
✗ failed: Rejected by the user.
",
            "y".repeat(100)
        ),
    );
}

#[test]
fn a_permission_request_without_details_shows_the_earlier_details() {
    check(
        &[
            with(call("1", "Plan", "other"), json!({"rawInput": {"command": ["ls", "a b"]}})),
            ask("1", json!({"content": [text("First\nthen")]})),
            change("1", json!({"content": [text("Step 1")]})),
            ask("1", json!({})),
            ended("1", "completed", 1),
        ],
        "
▸ Plan  asks for permission
  $ ls \"a b\"
  First
  then
  1  Allow
  2  Reject
▸ asks for permission
  $ ls \"a b\"
  │ Step 1
  1  Allow
  2  Reject
✓ 1 ms
",
    );
}

#[test]
fn a_text_that_the_request_replaces_is_not_printed_after_the_call() {
    let whole = diff("a\n", "b\n");
    check(
        &[
            call("1", "Edit src/a.rs", "edit"),
            change("1", json!({"content": [text("src/a.rs: +1 −1 more lines are not shown.")]})),
            ask("1", json!({"content": [whole]})),
            ended("1", "completed", 1),
        ],
        "
▸ Edit src/a.rs  edit  asks for permission
  src/a.rs  +1 −1
  @@ -1,1 +1,1 @@
  - a
  + b
  1  Allow
  2  Reject
✓ 1 ms
",
    );
}

#[test]
fn a_command_that_waits_is_shown_once() {
    let fields = json!({
        "title": "Run `ls`", "kind": "execute", "rawInput": {"command": "ls"},
        "content": [text("```console\n$ ls\n```")],
    });
    check(
        &[
            call("1", "Run", "execute"),
            change("1", fields.clone()),
            ask("1", fields),
            running("1"),
            change("1", console("$ ls\na")),
            ended("1", "completed", 1),
        ],
        "
▸ Run `ls`  execute  asks for permission
  1  Allow
  2  Reject
  │ a
✓ 1 ms
",
    );
}

#[test]
fn a_request_of_a_running_command_shows_its_output_only_as_output() {
    let fields = json!({
        "title": "Run `ls`", "kind": "execute", "rawInput": {"command": "ls"},
    });
    let asked = json!({"content": [text("```console\n$ ls\na\nb\nc\n```"), text("It connects.")]});
    check(
        &[
            with(call("1", "Run", "execute"), fields),
            running("1"),
            change("1", console("$ ls\na\nb")),
            ask("1", asked),
            change("1", console("$ ls\na\nb\nc\nd")),
            ended("1", "completed", 1),
        ],
        "
● Run `ls`  execute
  │ a
  │ b
▸ asks for permission
  It connects.
  1  Allow
  2  Reject
  │ c
  │ d
✓ 1 ms
",
    );
}

#[test]
fn a_request_decided_without_the_user_has_no_options() {
    let mut cards = CardRenderer::new("/p", 80);
    let fields = json!({"title": "Run `ls`", "kind": "execute", "rawInput": {"command": "ls"}});
    let request = serde_json::from_value(ask("1", fields)).unwrap();
    assert_eq!(
        cards.render_request_without_options(&request, 0),
        "▸ Run `ls`  execute  asks for permission\n"
    );
    assert_eq!(
        cards.render_permission_request(&request, 0),
        "▸ asks for permission\n  1  Allow\n  2  Reject\n"
    );
}

#[test]
fn a_truncated_title_is_complete_in_the_permission_request() {
    let title = format!("Run `echo {}; rm -rf x`", "y".repeat(100));
    let input = json!({"command": format!("echo {}; rm -rf x", "y".repeat(100))});
    let text = render_all(&[
        with(
            call("1", &title, "execute"),
            json!({"rawInput": input, "content": [diff("", "x\n")]}),
        ),
        ask("1", json!({"title": title, "rawInput": input})),
    ]);
    assert!(text.contains(&format!("▸ {title}  execute  asks for permission\n")), "{text}");
}
