//! `picture`: regenerates the picture of the README, and the page of the session that it shows.

use crate::process::{self, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs the tests that compare the picture and the page with the real output, but in the mode in
/// which the tests write them.
pub(crate) fn update_picture(workspace: &Workspace, ui: &mut Ui<'_>, _: &[String]) -> TaskResult {
    // `--workspace` is used as in the step `test`, so that no dependency is built twice.
    let mut test = workspace.cargo_command("test --workspace --all-features --test it picture::");
    process::run_expecting_success(test.env("CALLBOARD_PICTURE", "write"))?;
    ui.print_result_line("docs/turn.svg");
    ui.print_result_line("docs/session.html");
    Ok(())
}
