//! A reply of the model while it arrives. Its text is shown and its calls are announced at once,
//! but calls run only after the whole reply has been received.

use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::{CallEnd, OpenCall, PartialArguments};
use acp_types::{CallEndReason, Content, MessageChunk, Role, ToolCallPatch};
use callboard_models::{
    ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelStopReason, ModelToolCall,
    ProviderReplay, ReplyStream, TokenUsage, ToolSpec,
};
use serde_json::{Value, json};
use ulid::Ulid;

use super::history::History;
use super::{Turn, context, updates};
use crate::limits;
use crate::options::ActiveOptions;
use crate::retry::{PartialOutput, next_event_within_idle_timeout};

/// The part of a reply that has been received.
pub(super) struct StreamedReply {
    /// Id of the reply, and of the batch that contains the calls of the reply.
    id: String,
    /// The role of the last received text, and the id of the message to which this text belongs.
    last_message: Option<(Role, String)>,
    pub(super) text: String,
    pub(super) thought: String,
    pub(super) calls: Vec<PendingCall>,
    /// The provider's replay data, which is kept only together with the whole reply.
    pub(super) replay: Option<ProviderReplay>,
    usage: Option<TokenUsage>,
    pub(super) stop: Option<ModelStopReason>,
    pub(super) error: Option<ModelError>,
    pub(super) is_cancelled: bool,
    /// Number of bytes of the reply so far.
    bytes: usize,
    /// Number of calls that were left out: calls beyond [`limits::MAX_REPLY_CALLS`], and calls that
    /// the session did not accept.
    pub(super) left_out_calls: usize,
}

impl StreamedReply {
    fn new() -> Self {
        Self {
            id: Ulid::generate().to_string(),
            last_message: None,
            text: String::new(),
            thought: String::new(),
            calls: Vec::new(),
            replay: None,
            usage: None,
            stop: None,
            error: None,
            is_cancelled: false,
            bytes: 0,
            left_out_calls: 0,
        }
    }

    /// Sends a request to the model, and shows the reply to the client while it arrives.
    pub(super) async fn request_and_receive(turn: &Turn<'_>, history: &mut History) -> Self {
        let chosen = (turn.active_options)();
        let tools = turn.tools.specs();
        let system = context::system_prompt(turn, &chosen, &tools);
        let weight = system.estimated_bytes + history.estimated_bytes();
        let mut stream = chosen.model.reply(build_request(tools, &chosen, system.text, history));
        let mut reply = Self::new();
        while reply.stop.is_none() && reply.error.is_none() && !reply.is_cancelled {
            tokio::select! {
                biased;
                () = turn.cancel.cancelled() => reply.is_cancelled = true,
                event = receive_event_when_writable(turn, &mut stream) => match event {
                    Ok(event) => reply.apply_event(event, turn),
                    Err(error) => reply.error = Some(error),
                },
            }
        }
        if reply.left_out_calls > 0 {
            reply.replay = None;
        }
        updates::record_and_send_usage(turn.handle, reply.usage.as_ref(), &chosen, history);
        if let Some(tokens) = reply.usage.and_then(|usage| usage.input_tokens) {
            history.budget_for_model(&chosen).calibrate(weight, tokens);
        }
        reply
    }

    /// Returns whether a part of the reply has been shown to the client.
    pub(super) fn shown_output_state(&self) -> PartialOutput {
        match self.is_empty() {
            true => PartialOutput::None,
            false => PartialOutput::Shown,
        }
    }

    /// Returns whether no part of the reply has been shown to the client.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thought.is_empty() && self.calls.is_empty()
    }

    /// Ends all calls of an incomplete reply without running them.
    pub(super) fn cancel_calls(&mut self) {
        let end = if self.is_cancelled {
            CallEnd::cancelled(CallEndReason::Turn)
        } else {
            let text = "Not run, because the reply of the model is incomplete.";
            let patch = ToolCallPatch::new()
                .with_raw_output(json!({ "error": text }))
                .with_appended_content(Content::from_text(text));
            CallEnd::cancelled(CallEndReason::Error).with_patch(patch)
        };
        self.calls.drain(..).for_each(|call| call.open.finish(end.clone()));
    }

    /// Returns the newest call to which the model gave this id.
    fn find_call(&mut self, model_id: &str) -> Option<&mut PendingCall> {
        self.calls.iter_mut().rev().find(|pending| pending.call.id == model_id)
    }

    fn apply_event(&mut self, event: ModelEvent, turn: &Turn<'_>) {
        match event {
            ModelEvent::Text(text) => {
                self.text.push_str(&text);
                self.send_text(Role::Agent, text, turn);
            }
            ModelEvent::Thought(text) => {
                self.thought.push_str(&text);
                self.send_text(Role::Thought, text, turn);
            }
            ModelEvent::CallStart { id, name } => self.announce_call(id, name, turn),
            ModelEvent::CallArguments { id, fragment } => {
                self.bytes += fragment.len();
                if let Some(call) = self.find_call(&id) {
                    call.push_fragment(&fragment, turn);
                }
            }
            ModelEvent::CallEnd { id } => {
                if let Some(call) = self.find_call(&id) {
                    call.parse_and_describe_call(turn);
                }
            }
            ModelEvent::Replay(replay) => self.replay = Some(replay),
            ModelEvent::Usage(usage) => self.usage = Some(usage),
            ModelEvent::Stop(stop) => self.stop = Some(stop),
            ModelEvent::Error(error) => self.error = Some(error),
            _ => {}
        }
        if self.bytes > limits::MAX_REPLY_BYTES {
            let message = format!("its reply is over {} bytes", limits::MAX_REPLY_BYTES);
            self.error = Some(ModelError::new(ModelErrorKind::Other, message));
        }
    }

    /// Sends text to the client. The text belongs to the same message as the previous text, because
    /// clients join the chunks of a message. After a call, or after a text of another role, a new
    /// message begins.
    fn send_text(&mut self, role: Role, text: String, turn: &Turn<'_>) {
        self.bytes += text.len();
        let message = match &self.last_message {
            Some((speaking, message)) if *speaking == role => message.clone(),
            _ => Ulid::generate().to_string(),
        };
        self.last_message = Some((role, message.clone()));
        turn.handle.send_message_chunk(MessageChunk::new(role, message, text));
    }

    /// Announces a call to the client before its arguments have arrived.
    fn announce_call(&mut self, id: String, name: String, turn: &Turn<'_>) {
        self.last_message = None;
        let open = match self.calls.len() < limits::MAX_REPLY_CALLS {
            true => turn.announce_in_batch(&id, &name, &self.id),
            false => None,
        };
        match open {
            Some(open) => self.calls.push(PendingCall::new(open, id, name)),
            None => self.left_out_calls += 1,
        }
    }
}

fn build_request(
    tools: Arc<[ToolSpec]>,
    chosen: &ActiveOptions,
    system: Arc<str>,
    history: &mut History,
) -> ModelRequest {
    let mut request = ModelRequest::new(history.messages().clone());
    request.index = history.take_request_index(chosen.model_generation);
    request.system = system;
    request.tools = tools;
    request.effort = chosen.effort;
    request
}

/// Waits while the client is stalled, and then waits for the model's next event.
async fn receive_event_when_writable(
    turn: &Turn<'_>,
    stream: &mut ReplyStream,
) -> Result<ModelEvent, ModelError> {
    turn.handle.wait_while_client_stalled().await;
    next_event_within_idle_timeout(stream).await
}

/// A call that has been announced but not run. The arguments of the call may still be arriving.
pub(super) struct PendingCall {
    pub(super) open: OpenCall,
    pub(super) call: ModelToolCall,
    arguments_state: ArgumentsState,
    arriving: PartialArguments,
    /// Number of bytes of the arguments at the last update to the client.
    reported_bytes: usize,
}

/// The arguments of a call: still arriving, parsed, or impossible to parse.
enum ArgumentsState {
    Streaming,
    Complete(Result<Value, String>),
}

impl PendingCall {
    /// Creates a call whose arguments have not arrived yet.
    pub(super) fn new(open: OpenCall, id: String, name: String) -> Self {
        Self {
            open,
            call: ModelToolCall::new(id, name, String::new()),
            arguments_state: ArgumentsState::Streaming,
            arriving: PartialArguments::default(),
            reported_bytes: 0,
        }
    }

    /// Appends a fragment to the arguments. Sends an update to the client for every argument that
    /// is complete, and after every [`limits::ARGUMENTS_UPDATE_BYTES`] bytes.
    pub(super) fn push_fragment(&mut self, fragment: &str, turn: &Turn<'_>) {
        if !matches!(self.arguments_state, ArgumentsState::Streaming) {
            return;
        }
        self.call.arguments.push_str(fragment);
        let len = self.call.arguments.len();
        if len > limits::MAX_ARGUMENT_BYTES {
            self.call.arguments.clear();
            let text = format!("The arguments are over {} bytes.", limits::MAX_ARGUMENT_BYTES);
            self.arguments_state = ArgumentsState::Complete(Err(text));
            return;
        }
        if self.arriving.push(fragment)
            || len - self.reported_bytes >= limits::ARGUMENTS_UPDATE_BYTES
        {
            self.reported_bytes = len;
            let (call, name) = (self.open.handle(), &self.call.name);
            turn.tools.registry().report_partial_call(call, name, &self.arriving, turn.context);
        }
    }

    /// Parses the arguments, which are complete, and sends the description of the call to the
    /// client.
    pub(super) fn parse_and_describe_call(&mut self, turn: &Turn<'_>) {
        if !matches!(self.arguments_state, ArgumentsState::Streaming) {
            return;
        }
        let args = parse_arguments(&self.call.arguments);
        if let Ok(args) = &args {
            turn.tools.registry().report_call_description(
                self.open.handle(),
                &self.call.name,
                args,
                turn.context,
            );
        }
        // The title cannot become better, so the call is reported without further delay.
        self.open.handle().limit_announcement_delay(Duration::ZERO);
        self.arguments_state = ArgumentsState::Complete(args);
    }

    /// Returns the parsed arguments, or the reason why they cannot be used.
    pub(super) fn parsed_arguments(&self) -> Result<&Value, &str> {
        match &self.arguments_state {
            ArgumentsState::Streaming => Err(INCOMPLETE_ARGUMENTS),
            ArgumentsState::Complete(args) => args.as_ref().map_err(String::as_str),
        }
    }

    /// Returns the open call, the call as the model sent it, and its parsed arguments.
    pub(super) fn into_parts(self) -> (OpenCall, ModelToolCall, Result<Value, String>) {
        let args = match self.arguments_state {
            ArgumentsState::Streaming => Err(INCOMPLETE_ARGUMENTS.to_owned()),
            ArgumentsState::Complete(args) => args,
        };
        (self.open, self.call, args)
    }
}

/// Parses arguments. Empty arguments become an empty object.
fn parse_arguments(arguments: &str) -> Result<Value, String> {
    if arguments.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str(arguments)
        .map_err(|error| format!("The arguments are not JSON: {error}. Send one JSON object."))
}

const INCOMPLETE_ARGUMENTS: &str = "The arguments are incomplete.";

#[cfg(test)]
mod tests;
