//! What a request shows of the changes that a call would make: within a bound, and with a file that
//! holds the rest.

use std::io::Write as _;
use std::path::Path;

use acp_types::limits::CHANGE_BYTES;
use acp_types::schema::v1::ResourceLink;
use acp_types::{Content, ContentBlock, FileChange};

use crate::outputs::{Outputs, uri};
use crate::tool::{Context, blocking};

/// Bounds what is shown of changes, and tells whether that is everything. Where it is not, all that
/// is listed of them lies in a file of the session, to which the last content is a link.
pub(super) async fn shown(changes: Vec<FileChange>, context: &Context) -> (Vec<Content>, bool) {
    let (mut shown, is_whole) = bounded(&changes);
    if !is_whole {
        let workspace = context.workspace.clone();
        let staged = blocking(move || Ok(stage(&changes, workspace.outputs())));
        // Without the file the request is still a true one: it says how much it leaves out.
        shown.extend(staged.await.ok().flatten());
    }
    (shown, is_whole)
}

fn bounded(changes: &[FileChange]) -> (Vec<Content>, bool) {
    let (mut shown, mut room, mut is_whole) = (Vec::new(), CHANGE_BYTES, true);
    for change in changes {
        let is_listed = change.byte_len() <= room && change.unlisted == (0, 0);
        let bounded = if is_listed { change.clone() } else { change.within(room) };
        room = room.saturating_sub(bounded.byte_len());
        let cut = change.left_out_of(&bounded);
        // A change of which nothing is shown would look like one that empties the file.
        if !bounded.hunks.is_empty() || (change.hunks.is_empty() && cut == (0, 0)) {
            shown.push(Content::Change(bounded));
        }
        if cut != (0, 0) {
            is_whole = false;
            shown.push(Content::text(left_out(&change.path, cut, "shown")));
        }
    }
    (shown, is_whole)
}

fn left_out(path: &Path, (added, removed): (usize, usize), how: &str) -> String {
    format!("{}: +{added} −{removed} more lines are not {how}.", path.display())
}

/// Writes changes as one patch into a file that only its owner can read.
fn stage(changes: &[FileChange], outputs: &Outputs) -> Option<Content> {
    let (mut file, path) = outputs.create().ok()??;
    let mut bytes = 0;
    for change in changes {
        let mut patch = change.git_patch();
        if change.unlisted != (0, 0) {
            patch.push_str(&left_out(&change.path, change.unlisted, "listed"));
            patch.push('\n');
        }
        bytes += patch.len();
        if file.write_all(patch.as_bytes()).is_err() {
            // Half of it would be taken for the whole; that it stays hurts nobody else.
            drop(std::fs::remove_file(&path));
            return None;
        }
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let link = ResourceLink::new(name, uri(&path))
        .title("The whole change".to_owned())
        .mime_type("text/x-diff".to_owned())
        .size(i64::try_from(bytes).ok());
    Some(Content::Block(ContentBlock::ResourceLink(link)))
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::Arc};

    use acp_types::{Hunk, HunkLine, LineTag, Operation};
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::workspace::Workspace;

    /// A change of `lines` lines of 1 KiB each.
    fn change(lines: usize) -> FileChange {
        let text = "x".repeat(1023) + "\n";
        let lines = vec![HunkLine { tag: LineTag::Added, text }; lines];
        let hunks = vec![Hunk { old_start: 0, new_start: 1, lines }];
        FileChange { hunks, ..FileChange::new(Operation::Add, "/p/a.txt") }
    }

    fn linked(content: Option<&Content>) -> Option<(PathBuf, ResourceLink)> {
        let Some(Content::Block(ContentBlock::ResourceLink(link))) = content else { return None };
        Some((link.uri.strip_prefix("file://")?.into(), link.clone()))
    }

    #[tokio::test]
    async fn a_change_that_does_not_fit_is_shown_in_part_and_lies_whole_in_a_linked_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let workspace = Workspace::new(root, Vec::new()).unwrap();
        let workspace = Arc::new(workspace.keeping(&folder.path().join("state")));
        let context = Context { workspace, env: Arc::default(), text: None, terminal: None };

        let (content, is_whole) = shown(vec![change(100)], &context).await;
        assert_eq!((content.len(), is_whole), (1, true));

        let large = FileChange { unlisted: (7, 0), ..change(300) };
        let (content, is_whole) = shown(vec![change(1), large.clone()], &context).await;
        assert!(!is_whole);
        let note = Content::text("/p/a.txt: +52 −0 more lines are not shown.");
        assert_eq!(content[2], note);
        let (path, link) = linked(content.last()).unwrap();
        let patch = std::fs::read_to_string(&path).unwrap();
        assert!(patch.contains(&large.git_patch()) && patch.contains(&change(1).git_patch()));
        assert!(patch.ends_with("/p/a.txt: +7 −0 more lines are not listed.\n"), "{patch:.100}");
        assert_eq!(link.size, i64::try_from(patch.len()).ok());
    }
}
