//! Stores a long result in a file of the session, and gives the client a link to it. The output of
//! a command is not stored here, because it is already stored while the command runs.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use acp_lifecycle::CallHandle;
use acp_types::schema::v1::ResourceLink;
use acp_types::{Content, ContentBlock};
use callboard_text::group_thousands;

use crate::files::state::outputs::{OutputReproducibility, OutputStore};
use crate::limits::{MAX_INLINE_RESULT_BYTES, MAX_OUTPUT_FILE_BYTES};
use crate::tool::{Context, ToolOutput, run_on_blocking_thread};
use acp_types::path::file_uri;
use callboard_text::path_text;

/// Stores a result in a file if it is long and is not stored yet.
pub(super) async fn store_long_result(
    output: &mut ToolOutput,
    call: &CallHandle,
    context: &Context,
) {
    let bytes = output.text.len();
    if bytes <= MAX_INLINE_RESULT_BYTES || bytes as u64 > MAX_OUTPUT_FILE_BYTES || output.is_stored
    {
        return;
    }
    let (text, workspace) = (output.text.clone(), context.workspace.clone());
    let kept =
        run_on_blocking_thread(move || Ok(write_result_file(&text, workspace.outputs()))).await;
    let note = match kept {
        Ok(Ok(Some(path))) => {
            let link = Content::Block(result_file_link(&path, bytes));
            match &mut output.content {
                Some(content) => content.push(link),
                None => call.append_content(link),
            }
            let lines = output.text.lines().count() as u64;
            let (bytes, lines, path) =
                (group_thousands(bytes as u64), group_thousands(lines), path_text(&path));
            format!(
                "[the whole result, {bytes} bytes in {lines} lines, can be read with read_file, by \
                 lines: {path}]\n"
            )
        }
        Ok(Ok(None)) => return,
        Ok(Err(error)) => format!("[the result could not be kept in a file: {error}]\n"),
        Err(error) => format!("[the result could not be kept in a file: {error}]\n"),
    };
    output.text.insert_str(0, &note);
}

/// Writes a result to a file. Returns `None` if the session has no folder for outputs.
fn write_result_file<R>(text: &str, outputs: &OutputStore<R>) -> io::Result<Option<PathBuf>> {
    let Some((mut file, path)) = outputs.create_output_file(OutputReproducibility::Reproducible)?
    else {
        return Ok(None);
    };
    // Remove an incomplete file, because it would look like a complete result.
    file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(&path)))?;
    Ok(Some(path))
}

fn result_file_link(path: &Path, bytes: usize) -> ContentBlock {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let link = ResourceLink::new(name, file_uri(path))
        .title("The whole result".to_owned())
        .mime_type("text/plain".to_owned())
        .size(i64::try_from(bytes).ok());
    ContentBlock::ResourceLink(link)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pretty_assertions::assert_eq;

    use super::{result_file_link, write_result_file};
    use crate::files::read::read_excerpt;
    use crate::files::state::outputs::OutputStore;
    use crate::files::workspace::Workspace;
    use crate::limits::MAX_INLINE_RESULT_BYTES;

    #[test]
    fn a_long_result_is_stored_and_can_be_read_by_lines() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let workspace = Workspace::new(root, Vec::new()).unwrap();
        assert!(write_result_file("text", workspace.outputs()).unwrap().is_none());
        let workspace = Arc::new(workspace.with_state_folder(&folder.path().join("state")));
        let text = "line\n".repeat(MAX_INLINE_RESULT_BYTES);
        let path = write_result_file(&text, workspace.outputs()).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let given = path.to_str().unwrap();
        let window =
            read_excerpt(&workspace.output_workspace_or_self(given), given, Some(9_000), Some(1))
                .unwrap();
        assert_eq!(window.text, "line\n");
        let link = serde_json::to_string(&result_file_link(&path, text.len())).unwrap();
        assert!(link.contains(given), "{link}");
    }

    #[test]
    fn a_result_that_cannot_be_stored_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(
            write_result_file(
                "text",
                &OutputStore::in_folder(folder.path().join("file/output"), |_| Ok(()))
            )
            .is_err()
        );
    }
}
