//! Every limit of this crate: the limited value, the unit, and the reason for the size.

use std::time::Duration;

// ---- Stored data ----

/// Maximum bytes of a session's id, which is also used as a file name. ULIDs have 26 bytes, and
/// UUIDs have 36 bytes.
pub(crate) const MAX_ID_BYTES: usize = 128;

/// Maximum bytes of the JSON of one record, and of one attachment: one line of a client (16 MiB)
/// plus the overhead of its envelope.
pub(crate) const MAX_RECORD_BYTES: usize = 20 << 20;

/// Maximum bytes of a record's kind and of a part's name, which programs choose.
pub(crate) const MAX_NAME_BYTES: usize = 64;

/// Maximum bytes of a record's subject: the id of a call or message.
pub(crate) const MAX_SUBJECT_BYTES: usize = 512;

/// Maximum attachments of one record: as many as a call has content items.
pub(crate) const MAX_ATTACHMENTS: usize = 128;

/// Maximum bytes of a title; longer titles are truncated.
pub const MAX_TITLE_BYTES: usize = 1 << 10;

/// Maximum bytes of a folder's path, as text. Linux accepts 4,096 bytes, each of which may need
/// escaping.
pub(crate) const MAX_CWD_BYTES: usize = 16 << 10;

/// Maximum bytes of a record's search text; longer texts are truncated. The search index of a text
/// is about as large as the text.
pub(crate) const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// Maximum parts of a session.
pub const MAX_PARTS: usize = 64;

/// Maximum bytes of a part's JSON.
pub(crate) const MAX_PART_BYTES: usize = 4 << 20;

/// Maximum changes in one write.
pub(crate) const MAX_CHANGES: usize = 4096;

/// Maximum bytes of a session. An open session is never pruned, so only this limit bounds its size.
pub const MAX_SESSION_BYTES: u64 = 4 << 30;

/// Maximum records that a session ever had; record numbers fit into 32 bits.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_RECORDS: u64 = 1 << 32;

// ---- Returned data ----

/// Maximum sessions in one page of a list.
pub(crate) const MAX_PAGE_SESSIONS: usize = 100;

/// Maximum prompts in one page of a session's prompts.
pub const MAX_PAGE_PROMPTS: usize = 1000;

/// Maximum records in one page of a load.
pub(crate) const MAX_PAGE_RECORDS: usize = 256;

/// Bytes of records after which a page of a load ends. The last record of a page may exceed this
/// limit.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Maximum hits of a search.
pub(crate) const MAX_HITS: usize = 100;

/// Maximum words of a query that are searched, and maximum bytes of each word.
pub(crate) const MAX_WORDS: usize = 16;
pub(crate) const MAX_WORD_BYTES: usize = 64;

/// Maximum bytes of the excerpt around the first found word, and of a prompt's text in a list.
pub(crate) const EXCERPT_BYTES: usize = 200;

/// Maximum sessions that one call of `prune` removes.
pub const MAX_PRUNED: usize = 256;

// ---- The writer's queue ----

/// Maximum bytes of queued changes. If a change exceeds this limit, the recording of its session
/// ends. The queue has room for two records of the largest size.
pub(crate) const QUEUE_BYTES: usize = 48 << 20;

/// Bytes that a change takes in the queue in addition to its texts.
pub(crate) const CHANGE_COST: usize = 512;

/// Maximum changes that one commit writes.
pub(crate) const COMMIT_CHANGES: usize = 1024;

/// Interval between a commit and its sync to the disk. The store promises that a power failure
/// loses at most one second; the interval is half of that, because the sync takes time too.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_millis(500);

/// Interval between retries of changes that could not be written.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

// ---- Files ----

/// Bytes of JSON from which a record is stored in a separate file. SQLite reads smaller values
/// faster than a file system does (<https://sqlite.org/intern-v-extern-blob.html>).
#[cfg(feature = "sqlite")]
pub(crate) const FILE_BYTES: usize = 64 << 10;

/// Maximum total time to wait for other processes to finish their writes.
#[cfg(feature = "sqlite")]
pub(crate) const BUSY_TIME: Duration = Duration::from_millis(900);

/// Maximum pause between two tries while other processes write. A commit takes about a tenth of a
/// millisecond.
#[cfg(feature = "sqlite")]
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Maximum records that one transaction copies or removes, so that other processes can write in
/// between. At most about 8 MiB of these records are in the database.
#[cfg(feature = "sqlite")]
pub(crate) const STEP_RECORDS: usize = 128;

/// Pages of 4 KiB that one transaction returns to the file system.
#[cfg(feature = "sqlite")]
pub(crate) const STEP_PAGES: i64 = 1000;

/// Bytes of memory for database pages, for each of two connections.
#[cfg(feature = "sqlite")]
pub(crate) const CACHE_BYTES: i64 = 4 << 20;

/// Number of 4 KiB pages in the write-ahead log from which they are moved into the database. The
/// first commit after such a checkpoint holds the lock while it waits for the disk, so checkpoints
/// should be rare.
#[cfg(feature = "sqlite")]
pub(crate) const CHECKPOINT_PAGES: i64 = 1000;

/// Number of pages in the write-ahead log from which the log is emptied: 16 MiB.
#[cfg(feature = "sqlite")]
pub(crate) const LOG_PAGES: i64 = 4096;

/// Maximum tries to take a lock while other processes remove its file at the same time.
#[cfg(feature = "sqlite")]
pub(crate) const LOCK_TRIES: usize = 100;

/// Maximum bytes of the file that names the process that holds a session.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_HOLDER_BYTES: u64 = 1 << 10;

/// Maximum faults that a check of the database lists.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_FAULTS: usize = 100;
