//! Estimates the tokens of a request, and detects that a request nearly fills the model's window.
//!
//! The providers' token counts calibrate the estimate, so no tokenizer is needed.

use std::sync::Arc;

use callboard_models::{ChatMessage, ContentPart, ToolResult};

use crate::limits::{
    BYTES_PER_TOKEN, COMPACT_AT_PERCENT, COMPACT_TO_PERCENT, DEFAULT_CONTEXT_TOKENS,
    IMAGE_ESTIMATED_BYTES, MESSAGE_OVERHEAD_BYTES, MIN_CALIBRATION_BYTES,
};

/// Returns the estimated size of a message in bytes of text. An image or a recording counts as many
/// bytes as a text with the same number of tokens.
pub(crate) fn estimated_bytes(message: &ChatMessage) -> u64 {
    let bytes = match message {
        ChatMessage::User(parts) => parts.iter().map(estimated_part_bytes).sum(),
        ChatMessage::Context(text) => text.len(),
        // Replay data is not counted, because most of it repeats the text of the reply.
        ChatMessage::Assistant { text, thought, calls, replay: _ } => {
            let calls = calls.iter().map(|call| call.name.len() + call.arguments.len());
            text.len() + thought.len() + calls.sum::<usize>()
        }
        ChatMessage::ToolResults(results) => {
            let result = |it: &ToolResult| {
                it.name.len()
                    + it.text.len()
                    + it.parts.iter().map(estimated_part_bytes).sum::<usize>()
            };
            results.iter().map(result).sum()
        }
    };
    (bytes + MESSAGE_OVERHEAD_BYTES) as u64
}

fn estimated_part_bytes(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text(text) => text.len(),
        ContentPart::Image { .. } => IMAGE_ESTIMATED_BYTES,
        // Compressed audio in base64 has about ten times as many bytes as a text with the same
        // number of tokens.
        ContentPart::Audio { data, .. } => data.len() / 10,
    }
}

/// Returns the sum of the estimated sizes of several messages.
pub(super) fn total_estimated_bytes(messages: &[Arc<ChatMessage>]) -> u64 {
    messages.iter().map(|message| estimated_bytes(message)).sum()
}

/// The context window of a model, and the estimated number of tokens per byte of its requests.
#[derive(Clone, Debug)]
pub(crate) struct ContextBudget {
    /// Name of the model for which this budget was calibrated.
    model: String,
    /// Estimated number of tokens per thousand bytes.
    rate: u64,
    /// The context window in tokens. The initial value is the window that the model reports. The
    /// window is made smaller when the provider refuses a request as too long.
    window: u64,
}

impl Default for ContextBudget {
    /// Creates a budget that belongs to no model. It is reset when the first model is known.
    fn default() -> Self {
        Self::new("", None)
    }
}

impl ContextBudget {
    /// Creates a budget for a model that has not been calibrated yet. `window` is the context
    /// window that the model reports.
    pub(crate) fn new(model: &str, window: Option<u64>) -> Self {
        let window = window.filter(|tokens| *tokens > 0).unwrap_or(DEFAULT_CONTEXT_TOKENS);
        Self { model: model.to_owned(), rate: DEFAULT_RATE, window }
    }

    /// Returns this budget for a model. If the budget was calibrated for another model, it is reset
    /// first.
    pub(crate) fn reset_if_other_model(&mut self, model: &str, window: Option<u64>) -> &mut Self {
        if self.model != model {
            *self = Self::new(model, window);
        }
        self
    }

    /// Calibrates the number of tokens per byte. `weight` is the size of a request, and `tokens` is
    /// the number of tokens that the provider counted. A provider that does not count tokens
    /// reports 0.
    pub(crate) fn calibrate(&mut self, weight: u64, tokens: u64) {
        if weight >= MIN_CALIBRATION_BYTES && tokens > 0 {
            let rate = tokens.saturating_mul(1_000) / weight;
            self.rate = rate.clamp(DEFAULT_RATE / 2, DEFAULT_RATE * 8);
        }
    }

    /// Makes the window smaller after the provider has refused a request of this size as too long.
    pub(crate) fn shrink_window(&mut self, weight: u64) {
        let under = self.estimate_tokens(weight) / 100 * 90;
        self.window = self.window.min(under.max(1));
    }

    /// Returns the estimated number of tokens of a request of this size.
    pub(crate) fn estimate_tokens(&self, weight: u64) -> u64 {
        weight.saturating_mul(self.rate) / 1_000
    }

    /// Returns the context window in tokens. If the model reports no window, returns a default.
    pub(crate) fn window_tokens(&self) -> u64 {
        self.window
    }

    /// Returns whether a request of this size nearly fills the window, so that the session should
    /// be compacted.
    pub(crate) fn needs_compaction(&self, weight: u64) -> bool {
        self.estimate_tokens(weight) > self.window / 100 * COMPACT_AT_PERCENT
    }

    /// Returns the maximum size of a request after a compaction, in bytes.
    pub(crate) fn compaction_target_bytes(&self) -> u64 {
        self.bytes_for_tokens(self.window / 100 * COMPACT_TO_PERCENT)
    }

    /// Returns the number of bytes that probably have `tokens` tokens.
    pub(crate) fn bytes_for_tokens(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(1_000) / self.rate
    }
}

const DEFAULT_RATE: u64 = 1_000 / BYTES_PER_TOKEN;

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_request_needs_compaction_above_four_fifths_of_the_window() {
        let budget = ContextBudget::new("m", Some(10_000));
        for (weight, is_near) in [(0, false), (32_000, false), (32_004, true), (80_000, true)] {
            assert_eq!(budget.needs_compaction(weight), is_near, "{weight}");
        }
        assert_eq!(budget.compaction_target_bytes(), 20_000);
    }

    #[test]
    fn a_model_without_a_known_window_gets_the_default() {
        for window in [None, Some(0)] {
            assert_eq!(ContextBudget::new("m", window).window_tokens(), DEFAULT_CONTEXT_TOKENS);
        }
    }

    #[test]
    fn the_rate_is_calibrated_with_token_counts_within_bounds() {
        for (weight, counted, expected) in [
            (100_000, 50_000, 500),
            (100_000, 20_000, 200),
            (100_000, 1, 125),
            (100_000, 0, 250),
            (100_000, u64::MAX, 2_000),
            // This request is too small to change the rate.
            (10, 1_000, 250),
        ] {
            let mut budget = ContextBudget::new("m", Some(1));
            budget.calibrate(weight, counted);
            assert_eq!(budget.estimate_tokens(1_000), expected, "{weight} {counted}");
        }
    }

    #[test]
    fn the_calibration_of_one_model_does_not_apply_to_another() {
        let mut budget = ContextBudget::new("a", Some(100_000));
        budget.calibrate(100_000, 100_000);
        budget.shrink_window(20_000);
        assert_eq!((budget.window_tokens(), budget.estimate_tokens(1_000)), (18_000, 1_000));
        assert_eq!(budget.reset_if_other_model("a", Some(100_000)).window_tokens(), 18_000);
        assert_eq!(budget.reset_if_other_model("b", None).estimate_tokens(1_000), 250);
    }

    #[test]
    fn an_image_counts_by_its_tokens_and_not_by_its_bytes() {
        let image =
            ContentPart::Image { media_type: "image/png".into(), data: "A".repeat(1 << 20) };
        let weight = estimated_bytes(&ChatMessage::User(vec![image]));
        assert_eq!(weight, (IMAGE_ESTIMATED_BYTES + MESSAGE_OVERHEAD_BYTES) as u64);
    }
}
