//! The arguments of the subcommand `sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// The arguments of `sessions`. Without a subcommand it lists the sessions of the folder.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SessionsCommand>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions of this folder, newest first.
    List(ListArgs),
    /// Print a session as `exec` would have.
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
        /// The file, which is replaced; standard output by default.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete a session. The file contents and outputs that were kept for it go by their age.
    Delete {
        #[command(flatten)]
        session: SessionArg,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Delete the sessions that are too old or too much by `sessions.keep_days` and
    /// `sessions.max_bytes` of the configuration, and the undo data and outputs of that time.
    Prune {
        /// List them instead.
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
    /// The id of the session, or a beginning of it that no other one has.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// The form in which a session is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum ExportFormat {
    /// One message of ACP per line, as `session/load` sends them.
    Jsonl,
    /// A page of HTML, in one file.
    Html,
    /// Markdown.
    Markdown,
}
