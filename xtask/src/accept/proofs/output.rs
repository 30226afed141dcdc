//! A long output of a command: recorded whole, in bounded memory, and in little more time than a
//! loop needs that does nothing but read the same terminal and write the same file.

use super::Run;
use crate::cargo;
use crate::process::Stop;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs the test that measures, and returns how many times as long as that loop it took: on a
/// terminal or on a pipe, whichever is more.
pub(super) fn prove(workspace: &Workspace, _: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let path = workspace.target.join("output-figures.json");
    // What an earlier run left is not what this one measured.
    std::fs::remove_file(&path).ok();
    let mut command = workspace.cargo("test -p callboard-process --all-features --test output");
    command.args(["--profile", "laws"]).env("OUTPUT_BYTES", run.n.to_string());
    command.env("OUTPUT_FIGURES", &path);
    let (status, _) = cargo::failed_tests(&mut command)?;
    if !status.success() {
        return Err(Stop::Failed(format!("the test ended with {status}")));
    }
    let read = std::fs::read_to_string(&path).ok();
    run.more = read.and_then(|read| serde_json::from_str(&read).ok()).unwrap_or_default();
    let ratio = |of: &str| run.more.get(of)?.get("ratio")?.as_f64();
    match (ratio("terminal"), ratio("pipe")) {
        (Some(terminal), Some(pipe)) => Ok(terminal.max(pipe)),
        _ => Err(Stop::Failed("it measured nothing".to_owned())),
    }
}
