//! Converts times to their stored form: milliseconds since 1970.

use std::time::{Duration, SystemTime};

/// Returns a time as milliseconds since 1970, which is the stored form of all times. Returns 0 for
/// a time before 1970.
#[must_use]
pub fn millis_since_epoch(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // With the limit, the value also fits into a signed integer.
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).min(MAX_MILLIS)
}

/// Returns the time that is `millis` milliseconds after 1970.
#[must_use]
pub fn time_from_millis(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis.min(MAX_MILLIS))
}

/// Largest stored time, more than 100,000 years after 1970. Every system can represent this time.
const MAX_MILLIS: u64 = 1 << 52;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_stored_in_milliseconds_within_the_range() {
        for millis_since in [0, 1, 1_700_000_000_123, MAX_MILLIS] {
            assert_eq!(millis_since_epoch(time_from_millis(millis_since)), millis_since);
        }
        assert_eq!(millis_since_epoch(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(millis_since_epoch(time_from_millis(u64::MAX)), MAX_MILLIS);
    }
}
