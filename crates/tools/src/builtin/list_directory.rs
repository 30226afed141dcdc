//! `list_directory`: lists the entries of a directory.

use acp_lifecycle::{Effect, Grant, PinnedPlan};
use acp_types::{Content, Progress, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::ToolError;
use crate::files::workspace::WorkspacePath;
use crate::search::list::{ListQuery, list_at};
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview,
};

/// The tool `list_directory`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListDirectory;

/// The directory to list, and the number of levels.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[schemars(extend("x-aliases" = ["dir", "directory", "folder", "dir_path", "directory_path", "target_directory", "root", "file_path", "relative_workspace_path"]))]
    #[serde(default = "default_path")]
    path: String,
    /// Levels, 1 to 10; default 1.
    #[schemars(extend("x-aliases" = ["max_depth", "levels"]))]
    depth: Option<u32>,
    /// Include what .gitignore excludes.
    #[schemars(extend("x-aliases" = ["no_ignore"]))]
    include_ignored: Option<bool>,
    /// Entries to skip.
    offset: Option<u32>,
}

impl Tool for ListDirectory {
    type Args = Args;
    type Plan = (Args, WorkspacePath);

    fn spec(&self) -> Spec {
        Spec {
            name: "list_directory".into(),
            aliases: &["list", "ls"],
            description: "Lists a directory, directories first, files with their sizes.".into(),
            kind: ToolKind::Read,
            side_effects: SideEffects::Reads,
            title: "list-directory".into(),
            display: OutputDisplay::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        CallDescription::for_directory("list-directory", "list-directory-here", &args.path, context)
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Self::Plan>, ToolError> {
        let context = invocation.context;
        let (at, effects) = context.inspect_path_with_effects(&args.path, Effect::Read).await?;
        Ok(ToolPreview { effects, ..ToolPreview::new((args, at)) })
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Self::Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let (args, at) = pinned.release(grant)?;
        let call = invocation.call.clone();
        let query = ListQuery {
            path: args.path,
            depth: args.depth,
            include_ignored: args.include_ignored.unwrap_or(false),
            offset: args.offset.unwrap_or(0),
        };
        let listed = invocation.context.run_blocking(move |workspace| {
            let is_cancelled = || call.cancel_token().is_cancelled();
            let listing = list_at(workspace, &query, &at, &is_cancelled, &|seen| {
                call.report_progress(Progress::new(seen as f64).with_message("entries".to_owned()));
            })?;
            let text = listing.to_text();
            Ok((listing, text))
        });
        let (listing, text) = listed.await?;
        Ok(ToolOutput {
            content: Some(vec![Content::fenced_code_block("", &text)]),
            raw_output: Some(json!({
                "entries": listing.entries.len(),
                "leftOut": listing.omitted_entries,
                "nextOffset": listing.next_offset(),
            })),
            text,
            ..ToolOutput::default()
        })
    }
}

fn default_path() -> String {
    ".".to_owned()
}
