//! Writes output for the user: results to stdout, and remarks to stderr.

use std::fmt::Display;
use std::io::Write;

/// Writes the output of xtask in whole lines.
///
/// Errors of a write are ignored, because a closed pipe must not stop a check.
pub(crate) struct Ui<'a> {
    out: &'a mut dyn Write,
}

impl<'a> Ui<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { out }
    }

    /// Writes one line of the result to stdout. Child processes also write to stdout, so stdout is
    /// flushed to keep the order of the lines.
    pub(crate) fn print_line_to_stdout(&mut self, text: impl Display) {
        writeln!(self.out, "{text}").and_then(|()| self.out.flush()).ok();
    }

    /// Writes one remark to stderr, so that stdout contains only results and can be parsed.
    pub(crate) fn print_remark_to_stderr(&self, text: impl Display) {
        writeln!(std::io::stderr(), "{text}").ok();
    }
}
