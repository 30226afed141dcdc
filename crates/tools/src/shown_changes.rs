//! The changes that a permission request shows. Their size is limited, and a patch file contains
//! the rest.

use std::borrow::Borrow;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use acp_lifecycle::Titles;
use acp_types::limits::MAX_FILE_CHANGE_BYTES;
use acp_types::schema::v1::ResourceLink;
use acp_types::{Content, ContentBlock, FileChange, FileChangeOperation, diff};
use callboard_text::path_text;

use crate::files::state::outputs::{OutputReproducibility, OutputStore};
use crate::limits::{MAX_CHANGES_NAMED, MAX_CHANGES_SHOWN, MAX_NOTES_SHOWN};
use crate::note::Note;
use crate::tool::{Context, run_on_blocking_thread};
use acp_types::path::file_uri;

/// Returns the content items that show some changes, truncated to the size limit. Also returns
/// whether all changes are shown completely. If some are not, a patch file of the session contains
/// all changes, and the last content item is a link to this file.
pub(crate) async fn content_with_patch_if_truncated(
    changes: Vec<FileChange>,
    context: &Context,
    titles: &Titles,
) -> (Vec<Content>, bool) {
    let (mut shown, is_whole) = changes_to_bounded_content(&changes, MAX_CHANGES_SHOWN, titles);
    if !is_whole {
        let workspace = context.workspace.clone();
        let title = Note::new("whole-change").render(titles);
        let staged = run_on_blocking_thread(move || {
            Ok(write_patch_file(&changes, workspace.outputs(), title))
        });
        // If the patch file cannot be written, the request is still correct, because it states what
        // was omitted.
        shown.extend(staged.await.ok().flatten());
    }
    (shown, is_whole)
}

/// Returns the content items of [`content_with_patch_if_truncated`] for changes that are computed
/// one by one, so that they are never all in memory. At most `most` changes are shown. Calls
/// `changes` a second time for the patch file. Blocks.
pub(crate) fn content_with_patch_from_iterator<I: Iterator<Item = FileChange>, R>(
    changes: impl Fn() -> I,
    most: usize,
    outputs: &OutputStore<R>,
    titles: &Titles,
) -> Vec<Content> {
    let (mut shown, is_whole) = changes_to_bounded_content(changes(), most, titles);
    if !is_whole {
        let title = Note::new("whole-change").render(titles);
        shown.extend(write_patch_file(changes(), outputs, title));
    }
    shown
}

fn changes_to_bounded_content<C: Borrow<FileChange>>(
    changes: impl IntoIterator<Item = C>,
    most: usize,
    titles: &Titles,
) -> (Vec<Content>, bool) {
    let (mut shown, mut room, mut is_whole) = (Vec::new(), MAX_FILE_CHANGE_BYTES, true);
    let mut rest = OmittedFiles::default();
    for change in changes {
        let change = change.borrow();
        let mut bounded = diff::shorten_change(change, room).unwrap_or_else(|| change.clone());
        let cut = bounded.unlisted;
        // Without any hunk, the change would look as if all content was deleted.
        let is_empty = bounded.hunks.is_empty() && (!change.hunks.is_empty() || cut != (0, 0));
        if is_empty || shown.len() >= most {
            rest.add(change);
            continue;
        }
        room = room.saturating_sub(bounded.max_json_len());
        let sentence = sentence_for_change_without_text(change).map(|note| note.render(titles));
        (bounded.sentence, bounded.unlisted) = (sentence, (0, 0));
        shown.push(Content::Change(bounded));
        if cut != (0, 0) {
            is_whole = false;
            let rest = omitted_lines_note("lines-not-shown", &change.path, cut);
            shown.push(Content::from_text(rest.render(titles)));
        }
    }
    is_whole &= rest.files == 0;
    shown.extend(rest.note().map(|note| Content::from_text(note.render(titles))));
    (shown, is_whole)
}

/// The changes that are not shown at all.
#[derive(Default)]
struct OmittedFiles {
    files: usize,
    added: usize,
    removed: usize,
    /// The first paths.
    named: Vec<PathBuf>,
}

impl OmittedFiles {
    fn add(&mut self, change: &FileChange) {
        let (added, removed) = change.line_counts();
        self.files += 1;
        (self.added, self.removed) = (self.added + added, self.removed + removed);
        if self.named.len() < MAX_CHANGES_NAMED {
            self.named.push(change.path.clone());
        }
    }

    fn note(&self) -> Option<Note> {
        if let ([only], 1) = (&*self.named, self.files) {
            return Some(omitted_lines_note("lines-not-shown", only, (self.added, self.removed)));
        }
        let names: Vec<_> = self.named.iter().map(|path| path_text(path)).collect();
        let unnamed = self.files - names.len();
        let key = if unnamed == 0 { "files-not-shown" } else { "files-not-shown-more" };
        let note = Note::new(key).with_text("named", names.join(", "));
        let (files, added, removed) = (self.files, self.added, self.removed);
        let numbers = [("files", files), ("added", added), ("removed", removed), ("more", unnamed)];
        let with =
            |note: Note, (name, number): (_, usize)| note.with_text(name, number.to_string());
        (files > 0).then(|| numbers.into_iter().fold(note, with))
    }
}

/// Returns a sentence that describes a change without text and hunks.
fn sentence_for_change_without_text(change: &FileChange) -> Option<Note> {
    let is_shown = change.old_text.is_some() || change.new_text.is_some();
    if is_shown || !change.hunks.is_empty() {
        return None;
    }
    let (key, from) = match &change.operation {
        FileChangeOperation::Add => ("change-add", None),
        FileChangeOperation::Modify => ("change-modify", None),
        FileChangeOperation::Delete => ("change-delete", None),
        FileChangeOperation::Move { from } => ("change-move", Some(from)),
        FileChangeOperation::Copy { from } => ("change-copy", Some(from)),
        _ => return None,
    };
    let note = Note::new(key).with_text("path", path_text(&change.path));
    Some(from.into_iter().fold(note, |note, from| note.with_text("from", path_text(from))))
}

/// Returns the notes of a call as content items. If there are too many notes, the last ones are
/// merged.
pub(crate) fn notes_to_content(mut notes: Vec<String>) -> Vec<Content> {
    if notes.len() > MAX_NOTES_SHOWN {
        let rest = notes.split_off(MAX_NOTES_SHOWN - 1).join("\n");
        notes.push(rest);
    }
    notes.into_iter().map(Content::from_text).collect()
}

fn omitted_lines_note(key: &'static str, path: &Path, (added, removed): (usize, usize)) -> Note {
    let note = Note::new(key).with_count("lines", (added + removed) as u64);
    let note = note.with_text("path", path_text(path));
    note.with_text("added", added.to_string()).with_text("removed", removed.to_string())
}

/// Writes changes to a file as one patch. Only the owner can read this file.
fn write_patch_file<R, C: Borrow<FileChange>>(
    changes: impl IntoIterator<Item = C>,
    outputs: &OutputStore<R>,
    title: String,
) -> Option<Content> {
    let (mut file, path) =
        outputs.create_output_file(OutputReproducibility::Irreplaceable).ok()??;
    let mut bytes = 0;
    for change in changes {
        let change = change.borrow();
        let mut patch = change.git_patch();
        if change.unlisted != (0, 0) {
            let rest = omitted_lines_note("lines-not-listed", &change.path, change.unlisted);
            patch.push_str(&rest.to_string());
            patch.push('\n');
        }
        bytes += patch.len();
        if file.write_all(patch.as_bytes()).is_err() {
            // Users and models would think that an incomplete patch is complete. If the incomplete
            // file cannot be deleted, it causes no problem, because no link leads to it.
            drop(std::fs::remove_file(&path));
            return None;
        }
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let link = ResourceLink::new(name, file_uri(&path))
        .title(title)
        .mime_type("text/x-diff".to_owned())
        .size(i64::try_from(bytes).ok());
    Some(Content::Block(ContentBlock::ResourceLink(link)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use acp_types::{Hunk, HunkLine, LineTag};
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::files::workspace::Workspace;

    /// Returns a change with `lines` lines of 1 KiB each.
    fn change(lines: usize) -> FileChange {
        let text = "x".repeat(1023) + "\n";
        let lines = vec![HunkLine { tag: LineTag::Added, text }; lines];
        let hunks = vec![Hunk { old_start: 0, new_start: 1, lines }];
        FileChange::new(FileChangeOperation::Add, "/p/a.txt").with_hunks(hunks)
    }

    /// Returns a change of another file.
    fn change_of(name: &str) -> FileChange {
        let mut change = change(1);
        change.path = format!("/p/{name}").into();
        change
    }

    /// Returns a context with a state folder, and the folder that contains both.
    fn context() -> (tempfile::TempDir, Context) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let workspace = Workspace::new(root, Vec::new()).unwrap();
        let workspace = Arc::new(workspace.with_state_folder(&folder.path().join("state")));
        (folder, Context::new(workspace))
    }

    async fn in_english(changes: Vec<FileChange>, context: &Context) -> (Vec<Content>, bool) {
        content_with_patch_if_truncated(changes, context, &Titles::default()).await
    }

    fn linked(content: Option<&Content>) -> Option<(PathBuf, ResourceLink)> {
        let Some(Content::Block(ContentBlock::ResourceLink(link))) = content else { return None };
        Some((link.uri.strip_prefix("file://")?.into(), link.clone()))
    }

    #[tokio::test]
    async fn a_truncated_change_is_complete_in_a_linked_file() {
        let (_folder, context) = context();

        let (content, is_whole) = in_english(vec![change(100)], &context).await;
        assert_eq!((content.len(), is_whole), (1, true));

        let mut large = change(300);
        large.unlisted = (7, 0);
        let (content, is_whole) = in_english(vec![change(1), large.clone()], &context).await;
        assert!(!is_whole);
        let note = Content::from_text("/p/a.txt: +55 −0 more lines are not shown.");
        assert_eq!(content[2], note);
        let (path, link) = linked(content.last()).unwrap();
        let patch = std::fs::read_to_string(&path).unwrap();
        assert!(patch.contains(&large.git_patch()) && patch.contains(&change(1).git_patch()));
        assert!(patch.ends_with("/p/a.txt: +7 −0 more lines are not listed.\n"), "{patch:.100}");
        assert_eq!(link.size, i64::try_from(patch.len()).ok());
    }

    #[tokio::test]
    async fn of_more_files_than_are_shown_the_rest_is_counted_and_linked() {
        let (_folder, context) = context();
        let of = |file: usize| change_of(&file.to_string());
        for count in [MAX_CHANGES_SHOWN, MAX_CHANGES_SHOWN + 1, 200, 1000] {
            let (content, is_whole) = in_english((0..count).map(of).collect(), &context).await;
            let outputs = context.workspace.outputs();
            let all = || (0..count).map(of);
            let computed = content_with_patch_from_iterator(
                all,
                MAX_CHANGES_SHOWN,
                outputs,
                &Titles::default(),
            );
            assert_eq!(computed.len(), content.len());
            let items = content.len() - usize::from(!is_whole);
            assert_eq!(computed[..items], content[..items]);
            if let Some((path, _)) = linked(computed.last()) {
                let patch = std::fs::read_to_string(path).unwrap();
                assert_eq!(patch.matches("diff --git").count(), count);
            }
            let diffs = content.iter().filter(|item| matches!(item, Content::Change(_))).count();
            assert_eq!(
                (diffs, is_whole),
                (MAX_CHANGES_SHOWN, count == MAX_CHANGES_SHOWN),
                "{count}"
            );
            if is_whole {
                continue;
            }
            let (path, _) = linked(content.last()).unwrap();
            let patch = std::fs::read_to_string(&path).unwrap();
            assert_eq!(patch.matches("diff --git").count(), count);
            let rest = count - MAX_CHANGES_SHOWN;
            let Content::Block(ContentBlock::Text(text)) = &content[MAX_CHANGES_SHOWN] else {
                panic!()
            };
            let expected = match rest {
                1 => format!("/p/{MAX_CHANGES_SHOWN}: +1 −0 more line is not shown."),
                _ => format!("{rest} more files with +{rest} −0 lines are not shown"),
            };
            assert!(text.text.starts_with(&expected), "{}", text.text);
            assert!(content.len() + MAX_NOTES_SHOWN <= acp_lifecycle::limits::MAX_CONTENT_ITEMS);
        }
    }

    #[test]
    fn a_name_cannot_pass_for_other_words_of_the_text() {
        let one = change_of("a\nb: +0 −0 more lines are not shown.");
        let two = change_of("c, /p/d");
        for changes in [&[one.clone()][..], &[one, two]] {
            let mut omitted = OmittedFiles::default();
            changes.iter().for_each(|change| omitted.add(change));
            let text = omitted.note().unwrap().to_string();
            assert!(text.contains("/p/$'a\\nb") && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn many_notes_are_few_items_and_none_is_lost() {
        let all: Vec<_> = (0..300).map(|number| format!("note {number}.")).collect();
        let items = notes_to_content(all.clone());
        assert_eq!(items.len(), MAX_NOTES_SHOWN);
        let text = |item: &Content| match item {
            Content::Block(ContentBlock::Text(text)) => text.text.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(items.iter().map(text).collect::<Vec<_>>().join("\n"), all.join("\n"));
    }
}
