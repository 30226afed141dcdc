//! Output for the user: results to stdout, remarks to stderr.

use std::fmt::Display;
use std::io::Write;

/// Writes whole lines.
///
/// A closed pipe is no reason to stop a check, so failed writes are ignored.
pub(crate) struct Ui<'a> {
    out: &'a mut dyn Write,
}

impl<'a> Ui<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { out }
    }

    /// Writes one line of the result, and flushes: child processes write to the same stream.
    pub(crate) fn print_result_line(&mut self, text: impl Display) {
        writeln!(self.out, "{text}").and_then(|()| self.out.flush()).ok();
    }

    /// Writes one remark to stderr, separate from results that are parsed.
    pub(crate) fn print_remark(&self, text: impl Display) {
        writeln!(std::io::stderr(), "{text}").ok();
    }
}
