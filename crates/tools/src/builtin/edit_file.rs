//! `edit_file`: replaces text in files, exactly what the preview showed or nothing.

use acp_lifecycle::{Effect, Effects, Grant, Pinned};
use acp_types::{FileChange, Location, Operation, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::diff;
use crate::edit::{Done, Edit, Which, apply, decode};
use crate::error::{Code, ToolError};
use crate::limits::FILE_BYTES;
use crate::tool::{
    Context, Description, Draft, Invocation, Output, Reach, Spec, Surface, Tool, blocking,
};
use crate::workspace::{Resolved, Workspace};
use crate::write::{PreImage, atomic_write, read_whole};

/// Replaces text in files.
#[derive(Debug, Clone, Copy)]
pub struct EditFile;

/// One replacement by its own fields, or several in `edits`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file, absolute or relative to the working directory.
    pub path: Option<String>,
    /// The text that is there, exactly. It must be there once, unless `occurrence` or
    /// `replace_all` says otherwise.
    pub old_text: Option<String>,
    /// The text that shall be there.
    pub new_text: Option<String>,
    /// Whether every place is meant.
    #[serde(default)]
    pub replace_all: bool,
    /// Which of several places is meant, from 1.
    pub occurrence: Option<u32>,
    /// Several replacements, done in order; instead of the fields above.
    #[serde(default)]
    pub edits: Vec<One>,
}

/// One replacement.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct One {
    /// The file, absolute or relative to the working directory.
    pub path: String,
    /// The text that is there, exactly.
    pub old_text: String,
    /// The text that shall be there.
    pub new_text: String,
    /// Whether every place is meant.
    #[serde(default)]
    pub replace_all: bool,
    /// Which of several places is meant, from 1.
    pub occurrence: Option<u32>,
}

/// The files as they will be.
#[derive(Debug)]
pub struct Plan(Vec<File>);

#[derive(Debug)]
struct File {
    at: Resolved,
    real: Resolved,
    found: PreImage,
    edits: Vec<Edit>,
    old: String,
    new: String,
    done: Vec<Done>,
}

impl Tool for EditFile {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "edit_file",
            aliases: &["edit", "replace"],
            description: "Replaces text in a file. `old_text` has to be in the file exactly \
                          once, so give enough of the lines around it; or say `occurrence` or \
                          `replace_all`. Several replacements, in one or more files, go into \
                          `edits`.",
            kind: ToolKind::Edit,
            reach: Reach::Changes,
            title: "edit-file",
            surface: Surface::Content,
        }
    }

    fn describe(&self, args: &Args, context: &Context) -> Description {
        let mut paths: Vec<_> = args.path.iter().collect();
        paths.extend(args.edits.iter().map(|edit| &edit.path));
        paths.dedup();
        let shown = |given: &&String| {
            let at = context.workspace.resolve(given);
            at.map_or_else(|_| (*given).clone(), |at| context.workspace.display(at.path()))
        };
        let names: Vec<_> = paths.iter().map(shown).collect();
        let description = Description::new("edit-file").with("path", names.join(", "));
        paths.into_iter().fold(description, |all, path| all.at(path, 0, context))
    }

    async fn preview(&self, args: Args, context: &Context) -> Result<Draft<Plan>, ToolError> {
        let workspace = context.workspace.clone();
        let edits = args.into_edits()?;
        blocking(move || {
            let mut files = Vec::new();
            for one in edits {
                add(&mut files, one, &workspace)?;
            }
            files.iter_mut().try_for_each(File::edit)?;
            Ok(draft(files))
        })
        .await
    }

    async fn run(
        &self,
        pinned: Pinned<Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        let Plan(files) = pinned.release(grant)?;
        let workspace = invocation.context.workspace.clone();
        blocking(move || {
            for (written, file) in files.iter().enumerate() {
                if file.old != file.new {
                    let write =
                        atomic_write(&workspace, &file.at, file.new.as_bytes(), &file.found);
                    write.map_err(|error| told_of(error, written))?;
                }
            }
            Ok(output(&files, &workspace))
        })
        .await
    }
}

impl Args {
    /// Returns the replacements; an error if both forms are used, or neither.
    fn into_edits(self) -> Result<Vec<One>, ToolError> {
        let Self { path, old_text, new_text, replace_all, occurrence, edits } = self;
        match (path, old_text, new_text, edits.is_empty()) {
            (None, None, None, false) => Ok(edits),
            (Some(path), Some(old_text), Some(new_text), true) => {
                Ok(vec![One { path, old_text, new_text, replace_all, occurrence }])
            }
            _ => Err(ToolError::invalid(
                "Give path, old_text and new_text for one replacement, or edits for several.",
            )),
        }
    }
}

/// Puts a replacement to its file, which is read when it comes up first.
fn add(files: &mut Vec<File>, one: One, workspace: &Workspace) -> Result<(), ToolError> {
    let at = workspace.resolve(&one.path)?;
    let real = workspace.settle(&at)?;
    let which = Which::from_arguments(one.replace_all, one.occurrence)?;
    let edit = Edit { old_text: one.old_text, new_text: one.new_text, which };
    if let Some(file) = files.iter_mut().find(|file| file.real.path() == real.path()) {
        file.edits.push(edit);
        return Ok(());
    }
    let found = read_whole(workspace, &at, FILE_BYTES)?;
    let old = match &found {
        PreImage::Bytes(bytes) => decode(at.given(), bytes.clone())?,
        PreImage::Missing => {
            // Opening it says what is missing, with names that are like it.
            drop(workspace.open_read(&at)?);
            String::new()
        }
    };
    let edits = vec![edit];
    files.push(File { at, real, found, edits, new: old.clone(), old, done: Vec::new() });
    Ok(())
}

impl File {
    fn edit(&mut self) -> Result<(), ToolError> {
        let edited = apply(&self.old, &self.edits).map_err(|error| {
            let code = ToolError::from(error.clone()).code().unwrap_or(Code::NoMatch);
            ToolError::report(code, format!("{}: {error}", self.at.given()))
        })?;
        (self.new, self.done) = (edited.text, edited.done);
        Ok(())
    }

    fn change(&self) -> FileChange {
        diff::change(self.at.path(), Operation::Modify, &self.old, &self.new)
    }
}

fn draft(files: Vec<File>) -> Draft<Plan> {
    let changed = || files.iter().filter(|file| file.old != file.new);
    let changes: Vec<_> = changed().map(File::change).collect();
    let locations = changes.iter().flat_map(|change| {
        let at = Location::try_new(&change.path).ok();
        let lines = change.changed_lines().collect::<Vec<_>>();
        at.into_iter()
            .flat_map(move |at| lines.clone().into_iter().map(move |line| at.clone().at_line(line)))
    });
    let effects = changed().map(|file| Effect::Write(file.real.path().to_owned()));
    let pre_image = files.iter().flat_map(|file| file.old.as_bytes()).copied().collect();
    Draft {
        locations: Some(locations.collect()),
        effects: Effects::from_iter(effects),
        changes,
        pre_image,
        ..Draft::new(Plan(files))
    }
}

fn output(files: &[File], workspace: &Workspace) -> Output {
    let mut text = String::new();
    let mut replacements = 0;
    for file in files {
        let path = workspace.display(file.at.path());
        let places: usize = file
            .done
            .iter()
            .map(|done| match done {
                Done::Replaced { places } => *places,
                Done::AlreadyApplied { .. } => 0,
            })
            .sum();
        replacements += places;
        if places > 0 {
            text.push_str(&format!("Replaced {places} places in {path}.\n"));
        }
        for done in &file.done {
            if let Done::AlreadyApplied { line } = done {
                text.push_str(&format!("{path} has the new text already, at line {line}.\n"));
            }
        }
    }
    Output { text, raw: Some(json!({ "replacements": replacements })), ..Output::default() }
}

/// Says what was written already when a later file could not be.
fn told_of(error: ToolError, written: usize) -> ToolError {
    match (error, written) {
        (error, 0) => error,
        (ToolError::Report(report), _) => {
            let message = format!("{} The first {written} files are changed.", report.message);
            ToolError::report(report.code, message)
        }
        (fatal, _) => fatal,
    }
}
