//! Output for the user: results to stdout, remarks to stderr.

use std::fmt::Display;
use std::io::Write;

/// Writes whole lines.
///
/// Failed writes are ignored, because a closed pipe must not stop a check.
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

    /// Writes one remark to stderr, so that programs can parse the results on stdout.
    pub(crate) fn print_remark(&self, text: impl Display) {
        writeln!(std::io::stderr(), "{text}").ok();
    }
}
