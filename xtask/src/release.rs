//! The release build of the program, with its functions in the order of their first use.
//!
//! The kernel maps a program in blocks of 64 KiB. The program has 36,000 functions in 34 MB. To open
//! a session and to end, it calls 2,400 of them, which lie in 240 blocks. If these functions lie
//! side by side, an open session needs less than half of the memory, and the start is faster. The
//! order cannot be a file of the repository, because the names of functions change with the
//! compiler and with each dependency.
//!
//! Cargo therefore calls xtask as the linker: it links the program, runs it and records which
//! functions are called ([`trace`]), and links it again ([`link`]). The slow part of the build, the
//! optimisation, happens once.

pub(crate) mod link;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod trace;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use self::link::REPORT_VARIABLE;
use crate::process::{TaskError, TaskResult, run_expecting_success};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Builds the program `target/release/callboard`.
pub(crate) fn build_program(workspace: &Workspace, ui: &Ui<'_>) -> TaskResult {
    let words = "rustc --release --locked -p callboard --bin callboard";
    let mut command = workspace.cargo_command(words);
    ui.print_remark_to_stderr(format_args!("cargo {words}"));
    if !link::IS_SUPPORTED {
        return run_expecting_success(&mut command);
    }
    // Only the program is linked by xtask. A linker for all crates would be part of the fingerprint
    // of each dependency.
    command.args(["--", "-C"]).arg(format!("linker={}", own_path()?));
    run_and_report(workspace, ui, &mut command)
}

/// Builds and installs the program; the arguments go to `cargo install`, e.g. `--root FOLDER`.
pub(crate) fn install_program(
    workspace: &Workspace,
    ui: &mut Ui<'_>,
    args: &[String],
) -> TaskResult {
    let mut command = workspace.cargo_command("install --locked --path crates/agent");
    command.args(args);
    if !link::IS_SUPPORTED {
        return run_expecting_success(&mut command);
    }
    command.arg("--config").arg(format!("target.{}.linker={:?}", link::TARGET, own_path()?));
    run_and_report(workspace, ui, &mut command)
}

/// Runs a build that uses xtask as the linker, and prints the report of the newest link. Cargo does
/// not link a program again that has not changed.
fn run_and_report(workspace: &Workspace, ui: &Ui<'_>, command: &mut Command) -> TaskResult {
    let report = workspace.target.join("ordered-functions.txt");
    run_expecting_success(command.env(REPORT_VARIABLE, &report))?;
    if let Ok(text) = fs::read_to_string(&report) {
        ui.print_remark_to_stderr(text.trim_end());
    }
    Ok(())
}

fn own_path() -> Result<String, TaskError> {
    let own = env::current_exe().ok();
    let own = own.as_deref().and_then(Path::to_str).map(str::to_owned);
    own.ok_or_else(|| TaskError::Failed("the path of xtask is not known, or not UTF-8".to_owned()))
}
