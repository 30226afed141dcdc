//! Limits of policies.

/// Default maximum size in bytes of a command's files in memory.
pub(crate) const DEFAULT_TMP_BYTES: u64 = 1024 * 1024 * 1024;
