//! `terminal`: runs a shell command and streams its output.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::{Effects, Grant, PinnedPlan};
use acp_types::{TerminalPatch, TerminalSize, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{ErrorCode, ToolError};
use crate::files::system::Dir;
use crate::files::workspace::{Workspace, WorkspacePath, open};
use crate::limits::{
    BACKGROUND_START_WAIT, DEFAULT_COMMAND_WAIT, MAX_COMMAND_TIMEOUT, MAX_SANDBOX_REASON_BYTES,
};
use crate::note::Note;
use crate::sandbox::{CommandIsolation, PreviewSetting, SandboxLease};
use crate::tool::{
    CallDescription, CommandOutputStream, Context, Invocation, OutputDisplay, SideEffects, Spec,
    Tool, ToolHint, ToolOutput, ToolPreview, run_on_blocking_thread,
};
use callboard_process::{ShellCommand, Streams, WindowSize};
use callboard_sandbox::NetworkAccess;

use self::preview::PreviewEnd;

pub(super) mod background;
mod client_terminal;
mod command_report;
mod local_process;
mod preview;
mod recorded_changes;
pub(super) mod risks;

/// The tool `terminal`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal;

/// The command, and the directory in which it runs.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[schemars(extend("x-aliases" = ["cmd", "command_line", "script", "shell_command", "bash"]))]
    command: String,
    /// Default: the working directory.
    #[schemars(extend("x-aliases" = ["workdir", "working_directory", "working_dir", "directory", "dir", "cd", "path"]))]
    cwd: Option<String>,
    /// Milliseconds until the command is ended, at most 3600000. By default, it moves to the
    /// background after 120000, or is ended if the client runs it.
    #[schemars(extend("x-aliases" = ["timeout", "timeout_millis", "timeout_milliseconds"]))]
    timeout_ms: Option<u64>,
    /// For servers, watchers and long tasks.
    #[schemars(extend("x-aliases" = ["run_in_background", "is_background", "detach"]))]
    background: Option<bool>,
    /// Milliseconds until the command continues in the background, if it still runs then.
    #[schemars(extend("x-hidden" = true))]
    background_after_ms: Option<u64>,
    /// Run in a terminal, so that terminal_input can type; programs are slower then.
    #[schemars(extend("x-aliases" = ["pty"]))]
    tty: Option<bool>,
    /// Run outside of the sandbox; the user is asked. Only if the sandbox stopped the command: what
    /// it needs, in a few words.
    outside_sandbox: Option<String>,
}

/// The settings with which the call runs the command.
#[derive(Debug)]
pub(crate) struct Plan {
    command: ShellCommand,
    /// Whether the command starts in the background.
    is_background: bool,
    /// Maximum time that the call waits for the command. `None` if there is no limit.
    foreground_wait: Option<Duration>,
    /// Whether the arguments request that the command runs in the background, either from its start
    /// or after a time.
    is_background_requested: bool,
    /// The working directory. The handle `cwd_handle` keeps this directory open, so that a local
    /// command runs in it even if another directory gets its name.
    cwd_path: WorkspacePath,
    cwd_handle: Arc<Dir>,
    has_sandbox: bool,
    /// The effects for which permission is requested again if the command cannot be previewed.
    effects: Effects,
    /// The notes of the permission request.
    notes: Vec<Note>,
    /// The parts of the sandbox that belong to the command. Set just before the command starts.
    lease: Option<SandboxLease>,
}

impl Args {
    /// Returns the timeout of the command, and the maximum time that the call waits for it.
    fn timeout_and_wait(&self) -> (Option<Duration>, Option<Duration>) {
        let is_background = self.background == Some(true);
        let asked = self.timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis);
        let timeout = asked.or_else(|| (!is_background).then_some(MAX_COMMAND_TIMEOUT));
        let patience = match self.background_after_ms {
            _ if is_background => Some(BACKGROUND_START_WAIT),
            Some(after) => Some(Duration::from_millis(after)),
            None if asked.is_none() => Some(DEFAULT_COMMAND_WAIT),
            None => None,
        };
        (timeout.map(|timeout| timeout.min(MAX_COMMAND_TIMEOUT)), patience)
    }
}

impl Tool for Terminal {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "terminal".into(),
            aliases: &["run", "bash", "shell"],
            description: "Runs a shell command and returns its output and exit code. Each \
                          command has a fresh shell without standard input; `cd` and variables \
                          do not persist. Everything it started ends with it: run servers with \
                          `background`."
                .into(),
            kind: ToolKind::Execute,
            side_effects: SideEffects::Anything,
            title: "terminal".into(),
            display: OutputDisplay::Terminal,
        }
    }

    fn hint(&self) -> Option<ToolHint> {
        let text = "\
            - Commands have no input: pass options that keep them from asking, and start no editor or \
            pager. Quote paths. Use no command where a tool does the same.";
        Some(ToolHint::new(text))
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        let at = context.workspace.resolve(args.cwd.as_deref().unwrap_or("."));
        let cwd = at.map_or_else(|_| context.workspace.cwd().to_owned(), |at| at.path().to_owned());
        let description = CallDescription::new("terminal").with_argument("command", &args.command);
        let description = if cwd == context.workspace.cwd() {
            description
        } else {
            let shown = context.workspace.display(&cwd);
            CallDescription { key: "terminal-in".into(), ..description }.with_argument("cwd", shown)
        };
        let WindowSize { cols, rows } = WindowSize::default();
        let opening = TerminalPatch::for_new_terminal(args.command.clone(), cwd);
        let terminal = opening.with_size(TerminalSize { cols, rows });
        CallDescription { terminal: Some(terminal), ..description }
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Plan>, ToolError> {
        let context = invocation.context;
        check_command_text(&args.command)?;
        let at = context.workspace.resolve(args.cwd.as_deref().unwrap_or("."))?;
        if !context.workspace.metadata(&at)?.is_dir() {
            let message = format!("{} is not a directory.", at.given());
            return Err(ToolError::recoverable(ErrorCode::NotADirectory, message));
        }
        // For a removed directory, `metadata` still succeeds, but `open_dir` fails.
        let folder = Arc::new(context.workspace.open_dir(&at)?);
        let identity =
            folder.own_id().map_err(|error| context.workspace.explain_io_error(&at, &error))?;
        let pre_image = format!("{identity:?}").into_bytes();
        let is_background = args.background == Some(true);
        if is_background && context.workspace.background_commands().reserve_slot().is_none() {
            return Err(background::too_many_commands_error());
        }
        let (timeout, patience) = args.timeout_and_wait();
        let asks_later = args.background_after_ms.is_some();
        let command = ShellCommand::new(args.command.clone(), at.path(), (*context.env).clone())
            .with_streams(match args.tty {
                Some(true) => Streams::Interactive(WindowSize::default()),
                _ => Streams::Pipe,
            })
            .with_timeout(timeout);
        let (workspace, cwd) = (context.workspace.clone(), at.path().to_owned());
        let private_tmp = match (&*context.isolation, &args.outside_sandbox) {
            (CommandIsolation::Sandbox(sandbox), None) => Some(sandbox.visible_tmp().to_owned()),
            _ => None,
        };
        let (line, outside_sandbox) = (args.command, args.outside_sandbox);
        let asks_background = is_background || asks_later;
        let is_interactive = matches!(command.streams, Streams::Interactive(_));
        let has_preview = !asks_background && !is_interactive;
        let (isolation, setting) = (context.isolation.clone(), context.command_preview);
        let may_run_in_client = context.terminal.is_some() && private_tmp.is_none();
        let judged = run_on_blocking_thread(move || {
            let home = command.env.get("HOME").map(PathBuf::from);
            let (home, private_tmp) = (home.as_deref(), private_tmp.as_deref());
            let env = (!may_run_in_client).then_some(&command.env);
            let has_namespaces = private_tmp.is_some() && isolation.has_namespaces();
            let cwd = &*command.cwd;
            let place = risks::CommandSurroundings { cwd, home, private_tmp, has_namespaces, env };
            let judged = risks::assess_command(&line, place, &workspace);
            let can_preview = match &*isolation {
                CommandIsolation::Sandbox(sandbox) if setting != PreviewSetting::Never => {
                    has_preview && sandbox.can_preview(&workspace)
                }
                _ => false,
            };
            Ok((judged, command, can_preview))
        });
        let (risks::RiskAssessment { effects, note }, command, can_preview) = judged.await?;
        let (effects, sandbox_note) = mark_effects_by_isolation(
            effects,
            &command.line,
            (outside_sandbox, asks_background),
            context,
        );
        let unavailable = if has_preview { "preview-unavailable" } else { "preview-not-for" };
        let (effects, preview_note) = mark_effects_by_preview_setting(
            effects,
            context.command_preview,
            can_preview,
            unavailable,
        );
        let notes: Vec<_> = sandbox_note.into_iter().chain(note).chain(preview_note).collect();
        let plan = Plan {
            has_sandbox: effects.has_sandbox(),
            effects: effects.clone(),
            notes: notes.clone(),
            lease: None,
            command,
            cwd_path: at,
            cwd_handle: folder,
            is_background,
            foreground_wait: patience,
            is_background_requested: asks_background,
        };
        Ok(ToolPreview { effects, notes, pre_image, cwd: Some(cwd), ..ToolPreview::new(plan) })
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let mut network =
            if grant.is_from_answer() { NetworkAccess::Host } else { NetworkAccess::None };
        let is_for_preview = grant.is_for_preview();
        let mut plan = match is_for_preview {
            true => pinned.release_for_preview(grant)?,
            false => pinned.release(grant)?,
        };
        open::require_same_directory(
            &invocation.context.workspace,
            &plan.cwd_path,
            &plan.cwd_handle,
        )?;
        if is_for_preview {
            match preview::preview_then_request_and_apply(&plan, invocation).await? {
                PreviewEnd::Finished(output) => return Ok(output),
                PreviewEnd::NoPreview(obstacle) => {
                    preview::request_run_without_preview(&plan, &obstacle, invocation).await?;
                    network = NetworkAccess::Host;
                }
            }
        }
        if plan.has_sandbox {
            let (command, lease) = confine_command(plan.command, network, invocation).await?;
            (plan.command, plan.lease) = (command, Some(lease));
        }
        match client_terminal::choose_client_backend(&plan, invocation) {
            Some(backend) => {
                client_terminal::run_in_client_terminal(plan, backend, invocation).await
            }
            None => local_process::run_local_command(plan, invocation).await,
        }
    }
}

/// Returns an error if a command line is empty or contains a NUL character.
fn check_command_text(line: &str) -> Result<(), ToolError> {
    if line.trim().is_empty() {
        return Err(ToolError::invalid_arguments("The command is empty."));
    }
    if line.contains('\0') {
        return Err(ToolError::invalid_arguments("The command contains a NUL character."));
    }
    Ok(())
}

/// Marks the effects of a command according to the isolation in which the command will run. Returns
/// a note if the command runs without a sandbox although sandboxes are enabled, or if the sandbox
/// is too weak.
fn mark_effects_by_isolation(
    effects: Effects,
    command: &str,
    (outside_sandbox, is_background): (Option<String>, bool),
    context: &Context,
) -> (Effects, Option<Note>) {
    match (&*context.isolation, outside_sandbox) {
        (CommandIsolation::Off, _) => (effects, None),
        (CommandIsolation::Unavailable { reason }, _) => {
            (effects.always_ask(), Some(Note::new("no-sandbox").with_text("reason", reason)))
        }
        (CommandIsolation::Sandbox(sandbox), None) => {
            let effects = effects.with_sandbox_mark();
            match sandbox.reason_to_ask(&context.workspace, is_background) {
                None => (effects, None),
                weakness => (effects.always_ask(), weakness),
            }
        }
        (CommandIsolation::Sandbox(sandbox), Some(why)) => {
            let note = match sandbox.recorded_stop(command) {
                None => Note::new("outside-sandbox"),
                Some(line) => Note::new("outside-sandbox-stopped").with_text("line", line),
            };
            let note = note.with_text("why", why).with_truncated_texts(MAX_SANDBOX_REASON_BYTES);
            (effects.always_ask(), Some(note))
        }
    }
}

/// Marks the effects of a sandboxed command according to the setting. If the setting requires a
/// preview that is impossible, the call asks each time, and the returned note has the key
/// `unavailable`.
fn mark_effects_by_preview_setting(
    effects: Effects,
    setting: PreviewSetting,
    can_preview: bool,
    unavailable: &'static str,
) -> (Effects, Option<Note>) {
    match (setting, can_preview) {
        _ if !effects.has_sandbox() => (effects, None),
        (PreviewSetting::Always, true) => (effects.with_required_preview(), None),
        (PreviewSetting::Always, false) => (effects.always_ask(), Some(Note::new(unavailable))),
        (_, true) => (effects.with_preview_offer(), None),
        (_, false) => (effects, None),
    }
}

/// Returns whether a command that reads no input from a terminal writes its output to a terminal.
fn is_output_sent_to_terminal(Invocation { context, call, .. }: Invocation<'_>) -> bool {
    context.command_output == CommandOutputStream::AsClientShows
        && call.session().update(|session, _| session.shows_terminals())
}

/// Returns a command that runs in the sandbox of the session. The caller must keep the lease while
/// the command runs.
async fn confine_command(
    command: ShellCommand,
    network: NetworkAccess,
    Invocation { context, call, titles }: Invocation<'_>,
) -> Result<(ShellCommand, SandboxLease), ToolError> {
    let (isolation, call, titles) = (context.isolation.clone(), call.clone(), titles.clone());
    let confine = move |workspace: &Workspace| match &*isolation {
        CommandIsolation::Sandbox(sandbox) => {
            sandbox.confine(command, network, workspace, (&call, &titles)).map_err(|error| {
                let message = format!("The sandbox cannot be prepared: {error}.");
                ToolError::recoverable(ErrorCode::Io, message)
            })
        }
        // The permission was given for a command in a sandbox, so the command must not run without
        // one.
        _ => Err(ToolError::fatal("the session has no sandbox")),
    };
    context.run_blocking(confine).await
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
