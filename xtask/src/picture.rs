//! `picture`: regenerates the picture of the README.

use crate::process::{self, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs the test that compares the picture with the real output, but in the mode in which the test
/// writes the picture.
pub(crate) fn update_picture(workspace: &Workspace, ui: &mut Ui<'_>, _: &[String]) -> TaskResult {
    // `--workspace` is used as in the step `test`, so that no dependency is built twice.
    let mut test = workspace.cargo_command("test --workspace --all-features --test it picture::");
    process::run_expecting_success(test.env("CALLBOARD_PICTURE", "write"))?;
    ui.print_result_line("docs/turn.svg");
    Ok(())
}
