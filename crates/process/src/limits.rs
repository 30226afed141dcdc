//! Every bound of this crate, in one place.

use std::time::Duration;

/// Bytes of one string that the system passes to a program: a command line, or one variable of the
/// environment with its name. (32 pages on Linux, less what ends and joins the strings.)
pub(crate) const MAX_COMMAND_STRING_BYTES: usize = 128 * 1024 - 2;

/// Bytes read from a terminal at once.
pub(crate) const OUTPUT_READ_BYTES: usize = 64 * 1024;

/// Reads that may wait for whoever shows the output, before the command waits for them.
pub(crate) const MAX_BUFFERED_READS: usize = 8;

/// How long processes have from the request to end until they are killed.
pub const KILL_GRACE: Duration = Duration::from_millis(300);

/// How long killing is tried, and its success waited for.
pub const KILL_DEADLINE: Duration = Duration::from_secs(2);

/// How long is waited for the end of what was killed: longer than a helper tries.
pub const REAP_DEADLINE: Duration = Duration::from_secs(5);

/// How long processes are looked for until all of them have stopped, before they are signalled.
pub(crate) const FREEZE_DEADLINE: Duration = Duration::from_millis(50);

/// How often the environment of a process is looked at while it seems to have none.
pub(crate) const MAX_ENVIRON_READS: u32 = 3;

/// How long a process takes to become another program, and then has an environment.
pub(crate) const ENVIRON_READ_INTERVAL: Duration = Duration::from_millis(1);

/// How long processes that outlive the shell have to end by themselves.
pub(crate) const LEFT_OVER_GRACE: Duration = Duration::from_millis(200);

/// How often is looked whether they have ended.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_millis(10);

/// Bytes read from a terminal after the end: more than can be between a command and the reader of
/// its output, the kernel's buffers included.
pub(crate) const MAX_DRAIN_BYTES: usize = (MAX_BUFFERED_READS + 1) * OUTPUT_READ_BYTES + 64 * 1024;

/// How long a command is silent before it is asked whether it waits for input.
pub(crate) const SILENCE_BEFORE_INPUT_CHECK: Duration = Duration::from_secs(5);

/// Bytes of a last line without an end that are told again when there is more of it.
pub(crate) const MAX_REPEATED_LINE_BYTES: u64 = 4 * 1024;

/// How long a terminal may take for them.
pub(crate) const INPUT_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of a command's raw output that are kept to make text of: the model is told less, but
/// escapes and overwritten lines take most of it.
pub const MAX_KEPT_OUTPUT_BYTES: usize = 1024 * 1024;

/// Bytes of a command's output that the model is told.
pub const MAX_MODEL_OUTPUT_BYTES: usize = 32 * 1024;

/// Bytes of an output that is recorded that are shown at once: the first and the last ones. As JSON, a
/// flood of them with many colours still fits one message of a client.
pub(crate) const MAX_LIVE_OUTPUT_BYTES: usize = 32 * 1024;

/// How often they are shown.
pub(crate) const LIVE_OUTPUT_INTERVAL: Duration = Duration::from_millis(25);

/// Lines of a terminal that the cursor moves among.
pub(crate) const SCREEN_ROWS: usize = 40;

/// Columns of a terminal that the cursor moves among; lines may be longer.
pub(crate) const SCREEN_COLS: usize = 240;

/// Bytes of a link in a terminal. Its parser keeps 1,024 bytes of it.
pub(crate) const MAX_LINK_BYTES: usize = 1_000;

/// Bytes of the line at the end of such a file that tells how many bytes have no room there.
pub const MAX_TRUNCATION_NOTE_BYTES: u64 = 64;

/// Bytes at the beginning of an output that tell whether it is text.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;
