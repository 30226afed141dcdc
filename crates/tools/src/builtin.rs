//! The list of built-in tools, which [`Registry`](crate::Registry) adds. Each tool has its own
//! module.

use acp_types::{FileChange, FileChangeOperation, Location};

use crate::limits::MAX_CHANGE_LOCATIONS;
use crate::tool::DynTool;

mod delete_path;
mod edit_file;
#[cfg(feature = "web")]
mod fetch;
mod find_path;
mod grep;
mod list_directory;
mod move_path;
mod read_file;
mod terminal;
mod terminal_input;
mod terminal_output;
mod terminal_stop;
mod think;
mod todo_write;
mod undo;
mod unsaved_files;
#[cfg(feature = "web")]
mod web_errors;
#[cfg(feature = "web")]
mod web_search;
mod write_file;

use self::delete_path::DeletePath;
use self::edit_file::EditFile;
use self::find_path::FindPath;
use self::grep::Grep;
use self::list_directory::ListDirectory;
use self::move_path::MovePath;
use self::read_file::ReadFile;
use self::terminal::Terminal;
use self::terminal_input::TerminalInput;
use self::terminal_output::TerminalOutput;
use self::terminal_stop::TerminalStop;
use self::think::Think;
use self::todo_write::TodoWrite;
use self::undo::Undo;
use self::write_file::WriteFile;

/// Returns every built-in tool.
pub(crate) fn all_tools_except_web() -> Vec<Box<dyn DynTool>> {
    vec![
        Box::new(ReadFile),
        Box::new(ListDirectory),
        Box::new(FindPath),
        Box::new(Grep),
        Box::new(WriteFile),
        Box::new(EditFile),
        Box::new(DeletePath),
        Box::new(MovePath),
        Box::new(Undo),
        Box::new(Terminal),
        Box::new(TerminalOutput),
        Box::new(TerminalInput),
        Box::new(TerminalStop),
        Box::new(Think),
        Box::new(TodoWrite),
    ]
}

/// Returns the tools for the web. If `search` is `None`, the tool `web_search` is missing.
#[cfg(feature = "web")]
pub(crate) fn web_tools(search: Option<crate::web::WebSearchSettings>) -> Vec<Box<dyn DynTool>> {
    let mut tools: Vec<Box<dyn DynTool>> = vec![Box::new(fetch::Fetch)];
    if let Some(settings) = search {
        tools.push(Box::new(web_search::WebSearchTool(settings)));
    }
    tools
}

/// Returns the locations of the first changed lines. The line numbers are those after the changes.
fn change_locations<'a>(changes: impl IntoIterator<Item = &'a FileChange>) -> Vec<Location> {
    let of_one = |change: &'a FileChange| {
        let at = Location::try_new(&change.path).ok();
        let lines = change.hunk_first_changed_line_numbers().take(MAX_CHANGE_LOCATIONS);
        let places = lines.filter_map(|line| Some(at.clone()?.with_line(line)));
        let places: Vec<_> = places.collect();
        // If no changed line is known, the location is the whole file. A deleted file has no
        // location.
        let whole = places.is_empty() && change.operation != FileChangeOperation::Delete;
        places.into_iter().chain(at.filter(|_| whole))
    };
    changes.into_iter().flat_map(of_one).take(MAX_CHANGE_LOCATIONS).collect()
}

#[cfg(test)]
mod tests;
