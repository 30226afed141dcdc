//! Limits of sandboxes on Linux.

use std::time::Duration;

/// Maximum number of symbolic links in one path; the kernel has the same limit.
pub(super) const MAX_LINKS: usize = 40;

/// Maximum number of attempts to create a placeholder, or to share an existing one.
pub(super) const PLACEHOLDER_LOCK_ATTEMPTS: u32 = 2000;

/// Time between two attempts to share a placeholder that another helper is about to remove.
pub(super) const PLACEHOLDER_LOCK_INTERVAL: Duration = Duration::from_millis(1);

/// Time within which the processes that a command leaves behind may exit by themselves.
pub(super) const LEFT_OVER_GRACE: Duration = Duration::from_millis(200);

/// Time from SIGTERM to SIGKILL for the processes that a command leaves behind.
pub(super) const KILL_GRACE: Duration = Duration::from_millis(300);

/// Interval between two checks for the exit of the processes that a command leaves behind.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_millis(5);

/// Minimum size in bytes that a file or folder in memory counts as, because an empty file or folder
/// needs memory, too.
pub(super) const BYTES_PER_FILE: u64 = 4096;

/// Maximum number of sockets of other programs that are hidden from a command. If there are more
/// such sockets in visible folders, the set-up fails.
pub(super) const MAX_HIDDEN_SOCKETS: usize = 256;

/// Maximum number of attempts to mount over a file that other programs replace again and again.
pub(super) const REPLACEMENT_ATTEMPTS: u32 = 20;

/// Time between two attempts to mount over such a file.
pub(super) const REPLACEMENT_INTERVAL: Duration = Duration::from_micros(100);

/// Time limit for the disappearance of a path whose mount was detached. Another program is removing
/// the path, which takes microseconds on an idle system.
pub(super) const DISAPPEARANCE_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum depth of folders in a layer that are read. One descriptor is open for each level.
pub(super) const MAX_LAYER_DEPTH: usize = 128;
