//! Tests of the outcome line.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn background_commands_are_listed_until_their_end_is_reported() {
    let mut cards = CardRenderer::new("/p", 80);
    let output = |running: bool| json!({"rawOutput": {"background": "bg-1", "command": "sleep \u{1b}9", "running": running}});
    render_messages(&mut cards, &[call("1", "Run", "execute"), change("1", output(true))]);
    assert_eq!(cards.background_commands().collect::<Vec<_>>(), ["`sleep \\u{1b}9` (bg-1)"]);
    render_messages(&mut cards, &[call("2", "Look", "read"), change("2", output(false))]);
    assert_eq!(cards.background_commands().count(), 0);
    assert_eq!(cards.first_failure(), None);
    render_messages(&mut cards, &[ended("2", "failed", 1), ended("1", "failed", 1)]);
    assert_eq!(cards.first_failure(), Some("Look failed"));
}

#[test]
fn a_call_that_does_not_complete_says_why() {
    let cases = [
        (json!({"content": [text("No such file.")]}), "failed: No such file."),
        (json!({}), "failed"),
        (json!({"_meta": {"callboard": {"exitCode": 101}}}), "failed: exit code 101"),
        (json!({"_meta": {"callboard": {"signal": "SIGKILL"}}}), "failed: ended by SIGKILL"),
        (
            json!({"_meta": {"callboard": {"reason": "timeout"}}}),
            "failed: Ended because it took too long.",
        ),
        (
            json!({
                "content": [text("Cancelled with its turn.")],
                "_meta": {"callboard": {"reason": "turn"}},
            }),
            "[cancelled] Cancelled with its turn.",
        ),
        (
            json!({
                "content": [text("Rejected by the user.")],
                "_meta": {"callboard": {"reason": "user"}},
            }),
            "failed: Rejected by the user.",
        ),
    ];
    for (fields, why) in cases {
        check(
            &[call("1", "Do", "other"), with(change("1", json!({"status": "failed"})), fields)],
            &format!("✗ Do  {why}\n"),
        );
    }
}

#[test]
fn a_failure_of_several_lines_is_shown_before_the_outcome() {
    check(
        &[
            call("1", "Do", "other"),
            change(
                "1",
                json!({"status": "failed", "content": [text("so far"), text("No.\nTry b.")]}),
            ),
        ],
        "
○ Do
  │ so far
  │ No.
  │ Try b.
✗ failed: No.
",
    );
}

#[test]
fn a_reason_that_does_not_fit_is_shown_before_the_outcome() {
    let reason = "word ".repeat(20);
    let reason = reason.trim();
    check(
        &[
            call("1", "Do", "other"),
            change("1", json!({"status": "failed", "content": [text(reason)]})),
        ],
        &format!("○ Do\n  │ {reason}\n✗ failed: {}…\n", &reason[..67]),
    );
}

#[test]
fn a_timeout_and_an_exit_are_better_reasons_than_the_last_text() {
    let output = || vec![text("[output-1.txt](file:///output-1.txt)")];
    let shown = "○ Run `x`\n  │ [output-1.txt](file:///output-1.txt)\n✗ failed: ";
    for (meta, reason) in [
        (json!({"reason": "timeout", "signal": "SIGTERM"}), "Ended because it took too long."),
        (json!({"reason": "error", "exitCode": 3}), "exit code 3"),
    ] {
        let end = json!({"status": "failed", "content": output(), "_meta": {"callboard": meta}});
        let expected = format!("\n{shown}{reason}\n");
        check(&[call("1", "Run `x`", "other"), change("1", end)], &expected);
    }
}
