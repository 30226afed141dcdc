//! `terminal`: runs a shell command and shows its output as it comes.

use std::path::PathBuf;
use std::time::Duration;

use acp_lifecycle::{Grant, Pinned};
use acp_types::{TerminalPatch, TerminalSize, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::command;
use crate::error::{Code, ToolError};
use crate::exec::{Command, Size, Streams};
use crate::limits::{COMMAND_TIMEOUT, COMMAND_TIMEOUT_MAX};
use crate::tool::{
    Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool, blocking,
};

mod client;
mod own;

/// Runs a shell command.
#[derive(Debug, Clone, Copy)]
pub struct Terminal;

/// Which command, and where.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The command line, for a shell.
    pub command: String,
    /// The directory to run it in; the working directory if not given.
    pub cwd: Option<String>,
    /// Milliseconds after which it is ended; 120000 if not given, at most 3600000.
    pub timeout_ms: Option<u64>,
    /// Whether it needs a terminal. Without one, which is faster, programs write plain text.
    pub tty: Option<bool>,
}

impl Tool for Terminal {
    type Args = Args;
    type Plan = Command;

    fn spec(&self) -> Spec {
        Spec {
            name: "terminal",
            aliases: &["run", "bash", "shell"],
            description: "Runs a shell command and returns its output and exit code. Each \
                          command gets a fresh shell without standard input; `cd` and variables \
                          do not last. Everything it started is ended with it. Long output is \
                          shown by its beginning and end, and can be read whole with read_file.",
            kind: ToolKind::Execute,
            reach: Reach::Anything,
            title: "terminal",
            surface: Surface::Terminal,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> Description {
        let at = context.workspace.resolve(args.cwd.as_deref().unwrap_or("."));
        let cwd = at.map_or_else(|_| context.workspace.cwd().to_owned(), |at| at.path().to_owned());
        let Size { cols, rows } = Size::default();
        let opening = TerminalPatch::open(args.command.clone(), cwd);
        let terminal = TerminalPatch { size: Some(TerminalSize { cols, rows }), ..opening };
        let description = Description::new("terminal").with("command", &args.command);
        Description { terminal: Some(terminal), ..description }
    }

    async fn preview(&self, args: Args, context: &Context) -> Result<Draft<Command>, ToolError> {
        if args.command.trim().is_empty() {
            return Err(ToolError::invalid("The command is empty."));
        }
        if args.command.contains('\0') {
            return Err(ToolError::invalid("The command contains a NUL character."));
        }
        let at = context.workspace.resolve(args.cwd.as_deref().unwrap_or("."))?;
        if !context.workspace.metadata(&at)?.is_dir() {
            let message = format!("{} is not a directory.", at.given());
            return Err(ToolError::report(Code::NotADirectory, message));
        }
        let timeout = args.timeout_ms.map_or(COMMAND_TIMEOUT, Duration::from_millis);
        let command = Command {
            line: args.command.clone(),
            cwd: at.path().to_owned(),
            env: (*context.env).clone(),
            streams: match args.tty {
                Some(true) => Streams::Interactive(Size::default()),
                _ => Streams::Pipe,
            },
            timeout: Some(timeout.min(COMMAND_TIMEOUT_MAX)),
        };
        let (workspace, cwd) = (context.workspace.clone(), at.path().to_owned());
        let judged = blocking(move || {
            let home = command.env.get("HOME").map(PathBuf::from);
            let judged = command::judge(&args.command, &command.cwd, home.as_deref(), &workspace);
            Ok((judged, command))
        });
        let (command::Judged { effects, note }, plan) = judged.await?;
        let notes = note.into_iter().collect();
        Ok(Draft { effects, notes, cwd: Some(cwd), ..Draft::new(plan) })
    }

    async fn run(
        &self,
        pinned: Pinned<Command>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        let command = pinned.release(grant)?;
        match client::backend(&command, invocation) {
            Some(backend) => client::run(command, backend, invocation).await,
            None => own::run(command, invocation).await,
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
