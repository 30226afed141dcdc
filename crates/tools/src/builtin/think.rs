//! `think`: a place for the model to think aloud. It does nothing.

use acp_lifecycle::{Grant, Pinned};
use acp_types::{Content, ToolKind};
use callboard_text::head;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::ToolError;
use crate::limits::THOUGHT_TITLE_BYTES;
use crate::tool::{Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool};

/// Notes a thought.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Think;

/// The thought.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// What is thought.
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
            description: "Notes a thought for the user to see. Changes nothing and finds \
                          nothing out."
                .into(),
            kind: ToolKind::Think,
            reach: Reach::Nothing,
            title: "think".into(),
            surface: Surface::Content,
        }
    }

    fn describe(&self, args: &Args, _: &Context) -> Description {
        let thought = args.thought.trim();
        let first = thought.lines().next().unwrap_or_default();
        let mut title = head(first, THOUGHT_TITLE_BYTES).to_owned();
        if title.len() < thought.len() {
            title.push('…');
        }
        Description::new("think").with("thought", title)
    }

    async fn preview(&self, args: Args, _: Invocation<'_>) -> Result<Draft<String>, ToolError> {
        Ok(Draft::new(args.thought))
    }

    async fn run(
        &self,
        pinned: Pinned<String>,
        grant: Grant,
        _: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        let thought = pinned.release(grant)?;
        Ok(Output {
            text: "Noted.".to_owned(),
            content: Some(vec![Content::text(thought)]),
            ..Output::default()
        })
    }
}
