//! Which sessions are removed, and when.

use std::time::{Duration, SystemTime};

use acp_types::schema::v1::SessionId;

/// How long and how much is kept. An open session always stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// How long a session is kept after its last update.
    pub keep: Option<Duration>,
    /// How many bytes all sessions may have together; above, the oldest go.
    pub max_bytes: Option<u64>,
    /// How many bytes are to be free on the disk; below, the oldest go. A store without a disk
    /// ignores it.
    pub min_free_bytes: u64,
}

/// The sessions that were removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneReport {
    /// The sessions, oldest first. Their data elsewhere can be removed, too.
    pub sessions: Vec<SessionId>,
    /// About how many bytes they took.
    pub bytes: u64,
    /// Whether the bounds hold now; if not, what is left is open, or there was too much for one call.
    pub outcome: PruneOutcome,
}

/// Whether the bounds hold after a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PruneOutcome {
    /// They hold, except that open sessions may be too old.
    #[default]
    Done,
    /// Call it again: so many sessions go at once, and there are more.
    More,
    /// All that is left is open.
    Held,
}

/// Decides over sessions, oldest first.
#[derive(Debug)]
pub(crate) struct PruneBudget {
    /// Sessions last updated before this are too old.
    oldest: Option<SystemTime>,
    /// Bytes that must still go.
    surplus: u64,
}

impl PruneBudget {
    /// `bytes` are those of all sessions, `free` those of the disk.
    pub(crate) fn new(
        retention: &RetentionPolicy,
        now: SystemTime,
        bytes: u64,
        free: Option<u64>,
    ) -> Self {
        let over = retention.max_bytes.map_or(0, |max| bytes.saturating_sub(max));
        let missing = free.map_or(0, |free| retention.min_free_bytes.saturating_sub(free));
        Self {
            oldest: retention.keep.and_then(|keep| now.checked_sub(keep)),
            surplus: over.max(missing),
        }
    }

    /// Returns whether a session goes.
    pub(crate) fn should_prune(&self, updated: SystemTime) -> bool {
        self.surplus > 0 || self.oldest.is_some_and(|oldest| updated < oldest)
    }

    /// Notes that a session is gone.
    pub(crate) fn subtract_pruned_bytes(&mut self, bytes: u64) {
        self.surplus = self.surplus.saturating_sub(bytes);
    }

    /// Returns whether bytes must still go.
    pub(crate) fn has_surplus_bytes(&self) -> bool {
        self.surplus > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_go_by_age_and_then_until_the_bytes_are_within_both_bounds() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let ago = |seconds| now - Duration::from_secs(seconds);
        let retention = RetentionPolicy {
            keep: Some(Duration::from_secs(100)),
            max_bytes: Some(50),
            min_free_bytes: 70,
        };
        let mut pruning = PruneBudget::new(&retention, now, 60, Some(40));
        assert!(pruning.should_prune(ago(1)) && pruning.should_prune(ago(101)));
        pruning.subtract_pruned_bytes(29);
        assert!(pruning.has_surplus_bytes() && pruning.should_prune(ago(1)));
        pruning.subtract_pruned_bytes(1);
        assert!(
            !pruning.has_surplus_bytes()
                && !pruning.should_prune(ago(100))
                && pruning.should_prune(ago(101))
        );
        // A session from the future is not old.
        assert!(!pruning.should_prune(now + Duration::from_secs(1)));
        assert!(
            !PruneBudget::new(&RetentionPolicy::default(), now, 60, Some(0))
                .should_prune(SystemTime::UNIX_EPOCH)
        );
    }
}
