//! Runs the calls of one reply. Calls run in parallel, unless one of them must wait for another.

use std::path::PathBuf;

use acp_lifecycle::{CallEnd, CallOutcome, Footprint, OpenCall, Schedule};
use acp_tools::SideEffects;
use acp_types::{CallEndReason, Content, Image, Status, ToolCallPatch};
use callboard_models::{ContentPart, ModelToolCall, ToolResult};
use callboard_process::text::truncate_middle;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::reply::PendingCall;
use super::{Turn, context};
use crate::limits::{
    MAX_PARALLEL_CALLS, MAX_REPLY_IMAGE_BYTES, MAX_REPLY_RESULT_BYTES, MAX_RESULT_BYTES,
};

/// Runs the calls of one reply in the order of their [`Schedule`]. Returns their results in the
/// order of the calls. After a fatal fault of a call, no other call begins, and the fault is
/// returned too.
pub(super) async fn run_calls(
    turn: &Turn<'_>,
    calls: Vec<PendingCall>,
) -> (Vec<ToolResult>, Option<String>) {
    let footprints = call_footprints(turn, &calls).await;
    let keeps_files =
        |it: &Footprint| matches!(it, Footprint::Reads(_) | Footprint::SessionTool(_));
    let keeps_all_files = footprints.iter().all(keeps_files);
    let mut order = Schedule::new(&footprints);
    let mut results: Vec<_> =
        calls.iter().map(|pending| result_of_call_not_run(&pending.call)).collect();
    let mut waiting: Vec<_> = calls.into_iter().map(Some).collect();
    let (mut running, mut fault) = (FuturesUnordered::new(), None);
    loop {
        while fault.is_none()
            && running.len() < MAX_PARALLEL_CALLS
            && let Some(place) = order.take_next_ready()
            && let Some(pending) = waiting[place].take()
        {
            running.push(async move { (place, run_call(turn, pending).await) });
        }
        let Some((place, ended)) = running.next().await else { break };
        order.mark_ended(place);
        // A waiting call may change the files of the call that has ended.
        match keeps_all_files || waiting.iter().all(Option::is_none) {
            true => turn.workspace_context.record_noted_files_in_background(),
            false => context::record_noted_file_versions(turn).await,
        }
        results[place].is_error = ended.status != Status::Completed;
        if ended.is_fatal {
            fault = Some(ended.text.clone());
        }
        results[place].text = ended.text;
        results[place].parts = ended.images.into_iter().map(image_part).collect();
    }
    // Drop the calls that have not run. Dropping a call ends it.
    drop(waiting);
    truncate_results(&mut results);
    (results, fault)
}

/// Returns the files and other resources that each call may use. The disk is read only if there are
/// several calls and at least one of them changes files.
async fn call_footprints(turn: &Turn<'_>, calls: &[PendingCall]) -> Vec<Footprint> {
    let reach =
        |pending: &PendingCall| Some(turn.tools.registry().spec(&pending.call.name)?.side_effects);
    let changes = calls.iter().any(|pending| reach(pending) == Some(SideEffects::Changes));
    let files: Vec<Option<Vec<PathBuf>>> = match changes && calls.len() > 1 {
        false => vec![None; calls.len()],
        true => files_named_by_calls(turn, calls).await,
    };
    let touch = |(pending, files)| match reach(pending) {
        // A call of an unknown tool fails at once, so it uses no files.
        None | Some(SideEffects::Nothing) => Footprint::SessionTool(pending.call.name.clone()),
        Some(SideEffects::Reads) => Footprint::Reads(files),
        Some(SideEffects::Changes) => Footprint::Changes(files),
        Some(_) => Footprint::Command,
    };
    calls.iter().zip(files).map(touch).collect()
}

async fn files_named_by_calls(turn: &Turn<'_>, calls: &[PendingCall]) -> Vec<Option<Vec<PathBuf>>> {
    let named: Vec<_> = calls
        .iter()
        .map(|pending| {
            let args = pending.parsed_arguments().ok()?;
            Some(turn.tools.registry().named_locations(&pending.call.name, args, turn.context))
        })
        .collect();
    let workspace = turn.context.workspace.clone();
    let settle = move || {
        let settled = |location: &acp_types::Location| {
            let at = workspace.resolve_host_path(location.path()).ok()?;
            Some(workspace.canonicalize(&at).ok()?.path().to_owned())
        };
        let files = |named: Option<Vec<_>>| named?.iter().map(settled).collect::<Option<Vec<_>>>();
        named.into_iter().map(|named| files(named).filter(|files| !files.is_empty())).collect()
    };
    let settled = tokio::select! {
        settled = tokio::task::spawn_blocking(settle) => settled.ok(),
        () = turn.cancel.cancelled() => None,
    };
    // After a panic, the files are unknown, so each call is assumed to use any file. After a
    // cancel, no call runs, so the result has no effect.
    settled.unwrap_or_else(|| vec![None; calls.len()])
}

async fn run_call(turn: &Turn<'_>, pending: PendingCall) -> CallOutcome {
    let (open, call, args) = pending.into_parts();
    let id = open.handle().id().clone();
    let ended = match args {
        Ok(args) => turn.run_announced_call(open, &call.name, args).await,
        Err(text) => reject_arguments(open, &call, text),
    };
    context::note_files_of_ended_call(turn, &id);
    ended
}

fn image_part(image: Image) -> ContentPart {
    ContentPart::Image { media_type: image.media_type, data: image.data }
}

fn result_of_call_not_run(call: &ModelToolCall) -> ToolResult {
    ToolResult::error(call, "It was not run, because the turn ended early.")
}

/// Ends a call with an error, because its arguments cannot be parsed.
fn reject_arguments(open: OpenCall, call: &ModelToolCall, text: String) -> CallOutcome {
    let patch = ToolCallPatch::new()
        .with_raw_input(Value::String(call.arguments.clone()))
        .with_raw_output(json!({ "error": text, "code": "invalid_arguments" }))
        .with_appended_content(Content::from_text(text.clone()));
    open.finish(CallEnd::failed(CallEndReason::Error).with_patch(patch));
    CallOutcome::new(Status::Failed, Some(CallEndReason::Error), text)
}

/// Removes the middle of results that are too long. If all results together are too long, the
/// longest results are truncated to the same length. A result keeps its images if they fit into the
/// room that earlier results have left.
fn truncate_results(results: &mut [ToolResult]) {
    let mut room = MAX_REPLY_IMAGE_BYTES;
    for result in &mut *results {
        let bytes: usize = result.parts.iter().map(ContentPart::byte_len).sum();
        match room.checked_sub(bytes) {
            Some(left) => room = left,
            None => result.replace_parts_with_note(IMAGE_LEFT_OUT_NOTE),
        }
    }
    let lens = results.iter().map(|result| result.text.len().min(MAX_RESULT_BYTES));
    let share = max_len_per_result(lens.collect(), MAX_REPLY_RESULT_BYTES);
    for result in results {
        if result.text.len() > share.min(MAX_RESULT_BYTES) {
            result.text = truncate_middle(&result.text, share.min(MAX_RESULT_BYTES));
        }
    }
}

/// Returns the length to which each longer result must be truncated, so that all results together
/// fit into `room` bytes.
fn max_len_per_result(mut lens: Vec<usize>, mut room: usize) -> usize {
    lens.sort_unstable();
    for (place, len) in lens.iter().enumerate() {
        let share = room / (lens.len() - place);
        if *len > share {
            return share;
        }
        room -= len;
    }
    usize::MAX
}

const IMAGE_LEFT_OUT_NOTE: &str =
    "[The image is left out here: there are too many in one reply. Read fewer at once.]";

#[cfg(test)]
mod tests;
