//! Every bound of this crate: what it limits, in which unit, and why it has that size.

use std::time::Duration;

// ---- What is stored ----

/// Bytes of a session's id, which also names files. ULIDs have 26, UUIDs 36.
pub(crate) const MAX_ID_BYTES: usize = 128;

/// Bytes of the JSON of one record, and of one attachment: a client's line of 16 MiB, and what it
/// grows by in an envelope.
pub const MAX_RECORD_BYTES: usize = 20 << 20;

/// Bytes of a record's kind and of a part's name, which programs choose.
pub const MAX_NAME_BYTES: usize = 64;

/// Bytes of what a record is about: the id of a call or message.
pub const MAX_SUBJECT_BYTES: usize = 512;

/// Attachments of one record: as many as a call has items of content.
pub const MAX_ATTACHMENTS: usize = 128;

/// Bytes of a title; what is over is left out.
pub const MAX_TITLE_BYTES: usize = 1 << 10;

/// Bytes of a path of a folder, as text. Linux takes 4,096 bytes, of which each may need escaping.
pub(crate) const MAX_CWD_BYTES: usize = 16 << 10;

/// Bytes of a record's text that can be searched; what is over is left out. The index of a text is
/// about as large as the text.
pub const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// Parts of a session.
pub const MAX_PARTS: usize = 64;

/// Bytes of a part's JSON.
pub const MAX_PART_BYTES: usize = 4 << 20;

/// Changes in one write.
pub const MAX_CHANGES: usize = 4096;

/// Bytes of a session. One that is open is never pruned, so this alone stops it.
pub const MAX_SESSION_BYTES: u64 = 4 << 30;

/// Records that a session ever had; its last number fits in 32 bits.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_RECORDS: u64 = 1 << 32;

// ---- What is given back ----

/// Sessions of one page of a list.
pub const MAX_PAGE_SESSIONS: usize = 100;

/// Prompts of one page of those of a session.
pub const MAX_PAGE_PROMPTS: usize = 1000;

/// Records of one page of a load.
pub const MAX_PAGE_RECORDS: usize = 256;

/// Bytes of records after which a page of a load ends. Its last record may be over it.
pub const PAGE_BYTES: usize = 1 << 20;

/// Hits of a search.
pub const MAX_HITS: usize = 100;

/// Words of a search that are looked for, and bytes of each.
pub(crate) const MAX_WORDS: usize = 16;
pub(crate) const MAX_WORD_BYTES: usize = 64;

/// Bytes of the text around the first word that was found, and of a prompt in a list.
pub(crate) const EXCERPT_BYTES: usize = 200;

/// Sessions that one call of `prune` removes.
pub const MAX_PRUNED: usize = 256;

// ---- The writer's queue ----

/// Bytes of changes that wait to be written. Above, a session is not recorded any further. It holds
/// two records of the largest size.
pub const QUEUE_BYTES: usize = 48 << 20;

/// Bytes that a change takes in the queue beside its texts.
pub(crate) const CHANGE_COST: usize = 512;

/// Changes that are written in one commit, if so many wait.
pub(crate) const COMMIT_CHANGES: usize = 1024;

/// The longest time that what is committed is lost by when the power fails; half of what is
/// promised, because writing to the disk takes time, too.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_millis(500);

/// Time after which changes that could not be written are tried again.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

// ---- Files ----

/// Bytes of JSON from which a record is stored in a separate file. SQLite reads smaller values faster
/// than a file system does (<https://sqlite.org/intern-v-extern-blob.html>).
#[cfg(feature = "sqlite")]
pub(crate) const FILE_BYTES: usize = 64 << 10;

/// Time that is waited, in all, for other processes to end their writes.
#[cfg(feature = "sqlite")]
pub(crate) const BUSY_TIME: Duration = Duration::from_millis(900);

/// The longest pause between two tries meanwhile. A commit takes about a tenth of a millisecond.
#[cfg(feature = "sqlite")]
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Records that one transaction copies or removes, so that other processes can write in between: at
/// most some 8 MiB of them lie in the database.
#[cfg(feature = "sqlite")]
pub(crate) const STEP_RECORDS: usize = 128;

/// Pages of 4 KiB that one transaction gives back to the file system.
#[cfg(feature = "sqlite")]
pub(crate) const STEP_PAGES: i64 = 1000;

/// Bytes of memory for pages of the database, of each of two connections.
#[cfg(feature = "sqlite")]
pub(crate) const CACHE_BYTES: i64 = 4 << 20;

/// Pages of 4 KiB in the write-ahead log from which they are moved into the database. The first
/// commit after that waits for the disk while it holds the lock, so it should be rare.
#[cfg(feature = "sqlite")]
pub(crate) const CHECKPOINT_PAGES: i64 = 1000;

/// Pages in the write-ahead log from which it is emptied: 16 MiB.
#[cfg(feature = "sqlite")]
pub(crate) const LOG_PAGES: i64 = 4096;

/// Tries to take a lock whose file is removed by another process at the same time.
#[cfg(feature = "sqlite")]
pub(crate) const LOCK_TRIES: usize = 100;

/// Bytes of the file that names the holder of a session.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_HOLDER_BYTES: u64 = 1 << 10;

/// Faults that a check of the database lists.
#[cfg(feature = "sqlite")]
pub(crate) const MAX_FAULTS: usize = 100;
