//! All limits of this crate for printed data and for data in memory.

use std::time::Duration;

/// Maximum number of diff lines that are printed per message. Further lines are only counted. A
/// permission request shows all lines.
pub(crate) const MAX_DIFF_LINES: usize = 40;

/// Time limit for computing the smallest difference of two texts. If the limit is reached, a larger
/// difference is printed.
pub(crate) const DIFF_SEARCH_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum number of lines that are printed from the beginning of a text, and from its end. The
/// lines between them are only counted.
pub(crate) const MAX_EXCERPT_EDGE_LINES: usize = 6;

/// Maximum number of lines of a command's output that are printed immediately. When the call ends,
/// the last [`MAX_EXCERPT_EDGE_LINES`] of all later lines are printed.
pub(crate) const MAX_LIVE_OUTPUT_LINES: usize = 200;

/// Maximum number of characters of a line of output, text or diff. A permission request shows all
/// characters.
pub(crate) const MAX_LINE_CHARS: usize = 300;

/// Maximum number of bytes of a command's output that are kept to find the new part in the next
/// message. The limit is twice the size that Callboard sends while a command runs.
pub(crate) const MAX_REMEMBERED_OUTPUT_BYTES: usize = 8 << 10;

/// Maximum number of lines that are used to align the output of two messages.
pub(crate) const MAX_ALIGNED_LINES: usize = 64;

/// Maximum number of bytes of a call's input that are kept for its permission request. The request
/// usually contains the input again.
pub(crate) const MAX_INPUT_BYTES: usize = 64 << 10;

/// Maximum number of bytes of a title that are kept. No title from Callboard is this long.
pub(crate) const MAX_TITLE_BYTES: usize = 8 << 10;

/// Maximum number of bytes of a finished call's title that are kept. This is sufficient for a row
/// of the table.
pub(crate) const MAX_ENDED_TITLE_BYTES: usize = 1 << 10;

/// Maximum number of printed diffs and texts that are remembered per call. The oldest ones are
/// discarded. A large change has one diff per hunk.
pub(crate) const MAX_REMEMBERED_ITEMS: usize = 4096;

/// Maximum number of calls that are kept for the table. Older calls are included only in the
/// totals.
pub(crate) const MAX_CALLS: usize = 1000;

/// Maximum number of bytes of a message that are buffered until their Markdown block is complete.
pub(crate) const MAX_MARKDOWN_BLOCK_BYTES: usize = 16 << 10;

/// Maximum number of background commands that are listed when the program ends.
pub(crate) const MAX_BACKGROUND_COMMANDS: usize = 64;

/// Maximum number of bytes that a transcript keeps. Beyond this limit, the oldest images and the
/// content of the oldest calls and thoughts are discarded first, and the oldest messages
/// afterwards. The omitted bytes are counted.
pub(crate) const MAX_TRANSCRIPT_BYTES: usize = 16 << 20;

/// Maximum number of bytes that a transcript keeps of one message or call.
pub(crate) const MAX_ENTRY_BYTES: usize = 4 << 20;

/// Maximum number of bytes of text that a transcript keeps of one message or call.
pub(crate) const MAX_TEXT_BYTES: usize = 256 << 10;

/// Maximum size in bytes of an image in base64. For a larger image, only the type is shown.
pub(crate) const MAX_IMAGE_BYTES: usize = 2 << 20;

/// Maximum size in bytes of the lines of a change in a transcript, as JSON. Further lines are only
/// counted.
pub(crate) const MAX_CHANGE_BYTES: usize = 128 << 10;

/// Maximum number of lines of two texts together for which a transcript shows the smallest
/// difference. The search has no time limit. For longer texts, a difference is computed from the
/// lines that occur only once.
pub(crate) const MAX_SEARCHED_LINES: usize = 4_000;

/// Maximum number of characters of a line of output in a transcript. Further characters are only
/// counted.
pub(crate) const MAX_TRANSCRIPT_LINE_CHARS: usize = 2_000;

/// Maximum number of file locations that a transcript keeps per call.
pub(crate) const MAX_LOCATIONS: usize = 100;

/// Maximum number of terminals that a transcript keeps per call.
pub(crate) const MAX_CALL_TERMINALS: usize = 16;

/// Maximum number of steps of a plan that a transcript keeps. The limit also applies to the entries
/// of each list in the session's state.
pub(crate) const MAX_LIST_ITEMS: usize = 1_000;

/// Number of bytes that are counted for each item in addition to its text.
pub(crate) const PART_OVERHEAD_BYTES: usize = 64;
