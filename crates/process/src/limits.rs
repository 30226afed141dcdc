//! Every bound of this crate, in one place.

use std::time::Duration;

/// Maximum size in bytes of one string that the system passes to a program: a command line, or one
/// variable of the environment with its name. (32 pages on Linux, minus terminator and separator.)
pub(crate) const MAX_COMMAND_STRING_BYTES: usize = 128 * 1024 - 2;

/// Maximum bytes per read of a pipe or terminal.
pub(crate) const OUTPUT_READ_BYTES: usize = 64 * 1024;

/// Number of full reads that are buffered for the consumer of the output before the command blocks.
pub(crate) const MAX_BUFFERED_READS: usize = 8;

/// Time from SIGTERM to SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_millis(300);

/// Time limit for killing processes and for their exit to be observed.
pub const KILL_DEADLINE: Duration = Duration::from_secs(2);

/// Time limit for reaping killed processes: longer than a helper retries.
pub const REAP_DEADLINE: Duration = Duration::from_secs(5);

/// Time limit for stopping all processes of a command before they are signalled.
pub(crate) const FREEZE_DEADLINE: Duration = Duration::from_millis(50);

/// Maximum number of times the environment of a process is read while it appears to be empty.
pub(crate) const MAX_ENVIRON_READS: u32 = 3;

/// Delay between such reads: `exec` leaves the environment empty for a moment.
pub(crate) const ENVIRON_READ_INTERVAL: Duration = Duration::from_millis(1);

/// Time that processes which outlive the shell have to exit by themselves.
pub(crate) const LEFT_OVER_GRACE: Duration = Duration::from_millis(200);

/// Interval between checks for whether they have exited.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum bytes read after the end of a command: more than the kernel and our own channel can
/// buffer.
pub(crate) const MAX_DRAIN_BYTES: usize = (MAX_BUFFERED_READS + 1) * OUTPUT_READ_BYTES + 64 * 1024;

/// Silence of a command after which it is checked for waiting for input.
pub(crate) const SILENCE_BEFORE_INPUT_CHECK: Duration = Duration::from_secs(5);

/// Maximum bytes of an unfinished last line that are repeated when more of it arrives.
pub(crate) const MAX_REPEATED_LINE_BYTES: u64 = 4 * 1024;

/// Time limit for writing input to a terminal.
pub(crate) const INPUT_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum bytes of a command's raw output that are kept for its text. More than
/// [`MAX_MODEL_OUTPUT_BYTES`], because escapes and overwritten lines take most of it.
pub const MAX_KEPT_OUTPUT_BYTES: usize = 1024 * 1024;

/// Maximum bytes of a command's output in a tool result.
pub const MAX_MODEL_OUTPUT_BYTES: usize = 32 * 1024;

/// Maximum bytes of a recorded output that are shown per interval: the first and the last ones. As
/// JSON, even with many colours, they fit one message of a client.
pub(crate) const MAX_LIVE_OUTPUT_BYTES: usize = 32 * 1024;

/// Interval between two such updates.
pub(crate) const LIVE_OUTPUT_INTERVAL: Duration = Duration::from_millis(25);

/// Rows of a terminal within which the cursor moves.
pub(crate) const SCREEN_ROWS: usize = 40;

/// Columns of a terminal within which the cursor moves; lines may be longer.
pub(crate) const SCREEN_COLS: usize = 240;

/// Maximum bytes of a link in a terminal. The parser keeps 1,024 bytes of it.
pub(crate) const MAX_LINK_BYTES: usize = 1_000;

/// Maximum bytes of the line at the end of an output file that counts the omitted bytes.
pub const MAX_TRUNCATION_NOTE_BYTES: u64 = 64;

/// Bytes at the beginning of an output that decide whether it is text.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;
