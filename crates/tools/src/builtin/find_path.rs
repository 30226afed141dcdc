//! `find_path`: finds files and directories by name.

use acp_lifecycle::{Effect, Grant, PinnedPlan};
use acp_types::{Content, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::grep::report_search_progress;
use crate::error::ToolError;
use crate::files::workspace::WorkspacePath;
use crate::search::find::{NamePatternKind, NameQuery, find_at};
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview,
};

/// The tool `find_path`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FindPath;

/// The name pattern, and the directory to search.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// A glob. Without a slash it matches names anywhere, with a slash whole paths.
    #[schemars(extend("x-aliases" = ["glob", "glob_pattern", "query", "name", "search", "file_pattern"]))]
    pattern: String,
    /// Default: the working directory.
    #[schemars(extend("x-aliases" = ["dir", "directory", "folder", "dir_path", "directory_path", "target_directory", "root", "file_path", "relative_workspace_path", "cwd"]))]
    path: Option<String>,
    /// The pattern is letters of the path, in order.
    fuzzy: Option<bool>,
    /// Include what .gitignore excludes.
    #[schemars(extend("x-opposites" = ["respect_gitignore"]))]
    #[schemars(extend("x-aliases" = ["no_ignore"]))]
    include_ignored: Option<bool>,
    /// Maximum paths; default 1000, which is the most.
    #[schemars(extend("x-hidden" = true))]
    #[schemars(extend("x-aliases" = ["limit", "head_limit", "max"]))]
    max_results: Option<u32>,
    /// Paths to skip.
    offset: Option<u32>,
}

impl Tool for FindPath {
    type Args = Args;
    type Plan = (Args, WorkspacePath);

    fn spec(&self) -> Spec {
        Spec {
            name: "find_path".into(),
            aliases: &["find", "glob"],
            description: "Finds files and directories by a glob such as `src/**/mod.rs`, or \
                          with `fuzzy` by letters of their paths, best matches first."
                .into(),
            kind: ToolKind::Search,
            side_effects: SideEffects::Reads,
            title: "find-path".into(),
            display: OutputDisplay::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        let path = args.path.as_deref().unwrap_or(".");
        CallDescription::for_directory("find-path", "find-path-here", path, context)
            .with_argument("pattern", &args.pattern)
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Self::Plan>, ToolError> {
        let context = invocation.context;
        let path = args.path.as_deref().unwrap_or(".");
        let (at, effects) = context.inspect_path_with_effects(path, Effect::Read).await?;
        Ok(ToolPreview { effects, ..ToolPreview::new((args, at)) })
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Self::Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let (args, at) = pinned.release(grant)?;
        let (call, query) = (invocation.call.clone(), args.query());
        let searched = invocation.context.run_blocking(move |workspace| {
            let is_cancelled = || call.cancel_token().is_cancelled();
            let watch = |seen| report_search_progress(&call, seen);
            let found = find_at(workspace, &query, &at, &is_cancelled, &watch)?;
            let text = found.to_text(workspace);
            Ok((found, text))
        });
        let (found, text) = searched.await?;
        Ok(ToolOutput {
            content: Some(vec![Content::fenced_code_block("", &text)]),
            raw_output: Some(json!({
                "paths": found.entries.len(),
                "leftOut": found.omitted_entries,
                "nextOffset": found.next_offset(),
            })),
            locations: Some(found.locations().collect()),
            text,
            ..ToolOutput::default()
        })
    }
}

impl Args {
    fn query(self) -> NameQuery {
        let is_fuzzy = self.fuzzy.unwrap_or(false);
        NameQuery {
            pattern: self.pattern,
            pattern_kind: if is_fuzzy { NamePatternKind::Fuzzy } else { NamePatternKind::Glob },
            path: self.path,
            include_ignored: self.include_ignored.unwrap_or(false),
            max_results: self.max_results,
            offset: self.offset.unwrap_or(0),
        }
    }
}
