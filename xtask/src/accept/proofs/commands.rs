//! The tables of command lines, and what a shell makes of as many random ones as are asked for.

use super::Run;
use crate::process::Stop;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs the tests of both readers of command lines, each with `n` random lines beside a shell.
pub(super) fn prove(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    run.is_seeded = true;
    ui.note(format_args!("commands: seed {}", run.seed));
    // A shell takes longer than the readers do, optimised or not.
    let mut command = workspace.cargo("test -p acp-lifecycle -p acp-tools --all-features --lib");
    command.args(["--test", "rules", "--", "plain::", "command::", "commands::", "bypasses::a"]);
    command.env("PROPTEST_CASES", run.n.to_string());
    command.env("PROPTEST_RNG_SEED", run.seed.to_string());
    super::broken(&mut command, run)
}
