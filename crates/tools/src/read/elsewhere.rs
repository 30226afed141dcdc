//! Where else a name is that is not where it was looked for. It knows nothing of what is read.

use std::path::PathBuf;

use crate::error::{Code, Suggested, ToolError};
use crate::limits::{ELSEWHERE_TIME, SIMILAR_NAMES};
use crate::workspace::{Budget, Ignored, Order, Resolved, Walk, Workspace};

/// Adds to what a missing file is told with in which places its name is, if in any.
pub(super) fn told(error: ToolError, workspace: &Workspace, at: &Resolved) -> ToolError {
    match error {
        ToolError::Report(mut report) if report.code == Code::NotFound => {
            let files = places(workspace, at);
            report.suggested.push(Suggested { why: "The same name is at", files });
            report.into()
        }
        other => other,
    }
}

/// Looks for the name in all roots, as far as time permits.
fn places(workspace: &Workspace, at: &Resolved) -> Vec<(PathBuf, String)> {
    let Some(name) = at.path().file_name().map(|name| name.to_string_lossy().to_lowercase()) else {
        return Vec::new();
    };
    let budget = Budget::new(&|| false).within(ELSEWHERE_TIME);
    let mut places = Vec::new();
    for root in workspace.roots() {
        let walk = workspace.resolve_path(root).and_then(|top| {
            Walk::new(workspace, &top, usize::MAX, Order::ByName, Ignored::LeftOut, budget)
        });
        let Ok(mut walk) = walk else { continue };
        while places.len() < SIMILAR_NAMES
            && let Some(found) = walk.next()
        {
            let is_same = found
                .path
                .file_name()
                .is_some_and(|found| found.to_string_lossy().to_lowercase() == name);
            if is_same {
                let path = walk.absolute(&found.path);
                let shown = workspace.display(&path);
                places.push((path, shown));
            }
        }
    }
    places
}
