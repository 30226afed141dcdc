//! Every limit of this crate, in one place.

use std::time::Duration;

/// Maximum size in bytes of one string that the system passes to a program. Such a string is a
/// command line, or one environment variable with its name. (This is the Linux limit of 32 pages,
/// minus the terminator and the separator.)
pub(crate) const MAX_COMMAND_STRING_BYTES: usize = 128 * 1024 - 2;

/// Maximum number of bytes per read of a pipe or terminal.
pub(crate) const OUTPUT_READ_BYTES: usize = 64 * 1024;

/// Maximum number of full reads that are buffered for the consumer of the output. When the buffer
/// is full, the command blocks.
pub(crate) const MAX_BUFFERED_READS: usize = 8;

/// Time from SIGTERM to SIGKILL.
pub const KILL_GRACE: Duration = Duration::from_millis(300);

/// Time limit for killing processes and observing their exit.
pub const KILL_DEADLINE: Duration = Duration::from_secs(2);

/// Time limit for reaping killed processes. It is longer than [`KILL_DEADLINE`], for which a helper
/// tries to kill its processes.
pub const REAP_DEADLINE: Duration = Duration::from_secs(5);

/// Time limit for stopping all processes of a command before they are signalled.
pub(crate) const FREEZE_DEADLINE: Duration = Duration::from_millis(50);

/// Maximum number of reads of a process's environment while the environment appears to be empty.
pub(crate) const MAX_ENVIRON_READS: u32 = 3;

/// Delay between two reads of an empty environment. During `exec`, an environment is empty for a
/// moment.
pub(crate) const ENVIRON_READ_INTERVAL: Duration = Duration::from_millis(1);

/// Time limit within which processes that outlive the shell may exit by themselves.
pub(crate) const LEFT_OVER_GRACE: Duration = Duration::from_millis(200);

/// Interval between two checks for the exit of the left-over processes.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of output bytes that are read after the end of a command. The kernel and our own
/// channel together buffer at most this number of bytes.
pub(crate) const MAX_DRAIN_BYTES: usize = (MAX_BUFFERED_READS + 1) * OUTPUT_READ_BYTES + 64 * 1024;

/// Time without output after which the crate checks whether a command waits for input.
pub(crate) const SILENCE_BEFORE_INPUT_CHECK: Duration = Duration::from_secs(5);

/// Maximum number of bytes of an unfinished last line that are repeated when more of the line
/// arrives.
pub(crate) const MAX_REPEATED_LINE_BYTES: u64 = 4 * 1024;

/// Time limit for writing input to a terminal.
pub(crate) const INPUT_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of raw output bytes of a command that are kept in memory and converted to text.
/// The limit exceeds [`MAX_MODEL_OUTPUT_BYTES`], because most raw bytes may be escape sequences and
/// overwritten lines.
pub const MAX_KEPT_OUTPUT_BYTES: usize = 1024 * 1024;

/// Maximum number of bytes of a command's output in a tool result.
pub const MAX_MODEL_OUTPUT_BYTES: usize = 32 * 1024;

/// Maximum number of bytes of recorded output that are shown per interval. If there are more, only
/// the first and the last bytes are shown. This amount fits into one message to a client, even if
/// JSON has to escape many colour sequences.
pub(crate) const MAX_LIVE_OUTPUT_BYTES: usize = 32 * 1024;

/// Interval between two updates of the shown output.
pub(crate) const LIVE_OUTPUT_INTERVAL: Duration = Duration::from_millis(25);

/// Number of terminal rows within which the cursor can move.
pub(crate) const SCREEN_ROWS: usize = 40;

/// Number of terminal columns within which the cursor can move; lines may be longer.
pub(crate) const SCREEN_COLS: usize = 240;

/// Maximum length of a terminal link in bytes. The parser keeps 1,024 bytes of a link.
pub(crate) const MAX_LINK_BYTES: usize = 1_000;

/// Maximum length in bytes of the note at the end of a truncated output file. The note gives the
/// number of omitted bytes.
pub const MAX_TRUNCATION_NOTE_BYTES: u64 = 64;

/// Number of bytes at the beginning of an output by which the output is classified as text or
/// binary.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

/// Value of `oom_score_adj` for commands. When memory runs out, the kernel chooses a process to
/// end. For this choice, it adds this many thousandths of the total memory to the memory of each
/// process of a command.
pub(crate) const OOM_SCORE: i32 = 300;
