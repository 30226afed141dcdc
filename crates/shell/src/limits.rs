//! Every limit of this crate.

/// Maximum number of bytes of a command line that is parsed; a longer line needs permission.
pub const MAX_COMMAND_LINE_BYTES: usize = 64 * 1024;

/// Maximum number of simple commands of a line; a line with more commands needs permission.
pub(crate) const MAX_COMMAND_PARTS: usize = 1_000;

/// Maximum nesting depth of substitutions, groups and commands for another shell in a line; a line
/// with more levels needs permission.
pub(crate) const MAX_COMMAND_DEPTH: usize = 16;

/// Maximum number of texts in a line that shells run as commands, including the line itself; a line
/// with more texts needs permission.
pub(crate) const MAX_NESTED_TEXTS: usize = 64;

/// Maximum number of folders in which a part of a line may run; if more folders are possible, the
/// folder counts as unknown.
pub(crate) const MAX_POSSIBLE_FOLDERS: usize = 8;

/// Maximum number of files, and of reasons to ask for permission, that are recorded for a line; a
/// line that names more files needs permission.
pub(crate) const MAX_COMMAND_PATHS: usize = 256;

/// Maximum number of paths to which the names in a line are resolved; a line with more paths needs
/// permission.
pub(crate) const MAX_RESOLVED_NAMES: usize = 16 * 1024;

/// Maximum number of words of `env`, `xargs` and similar programs that are searched for another
/// command; a command with more words needs permission.
pub(crate) const MAX_WRAPPED_WORDS: usize = 128;

/// Maximum number of words for which a word with braces may stand, and of braces in the word; a
/// line with a larger word needs permission.
pub(crate) const MAX_BRACE_WORDS: usize = 64;
