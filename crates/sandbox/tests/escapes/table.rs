//! Shell lines that try to escape.

use callboard_sandbox::{Isolation, probe_isolation};

use crate::{table_of_files as files, table_of_system as system};

/// A shell line that tries to change, read or reach something outside of the sandbox. It prints
/// `ESCAPED` if it can see that it succeeded.
pub(crate) struct Escape {
    pub(crate) line: &'static str,
    only_namespaces: bool,
    /// Whether a test also runs the line without a sandbox, where it must succeed (the control).
    /// Other lines would harm the system without a sandbox, or need rights, devices or programs
    /// that a test cannot expect.
    pub(crate) has_control: bool,
}

impl Escape {
    pub(crate) fn holds_in(&self, isolation: Isolation) -> bool {
        isolation == Isolation::Namespaces || !self.only_namespaces
    }
}

/// Returns all lines. The lines of the tables `ONLY_NAMESPACES` succeed under Landlock, as the gaps
/// of Landlock state.
pub(crate) fn escapes() -> impl Iterator<Item = Escape> {
    // Without Landlock's restriction of signals, a line would end processes of the test's user.
    let signals_are_free = probe_isolation().landlock_abi < 6;
    let others = [
        (system::BOTH, false, true),
        (system::BOTH_WITHOUT_CONTROL, false, false),
        (system::SIGNALS, signals_are_free, true),
        (system::SIGNALS_WITHOUT_CONTROL, signals_are_free, false),
        (system::ONLY_NAMESPACES, true, true),
        (system::ONLY_NAMESPACES_WITHOUT_CONTROL, true, false),
    ];
    file_escapes().chain(others.into_iter().flat_map(lines))
}

/// Returns the lines that try to change or read files.
pub(crate) fn file_escapes() -> impl Iterator<Item = Escape> {
    let tables = [
        (files::BOTH, false, true),
        (files::BOTH_WITHOUT_CONTROL, false, false),
        (files::ONLY_NAMESPACES, true, true),
        (files::ONLY_NAMESPACES_WITHOUT_CONTROL, true, false),
    ];
    tables.into_iter().flat_map(lines)
}

fn lines(
    (lines, only_namespaces, has_control): (&'static [&'static str], bool, bool),
) -> impl Iterator<Item = Escape> {
    lines.iter().map(move |line| Escape { line, only_namespaces, has_control })
}
