//! Prints a session as cards, with its prompts.

use std::ops::ControlFlow;
use std::path::Path;

use acp_store::SessionSummary;
use acp_types::schema::v1::{ClientCapabilities, ContentBlock, SessionUpdate};
use callboard_text::escape_invisible;
use serde_json::{Map, Value};

use crate::context::SessionsContext;
use crate::error::SessionsError;
use crate::listing::describe_session;

/// Prints a session. Returns the number of its records that could not be read.
pub(crate) fn show_session(
    session: &SessionSummary,
    context: &mut SessionsContext<'_>,
) -> Result<u64, SessionsError> {
    let cwd = session.folder.as_ref().map_or(Path::new("/"), |folder| &folder.cwd);
    let mut cards = context.terminal.card_renderer(cwd);
    let described = describe_session(session, context.archive, context.now);
    writeln!(context.terminal, "{described}")?;
    let capabilities = capabilities_with_terminals();
    let (mut failure, mut was_prompt) = (None, false);
    let unread = context.archive.for_each_replayed_update(session, &capabilities, |params| {
        let update: &SessionUpdate = &params.update;
        let text = match update {
            SessionUpdate::UserMessageChunk(chunk) => {
                let before =
                    if was_prompt { String::new() } else { cards.finish_open_line() + "\n" };
                was_prompt = true;
                before + &format_prompt_block(&chunk.content)
            }
            update => {
                let text = cards.render_update(update, 0);
                let is_first = was_prompt && !text.is_empty();
                was_prompt &= text.is_empty();
                if is_first && !text.starts_with('\n') { format!("\n{text}") } else { text }
            }
        };
        match context.terminal.write_all(text.as_bytes()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    write!(context.terminal, "{}", cards.finish_open_line())?;
    Ok(unread)
}

/// Returns the capabilities of a client that shows the output of commands in terminals. For other
/// clients, the output is shortened.
pub(crate) fn capabilities_with_terminals() -> ClientCapabilities {
    let meta = Map::from_iter([("terminal_output".to_owned(), Value::Bool(true))]);
    ClientCapabilities::new().meta(meta)
}

/// Returns the text of a block of a prompt, with a mark before each line.
fn format_prompt_block(block: &ContentBlock) -> String {
    let text = match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::ResourceLink(link) => format!("[{}]", link.uri),
        ContentBlock::Resource(_) => "[attached text]".to_owned(),
        ContentBlock::Image(_) => "[image]".to_owned(),
        ContentBlock::Audio(_) => "[audio]".to_owned(),
        _ => "[content of another kind]".to_owned(),
    };
    text.lines().map(|line| format!("\u{1b}[1m› {}\u{1b}[0m\n", escape_invisible(line))).collect()
}
