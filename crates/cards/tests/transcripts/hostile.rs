//! Text of an agent never becomes a tag, an attribute or a script of the page.

use std::ops::ControlFlow;

use proptest::collection::vec;
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};
use serde_json::{Value, json};

use crate::{call, change, says, text, transcript};

/// Texts that break a page which does not escape them.
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

/// Tags of a page. A session adds no other ones.
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

/// Reads a page strictly: every tag is closed, and every tag and attribute is known.
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

/// Reads a document as CommonMark: it has no HTML, no image and no link to a script.
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

/// Returns a session that has `said` in every field that an agent can fill.
pub(crate) fn updates_with(said: &str) -> Vec<Value> {
    let fenced = format!("```console\n{said}\n```");
    let image = json!({"type": "image", "mimeType": said, "data": said});
    let link = json!({"type": "resource_link", "name": said, "uri": said});
    let file = json!({"type": "resource", "resource": {"uri": said, "text": said}});
    let content = |content: Value| json!({"type": "content", "content": content});
    let chunk = |kind: &str, content: Value| json!({"sessionUpdate": kind, "content": content});
    vec![
        json!({"sessionUpdate": "session_info_update", "title": said, "updatedAt": said}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": said}),
        json!({
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": said, "description": said}],
        }),
        json!({
            "sessionUpdate": "config_option_update",
            "configOptions": [{
                "id": said, "name": said, "type": "select", "currentValue": said,
                "options": [{"value": said, "name": said}],
            }],
        }),
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1.0, "currency": said}}),
        says("agent_message_chunk", said),
        says("user_message_chunk", said),
        chunk("user_message_chunk", link.clone()),
        chunk("user_message_chunk", file.clone()),
        chunk("user_message_chunk", image.clone()),
        says("agent_thought_chunk", said),
        chunk("agent_message_chunk", link.clone()),
        json!({
            "sessionUpdate": "plan",
            "entries": [{"content": said, "priority": "low", "status": "pending"}],
        }),
        json!({"sessionUpdate": "notice", "severity": said, "title": said, "description": said}),
        call(
            said,
            json!({
                "title": said,
                "kind": "execute",
                "rawInput": {"command": said, said: said},
                "rawOutput": said,
                "locations": [{"path": format!("/p/{said}")}],
                "content": [
                    text(said),
                    text(&fenced),
                    {"type": "diff", "path": said, "oldText": said, "newText": format!("{said}\n{said}")},
                    {"type": "terminal", "terminalId": said},
                    content(image),
                    content(link),
                    content(file),
                ],
            }),
        ),
        change(said, json!({"_meta": {"terminal_output": {"terminal_id": said, "data": said}}})),
        change(
            said,
            json!({
                "status": "failed",
                "_meta": {
                    "callboard": {"signal": said, "reason": "user"},
                    "terminal_exit": {"terminal_id": said, "signal": said},
                },
            }),
        ),
        call(&format!("{said}2"), json!({"title": said, "rawInput": said, "rawOutput": [said]})),
    ]
}

fn check(said: &str) -> Result<(), String> {
    let transcript = transcript(&updates_with(said));
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
fn deep_nesting_and_long_words_end() {
    for said in ["> ".repeat(3_000), "- ".repeat(3_000), "*a ".repeat(3_000), "[".repeat(3_000)] {
        assert_eq!(check(&said), Ok(()), "{}", &said[..8]);
    }
    assert_eq!(check(&"w".repeat(100_000)), Ok(()));
}

#[test]
fn a_page_that_is_not_escaped_is_found() {
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
        let said = pieces.concat();
        prop_assert_eq!(check(&said), Ok(()), "{:?}", said);
    }
}
