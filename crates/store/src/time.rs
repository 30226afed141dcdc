//! Times as they are stored: milliseconds since 1970.

use std::time::{Duration, SystemTime};

/// Returns a time in milliseconds since 1970, in which all times are stored; before that, 0.
pub(crate) fn millis_since_epoch(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // So that it fits into a signed number, too.
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).min(MAX_MILLIS)
}

/// Returns the time of so many milliseconds since 1970.
pub(crate) fn time_from_millis(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis.min(MAX_MILLIS))
}

/// Some 100,000 years after 1970, which every system can count.
const MAX_MILLIS: u64 = 1 << 52;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_stored_to_the_millisecond_or_at_the_end_of_the_range() {
        for millis_since in [0, 1, 1_700_000_000_123, MAX_MILLIS] {
            assert_eq!(millis_since_epoch(time_from_millis(millis_since)), millis_since);
        }
        assert_eq!(millis_since_epoch(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(millis_since_epoch(time_from_millis(u64::MAX)), MAX_MILLIS);
    }
}
