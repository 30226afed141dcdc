//! The law of edits over as many random edits as are asked for, and over files.

use super::Run;
use crate::cargo;
use crate::process::Stop;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs them in the release profile. What breaks the law is shown with its seed on stderr.
pub(super) fn prove(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    run.is_seeded = true;
    ui.note(format_args!("edits: seed {}", run.seed));
    let mut command = cargo::edits(workspace, "release", run.n);
    command.env("PROPTEST_RNG_SEED", run.seed.to_string());
    command.env("EDITED_FILES", (run.n / 500).max(1).to_string());
    super::broken(&mut command, run)
}
