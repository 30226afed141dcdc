//! The built-in tools, one a file. This is the one list of them.

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

#[cfg(test)]
mod tests;
