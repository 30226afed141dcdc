//! A whole agent on standard input and output, and the text of its prompts.

use acp_transport::stdio;
use agent_client_protocol::v1::schema::{
    ContentBlock, EmbeddedResourceResource, Implementation, StopReason,
};
use agent_client_protocol::{Error, Result};

use crate::limits::STDIO_GRACE;
use crate::{ClientSessions, Turn};

/// Serves one client on standard input and output until the client ends the connection. Each prompt
/// is answered by `run_turn`. When a session or the connection closes, its turns have one second to
/// end.
///
/// This function connects [`ClientSessions::prompt_agent_builder`] to [`acp_transport::stdio`]. The
/// documentation of `stdio` describes the effects on the rest of the process. If the agent needs
/// more than prompts, call these two functions instead.
///
/// # Errors
///
/// Returns an error if the process is out of file descriptors or threads, or if the connection
/// fails.
pub async fn serve_stdio<T, R>(info: Implementation, run_turn: T) -> Result<()>
where
    T: Fn(Vec<ContentBlock>, Turn) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<StopReason>> + Send + 'static,
{
    let transport = stdio().map_err(Error::into_internal_error)?;
    let counters = transport.counters();
    let set_up = move |session: crate::ClientSessionBuilder| {
        session.with_transport_counters(counters.clone())
    };
    let agent = ClientSessions::default().prompt_agent_builder(info, STDIO_GRACE, set_up, run_turn);
    agent.connect_to(transport).await
}

/// Returns the text of a prompt for a model that reads only text. A link becomes a Markdown link,
/// an attached text follows its address, and other blocks are named in brackets, e.g.
/// `[image/png]`. The blocks are separated by line breaks.
pub fn prompt_text(prompt: &[ContentBlock]) -> String {
    let texts = prompt.iter().map(|block| match block {
        ContentBlock::Text(block) => block.text.clone(),
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        ContentBlock::Image(image) => format!("[{}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[{}]", audio.mime_type),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            EmbeddedResourceResource::TextResourceContents(it) => {
                format!("{}\n{}", it.uri, it.text)
            }
            EmbeddedResourceResource::BlobResourceContents(it) => format!("[{}]", it.uri),
            _ => "[resource]".to_owned(),
        },
        _ => "[content]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_block_of_a_prompt_becomes_text() {
        let blocks = json!([
            {"type": "text", "text": "Look at"},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
            {"type": "image", "mimeType": "image/png", "data": ""},
            {"type": "audio", "mimeType": "audio/wav", "data": ""},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": ""}},
        ]);
        let blocks: Vec<ContentBlock> = serde_json::from_value(blocks).unwrap();
        assert_eq!(
            prompt_text(&blocks),
            "Look at\n[a.rs](file:///a.rs)\n[image/png]\n[audio/wav]\nfile:///b\nb\n[file:///c]"
        );
    }
}
