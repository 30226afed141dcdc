//! Tests of the limits of a transcript, and of the notes about omitted parts.

use serde_json::json;

use crate::{call, change, main_part, says, text, transcript};

const MIB: usize = 1 << 20;

#[test]
fn a_long_text_is_truncated_and_counted() {
    let long = says("agent_message_chunk", &"x".repeat(300 << 10));
    let transcript = transcript(&[long, says("agent_message_chunk", "more")]);
    let page = transcript.to_html();
    assert!(page.contains("… 45,060 bytes left out"), "{}", page.len());
    assert!(transcript.to_markdown().contains("*… 45,060 bytes left out*"));
}

#[test]
fn a_long_output_keeps_its_beginning_and_its_end() {
    let output = |data: &str| {
        change("1", json!({"_meta": {"terminal_output": {"terminal_id": "t", "data": data}}}))
    };
    let noise = "noise\n".repeat(20_000);
    let updates = [call("1", json!({})), output("first\n"), output(&noise), output("last\n")];
    let page = transcript(&updates).to_html();
    for expected in ["first\n", "bytes left out …]\n", "last\n"] {
        assert!(page.contains(expected), "{expected}");
    }
    let wide = [call("1", json!({})), output(&"y".repeat(2_100))];
    assert!(transcript(&wide).to_html().contains(" … 99 characters left out"));
}

#[test]
fn a_large_change_shows_its_first_lines() {
    let lines = |word: &str| (0..20_000).map(|at| format!("{word} {at}\n")).collect::<String>();
    let diff = json!({
        "type": "diff", "path": "/p/a", "oldText": lines("old"), "newText": lines("new"),
    });
    let page = transcript(&[call("1", json!({"content": [diff]}))]).to_html();
    assert!(page.len() < MIB && page.contains(" lines</p>") || page.contains(" more</p>"));
    assert!(page.contains("+20000") && page.contains("−20000"));
}

#[test]
fn a_small_change_of_a_long_file_shows_only_the_change() {
    let old: String = (0..9_000).map(|at| format!("line {at}\n")).collect();
    let new = old.replace("line 4000\n", "changed\n");
    let diff = json!({"type": "diff", "path": "/p/a", "oldText": old, "newText": new});
    let page = transcript(&[call("1", json!({"content": [diff]}))]).to_html();
    let main = main_part(&page);
    assert_eq!(main.matches("<tr class=\"minus\">").count(), 1);
    assert_eq!(main.matches("<tr class=\"kept\">").count(), 6);
    assert!(main.contains("@@ -3998,7 +3998,7 @@"), "{main}");
}

#[test]
fn invalid_and_too_large_images_are_named() {
    let image = |mime: &str, data: &str| {
        let block = json!({"type": "image", "mimeType": mime, "data": data});
        transcript(&[json!({"sessionUpdate": "agent_message_chunk", "content": block})]).to_html()
    };
    assert!(image("image/png", "AAAA").contains("src=\"data:image/png;base64,AAAA\""));
    for (mime, data) in [
        ("image/svg+xml", "AAAA"),
        ("image/png", "AA\"onerror"),
        ("image/png", &"A".repeat(2 * MIB + 4)),
    ] {
        let page = image(mime, data);
        assert!(!main_part(&page).contains("<img") && page.contains(", not shown"), "{mime}");
    }
}

#[test]
fn the_oldest_content_is_discarded_and_the_newest_is_complete() {
    let mut updates = vec![says("user_message_chunk", "the prompt")];
    for number in 0..70 {
        let output = format!("result {number} {}", "z".repeat(250 << 10));
        let id = number.to_string();
        updates.push(call(
            &id,
            json!({"title": format!("Call {number}"), "content": [text(&output)]}),
        ));
    }
    let page = transcript(&updates).to_html();
    assert!(page.len() < 20 * MIB, "{}", page.len());
    for expected in ["the prompt", "Call 0<", "Call 69<", "result 69 "] {
        assert!(page.contains(expected), "{expected}");
    }
    assert!(!page.contains("result 0 ") && page.contains("… 256,009 bytes left out"));
}

#[test]
fn the_oldest_messages_are_discarded_last_and_counted() {
    let mut updates = Vec::new();
    for number in 0..70 {
        updates.push(says("user_message_chunk", &format!("prompt {number}")));
        let text = format!("answer {number} {}", "w ".repeat(120 << 10));
        updates.push(says("agent_message_chunk", &text));
    }
    let transcript = transcript(&updates);
    let page = transcript.to_html();
    assert!(page.len() < 20 * MIB, "{}", page.len());
    assert!(page.contains(" earlier entries left out"));
    assert!(page.contains("<h2 id=\"prompt-70\">") && page.contains("answer 69 "));
    assert!(!page.contains("answer 0 ") && page.contains("70 prompts, 0 calls"));
    assert!(transcript.to_markdown().contains("## 70. prompt 69"));
}
