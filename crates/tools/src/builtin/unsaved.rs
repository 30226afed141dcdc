//! The texts of files that the client holds, where they differ from the disk.
//!
//! A call works on the disk, unless the client holds another text of the file: then it reads that
//! one, and changes it by the client. What differs is told, to the model and in the request for
//! permission; nothing that is not saved is overwritten without that. The client is asked only
//! about files that the disk would be asked about, after the same check of the path.

mod same;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use futures::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use crate::error::{Code, ToolError};
use crate::files::encoding::Text;
use crate::files::stamp::Stamp;
use crate::files::state::steps::{Deed, Step};
use crate::files::workspace::{Resolved, Workspace};
use crate::files::write::{PreImage, read_whole};
use crate::limits::{CLIENT_TEXT_BYTES, CLIENT_TEXTS_AT_ONCE};
use crate::note::Note;
use crate::tool::Context;
use crate::tool::backend::TextBackend;

use self::same::{Compared, compare, lost_end};

/// What the client holds of the files of one call, where that is not what the disk holds.
#[derive(Debug, Default)]
pub(crate) struct Held {
    texts: Vec<HeldText>,
    unknown: Vec<Doubt>,
}

/// A file that it could not be asked about.
#[derive(Debug)]
struct Doubt {
    /// The real place.
    real: PathBuf,
    shown: String,
    /// As the end of a sentence.
    why: Note,
    /// Whether it holds another text, with holes: neither that text nor the disk's may be written.
    is_garbled: bool,
}

#[derive(Debug)]
struct HeldText {
    /// The real place.
    real: PathBuf,
    shown: String,
    text: String,
    /// The last line end, which the client lost when it read the file.
    end: &'static str,
    /// Whether there is a file on the disk.
    is_on_disk: bool,
}

impl Held {
    /// Asks the client about a file that a call reads.
    pub(crate) async fn to_read(context: &Context, at: &Resolved) -> Self {
        Self::of(context, vec![at.clone()]).await
    }

    async fn of(context: &Context, places: Vec<Resolved>) -> Self {
        let mut held = Self::default();
        let Some(backend) = &context.text else { return held };
        let asked: Vec<_> = places.into_iter().map(|at| ask(context, &**backend, at)).collect();
        let mut answers = stream::iter(asked).buffered(CLIENT_TEXTS_AT_ONCE);
        while let Some(answer) = answers.next().await {
            match answer {
                Answer::AsOnDisk => {}
                Answer::Held(text) => held.texts.push(text),
                Answer::Unknown(doubt) => held.unknown.push(doubt),
            }
        }
        held
    }

    /// Asks the client about the files of a call that would change them.
    ///
    /// # Errors
    ///
    /// `unsaved_changes` if it holds a text that it takes no other for, or one that is not whole.
    pub(crate) async fn to_change(context: &Context, given: &[String]) -> Result<Self, ToolError> {
        if context.text.is_none() {
            return Ok(Self::default());
        }
        let given = given.to_vec();
        let looked = context.on_files(move |workspace| {
            // Each file once, whatever its names. What is wrong with a path, the tool itself says.
            let mut known = BTreeSet::new();
            let places = given.iter().filter_map(|given| workspace.look(given).ok());
            let is_new = |at: &Resolved| {
                workspace.settle(at).is_ok_and(|real| known.insert(real.path().to_owned()))
            };
            Ok(places.filter(is_new).collect())
        });
        let held = Self::of(context, looked.await?).await;
        if let Some(Doubt { shown, .. }) = held.unknown.iter().find(|doubt| doubt.is_garbled) {
            let message = format!(
                "{shown} has changes in the editor that are not saved, and characters are missing \
                 there that the editor could not decode: written back, they would be lost. Ask the \
                 user to save the file in its encoding or to give the changes up, then read the \
                 file again"
            );
            return Err(ToolError::report(Code::UnsavedChanges, message));
        }
        let writes = context.text.as_ref().is_some_and(|backend| backend.writes());
        match held.texts.first().filter(|_| !writes) {
            None => Ok(held),
            Some(HeldText { shown, .. }) => {
                let message = format!(
                    "{shown} has changes in the editor that are not saved, and they cannot be \
                     changed from here. Ask the user to save them or to give them up, then read \
                     the file again"
                );
                Err(ToolError::report(Code::UnsavedChanges, message))
            }
        }
    }

    /// Returns the text that the client holds of a file, by its real place, if it is another one
    /// than the disk's.
    pub(crate) fn text(&self, real: &Path) -> Option<&str> {
        self.texts.iter().find(|held| held.real == real).map(|held| held.text.as_str())
    }

    /// Returns the line end that this text lacks only because the client lost it.
    pub(crate) fn lost_end(&self, real: &Path) -> &'static str {
        self.texts.iter().find(|held| held.real == real).map_or("", |held| held.end)
    }

    /// Returns that text, where the client was asked about one file only.
    pub(crate) fn only_text(&self) -> Option<&str> {
        self.texts.first().map(|held| held.text.as_str())
    }

    /// Whether the client held just what the disk holds of a file, by its real place. Of what it
    /// could not tell, whoever permits the change has heard.
    pub(crate) fn is_as_on_disk(&self, real: &Path) -> bool {
        self.text(real).is_none() && self.unknown.iter().all(|doubt| doubt.real != real)
    }

    /// Returns what whoever permits a change is to know, and the model too, one sentence each.
    pub(crate) fn notes_of_change(&self) -> Vec<Note> {
        let held = self.texts.iter().map(|HeldText { shown, is_on_disk, .. }| {
            let key = if *is_on_disk { "unsaved" } else { "not-on-disk" };
            Note::new(key).with("path", shown)
        });
        held.chain(self.doubts()).collect()
    }

    /// Returns what the model is to know of what it reads, one sentence each.
    pub(crate) fn notes_of_read(&self) -> Vec<String> {
        let held = self.texts.iter().map(|HeldText { is_on_disk, .. }| match is_on_disk {
            true => {
                "these are the lines in the user's editor, not all of which are saved: the \
                     file on the disk differs"
            }
            false => "these are the lines in the user's editor: the file is not on the disk yet",
        });
        let doubts = self.doubts().map(|note| note.to_string());
        held.map(str::to_owned).chain(doubts).collect()
    }

    fn doubts(&self) -> impl Iterator<Item = Note> {
        let doubt = |Doubt { shown, why, .. }: &Doubt| {
            Note::new("unknown").with("path", shown).with_notes("why", [why.clone()], "")
        };
        self.unknown.iter().map(doubt)
    }
}

/// Checks that the client still holds what the disk holds of files, just before they are written
/// there: somebody may have typed while the change was looked at.
///
/// # Errors
///
/// `changed_since_preview` if it holds another text of one by now, or does not say; `cancelled`.
pub(crate) async fn require_as_on_disk(
    context: &Context,
    files: Vec<Resolved>,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let asked = cancel.run_until_cancelled(Held::of(context, files)).await;
    let held = asked.ok_or_else(|| {
        ToolError::report(Code::Cancelled, "cancelled before the editor said what it holds")
    })?;
    let texts = held.texts.iter().map(|held| &held.shown);
    match texts.chain(held.unknown.iter().map(|doubt| &doubt.shown)).next() {
        None => Ok(()),
        Some(shown) => {
            let message = format!(
                "{shown} was changed in the editor since the change was previewed, and that is not \
                 saved. Read it again"
            );
            Err(ToolError::report(Code::ChangedSincePreview, message))
        }
    }
}

/// What the client says of one file.
enum Answer {
    AsOnDisk,
    Held(HeldText),
    Unknown(Doubt),
}

async fn ask(context: &Context, backend: &dyn TextBackend, at: Resolved) -> Answer {
    if at.path().to_str().is_none() {
        // No request can name it, so no client holds it.
        return Answer::AsOnDisk;
    }
    let place = at.clone();
    // What is wrong with it, the tool itself says.
    let asked = context.on_files(move |workspace| Asked::of(workspace, &place)).await;
    let Ok(Some(Asked { real, disk })) = asked else { return Answer::AsOnDisk };
    let shown = context.workspace.display(at.path());
    let disk = match disk {
        Disk::Missing => None,
        Disk::Text(text) => Some(text),
        Disk::TooLarge => {
            let why = Note::new("unknown-too-large");
            return Answer::Unknown(Doubt { real, shown, why, is_garbled: false });
        }
    };
    match backend.read(at.path()).await {
        Ok(text) => match compare(&text, disk.as_ref()) {
            Compared::Same => Answer::AsOnDisk,
            Compared::Other => {
                let end = disk.as_ref().map_or("", |disk| lost_end(&text, disk.as_str()));
                Answer::Held(HeldText { real, shown, text, end, is_on_disk: disk.is_some() })
            }
            Compared::Garbled => {
                let why = Note::new("unknown-garbled");
                Answer::Unknown(Doubt { real, shown, why, is_garbled: true })
            }
        },
        // It does not know the file either.
        Err(_) if disk.is_none() => Answer::AsOnDisk,
        Err(error) => {
            let why = Note::from(error.to_string());
            Answer::Unknown(Doubt { real, shown, why, is_garbled: false })
        }
    }
}

/// A file that the client may be asked about.
struct Asked {
    real: PathBuf,
    disk: Disk,
}

/// What the disk holds of it.
enum Disk {
    Missing,
    Text(Text),
    TooLarge,
}

impl Asked {
    /// None for what is no text: editors hold none of it, and the tools refuse it.
    fn of(workspace: &Workspace, at: &Resolved) -> Result<Option<Self>, ToolError> {
        let real = workspace.settle(at)?.path().to_owned();
        let disk = match read_whole(workspace, at, CLIENT_TEXT_BYTES) {
            Err(error) if error.code() == Some(Code::TooLarge) => Some(Disk::TooLarge),
            Err(error) => return Err(error),
            Ok(PreImage::Missing) => Some(Disk::Missing),
            Ok(PreImage::Bytes(bytes)) => Text::decode(at.given(), bytes).ok().map(Disk::Text),
        };
        Ok(disk.map(|disk| Self { real, disk }))
    }
}

/// A text of the client's, as a preview found it and as it shall be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rewrite<'a> {
    pub(crate) at: &'a Resolved,
    /// The real place, as the preview found it.
    pub(crate) real: &'a Path,
    pub(crate) found: &'a str,
    /// The last line end that `found` lacks because the client lost it: it is put back with it.
    pub(crate) end: &'static str,
    pub(crate) text: &'a str,
}

/// Changes texts by the client, all or none.
///
/// # Errors
///
/// `changed_since_preview` if the client holds another text by now; `io` if it did not take one, and
/// `cancelled` if that came between two, with those before put back.
pub(crate) async fn rewrite(
    context: &Context,
    texts: &[Rewrite<'_>],
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let Some(backend) = context.text.as_deref().filter(|_| !texts.is_empty()) else {
        return Ok(());
    };
    for text in texts {
        text.check(context, backend).await?;
    }
    for (place, Rewrite { at, text, .. }) in texts.iter().enumerate() {
        if cancel.is_cancelled() {
            let left = put_back(context, &texts[..place]).await;
            let message = format!("cancelled before all texts were changed in the editor{left}");
            return Err(ToolError::report(Code::Cancelled, message));
        }
        if let Err(error) = backend.write(at.path(), text).await {
            let left = put_back(context, &texts[..place]).await;
            let message = format!(
                "the editor did not take the change of {}: {error}. Read the file again to see \
                 what it holds{left}",
                at.given()
            );
            return Err(ToolError::report(Code::Io, message));
        }
    }
    Ok(())
}

/// Remembers texts that the client was told, once nothing of the call can fail any more.
pub(crate) async fn remember(context: &Context, texts: &[Rewrite<'_>]) {
    for text in texts {
        text.note(context).await;
    }
}

/// Tells the client the texts again that were changed, the last first; returns what to say about
/// those that it did not take.
pub(crate) async fn put_back(context: &Context, texts: &[Rewrite<'_>]) -> String {
    let Some(backend) = &context.text else { return String::new() };
    let mut left = String::new();
    for Rewrite { at, found, end, .. } in texts.iter().rev() {
        if backend.write(at.path(), &format!("{found}{end}")).await.is_err() {
            left.push_str(&format!(". {} could not be put back in the editor", at.given()));
        }
    }
    left
}

impl Rewrite<'_> {
    /// Checks that the path still leads to the file that was shown, and that its text is that one.
    async fn check(&self, context: &Context, backend: &dyn TextBackend) -> Result<(), ToolError> {
        let changed = |why: &str| {
            let message = format!("{} {why}. Read it again", self.at.given());
            ToolError::report(Code::ChangedSincePreview, message)
        };
        let at = self.at.clone();
        let real = context.on_files(move |workspace| workspace.settle(&at)).await?;
        if real.path() != self.real {
            return Err(changed("leads to another file than when the change was previewed"));
        }
        match backend.read(self.at.path()).await {
            Ok(text) if text == self.found => Ok(()),
            Ok(_) => Err(changed("was changed in the editor since the change was previewed")),
            Err(error) => {
                let given = self.at.given();
                let message = format!("the editor does not say what it holds of {given}: {error}");
                Err(ToolError::report(Code::Io, message))
            }
        }
    }

    /// Remembers what the file holds now: the client may have saved it, in its own way. Where it is
    /// saved as it was told, the change can be undone like any other.
    async fn note(&self, context: &Context) {
        let path = self.real.to_owned();
        let (found, text) = (format!("{}{}", self.found, self.end), self.text.to_owned());
        let note = move |workspace: &Workspace| {
            // The client may have put another file in its place.
            let disk = read_whole(workspace, &workspace.recall(&path)?, CLIENT_TEXT_BYTES)?;
            let is_saved = |bytes: &[u8]| {
                let disk = Text::decode("", bytes.to_vec());
                disk.is_ok_and(|disk| compare(&text, Some(&disk)) == Compared::Same)
            };
            let saved = disk.bytes().filter(|bytes| is_saved(bytes));
            let after = Stamp::of(saved.unwrap_or(text.as_bytes()));
            workspace.stamps().note(&path, after);
            if saved == Some(text.as_bytes())
                && let Ok(Some(before)) = workspace.undo().put(found.as_bytes())
            {
                workspace.undo().push(Step { deeds: vec![Deed::Replaced { path, before, after }] });
            }
            Ok(())
        };
        // What cannot be read is not known, and the next call says why.
        drop(context.on_files(note).await);
    }
}

#[cfg(test)]
mod tests;
