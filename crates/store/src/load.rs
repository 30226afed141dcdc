//! A load of a session, page by page.

use acp_types::schema::v1::SessionId;

use crate::limits::{MAX_FIRST_PAGE_RECORDS, MAX_PAGE_RECORDS, PAGE_BYTES};
use crate::record::{RecordStream, StoredRecord};

/// Progress of a load: see
/// [`SessionStore::load_next_records`](crate::SessionStore::load_next_records). Only a store
/// creates and changes this value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLoadProgress {
    /// The session to load.
    pub session: SessionId,
    /// The stream to load.
    pub stream: RecordStream,
    /// Smallest possible number of the next record.
    pub next: u64,
    /// Exclusive upper bound of the record numbers in this load.
    pub end: u64,
    /// Records with a short form are returned in their whole form only from this number on.
    pub whole_from: u64,
    /// Number of damaged records that were found so far; the actual number may be higher. A damaged
    /// record is skipped. If only its whole form is damaged, it is returned in its short form.
    pub damaged: u64,
    /// Whether a page was returned already.
    pub has_begun: bool,
}

impl SessionLoadProgress {
    /// Creates a load of the records before `end`, from the first record, all in their whole form.
    #[must_use]
    pub fn new(session: SessionId, stream: RecordStream, end: u64) -> Self {
        Self { session, stream, next: 0, end, whole_from: 0, damaged: 0, has_begun: false }
    }
}

/// Returns the number from which on records with a short form should be returned in their whole
/// form. The whole forms from this number on have at most `budget` bytes together. `heavy` lists
/// all records with a short form, newest first: the number of each record, and the size of its
/// whole form in bytes.
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

/// A page of a load, while records are added to the page. A page is full when it has 256 records or
/// at least 1 MiB. The first page of a load has at most 16 records, so that the client soon
/// receives it.
#[derive(Debug)]
pub struct RecordPage {
    /// The records of the page.
    pub records: Vec<StoredRecord>,
    bytes: usize,
    max_records: usize,
}

impl RecordPage {
    /// Creates the next page of a load, without records.
    #[must_use]
    pub fn begin(load: &mut SessionLoadProgress) -> Self {
        let is_first = !std::mem::replace(&mut load.has_begun, true);
        let max_records = if is_first { MAX_FIRST_PAGE_RECORDS } else { MAX_PAGE_RECORDS };
        Self { records: Vec::new(), bytes: 0, max_records }
    }

    /// Adds a record.
    pub fn push(&mut self, record: StoredRecord) {
        self.bytes += record.json.len();
        self.records.push(record);
    }

    /// Returns whether the page ends here.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes >= PAGE_BYTES || self.records.len() >= self.max_records
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_newest_records_are_whole_within_the_budget_of_bytes() {
        let from = |budget| {
            first_whole_record_number([(9, 10), (7, 10), (3, 10)].map(Ok::<_, Infallible>), budget)
        };
        for (budget, expected) in [(0, 10), (9, 10), (10, 8), (29, 4), (30, 0)] {
            assert_eq!(from(budget), Ok(expected), "{budget}");
        }
    }
}
