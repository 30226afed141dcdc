//! The context of a turn's requests: notes about changes, and the compaction that keeps the session
//! within the model's window.

use std::sync::Arc;

use acp_tools::ToolRole;
use acp_types::ToolCallId;
use agent_client_protocol::v1::schema::ContentBlock;
use callboard_models::ToolSpec;

use super::history::History;
use super::{Turn, updates};
use crate::context::{
    self, CompactionCause, CompactionOutcome, Compactor, ImplicitReadChecker, SystemPrompt,
};
use crate::options::ActiveOptions;
use crate::prompt;

/// Returns the system prompt for the selected options and the tools of a request. For a model that
/// takes no context, the prompt is empty.
pub(super) fn system_prompt(
    turn: &Turn<'_>,
    chosen: &ActiveOptions,
    tools: &Arc<[ToolSpec]>,
) -> SystemPrompt {
    match context::model_takes_context(&*chosen.model) {
        true => turn.workspace_context.system_prompt(chosen.mode, tools),
        false => SystemPrompt::default(),
    }
}

/// Compacts the session if the next request would nearly fill the model's window.
pub(super) async fn compact_if_needed(turn: &Turn<'_>, history: &mut History) {
    let chosen = (turn.active_options)();
    if !context::model_takes_context(&*chosen.model) {
        return;
    }
    let weight = system_prompt(turn, &chosen, &turn.tools.specs()).estimated_bytes
        + history.estimated_bytes();
    if history.budget_for_model(&chosen).needs_compaction(weight) {
        compact_history(turn, &chosen, history, CompactionCause::NearlyFull).await;
    }
}

/// Compacts the session after the model has refused a request as too long. Returns whether the
/// session has become shorter.
pub(super) async fn compact_after_refusal(turn: &Turn<'_>, history: &mut History) -> bool {
    let chosen = (turn.active_options)();
    if !context::model_takes_context(&*chosen.model) {
        return drop_older_half(turn, history);
    }
    let weight = system_prompt(turn, &chosen, &turn.tools.specs()).estimated_bytes
        + history.estimated_bytes();
    history.budget_for_model(&chosen).shrink_window(weight);
    compact_history(turn, &chosen, history, CompactionCause::Refused).await
}

/// Compacts the session. Returns whether the session has become shorter.
async fn compact_history(
    turn: &Turn<'_>,
    chosen: &ActiveOptions,
    history: &mut History,
    cause: CompactionCause,
) -> bool {
    let plan_tool = turn.tools.registry().spec_for_role(ToolRole::Plan).map(|spec| spec.name);
    let maker = Compactor {
        model: &*chosen.model,
        handle: turn.handle,
        cancel: turn.cancel,
        overhead_bytes: system_prompt(turn, chosen, &turn.tools.specs()).estimated_bytes,
        index: history.request_count_of_model(chosen.model_generation),
        plan_tool: plan_tool.as_deref(),
        cause,
    };
    let budget = history.budget_for_model(chosen).clone();
    let mut messages = history.messages().to_vec();
    let made = maker.compact(&budget, &mut messages).await;
    let is_shorter = matches!(made, CompactionOutcome::Compacted { .. });
    let (requests, usage) = match made {
        CompactionOutcome::Nothing { requests, usage }
        | CompactionOutcome::Compacted { requests, usage } => (requests, usage),
        CompactionOutcome::Cancelled { requests } => (requests, None),
    };
    history.add_request_count(chosen.model_generation, requests);
    usage.iter().for_each(|usage| history.add_usage(usage));
    if !is_shorter {
        return false;
    }
    history.replace_messages(messages);
    // The removed messages may have contained instructions, which must be sent again.
    turn.workspace_context.mark_instructions_forgotten();
    add_context_updates(turn, history).await;
    true
}

fn drop_older_half(turn: &Turn<'_>, history: &mut History) -> bool {
    let is_shorter = history.drop_oldest_messages(history.byte_len() / 2);
    if is_shorter {
        updates::send_notice_as_thought(
            turn.handle,
            "The session is too long for the model: its older half is left out.".into(),
        );
    }
    is_shorter
}

/// Adds messages that inform the model about recent events: background commands that have ended,
/// late writes of other programs, new instructions of the project, and changed files.
pub(super) async fn add_context_updates(turn: &Turn<'_>, history: &mut History) {
    updates::report_ended_commands(turn, history).await;
    let notices = turn.tools.wait_for_changed_tool_lists(turn.cancel).await;
    notices.into_iter().for_each(|notice| updates::send_notice_as_thought(turn.handle, notice));
    turn.tools.take_sampling_usage().iter().for_each(|usage| history.add_usage(usage));
    let chosen = (turn.active_options)();
    turn.cancel.run_until_cancelled(turn.workspace_context.mark_restored_files_as_read()).await;
    if !context::model_takes_context(&*chosen.model) {
        return updates::take_and_report_foreign_writes(turn, history).await;
    }
    let window = history.budget_for_model(&chosen).window_tokens();
    let (secrets, rules) = (turn.secrets.current(), rules_for_implicit_reads(turn));
    let (mut late, mut news) = (Vec::new(), Vec::new());
    // Both wait for a thread that reads files. What one of them has returned is not lost by a
    // cancel.
    let looks = futures::future::join(
        async { late = turn.context.take_concurrent_write_reports().await },
        async {
            let take = turn.workspace_context.take_context_messages(window, secrets, rules);
            news = take.await;
        },
    );
    tokio::select! {
        biased;
        () = turn.cancel.cancelled() => {}
        _ = looks => {}
    }
    updates::note_and_send_foreign_writes(turn, history, late);
    news.into_iter().for_each(|message| drop(history.push_message_within_limits(message)));
}

/// Reads the files that a prompt links to, and returns their text for the model. The files then
/// count as read by the model: instructions in their folders are sent, and later changes are
/// reported.
pub(super) async fn read_linked_files(turn: &Turn<'_>, blocks: &[ContentBlock]) -> Option<String> {
    let linked = async {
        let linked = prompt::read_linked_files(
            blocks,
            &turn.context.workspace,
            rules_for_implicit_reads(turn),
        )
        .await?;
        turn.workspace_context.record_files(linked.files).await;
        Some(linked.text)
    };
    tokio::select! {
        biased;
        () = turn.cancel.cancelled() => None,
        linked = linked => linked,
    }
}

fn rules_for_implicit_reads(turn: &Turn<'_>) -> ImplicitReadChecker {
    ImplicitReadChecker(turn.handle.update(|session, _| session.rules().clone()))
}

/// Notes the files of a call that has just ended, so that instructions in their folders are sent
/// and later changes are reported.
pub(super) fn note_files_of_ended_call(turn: &Turn<'_>, call: &ToolCallId) {
    turn.handle.update(|session, _| {
        let board = session.board();
        if let Some(report) = board.open_call_report(call).or_else(|| board.history().get(call)) {
            turn.workspace_context.note_call_files(report);
        }
    });
}

/// Records the versions of the files that ended calls have touched.
pub(super) async fn record_noted_file_versions(turn: &Turn<'_>) {
    tokio::select! {
        biased;
        () = turn.cancel.cancelled() => turn.workspace_context.record_noted_files_in_background(),
        () = turn.workspace_context.record_noted_files() => {}
    }
}
