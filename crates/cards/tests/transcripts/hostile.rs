//! Tests that text from an agent never becomes a tag, an attribute or a script of the page.

use std::ops::ControlFlow;

use proptest::collection::vec;
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};
use serde_json::{Value, json};

use crate::{call, change, says, text, transcript};

/// Texts that break a page if they are not escaped.
pub(crate) const PAYLOADS: &[&str] = &[
    "<script>window.broken = 1</script>",
    "</script><script>window.broken = 1</script>",
    "</style><img src=x onerror=\"window.broken = 1\">",
    "\"><svg onload=window.broken=1>",
    "' onmouseover='window.broken = 1",
    "<a href=\"javascript:window.broken=1\">x</a>",
    "[x](javascript:window.broken=1)",
    "[x](JaVaScRiPt&colon;window.broken=1)",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "![x](https://example.com/a.png)",
    "[![a](https://b.example)](https://c.example \"t\")",
    "<javascript:window.broken=1>",
    "<https://example.com/\"onclick=window.broken=1>",
    "[x]: javascript:window.broken=1\n\n[x]",
    "<!-- ",
    "]]>",
    "<![CDATA[",
    "&#60;script&#62;window.broken = 1&#60;/script&#62;",
    "```html\n<script>window.broken = 1</script>",
    "````\n```\n",
    "<div\n\n>window.broken",
    "| a | b |\n|:-:|--:|\n| <i> | `<b>` |",
    "\u{202e}reversed\u{2066}",
    "\u{1b}[31mred\u{1b}]0;title\u{7}\u{1b}]8;;javascript:window.broken=1\u{7}link",
    "nul\u{0}nul\r\n\u{8}\u{85}\u{2028}",
    "> > > > quote\n1. a\n   - b\n\n     c",
    "`<b>`[`<i>`](javascript:window.broken=1)",
    "`` `<b> ``[`<i>`](javascript:window.broken=1)",
    "# heading\n===\n---",
    "<iframe srcdoc=\"<script>window.broken=1</script>\"></iframe>",
];

/// All tags of a page. Text of a session adds no other tags.
const TAGS: &[&str] = &[
    "a",
    "article",
    "blockquote",
    "br",
    "code",
    "dd",
    "del",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "img",
    "input",
    "li",
    "main",
    "ol",
    "p",
    "pre",
    "section",
    "span",
    "strong",
    "summary",
    "svg",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
    "use",
];

const ATTRIBUTES: &[&str] = &[
    "alt",
    "aria-label",
    "aria-labelledby",
    "checked",
    "class",
    "colspan",
    "dir",
    "disabled",
    "href",
    "id",
    "open",
    "role",
    "src",
    "start",
    "tabindex",
    "type",
];

/// Parses a page strictly. Every tag must be closed, and every tag and attribute must be known.
fn check_page(page: &str) -> Result<(), String> {
    let mut open = Vec::new();
    let mut rest = crate::main_part(page);
    while let Some(at) = rest.find('<') {
        let (tag, behind) = rest[at + 1..].split_once('>').ok_or("a tag does not end")?;
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let (name, attributes) = (name.trim_end_matches('/'), attributes.trim_end_matches('/'));
        if !TAGS.contains(&name) {
            return Err(format!("<{tag}>"));
        }
        check_attributes(attributes.trim()).map_err(|why| format!("{why} of <{tag}>"))?;
        let is_void = ["br", "hr", "img", "input", "use"].contains(&name);
        if !is_void {
            open.push(name);
        }
    }
    if open != ["main"] {
        return Err(format!("{open:?} are open"));
    }
    let is_plain = |letter: char| !letter.is_control() || letter == '\n' || letter == '\t';
    let hidden = page.chars().find(|letter| !is_plain(*letter) || *letter == '\u{202e}');
    hidden.map_or(Ok(()), |letter| Err(format!("{letter:?}")))
}

fn check_attributes(attributes: &str) -> Result<(), String> {
    let mut rest = attributes;
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let name = &rest[..end];
        if !ATTRIBUTES.contains(&name) {
            return Err(format!("attribute {name:?}"));
        }
        rest = rest[end..].trim_start_matches(' ');
        if let Some(value) = rest.strip_prefix("=\"") {
            let (value, behind) = value.split_once('"').ok_or("a value does not end")?;
            let is_allowed = match name {
                "href" => ["#", "http:", "https:", "mailto:"]
                    .iter()
                    .any(|it| value.to_ascii_lowercase().starts_with(it)),
                "src" => value.starts_with("data:image/"),
                _ => true,
            };
            if !is_allowed {
                return Err(format!("value {value:?}"));
            }
            rest = behind.trim_start();
        }
    }
    Ok(())
}

/// Parses a document as CommonMark. It must contain no HTML, no image and no link to a script.
fn check_document(document: &str) -> Result<(), String> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let found = Parser::new_ext(document, options).try_for_each(|event| match event {
        Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Image { .. }) => {
            ControlFlow::Break(format!("{event:?}"))
        }
        Event::Start(Tag::Link { ref dest_url, .. })
            if !["http:", "https:", "mailto:"]
                .iter()
                .any(|scheme| dest_url.to_ascii_lowercase().starts_with(scheme)) =>
        {
            ControlFlow::Break(format!("{event:?}"))
        }
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Break(event) => Err(event),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Returns a session that has `payload` in every field that an agent can fill.
pub(crate) fn updates_with(payload: &str) -> Vec<Value> {
    let fenced = format!("```console\n{payload}\n```");
    let image = json!({"type": "image", "mimeType": payload, "data": payload});
    let link = json!({"type": "resource_link", "name": payload, "uri": payload});
    let file = json!({"type": "resource", "resource": {"uri": payload, "text": payload}});
    let content = |content: Value| json!({"type": "content", "content": content});
    let chunk = |kind: &str, content: Value| json!({"sessionUpdate": kind, "content": content});
    vec![
        json!({"sessionUpdate": "session_info_update", "title": payload, "updatedAt": payload}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": payload}),
        json!({
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": payload, "description": payload}],
        }),
        json!({
            "sessionUpdate": "config_option_update",
            "configOptions": [{
                "id": payload, "name": payload, "type": "select", "currentValue": payload,
                "options": [{"value": payload, "name": payload}],
            }],
        }),
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1.0, "currency": payload}}),
        says("agent_message_chunk", payload),
        says("user_message_chunk", payload),
        chunk("user_message_chunk", link.clone()),
        chunk("user_message_chunk", file.clone()),
        chunk("user_message_chunk", image.clone()),
        says("agent_thought_chunk", payload),
        chunk("agent_message_chunk", link.clone()),
        json!({
            "sessionUpdate": "plan",
            "entries": [{"content": payload, "priority": "low", "status": "pending"}],
        }),
        json!({"sessionUpdate": "notice", "severity": payload, "title": payload, "description": payload}),
        call(
            payload,
            json!({
                "title": payload,
                "kind": "execute",
                "rawInput": {"command": payload, payload: payload},
                "rawOutput": payload,
                "locations": [{"path": format!("/p/{payload}")}],
                "content": [
                    text(payload),
                    text(&fenced),
                    {"type": "diff", "path": payload, "oldText": payload, "newText": format!("{payload}\n{payload}")},
                    {"type": "terminal", "terminalId": payload},
                    content(image),
                    content(link),
                    content(file),
                ],
            }),
        ),
        change(
            payload,
            json!({"_meta": {"terminal_output": {"terminal_id": payload, "data": payload}}}),
        ),
        change(
            payload,
            json!({
                "status": "failed",
                "_meta": {
                    "callboard": {"signal": payload, "reason": "user"},
                    "terminal_exit": {"terminal_id": payload, "signal": payload},
                },
            }),
        ),
        call(
            &format!("{payload}2"),
            json!({"title": payload, "rawInput": payload, "rawOutput": [payload]}),
        ),
    ]
}

fn check(payload: &str) -> Result<(), String> {
    let transcript = transcript(&updates_with(payload));
    check_page(&transcript.to_html()).map_err(|why| format!("page: {why}"))?;
    check_document(&transcript.to_markdown()).map_err(|why| format!("document: {why}"))
}

#[test]
fn no_payload_becomes_a_part_of_the_page() {
    for payload in PAYLOADS {
        assert_eq!(check(payload), Ok(()), "{payload:?}");
    }
}

#[test]
fn deep_nesting_and_long_words_are_handled() {
    for payload in ["> ".repeat(3_000), "- ".repeat(3_000), "*a ".repeat(3_000), "[".repeat(3_000)]
    {
        assert_eq!(check(&payload), Ok(()), "{}", &payload[..8]);
    }
    assert_eq!(check(&"w".repeat(100_000)), Ok(()));
}

#[test]
fn a_page_that_is_not_escaped_is_detected() {
    for broken in [
        "<main id=\"session\"><script>x</script></main>",
        "<main id=\"session\"><p onclick=\"x\"></p></main>",
        "<main id=\"session\"><a href=\"javascript:x\"></a></main>",
        "<main id=\"session\"></p></main>",
        "<main id=\"session\"><p></main>",
        "<main id=\"session\">\u{1b}</main>",
    ] {
        assert!(check_page(broken).is_err(), "{broken}");
    }
    assert!(check_document("<b>").is_err() && check_document("[x](javascript:y)").is_err());
}

proptest! {
    #[test]
    fn no_text_becomes_a_part_of_the_page(
        pieces in vec(
            prop_oneof![
                3 => prop::sample::select(PAYLOADS).prop_map(str::to_owned),
                1 => "[<>&\"'`\\[\\]()!*_~|#\\\\\n\t :/-]{1,8}",
                1 => "\\PC{1,6}",
                1 => Just("word ".to_owned()),
            ],
            1..6,
        ),
    ) {
        let payload = pieces.concat();
        prop_assert_eq!(check(&payload), Ok(()), "{:?}", payload);
    }
}
