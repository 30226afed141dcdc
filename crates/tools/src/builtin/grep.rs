//! `grep`: searches the contents of files for a regular expression.

use std::path::Path;

use acp_lifecycle::{CallHandle, Effect, Grant, PinnedPlan, Verdict};
use acp_types::{Content, Progress, ToolKind};
use callboard_text::grouped_count_with_noun;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::error::{ErrorCode, ToolError};
use crate::files::workspace::{Workspace, WorkspacePath};
use crate::sandbox::denied_reads::{denied_read_patterns, may_contain_denied};
use crate::search::grep::{GrepQuery, SearchProgress, search_at};
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolHint,
    ToolOutput, ToolPreview,
};

/// The tool `grep`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grep;

/// The pattern, and the files to search.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// In Rust's syntax.
    #[schemars(extend("x-aliases" = ["query", "regex", "regexp", "search", "search_pattern", "search_term"]))]
    pattern: String,
    /// A file or directory; default: the working directory.
    #[schemars(extend("x-aliases" = ["dir", "directory", "folder", "dir_path", "directory_path", "target_directory", "root", "file_path", "relative_workspace_path", "file", "filename", "paths", "cwd"]))]
    path: Option<String>,
    /// Globs separated by spaces, such as `*.rs src/**`; `!` excludes.
    #[schemars(extend("x-aliases" = ["include", "includes", "include_pattern", "file_pattern"]))]
    glob: Option<String>,
    /// Such as `rust` or `js,ts`.
    #[schemars(extend("x-aliases" = ["type"]))]
    file_type: Option<String>,
    /// Default true.
    #[schemars(extend("x-opposites" = ["-i", "case_insensitive", "ignore_case"]))]
    case_sensitive: Option<bool>,
    /// The pattern is plain text.
    #[schemars(extend("x-opposites" = ["is_regex", "is_regexp"]))]
    #[schemars(extend("x-aliases" = ["fixed_strings", "-F"]))]
    literal: Option<bool>,
    /// Match whole words only.
    #[schemars(extend("x-hidden" = true))]
    #[schemars(extend("x-aliases" = ["-w", "whole_word", "whole_words", "match_whole_word"]))]
    word: Option<bool>,
    /// Let matches span lines; `(?s)` lets `.` match line breaks.
    #[schemars(extend("x-aliases" = ["-U"]))]
    multiline: Option<bool>,
    /// Lines around each match, 0 to 20.
    #[schemars(extend("x-aliases" = ["-C", "context_lines"]))]
    context: Option<u32>,
    /// Include what .gitignore excludes.
    #[schemars(extend("x-opposites" = ["respect_gitignore"]))]
    #[schemars(extend("x-aliases" = ["no_ignore"]))]
    include_ignored: Option<bool>,
    /// Maximum lines, up to 2000; default 250.
    #[schemars(extend("x-aliases" = ["head_limit", "limit", "max_matches", "max_count"]))]
    max_results: Option<u32>,
    /// Maximum lines per file.
    #[schemars(extend("x-hidden" = true))]
    max_per_file: Option<u32>,
    /// Matching lines to skip.
    offset: Option<u32>,
}

impl Tool for Grep {
    type Args = Args;
    type Plan = (GrepQuery, WorkspacePath);

    fn spec(&self) -> Spec {
        Spec {
            name: "grep".into(),
            aliases: &["search"],
            description: "Returns the lines that match a regular expression, by file, with \
                          their numbers."
                .into(),
            kind: ToolKind::Search,
            side_effects: SideEffects::Reads,
            title: "grep".into(),
            display: OutputDisplay::Content,
        }
    }

    fn hint(&self) -> Option<ToolHint> {
        let text = "\
            - Find text with grep and files with find_path, then read only the places that matter.";
        Some(ToolHint::new(text).with_mentioned_tools(&["find_path"]))
    }

    fn describe(&self, args: &Args, context: &Context) -> CallDescription {
        let path = args.path.as_deref().unwrap_or(".");
        CallDescription::for_directory("grep", "grep-here", path, context)
            .with_argument("pattern", &args.pattern)
    }

    async fn preview(
        &self,
        args: Args,
        invocation: Invocation<'_>,
    ) -> Result<ToolPreview<Self::Plan>, ToolError> {
        let context = invocation.context;
        let path = args.path.as_deref().unwrap_or(".");
        let (at, effects) = context.inspect_path_with_effects(path, Effect::Search).await?;
        let (place, given) = (at.path().to_owned(), at.given().to_owned());
        context
            .run_blocking(move |workspace| refuse_stored_output_search(workspace, &place, &given))
            .await?;
        let query = GrepQuery {
            pattern: args.pattern,
            path: args.path,
            glob: args.glob,
            file_type: args.file_type,
            case_sensitive: args.case_sensitive.unwrap_or(true),
            literal: args.literal.unwrap_or(false),
            word: args.word.unwrap_or(false),
            multiline: args.multiline.unwrap_or(false),
            include_ignored: args.include_ignored.unwrap_or(false),
            context: args.context.unwrap_or(0),
            max_results: args.max_results,
            max_per_file: args.max_per_file,
            offset: args.offset.unwrap_or(0),
        };
        let effects = effects.with_denied_files_left_out();
        Ok(ToolPreview { effects, ..ToolPreview::new((query, at)) })
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Self::Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let (query, at) = pinned.release(grant)?;
        let (call, runtime) = (invocation.call.clone(), Handle::current());
        let denied = call.session().update(|session, _| denied_read_patterns(session.rules()));
        let searched = invocation.context.run_blocking(move |workspace| {
            let is_cancelled = || call.cancel_token().is_cancelled();
            // The search threads do not belong to the runtime, but the call handle needs the clock
            // of the runtime.
            let is_excluded = |path: &Path| {
                let _guard = runtime.enter();
                workspace.outputs().is_output_of_any_session(path) || is_read_denied(&call, path)
            };
            let watch = |seen| {
                let _guard = runtime.enter();
                report_search_progress(&call, seen);
            };
            let matches = search_at(workspace, &query, &at, &is_cancelled, &is_excluded, &watch)?;
            let mut text = matches.to_text(workspace);
            // Rules name real paths.
            let may_contain = |real: WorkspacePath| may_contain_denied(&denied, real.path());
            if !denied.is_empty() && workspace.canonicalize(&at).is_ok_and(may_contain) {
                // A note only for files with a match would reveal what the files contain.
                text.push_str("[files that a rule denies reading are left out]\n");
            }
            Ok((matches, text))
        });
        let (matches, text) = searched.await?;
        Ok(ToolOutput {
            content: Some(vec![Content::fenced_code_block("", &text)]),
            raw_output: Some(json!({
                "matches": matches.count,
                "files": matches.files.len(),
                "truncated": matches.truncated,
                "nextOffset": matches.next_offset(),
            })),
            locations: Some(matches.locations().collect()),
            text,
            ..ToolOutput::default()
        })
    }
}

/// Returns whether a rule denies reading a file. The permission of a search is that of its folder,
/// which may contain such files.
fn is_read_denied(call: &CallHandle, path: &Path) -> bool {
    let real = path.canonicalize();
    let paths = [path.to_owned()].into_iter().chain(real);
    call.judge_effects(&paths.map(Effect::Read).collect()) == Verdict::Deny
}

/// Rejects a search in the stored outputs of commands. Secrets are redacted only when `read_file`
/// reads an output. A search would reveal parts of a secret, because the model learns which
/// patterns match.
fn refuse_stored_output_search(
    workspace: &Workspace,
    path: &Path,
    given: &str,
) -> Result<(), ToolError> {
    if !workspace.outputs().is_output_of_any_session(path) {
        return Ok(());
    }
    let message = format!(
        "{given} holds output of commands, which cannot be searched here. Page through it with \
         read_file, or search it with a command in terminal."
    );
    Err(ToolError::recoverable(ErrorCode::NotPermitted, message))
}

/// Reports the progress of a search to the client.
pub(super) fn report_search_progress(call: &CallHandle, seen: SearchProgress) {
    if let Some(locations) = seen.locations {
        call.set_locations(locations);
    }
    let files = |count: usize| grouped_count_with_noun(count as u64, "file", "files");
    let known = seen.files_found.map(|known| format!(", {} found so far", files(known)));
    let matches = grouped_count_with_noun(seen.match_count as u64, "match", "matches");
    let unit = if seen.files_searched == 1 { "file" } else { "files" };
    let message = format!("{unit}, {matches}{}", known.unwrap_or_default());
    call.report_progress(Progress::new(seen.files_searched as f64).with_message(message));
}
