//! `callboard sandbox run` and `callboard doctor sandbox`: the sandbox that commands can have here.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use acp_lifecycle::{RuleStore as _, Rules};
use acp_tools::sandbox::{mask_denied_files, sandbox_policy};
use acp_tools::{Workspace, WorkspaceError};
use callboard_exec::OutputStream;
use callboard_process::env::{base_env, own_env};
use callboard_runtime::FileRuleStore;
use callboard_sandbox::{
    Isolation, IsolationProbe, ProcessSession, SandboxCommand, SandboxPolicy, probe_isolation,
};
use callboard_text::escape_invisible;

use super::subcommands::{guarded_config_paths, process_env};
use super::{
    absolute_or_current_folder, block_on_and_shut_down, print_error_and_fail,
    print_usage_error_and_fail,
};
use crate::user_folders::state_folder;

/// Runs a command in the sandbox of a project folder. Returns the exit code of the command.
pub(super) fn run_in_sandbox(cwd: Option<PathBuf>, command: Vec<OsString>) -> ExitCode {
    let probe = probe_isolation();
    if probe.isolation == Isolation::None {
        return print_usage_error_and_fail(isolation_report_text(probe, None).trim_end());
    }
    block_on_and_shut_down(async move {
        let _signals = keep_running_on_terminal_signals();
        let run = move || {
            start_and_wait(probe.isolation, cwd, &command).map_err(|error| error.to_string())
        };
        match tokio::task::spawn_blocking(run).await {
            Ok(Ok(code)) => ExitCode::from(code),
            Ok(Err(why)) => print_error_and_fail(&why),
            Err(panicked) => print_error_and_fail(&panicked.to_string()),
        }
    })
}

/// Keeps the signals of the terminal from ending this process. The command receives them too, and
/// decides what they do.
#[cfg(unix)]
fn keep_running_on_terminal_signals() -> impl Sized {
    use tokio::signal::unix::{SignalKind, signal};
    [SignalKind::interrupt(), SignalKind::quit()].map(|kind| signal(kind).ok())
}

#[cfg(not(unix))]
fn keep_running_on_terminal_signals() {}

fn start_and_wait(
    isolation: Isolation,
    cwd: Option<PathBuf>,
    command: &[OsString],
) -> Result<u8, Box<dyn std::error::Error>> {
    let (program, args) = command.split_first().ok_or("a command is missing")?;
    let (cwd, mut policy) = project_policy(cwd)?;
    // With namespaces, the command gets a `/tmp` in memory, so no folder is left if a signal ends
    // this process.
    let tmp = (isolation == Isolation::Landlock).then(tempfile::tempdir).transpose()?;
    policy.tmp = tmp.as_ref().map(|tmp| tmp.path().to_owned());
    let mut command = SandboxCommand::new(program, &policy, isolation, ProcessSession::Inherited)?;
    command.args(args).envs(base_env(own_env())).helper_command().current_dir(cwd);
    if let Some(tmp) = &policy.tmp {
        command.envs([("TMPDIR", tmp)]);
    }
    let (status, _end) = command.spawn()?.wait()?;
    Ok(exit_code(status))
}

/// Returns a working directory and the policy for commands in it.
fn project_policy(
    cwd: Option<PathBuf>,
) -> Result<(PathBuf, SandboxPolicy), Box<dyn std::error::Error>> {
    // `home_dir` falls back to the user database, so the keys in the home folder stay masked even
    // if `HOME` is not set.
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let cwd = absolute_or_current_folder(cwd)?;
    let workspace = project_workspace(cwd.clone())?;
    let mut policy = sandbox_policy(&workspace, home.as_deref());
    if let (Some(state), Some(root)) = (state_folder(&process_env()), workspace.roots().next()) {
        let mut rules = Rules::default();
        let stored = FileRuleStore::in_state_folder(&state).load(root)?;
        for rule in stored {
            rules.add_rule(rule);
        }
        mask_denied_files(&mut policy, &rules)?;
    }
    Ok((cwd, policy))
}

/// Returns the workspace of a project folder. The workspace guards the files of this agent.
///
/// # Errors
///
/// Returns an error if the folder cannot be used.
pub(super) fn project_workspace(cwd: PathBuf) -> Result<Workspace, WorkspaceError> {
    let env = process_env();
    let guarded = guarded_config_paths(&env).into_iter().chain(state_folder(&env));
    let workspace = Workspace::new(cwd, Vec::new())?;
    Ok(guarded.fold(workspace, |it, path| it.with_guarded_path(&path)))
}

#[cfg(unix)]
fn exit_code(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;

    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(not(unix))]
fn exit_code(status: std::process::ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Prints which sandbox works here, its weak points, and how to get a better one. The exit code is
/// 0 if there is a sandbox.
pub(super) fn diagnose_sandbox() -> ExitCode {
    let probe = probe_isolation();
    let policy = project_policy(None).ok().map(|(_, policy)| policy);
    OutputStream::stdout().print(&escape_lines(&isolation_report_text(probe, policy.as_ref())));
    match probe.isolation {
        Isolation::None => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn escape_lines(text: &str) -> String {
    text.lines().flat_map(|line| [escape_invisible(line), "\n".into()]).collect()
}

fn isolation_report_text(probe: &IsolationProbe, policy: Option<&SandboxPolicy>) -> String {
    let mut text = String::from(match probe.isolation {
        Isolation::Namespaces => {
            "Sandbox: namespaces, the best kind.\nA command changes files only in the project \
             folders and in a private /tmp. It cannot change\nprotected names, read keys in the home \
             folder, or connect to other hosts, and leaves no process.\n"
        }
        Isolation::Landlock => {
            "Sandbox: Landlock and seccomp.\nA command changes files only in the project folders and \
             in a private temporary folder. It reads only\ntoolchains in the home folder, and has no \
             network.\n"
        }
        Isolation::None => "Sandbox: none. Commands cannot be separated from the system here.\n",
    });
    let gaps = policy.map(|policy| probe.missing_guarantees(policy)).unwrap_or_default();
    if !gaps.is_empty() {
        text.push_str("\nNot guaranteed here:\n");
    }
    for gap in gaps.iter().take(MAX_LISTED_GAPS) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {gap}");
    }
    if let Some(more @ 1..) = gaps.len().checked_sub(MAX_LISTED_GAPS) {
        let _ = writeln!(text, "- and {more} more");
    }
    for refusal in &probe.refusals {
        let _ = writeln!(text, "\n{refusal}.");
    }
    text
}

/// Maximum number of weak points that are listed. There may be one weak point for each protected
/// name, so a complete list would be too long.
const MAX_LISTED_GAPS: usize = 12;
