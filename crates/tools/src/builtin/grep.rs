//! `grep`: a regular expression in the contents of files.

use acp_lifecycle::{Effect, Grant, Pinned};
use acp_types::{Content, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::ToolError;
use crate::search::{Query, search_at};
use crate::tool::{
    Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool, blocking,
};
use crate::workspace::Resolved;

/// Searches the contents of files.
#[derive(Debug, Clone, Copy)]
pub struct Grep;

/// What to search for, and where.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A regular expression (Rust syntax) that matches inside of one line.
    pub pattern: String,
    /// The file or directory to search; the working directory if not given.
    pub path: Option<String>,
    /// Which files to search, as `*.rs` or `src/**`; all if not given.
    pub glob: Option<String>,
    /// Whether upper and lower case differ; true if not given.
    pub case_sensitive: Option<bool>,
    /// Lines to show before and after each match, 0 to 20; 0 if not given.
    pub context: Option<u32>,
    /// Matching lines to show, 1 to 2000; 250 if not given.
    pub max_results: Option<u32>,
}

impl Tool for Grep {
    type Args = Args;
    type Plan = (Query, Resolved);

    fn spec(&self) -> Spec {
        Spec {
            name: "grep",
            aliases: &["search"],
            description: "Searches the contents of files for a regular expression and returns \
                          the matching lines with their numbers, by file. Leaves out binary \
                          files and what .gitignore names.",
            kind: ToolKind::Search,
            reach: Reach::Reads,
            title: "grep",
            surface: Surface::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> Description {
        let path = args.path.as_deref().unwrap_or(".");
        Description::new("grep").with("pattern", &args.pattern).with_path("path", path, context)
    }

    async fn preview(&self, args: Args, context: &Context) -> Result<Draft<Self::Plan>, ToolError> {
        let at = context.workspace.look(args.path.as_deref().unwrap_or("."))?;
        let query = Query {
            pattern: args.pattern,
            path: args.path,
            glob: args.glob,
            case_sensitive: args.case_sensitive.unwrap_or(true),
            context: args.context.unwrap_or(0),
            max_results: args.max_results,
        };
        let effects = context.workspace.looked_at(&at, Effect::Search);
        Ok(Draft { effects, ..Draft::new((query, at)) })
    }

    async fn run(
        &self,
        pinned: Pinned<Self::Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        let (query, at) = pinned.release(grant)?;
        let workspace = invocation.context.workspace.clone();
        let cancel = invocation.call.cancel().clone();
        let (matches, text) = blocking(move || {
            let matches = search_at(&workspace, &query, &at, &|| cancel.is_cancelled())?;
            let text = matches.to_text(&workspace);
            Ok((matches, text))
        })
        .await?;
        Ok(Output {
            content: Some(vec![Content::code("", &text)]),
            raw: Some(json!({
                "matches": matches.count,
                "files": matches.files.len(),
                "truncated": matches.truncated,
            })),
            locations: Some(matches.locations().collect()),
            text,
            ..Output::default()
        })
    }
}
