//! `demo`: builds callboard and the demo client, and runs the client, which starts callboard.

use std::path;
use std::process::Command;

use crate::process::{self, TaskError, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Runs the demo in a folder, and returns its exit code. The default folder is the repository.
pub(crate) fn run_demo(workspace: &Workspace, _: &mut Ui<'_>, args: &[String]) -> TaskResult {
    let folder = match args {
        [] => Ok(workspace.root.clone()),
        [folder] => path::absolute(folder).map_err(|error| format!("{folder}: {error}")),
        _ => Err("`demo` takes one PATH".to_owned()),
    };
    let folder = folder.map_err(TaskError::Usage)?;
    // Callboard is the only member with binaries or an example `demo`. `--workspace` enables the
    // same features of shared dependencies as the step `test`, so that no dependency is built
    // twice.
    let build = "build --workspace --all-features --bins --example demo";
    process::run_expecting_success(&mut workspace.cargo_command(build))?;
    let built = workspace.target.join("debug");
    let mut demo = Command::new(built.join("examples/demo"));
    process::run_passing_exit_code(demo.arg("--agent").arg(built.join("callboard")).arg(folder))
}
