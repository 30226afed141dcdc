//! A session with every kind of card, as a page and as a document.

use acp_cards::Transcript;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pretty_assertions::assert_eq;
use sha2::{Digest as _, Sha256};

use crate::main_part;

pub(crate) const SESSION: &str = include_str!("session.jsonl");

pub(crate) fn transcript() -> Transcript {
    let mut transcript = Transcript::new("/srv/greeter").with_date("2026-11-05 14:03");
    for line in SESSION.lines() {
        // Updates of an unknown kind are skipped, as in a client.
        if let Ok(update) = serde_json::from_str(line) {
            transcript.add_update(&update);
        }
    }
    transcript
}

/// Returns the part of `text` between `before` and `after`.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before).unwrap().1.split_once(after).unwrap().0
}

#[test]
fn every_kind_of_card_is_on_the_page() {
    let page = transcript().to_html();
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (body, end) = rest.split_once("<script>").unwrap();
    let (_, end) = end.split_once("</script>").unwrap();
    // Each hash changes with every change of the style or the script.
    let hash = between(head, "style-src 'sha256-", "'");
    let head = head.replace(hash, "STYLE");
    let hash = between(&head, "script-src 'sha256-", "'").to_owned();
    let head = head.replace(&hash, "SCRIPT");
    insta::assert_snapshot!(format!("{head}{body}{end}"));
}

#[test]
fn every_kind_of_card_is_in_the_document() {
    insta::assert_snapshot!(transcript().to_markdown());
}

#[test]
fn equal_updates_make_equal_output() {
    assert_eq!(transcript().to_html(), transcript().to_html());
    assert_eq!(transcript().to_markdown(), transcript().to_markdown());
}

#[test]
fn the_policy_names_the_style_and_the_script_of_the_page() {
    let page = transcript().to_html();
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
    let style = between(&page, "<style>", "</style>");
    let script = between(&page, "<script>", "</script>");
    let policy = between(&page, "Content-Security-Policy\" content=\"", "\"");
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; \
             base-uri 'none'; form-action 'none'",
            hash(style),
            hash(script)
        ),
        "write these hashes to `html.rs`"
    );
}

#[test]
fn the_page_needs_no_network() {
    let page = transcript().to_html();
    let style = between(&page, "<style>", "</style>");
    assert!(!style.contains("url(") && !style.contains("@import"), "{style}");
    assert!(!main_part(&page).contains("src=\"http"));
}
