//! `think`: records a thought of the model, and does nothing else.

use acp_lifecycle::{Grant, PinnedPlan};
use acp_types::{Content, ToolKind};
use callboard_text::head;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::ToolError;
use crate::limits::MAX_THOUGHT_TITLE_BYTES;
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolOutput,
    ToolPreview,
};

/// The tool `think`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Think;

/// The thought.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[schemars(extend("x-aliases" = ["thoughts", "thinking", "text", "content", "reasoning"]))]
    thought: String,
}

impl Tool for Think {
    type Args = Args;
    type Plan = String;

    fn spec(&self) -> Spec {
        Spec {
            name: "think".into(),
            aliases: &["thinking"],
            description: "Shows the user a thought. Changes nothing.".into(),
            kind: ToolKind::Think,
            side_effects: SideEffects::Nothing,
            title: "think".into(),
            display: OutputDisplay::Content,
        }
    }

    fn describe(&self, args: &Args, _: &Context) -> CallDescription {
        let thought = args.thought.trim();
        let first = thought.lines().next().unwrap_or_default();
        let mut title = head(first, MAX_THOUGHT_TITLE_BYTES).to_owned();
        if title.len() < thought.len() {
            title.push('…');
        }
        CallDescription::new("think").with_argument("thought", title)
    }

    async fn preview(
        &self,
        args: Args,
        _: Invocation<'_>,
    ) -> Result<ToolPreview<String>, ToolError> {
        Ok(ToolPreview::new(args.thought))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<String>,
        grant: Grant,
        _: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let thought = pinned.release(grant)?;
        Ok(ToolOutput {
            text: "Noted.".to_owned(),
            content: Some(vec![Content::from_text(thought)]),
            ..ToolOutput::default()
        })
    }
}
