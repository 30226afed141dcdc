//! The arguments of the subcommand `sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// The arguments of `sessions`. Without a subcommand, `sessions` lists the sessions of the folder.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SessionsCommand>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

impl SessionsArgs {
    /// Returns whether the subcommand lists or searches the sessions of the current folder only.
    #[must_use]
    pub fn needs_current_folder(&self) -> bool {
        match &self.command {
            None => !self.list.all,
            Some(SessionsCommand::List(scope) | SessionsCommand::Search { scope, .. }) => {
                !scope.all
            }
            Some(_) => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions of this folder, newest first.
    List(ListArgs),
    /// Print a session in the same way as `exec`.
    Show(SessionArg),
    /// Find words in prompts and answers of this folder's sessions.
    Search {
        /// Words, or beginnings of words, in any order.
        #[arg(required = true, value_name = "TEXT")]
        text: Vec<String>,
        #[command(flatten)]
        scope: ListArgs,
    },
    /// Write a session to a file or to standard output.
    Export {
        #[command(flatten)]
        session: SessionArg,
        /// The format.
        #[arg(long, value_enum, default_value = "jsonl")]
        format: ExportFormat,
        /// The output file; an existing file is replaced. `-` or no file: standard output.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete a session, with the undo data and outputs of its calls.
    Delete {
        #[command(flatten)]
        session: SessionArg,
        /// Delete the session without asking.
        #[arg(long)]
        yes: bool,
    },
    /// Delete the sessions that exceed the limits `sessions.keep_days` and `sessions.max_bytes` of
    /// the configuration. Undo data and outputs beyond the limits are deleted too.
    Prune {
        /// List these sessions instead of deleting them.
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct ListArgs {
    /// Include the sessions of other folders.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionArg {
    /// The id of the session, or a beginning of the id that matches no other session.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// The format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum ExportFormat {
    /// One ACP message per line: the messages that `session/load` sends.
    Jsonl,
    /// A page of HTML in one file.
    Html,
    /// Markdown.
    Markdown,
}
