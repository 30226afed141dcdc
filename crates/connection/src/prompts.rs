//! The unanswered prompts of a session, and their turns.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fmt, io};

use acp_lifecycle::{CancellationToken, SessionHandle};
use acp_types::{CallEndReason, TurnId};
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptResponse, StopReason};
use agent_client_protocol::{RequestCancellation, Result};
use callboard_text::normalise;
use tokio::sync::Notify;

use crate::errors;
use crate::lock::lock;
use crate::pending_responses::{PendingResponseId, PendingResponses, ResponseSlot};

/// The turn of a prompt, passed to the agent's loop.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Turn {
    /// The id of the turn. Calls of the turn are announced with this id. The id is unique in the
    /// session.
    pub id: TurnId,
    /// Cancelled when the turn should end: the client cancelled the turn, the session closes, or
    /// the prompt is answered.
    pub cancel: CancellationToken,
    /// The folder of the session, i.e. the base folder of relative paths.
    pub cwd: PathBuf,
    /// The handle with which the turn sends messages and announces calls.
    pub session: SessionHandle,
}

impl Turn {
    /// Resolves a path that the model chose, relative to the session's folder. The result begins
    /// with this folder as the client named it. The rest of the result contains no symbolic links.
    /// The file need not exist. The function reads folders, so it may block.
    ///
    /// Use this function for [`ToolMiddleware::with_path_arguments`]. The effects, the preview, the
    /// permission request and the tool then name the same file. A program that replaces a folder by
    /// a link later can still redirect the tool; `acp-tools` opens files in a way that prevents
    /// this.
    ///
    /// [`ToolMiddleware::with_path_arguments`]: acp_lifecycle::ToolMiddleware::with_path_arguments
    ///
    /// # Errors
    ///
    /// Returns a sentence for the model if the path leads outside of the folder, or cannot be
    /// resolved.
    pub fn resolve_path_within_cwd(&self, path: &str) -> std::result::Result<PathBuf, String> {
        match resolve_within_folder(&self.cwd, path) {
            Ok(Some(path)) => Ok(path),
            Ok(None) => Err(format!("The path {path} is outside of the folder of the session.")),
            Err(error) => Err(format!("The path {path} cannot be resolved: {error}.")),
        }
    }
}

/// Returns the path of a file in a folder. The part of the path after the folder contains no
/// symbolic links. Returns `None` if the path leads outside of the folder.
fn resolve_within_folder(folder: &Path, path: &str) -> io::Result<Option<PathBuf>> {
    let named = normalise(&folder.join(path));
    let exists = |path: &&Path| path.symlink_metadata().is_ok();
    let existing = named.ancestors().find(exists).unwrap_or(folder);
    // Fails for a link whose target does not exist: a tool that writes to the link would create the
    // target.
    let mut real = existing.canonicalize()?;
    real.extend(named.strip_prefix(existing).into_iter().flat_map(Path::components));
    let beneath = real.strip_prefix(folder.canonicalize()?).ok();
    Ok(beneath.map(|beneath| normalise(&folder.join(beneath))))
}

/// An unanswered prompt. The prompt's response is sent after all items that the prompt's turn sent.
///
/// If an open prompt is dropped without a response, e.g. by a panic, its turn ends with
/// [`CallEndReason::Dropped`] and the response is `cancelled`. The response is `cancelled` too if
/// the session is closed before the prompt is answered.
#[must_use = "dropping it answers the prompt"]
pub struct OpenPrompt {
    turn: Turn,
    request_cancellation: RequestCancellation,
    slot: ResponseSlot<PromptResponse>,
    ending: TurnEndOnDrop,
    turns: Arc<OpenTurns>,
}

/// How the turn of an open prompt ends when the prompt is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnEndOnDrop {
    /// The turn ends, and its calls end with this reason.
    Ended(CallEndReason),
    /// The turn has not started and does not start.
    Withdrawn,
}

impl OpenPrompt {
    pub(crate) fn new(
        session: SessionHandle,
        answers: &PendingResponses,
        turns: Arc<OpenTurns>,
        responder: Responder<PromptResponse>,
    ) -> Self {
        let (id, cancel) = turns.begin();
        let cwd = session.update(|session, _| session.cwd().to_owned());
        let turn = Turn { id, cancel, cwd, session };
        let request_cancellation = responder.cancellation();
        let id = PendingResponseId::Turn(turn.id.clone());
        let slot = answers.register(id, responder, Ok(cancelled_response()));
        let ending = TurnEndOnDrop::Ended(CallEndReason::Dropped);
        Self { turn, request_cancellation, slot, ending, turns }
    }

    /// Returns the turn.
    #[must_use]
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Returns a signal that fires when the client sends `$/cancel_request` for the prompt. The
    /// signal does not cancel the turn. The agent decides how to answer, e.g. with an error if the
    /// turn has not started.
    ///
    /// See <https://agentclientprotocol.com/protocol/cancellation>.
    #[must_use]
    pub fn request_cancelled_signal(&self) -> &RequestCancellation {
        &self.request_cancellation
    }

    /// Ends the turn's open calls with this reason, and responds.
    pub fn end_turn_and_respond(mut self, answer: Result<PromptResponse>, reason: CallEndReason) {
        *lock(&self.slot) = Some(answer);
        self.ending = TurnEndOnDrop::Ended(reason);
    }

    /// Responds to a prompt whose turn has not started: the client has withdrawn it with
    /// `$/cancel_request`. The response is the error with which ACP answers such requests.
    pub fn withdraw_and_respond(mut self) {
        *lock(&self.slot) = Some(Err(errors::request_cancelled_error()));
        self.ending = TurnEndOnDrop::Withdrawn;
    }
}

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        lock(&self.slot).get_or_insert_with(|| Ok(cancelled_response()));
        // Free the place before the response is sent: a client may send its next prompt as soon as
        // it reads the response.
        self.turns.free_place_for_next_prompt();
        match self.ending {
            TurnEndOnDrop::Ended(reason) => self.turn.session.end_turn(&self.turn.id, reason),
            TurnEndOnDrop::Withdrawn => self.turn.session.end_unstarted_turn(&self.turn.id),
        }
        // Cancel the turn, because no part of the turn may run after the response.
        self.turn.cancel.cancel();
        self.turns.end(&self.turn.id);
    }
}

impl fmt::Debug for OpenPrompt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenPrompt").field("turn", &self.turn).finish_non_exhaustive()
    }
}

pub(crate) fn cancelled_response() -> PromptResponse {
    PromptResponse::new(StopReason::Cancelled)
}

/// The turns of a session that are not ended, i.e. whose prompts are not answered yet.
#[derive(Default)]
pub(crate) struct OpenTurns {
    turns: Mutex<OpenTurnsState>,
    /// Notified whenever a turn ends.
    ended: Notify,
}

#[derive(Default)]
struct OpenTurnsState {
    cancel_tokens: HashMap<TurnId, CancellationToken>,
    /// Number of open turns that are about to end. The response of such a turn may already be sent.
    responding: usize,
    /// Number of prompts so far. The number is used as the id of the next turn.
    turn_count: u64,
    /// Whether the session is closed. New turns are then cancelled before they begin.
    is_closed: bool,
}

impl OpenTurns {
    /// Creates the table of turns for a session that had `turn_count` turns before.
    pub(crate) fn with_earlier_turn_count(turn_count: u64) -> Self {
        let turns = OpenTurnsState { turn_count, ..OpenTurnsState::default() };
        Self { turns: Mutex::new(turns), ended: Notify::new() }
    }

    fn begin(&self) -> (TurnId, CancellationToken) {
        let mut turns = lock(&self.turns);
        turns.turn_count += 1;
        let id = TurnId::from(format!("t{}", turns.turn_count));
        let cancel = CancellationToken::new();
        if turns.is_closed {
            cancel.cancel();
        }
        turns.cancel_tokens.insert(id.clone(), cancel.clone());
        (id, cancel)
    }

    /// Frees the place of a turn for another prompt, before the response of the turn can be sent.
    /// [`end`](Self::end) must be called afterwards.
    fn free_place_for_next_prompt(&self) {
        lock(&self.turns).responding += 1;
    }

    fn end(&self, turn: &TurnId) {
        let mut turns = lock(&self.turns);
        turns.cancel_tokens.remove(turn);
        turns.responding -= 1;
        drop(turns);
        self.ended.notify_waiters();
    }

    /// Returns the number of unanswered prompts. Prompts whose turn is about to end do not count.
    pub(crate) fn unanswered_count(&self) -> usize {
        let turns = lock(&self.turns);
        turns.cancel_tokens.len() - turns.responding
    }

    /// Returns the ids of the turns.
    pub(crate) fn ids(&self) -> Vec<TurnId> {
        lock(&self.turns).cancel_tokens.keys().cloned().collect()
    }

    pub(crate) fn cancel_all(&self) {
        lock(&self.turns).cancel_tokens.values().for_each(CancellationToken::cancel);
    }

    /// Cancels every turn, including turns that begin later.
    pub(crate) fn close_and_cancel_all(&self) {
        lock(&self.turns).is_closed = true;
        self.cancel_all();
    }

    /// Waits until every prompt is answered.
    pub(crate) async fn wait_until_all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if lock(&self.turns).cancel_tokens.is_empty() {
                return;
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn paths_lead_into_the_folder_or_are_refused() {
        use std::os::unix::fs::symlink;
        let outer = tempfile::tempdir().unwrap();
        let outer = outer.path().canonicalize().unwrap();
        let folder = outer.join("project");
        std::fs::create_dir_all(folder.join("src")).unwrap();
        std::fs::write(folder.join("src/a"), "").unwrap();
        for (target, link) in
            [("src", "inner"), ("..", "up"), ("../new", "to-new"), ("src/new", "to-inner")]
        {
            symlink(target, folder.join(link)).unwrap();
        }
        for (path, expected) in [
            ("src/a", Some("src/a")),
            ("./src/../src/a", Some("src/a")),
            ("inner/a", Some("src/a")),
            ("new/deep/file", Some("new/deep/file")),
            ("inner/new", Some("src/new")),
            ("", Some("")),
            ("../project/src/a", Some("src/a")),
            ("../new", None),
            ("/etc/passwd", None),
            ("up/new", None),
            ("to-new", None),
            ("to-inner", None),
        ] {
            let resolved = resolve_within_folder(&folder, path).ok().flatten();
            assert_eq!(resolved, expected.map(|it| folder.join(it)), "{path}");
        }
        symlink("project", outer.join("link")).unwrap();
        let resolved = resolve_within_folder(&outer.join("link"), "inner/a").unwrap();
        assert_eq!(resolved, Some(outer.join("link/src/a")));
    }

    #[test]
    fn a_turn_that_begins_behind_the_close_is_cancelled() {
        let turns = OpenTurns::default();
        let (first, cancel) = turns.begin();
        assert!(!cancel.is_cancelled());
        turns.close_and_cancel_all();
        let (second, late) = turns.begin();
        assert!(cancel.is_cancelled() && late.is_cancelled());
        assert_ne!(first, second);
    }
}
