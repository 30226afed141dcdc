//! `find_tool`: adds the definitions of tools to the next requests to the model, if there are too
//! many tools to send all definitions.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, Weak};

use acp_lifecycle::{Grant, PinnedPlan};
use acp_types::ToolKind;
use callboard_text::escape_invisible_truncated;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::CurrentTools;
use crate::error::ToolError;
use crate::limits::{
    MAX_FOUND_TOOLS, MAX_LISTED_TOOL_BYTES, MAX_LIVE_TOOLS_BYTES, MAX_TOOL_LIST_BYTES,
};
use crate::lock::lock;
use crate::registry::RegisteredTool;
use crate::tool::{
    CallDescription, Context, Invocation, SideEffects, Spec, Tool, ToolOutput, ToolPreview,
};

/// The tool `find_tool`.
#[derive(Debug)]
pub(super) struct FindTool {
    tools: Weak<Mutex<CurrentTools>>,
    description: String,
}

/// The words to look for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The name of a tool, or words of its name or description.
    #[schemars(extend("x-aliases" = ["name", "words", "keywords"]))]
    query: String,
}

impl FindTool {
    /// Creates the tool that finds these tools.
    pub(super) fn new(current: Weak<Mutex<CurrentTools>>, tools: &[Arc<RegisteredTool>]) -> Self {
        Self { tools: current, description: description(tools) }
    }
}

/// Returns the description. It lists tools until the size limit is reached.
fn description(tools: &[Arc<RegisteredTool>]) -> String {
    let mut text =
        "Finds tools by name or by words, so that you can call them in your next reply. \
                    These tools can be found:"
            .to_owned();
    let max = text.len() + MAX_TOOL_LIST_BYTES;
    for (at, tool) in tools.iter().enumerate() {
        let line = tool_list_line(tool);
        if text.len() + line.len() > max {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n… and {} more; find them by words.", tools.len() - at);
            break;
        }
        text.push_str(&line);
    }
    text
}

/// Returns the line that lists a tool. The description may come from a server, so it is truncated,
/// and invisible characters are escaped.
fn tool_list_line(tool: &RegisteredTool) -> String {
    let description = tool.spec.description.trim().lines().next().unwrap_or_default();
    let (description, is_cut) = escape_invisible_truncated(description, MAX_LISTED_TOOL_BYTES);
    let end = if is_cut { "…" } else { "" };
    format!("\n- {}: {description}{end}", tool.spec.name)
}

/// Returns the tools whose names a query contains. If it contains no names, returns the tools that
/// match its words best, the best match first. The total size of the returned definitions is
/// limited, so that they do not displace all tools of earlier queries.
fn find<'a>(tools: &'a [Arc<RegisteredTool>], query: &str) -> Vec<&'a Arc<RegisteredTool>> {
    let query = query.to_lowercase();
    let mut bytes = 0;
    // The first tool is always accepted, even if its definition exceeds the limit.
    let mut fits = |tool: &&Arc<RegisteredTool>| {
        let with_tool = bytes + tool.definition_bytes();
        let fits = bytes == 0 || with_tool <= MAX_LIVE_TOOLS_BYTES / 2;
        bytes = if fits { with_tool } else { bytes };
        fits
    };
    let is_named = |tool: &&Arc<RegisteredTool>| {
        query.split_whitespace().any(|word| word == tool.spec.name.to_lowercase())
    };
    let named: Vec<_> = tools.iter().filter(is_named).filter(&mut fits).collect();
    if !named.is_empty() {
        return named;
    }
    let words = query.split(|letter: char| !letter.is_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let score = |tool: &RegisteredTool| -> u32 {
        let (name, text) = (tool.spec.name.to_lowercase(), tool.spec.description.to_lowercase());
        let of_word =
            |word: &&str| 3 * u32::from(name.contains(word)) + u32::from(text.contains(word));
        words.iter().map(of_word).sum()
    };
    let scored = tools.iter().map(|tool| (score(tool), tool)).filter(|(score, _)| *score > 0);
    let mut scored: Vec<_> = scored.collect();
    scored.sort_by_key(|(score, _)| Reverse(*score));
    let best = scored.into_iter().map(|(_, tool)| tool).take(MAX_FOUND_TOOLS);
    best.filter(fits).collect()
}

impl Tool for FindTool {
    type Args = Args;
    type Plan = String;

    fn spec(&self) -> Spec {
        Spec::new("find_tool", self.description.clone(), ToolKind::Search)
            .with_side_effects(SideEffects::Nothing)
            .with_title_message_key("find-tool")
    }

    fn describe(&self, args: &Args, _: &Context) -> CallDescription {
        CallDescription::new("find-tool").with_argument("query", &args.query)
    }

    async fn preview(
        &self,
        args: Args,
        _: Invocation<'_>,
    ) -> Result<ToolPreview<String>, ToolError> {
        Ok(ToolPreview::new(args.query))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<String>,
        grant: Grant,
        _: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let query = pinned.release(grant)?;
        let current = self.tools.upgrade().ok_or_else(|| ToolError::fatal("the tools are gone"))?;
        let tools = lock(&current).tools();
        let found = find(&tools, &query);
        if found.is_empty() {
            let text = "No tool has these words in its name or description.".to_owned();
            return Ok(ToolOutput::for_model_and_client_alike(text, json!({ "tools": [] })));
        }
        let names = found.iter().map(|tool| tool.spec.name.to_string());
        let raw: Vec<Value> = names.clone().map(Value::from).collect();
        lock(&current).offer_found_tools(names);
        let lines: String = found.iter().map(|tool| tool_list_line(tool)).collect();
        let text = format!("You can call these tools in your next reply:{lines}");
        Ok(ToolOutput::for_model_and_client_alike(text, json!({ "tools": raw })))
    }
}

#[cfg(test)]
mod tests;
