//! The context of the subcommand: the stored sessions, the output, and the user who answers
//! questions.

use std::path::Path;
use std::time::SystemTime;
use std::{fmt, io};

use acp_cards::CardRenderer;
use callboard_runtime::{SessionArchive, SessionRetention};

/// The output of the subcommand (a terminal or another stream), and the user who answers questions.
pub trait SessionsTerminal: io::Write {
    /// Creates the renderer of a session whose folder is `cwd`.
    fn card_renderer(&self, cwd: &Path) -> CardRenderer;

    /// Prints a note that is not part of the output, e.g. to standard error.
    fn print_note(&mut self, text: &str);

    /// Asks the user a yes/no question. Returns `None` if no user can answer.
    fn confirm(&mut self, question: &str) -> Option<bool>;
}

/// The sessions, the folder and the output of the subcommand.
#[non_exhaustive]
pub struct SessionsContext<'a> {
    /// The stored sessions.
    pub archive: &'a SessionArchive,
    /// The folder whose sessions are listed.
    pub cwd: &'a Path,
    /// The current time, for the age of sessions.
    pub now: SystemTime,
    /// The limits of age and size for `prune`.
    pub retention: SessionRetention,
    /// The output of the subcommand, and the user who answers questions.
    pub terminal: &'a mut dyn SessionsTerminal,
}

impl<'a> SessionsContext<'a> {
    /// Creates a context with the default limits of age and size.
    #[must_use]
    pub fn new(
        archive: &'a SessionArchive,
        cwd: &'a Path,
        now: SystemTime,
        terminal: &'a mut dyn SessionsTerminal,
    ) -> Self {
        Self { archive, cwd, now, retention: SessionRetention::default(), terminal }
    }
}

impl fmt::Debug for SessionsContext<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut context = formatter.debug_struct("SessionsContext");
        context.field("archive", &self.archive).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}
