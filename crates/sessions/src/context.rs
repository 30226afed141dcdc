//! The surroundings of the subcommand: its sessions, its output, and the user who answers.

use std::path::Path;
use std::time::SystemTime;
use std::{fmt, io};

use acp_cards::CardRenderer;
use callboard_runtime::{SessionArchive, SessionRetention};

/// The terminal or file that the output goes to, and the user who answers.
pub trait SessionsTerminal: io::Write {
    /// Returns whether the output is a terminal.
    fn is_terminal(&self) -> bool;

    /// Creates the renderer of a session whose folder is `cwd`.
    fn cards(&self, cwd: &Path) -> CardRenderer;

    /// Prints a line beside the output, i.e. to standard error.
    fn print_note(&mut self, text: &str);

    /// Asks a question that is answered by yes or no; `None` if no user can answer.
    fn confirm(&mut self, question: &str) -> Option<bool>;
}

/// The sessions, the folder and the output of the subcommand.
pub struct SessionsContext<'a> {
    /// The stored sessions.
    pub archive: &'a SessionArchive,
    /// The folder whose sessions are listed.
    pub cwd: &'a Path,
    /// The current time, for the age of sessions.
    pub now: SystemTime,
    /// How long and how much is kept, for `prune`.
    pub retention: SessionRetention,
    /// The output.
    pub terminal: &'a mut dyn SessionsTerminal,
}

impl fmt::Debug for SessionsContext<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut context = formatter.debug_struct("SessionsContext");
        context.field("archive", &self.archive).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}
