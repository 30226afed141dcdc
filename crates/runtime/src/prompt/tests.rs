//! Tests with every kind of content block, for a model that supports all of them and for a model
//! that supports only text.

use super::{ImplicitReadChecker, parts_from_blocks, read_linked_files, typed_text};
use crate::limits;
use acp_tools::Workspace;
use agent_client_protocol::v1::schema::ContentBlock;
use callboard_models::{ContentPart, ModelCapabilities};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;

const BLIND: ModelCapabilities = ModelCapabilities::new();
const SEES: ModelCapabilities = ModelCapabilities::new().with_images().with_audio();

fn blocks(blocks: Value) -> Vec<ContentBlock> {
    serde_json::from_value(blocks).unwrap()
}

fn text(text: &str) -> ContentPart {
    ContentPart::Text(text.to_owned())
}

#[test]
fn blocks_are_joined_and_unsupported_content_is_named() {
    let blocks = blocks(json!([
        {"type": "text", "text": "read this"},
        {"type": "resource_link", "uri": "file:///a b", "name": "a b"},
        {"type": "resource", "resource": {"uri": "file:///c", "text": "see"}},
        {"type": "resource", "resource": {"uri": "file:///d", "blob": "AAA="}},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "text", "text": "now"},
    ]));
    let joined = "read this\n[a b](file:///a b)\nfile:///c\n```\nsee\n```\n\
                file:///d:\n[a binary resource, which cannot be read]";
    let named = "\n[an image (image/png, 0 KiB), which this model cannot see]\n\
                 [audio (audio/wav, 0 KiB), which this model cannot hear]\nnow";
    assert_eq!(parts_from_blocks(blocks.clone(), &BLIND), [text(&format!("{joined}{named}"))]);
    let image = ContentPart::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    let audio = ContentPart::Audio { media_type: "audio/wav".to_owned(), data: "AAAA".to_owned() };
    assert_eq!(parts_from_blocks(blocks.clone(), &SEES), [text(joined), image, audio, text("now")]);
    assert_eq!(typed_text(&blocks), "read this\nnow");
}

#[test]
fn media_that_every_provider_would_refuse_are_not_sent() {
    let large = "A".repeat(limits::MAX_MEDIA_BYTES + 4);
    for (media_type, data, why) in [
        ("image/svg+xml", "AAAA", "which no model can see"),
        ("image/png", "not base64!", "which is not in base64"),
        ("image/png", "AAA", "which is not in base64"),
        ("image/png", "A===", "which is not in base64"),
        ("image/png", "", "which is not in base64"),
        ("image/png", &*large, "which is too large"),
    ] {
        let image = json!([{"type": "image", "data": data, "mimeType": media_type}]);
        let [ContentPart::Text(said)] = &parts_from_blocks(blocks(image), &SEES)[..] else {
            panic!("{why}")
        };
        assert!(said.starts_with(&format!("[an image ({media_type}, ")), "{said}");
        assert!(said.ends_with(&format!("), {why}]")), "{said}");
    }
    let image = json!({"type": "image", "data": "AAA=", "mimeType": "image/png"});
    let images = blocks(Value::Array(vec![image; limits::MAX_PROMPT_MEDIA + 1]));
    let parts = parts_from_blocks(images, &SEES);
    assert_eq!(parts.len(), limits::MAX_PROMPT_MEDIA + 1);
    assert_eq!(parts.last(), Some(&text("[an image (image/png, 0 KiB), which is one too many]")));
}

#[test]
fn an_embedded_image_is_an_image() {
    let image = json!([{"type": "resource", "resource": {"uri": "file:///d.png", "blob": "AAA=", "mimeType": "image/png"}}]);
    let image = parts_from_blocks(blocks(image), &SEES);
    assert!(
        matches!(&image[..], [ContentPart::Text(uri), ContentPart::Image { .. }] if uri == "file:///d.png:")
    );
}

#[tokio::test]
async fn linked_files_of_the_workspace_are_read_and_others_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let large = "x".repeat(usize::try_from(limits::MAX_LINKED_FILE_BYTES).unwrap() + 1);
    for (name, text) in [("a b.txt", "one\ntwo\n"), ("large.txt", &large), ("binary", "a\0b")] {
        std::fs::write(root.join(name), text).unwrap();
    }
    let workspace = Arc::new(Workspace::new(root.clone(), Vec::new()).unwrap());
    let link = |uri: String| json!({"type": "resource_link", "name": "it", "uri": uri});
    let file = |name: &str| link(format!("file://{}/{name}", root.display()));
    for (link, expected) in [
        (file("a%20b.txt"), Ok("a b.txt\n```\n     1\tone\n     2\ttwo\n```")),
        (file("a%20b.txt#L2"), Ok("a b.txt\n```\n     1\tone\n     2\ttwo\n```")),
        (file("large.txt"), Err("large.txt was not read: it has 65537 bytes")),
        (file("binary"), Err("binary was not read: ")),
        (file("missing"), Err("missing was not read: ")),
        (file(""), Err(". was not read: ")),
        (link("file:///etc/passwd".to_owned()), Err("/etc/passwd was not read: ")),
    ] {
        let linked =
            read_linked_files(&blocks(json!([link])), &workspace, ImplicitReadChecker::default())
                .await
                .unwrap();
        let [(file, is_read)] = &linked.files[..] else { panic!("{linked:?}") };
        assert_eq!((file.is_absolute(), *is_read), (true, expected.is_ok()), "{linked:?}");
        let said = linked.text.strip_prefix("Files that the prompt links to:\n\n").unwrap();
        match expected {
            Ok(whole) => assert_eq!(said, whole),
            Err(start) => assert!(said.starts_with(start), "{said}"),
        }
    }
    for (uri, is_named) in [
        ("https://example.org/a", true),
        ("no uri", true),
        ("zed:///agent/thread", true),
        ("file://elsewhere/a", true),
        ("file:///a", false),
    ] {
        let link = blocks(json!([link(uri.to_owned())]));
        assert_eq!(
            read_linked_files(&link, &workspace, ImplicitReadChecker::default()).await.is_none(),
            is_named,
            "{uri}"
        );
        let note = if is_named { "\n[it is only named; what is there was not read]" } else { "" };
        assert_eq!(parts_from_blocks(link, &BLIND), [text(&format!("[it]({uri}){note}"))]);
    }
    let many = vec![file("a%20b.txt"); limits::MAX_LINKED_FILES + 1];
    let linked =
        read_linked_files(&blocks(Value::Array(many)), &workspace, ImplicitReadChecker::default())
            .await
            .unwrap();
    assert_eq!(linked.text.matches("was not read: one of too many").count(), 1);
    assert_eq!(linked.files.len(), limits::MAX_LINKED_FILES);
}
