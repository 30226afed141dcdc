//! Every bound of this crate: what is printed and remembered at most.

use std::time::Duration;

/// Lines of the diffs of one message; the rest is counted. A permission request shows all.
pub(crate) const MAX_DIFF_LINES: usize = 40;

/// Time for which the smallest difference of two texts is searched for; after it a larger one is
/// printed.
pub(crate) const DIFF_SEARCH_TIMEOUT: Duration = Duration::from_millis(500);

/// Lines from the beginning of a text, and as many from its end; what is between is counted.
pub(crate) const MAX_EXCERPT_EDGE_LINES: usize = 6;

/// Lines of a command's output that are printed as they come; after them only the last
/// [`TEXT_LINES`], when the call ends.
pub(crate) const MAX_LIVE_OUTPUT_LINES: usize = 200;

/// Characters of one line of output, text or diff. A permission request shows all.
pub(crate) const MAX_LINE_CHARS: usize = 300;

/// Bytes of a command's output that are remembered, to find what is new in the next message. It
/// is twice what Callboard sends while a command runs.
pub(crate) const MAX_REMEMBERED_OUTPUT_BYTES: usize = 8 << 10;

/// Lines by which the output of two messages is aligned.
pub(crate) const MAX_ALIGNED_LINES: usize = 64;

/// Bytes of a call's input that are remembered for its permission request, which usually brings
/// its own.
pub(crate) const MAX_INPUT_BYTES: usize = 64 << 10;

/// Bytes of a title that are remembered: what a title of Callboard holds at most, and some.
pub(crate) const MAX_TITLE_BYTES: usize = 8 << 10;

/// Bytes of the title of a call that has ended: what a row of the table can show.
pub(crate) const MAX_ENDED_TITLE_BYTES: usize = 1 << 10;

/// Diffs and texts of a call that are known as shown; the oldest are forgotten.
pub(crate) const MAX_REMEMBERED_ITEMS: usize = 256;

/// Calls that are remembered for the table; the oldest count in the totals only.
pub(crate) const MAX_CALLS: usize = 1000;

/// Bytes of a message that wait for the end of their block of Markdown.
pub(crate) const MAX_MARKDOWN_BLOCK_BYTES: usize = 16 << 10;

/// Bytes of the sequences that colour a line of a command's output; at more, its colours end.
pub(crate) const MAX_COLOUR_BYTES: usize = 256;

/// Commands in the background that are named when the program ends.
pub(crate) const MAX_BACKGROUND_COMMANDS: usize = 64;
