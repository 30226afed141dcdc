//! `write_file`: makes a file, or replaces all of it.

use acp_lifecycle::{Effect, Effects, Grant, Pinned};
use acp_types::{Location, Operation, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::diff;
use crate::edit::placeholder;
use crate::encoding::Text;
use crate::error::{Code, ToolError};
use crate::limits::FILE_BYTES;
use crate::stamp::Stamp;
use crate::tool::{
    Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool, blocking,
};
use crate::workspace::Resolved;
use crate::write::{PreImage, atomic_write, read_whole};

/// Writes a whole file.
#[derive(Debug, Clone, Copy)]
pub struct WriteFile;

/// Which file, and what it shall hold.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file, absolute or relative to the working directory. Missing directories are made.
    pub path: String,
    /// The whole content.
    pub content: String,
}

/// One file with what is there and what shall be there.
#[derive(Debug)]
pub struct Plan {
    at: Resolved,
    content: String,
    found: PreImage,
}

impl Tool for WriteFile {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "write_file",
            aliases: &["write", "create_file"],
            description: "Makes a file or replaces its whole content. To change a part of a \
                          file, use edit_file.",
            kind: ToolKind::Edit,
            reach: Reach::Changes,
            title: "write-file",
            surface: Surface::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> Description {
        Description::new("write-file")
            .with_path("path", &args.path, context)
            .at(&args.path, 0, context)
    }

    async fn preview(&self, args: Args, context: &Context) -> Result<Draft<Plan>, ToolError> {
        let workspace = context.workspace.clone();
        blocking(move || {
            let at = workspace.look(&args.path)?;
            // Rules look at the file that will change, not at a link to it.
            let real = workspace.settle(&at)?;
            let found = read_whole(&workspace, &at, FILE_BYTES)?;
            let (operation, old) = match &found {
                PreImage::Missing => (Operation::Add, String::new()),
                PreImage::Bytes(bytes) => (Operation::Modify, text_of(&args.path, bytes)),
            };
            if let Some(line) = placeholder(&args.content, &old) {
                return Err(ToolError::invalid(format!(
                    "content leaves text out and says so (`{line}`), which would be lost. Give \
                     the whole text, or use edit_file for a part of it"
                )));
            }
            let stamp = Stamp::of(found.bytes().unwrap_or_default());
            if found != PreImage::Missing && workspace.stamps().is_stale(real.path(), stamp) {
                let message = format!("{} has changed since it was read. Read it again", args.path);
                return Err(ToolError::report(Code::ChangedSinceRead, message));
            }
            let change = diff::change(at.path(), operation, &old, &args.content);
            let line = change.changed_lines().next().unwrap_or(1);
            let location = Location::try_new(at.path()).map(|at| at.at_line(line));
            let effects = Effects::from(Effect::Write(real.path().to_owned()));
            let is_guarded = workspace.is_guarded(&real) || workspace.is_shared(&real);
            let plan = Plan { at, content: args.content, found };
            Ok(Draft {
                locations: location.ok().map(|location| vec![location]),
                changes: vec![change],
                effects: if is_guarded { effects.guarded() } else { effects },
                pre_image: stamp.as_bytes().to_vec(),
                ..Draft::new(plan)
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
        let plan = pinned.release(grant)?;
        let workspace = invocation.context.workspace.clone();
        blocking(move || {
            atomic_write(&workspace, &plan.at, plan.content.as_bytes(), &plan.found)?;
            let (path, bytes) = (workspace.display(plan.at.path()), plan.content.len());
            let verb = match plan.found {
                PreImage::Missing => "Made",
                PreImage::Bytes(_) => "Replaced",
            };
            Ok(Output {
                text: format!("{verb} {path} ({bytes} bytes)."),
                raw: Some(json!({ "path": plan.at.path().to_string_lossy(), "bytes": bytes })),
                ..Output::default()
            })
        })
        .await
    }
}

/// Returns the text that a file holds, for people.
fn text_of(given: &str, bytes: &[u8]) -> String {
    match Text::decode(given, bytes.to_vec()) {
        Ok(text) => text.as_str().to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}
