//! The retention policy: the limits of age and size. Sessions that exceed them are removed.

use std::time::{Duration, SystemTime};

use acp_types::schema::v1::SessionId;

/// Limits of the age and the size of the stored sessions. An open session is never removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionPolicy {
    /// Time for which a session is kept after its last update.
    pub keep: Option<Duration>,
    /// Maximum number of bytes of all sessions together. If there are more bytes, the oldest
    /// sessions are removed.
    pub max_bytes: Option<u64>,
    /// Minimum number of free bytes on the disk. If there are fewer free bytes, the oldest sessions
    /// are removed. A store without a disk ignores this limit.
    pub min_free_bytes: u64,
}

/// The result of removing sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneReport {
    /// The removed sessions, oldest first. If other data of these sessions is stored elsewhere, the
    /// caller can remove it too.
    pub sessions: Vec<SessionId>,
    /// Approximate size of the removed sessions in bytes.
    pub bytes: u64,
    /// Whether the limits are met now.
    pub outcome: PruneCompletion,
}

/// Whether the limits are met after a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PruneCompletion {
    /// The limits are met, except that open sessions may be too old.
    #[default]
    Done,
    /// There are more sessions to remove than one call removes. Call `prune` again.
    More,
    /// The limits are not met, because all remaining sessions are open.
    Held,
}

/// Decides which sessions to remove, oldest first.
#[derive(Debug)]
pub struct PruneBudget {
    /// Sessions whose last update is before this time are too old.
    oldest: Option<SystemTime>,
    /// Number of bytes that must still be removed.
    surplus: u64,
}

impl PruneBudget {
    /// Creates a budget. `bytes` is the size of all sessions, and `free` is the number of free
    /// bytes on the disk.
    #[must_use]
    pub fn new(
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

    /// Returns whether to remove a session.
    #[must_use]
    pub fn should_prune(&self, updated: SystemTime) -> bool {
        self.surplus > 0 || self.oldest.is_some_and(|oldest| updated < oldest)
    }

    /// Subtracts the bytes of a removed session.
    pub fn subtract_pruned_bytes(&mut self, bytes: u64) {
        self.surplus = self.surplus.saturating_sub(bytes);
    }

    /// Returns whether more bytes must be removed.
    #[must_use]
    pub fn has_surplus_bytes(&self) -> bool {
        self.surplus > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_pruned_by_age_and_then_by_both_limits_of_bytes() {
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
        // A session with an update time in the future is not too old.
        assert!(!pruning.should_prune(now + Duration::from_secs(1)));
        assert!(
            !PruneBudget::new(&RetentionPolicy::default(), now, 60, Some(0))
                .should_prune(SystemTime::UNIX_EPOCH)
        );
    }
}
