//! `picture`: regenerates the picture of the README.

use crate::process::{self, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs the test that compares the picture with the real output, in the mode that writes it.
pub(crate) fn update_picture(workspace: &Workspace, ui: &mut Ui<'_>, _: &[String]) -> TaskResult {
    // `--workspace`, as in the `test` step: nothing is built twice.
    let mut test = workspace.cargo_command("test --workspace --all-features --test it picture::");
    process::run_expecting_success(test.env("CALLBOARD_PICTURE", "write"))?;
    ui.print_result_line("docs/turn.svg");
    Ok(())
}
