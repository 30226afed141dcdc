//! `picture`: regenerates the picture of the README.

use crate::process::{self, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs the test that compares the picture with the real output, in the mode that writes it.
pub(crate) fn run(workspace: &Workspace, ui: &mut Ui<'_>, _: &[String]) -> TaskResult {
    // `--workspace`, as in the `test` step: nothing is built twice.
    let mut test = workspace.cargo("test --workspace --all-features --test it picture::");
    process::run(test.env("CALLBOARD_PICTURE", "write"))?;
    ui.line("docs/turn.svg");
    Ok(())
}
