//! `picture`: regenerates the picture of the README, the HTML page of the session in the picture,
//! and the chart.

mod chart;

use std::fs;
use std::io;

use crate::process::{self, TaskError, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs the tests that normally compare the picture and the page with the real output. An
/// environment variable makes the tests write the two files instead.
pub(crate) fn update_pictures_and_session_page(
    workspace: &Workspace,
    ui: &mut Ui<'_>,
    _: &[String],
) -> TaskResult {
    // `--workspace` enables the same features as in the step `test`, so that no dependency is built
    // twice.
    let mut test = workspace.cargo_command("test --workspace --all-features --test it picture::");
    process::run_expecting_success(test.env("CALLBOARD_PICTURE", "write"))?;
    ui.print_line_to_stdout("docs/turn.svg");
    ui.print_line_to_stdout("docs/session.html");
    let (page, picture) =
        (workspace.root.join("docs/performance.md"), workspace.root.join("docs/performance.svg"));
    fs::read_to_string(page)
        .and_then(|page| chart::draw_chart(&page).map_err(io::Error::other))
        .and_then(|chart| fs::write(picture, chart))
        .map_err(|error| TaskError::Failed(format!("docs/performance.md: {error}")))?;
    ui.print_line_to_stdout("docs/performance.svg");
    Ok(())
}
