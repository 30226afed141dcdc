//! A load of a session, page by page.

use acp_types::schema::v1::SessionId;

use crate::limits::{MAX_PAGE_RECORDS, PAGE_BYTES};
use crate::record::{RecordStream, StoredRecord};

/// Progress of a load: see [`SessionStore::next_page`](crate::SessionStore::next_page). Only a
/// store creates and changes this value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLoadProgress {
    /// The session that is loaded.
    pub session: SessionId,
    /// The stream that is loaded.
    pub stream: RecordStream,
    /// Minimum number of the next record.
    pub next: u64,
    /// All records of the load have smaller numbers than this.
    pub end: u64,
    /// Records with a short form are returned in their whole form from this number on.
    pub whole_from: u64,
    /// Number of damaged records found so far; the actual number may be higher. Such a record was
    /// skipped, or it was returned in its short form because its whole form is damaged.
    pub damaged: u64,
}

/// Returns the number from which records with a short form are returned in their whole form, so
/// that their whole forms have at most `budget` bytes. `heavy` has their numbers and the bytes of
/// their whole forms, newest first.
///
/// # Errors
///
/// Returns the first error of `heavy`.
pub fn first_whole_record_number<E>(
    heavy: impl IntoIterator<Item = Result<(u64, u64), E>>,
    budget: u64,
) -> Result<u64, E> {
    let mut left = budget;
    for record in heavy {
        let (seq, bytes) = record?;
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => return Ok(seq + 1),
        }
    }
    Ok(0)
}

/// A page of a load that is being filled: at most 256 records, or up to the record with which the
/// page exceeds 1 MiB.
#[derive(Debug, Default)]
pub struct RecordPage {
    /// The records of the page.
    pub records: Vec<StoredRecord>,
    bytes: usize,
}

impl RecordPage {
    /// Adds a record.
    pub fn push(&mut self, record: StoredRecord) {
        self.bytes += record.json.len();
        self.records.push(record);
    }

    /// Returns whether the page ends here.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes >= PAGE_BYTES || self.records.len() >= MAX_PAGE_RECORDS
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_newest_are_whole_as_far_as_the_budget_goes() {
        let from = |budget| {
            first_whole_record_number([(9, 10), (7, 10), (3, 10)].map(Ok::<_, Infallible>), budget)
        };
        for (budget, expected) in [(0, 10), (9, 10), (10, 8), (29, 4), (30, 0)] {
            assert_eq!(from(budget), Ok(expected), "{budget}");
        }
    }
}
