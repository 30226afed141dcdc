//! Sums of the token usage over the replies of a session.

use callboard_models::TokenUsage;
use serde::{Deserialize, Serialize};

/// The usage of all replies of a session, summed over all models. Usage that a model does not
/// report is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UsageTotals {
    /// Number of requests to models, including failed attempts.
    pub(crate) requests: u64,
    /// Tokens of the requests, including cached tokens.
    pub(crate) input_tokens: u64,
    /// Tokens of the replies, including thoughts.
    pub(crate) output_tokens: u64,
    /// Tokens of the requests that were read from a cache.
    pub(crate) cached_tokens: u64,
    /// Tokens of the replies that were thoughts.
    pub(crate) thought_tokens: u64,
    /// Cost of the replies in millionths of a US dollar; `None` if no model reported its cost.
    pub(crate) cost_micros: Option<u64>,
}

impl UsageTotals {
    /// Adds the usage of one reply.
    pub(crate) fn add(&mut self, usage: &TokenUsage) {
        let add = |sum: &mut u64, more: Option<u64>| *sum = sum.saturating_add(more.unwrap_or(0));
        add(&mut self.input_tokens, usage.input_tokens);
        add(&mut self.output_tokens, usage.output_tokens);
        add(&mut self.cached_tokens, usage.cached_tokens);
        add(&mut self.thought_tokens, usage.thought_tokens);
        if let Some(cost) = usage.cost_micros {
            self.cost_micros = Some(self.cost_micros.unwrap_or(0).saturating_add(cost));
        }
    }
}
