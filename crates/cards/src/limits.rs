//! All limits of this crate for printed and remembered data.

use std::time::Duration;

/// Diff lines printed per message. Further lines are counted. A permission request shows all lines.
pub(crate) const MAX_DIFF_LINES: usize = 40;

/// Time limit for computing the smallest difference of two texts. When the time is over, a larger
/// difference is printed.
pub(crate) const DIFF_SEARCH_TIMEOUT: Duration = Duration::from_millis(500);

/// Lines printed of the beginning of a text, and of its end. The lines between them are counted.
pub(crate) const MAX_EXCERPT_EDGE_LINES: usize = 6;

/// Lines of a command's output that are printed immediately. Of the following lines, only the last
/// [`MAX_EXCERPT_EDGE_LINES`] are printed, when the call ends.
pub(crate) const MAX_LIVE_OUTPUT_LINES: usize = 200;

/// Characters of a line of output, text or diff. A permission request shows all characters.
pub(crate) const MAX_LINE_CHARS: usize = 300;

/// Bytes of a command's output that are kept to find the new part in the next message. The limit is
/// twice the size that Callboard sends while a command runs.
pub(crate) const MAX_REMEMBERED_OUTPUT_BYTES: usize = 8 << 10;

/// Number of lines used to align the output of two messages.
pub(crate) const MAX_ALIGNED_LINES: usize = 64;

/// Bytes of a call's input that are kept for its permission request, which usually contains the
/// input again.
pub(crate) const MAX_INPUT_BYTES: usize = 64 << 10;

/// Bytes kept of a title. The limit is larger than any title of Callboard.
pub(crate) const MAX_TITLE_BYTES: usize = 8 << 10;

/// Bytes kept of the title of a finished call, which are sufficient for a table row.
pub(crate) const MAX_ENDED_TITLE_BYTES: usize = 1 << 10;

/// Printed diffs and texts that are remembered per call. The oldest items are discarded.
pub(crate) const MAX_REMEMBERED_ITEMS: usize = 256;

/// Calls kept for the table. Older calls are only included in the totals.
pub(crate) const MAX_CALLS: usize = 1000;

/// Bytes of a message that are buffered until their Markdown block is complete.
pub(crate) const MAX_MARKDOWN_BLOCK_BYTES: usize = 16 << 10;

/// Background commands listed when the program ends.
pub(crate) const MAX_BACKGROUND_COMMANDS: usize = 64;

/// Bytes that a transcript keeps. Beyond it, the content of the oldest calls and thoughts and the
/// oldest images are discarded, then the oldest messages. The omitted bytes are counted.
pub(crate) const MAX_TRANSCRIPT_BYTES: usize = 16 << 20;

/// Bytes that a transcript keeps of one message or call.
pub(crate) const MAX_ENTRY_BYTES: usize = 4 << 20;

/// Bytes of text that a transcript keeps of one message or call.
pub(crate) const MAX_TEXT_BYTES: usize = 256 << 10;

/// Bytes of an image in base64. A larger one is only named.
pub(crate) const MAX_IMAGE_BYTES: usize = 2 << 20;

/// Bytes of the lines of a change in a transcript, as JSON. Further lines are counted.
pub(crate) const MAX_CHANGE_BYTES: usize = 128 << 10;

/// Lines of two texts up to which a transcript shows their smallest difference, which is searched
/// without a time limit. The difference of longer texts is found by the lines that occur once.
pub(crate) const MAX_SEARCHED_LINES: usize = 4_000;

/// Characters of a line of output in a transcript. Further ones are counted.
pub(crate) const MAX_TRANSCRIPT_LINE_CHARS: usize = 2_000;

/// Places in files that a transcript keeps of a call.
pub(crate) const MAX_LOCATIONS: usize = 100;

/// Terminals that a transcript keeps of a call.
pub(crate) const MAX_CALL_TERMINALS: usize = 16;

/// Steps of a plan, and entries of a list of the session's state, that a transcript keeps.
pub(crate) const MAX_LIST_ITEMS: usize = 1_000;

/// Bytes counted for each item besides its text.
pub(crate) const PART_OVERHEAD_BYTES: usize = 64;
