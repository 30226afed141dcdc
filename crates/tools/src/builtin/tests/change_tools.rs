//! Tests for the previews of tools that change files.

use std::sync::Arc;

use acp_lifecycle::{ClientUnreachable, OutboxItem, OutboxSink, PermissionAnswer, SessionHandle};
use acp_types::LineTag;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{open_call, run_whole_call};
use crate::builtin::delete_path::DeletePath;
use crate::builtin::edit_file::EditFile;
use crate::builtin::move_path::MovePath;
use crate::builtin::write_file::WriteFile;
use crate::error::{ErrorCode, ToolError};
use crate::files::read::read_excerpt;
use crate::files::system::HasFileId as _;
use crate::files::workspace::testing::{TestWorkspace, test_workspace, test_workspace_with_undo};
use crate::limits::MAX_EDITS_PER_CALL;
use crate::note::Note;
use crate::registry::arguments::normalise;
use crate::tool::{Context, Invocation, Tool, ToolPreview};

/// Previews a call. The arguments have the form in which a model writes them.
async fn preview<T: Tool>(
    tool: T,
    tree: TestWorkspace,
    args: Value,
) -> Result<ToolPreview<T::Plan>, ToolError> {
    let context = Context::new(Arc::new(tree.workspace));
    let args = normalise(&schemars::schema_for!(T::Args).to_value(), &args)?.args;
    let args = serde_json::from_value(args)
        .map_err(|why| ToolError::invalid_arguments(why.to_string()))?;
    let open = open_call(&context);
    tool.preview(args, Invocation::new(open.handle(), &context, &Arc::default())).await
}

fn code<P>(draft: Result<ToolPreview<P>, ToolError>) -> Option<ErrorCode> {
    draft.err().and_then(|error| error.code())
}

#[tokio::test]
async fn the_number_of_replacements_per_call_is_limited() {
    for (count, refused) in
        [(MAX_EDITS_PER_CALL, None), (MAX_EDITS_PER_CALL + 1, Some(ErrorCode::TooLarge))]
    {
        let tree = test_workspace(&[("f", &"a\n".repeat(MAX_EDITS_PER_CALL))]);
        let edit = json!({ "path": "f", "old_text": "a", "new_text": "b", "occurrence": 1 });
        let edits = vec![edit; count];
        let draft = preview(EditFile, tree, json!({ "edits": edits })).await;
        assert_eq!(code(draft), refused, "{count}");
    }
}

#[tokio::test]
async fn the_fields_of_the_call_are_defaults_of_its_edits() {
    let text = "a b\na b\na b\n";
    for (fields, of_edit, expected) in [
        (json!({ "replace_all": true }), json!({}), Some("x b\nx b\nx b\n")),
        (json!({ "occurrence": 2 }), json!({}), Some("a b\nx b\na b\n")),
        (json!({ "line": 3 }), json!({}), Some("a b\na b\nx b\n")),
        (json!({ "line": 3 }), json!({ "replace_all": false }), Some("a b\na b\nx b\n")),
        // A field of an edit overrides all of these fields of the call.
        (json!({ "replace_all": true }), json!({ "occurrence": 2 }), Some("a b\nx b\na b\n")),
        (json!({ "occurrence": 2 }), json!({ "line": 3 }), Some("a b\na b\nx b\n")),
        (json!({ "line": 3 }), json!({ "replace_all": true }), Some("x b\nx b\nx b\n")),
        (json!({ "replace_all": true }), json!({ "replace_all": false }), None),
        (json!({}), json!({ "replace_all": true, "line": 3 }), None),
    ] {
        let (mut args, mut edit) = (fields.clone(), of_edit.clone());
        edit["old_text"] = json!("a");
        edit["new_text"] = json!("x");
        args["path"] = json!("f");
        args["edits"] = json!([edit]);
        let draft = preview(EditFile, test_workspace(&[("f", text)]), args).await;
        let added = draft.ok().map(|draft| {
            let lines = draft.changes[0].hunks.iter().flat_map(|hunk| &hunk.lines);
            let lines = lines.filter(|line| line.tag != LineTag::Removed);
            lines.map(|line| line.text.as_str()).collect::<String>()
        });
        assert_eq!(added.as_deref(), expected, "{fields} {of_edit}");
    }
}

/// Some models pass a range of lines to replace, as in the edit tools of other agents. If this tool
/// inserted the new text before such a range, the old lines would remain.
#[tokio::test]
async fn only_an_old_text_that_is_given_as_empty_inserts() {
    let tree = || test_workspace(&[("f", "a\nb\n")]);
    for (edit, is_done) in [
        (json!({ "new_text": "x", "old_text": "", "line": 2 }), true),
        (json!({ "new_text": "x", "line": 2 }), false),
        (json!({ "new_text": "x", "line": 2, "old_text": null }), false),
        (json!({ "new_text": "x", "start_line": 1, "end_line": 2 }), false),
        (json!({ "new_text": "x", "old_text": "", "start_line": 1 }), false),
    ] {
        let mut one = edit.clone();
        one["path"] = json!("f");
        for args in [one, json!({ "path": "f", "edits": [edit] })] {
            let draft = preview(EditFile, tree(), args.clone()).await;
            assert_eq!(draft.is_ok(), is_done, "{args}: {draft:?}");
        }
    }
}

#[tokio::test]
async fn arguments_that_must_not_be_ignored_are_rejected() {
    let tree = || test_workspace(&[("f", "a\nb\n")]);
    for (name, value, is_refused) in [
        ("append", json!(true), true),
        ("mode", json!("append"), true),
        ("dry_run", json!("true"), true),
        ("dryRun", json!(true), true),
        ("end_line", json!(2), true),
        ("insert_line", json!(2), true),
        ("append", json!(false), false),
        ("mode", json!("overwrite"), false),
        ("explanation", json!("why"), false),
    ] {
        let mut whole = json!({ "path": "f", "content": "x\n" });
        let mut one = json!({ "old_text": "a", "new_text": "x" });
        whole[name] = value.clone();
        one[name] = value;
        let several = json!({ "path": "f", "edits": [one] });
        one["path"] = json!("f");
        let says = [
            preview(WriteFile, tree(), whole).await.err(),
            preview(EditFile, tree(), one).await.err(),
            preview(EditFile, tree(), several).await.err(),
        ];
        for error in says {
            assert_eq!(error.is_some(), is_refused, "{name}: {error:?}");
            let names = |error: ToolError| error.to_string().contains(name);
            assert!(error.is_none_or(names), "{name}");
        }
    }
}

/// The three files have almost the maximum size. Together they exceed the size limit of one call.
#[tokio::test]
async fn the_total_size_of_edited_files_is_limited() {
    let tree = test_workspace(&[]);
    for name in ["a", "b", "c"] {
        tree.write(name, vec![b'x'; 60 << 20]);
    }
    let edit = |path| json!({ "path": path, "old_text": "y", "new_text": "z" });
    let edits = json!({ "edits": [edit("a"), edit("b"), edit("c")] });
    assert_eq!(code(preview(EditFile, tree, edits).await), Some(ErrorCode::TooLarge));
}

#[tokio::test]
async fn write_file_keeps_the_format_and_the_request_reports_it() {
    let tree = test_workspace(&[]);
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    tree.write("f", wide("\u{feff}one\r\ntwo\r\n"));
    let draft = preview(WriteFile, tree, json!({ "path": "f", "content": "one\n2\n" })).await;
    let draft = draft.unwrap();
    assert_eq!(draft.changes[0].line_counts(), (1, 1), "only what changes is shown to change");
    let form = "The file keeps its encoding (UTF-16LE), its line ends (CRLF), its byte order mark.";
    assert_eq!(draft.notes[0].to_string(), form);
}

#[tokio::test]
async fn write_file_never_replaces_invalid_bytes_without_showing_them() {
    let old = ["ä ö ü\nraw \\xff ".as_bytes(), b"\xff\xfe end\nlast\n"].concat();
    let read = String::from_utf8_lossy(&old).into_owned();
    let write = async |bytes: &[u8], content: &str| {
        let tree = test_workspace(&[]);
        tree.write("f", bytes);
        preview(WriteFile, tree, json!({ "path": "f", "content": content })).await
    };
    // The replacement characters of `read_file` would be written instead of the bytes. A zero byte
    // after the first 8 KiB makes the file binary, although `read_file` shows it as text.
    let late = [&old[..], &[b'x'; 9_000], b"\0"].concat();
    for (bytes, refused) in [(&old, ErrorCode::UnknownEncoding), (&late, ErrorCode::BinaryFile)] {
        let draft = write(bytes, &read.replace("last", "new")).await;
        assert_eq!(code(draft), Some(refused));
    }
    // A new text without them is written, and the diff shows the line with the bytes, even if the
    // new text has the escaped form of the bytes.
    for middle in ["raw \\xff  end", "raw \\xff \\xff\\xfe end"] {
        let draft = write(&old, &format!("ä ö ü\n{middle}\nlast\n")).await.unwrap();
        let change = &draft.changes[0];
        assert_eq!(change.line_counts(), (1, 1), "{middle}");
        let lines = change.hunks.iter().flat_map(|hunk| &hunk.lines);
        let texts: Vec<_> = lines.map(|line| line.text.as_str()).collect();
        assert_eq!(texts[1], "raw \\xff \u{fffd}\\xff\u{fffd}\\xfe end\n");
        let note = "The old content of f is not valid UTF-8. Its invalid bytes are shown in the form \
                    \\xff, and are lost.";
        assert_eq!(draft.notes[0].to_string(), note);
    }
    // A replacement character that is in the file itself stands for no other byte.
    let draft = write("a \u{fffd}\n".as_bytes(), "b \u{fffd}\n").await.unwrap();
    assert!(draft.notes.iter().all(|note| !note.to_string().contains("not valid")));
}

#[tokio::test]
async fn replacing_an_unread_file_is_reported() {
    let said = "This session has not read f, whose whole content is replaced.";
    for (text, is_read, is_blind) in [
        (Some("text"), false, true),
        (Some("text"), true, false),
        (Some(""), false, false),
        (None, false, false),
    ] {
        let tree = test_workspace(&[]);
        if let Some(text) = text {
            tree.write("f", text);
        }
        if is_read {
            read_excerpt(&tree.workspace, "f", None, Some(1)).unwrap();
        }
        let draft = preview(WriteFile, tree, json!({ "path": "f", "content": "new" })).await;
        let draft = draft.unwrap();
        assert_eq!(draft.effects.is_high_risk(), is_blind, "{text:?} {is_read}");
        assert_eq!(
            draft.notes.iter().any(|note| note.to_string() == said),
            is_blind,
            "{:?}",
            draft.notes
        );
    }
}

#[tokio::test]
async fn a_permanent_deletion_is_reported_and_always_requires_permission() {
    for is_kept in [true, false] {
        let tree = test_workspace(&[("f", "text")]);
        let state = tree.outer_folder().join("state");
        let workspace = tree.workspace;
        let workspace = if is_kept { workspace.with_state_folder(&state) } else { workspace };
        let draft =
            preview(DeletePath, TestWorkspace { workspace, ..tree }, json!({ "path": "f" })).await;
        let draft = draft.unwrap();
        assert_eq!(draft.effects.is_always_asked(), !is_kept);
        assert_eq!(draft.notes.len(), usize::from(!is_kept), "{:?}", draft.notes);
    }
}

#[tokio::test]
async fn a_change_that_always_requires_permission_names_the_reason() {
    async fn reason<T: Tool>(tool: T, args: Value) -> (bool, String) {
        let tree = test_workspace_with_undo(&[("f", "a"), ("dir/g", "a"), (".vscode/tasks", "a")]);
        std::fs::hard_link(tree.path("f"), tree.path("linked")).unwrap();
        let draft = preview(tool, tree, args).await.unwrap();
        let notes: Vec<_> = draft.notes.iter().map(Note::to_string).collect();
        let each_time = notes.iter().find_map(|it| it.strip_prefix("This needs permission each "));
        (draft.effects.is_always_asked(), each_time.unwrap_or_default().to_owned())
    }
    let edit = |path| json!({ "path": path, "old_text": "a", "new_text": "b" });
    let write = |path| json!({ "path": path, "content": "b" });
    let path = |path| json!({ "path": path });
    let to = |from, to| json!({ "from": from, "to": to });
    for ((is_always_asked, given), expected) in [
        (reason(EditFile, edit("dir/g")).await, None),
        (
            reason(EditFile, edit(".vscode/tasks")).await,
            Some("it writes .vscode/tasks, which is protected"),
        ),
        (reason(EditFile, edit("f")).await, Some("it writes f, which has other names elsewhere")),
        (reason(WriteFile, write("dir/h")).await, None),
        (
            reason(WriteFile, write(".env.d/x")).await,
            Some("it writes .env.d/x, which is protected"),
        ),
        (reason(DeletePath, path("f")).await, None),
        (
            reason(DeletePath, path("dir")).await,
            Some("it deletes or moves the directory dir, whose content is not checked"),
        ),
        (
            reason(DeletePath, path(".vscode/tasks")).await,
            Some("it deletes or moves .vscode/tasks, which is protected"),
        ),
        (reason(MovePath, to("dir/g", "h")).await, None),
        (
            reason(MovePath, to("dir/g", ".vscode/h")).await,
            Some("it writes .vscode/h, which is protected"),
        ),
    ] {
        let expected = expected.map(|why| format!("time: {why}.")).unwrap_or_default();
        assert_eq!((is_always_asked, given), (!expected.is_empty(), expected));
    }
}

#[tokio::test]
async fn a_change_without_backup_is_reported() {
    let edit = json!({ "path": "f", "old_text": "old", "new_text": "new" });
    for (path, is_kept, is_said) in [("f", true, false), ("f", false, true), ("new", false, false)]
    {
        let stage = || {
            let tree = test_workspace(&[("f", "old")]);
            let state = tree.outer_folder().join("state");
            let workspace = tree.workspace;
            let workspace = if is_kept { workspace.with_state_folder(&state) } else { workspace };
            TestWorkspace { workspace, ..tree }
        };
        let write = json!({ "path": path, "content": "new" });
        let mut notes = vec![preview(WriteFile, stage(), write).await.unwrap().notes];
        if path == "f" {
            notes.push(preview(EditFile, stage(), edit.clone()).await.unwrap().notes);
        }
        for notes in notes {
            let says =
                notes.iter().any(|it| it.to_string().contains("cannot be restored afterwards"));
            assert_eq!(says, is_said, "{path} {is_kept}: {notes:?}");
        }
    }
}

#[tokio::test]
async fn the_preview_of_a_directory_move_reports_its_size() {
    let tree = test_workspace(&[("dir/a", "a"), ("dir/deep/b", "bb")]);
    let draft = preview(MovePath, tree, json!({ "from": "dir", "to": "new" })).await.unwrap();
    let notes: Vec<_> = draft.notes.iter().map(Note::to_string).collect();
    let ask_reason = "This needs permission each time: it deletes or moves the directory dir, \
                      whose content is not checked.";
    assert_eq!(notes, ["A directory with 3 files and directories, 3 bytes.", ask_reason]);
    assert_eq!((draft.pre_image.len(), draft.effects.is_always_asked()), (33, true));
}

#[tokio::test]
async fn a_line_number_selects_no_place_in_a_stale_file() {
    for (text, refused) in [("b\na\n", None), ("a\nb\na\n", Some(ErrorCode::ChangedSinceRead))] {
        let tree = test_workspace(&[("f", "a\n")]);
        read_excerpt(&tree.workspace, "f", None, None).unwrap();
        tree.write("f", text);
        let edit = json!({ "path": "f", "old_text": "a", "new_text": "x", "line": 1 });
        let draft = preview(EditFile, tree, edit).await;
        assert_eq!(draft.as_ref().err().and_then(ToolError::code), refused, "{text:?}");
        if let Ok(draft) = draft {
            assert_eq!(draft.notes[0].to_string(), "f has changed since it was read.");
        }
    }
}

/// A client that answers every permission request in the same way.
struct AnsweringClient(SessionHandle, &'static str);

impl OutboxSink for AnsweringClient {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        if let OutboxItem::PermissionRequest(number) = item {
            let answer = PermissionAnswer::Selected { option_id: self.1.to_owned(), reason: None };
            self.0.answer_permission(number, answer);
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_patch_file_of_a_rejected_change_is_deleted() {
    for (answer, is_made) in [("reject", false), ("allow", true)] {
        let tree = test_workspace_with_undo(&[]);
        let (output, made) = (tree.outer_folder().join("state/output"), tree.path("new"));
        let workspace = Arc::new(tree.workspace);
        let context = Context::new(workspace);
        let args = json!({ "path": "new", "content": "a line of a large file\n".repeat(20_000) });
        let client = |session: &SessionHandle| AnsweringClient(session.clone(), answer);
        run_whole_call(client, context, "write_file", args).await;
        assert_eq!(made.exists(), is_made, "{answer}");
        let sessions = std::fs::read_dir(output).unwrap().map(|session| session.unwrap().path());
        let files: usize =
            sessions.map(|session| std::fs::read_dir(session).unwrap().count()).sum();
        assert_eq!(files, usize::from(is_made), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_changes_no_byte_is_reported_and_needs_no_permission() {
    let unchanged = "Nothing was changed in f: its content stays the same.";
    let kept = "The file keeps its line ends (CRLF).";
    let there_and_back = [
        json!({ "old_text": "two", "new_text": "2" }),
        json!({ "old_text": "2", "new_text": "two" }),
    ];
    for (tool, args, notes) in [
        ("write_file", json!({ "path": "f", "content": "one\r\ntwo\r\n" }), &[unchanged][..]),
        ("write_file", json!({ "path": "f", "content": "one\ntwo\n" }), &[unchanged, kept]),
        ("edit_file", json!({ "path": "f", "edits": there_and_back }), &[unchanged]),
    ] {
        let tree = test_workspace_with_undo(&[("f", "one\r\ntwo\r\n")]);
        let (file, workspace) = (tree.path("f"), Arc::new(tree.workspace));
        let before = std::fs::metadata(&file).unwrap();
        let client = |session: &SessionHandle| AnsweringClient(session.clone(), "reject");
        let context = Context::new(workspace.clone());
        let (ended, report) = run_whole_call(client, context, tool, args).await;
        let text = ended.text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text, notes.join(" "), "{tool}");
        let shown = format!("{:?}", report.content);
        assert!(shown.contains(unchanged) && !shown.contains("Change("), "{tool}: {shown}");
        assert!(workspace.undo_store().last().is_none(), "{tool}");
        // A write would replace the file by another file.
        let after = std::fs::metadata(&file).unwrap();
        assert_eq!(after.file_id().unwrap(), before.file_id().unwrap(), "{tool}");
    }
}
