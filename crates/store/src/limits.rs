//! Every limit of this crate, with its unit and the reason for its size.

use std::time::Duration;

// ---- Stored data ----

/// Maximum number of bytes of a session's id. The id is also used as a file name. ULIDs have 26
/// bytes, and UUIDs have 36 bytes.
pub(crate) const MAX_ID_BYTES: usize = 128;

/// Maximum number of bytes of the JSON of one record, and of one attachment. One line from a client
/// (16 MiB) fits into a record.
pub(crate) const MAX_RECORD_BYTES: usize = 20 << 20;

/// Maximum number of bytes of a record's kind and of a part's name. Programs choose these texts.
pub(crate) const MAX_NAME_BYTES: usize = 64;

/// Maximum number of bytes of a record's subject, e.g. the id of a call or message.
pub(crate) const MAX_SUBJECT_BYTES: usize = 512;

/// Maximum number of attachments of one record. A call has at most the same number of content
/// items.
pub(crate) const MAX_ATTACHMENTS: usize = 128;

/// Maximum number of bytes of a title; longer titles are truncated.
pub const MAX_TITLE_BYTES: usize = 1 << 10;

/// Maximum number of bytes of a folder's path as text. Linux accepts paths of 4,096 bytes, and each
/// of these bytes may need an escape sequence.
pub(crate) const MAX_CWD_BYTES: usize = 16 << 10;

/// Maximum number of bytes of a record's search text; longer texts are truncated. The search index
/// of a text is about as large as the text.
pub(crate) const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// Maximum number of parts of a session.
pub const MAX_PARTS: usize = 64;

/// Maximum number of bytes of a part's JSON.
pub(crate) const MAX_PART_BYTES: usize = 4 << 20;

/// Maximum number of changes in one write.
pub(crate) const MAX_CHANGES: usize = 4096;

/// Maximum number of bytes of a session. An open session is never pruned, so its size is bounded
/// only by this limit.
pub const MAX_SESSION_BYTES: u64 = 4 << 30;

/// Maximum number of records that are ever added to a session, including removed ones. Record
/// numbers therefore fit into 32 bits.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_RECORDS: u64 = 1 << 32;

// ---- Returned data ----

/// Maximum number of sessions in one page of a list.
pub(crate) const MAX_PAGE_SESSIONS: usize = 100;

/// Maximum number of stored spellings of a folder's path, e.g. `/p` and `/p/`, for which a list of
/// the folder's sessions uses an index. With more spellings, the list reads all sessions.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_INDEXED_SPELLINGS: usize = 16;

/// Maximum number of prompts in one page of a session's prompts.
pub const MAX_PAGE_PROMPTS: usize = 1000;

/// Maximum number of records in one page of a load.
pub(crate) const MAX_PAGE_RECORDS: usize = 256;

/// Maximum number of records in the first page of a load.
pub(crate) const MAX_FIRST_PAGE_RECORDS: usize = 16;

/// Number of bytes of records after which a page of a load ends. With its last record, a page may
/// exceed this limit.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Maximum number of hits of a search.
pub(crate) const MAX_HITS: usize = 100;

/// Maximum number of words of a query that are searched; the next limit is the maximum number of
/// bytes of each word.
pub(crate) const MAX_WORDS: usize = 16;
pub(crate) const MAX_WORD_BYTES: usize = 64;

/// Maximum number of bytes of the excerpt around the first found word, and of a prompt's text in a
/// list.
pub(crate) const EXCERPT_BYTES: usize = 200;

/// Maximum number of sessions that one call of `prune` removes.
pub const MAX_PRUNED: usize = 256;

// ---- The writer's queue ----

/// Maximum number of bytes of all queued changes. If a new change does not fit, the recording of
/// its session ends. The queue has room for two records of the largest size.
pub(crate) const QUEUE_BYTES: usize = 48 << 20;

/// Number of bytes that are counted for a queued change in addition to its texts.
pub(crate) const CHANGE_COST: usize = 512;

/// Maximum number of changes that one commit writes.
pub(crate) const COMMIT_CHANGES: usize = 1024;

/// Interval between a commit and its sync to the disk. The store promises that a power failure
/// loses at most the commits of the last second. The interval is half a second, because the sync
/// takes time too.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_millis(500);

/// Interval between retries of changes that could not be written.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

// ---- Files ----

/// Minimum number of bytes of a record's JSON that is stored in a separate file. Smaller values are
/// read faster from SQLite than from a file system
/// (<https://sqlite.org/intern-v-extern-blob.html>).
#[cfg(feature = "sqlite")]
pub(crate) const FILE_BYTES: usize = 64 << 10;

/// Maximum total time for which an operation waits for the writes of other processes.
#[cfg(feature = "sqlite")]
pub(crate) const BUSY_TIME: Duration = Duration::from_millis(900);

/// Maximum pause between two tries while other processes write. A commit takes about a tenth of a
/// millisecond.
#[cfg(feature = "sqlite")]
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of records that one transaction copies or removes. The limit lets other processes
/// write between two transactions. The database contains at most about 8 MiB of these records.
#[cfg(feature = "sqlite")]
pub(crate) const STEP_RECORDS: usize = 128;

/// Maximum number of 4 KiB pages that one transaction returns to the file system.
#[cfg(feature = "sqlite")]
pub(crate) const STEP_PAGES: i64 = 1000;

/// Number of bytes of memory that a connection for writes uses for database pages.
#[cfg(feature = "sqlite")]
pub(crate) const CACHE_BYTES: i64 = 4 << 20;

/// Number of bytes of memory that a connection for reads uses for database pages.
#[cfg(feature = "sqlite")]
pub(crate) const READER_CACHE_BYTES: i64 = 256 << 10;

/// Minimum number of 4 KiB pages in the write-ahead log for a checkpoint, which moves the pages
/// into the database and empties the log. The first process that opens the database reads the whole
/// log, so the log should be short. The first commit after a checkpoint holds the lock while it
/// waits for the disk, so checkpoints should be rare.
#[cfg(feature = "sqlite")]
pub(crate) const CHECKPOINT_PAGES: i64 = 1000;

/// Maximum number of tries to take a lock whose file other processes remove at the same time.
#[cfg(feature = "sqlite")]
pub(crate) const LOCK_TRIES: usize = 100;

/// Pause between two tries to lock a session that a process locks only for a moment, e.g. to find
/// out whether it may remove the session.
#[cfg(feature = "sqlite")]
pub(crate) const HELD_PAUSE: Duration = Duration::from_millis(20);

/// Number of further tries to lock a session that another process locks only for a moment.
#[cfg(feature = "sqlite")]
pub(crate) const HELD_TRIES: usize = 10;

/// Maximum number of bytes of the file that names the process that holds a session.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_HOLDER_BYTES: u64 = 1 << 10;

/// Maximum number of faults that a check of the database lists.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_FAULTS: usize = 100;
