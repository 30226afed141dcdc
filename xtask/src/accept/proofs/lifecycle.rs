//! The promises over as many random lives and endings as are asked for.

use super::Run;
use crate::cargo;
use crate::process::Stop;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs them in the release profile. What breaks a promise is shown, shrunk to the least life that
/// does, on stderr.
pub(super) fn prove(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    run.is_seeded = true;
    ui.note(format_args!("lifecycle: seed {}", run.seed));
    let mut command = cargo::promises(workspace, "release", run.n);
    command.env("PROPTEST_RNG_SEED", run.seed.to_string());
    super::broken(&mut command, run)
}
