//! A file of an `edit_file` call, before and after its edits.

use acp_types::{FileChange, diff};
use callboard_text::group_thousands;

use crate::builtin::unsaved_files::{UnsavedTextChange, UnsavedTexts};
use crate::edit::{Edit, EditOutcome, MatchKind, Occurrence, apply_cancellable};
use crate::error::{ErrorCode, ToolError};
use crate::files::content_hash::ContentHash;
use crate::files::encoding::DecodedText;
use crate::files::walk::IsCancelled;
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::files::write::{FileWrite, PreImage, read_whole};
use crate::limits::{MAX_EDITED_BYTES_PER_CALL, MAX_FILES_PER_EDIT_CALL, MAX_WHOLE_FILE_BYTES};
use crate::note::Note;

/// A file before and after the edits.
#[derive(Debug)]
pub(super) struct EditedFile {
    pub(super) at: WorkspacePath,
    pub(super) real: WorkspacePath,
    pub(super) edits: Vec<Edit>,
    /// The old content. If the client dropped the final line ending when it read the file, that
    /// line ending is added here.
    pub(super) old: DecodedText,
    lost_line_end: &'static str,
    old_hash: ContentHash,
    /// Whether the client has unsaved changes of this file.
    is_unsaved: bool,
    /// Whether the file has changed since the session last read or wrote it.
    pub(super) is_stale: bool,
    /// The new content of the file in bytes. Until the edits are applied, this field and `change`
    /// are empty.
    pub(super) new: Vec<u8>,
    pub(super) change: Option<FileChange>,
    outcomes: Vec<EditOutcome>,
}

/// Adds a replacement to the edits of its file. Reads the file before its first replacement is
/// added.
pub(super) fn load_file_and_add_edit(
    files: &mut Vec<EditedFile>,
    (path, edit): (&str, Edit),
    workspace: &Workspace,
    held: &UnsavedTexts,
) -> Result<(), ToolError> {
    let at = workspace.resolve_and_follow_links(path)?;
    let real = workspace.canonicalize(&at)?;
    if let Some(file) = files.iter_mut().find(|file| file.real.path() == real.path()) {
        file.edits.push(edit);
        return Ok(());
    }
    if files.len() == MAX_FILES_PER_EDIT_CALL {
        let message =
            format!("more than {MAX_FILES_PER_EDIT_CALL} files in one call. Edit them in several");
        return Err(ToolError::recoverable(ErrorCode::TooLarge, message));
    }
    let text = held.unsaved_text(real.path());
    let found = match text {
        Some(text) => PreImage::Bytes(text.into()),
        None => read_whole(workspace, &at, MAX_WHOLE_FILE_BYTES)?,
    };
    let lost_end = held.final_line_end_if_lost(real.path());
    let mut bytes = match found {
        PreImage::Bytes(bytes) => bytes,
        PreImage::Missing => {
            // If the file is missing, `open_read` fails with an error that lists files with similar
            // names.
            drop(workspace.open_read(&at)?);
            Vec::new()
        }
    };
    let held: usize = files.iter().map(|file| file.old.original_bytes().len()).sum();
    if held + bytes.len() > MAX_EDITED_BYTES_PER_CALL {
        return Err(files_total_too_large_error());
    }
    let stamp = ContentHash::of_bytes(&bytes);
    let is_stale = workspace.known_hashes().is_stale(real.path(), stamp);
    bytes.extend_from_slice(lost_end.as_bytes());
    let old = DecodedText::decode(at.given(), bytes)?;
    let (is_held, new, change, done) = (text.is_some(), Vec::new(), None, Vec::new());
    files.push(EditedFile {
        at,
        real,
        edits: vec![edit],
        old,
        lost_line_end: lost_end,
        old_hash: stamp,
        is_unsaved: is_held,
        is_stale,
        new,
        change,
        outcomes: done,
    });
    Ok(())
}

impl EditedFile {
    pub(super) fn apply_edits(&mut self, cancel: &IsCancelled<'_>) -> Result<(), ToolError> {
        let given = self.at.given();
        if self.is_stale && self.depends_on_position(cancel) {
            let message = format!(
                "{given} has changed since it was read, so occurrence or line may now select \
                 another place. Read it again"
            );
            return Err(ToolError::recoverable(ErrorCode::ChangedSinceRead, message));
        }
        let edited =
            apply_cancellable(self.old.as_str(), &self.edits, cancel).map_err(|error| {
                let code = ToolError::from(error.clone()).code().unwrap_or(ErrorCode::NoMatch);
                ToolError::recoverable(code, format!("{given}: {error}"))
            })?;
        self.outcomes.clone_from(&edited.outcomes);
        if edited.text != self.old.as_str() {
            let (old, path) = (self.old.as_str(), self.at.path());
            self.change = Some(diff::change_from_edits(path, old, &edited.text, &edited.splices));
            self.new = edited.into_bytes(&self.old).map_err(|letter| {
                let encoding = self.old.non_utf8_encoding_name().unwrap_or_default();
                let message = format!("{given} is {encoding}, which does not have {letter:?}");
                ToolError::recoverable(ErrorCode::Unencodable, message)
            })?;
            if self.new.len() as u64 > MAX_WHOLE_FILE_BYTES {
                let message =
                    format!("{given} would exceed {MAX_WHOLE_FILE_BYTES} bytes after the edit");
                return Err(ToolError::recoverable(ErrorCode::TooLarge, message));
            }
        }
        Ok(())
    }

    /// Returns whether the edits need an occurrence number or a line number to select one of
    /// several matching places.
    fn depends_on_position(&self, cancel: &IsCancelled<'_>) -> bool {
        let is_near = |edit: &Edit| matches!(edit.occurrence, Occurrence::NearLine(_));
        let is_counted = |edit: &Edit| match edit.occurrence {
            Occurrence::Nth(_) => true,
            Occurrence::NearLine(_) => edit.old_text.is_empty(),
            Occurrence::Only | Occurrence::All => false,
        };
        if self.edits.iter().any(is_counted) {
            return true;
        }
        if !self.edits.iter().any(is_near) {
            return false;
        }
        let without = |edit: &Edit| match is_near(edit) {
            true => Edit { occurrence: Occurrence::Only, ..edit.clone() },
            false => edit.clone(),
        };
        let without: Vec<_> = self.edits.iter().map(without).collect();
        apply_cancellable(self.old.as_str(), &without, cancel)
            .is_err_and(|error| ToolError::from(error).code() == Some(ErrorCode::AmbiguousMatch))
    }

    /// Returns a fingerprint of the text that the change depends on. This text is the lines that
    /// the permission request shows, without their line numbers. The fingerprint covers the whole
    /// file if not all changed lines are shown, or if an edit has an occurrence number or a line
    /// number.
    pub(super) fn pre_image_fingerprint(&self) -> Vec<u8> {
        let Some(change) = &self.change else { return Vec::new() };
        let counts =
            |edit: &Edit| matches!(edit.occurrence, Occurrence::Nth(_) | Occurrence::NearLine(_));
        if change.unlisted != (0, 0) || self.edits.iter().any(counts) {
            return self.old_hash.as_bytes().to_vec();
        }
        let lines: Vec<_> = change.hunks.iter().map(|hunk| &hunk.lines).collect();
        let rests_on = format!("{:?}", (self.is_unsaved, self.old.non_utf8_encoding_name(), lines));
        ContentHash::of_bytes(rests_on.as_bytes()).as_bytes().to_vec()
    }

    /// Returns whether the tool writes the new content to disk. If the client has unsaved changes
    /// of the file, the new content is sent to the client instead.
    pub(super) fn is_written_to_disk(&self) -> bool {
        self.change.is_some() && !self.is_unsaved
    }

    /// Returns whether the edits replace text, but the result is the old text.
    fn is_replaced_by_same_text(&self) -> bool {
        let is_replaced = |done: &EditOutcome| matches!(done, EditOutcome::Replaced { .. });
        self.change.is_none() && self.outcomes.iter().any(is_replaced)
    }

    /// Returns a note for each edit whose new text was already in the file. Also returns a note if
    /// one edit reverts another, so that the file does not change.
    pub(super) fn no_effect_notes(&self, workspace: &Workspace) -> Vec<Note> {
        let path = workspace.display(self.at.path());
        let note = |(index, done): (usize, &EditOutcome)| {
            let EditOutcome::AlreadyApplied { line } = done else { return None };
            let note = match self.outcomes.len() {
                1 => Note::new("applied"),
                edits => Note::new("applied-of")
                    .with_text("edit", (index + 1).to_string())
                    .with_text("edits", edits.to_string()),
            };
            Some(note.with_text("path", &path).with_text("line", line.to_string()))
        };
        let unchanged = self
            .is_replaced_by_same_text()
            .then(|| Note::new("unchanged").with_text("path", &path));
        self.outcomes.iter().enumerate().filter_map(note).chain(unchanged).collect()
    }

    pub(super) fn file_write(&self) -> FileWrite<'_> {
        FileWrite::new(&self.at, Some(self.old.original_bytes()), &self.new)
    }

    /// Returns the new text to send to the client. Returns `None` if the client has no unsaved
    /// changes of the file.
    pub(super) fn unsaved_text_change(&self) -> Option<UnsavedTextChange<'_>> {
        self.change.as_ref().filter(|_| self.is_unsaved)?;
        let (old, end) = (self.old.as_str(), self.lost_line_end);
        let found = old.strip_suffix(end).unwrap_or(old);
        let text = str::from_utf8(&self.new).ok()?;
        Some(UnsavedTextChange {
            at: &self.at,
            real_path: self.real.path(),
            expected_text: found,
            lost_line_end: end,
            new_text: text,
        })
    }

    /// Returns the number of replaced places, and a text that describes the outcome of the edits.
    pub(super) fn describe_outcomes(&self, workspace: &Workspace) -> (usize, String) {
        let path = workspace.display(self.at.path());
        let (mut places, mut text) = (0, String::new());
        if self.is_replaced_by_same_text() {
            return (places, text);
        }
        for done in &self.outcomes {
            match done {
                EditOutcome::Replaced { places: more, match_kind: rung } => {
                    places += more;
                    if let Some(how) = inexact_match_note(*rung) {
                        text.push_str(&format!("In {path}, {how}.\n"));
                    }
                }
                // `no_effect_notes` reports these outcomes.
                EditOutcome::AlreadyApplied { .. } => {}
            }
        }
        if places > 0 {
            let noun = if places == 1 { "place" } else { "places" };
            text.insert_str(0, &format!("Replaced {places} {noun} in {path}.\n"));
        }
        if let Some(encoding) = self.old.non_utf8_encoding_name() {
            text.push_str(&format!("{path} is {encoding}; the encoding was kept.\n"));
        }
        (places, text)
    }
}

/// Describes how the old text was found. Returns `None` if it matches exactly.
fn inexact_match_note(rung: MatchKind) -> Option<&'static str> {
    match rung {
        MatchKind::Exact => None,
        MatchKind::TrailingWhitespace => {
            Some("the old text was found with different whitespace or line ends")
        }
        MatchKind::Indentation => {
            Some("the old text was found indented differently, and the new one was adjusted")
        }
        MatchKind::LookalikeCharacters => {
            Some("the old text was found with different quotes, dashes or spaces")
        }
        MatchKind::TabsOrSpaces => Some(
            "the old text was found with tabs for spaces or spaces for tabs, and the new one was \
             indented in the same way",
        ),
        MatchKind::LineNumbers => {
            Some("the line numbers of read_file were removed from both texts")
        }
    }
}

pub(super) fn files_total_too_large_error() -> ToolError {
    let bytes = group_thousands(MAX_EDITED_BYTES_PER_CALL as u64);
    let message =
        format!("the files of one call have more than {bytes} bytes. Edit them in several");
    ToolError::recoverable(ErrorCode::TooLarge, message)
}
