//! Runs one turn: sends a request to the model, runs the calls of its reply, and repeats both with
//! the results of the calls.

use std::ops::ControlFlow;
use std::sync::Arc;

use acp_lifecycle::{CallOutcome, OpenCall, SessionHandle, execute_call};
use acp_tools::Context;
use acp_types::{CallEndReason, Role, Status, TurnId, id};
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ContentBlock, StopReason};
use callboard_models::{ChatMessage, ContentPart, ModelError, ModelErrorKind, ModelStopReason};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::context::WorkspaceContext;
use crate::offered_tools::OfferedTools;
use crate::options::ActiveOptions;
use crate::retry::RetryState;
use crate::secrets::SessionSecrets;
use crate::{errors, limits, prompt};

mod calls;
mod context;
mod history;
mod reply;
mod updates;

pub(crate) use history::{History, RestoredMessages};
use reply::StreamedReply;
pub(crate) use updates::{send_message, send_message_and_blank_line, send_notice_as_thought};

/// The parts of a session that a turn needs.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) id: &'a TurnId,
    /// Returns the options for the next request to the model. This field is a function, because the
    /// options may change during the turn.
    pub(crate) active_options: &'a (dyn Fn() -> ActiveOptions + Sync),
    pub(crate) tools: &'a OfferedTools,
    pub(crate) context: &'a Context,
    pub(crate) workspace_context: &'a WorkspaceContext,
    pub(crate) handle: &'a SessionHandle,
    /// The secrets of the session. If a secret becomes known while the model is opened, the secret
    /// is redacted in all events of the model.
    pub(crate) secrets: &'a SessionSecrets,
    pub(crate) cancel: &'a CancellationToken,
}

/// The result of a turn: a stop reason, or the error that ended the turn.
pub(crate) type TurnOutcome = Result<StopReason, Error>;

/// Runs a turn until it ends.
pub(crate) async fn run_turn(
    turn: Turn<'_>,
    history: &mut History,
    blocks: Vec<ContentBlock>,
) -> TurnOutcome {
    let ending = run_request_loop(turn, history, blocks).await;
    // Reports late writes here, because this turn sends no later request that could report them.
    updates::take_and_report_foreign_writes(&turn, history).await;
    turn.tools.take_sampling_usage().iter().for_each(|usage| history.add_usage(usage));
    ending
}

async fn run_request_loop(
    turn: Turn<'_>,
    history: &mut History,
    blocks: Vec<ContentBlock>,
) -> TurnOutcome {
    history.add_results_for_lost_calls();
    updates::send_session_info(turn.handle, &prompt::typed_text(&blocks), history);
    let linked = context::read_linked_files(&turn, &blocks).await;
    let parts = prompt::parts_from_blocks(blocks, &(turn.active_options)().capabilities);
    let is_text = parts.iter().all(|part| matches!(part, ContentPart::Text(_)));
    context::add_context_updates(&turn, history).await;
    let prompt = history.push_message_within_limits(ChatMessage::User(parts));
    if turn.cancel.is_cancelled() {
        return Ok(StopReason::Cancelled);
    }
    linked.into_iter().for_each(|text| history.push_note(&text));
    // If the agent is killed during the first reply, the next process still has the prompt.
    history.queue_messages_to_store(turn.handle);
    for requests in 0..limits::MAX_TURN_REQUESTS {
        if requests > 0 {
            context::add_context_updates(&turn, history).await;
        }
        let reply = turn.request_reply(history).await;
        // If a provider refuses some content, such as an image, it would also refuse the content in
        // every later request.
        let is_refused = reply.error.as_ref().is_some_and(is_content_refused);
        let is_poison = requests == 0 && is_refused && reply.is_empty() && !is_text;
        // After calls, an empty reply is usual.
        let is_answer_missing = requests == 0 && reply.is_empty();
        let act = turn.handle_reply(reply, history).await;
        if is_answer_missing && matches!(act, ControlFlow::Break(Ok(StopReason::EndTurn))) {
            send_message(turn.handle, Role::Agent, "The model's reply is empty.".to_owned());
        }
        if is_poison || matches!(act, ControlFlow::Break(Ok(StopReason::Refusal))) {
            // ACP requires that later requests contain neither a refused prompt nor the messages
            // after it.
            history.truncate_from(&prompt);
            turn.workspace_context.forget_current_prompt();
        }
        if let ControlFlow::Break(ending) = act {
            // ACP requires that a cancelled turn ends with `cancelled`, even if another error has
            // occurred.
            return if turn.cancel.is_cancelled() { Ok(StopReason::Cancelled) } else { ending };
        }
    }
    Ok(StopReason::MaxTurnRequests)
}

impl Turn<'_> {
    /// Sends a request to the model, and retries it if it fails. Calls run only after the whole
    /// reply has been received, so that no call runs twice. If a reply is interrupted, the part
    /// that was shown stays, and a note about the retry is shown after it.
    async fn request_reply(&self, history: &mut History) -> StreamedReply {
        let (mut retry, mut shortenings) = (RetryState::new(), 0);
        let mut before_omission = None;
        loop {
            context::compact_if_needed(self, history).await;
            let mut reply = StreamedReply::request_and_receive(self, history).await;
            let Some(error) = reply.error.as_ref().filter(|_| !reply.is_cancelled) else {
                return reply;
            };
            // A model with unknown capabilities is assumed to support images. If the model supports
            // no images, it refuses each request that contains an image.
            if reply.is_empty() && is_content_refused(error) {
                if let Some(messages) = before_omission.take() {
                    // The request is refused without the images too, so they were not the cause.
                    history.replace_messages(messages);
                    return reply;
                }
                if let Some(notice) = omit_refused_images(error, history, &mut before_omission) {
                    send_notice_as_thought(self.handle, notice.to_owned());
                    continue;
                }
            }
            if error.kind == ModelErrorKind::ContextTooLong
                && shortenings < limits::MAX_TURN_COMPACTIONS
            {
                shortenings += 1;
                if context::compact_after_refusal(self, history).await {
                    reply.cancel_calls();
                    continue;
                }
                if self.cancel.is_cancelled() {
                    reply.is_cancelled = true;
                    return reply;
                }
            }
            let Some(pause) = retry.next_retry_delay(error, reply.shown_output_state()) else {
                return reply;
            };
            updates::send_retry_notice(self.handle, error, pause);
            reply.cancel_calls();
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    reply.is_cancelled = true;
                    return reply;
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Runs the calls of a reply. Returns `Break` if the turn is over.
    async fn handle_reply(
        &self,
        mut reply: StreamedReply,
        history: &mut History,
    ) -> ControlFlow<TurnOutcome> {
        let is_whole =
            matches!(reply.stop, Some(ModelStopReason::ToolCalls | ModelStopReason::EndTurn));
        if reply.is_cancelled || reply.error.is_some() || !is_whole {
            // If the reply is incomplete, its last call may be incomplete too.
            let calls = reply.calls.len();
            reply.cancel_calls();
            return ControlFlow::Break(record_incomplete_reply(reply, calls, history));
        }
        let StreamedReply { text, thought, calls, replay, stop, left_out_calls: left_out, .. } =
            reply;
        if calls.is_empty() {
            history.push_text_reply(text, thought, replay);
            return ControlFlow::Break(Ok(acp_stop_reason(stop)));
        }
        let made = calls.iter().map(|begun| begun.call.clone()).collect();
        history.push_message_within_limits(ChatMessage::Assistant {
            text,
            thought,
            calls: made,
            replay,
        });
        let left_out = left_out_calls_note(left_out);
        left_out.iter().for_each(|words| send_notice_as_thought(self.handle, words.clone()));
        history.queue_messages_to_store(self.handle);
        let (results, fault) = calls::run_calls(self, calls).await;
        history.push_message_within_limits(ChatMessage::ToolResults(results));
        history.queue_messages_to_store(self.handle);
        left_out.iter().for_each(|words| history.push_note(words));
        match fault {
            Some(fault) => ControlFlow::Break(Err(errors::internal_error(&fault))),
            None if self.cancel.is_cancelled() => ControlFlow::Break(Ok(StopReason::Cancelled)),
            None => ControlFlow::Continue(()),
        }
    }

    /// Announces a call that belongs to a batch. A batch contains all calls of a reply, or all
    /// ended commands that are reported together. Returns `None` if the session accepts no more
    /// calls.
    fn announce_in_batch(&self, model_id: &str, name: &str, batch: &str) -> Option<OpenCall> {
        let open = self.announce_call(model_id, name)?;
        open.handle().update_meta(|meta| meta.batch = Some(batch.to_owned()));
        Some(open)
    }

    fn announce_call(&self, model_id: &str, name: &str) -> Option<OpenCall> {
        let is_taken = |id: &str| self.handle.is_id_used(&id.to_owned().into());
        let id =
            id::unique_tool_call_id(self.id, model_id, is_taken, || Ulid::generate().to_string());
        self.tools.registry().announce_call(
            self.handle,
            &id,
            self.id,
            name,
            self.context,
            self.cancel,
        )
    }

    /// Runs a call for the user. The model is not informed of the call. Returns `None` if no tool
    /// has this name.
    ///
    /// The caller must await the returned future to its end. After a cancel, the future ends soon.
    pub(crate) async fn call_tool_for_user(&self, name: &str, args: Value) -> Option<CallOutcome> {
        self.tools.registry().spec(name)?;
        let open = self.announce_call(name, name)?;
        Some(self.run_announced_call(open, name, args).await)
    }

    async fn run_announced_call(&self, open: OpenCall, name: &str, args: Value) -> CallOutcome {
        // The call runs in a separate task, so that a panic outside of the tool ends only this
        // call.
        let tool = self.tools.registry().prepare_call(name, args, self.context);
        let ended = tokio::spawn(execute_call(open, tool))
            .await
            .unwrap_or_else(|_| panicked_call_outcome());
        if ended.ends_turn {
            // Cancel the other calls of the reply, so that they do not delay the end of the turn.
            self.cancel.cancel();
        }
        ended
    }
}

/// Adds an incomplete reply to the history, without its calls, which were not run. A note for the
/// model explains why the reply is incomplete.
fn record_incomplete_reply(
    reply: StreamedReply,
    calls: usize,
    history: &mut History,
) -> TurnOutcome {
    let StreamedReply { text, thought, stop, error, is_cancelled, .. } = reply;
    let is_silent = text.is_empty() && calls == 0;
    // The provider's replay data is not kept, because it may refer to the calls.
    history.push_text_reply(text, thought, None);
    let why = match &error {
        _ if is_cancelled => Some("The user cancelled the turn here."),
        Some(_) if is_silent => None,
        Some(_) => Some("The reply broke off here because of an error."),
        None if calls == 0 => None,
        None => Some("The reply ended here before it was whole."),
    };
    match why {
        Some(why) if calls > 0 => history.push_note(&format!("{why} None of its calls was run.")),
        Some(why) => history.push_note(why),
        None => {}
    }
    match error {
        _ if is_cancelled => Ok(StopReason::Cancelled),
        Some(error) => Err(errors::model_failed_error(&error)),
        None => Ok(acp_stop_reason(stop)),
    }
}

/// Returns whether a provider may have refused a request because of an image or another part of its
/// content. Errors such as an exhausted quota are not caused by content.
fn is_content_refused(error: &ModelError) -> bool {
    match error.kind {
        ModelErrorKind::InvalidRequest => true,
        // A single image may exceed the maximum size of a request.
        ModelErrorKind::ContextTooLong => error.status == Some(413),
        _ => false,
    }
}

/// Omits images that a provider may have refused: the newest images in results or, if there are
/// none, all images of the session; `before` then receives the messages with the images. Returns a
/// notice if images were omitted.
fn omit_refused_images(
    error: &ModelError,
    history: &mut History,
    before: &mut Option<Vec<Arc<ChatMessage>>>,
) -> Option<&'static str> {
    if history.omit_newest_images() {
        return Some("The model refused an image; the request is sent again without it.");
    }
    // A limit of bytes is not exceeded by images that an earlier request has contained.
    let messages = history.messages().to_vec();
    if error.kind != ModelErrorKind::InvalidRequest || !history.omit_all_media() {
        return None;
    }
    *before = Some(messages);
    Some("The model refused the request; it is sent again without the images of this session.")
}

fn panicked_call_outcome() -> CallOutcome {
    let text = "The call was lost because of an internal error.";
    CallOutcome::new(Status::Cancelled, Some(CallEndReason::Dropped), text)
}

/// Returns a note about the calls of a reply that were left out. Returns `None` if `count` is 0.
fn left_out_calls_note(count: usize) -> Option<String> {
    let max = limits::MAX_REPLY_CALLS;
    (count > 0).then(|| {
        format!("Calls left out at the end of this reply: {count}. The limit is {max} per reply.")
    })
}

fn acp_stop_reason(stop: Option<ModelStopReason>) -> StopReason {
    match stop {
        Some(ModelStopReason::MaxTokens) => StopReason::MaxTokens,
        Some(ModelStopReason::MaxTurnRequests) => StopReason::MaxTurnRequests,
        Some(ModelStopReason::Refusal) => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}

#[cfg(test)]
mod tests;
