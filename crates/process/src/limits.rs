//! Every limit of this crate, in one place.

use std::time::Duration;

/// Maximum size in bytes of one string that the system passes to a program. Such a string is a
/// command line, or one environment variable with its name. (The Linux limit is 32 pages, from
/// which terminator and separator are subtracted.)
pub(crate) const MAX_COMMAND_STRING_BYTES: usize = 128 * 1024 - 2;

/// Maximum bytes per read of a pipe or terminal.
pub(crate) const OUTPUT_READ_BYTES: usize = 64 * 1024;

/// Number of full reads that are buffered for the consumer of the output before the command blocks.
pub(crate) const MAX_BUFFERED_READS: usize = 8;

/// Time from SIGTERM to SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_millis(300);

/// Time limit for killing processes and for their exit to be observed.
pub const KILL_DEADLINE: Duration = Duration::from_secs(2);

/// Time limit for reaping killed processes; longer than a helper retries.
pub const REAP_DEADLINE: Duration = Duration::from_secs(5);

/// Time limit for stopping all processes of a command before they are signalled.
pub(crate) const FREEZE_DEADLINE: Duration = Duration::from_millis(50);

/// Maximum number of times the environment of a process is read while it appears to be empty.
pub(crate) const MAX_ENVIRON_READS: u32 = 3;

/// Delay between two reads of an empty environment: `exec` leaves the environment empty for a
/// moment.
pub(crate) const ENVIRON_READ_INTERVAL: Duration = Duration::from_millis(1);

/// Time that processes which outlive the shell have to exit by themselves.
pub(crate) const LEFT_OVER_GRACE: Duration = Duration::from_millis(200);

/// Interval between checks whether the left-over processes have exited.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of bytes read after the end of a command: more than the kernel and our own
/// channel can buffer.
pub(crate) const MAX_DRAIN_BYTES: usize = (MAX_BUFFERED_READS + 1) * OUTPUT_READ_BYTES + 64 * 1024;

/// Time without output after which a command is checked for waiting for input.
pub(crate) const SILENCE_BEFORE_INPUT_CHECK: Duration = Duration::from_secs(5);

/// Maximum number of bytes of an unfinished last line that are repeated when more of the line
/// arrives.
pub(crate) const MAX_REPEATED_LINE_BYTES: u64 = 4 * 1024;

/// Time limit for writing input to a terminal.
pub(crate) const INPUT_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of raw output bytes of a command that are kept to make its text. This exceeds
/// [`MAX_MODEL_OUTPUT_BYTES`], because most raw bytes may be escape sequences and overwritten
/// lines.
pub const MAX_KEPT_OUTPUT_BYTES: usize = 1024 * 1024;

/// Maximum bytes of a command's output in a tool result.
pub const MAX_MODEL_OUTPUT_BYTES: usize = 32 * 1024;

/// Maximum number of bytes of recorded output that are shown per interval: the first and the last
/// ones. This amount fits into one message to a client, even as JSON with many colours.
pub(crate) const MAX_LIVE_OUTPUT_BYTES: usize = 32 * 1024;

/// Interval between two updates of the shown output.
pub(crate) const LIVE_OUTPUT_INTERVAL: Duration = Duration::from_millis(25);

/// Number of terminal rows within which the cursor moves.
pub(crate) const SCREEN_ROWS: usize = 40;

/// Number of terminal columns within which the cursor moves; lines may be longer.
pub(crate) const SCREEN_COLS: usize = 240;

/// Maximum length of a terminal link in bytes. The parser keeps 1,024 bytes of a link.
pub(crate) const MAX_LINK_BYTES: usize = 1_000;

/// Maximum length in bytes of the last line of an output file, which counts the omitted bytes.
pub const MAX_TRUNCATION_NOTE_BYTES: u64 = 64;

/// Number of bytes at the beginning of an output that decide whether it is text.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;
