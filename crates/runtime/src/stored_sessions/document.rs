//! Conversion between the documents that a client shows and the records of the store.

use acp_lifecycle::SessionDocument;
use acp_store::{SessionRecord, SessionStoreError, StoredRecord};

use super::brief::shorten_document;

/// Version of the records in the client's stream. The kind of a record is the type of its document.
pub(super) const DOCUMENT_VERSION: u32 = 1;

/// Creates the record of a document.
pub(super) fn document_record(
    document: &SessionDocument,
) -> Result<SessionRecord, SessionStoreError> {
    let kind = match document {
        SessionDocument::Prompt(_) => "prompt",
        SessionDocument::ToolCall(_) => "call",
        SessionDocument::Message(_) => "message",
        SessionDocument::Plan(_) => "plan",
        SessionDocument::State(_) => "state",
        _ => "document",
    };
    let mut record = SessionRecord::new(kind, DOCUMENT_VERSION, document)?;
    if let Some(brief) = shorten_document(document) {
        record = record.with_short_form(&brief, Vec::new())?;
    }
    Ok(match document {
        SessionDocument::Message(message) => record.with_search_text(message.text.clone()),
        _ => record,
    })
}

/// Parses a document of the client's stream, if it has a known version.
pub(crate) fn read_document(record: &StoredRecord) -> Option<SessionDocument> {
    match record.version {
        DOCUMENT_VERSION => record.parse_json().ok(),
        _ => None,
    }
}
