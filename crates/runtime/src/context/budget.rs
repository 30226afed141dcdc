//! How many tokens a request has, by estimate, and when it comes near to what the model takes.
//!
//! Pure. It knows no provider's tokens: it learns from what the providers count.

use std::sync::Arc;

use callboard_models::{Message, Part, ToolResult};

use crate::limits::{
    BYTES_PER_TOKEN, COMPACT_AT_PERCENT, COMPACT_TO_PERCENT, DEFAULT_CONTEXT_TOKENS, IMAGE_BYTES,
    LEARN_FROM_BYTES, MESSAGE_BYTES,
};

/// Returns what a message weighs: the bytes of its texts, and for an image as many as its tokens
/// would be as text.
pub(crate) fn weight(message: &Message) -> u64 {
    let bytes = match message {
        Message::User(parts) => parts.iter().map(part).sum(),
        Message::Context(text) => text.len(),
        // What is told again for the provider repeats what is said here, mostly.
        Message::Assistant { text, thought, calls, replay: _ } => {
            let calls = calls.iter().map(|call| call.name.len() + call.arguments.len());
            text.len() + thought.len() + calls.sum::<usize>()
        }
        Message::ToolResults(results) => {
            let result = |it: &ToolResult| {
                it.name.len() + it.text.len() + it.parts.iter().map(part).sum::<usize>()
            };
            results.iter().map(result).sum()
        }
    };
    (bytes + MESSAGE_BYTES) as u64
}

fn part(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.len(),
        Part::Image { .. } => IMAGE_BYTES,
        // Base64 of compressed sound: some ten times what its tokens are as text.
        Part::Audio { data, .. } => data.len() / 10,
    }
}

/// Returns what messages weigh together.
pub(super) fn weigh(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| weight(message)).sum()
}

/// How many tokens a model makes of what weighs so much, and how many it takes.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// The model that this was learnt of.
    model: String,
    /// Tokens of a thousand bytes.
    rate: u64,
    /// What the model takes, by what it says, or less, by what it refused.
    window: u64,
}

impl Default for Budget {
    /// Of no model yet.
    fn default() -> Self {
        Self::new("", None)
    }
}

impl Budget {
    /// Begins with a model of which nothing is learnt; `window` is what it says it takes.
    pub(crate) fn new(model: &str, window: Option<u64>) -> Self {
        let window = window.filter(|tokens| *tokens > 0).unwrap_or(DEFAULT_CONTEXT_TOKENS);
        Self { model: model.to_owned(), rate: DEFAULT_RATE, window }
    }

    /// Returns this, or a new beginning if it is of another model.
    pub(crate) fn of(&mut self, model: &str, window: Option<u64>) -> &mut Self {
        if self.model != model {
            *self = Self::new(model, window);
        }
        self
    }

    /// Learns from what a request weighed and how many tokens the provider counted. Some that do
    /// not count say 0.
    pub(crate) fn learn(&mut self, weight: u64, tokens: u64) {
        if weight >= LEARN_FROM_BYTES && tokens > 0 {
            let rate = tokens.saturating_mul(1_000) / weight;
            self.rate = rate.clamp(DEFAULT_RATE / 2, DEFAULT_RATE * 8);
        }
    }

    /// Learns from a request that the provider refused as too long.
    pub(crate) fn refused(&mut self, weight: u64) {
        let under = self.tokens(weight) / 100 * 90;
        self.window = self.window.min(under.max(1));
    }

    /// Estimates the tokens of what weighs so much.
    pub(crate) fn tokens(&self, weight: u64) -> u64 {
        weight.saturating_mul(self.rate) / 1_000
    }

    /// Returns how many tokens the model takes, as far as is known.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Returns whether a request that weighs so much comes near to what the model takes.
    pub(crate) fn is_near(&self, weight: u64) -> bool {
        self.tokens(weight) > self.window / 100 * COMPACT_AT_PERCENT
    }

    /// Returns what a request may weigh after a compaction.
    pub(crate) fn goal(&self) -> u64 {
        self.weight_of(self.window / 100 * COMPACT_TO_PERCENT)
    }

    /// Returns what so many tokens weigh.
    pub(crate) fn weight_of(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(1_000) / self.rate
    }
}

const DEFAULT_RATE: u64 = 1_000 / BYTES_PER_TOKEN;

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_request_is_near_at_four_fifths_of_the_window() {
        let budget = Budget::new("m", Some(10_000));
        for (weight, is_near) in [(0, false), (32_000, false), (32_004, true), (80_000, true)] {
            assert_eq!(budget.is_near(weight), is_near, "{weight}");
        }
        assert_eq!(budget.goal(), 20_000);
    }

    #[test]
    fn a_model_that_does_not_say_what_it_takes_is_given_the_default() {
        for window in [None, Some(0)] {
            assert_eq!(Budget::new("m", window).window(), DEFAULT_CONTEXT_TOKENS);
        }
    }

    #[test]
    fn the_rate_is_learnt_from_what_the_provider_counts_within_reason() {
        for (weight, counted, expected) in [
            (100_000, 50_000, 500),
            (100_000, 20_000, 200),
            (100_000, 1, 125),
            (100_000, 0, 250),
            (100_000, u64::MAX, 2_000),
            // Too little to learn from.
            (10, 1_000, 250),
        ] {
            let mut budget = Budget::new("m", Some(1));
            budget.learn(weight, counted);
            assert_eq!(budget.tokens(1_000), expected, "{weight} {counted}");
        }
    }

    #[test]
    fn what_is_learnt_of_one_model_is_not_held_of_another() {
        let mut budget = Budget::new("a", Some(100_000));
        budget.learn(100_000, 100_000);
        budget.refused(20_000);
        assert_eq!((budget.window(), budget.tokens(1_000)), (18_000, 1_000));
        assert_eq!(budget.of("a", Some(100_000)).window(), 18_000);
        assert_eq!(budget.of("b", None).tokens(1_000), 250);
    }

    #[test]
    fn an_image_weighs_what_its_tokens_do_and_not_what_its_bytes_do() {
        let image = Part::Image { media_type: "image/png".into(), data: "A".repeat(1 << 20) };
        let weight = weight(&Message::User(vec![image]));
        assert_eq!(weight, (IMAGE_BYTES + MESSAGE_BYTES) as u64);
    }
}
