//! Every limit of this crate.

/// Maximum bytes of a command line that is parsed; a longer one needs permission.
pub const MAX_COMMAND_LINE_BYTES: usize = 64 * 1024;

/// Maximum simple commands of a line; one with more needs permission.
pub(crate) const MAX_COMMAND_PARTS: usize = 1_000;

/// Maximum depth of substitutions, groups and commands for another shell in a line; a deeper one
/// needs permission.
pub(crate) const MAX_COMMAND_DEPTH: usize = 16;

/// Maximum texts for other shells in a line; one with more needs permission.
pub(crate) const MAX_NESTED_TEXTS: usize = 64;

/// Maximum folders in which a part of a line may run; with more, the folder counts as unknown.
pub(crate) const MAX_POSSIBLE_FOLDERS: usize = 8;

/// Maximum files of a line, and reasons to ask, that are recorded; a line with more needs
/// permission.
pub(crate) const MAX_COMMAND_PATHS: usize = 256;

/// Maximum words of `env`, `xargs` and similar programs that are searched for another command; one
/// with more needs permission.
pub(crate) const MAX_WRAPPED_WORDS: usize = 128;
