//! The request of a client to go back to a prompt, and its response.

use std::path::Path;

use acp_types::FileChangeOperation;
use agent_client_protocol::v1::schema::SessionId;
use agent_client_protocol::{JsonRpcRequest, JsonRpcResponse};
use callboard_text::path_text;
use serde::{Deserialize, Serialize};

use super::{SessionRewindPlan, change_paths};

/// The method of [`RewindSessionRequest`].
pub(crate) const REWIND_METHOD: &str = "_callboard/rewind";

/// A request to go back to the state before a prompt of an open session. The request waits for a
/// running turn. The client asks its user before it sends the request, so the agent does not ask
/// again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonRpcRequest)]
#[request(method = "_callboard/rewind", response = RewindSessionResponse)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RewindSessionRequest {
    pub(crate) session_id: SessionId,
    /// The first prompt that is removed, counted from 1.
    pub(crate) prompt: u32,
    /// Whether the request only asks which changes the rewind would make.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// The response to [`RewindSessionRequest`].
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonRpcResponse)]
pub(crate) struct RewindSessionResponse {
    /// The files that are restored.
    files: Vec<RewoundFile>,
    /// The files that calls changed and that the rewind does not restore.
    kept: Vec<KeptFileWithReason>,
    /// Titles of commands whose changes are not recorded, and are therefore not undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unrecorded: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct RewoundFile {
    path: String,
    status: RewoundFileChangeKind,
    /// The previous path, if the file is moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The change as a unified diff. Missing if there are no changed lines of text, or if the rules
    /// do not permit the client to read the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RewoundFileChangeKind {
    Added,
    Modified,
    Deleted,
    Moved,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct KeptFileWithReason {
    path: String,
    /// The previous path, if the file is moved, alone or with its folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    why: String,
}

impl RewindSessionResponse {
    /// Creates the response. `permits_reading` returns whether the client may see the text of a
    /// file.
    pub(super) fn new(plan: &SessionRewindPlan, permits_reading: impl Fn(&Path) -> bool) -> Self {
        let files = plan.changes().iter().map(|change| {
            let (status, from) = match &change.operation {
                FileChangeOperation::Add => (RewoundFileChangeKind::Added, None),
                FileChangeOperation::Delete => (RewoundFileChangeKind::Deleted, None),
                FileChangeOperation::Move { from } => (RewoundFileChangeKind::Moved, Some(from)),
                _ => (RewoundFileChangeKind::Modified, None),
            };
            let is_shown = !change.hunks.is_empty() && change_paths(change).all(&permits_reading);
            RewoundFile {
                path: path_text(&change.path).into_owned(),
                status,
                from: from.map(|from| path_text(from).into_owned()),
                diff: is_shown.then(|| change.git_patch()),
            }
        });
        let kept = plan.kept().iter().map(|kept| KeptFileWithReason {
            path: path_text(&kept.path).into_owned(),
            from: kept.from.as_deref().map(|from| path_text(from).into_owned()),
            why: kept.reason.to_string(),
        });
        let unrecorded = plan.unrecorded.clone();
        Self { files: files.collect(), kept: kept.collect(), unrecorded }
    }
}
