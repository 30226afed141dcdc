//! Every bound of this crate, in one place.

/// Bytes of a command line that is looked at before it is permitted; a longer one is asked about.
pub const MAX_COMMAND_LINE_BYTES: usize = 64 * 1024;

/// Simple commands of a line that are looked at; one that has more is asked about.
pub(crate) const MAX_COMMAND_PARTS: usize = 1_000;

/// How deep substitutions, groups and commands for another shell may be nested in a line; one that
/// is deeper is asked about.
pub(crate) const MAX_COMMAND_DEPTH: usize = 16;

/// Texts for another shell within a line that are looked at; with more it is asked about.
pub(crate) const MAX_NESTED_TEXTS: usize = 64;

/// Folders in which a part of a line may run; of more, none is known.
pub(crate) const MAX_POSSIBLE_FOLDERS: usize = 8;

/// Files of a line that are looked at, and reasons to ask that are kept; with more it is asked about.
pub(crate) const MAX_COMMAND_PATHS: usize = 256;

/// Words of `env`, `xargs` and their like among which another command is looked for; one with more
/// is asked about.
pub(crate) const MAX_WRAPPED_WORDS: usize = 128;
