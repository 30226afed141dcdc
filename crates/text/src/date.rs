//! Formats a `SystemTime` as a UTC date, or as a UTC date and time.

use std::time::{Duration, SystemTime};

const DAY_DURATION: Duration = Duration::from_secs(24 * 60 * 60);
/// Number of days in 400 years. The calendar repeats after 400 years.
const DAYS_400: u64 = 146_097;

/// Returns the UTC date of a time in the form `2026-11-22`. For a time before 1970, returns
/// `1970-01-01`.
#[must_use]
pub fn format_utc_date(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Count the days from 1 March 0000. A counted year then begins in March and ends with its leap
    // day.
    let days = since.as_secs() / DAY_DURATION.as_secs() + 719_468;
    let (era, day) = (days / DAYS_400, days % DAYS_400);
    let year = (day - day / 1_460 + day / 36_524 - day / (DAYS_400 - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns a UTC time in RFC 3339 format with a precision of one second: `2026-11-22T09:05:00Z`.
#[must_use]
pub fn rfc3339_utc(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let second = since.as_secs() % DAY_DURATION.as_secs();
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", format_utc_date(time))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (364, "1970-12-31"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_779, "2026-11-22"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            let last_second = SystemTime::UNIX_EPOCH
                + DAY_DURATION * days
                + (DAY_DURATION - Duration::from_secs(1));
            assert_eq!(format_utc_date(last_second), expected);
            assert_eq!(rfc3339_utc(last_second), format!("{expected}T23:59:59Z"));
        }
        let morning = SystemTime::UNIX_EPOCH + Duration::from_secs(32_700);
        assert_eq!(rfc3339_utc(morning), "1970-01-01T09:05:00Z");
        assert_eq!(format_utc_date(SystemTime::UNIX_EPOCH - DAY_DURATION), "1970-01-01");
    }
}
