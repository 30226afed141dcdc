//! `picture`: regenerates the picture of the README, and the HTML page of the session in the
//! picture.

use crate::process::{self, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs the tests that normally compare the picture and the page with the real output. An
/// environment variable makes the tests write the two files instead.
pub(crate) fn update_picture(workspace: &Workspace, ui: &mut Ui<'_>, _: &[String]) -> TaskResult {
    // `--workspace` enables the same features as in the step `test`, so that no dependency is built
    // twice.
    let mut test = workspace.cargo_command("test --workspace --all-features --test it picture::");
    process::run_expecting_success(test.env("CALLBOARD_PICTURE", "write"))?;
    ui.print_result_line("docs/turn.svg");
    ui.print_result_line("docs/session.html");
    Ok(())
}
