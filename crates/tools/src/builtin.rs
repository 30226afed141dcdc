//! The built-in tools, one a file. This is the one list of them.

use acp_types::{FileChange, Location, Operation};

use crate::limits::CHANGE_LOCATIONS;
use crate::registry::Registry;

pub mod delete_path;
pub mod edit_file;
pub mod find_path;
pub mod grep;
pub mod list_directory;
pub mod move_path;
pub mod read_file;
pub mod terminal;
pub mod terminal_input;
pub mod terminal_list;
pub mod terminal_output;
pub mod terminal_stop;
pub mod terminal_wait;
pub mod think;
pub mod todo_write;
pub mod undo;
mod unsaved;
pub mod write_file;

/// Adds every built-in tool.
pub(crate) fn add_all(registry: &mut Registry) {
    registry.add(read_file::ReadFile);
    registry.add(list_directory::ListDirectory);
    registry.add(find_path::FindPath);
    registry.add(grep::Grep);
    registry.add(write_file::WriteFile);
    registry.add(edit_file::EditFile);
    registry.add(delete_path::DeletePath);
    registry.add(move_path::MovePath);
    registry.add(undo::Undo);
    registry.add(terminal::Terminal);
    registry.add(terminal_list::TerminalList);
    registry.add(terminal_output::TerminalOutput);
    registry.add(terminal_input::TerminalInput);
    registry.add(terminal_wait::TerminalWait);
    registry.add(terminal_stop::TerminalStop);
    registry.add(think::Think);
    registry.add(todo_write::TodoWrite);
}

/// Returns the places that changes make, as they are afterwards, the first ones of them.
fn locations<'a>(changes: impl IntoIterator<Item = &'a FileChange>) -> Vec<Location> {
    let of_one = |change: &'a FileChange| {
        let at = Location::try_new(&change.path).ok();
        let lines = change.changed_lines().take(CHANGE_LOCATIONS);
        let places = lines.filter_map(|line| Some(at.clone()?.at_line(line)));
        let places: Vec<_> = places.collect();
        // What has no lines that are known is a place too, unless it goes.
        let whole = places.is_empty() && change.operation != Operation::Delete;
        places.into_iter().chain(at.filter(|_| whole))
    };
    changes.into_iter().flat_map(of_one).take(CHANGE_LOCATIONS).collect()
}

#[cfg(test)]
mod tests;
