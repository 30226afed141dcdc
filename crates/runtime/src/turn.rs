//! One turn: the model is asked, its calls are run, and it is asked again with their results.
//!
//! It knows nothing of the client; everything it shows goes to the session's handle.

use std::ops::ControlFlow;
use std::sync::Arc;

use acp_lifecycle::{Ended, OpenCall, SessionHandle, perform};
use acp_tools::{Context, Registry};
use acp_types::{Reason, Status, TurnId, id};
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ContentBlock, StopReason};
use callboard_models::{Fault, Message, Part, Stop, ToolSpec};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::context::WorkspaceContext;
use crate::options::Chosen;
use crate::retry::Retry;
use crate::secrets::OfSession;
use crate::{errors, limits, prompt};

mod calls;
mod context;
mod history;
mod reply;
mod updates;

pub(crate) use history::{History, Spent};
use reply::StreamedReply;

/// What a turn works with.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) name: &'a TurnId,
    /// Says what the next request goes by: it may change in the turn.
    pub(crate) chosen: &'a (dyn Fn() -> Chosen + Sync),
    pub(crate) registry: &'a Registry,
    /// What the model is told of the registry's tools: [`tools`].
    pub(crate) tools: &'a Arc<[ToolSpec]>,
    pub(crate) context: &'a Context,
    pub(crate) surroundings: &'a WorkspaceContext,
    pub(crate) handle: &'a SessionHandle,
    /// What is learnt while a model opens is hidden before it speaks.
    pub(crate) secrets: &'a OfSession,
    pub(crate) cancel: &'a CancellationToken,
}

/// Returns what a model is told of tools. It is made once a session.
pub(crate) fn tools(registry: &Registry) -> Arc<[ToolSpec]> {
    let specs = registry.iter().map(|tool| ToolSpec {
        name: tool.spec.name.into_owned(),
        description: tool.spec.description.into_owned(),
        input_schema: tool.input_schema,
    });
    specs.collect()
}

/// How a turn ends.
pub(crate) type Ending = Result<StopReason, Error>;

/// Runs a turn to its end.
pub(crate) async fn run(
    turn: Turn<'_>,
    history: &mut History,
    blocks: Vec<ContentBlock>,
) -> Ending {
    let ending = answer(turn, history, blocks).await;
    // No request follows that would hear of it.
    updates::add_late_writes(&turn, history).await;
    ending
}

async fn answer(turn: Turn<'_>, history: &mut History, blocks: Vec<ContentBlock>) -> Ending {
    history.mend();
    updates::send_session_info(turn.handle, &prompt::typed(&blocks), history);
    let linked = context::read_links(&turn, &blocks).await;
    let parts = prompt::parts(blocks, &(turn.chosen)().traits);
    let is_text = parts.iter().all(|part| matches!(part, Part::Text(_)));
    context::add_news(&turn, history).await;
    let prompt = history.say(Message::User(parts));
    if turn.cancel.is_cancelled() {
        return Ok(StopReason::Cancelled);
    }
    linked.into_iter().for_each(|text| history.note(&text));
    for requests in 0..limits::MAX_TURN_REQUESTS {
        if requests > 0 {
            context::add_news(&turn, history).await;
        }
        let reply = turn.ask(history).await;
        // What a provider does not take, such as an image, would be refused with each later
        // prompt too.
        let is_refused = reply.error.as_ref().is_some_and(|error| error.fault == Fault::Other);
        let is_poison = requests == 0 && is_refused && reply.is_silent() && !is_text;
        let act = turn.act(reply, history).await;
        if is_poison || matches!(act, ControlFlow::Break(Ok(StopReason::Refusal))) {
            // ACP: a refused prompt, and what followed it, is not told again.
            history.take_back(&prompt);
            turn.surroundings.forget();
        }
        if let ControlFlow::Break(ending) = act {
            // ACP: a cancelled turn ends as cancelled, whatever else went wrong meanwhile.
            return if turn.cancel.is_cancelled() { Ok(StopReason::Cancelled) } else { ending };
        }
    }
    Ok(StopReason::MaxTurnRequests)
}

impl Turn<'_> {
    /// Asks the model, again and again where that may help. No call has been run before a reply
    /// is whole, so that nothing is done twice; what was shown of a reply that broke off stays,
    /// followed by a word that it is asked for again.
    async fn ask(&self, history: &mut History) -> StreamedReply {
        let (mut retry, mut shortenings) = (Retry::new(), 0);
        loop {
            context::keep_within(self, history).await;
            let mut reply = StreamedReply::receive(self, history).await;
            let Some(error) = reply.error.as_ref().filter(|_| !reply.is_cancelled) else {
                return reply;
            };
            if error.fault == Fault::TooLong && shortenings < limits::MAX_SHORTENINGS {
                shortenings += 1;
                if context::make_more_room(self, history).await {
                    reply.drop_calls();
                    continue;
                }
                if self.cancel.is_cancelled() {
                    reply.is_cancelled = true;
                    return reply;
                }
            }
            // Not every model that is unknown to us sees; what it refuses would be refused for ever.
            if error.fault == Fault::Other && reply.is_silent() && history.hide_images() {
                updates::send_notice(
                    self.handle,
                    "The model refused what was shown to it; it is asked without.".into(),
                );
                continue;
            }
            let Some(pause) = retry.pause(error, reply.partial_output()) else { return reply };
            updates::send_retry(self.handle, error, pause);
            reply.drop_calls();
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

    /// Does what the model asked for; breaks when the turn is over.
    async fn act(&self, mut reply: StreamedReply, history: &mut History) -> ControlFlow<Ending> {
        let is_whole = matches!(reply.stop, Some(Stop::ToolCalls | Stop::EndTurn));
        if reply.is_cancelled || reply.error.is_some() || !is_whole {
            // What it began to ask for may be half of it.
            let calls = reply.calls.len();
            reply.drop_calls();
            return ControlFlow::Break(broken_off(reply, calls, history));
        }
        let StreamedReply { text, thought, calls, replay, stop, left_out, .. } = reply;
        if calls.is_empty() {
            history.say_words(text, thought, replay);
            return ControlFlow::Break(Ok(stop_reason(stop)));
        }
        let made = calls.iter().map(|begun| begun.call.clone()).collect();
        history.say(Message::Assistant { text, thought, calls: made, replay });
        let left_out = left_out_words(left_out);
        left_out.iter().for_each(|words| updates::send_notice(self.handle, words.clone()));
        let (results, fault) = calls::run_calls(self, calls).await;
        history.say(Message::ToolResults(results));
        left_out.iter().for_each(|words| history.note(words));
        match fault {
            Some(fault) => ControlFlow::Break(Err(errors::fault(&fault))),
            None if self.cancel.is_cancelled() => ControlFlow::Break(Ok(StopReason::Cancelled)),
            None => ControlFlow::Continue(()),
        }
    }

    /// Announces a call of the reply or round that `batch` names. None if the session takes no more.
    fn begin(&self, model_id: &str, name: &str, batch: &str) -> Option<OpenCall> {
        let open = self.announce(model_id, name)?;
        open.handle().change_meta(|meta| meta.batch = Some(batch.to_owned()));
        Some(open)
    }

    fn announce(&self, model_id: &str, name: &str) -> Option<OpenCall> {
        let is_taken = |id: &str| self.handle.has_seen(&id.to_owned().into());
        let id = id::tool_call_id(self.name, model_id, is_taken, || Ulid::generate().to_string());
        self.registry.announce(self.handle, &id, self.name, name, self.context, self.cancel)
    }

    /// Makes a call that the user asked for, not the model, which knows nothing of what it does.
    /// To be awaited to its end, which comes soon after a cancel. None if there is no such tool.
    pub(crate) async fn call(&self, name: &str, args: Value) -> Option<Ended> {
        self.registry.spec(name)?;
        let open = self.announce(name, name)?;
        Some(self.perform(open, name, args).await)
    }

    async fn perform(&self, open: OpenCall, name: &str, args: Value) -> Ended {
        // A task of its own, so that a panic outside of the tool ends one call only.
        let tool = self.registry.call(name, args, self.context);
        let ended = tokio::spawn(perform(open, tool)).await.unwrap_or_else(|_| lost());
        if ended.ends_turn {
            // Its neighbours must not keep the turn from ending.
            self.cancel.cancel();
        }
        ended
    }
}

/// Remembers a reply that is not whole, without the calls that were not run, and tells the model
/// why.
fn broken_off(reply: StreamedReply, calls: usize, history: &mut History) -> Ending {
    let StreamedReply { text, thought, stop, error, is_cancelled, .. } = reply;
    let is_silent = text.is_empty() && calls == 0;
    // What its provider wants repeated may be of the calls that are left out.
    history.say_words(text, thought, None);
    let why = match &error {
        _ if is_cancelled => Some("The user cancelled the turn here."),
        Some(_) if is_silent => None,
        Some(_) => Some("The reply broke off here, by a fault."),
        None if calls == 0 => None,
        None => Some("The reply ended here before it was whole."),
    };
    match why {
        Some(why) if calls > 0 => history.note(&format!("{why} None of its calls was run.")),
        Some(why) => history.note(why),
        None => {}
    }
    match error {
        _ if is_cancelled => Ok(StopReason::Cancelled),
        Some(error) => Err(errors::model(&error)),
        None => Ok(stop_reason(stop)),
    }
}

fn lost() -> Ended {
    let text = "The call was lost by a fault of the agent.";
    Ended::new(Status::Cancelled, Some(Reason::Dropped), text)
}

/// Says that calls of a reply are not made; nothing if there are none.
fn left_out_words(count: usize) -> Option<String> {
    let max = limits::MAX_REPLY_CALLS;
    (count > 0).then(|| {
        format!("Left out of this reply: its last calls, {count} of them. One reply makes {max}.")
    })
}

fn stop_reason(stop: Option<Stop>) -> StopReason {
    match stop {
        Some(Stop::MaxTokens) => StopReason::MaxTokens,
        Some(Stop::MaxTurnRequests) => StopReason::MaxTurnRequests,
        Some(Stop::Refusal) => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}

#[cfg(test)]
mod tests;
