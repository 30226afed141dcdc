//! Shell lines that try to escape.

use callboard_sandbox::{Isolation, probe_isolation};

use crate::{table_of_files as files, table_of_system as system};

/// A shell line that tries to change, read or reach something outside of the sandbox. It prints
/// `ESCAPED` if it can see that it succeeded.
pub(crate) struct Escape {
    pub(crate) line: &'static str,
    only_namespaces: bool,
    /// Whether the line succeeds without a sandbox. The others would then harm the system, or depend
    /// on rights, devices and programs that a test cannot expect.
    pub(crate) has_control: bool,
}

impl Escape {
    pub(crate) fn holds_in(&self, isolation: Isolation) -> bool {
        isolation == Isolation::Namespaces || !self.only_namespaces
    }
}

/// All lines. Those of the tables `ONLY_NAMESPACES` succeed under Landlock; its gaps name them.
pub(crate) fn escapes() -> impl Iterator<Item = Escape> {
    // Without the restriction, a signal would end processes of the test's user.
    let signals_are_free = probe_isolation().landlock_abi < 6;
    let tables = [
        (files::BOTH, false, true),
        (files::BOTH_WITHOUT_CONTROL, false, false),
        (files::ONLY_NAMESPACES, true, true),
        (files::ONLY_NAMESPACES_WITHOUT_CONTROL, true, false),
        (system::BOTH, false, true),
        (system::BOTH_WITHOUT_CONTROL, false, false),
        (system::SIGNALS, signals_are_free, true),
        (system::SIGNALS_WITHOUT_CONTROL, signals_are_free, false),
        (system::ONLY_NAMESPACES, true, true),
        (system::ONLY_NAMESPACES_WITHOUT_CONTROL, true, false),
    ];
    tables.into_iter().flat_map(|(lines, only_namespaces, has_control)| {
        lines.iter().map(move |line| Escape { line, only_namespaces, has_control })
    })
}
