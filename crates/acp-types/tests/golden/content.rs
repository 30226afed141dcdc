//! Content items: content blocks and file changes.

use acp_types::limits::MAX_FILE_CHANGE_BYTES;
use acp_types::schema::v1::{
    Annotations, AudioContent, BlobResourceContents, EmbeddedResource, EmbeddedResourceResource,
    ImageContent, ResourceLink, Role, TextContent, TextResourceContents,
};
use acp_types::wire::{self, v1::TerminalDisplay};
use acp_types::{
    Content, ContentBlock, FileChange, FileChangeOperation, Hunk, HunkLine, LineTag, Status,
    ToolCallPatch,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{announce, id, v1_document, v2_document};

/// Checks the encoding of one item in a first report, in an update with a final status, and in a
/// document. `v1` is an array, because one item may become several items in v1.
fn check(item: impl Into<Content>, v1: &Value, v2: &Value) {
    let item = item.into();
    let patch = announce().with_content(vec![item.clone()]);
    let last = ToolCallPatch::new().with_status(Status::Failed).with_appended_content(item);
    assert_eq!(&v1_document(&patch, None)["content"], v1);
    assert_eq!(v2_document(&patch)["content"], json!([v2]));
    let mut sent = wire::v1::V1Projection::new(TerminalDisplay::Text);
    assert_eq!(&crate::json(&sent.updates_for_call_patch(&id(), &patch))[0]["content"], v1);
    let mut sent = wire::v2::V2Projection::new();
    assert_eq!(crate::json(&sent.updates_for_call_patch(&id(), &patch))[0]["content"], json!([v2]));
    assert_eq!(
        crate::json(&sent.updates_for_call_patch(&id(), &last))[0],
        json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": v2})
    );
}

#[test]
fn blocks_are_the_same_in_both_versions() {
    let text = TextContent::new("x");
    let about = Annotations::new().audience(vec![Role::User]).priority(0.5);
    let link = ResourceLink::new("a.rs", "file:///p/a.rs")
        .title("A")
        .description("about")
        .mime_type("text/x-rust")
        .size(7);
    let held = TextResourceContents::new("x", "file:///p/a.rs").mime_type("text/x-rust");
    let blob = BlobResourceContents::new("AAEC", "file:///p/a.png").mime_type("image/png");
    let resource = |held| ContentBlock::Resource(EmbeddedResource::new(held));
    for (block, expected) in [
        (ContentBlock::Text(text.clone()), json!({"type": "text", "text": "x"})),
        (
            ContentBlock::Text(text.annotations(about)),
            json!({"type": "text", "text": "x",
                   "annotations": {"audience": ["user"], "priority": 0.5}}),
        ),
        (
            ContentBlock::Image(ImageContent::new("AAEC", "image/png").uri("file:///p/a.png")),
            json!({"type": "image", "data": "AAEC", "mimeType": "image/png",
                   "uri": "file:///p/a.png"}),
        ),
        (
            ContentBlock::Audio(AudioContent::new("AAEC", "audio/wav")),
            json!({"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}),
        ),
        (
            ContentBlock::ResourceLink(link),
            json!({"type": "resource_link", "uri": "file:///p/a.rs", "name": "a.rs", "title": "A",
                   "description": "about", "mimeType": "text/x-rust", "size": 7}),
        ),
        (
            resource(EmbeddedResourceResource::TextResourceContents(held)),
            json!({"type": "resource", "resource":
                   {"uri": "file:///p/a.rs", "mimeType": "text/x-rust", "text": "x"}}),
        ),
        (
            resource(EmbeddedResourceResource::BlobResourceContents(blob)),
            json!({"type": "resource", "resource":
                   {"uri": "file:///p/a.png", "mimeType": "image/png", "blob": "AAEC"}}),
        ),
    ] {
        let item = json!({"type": "content", "content": expected});
        check(Content::Block(block), &json!([item]), &item);
    }
}

const PATH: &str = "/p/a.rs";
const FROM: &str = "/p/old.rs";

fn moved() -> FileChangeOperation {
    FileChangeOperation::Move { from: FROM.into() }
}

fn copied() -> FileChangeOperation {
    FileChangeOperation::Copy { from: FROM.into() }
}

fn change(operation: FileChangeOperation, old: Option<&str>, new: Option<&str>) -> FileChange {
    let mut change = FileChange::new(operation, PATH);
    change.old_text = old.map(str::to_owned);
    change.new_text = new.map(str::to_owned);
    change
}

fn sentence(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// Returns the draft v2 diff of a text file with this change and this patch.
fn v2_diff(change: &Value, patch: &str) -> Value {
    json!({"type": "diff", "changes": [change], "patch": {"format": "git_patch", "text": patch}})
}

#[test]
fn whole_texts() {
    check(
        change(FileChangeOperation::Add, None, Some("x\n")),
        &json!([{"type": "diff", "path": PATH, "newText": "x\n",
                 "_meta": {"callboard": {"kind": "add"}}}]),
        &v2_diff(
            &json!({"operation": "add", "path": PATH, "fileType": "text"}),
            "diff --git /p/a.rs /p/a.rs\nnew file mode 100644\n\
             --- /dev/null\n+++ /p/a.rs\n@@ -0,0 +1,1 @@\n+x\n",
        ),
    );
    check(
        change(FileChangeOperation::Modify, Some("a\n"), Some("b")),
        &json!([{"type": "diff", "path": PATH, "oldText": "a\n", "newText": "b",
                 "_meta": {"callboard": {"kind": "modify"}}}]),
        &v2_diff(
            &json!({"operation": "modify", "path": PATH, "fileType": "text"}),
            "diff --git /p/a.rs /p/a.rs\n--- /p/a.rs\n+++ /p/a.rs\n@@ -1,1 +1,1 @@\n-a\n+b\n\
             \\ No newline at end of file\n",
        ),
    );
    // v1 cannot express that a file was deleted; only the tool kind shows it.
    check(
        change(FileChangeOperation::Delete, Some("a\n"), None),
        &json!([{"type": "diff", "path": PATH, "oldText": "a\n", "newText": "",
                 "_meta": {"callboard": {"kind": "delete"}}}]),
        &v2_diff(
            &json!({"operation": "delete", "path": PATH, "fileType": "text"}),
            "diff --git /p/a.rs /p/a.rs\ndeleted file mode 100644\n\
             --- /p/a.rs\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n",
        ),
    );
    check(
        change(moved(), Some("a\n"), Some("b\n")),
        &json!([
            {"type": "diff", "path": FROM, "oldText": "a\n", "newText": "",
             "_meta": {"callboard": {"kind": "move"}}},
            {"type": "diff", "path": PATH, "newText": "b\n",
             "_meta": {"callboard": {"kind": "move"}}},
        ]),
        &v2_diff(
            &json!({"operation": "move", "oldPath": FROM, "path": PATH, "fileType": "text"}),
            "diff --git /p/old.rs /p/a.rs\nrename from /p/old.rs\nrename to /p/a.rs\n\
             --- /p/old.rs\n+++ /p/a.rs\n@@ -1,1 +1,1 @@\n-a\n+b\n",
        ),
    );
    check(
        change(copied(), Some("a\n"), Some("a\n")),
        &json!([{"type": "diff", "path": PATH, "newText": "a\n",
                 "_meta": {"callboard": {"kind": "copy"}}}]),
        &v2_diff(
            &json!({"operation": "copy", "oldPath": FROM, "path": PATH, "fileType": "text"}),
            "diff --git /p/old.rs /p/a.rs\ncopy from /p/old.rs\ncopy to /p/a.rs\n",
        ),
    );
}

#[test]
fn a_change_without_text_is_a_sentence_in_v1() {
    for (operation, text, v2) in [
        (FileChangeOperation::Add, "Adds /p/a.rs", json!({"operation": "add", "path": PATH})),
        (
            FileChangeOperation::Modify,
            "Changes /p/a.rs",
            json!({"operation": "modify", "path": PATH}),
        ),
        (
            FileChangeOperation::Delete,
            "Deletes /p/a.rs",
            json!({"operation": "delete", "path": PATH}),
        ),
        (
            moved(),
            "Moves /p/old.rs to /p/a.rs",
            json!({"operation": "move", "oldPath": FROM, "path": PATH}),
        ),
        (
            copied(),
            "Copies /p/old.rs to /p/a.rs",
            json!({"operation": "copy", "oldPath": FROM, "path": PATH}),
        ),
    ] {
        check(
            change(operation, None, None),
            &json!([sentence(text)]),
            &json!({"type": "diff", "changes": [v2]}),
        );
    }
}

fn line(tag: LineTag, text: &str) -> HunkLine {
    HunkLine { tag, text: text.to_owned() }
}

/// Returns two hunks: a replaced line and an added line.
fn hunks() -> Vec<Hunk> {
    vec![
        Hunk {
            old_start: 4,
            new_start: 4,
            lines: vec![
                line(LineTag::Context, "a\n"),
                line(LineTag::Removed, "b\n"),
                line(LineTag::Added, "c\n"),
            ],
        },
        Hunk { old_start: 90, new_start: 90, lines: vec![line(LineTag::Added, "z\n")] },
    ]
}

#[test]
fn hunks_are_a_diff_each_in_v1() {
    let large = "x\n".repeat(16 * 1024);
    let places = "@@ -4,2 +4,2 @@\n a\n-b\n+c\n@@ -89,0 +90,1 @@\n+z\n";
    let modified = json!([
        {"type": "diff", "path": PATH, "oldText": "a\nb\n", "newText": "a\nc\n",
         "_meta": {"callboard": {"kind": "modify", "oldStart": 4, "newStart": 4}}},
        {"type": "diff", "path": PATH, "oldText": "", "newText": "z\n",
         "_meta": {"callboard": {"kind": "modify", "oldStart": 90, "newStart": 90}}},
    ]);
    // Hunks are sent if the whole texts are too large, or if the change contains no texts.
    for texts in [Some(large.as_str()), None] {
        check(
            change(FileChangeOperation::Modify, texts, texts).with_hunks(hunks()),
            &modified,
            &v2_diff(
                &json!({"operation": "modify", "path": PATH, "fileType": "text"}),
                &format!("diff --git /p/a.rs /p/a.rs\n--- /p/a.rs\n+++ /p/a.rs\n{places}"),
            ),
        );
    }
    // A new file has no old text.
    check(
        change(FileChangeOperation::Add, None, None).with_hunks(hunks()[1..].to_vec()),
        &json!([{"type": "diff", "path": PATH, "newText": "z\n",
                 "_meta": {"callboard": {"kind": "add", "oldStart": 90, "newStart": 90}}}]),
        &v2_diff(
            &json!({"operation": "add", "path": PATH, "fileType": "text"}),
            "diff --git /p/a.rs /p/a.rs\nnew file mode 100644\n\
             --- /dev/null\n+++ /p/a.rs\n@@ -89,0 +90,1 @@\n+z\n",
        ),
    );
}

#[test]
fn a_small_change_with_hunks_is_one_diff_of_whole_files_in_v1() {
    let small = change(FileChangeOperation::Modify, Some("a\n"), Some("b\n")).with_hunks(hunks());
    let content = &v1_document(&announce().with_appended_content(small.into()), None)["content"];
    assert_eq!(
        content,
        &json!([{"type": "diff", "path": PATH, "oldText": "a\n", "newText": "b\n",
                 "_meta": {"callboard": {"kind": "modify"}}}])
    );
}

#[test]
fn a_change_over_its_limit_is_truncated_with_a_note() {
    // The 1800 bytes are reserved for the rest of the message around the texts.
    let (old, last) = ("old\n", "x".repeat(MAX_FILE_CHANGE_BYTES - 1800) + "\n");
    let place = |start, new: &str| Hunk {
        old_start: start,
        new_start: start,
        lines: vec![line(LineTag::Removed, old), line(LineTag::Added, new)],
    };
    // The first hunk takes all bytes up to the limit, so the other hunks are omitted.
    let hunks = vec![place(1, &last), place(5, "five\n"), place(9, "nine\n")];
    let mut v2 = v2_diff(
        &json!({"operation": "modify", "path": PATH, "fileType": "text"}),
        &format!(
            "diff --git /p/a.rs /p/a.rs\n--- /p/a.rs\n+++ /p/a.rs\n@@ -1,1 +1,1 @@\n-old\n+{last}"
        ),
    );
    v2["_meta"] = json!({"callboard": {"linesLeftOut": {"added": 2, "removed": 2}}});
    check(
        change(FileChangeOperation::Modify, None, None).with_hunks(hunks),
        &json!([
            {"type": "diff", "path": PATH, "oldText": old, "newText": last,
             "_meta": {"callboard": {"kind": "modify", "oldStart": 1, "newStart": 1}}},
            sentence("/p/a.rs: +2 −2 more lines are not shown."),
        ]),
        &v2,
    );
}

/// Returns the content of the first report of a change, in v1 and draft v2.
fn shown(change: &FileChange) -> (Value, Value) {
    let patch = announce().with_appended_content(change.clone().into());
    let v1 =
        wire::v1::V1Projection::new(TerminalDisplay::Text).updates_for_call_patch(&id(), &patch);
    let v2 = wire::v2::V2Projection::new().updates_for_call_patch(&id(), &patch);
    (crate::json(&v1)[0]["content"].clone(), crate::json(&v2)[0]["content"].clone())
}

#[test]
fn a_long_context_line_does_not_hide_the_changes_of_a_large_file() {
    let long = "x".repeat(MAX_FILE_CHANGE_BYTES) + "\n";
    let (old, new) = (format!("a\n{long}b\nold\n{long}"), format!("a\n{long}b\nnew\n{long}"));
    let (v1, v2) = shown(&change(FileChangeOperation::Modify, Some(&old), Some(&new)));
    assert_eq!(
        v1,
        json!([{"type": "diff", "path": PATH, "oldText": "b\nold\n", "newText": "b\nnew\n",
                "_meta": {"callboard": {"kind": "modify", "oldStart": 3, "newStart": 3}}}])
    );
    let patch =
        "diff --git /p/a.rs /p/a.rs\n--- /p/a.rs\n+++ /p/a.rs\n@@ -3,2 +3,2 @@\n b\n-old\n+new\n";
    assert_eq!(v2[0]["patch"]["text"], patch);
}

#[test]
fn every_form_of_a_large_change_is_within_the_limit() {
    let line = |number: usize| format!("line {number}, which is as long as lines are\n");
    let lines = |range: std::ops::Range<usize>| range.map(line).collect::<String>();
    let (old, new) = (lines(0..15_000), lines(20_000..35_000));
    let controls = "\u{1b}[0m\n".repeat(100_000);
    let empty = "\n".repeat(600_000);
    let one = "x".repeat(600_000);
    let tiny = (1..=50_000).map(|at| Hunk {
        old_start: at,
        new_start: at,
        lines: vec![self::line(LineTag::Removed, "a\n"), self::line(LineTag::Added, "b\n")],
    });
    let wide = Hunk {
        old_start: 1,
        new_start: 1,
        lines: old.lines().map(|text| self::line(LineTag::Context, &format!("{text}\n"))).collect(),
    };
    let mut with_sentence = change(moved(), Some(&old), Some(&new));
    with_sentence.sentence = Some(long_sentence());
    let listed = |hunks| change(FileChangeOperation::Modify, None, None).with_hunks(hunks);
    let added = Hunk { old_start: 0, new_start: 1, lines: vec![self::line(LineTag::Added, "z\n")] };
    for (change, is_cut) in [
        (change(FileChangeOperation::Add, None, Some(&old)), true),
        (change(FileChangeOperation::Delete, Some(&old), None), true),
        (change(FileChangeOperation::Modify, Some(&old), Some(&new)), true),
        (change(moved(), Some(&old), Some(&new)), true),
        (with_sentence, true),
        (change(copied(), None, Some(&old)), true),
        (change(FileChangeOperation::Modify, Some(&old), Some(&(old.clone() + "more\n"))), false),
        (change(FileChangeOperation::Modify, Some(&old), Some(&controls)), true),
        (change(FileChangeOperation::Modify, Some(&empty), Some(&old)), true),
        (change(FileChangeOperation::Modify, Some("a\n"), Some(&one)), true),
        (listed(tiny.collect()), true),
        (listed(vec![wide, added]), true),
    ] {
        let (v1, v2) = shown(&change);
        let what = format!("{:?} {:?}", change.operation, change.line_counts());
        for content in [&v1, &v2] {
            assert!(
                content.to_string().len() <= MAX_FILE_CHANGE_BYTES,
                "{what}: {}",
                content.to_string().len()
            );
        }
        let note = &v1.as_array().unwrap().last().unwrap()["content"]["text"];
        let note = note.as_str().is_some_and(|note| note.ends_with(" not shown."));
        assert_eq!(note, is_cut, "{what}");
        assert_eq!(v2[0]["_meta"]["callboard"]["linesLeftOut"].is_object(), is_cut, "{what}");
    }
}

/// Returns a sentence that fits in a message, but not together with many lines.
fn long_sentence() -> String {
    "moves ".repeat(40_000)
}

#[test]
fn a_sentence_that_does_not_fit_is_replaced_by_the_default() {
    let move_with = |text| {
        let mut change = change(moved(), None, None);
        change.sentence = Some(text);
        change
    };
    for (text, expected) in [
        (long_sentence(), long_sentence()),
        ("\u{1}".repeat(50_000), "Moves /p/old.rs to /p/a.rs".to_owned()),
    ] {
        assert_eq!(shown(&move_with(text)).0, json!([sentence(&expected)]));
    }
}

#[test]
fn a_move_of_large_texts_names_both_paths() {
    let old: String = (0..15_000).map(|number| format!("line {number} of a long file\n")).collect();
    let new = old.replace("line 7 ", "line seven ");
    let (v1, v2) = shown(&change(moved(), Some(&old), Some(&new)));
    assert_eq!(v1[0], sentence("Moves /p/old.rs to /p/a.rs"));
    assert_eq!((v1[1]["type"].as_str(), v1[1]["path"].as_str()), (Some("diff"), Some(PATH)));
    assert_eq!(v2[0]["changes"][0]["oldPath"], FROM);
}

#[test]
fn a_long_key_of_metadata_is_truncated_and_leaves_a_change_within_its_bound() {
    let places = (1..=50_000).map(|at| Hunk {
        old_start: at,
        new_start: at,
        lines: vec![line(LineTag::Removed, "a\n"), line(LineTag::Added, "b\n")],
    });
    let hunks = places.collect();
    let change = change(FileChangeOperation::Modify, None, None).with_hunks(hunks);
    for (key, sent_as) in [
        ("k".repeat(64), "k".repeat(64)),
        ("k".repeat(100), "k".repeat(64)),
        ("ä".repeat(100), "ä".repeat(32)),
        ("\u{1}".repeat(500), "\u{1}".repeat(10)),
    ] {
        let patch = announce().with_appended_content(change.clone().into());
        let mut v1 = wire::v1::V1Projection::new(TerminalDisplay::Text).with_meta_key(&key);
        let mut v2 = wire::v2::V2Projection::new().with_meta_key(&key);
        for sent in [
            crate::json(&v1.updates_for_call_patch(&id(), &patch)),
            crate::json(&v2.updates_for_call_patch(&id(), &patch)),
        ] {
            let content = &sent[0]["content"];
            let len = content.to_string().len();
            assert!(len <= MAX_FILE_CHANGE_BYTES, "{len} with a key of {} bytes", key.len());
            let meta = content[0]["_meta"].as_object().unwrap();
            assert_eq!(meta.keys().collect::<Vec<_>>(), [&sent_as]);
        }
        assert_eq!(v1.meta_key(), sent_as);
    }
}

#[test]
fn whole_texts_over_the_limit_are_shortened_to_fit() {
    let old: String = (0..15_000).map(|number| format!("line {number} of a long file\n")).collect();
    let new = old.replace("line 7 ", "line seven ").replace("line 14990 ", "the last but ten ");
    let (v1, v2) = shown(&change(FileChangeOperation::Modify, Some(&old), Some(&new)));
    let places: Vec<_> = v1.as_array().unwrap().iter().map(|item| &item["newText"]).collect();
    assert_eq!(places.len(), 2);
    assert!(places[0].as_str().unwrap().contains("line seven of a long file\n"));
    assert!(places[1].as_str().unwrap().contains("the last but ten of a long file\n"));
    assert!(v2[0]["patch"]["text"].as_str().unwrap().contains("\n-line 14990 of a long file\n"));

    let (v1, v2) = shown(&change(FileChangeOperation::Add, None, Some(&old)));
    for content in [v1, v2] {
        let len = content.to_string().len();
        assert!(len > MAX_FILE_CHANGE_BYTES * 9 / 10, "{len}");
    }
}
