//! Makes room in a session before its model refuses a request, and tells the client of it.
//!
//! It knows nothing of turns: it is given messages and returns fewer.

use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::SessionHandle;
use acp_types::{Compaction, CompactionStatus, SessionState};
use callboard_models::{Message, Model, Usage};
use callboard_text::counted;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use super::budget::{Budget, weigh};
use super::summary::NoSummary;
use super::{compact, summary};
use crate::limits::{SUMMARISED_BYTES, SUMMARY_BYTES, TOLD_PLAN_BYTES};
use crate::retry::Retry;

/// What making room needs.
#[derive(Clone, Copy)]
pub(crate) struct Maker<'a> {
    pub(crate) model: &'a dyn Model,
    pub(crate) handle: &'a SessionHandle,
    pub(crate) cancel: &'a CancellationToken,
    /// What a request weighs beside its messages.
    pub(crate) beside: u64,
    /// How often the model was asked before.
    pub(crate) index: usize,
    /// The tool that is given the plan.
    pub(crate) plan_tool: Option<&'a str>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Made {
    /// There was nothing to leave out.
    Nothing,
    /// The messages weigh less now.
    Room {
        /// How often the model was asked for it.
        asked: usize,
        /// What that took.
        usage: Option<Usage>,
    },
    /// The turn was cancelled meanwhile; the messages are as they were.
    Cancelled {
        /// How often the model was asked.
        asked: usize,
    },
}

impl Maker<'_> {
    /// Leaves out older results of calls and, if that is not enough, puts a summary into the place
    /// of older messages.
    pub(crate) async fn make(&self, budget: &Budget, messages: &mut Vec<Arc<Message>>) -> Made {
        let least = budget.weight_of(budget.window() / 4);
        let goal = budget.goal().saturating_sub(self.beside).max(least);
        let mut kept = messages.clone();
        let cleared = compact::clear_results(&mut kept, goal);
        let told_room = (goal / 4).min((SUMMARY_BYTES + TOLD_PLAN_BYTES) as u64);
        let notice = self.notice(budget, messages);
        let mut made = Summarised::default();
        if weigh(&kept) > goal {
            let split = compact::split(&mut kept, goal - told_room);
            let old = split.old(&kept);
            if old.iter().any(|message| !summary::is_told(message)) {
                notice.tell(CompactionStatus::InProgress, None, "Older messages are summarised.");
                made = self.summarise(budget, &old, split.prompt(&kept), &notice).await;
                if made.is_cancelled {
                    notice.tell(CompactionStatus::Cancelled, None, "The summary was cancelled.");
                    return Made::Cancelled { asked: made.asked };
                }
                let max = usize::try_from(told_room).unwrap_or(usize::MAX);
                let told = summary::told(made.text.as_deref(), &old, self.plan_tool, max);
                kept = split.join(&kept, told);
            }
        }
        if weigh(&kept) >= weigh(messages) {
            return Made::Nothing;
        }
        notice.tell_of(&made, cleared, budget.tokens(self.beside + weigh(&kept)));
        *messages = kept;
        Made::Room { asked: made.asked, usage: made.usage }
    }

    /// Asks for a summary, again where that may help, as a turn asks for a reply.
    async fn summarise(
        &self,
        budget: &Budget,
        old: &[&Message],
        prompt: Option<&Message>,
        notice: &Notice<'_>,
    ) -> Summarised {
        let max = usize::try_from(budget.goal()).unwrap_or(usize::MAX).min(SUMMARISED_BYTES);
        let asked = summary::Asked { old, prompt, max, window: budget.window() };
        let (mut made, mut retry) = (Summarised::default(), Retry::new());
        loop {
            let index = self.index + made.asked;
            made.asked += 1;
            let Some(answer) = self.unless_cancelled(summary::ask(self.model, index, asked)).await
            else {
                return Summarised { is_cancelled: true, ..made };
            };
            let fault = match answer {
                Ok(summary) => {
                    return Summarised { text: Some(summary.text), usage: summary.usage, ..made };
                }
                Err(fault) => fault,
            };
            let Some(pause) = fault.pause(&mut retry) else {
                tracing::warn!(%fault, "older messages are left out without a summary");
                return Summarised { fault: Some(fault.to_string()), ..made };
            };
            notice.send_retry(&fault, pause);
            if self.unless_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return Summarised { is_cancelled: true, ..made };
            }
        }
    }

    /// Does something to its end, unless the turn is cancelled before.
    async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            done = work => Some(done),
        }
    }

    fn notice(&self, budget: &Budget, messages: &[Arc<Message>]) -> Notice<'_> {
        Notice {
            handle: self.handle,
            id: format!("compaction_{}", Ulid::generate()),
            window: budget.window(),
            before: budget.tokens(self.beside + weigh(messages)),
        }
    }
}

/// What asking for a summary came to.
#[derive(Debug, Default)]
struct Summarised {
    asked: usize,
    is_cancelled: bool,
    text: Option<String>,
    usage: Option<Usage>,
    fault: Option<String>,
}

/// Tells the client of one compaction. What a client cannot show as one is told in the words of its
/// first text: see `Shows` of `acp-connection`.
struct Notice<'a> {
    handle: &'a SessionHandle,
    id: String,
    window: u64,
    before: u64,
}

impl Notice<'_> {
    fn tell(&self, status: CompactionStatus, after: Option<u64>, words: &str) {
        self.send(self.compaction(status, after, vec![words.to_owned()]));
    }

    fn send_retry(&self, fault: &NoSummary, pause: Duration) {
        let seconds = pause.as_secs_f64();
        let words = format!("No summary yet: {fault}. It is asked again in {seconds:.1} s.");
        self.tell(CompactionStatus::InProgress, None, &words);
    }

    fn tell_of(&self, made: &Summarised, cleared: usize, after: u64) {
        let Self { window, before, .. } = self;
        let mut words = format!(
            "The session filled about {before} of the {window} tokens that the model takes; now it \
             is about {after}."
        );
        if cleared > 0 {
            let what = counted(
                cleared as u64,
                "older result of a call was",
                "older results of calls were",
            );
            words.push_str(&format!(" {what} left out."));
        }
        let is_summarised = made.text.is_some();
        if is_summarised {
            words.push_str(" Older messages were replaced by a summary.");
        } else if let Some(fault) = &made.fault {
            words.push_str(&format!(" Older messages were left out without a summary: {fault}."));
        }
        let summary = [Some(words), made.text.clone()].into_iter().flatten().collect();
        let mut compaction = self.compaction(CompactionStatus::Completed, Some(after), summary);
        compaction.error.clone_from(&made.fault);
        self.send(compaction);
    }

    fn compaction(
        &self,
        status: CompactionStatus,
        after: Option<u64>,
        summary: Vec<String>,
    ) -> Compaction {
        let mut compaction = Compaction::new(self.id.clone(), status, summary);
        compaction.tokens_before = Some(self.before);
        compaction.tokens_after = after;
        compaction.context_tokens = Some(self.window);
        compaction
    }

    fn send(&self, compaction: Compaction) {
        self.handle.send_state(SessionState::Compaction(compaction));
    }
}

#[cfg(test)]
mod tests;
