//! The messages that a session keeps between its turns, and the token usage of its replies so far.
//!
//! The messages are always valid for every provider: the results of a reply's calls come directly
//! after the reply, and no reply is empty.

use std::sync::Arc;

use acp_lifecycle::SessionHandle;
use callboard_models::{ChatMessage, ContentPart, ProviderReplay, TokenUsage, ToolResult};
use tokio::sync::oneshot;

use crate::context::{ContextBudget, estimated_bytes};
use crate::limits;
use crate::options::ActiveOptions;
use crate::stored_sessions::{RecordedMessages, SessionRecording};
use crate::usage_totals::UsageTotals;

/// The messages and the token usage of a session.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Requests share these messages, so that the cost of creating a request does not grow with the
    /// session.
    messages: Arc<Vec<Arc<ChatMessage>>>,
    size: MessagesSize,
    /// How often messages were replaced, changed or removed. If the number has not changed since
    /// the last record, the recording stores only the added messages.
    rewrites: u64,
    /// The generation of the last used model, and the number of requests to this model. Failed
    /// attempts are counted too.
    requests_of_model: (u64, usize),
    usage_totals: UsageTotals,
    /// The context budget of the last used model.
    budget: ContextBudget,
    /// Whether the client has received a title for the session.
    pub(super) is_titled: bool,
    /// Stores the messages. `None` if the session is not stored.
    recording: Option<Arc<SessionRecording>>,
    /// Receives the messages of an earlier process.
    restored: Option<oneshot::Receiver<RestoredMessages>>,
}

/// The messages of an earlier process, oldest first.
pub(crate) type RestoredMessages = Vec<Arc<ChatMessage>>;

/// The total size of several messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MessagesSize {
    bytes: usize,
    /// Number of bytes of the images in results, which are included in `bytes`.
    image_bytes: usize,
    /// Estimated size in a request to a model, in bytes of text.
    estimated_bytes: u64,
}

impl MessagesSize {
    fn from_message(message: &ChatMessage) -> Self {
        Self {
            bytes: byte_len(message),
            image_bytes: result_images_byte_len(message),
            estimated_bytes: estimated_bytes(message),
        }
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.image_bytes += other.image_bytes;
        self.estimated_bytes += other.estimated_bytes;
    }

    fn subtract(&mut self, other: Self) {
        self.bytes -= other.bytes;
        self.image_bytes -= other.image_bytes;
        self.estimated_bytes -= other.estimated_bytes;
    }
}

impl History {
    /// Creates the history of a session of an earlier process. Its messages are received later:
    /// see [`wait_for_messages`](Self::wait_for_messages).
    pub(crate) fn awaiting_restored_messages(
        messages: oneshot::Receiver<RestoredMessages>,
        usage_totals: UsageTotals,
        is_titled: bool,
    ) -> Self {
        Self { restored: Some(messages), usage_totals, is_titled, ..Self::default() }
    }

    /// Waits for the messages of an earlier process. If they cannot be read, the session is closed
    /// before its first prompt.
    pub(crate) async fn wait_for_messages(&mut self) {
        if let Some(restored) = self.restored.take()
            && let Ok(messages) = restored.await
        {
            self.restore_messages(messages);
        }
    }

    /// Sets the recording, which stores the messages from now on.
    pub(crate) fn set_session_recording(&mut self, recording: Option<Arc<SessionRecording>>) {
        self.recording = recording;
    }

    /// Queues the current messages to be stored. The session's secrets are redacted in the stored
    /// messages.
    pub(crate) fn queue_messages_to_store(&self, handle: &SessionHandle) {
        if let Some(recording) = &self.recording {
            let secrets = handle.update(|session, _| session.secrets().clone());
            recording.record_messages(&self.messages, self.rewrites, &secrets);
        }
    }

    /// Returns whether the client has received a title for the session.
    pub(crate) fn is_titled(&self) -> bool {
        self.is_titled
    }

    /// Makes the next prompt the title of the session.
    pub(crate) fn use_next_prompt_as_title(&mut self) {
        self.is_titled = false;
    }

    /// Returns all messages. The oldest message comes first.
    pub(crate) fn messages(&self) -> &Arc<Vec<Arc<ChatMessage>>> {
        &self.messages
    }

    /// Replaces all messages by shortened messages of the same session, or by restored messages.
    pub(crate) fn replace_messages(&mut self, messages: Vec<Arc<ChatMessage>>) {
        self.size = MessagesSize::default();
        messages.iter().for_each(|message| self.size.add(MessagesSize::from_message(message)));
        self.messages = Arc::new(messages);
        self.rewrites += 1;
    }

    /// Replaces all messages by stored messages, after a rewind or when a session is restored.
    pub(crate) fn restore_messages(&mut self, messages: Vec<Arc<ChatMessage>>) {
        self.replace_messages(messages);
        if let Some(recording) = &self.recording {
            recording.set_recorded_messages(self.recorded_state_when_stored());
        }
    }

    /// Returns the state that the recording has after all current messages are stored.
    fn recorded_state_when_stored(&self) -> RecordedMessages {
        RecordedMessages { rewrites: self.rewrites, count: self.messages.len() }
    }

    /// Returns the token usage of all replies so far.
    pub(crate) fn usage_totals(&self) -> &UsageTotals {
        &self.usage_totals
    }

    /// Adds a message. If a limit is then exceeded, removes the oldest images or messages.
    pub(super) fn push_message_within_limits(&mut self, message: ChatMessage) -> Arc<ChatMessage> {
        let message = Arc::new(message);
        self.size.add(MessagesSize::from_message(&message));
        Arc::make_mut(&mut self.messages).push(message.clone());
        if self.size.image_bytes > limits::MAX_HISTORY_IMAGE_BYTES {
            // Half of the images are removed at once, because each removal invalidates the
            // provider's cache of the session.
            self.omit_oldest_images(limits::MAX_HISTORY_IMAGE_BYTES / 2);
        }
        if self.size.bytes > limits::MAX_HISTORY_BYTES {
            // Half of the messages are removed at once, because each removal invalidates the
            // provider's cache of the session.
            self.drop_oldest_messages(limits::MAX_HISTORY_BYTES / 2);
        }
        message
    }

    /// Adds a reply without calls. An empty reply is not added, because providers do not accept it.
    pub(super) fn push_text_reply(
        &mut self,
        text: String,
        thought: String,
        replay: Option<ProviderReplay>,
    ) {
        if !text.trim().is_empty() {
            self.push_message_within_limits(ChatMessage::Assistant {
                text,
                thought,
                calls: Vec::new(),
                replay,
            });
        }
    }

    /// Adds a note of the agent, which only the model receives.
    pub(super) fn push_note(&mut self, what: &str) {
        self.push_message_within_limits(ChatMessage::Context(what.to_owned()));
    }

    /// Removes a message and all messages after it.
    pub(super) fn truncate_from(&mut self, first: &Arc<ChatMessage>) {
        let place = self.messages.iter().rposition(|message| Arc::ptr_eq(message, first));
        if let Some(place) = place {
            let gone = Arc::make_mut(&mut self.messages).drain(place..);
            gone.for_each(|message| self.size.subtract(MessagesSize::from_message(&message)));
            self.rewrites += 1;
        }
    }

    /// If the last reply has calls without results because a kill or a fault ended the turn, adds
    /// results for these calls.
    pub(super) fn add_results_for_lost_calls(&mut self) {
        let Some(ChatMessage::Assistant { calls, .. }) = self.messages.last().map(|last| &**last)
        else {
            return;
        };
        let lost: Vec<_> =
            calls.iter().map(|call| ToolResult::error(call, LOST_RESULT_NOTE)).collect();
        if !lost.is_empty() {
            self.push_message_within_limits(ChatMessage::ToolResults(lost));
        }
    }

    /// Replaces images by a note, beginning with the oldest results, until the other images have at
    /// most `bytes` bytes.
    fn omit_oldest_images(&mut self, bytes: usize) {
        self.rewrites += 1;
        for message in
            Arc::make_mut(&mut self.messages).iter_mut().filter(|it| has_result_images(it))
        {
            if self.size.image_bytes <= bytes {
                break;
            }
            self.size.subtract(MessagesSize::from_message(message));
            omit_result_images(message, HIDDEN_IMAGE_NOTE);
            self.size.add(MessagesSize::from_message(message));
        }
    }

    /// If the newest results with images come after the last reply, replaces their images by a
    /// note. Returns whether images were replaced.
    pub(super) fn omit_newest_images(&mut self) -> bool {
        let messages = Arc::make_mut(&mut self.messages).iter_mut().rev();
        let mut newest = messages.take_while(|message| !is_reply(message));
        let Some(message) = newest.find(|message| has_result_images(message)) else { return false };
        self.size.subtract(MessagesSize::from_message(message));
        omit_result_images(message, REFUSED_IMAGE_NOTE);
        self.size.add(MessagesSize::from_message(message));
        self.rewrites += 1;
        true
    }

    /// Replaces all images and recordings in prompts and results by notes, e.g. after a switch to a
    /// model that accepts none. If the newest prompt contains some, replaces nothing, because the
    /// user must learn that this prompt was refused. Returns whether something was replaced.
    pub(super) fn omit_all_media(&mut self) -> bool {
        let newest = self.messages.iter().rfind(|message| is_prompt(message));
        let is_newest_refused = newest.is_some_and(|prompt| has_media(prompt));
        if is_newest_refused || !self.messages.iter().any(|message| has_media(message)) {
            return false;
        }
        // The newest prompt is not changed, so the turn still finds it by its pointer.
        for message in Arc::make_mut(&mut self.messages).iter_mut().filter(|it| has_media(it)) {
            self.size.subtract(MessagesSize::from_message(message));
            omit_result_images(message, REFUSED_IMAGE_NOTE);
            omit_prompt_media(message);
            self.size.add(MessagesSize::from_message(message));
        }
        self.rewrites += 1;
        true
    }

    /// Removes the oldest messages until at most `bytes` bytes remain, and adds a note in their
    /// place. The newest prompt is kept, and so is the newest reply if it comes after this prompt.
    /// Returns whether messages were removed.
    pub(super) fn drop_oldest_messages(&mut self, bytes: usize) -> bool {
        let prompt = self.messages.iter().rposition(|message| is_prompt(message));
        let reply = self.messages.iter().rposition(|message| is_reply(message));
        let end = prompt.max(reply).unwrap_or(self.messages.len());
        let (mut kept, mut left_out) = (self.size.bytes, 0);
        // The kept messages never begin with results, so that a call is not separated from its
        // result.
        for (place, message) in self.messages.iter().enumerate().take(end) {
            if kept <= bytes && !matches!(**message, ChatMessage::ToolResults(_)) {
                break;
            }
            if Some(place) != prompt {
                kept -= byte_len(message);
            }
            left_out = place + 1;
        }
        let prompt = prompt.filter(|place| *place < left_out);
        let notes = usize::from(is_left_out_note(self.messages.first()));
        if left_out <= notes + usize::from(prompt.is_some()) {
            return false;
        }
        let mut rest = vec![Arc::new(ChatMessage::Context(LEFT_OUT_NOTE.to_owned()))];
        rest.extend(prompt.map(|place| self.messages[place].clone()));
        rest.extend(self.messages.iter().skip(left_out).cloned());
        self.replace_messages(rest);
        true
    }

    /// Counts one request to a model. Returns the number of earlier requests to this model since it
    /// was selected.
    pub(super) fn take_request_index(&mut self, taken_up: u64) -> usize {
        let before = self.request_count_of_model(taken_up);
        self.add_request_count(taken_up, 1);
        before
    }

    /// Adds `count` to the number of requests to a model.
    pub(super) fn add_request_count(&mut self, taken_up: u64, count: usize) {
        self.usage_totals.requests += count as u64;
        self.requests_of_model = (taken_up, self.request_count_of_model(taken_up) + count);
    }

    /// Returns the number of requests to a model since it was selected.
    pub(super) fn request_count_of_model(&self, taken_up: u64) -> usize {
        if self.requests_of_model.0 == taken_up { self.requests_of_model.1 } else { 0 }
    }

    /// Returns the context budget for the selected model.
    pub(super) fn budget_for_model(&mut self, chosen: &ActiveOptions) -> &mut ContextBudget {
        self.budget
            .reset_if_other_model(chosen.model.name(), chosen.model.capabilities().context_tokens)
    }

    /// Adds the token usage of a reply to the totals.
    pub(super) fn add_usage(&mut self, usage: &TokenUsage) {
        self.usage_totals.add(usage);
    }

    /// Returns the number of bytes of all messages.
    pub(super) fn byte_len(&self) -> usize {
        self.size.bytes
    }

    /// Returns the estimated size of all messages in a request, in bytes of text.
    pub(super) fn estimated_bytes(&self) -> u64 {
        self.size.estimated_bytes
    }
}

fn is_prompt(message: &ChatMessage) -> bool {
    matches!(message, ChatMessage::User(_))
}

fn is_reply(message: &ChatMessage) -> bool {
    matches!(message, ChatMessage::Assistant { .. })
}

fn has_result_images(message: &ChatMessage) -> bool {
    match message {
        ChatMessage::ToolResults(results) => results.iter().any(|result| !result.parts.is_empty()),
        _ => false,
    }
}

fn omit_result_images(message: &mut Arc<ChatMessage>, note: &str) {
    if let ChatMessage::ToolResults(results) = Arc::make_mut(message) {
        results.iter_mut().for_each(|result| result.replace_parts_with_note(note));
    }
}

/// Returns whether a prompt contains images or recordings, or a result contains images.
fn has_media(message: &ChatMessage) -> bool {
    match message {
        ChatMessage::User(parts) => parts.iter().any(|it| !matches!(it, ContentPart::Text(_))),
        message => has_result_images(message),
    }
}

fn omit_prompt_media(message: &mut Arc<ChatMessage>) {
    let ChatMessage::User(parts) = Arc::make_mut(message) else { return };
    for part in parts {
        let note = match part {
            ContentPart::Text(_) => continue,
            ContentPart::Image { .. } => REFUSED_IMAGE_NOTE,
            ContentPart::Audio { .. } => REFUSED_AUDIO_NOTE,
        };
        *part = ContentPart::Text(note.to_owned());
    }
}

fn is_left_out_note(message: Option<&Arc<ChatMessage>>) -> bool {
    matches!(message.map(|message| &**message), Some(ChatMessage::Context(text)) if text == LEFT_OUT_NOTE)
}

/// Returns the number of bytes of a message's content. Replay data is not counted, because it is
/// assumed to have about the same size as the content.
fn byte_len(message: &ChatMessage) -> usize {
    match message {
        ChatMessage::User(parts) => parts.iter().map(ContentPart::byte_len).sum(),
        ChatMessage::Context(text) => text.len(),
        ChatMessage::Assistant { text, thought, calls, .. } => {
            let calls = calls.iter().map(|call| call.name.len() + call.arguments.len());
            text.len() + thought.len() + calls.sum::<usize>()
        }
        ChatMessage::ToolResults(results) => results.iter().map(result_byte_len).sum(),
    }
}

fn result_byte_len(result: &ToolResult) -> usize {
    result.text.len() + parts_byte_len(result)
}

/// Returns the number of bytes of the images in a message's results.
fn result_images_byte_len(message: &ChatMessage) -> usize {
    match message {
        ChatMessage::ToolResults(results) => results.iter().map(parts_byte_len).sum(),
        _ => 0,
    }
}

fn parts_byte_len(result: &ToolResult) -> usize {
    result.parts.iter().map(ContentPart::byte_len).sum()
}

const REFUSED_IMAGE_NOTE: &str = "[The model does not support the image that was shown here.]";
const REFUSED_AUDIO_NOTE: &str = "[The model does not support the recording that was here.]";
const HIDDEN_IMAGE_NOTE: &str =
    "[The image that was shown here was left out to make room. Read it again if you need it.]";
const LOST_RESULT_NOTE: &str = "The turn ended before the result of this call was stored. The call may have been \
                                completed: check its effects before you repeat it.";
const LEFT_OUT_NOTE: &str =
    "Older messages of this session were left out here, because there were too many.";

#[cfg(test)]
pub(super) mod tests;
