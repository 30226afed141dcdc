//! Unsaved changes of the client: files whose text in the editor differs from the disk.
//!
//! If the client has no unsaved changes of a file, a call reads and changes the file on disk. If
//! the client has unsaved changes, the call reads the client's text and changes it through the
//! client. The permission request and the result for the model report the difference. An unsaved
//! change is never overwritten without such a report. Before the client is queried about a file,
//! the path is checked in the same way as for access on disk.

mod text_comparison;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use futures::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::encoding::DecodedText;
use crate::files::state::undo_entry::{FileOperation, UndoEntry};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::files::write::{PreImage, read_whole};
use crate::limits::{MAX_CLIENT_TEXT_BYTES, MAX_CONCURRENT_CLIENT_TEXTS};
use crate::note::Note;
use crate::tool::Context;
use crate::tool::backend::UnsavedTextBackend;

use self::text_comparison::{TextComparison, compare_with_disk, lost_line_end};

/// The unsaved texts that the client has of the files of one call.
#[derive(Debug, Default)]
pub(crate) struct UnsavedTexts {
    texts: Vec<UnsavedText>,
    unknown_texts: Vec<UnknownText>,
}

/// A file whose text in the client could not be determined.
#[derive(Debug)]
struct UnknownText {
    /// The canonical path.
    real_path: PathBuf,
    shown: String,
    /// The reason. Its text is the last part of a sentence.
    reason: Note,
    /// Whether the client has unsaved changes in a text with decoding errors. Such a file must be
    /// written neither through the client nor on disk.
    is_garbled: bool,
}

#[derive(Debug)]
struct UnsavedText {
    /// The canonical path.
    real_path: PathBuf,
    shown: String,
    text: String,
    /// The final line ending of the file, which the client dropped when it read the file.
    lost_line_end: &'static str,
    /// Whether the file exists on disk.
    is_on_disk: bool,
}

impl UnsavedTexts {
    /// Queries the client for its text of a file that a call reads.
    pub(crate) async fn query_for_read(context: &Context, at: &WorkspacePath) -> Self {
        Self::query(context, vec![at.clone()]).await
    }

    async fn query(context: &Context, places: Vec<WorkspacePath>) -> Self {
        let mut held = Self::default();
        let Some(backend) = &context.text else { return held };
        let asked: Vec<_> = places
            .into_iter()
            .map(|at| query_and_compare_with_disk(context, &**backend, at))
            .collect();
        let mut answers = stream::iter(asked).buffered(MAX_CONCURRENT_CLIENT_TEXTS);
        while let Some(answer) = answers.next().await {
            match answer {
                ClientText::SameAsDisk => {}
                ClientText::Unsaved(text) => held.texts.push(text),
                ClientText::Unknown(doubt) => held.unknown_texts.push(doubt),
            }
        }
        held
    }

    /// Queries the client for its text of a file that a call deletes or moves. Returns notes about
    /// unsaved changes, which such a call does not touch.
    pub(crate) async fn notes_for_removal(context: &Context, given: &str) -> Vec<Note> {
        let given = given.to_owned();
        let resolved = context.run_blocking(move |workspace| workspace.resolve(&given));
        // If the path has an error, the tool itself reports it.
        let Ok(at) = resolved.await else { return Vec::new() };
        let held = Self::query(context, vec![at]).await.texts.into_iter();
        let held = held.filter(|held| held.is_on_disk);
        held.map(|held| Note::new("unsaved-left").with_text("path", held.shown)).collect()
    }

    /// Queries the client for its texts of the files that a call would change.
    ///
    /// # Errors
    ///
    /// `unsaved_changes` if the client has unsaved changes but does not accept new texts, or if the
    /// client's text has decoding errors.
    pub(crate) async fn query_for_change(
        context: &Context,
        given: &[String],
    ) -> Result<Self, ToolError> {
        if context.text.is_none() {
            return Ok(Self::default());
        }
        let given = given.to_vec();
        let resolved = context.run_blocking(move |workspace| {
            // Query each file only once, even if the call names it by several paths. Paths with
            // errors are skipped, because the tool itself reports these errors.
            let mut known = BTreeSet::new();
            let places =
                given.iter().filter_map(|given| workspace.resolve_and_follow_links(given).ok());
            let is_new = |at: &WorkspacePath| {
                workspace.canonicalize(at).is_ok_and(|real| known.insert(real.path().to_owned()))
            };
            Ok(places.filter(is_new).collect())
        });
        let held = Self::query(context, resolved.await?).await;
        if let Some(UnknownText { shown, .. }) =
            held.unknown_texts.iter().find(|doubt| doubt.is_garbled)
        {
            let message = format!(
                "{shown} has changes in the editor that are not saved, and characters are missing \
                 there that the editor could not decode: written back, they would be lost. Ask the \
                 user to save the file in its encoding or to give the changes up, then read the \
                 file again"
            );
            return Err(ToolError::recoverable(ErrorCode::UnsavedChanges, message));
        }
        let writes = context.text.as_ref().is_some_and(|backend| backend.can_write());
        match held.texts.first().filter(|_| !writes) {
            None => Ok(held),
            Some(UnsavedText { shown, .. }) => {
                let message = format!(
                    "{shown} has changes in the editor that are not saved, and they cannot be \
                     changed from here. Ask the user to save them or to give them up, then read \
                     the file again"
                );
                Err(ToolError::recoverable(ErrorCode::UnsavedChanges, message))
            }
        }
    }

    /// Returns the client's text of a file if the client has unsaved changes of it. The path must
    /// be canonical.
    pub(crate) fn unsaved_text(&self, real: &Path) -> Option<&str> {
        self.texts.iter().find(|held| held.real_path == real).map(|held| held.text.as_str())
    }

    /// Returns the final line ending of a file if the client dropped it when it read the file.
    pub(crate) fn final_line_end_if_lost(&self, real: &Path) -> &'static str {
        self.texts.iter().find(|held| held.real_path == real).map_or("", |held| held.lost_line_end)
    }

    /// Returns the client's unsaved text. Only for calls that query a single file.
    pub(crate) fn text_if_single_file(&self) -> Option<&str> {
        self.texts.first().map(|held| held.text.as_str())
    }

    /// Returns whether the client's text of a file is known to equal the text on disk. The path
    /// must be canonical. If the tool could not compare the texts, the permission request says so.
    pub(crate) fn is_same_on_disk(&self, real: &Path) -> bool {
        self.unsaved_text(real).is_none()
            && self.unknown_texts.iter().all(|doubt| doubt.real_path != real)
    }

    /// Returns notes for the permission request and the model. Each note is one sentence.
    pub(crate) fn notes_for_change(&self) -> Vec<Note> {
        let held = self.texts.iter().map(|UnsavedText { shown, is_on_disk, .. }| {
            let key = if *is_on_disk { "unsaved" } else { "not-on-disk" };
            Note::new(key).with_text("path", shown)
        });
        held.chain(self.unknown_notes()).collect()
    }

    /// Returns notes for the model about the texts that it reads. Each note is one sentence.
    pub(crate) fn notes_for_read(&self) -> Vec<String> {
        let held = self.texts.iter().map(|UnsavedText { is_on_disk, .. }| match is_on_disk {
            true => {
                "these are the lines in the user's editor, not all of which are saved: the \
                     file on the disk differs"
            }
            false => "these are the lines in the user's editor: the file is not on the disk yet",
        });
        let doubts = self.unknown_notes().map(|note| note.to_string());
        held.map(str::to_owned).chain(doubts).collect()
    }

    fn unknown_notes(&self) -> impl Iterator<Item = Note> {
        let doubt = |UnknownText { shown, reason: why, .. }: &UnknownText| {
            Note::new("unknown").with_text("path", shown).with_joined_notes(
                "why",
                [why.clone()],
                "",
            )
        };
        self.unknown_texts.iter().map(doubt)
    }
}

/// Checks again that the client has no unsaved changes of these files, just before the files are
/// written to disk. The user may have typed during the permission request.
///
/// # Errors
///
/// `changed_since_preview` if the client now has unsaved changes or does not return its text;
/// `cancelled` if the call was cancelled.
pub(crate) async fn require_no_unsaved_changes(
    context: &Context,
    files: Vec<WorkspacePath>,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let asked = cancel.run_until_cancelled(UnsavedTexts::query(context, files)).await;
    let held = asked.ok_or_else(|| {
        ToolError::recoverable(
            ErrorCode::Cancelled,
            "cancelled before the editor returned its text",
        )
    })?;
    let texts = held.texts.iter().map(|held| &held.shown);
    match texts.chain(held.unknown_texts.iter().map(|doubt| &doubt.shown)).next() {
        None => Ok(()),
        Some(shown) => {
            let message = format!(
                "{shown} was changed in the editor since the change was previewed, and that is not \
                 saved. Read it again"
            );
            Err(ToolError::recoverable(ErrorCode::ChangedSincePreview, message))
        }
    }
}

/// The client's text of one file, compared with the disk.
enum ClientText {
    SameAsDisk,
    Unsaved(UnsavedText),
    Unknown(UnknownText),
}

async fn query_and_compare_with_disk(
    context: &Context,
    backend: &dyn UnsavedTextBackend,
    at: WorkspacePath,
) -> ClientText {
    if at.path().to_str().is_none() {
        // The path is not UTF-8, so a message to the client cannot contain it. No client can have
        // opened the file.
        return ClientText::SameAsDisk;
    }
    let place = at.clone();
    // If the path has an error, the tool itself reports it.
    let asked =
        context.run_blocking(move |workspace| DiskFile::read_if_text(workspace, &place)).await;
    let Ok(Some(DiskFile { real_path: real, content: disk })) = asked else {
        return ClientText::SameAsDisk;
    };
    let shown = context.workspace.display(at.path());
    let disk = match disk {
        DiskContent::Missing => None,
        DiskContent::Text(text) => Some(text),
        DiskContent::TooLarge => {
            let why = Note::new("unknown-too-large");
            return ClientText::Unknown(UnknownText {
                real_path: real,
                shown,
                reason: why,
                is_garbled: false,
            });
        }
    };
    match backend.read(at.path()).await {
        Ok(text) => match compare_with_disk(&text, disk.as_ref()) {
            TextComparison::Same => ClientText::SameAsDisk,
            TextComparison::Different => {
                let end = disk.as_ref().map_or("", |disk| lost_line_end(&text, disk.as_str()));
                ClientText::Unsaved(UnsavedText {
                    real_path: real,
                    shown,
                    text,
                    lost_line_end: end,
                    is_on_disk: disk.is_some(),
                })
            }
            TextComparison::Garbled => {
                let why = Note::new("unknown-garbled");
                ClientText::Unknown(UnknownText {
                    real_path: real,
                    shown,
                    reason: why,
                    is_garbled: true,
                })
            }
        },
        // The file exists neither in the client nor on disk.
        Err(_) if disk.is_none() => ClientText::SameAsDisk,
        Err(error) => {
            let why = Note::from(error.to_string());
            ClientText::Unknown(UnknownText {
                real_path: real,
                shown,
                reason: why,
                is_garbled: false,
            })
        }
    }
}

/// The path and the content of a file about which the client is queried.
struct DiskFile {
    real_path: PathBuf,
    content: DiskContent,
}

/// The content of a file on disk.
enum DiskContent {
    Missing,
    Text(DecodedText),
    TooLarge,
}

impl DiskFile {
    /// Reads a file from disk. Returns `None` if the file is not text. Editors do not open such
    /// files, and the tools reject them.
    fn read_if_text(workspace: &Workspace, at: &WorkspacePath) -> Result<Option<Self>, ToolError> {
        let real = workspace.canonicalize(at)?.path().to_owned();
        let disk = match read_whole(workspace, at, MAX_CLIENT_TEXT_BYTES) {
            Err(error) if error.code() == Some(ErrorCode::TooLarge) => Some(DiskContent::TooLarge),
            Err(error) => return Err(error),
            Ok(PreImage::Missing) => Some(DiskContent::Missing),
            Ok(PreImage::Bytes(bytes)) => {
                DecodedText::decode(at.given(), bytes).ok().map(DiskContent::Text)
            }
        };
        Ok(disk.map(|disk| Self { real_path: real, content: disk }))
    }
}

/// A new text for a file that has unsaved changes in the client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnsavedTextChange<'a> {
    pub(crate) at: &'a WorkspacePath,
    /// The canonical path of the file at the time of the preview.
    pub(crate) real_path: &'a Path,
    pub(crate) expected_text: &'a str,
    /// The final line ending of the file, which `expected_text` lacks because the client dropped
    /// it. If the old text must be restored, this line ending is added.
    pub(crate) lost_line_end: &'static str,
    pub(crate) new_text: &'a str,
}

/// Changes texts through the client: all of them or none.
///
/// # Errors
///
/// `changed_since_preview` if the client's text has changed since the preview; `io` if the client
/// did not return or accept a text; `cancelled` if the call was cancelled between two texts. After
/// each error, the texts that were already changed are restored.
pub(crate) async fn rewrite_in_client(
    context: &Context,
    texts: &[UnsavedTextChange<'_>],
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let Some(backend) = context.text.as_deref().filter(|_| !texts.is_empty()) else {
        return Ok(());
    };
    for text in texts {
        text.require_unchanged(context, backend).await?;
    }
    for (place, UnsavedTextChange { at, new_text: text, .. }) in texts.iter().enumerate() {
        if cancel.is_cancelled() {
            let left = restore_in_client(context, &texts[..place]).await;
            let message = format!("cancelled before all texts were changed in the editor{left}");
            return Err(ToolError::recoverable(ErrorCode::Cancelled, message));
        }
        if let Err(error) = backend.write(at.path(), text).await {
            let left = restore_in_client(context, &texts[..place]).await;
            let message = format!(
                "the editor did not take the change of {}: {error}. Read the file again to see \
                 what it holds{left}",
                at.given()
            );
            return Err(ToolError::recoverable(ErrorCode::Io, message));
        }
    }
    Ok(())
}

/// Records the texts that were sent to the client, so that `undo` can revert them. Must only be
/// called when the call can no longer fail.
pub(crate) async fn record_rewrites(context: &Context, texts: &[UnsavedTextChange<'_>]) {
    for text in texts {
        text.record_for_undo(context).await;
    }
}

/// Restores changed texts in the client, in reverse order. Returns a message that names the texts
/// that the client did not accept.
pub(crate) async fn restore_in_client(
    context: &Context,
    texts: &[UnsavedTextChange<'_>],
) -> String {
    let Some(backend) = &context.text else { return String::new() };
    let mut left = String::new();
    for UnsavedTextChange { at, expected_text: found, lost_line_end: end, .. } in texts.iter().rev()
    {
        if backend.write(at.path(), &format!("{found}{end}")).await.is_err() {
            left.push_str(&format!(". {} could not be put back in the editor", at.given()));
        }
    }
    left
}

impl UnsavedTextChange<'_> {
    /// Checks that the path still leads to the file of the preview, and that the client's text of
    /// this file has not changed.
    async fn require_unchanged(
        &self,
        context: &Context,
        backend: &dyn UnsavedTextBackend,
    ) -> Result<(), ToolError> {
        let changed = |why: &str| {
            let message = format!("{} {why}. Read it again", self.at.given());
            ToolError::recoverable(ErrorCode::ChangedSincePreview, message)
        };
        let at = self.at.clone();
        let real = context.run_blocking(move |workspace| workspace.canonicalize(&at)).await?;
        if real.path() != self.real_path {
            return Err(changed("now points to another file than in the preview"));
        }
        match backend.read(self.at.path()).await {
            Ok(text) if text == self.expected_text => Ok(()),
            Ok(_) => Err(changed("was changed in the editor since the change was previewed")),
            Err(error) => {
                let given = self.at.given();
                let message = format!("the editor did not return its text of {given}: {error}");
                Err(ToolError::recoverable(ErrorCode::Io, message))
            }
        }
    }

    /// Records the current content of the file. The client may have saved the text in another
    /// format. If the client saved exactly the new text, `undo` can revert the change like any
    /// other change.
    async fn record_for_undo(&self, context: &Context) {
        let path = self.real_path.to_owned();
        let (found, text) =
            (format!("{}{}", self.expected_text, self.lost_line_end), self.new_text.to_owned());
        let note = move |workspace: &Workspace| {
            // The client may have replaced the file when it saved the text.
            let disk = read_whole(
                workspace,
                &workspace.follow_links_of_host_path(&path)?,
                MAX_CLIENT_TEXT_BYTES,
            )?;
            let is_saved = |bytes: &[u8]| {
                let disk = DecodedText::decode("", bytes.to_vec());
                disk.is_ok_and(|disk| compare_with_disk(&text, Some(&disk)) == TextComparison::Same)
            };
            let saved = disk.bytes().filter(|bytes| is_saved(bytes));
            let after = ContentHash::of_bytes(saved.unwrap_or(text.as_bytes()));
            workspace.known_hashes().record(&path, after);
            if saved == Some(text.as_bytes())
                && let Ok(Some(before)) = workspace.undo_store().write_backup(found.as_bytes())
            {
                let replaced = FileOperation::Replaced {
                    path,
                    backup: before,
                    hash_after: after,
                    modes: None,
                };
                workspace.undo_store().push(UndoEntry::new(vec![replaced]));
            }
            Ok(())
        };
        // If the file cannot be read, nothing is recorded, and the next call reports the reason.
        drop(context.run_blocking(note).await);
    }
}

#[cfg(test)]
mod tests;
