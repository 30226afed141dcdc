//! Shortens a session before its model refuses a request as too long, and notifies the client.

use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::SessionHandle;
use acp_types::{Compaction, CompactionStatus, SessionStatePart};
use callboard_models::{ChatMessage, Model, TokenUsage};
use callboard_text::count_with_noun;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use super::budget::{ContextBudget, estimated_bytes, total_estimated_bytes};
use super::summary::SummaryError;
use super::{summary, trim};
use crate::limits::{MAX_KEPT_PLAN_BYTES, MAX_SUMMARY_BYTES, MAX_TRANSCRIPT_BYTES};
use crate::retry::RetryState;

/// The parameters of a compaction.
#[derive(Clone, Copy)]
pub(crate) struct Compactor<'a> {
    pub(crate) model: &'a dyn Model,
    pub(crate) handle: &'a SessionHandle,
    pub(crate) cancel: &'a CancellationToken,
    /// Estimated size of a request without its messages, in bytes.
    pub(crate) overhead_bytes: u64,
    /// Number of earlier requests to the model.
    pub(crate) index: usize,
    /// Name of the tool to which the model sends its plan.
    pub(crate) plan_tool: Option<&'a str>,
    /// Why the session is compacted, which determines how much room a summary must make.
    pub(crate) cause: CompactionCause,
}

/// The reason why a session is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactionCause {
    /// The next request would nearly fill the window.
    NearlyFull,
    /// The model has refused a request as too long, so a little room may be enough.
    Refused,
}

/// The result of a compaction.
#[derive(Debug)]
pub(crate) enum CompactionOutcome {
    /// No message could be removed or shortened.
    Nothing {
        /// Number of requests that asked the model for a summary. The summary was not shorter than
        /// the messages.
        requests: usize,
        /// Token usage of the requests for the summary.
        usage: Option<TokenUsage>,
    },
    /// The messages have been shortened.
    Compacted {
        /// Number of requests that asked the model for the summary.
        requests: usize,
        /// Token usage of the requests for the summary.
        usage: Option<TokenUsage>,
    },
    /// The turn was cancelled during the compaction. The messages have not been changed.
    Cancelled {
        /// Number of requests that asked the model for the summary.
        requests: usize,
    },
}

impl Compactor<'_> {
    /// Removes the texts of older results. If the messages are still too long, also replaces older
    /// messages by a summary.
    pub(crate) async fn compact(
        &self,
        budget: &ContextBudget,
        messages: &mut Vec<Arc<ChatMessage>>,
    ) -> CompactionOutcome {
        let least = budget.bytes_for_tokens(budget.window_tokens() / 4);
        let goal = budget.compaction_target_bytes().saturating_sub(self.overhead_bytes).max(least);
        let mut kept = messages.clone();
        let cleared = trim::clear_older_results(&mut kept, goal);
        let text_room = (goal / 4).min((MAX_SUMMARY_BYTES + MAX_KEPT_PLAN_BYTES) as u64);
        let notice = self.create_notifier(budget, messages);
        let mut made = SummaryOutcome::default();
        if total_estimated_bytes(&kept) > goal {
            let mut shorter = kept.clone();
            let split = trim::split_history(&mut shorter, goal - text_room);
            let old = split.old_messages(&shorter);
            if self.is_summary_worth_requesting(&old, text_room) {
                made = self
                    .request_summary_with_retries(
                        budget,
                        &old,
                        split.kept_prompt(&shorter),
                        &notice,
                    )
                    .await;
                if made.is_cancelled {
                    let words = "The summary was cancelled.";
                    notice.send_status(CompactionStatus::Cancelled, None, words);
                    return CompactionOutcome::Cancelled { requests: made.requests };
                }
                let max = usize::try_from(text_room).unwrap_or(usize::MAX);
                let replacement =
                    summary::replacement_text(made.text.as_deref(), &old, self.plan_tool, max);
                kept = split.replace_old_messages(&shorter, replacement);
            } else if self.estimate_request_tokens(budget, &kept) > budget.window_tokens() {
                // The split has truncated the newest results.
                kept = shorter;
            }
        }
        if total_estimated_bytes(&kept) >= total_estimated_bytes(messages) {
            if made.requests > 0 {
                notice.send_failed();
            }
            return CompactionOutcome::Nothing { requests: made.requests, usage: made.usage };
        }
        notice.send_completed(&made, cleared, self.estimate_request_tokens(budget, &kept));
        *messages = kept;
        CompactionOutcome::Compacted { requests: made.requests, usage: made.usage }
    }

    /// Returns whether a summary of at most `max` bytes may make enough room. If a nearly full
    /// session has few old messages, e.g. because its newest prompt is very long, a summary is not
    /// requested, because each later request would request another one.
    fn is_summary_worth_requesting(&self, old: &[&ChatMessage], max: u64) -> bool {
        let new = old.iter().filter(|message| !summary::is_replacement(message));
        let bytes: u64 = new.map(|message| estimated_bytes(message)).sum();
        match self.cause {
            CompactionCause::NearlyFull => bytes > max,
            CompactionCause::Refused => bytes > 0,
        }
    }

    fn estimate_request_tokens(
        &self,
        budget: &ContextBudget,
        messages: &[Arc<ChatMessage>],
    ) -> u64 {
        budget.estimate_tokens(self.overhead_bytes + total_estimated_bytes(messages))
    }

    /// Requests a summary. A failed request is retried as often as a failed request of a turn.
    async fn request_summary_with_retries(
        &self,
        budget: &ContextBudget,
        old: &[&ChatMessage],
        prompt: Option<&ChatMessage>,
        notice: &CompactionNotifier<'_>,
    ) -> SummaryOutcome {
        let max = usize::try_from(budget.compaction_target_bytes())
            .unwrap_or(usize::MAX)
            .min(MAX_TRANSCRIPT_BYTES);
        let asked = summary::SummaryRequest {
            old,
            kept_prompt: prompt,
            max_bytes: max,
            context_tokens: budget.window_tokens(),
        };
        let (mut made, mut retry) = (SummaryOutcome::default(), RetryState::new());
        notice.send_status(CompactionStatus::InProgress, None, "Older messages are summarised.");
        loop {
            let index = self.index + made.requests;
            made.requests += 1;
            let Some(answer) =
                self.unless_cancelled(summary::request_summary(self.model, index, asked)).await
            else {
                return SummaryOutcome { is_cancelled: true, ..made };
            };
            let fault = match answer {
                Ok(summary) => {
                    return SummaryOutcome {
                        text: Some(summary.text),
                        usage: summary.usage,
                        ..made
                    };
                }
                Err(fault) => fault,
            };
            let Some(pause) = fault.retry_delay(&mut retry) else {
                tracing::warn!(%fault, "older messages are left out without a summary");
                return SummaryOutcome { error: Some(fault.to_string()), ..made };
            };
            notice.send_retry(&fault, pause);
            if self.unless_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return SummaryOutcome { is_cancelled: true, ..made };
            }
        }
    }

    /// Awaits `work`. Returns `None` if the turn is cancelled before `work` has ended.
    async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            done = work => Some(done),
        }
    }

    fn create_notifier(
        &self,
        budget: &ContextBudget,
        messages: &[Arc<ChatMessage>],
    ) -> CompactionNotifier<'_> {
        CompactionNotifier {
            handle: self.handle,
            id: format!("compaction_{}", Ulid::generate()),
            context_tokens: budget.window_tokens(),
            tokens_before: self.estimate_request_tokens(budget, messages),
        }
    }
}

/// The result of all requests for a summary.
#[derive(Debug, Default)]
struct SummaryOutcome {
    requests: usize,
    is_cancelled: bool,
    text: Option<String>,
    usage: Option<TokenUsage>,
    error: Option<String>,
}

/// Notifies the client about one compaction. A client that cannot show compactions receives the
/// first text of the summary as a message: see `UpdateSupport` of `acp-connection`.
struct CompactionNotifier<'a> {
    handle: &'a SessionHandle,
    id: String,
    context_tokens: u64,
    tokens_before: u64,
}

impl CompactionNotifier<'_> {
    fn send_status(&self, status: CompactionStatus, after: Option<u64>, words: &str) {
        self.send_compaction(self.build_compaction(status, after, vec![words.to_owned()]));
    }

    fn send_retry(&self, fault: &SummaryError, pause: Duration) {
        let seconds = pause.as_secs_f64();
        let words = format!("No summary yet: {fault}. It is asked again in {seconds:.1} s.");
        self.send_status(CompactionStatus::InProgress, None, &words);
    }

    fn send_failed(&self) {
        let words = "The summary is not shorter than the messages, so the messages are kept.";
        let summary = vec![words.to_owned()];
        let mut compaction = self.build_compaction(CompactionStatus::Failed, None, summary);
        compaction.error = Some(words.to_owned());
        self.send_compaction(compaction);
    }

    fn send_completed(&self, made: &SummaryOutcome, cleared: usize, after: u64) {
        let Self { context_tokens: window, tokens_before: before, .. } = self;
        let mut words = format!(
            "The session used about {before} of the {window} tokens of the model's window; now it \
             uses about {after}."
        );
        if cleared > 0 {
            let what = count_with_noun(
                cleared as u64,
                "older result of a call was",
                "older results of calls were",
            );
            words.push_str(&format!(" {what} left out."));
        }
        let is_summarised = made.text.is_some();
        if is_summarised {
            words.push_str(" Older messages were replaced by a summary.");
        } else if let Some(fault) = &made.error {
            words.push_str(&format!(" Older messages were left out without a summary: {fault}."));
        }
        let summary = [Some(words), made.text.clone()].into_iter().flatten().collect();
        let mut compaction =
            self.build_compaction(CompactionStatus::Completed, Some(after), summary);
        compaction.error.clone_from(&made.error);
        self.send_compaction(compaction);
    }

    fn build_compaction(
        &self,
        status: CompactionStatus,
        after: Option<u64>,
        summary: Vec<String>,
    ) -> Compaction {
        let mut compaction = Compaction::new(self.id.clone(), status, summary);
        compaction.tokens_before = Some(self.tokens_before);
        compaction.tokens_after = after;
        compaction.context_tokens = Some(self.context_tokens);
        compaction
    }

    fn send_compaction(&self, compaction: Compaction) {
        self.handle.send_state(SessionStatePart::Compaction(compaction));
    }
}

#[cfg(test)]
mod tests;
