//! `undo`: takes back the last change that the session made to files.

use acp_lifecycle::{Effect, Effects, Grant, Pinned};
use acp_types::ToolKind;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::diff::locations;
use crate::error::ToolError;
use crate::remove::Undoing;
use crate::tool::{
    Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool, blocking,
};

/// Takes back the last change of files.
#[derive(Debug, Clone, Copy)]
pub struct Undo;

/// There is nothing to say.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// What will be taken back.
#[derive(Debug)]
pub struct Plan(Undoing);

impl Tool for Undo {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "undo",
            aliases: &[],
            description: "Takes back the last call of this session that wrote, edited, moved or \
                          deleted files; called again, the one before. What commands did is not \
                          taken back.",
            kind: ToolKind::Edit,
            reach: Reach::Changes,
            title: "undo",
            surface: Surface::Content,
        }
    }

    fn describe(&self, _: &Args, _: &Context) -> Description {
        Description::new("undo")
    }

    async fn preview(&self, _: Args, context: &Context) -> Result<Draft<Plan>, ToolError> {
        let workspace = context.workspace.clone();
        blocking(move || {
            let undoing = Undoing::last(&workspace)?;
            let changes: Vec<_> = undoing.changes().collect();
            let effects: Effects = undoing
                .places()
                .map(|(path, is_gone)| {
                    let path = path.to_owned();
                    if is_gone { Effect::Delete(path) } else { Effect::Write(path) }
                })
                .collect();
            let mut places = undoing.places();
            let is_guarded = places
                .any(|(path, _)| workspace.recall(path).is_ok_and(|at| workspace.is_guarded(&at)));
            drop(places);
            Ok(Draft {
                locations: Some(locations(&changes)),
                changes,
                effects: if is_guarded { effects.guarded() } else { effects },
                pre_image: undoing.pre_image(),
                ..Draft::new(Plan(undoing))
            })
        })
        .await
    }

    async fn run(
        &self,
        pinned: Pinned<Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        let Plan(undoing) = pinned.release(grant)?;
        let workspace = invocation.context.workspace.clone();
        blocking(move || {
            let paths: Vec<_> = undoing.places().map(|(path, _)| workspace.display(path)).collect();
            undoing.run(&workspace)?;
            let text = format!("Took back the last change, of {}.", paths.join(", "));
            let raw = Some(json!({ "paths": paths }));
            Ok(Output { text, raw, ..Output::default() })
        })
        .await
    }
}
