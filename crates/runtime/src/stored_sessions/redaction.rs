//! Redacts secrets in the changes of files before they are stored. A client receives the texts of
//! these changes without redaction, because the user's files contain the same texts.

use acp_lifecycle::{Secrets, SessionDocument};
use acp_types::{Content, FileChange, Hunk, HunkLine, LineTag};

/// Redacts the texts of file changes in a document.
pub(super) fn redact_changes(document: &mut SessionDocument, secrets: &Secrets) {
    let SessionDocument::ToolCall(document) = document else { return };
    for content in &mut document.call.content {
        if let Content::Change(change) = content {
            redact_change(change, secrets);
        }
    }
}

fn redact_change(change: &mut FileChange, secrets: &Secrets) {
    for text in [&mut change.old_text, &mut change.new_text].into_iter().flatten() {
        *text = secrets.redact(text).into_owned();
    }
    for hunk in &mut change.hunks {
        redact_hunk(hunk, secrets);
    }
}

/// Redacts each line. If a secret spans several lines, the hunk becomes the removal of all old
/// lines and the addition of all new lines.
fn redact_hunk(hunk: &mut Hunk, secrets: &Secrets) {
    let [old, new] =
        [hunk.old_text(), hunk.new_text()].map(|text| secrets.redact(&text).into_owned());
    for line in &mut hunk.lines {
        line.text = secrets.redact(&line.text).into_owned();
    }
    if hunk.old_text() != old || hunk.new_text() != new {
        let lines = |text: &str, tag| {
            let lines = text.split_inclusive('\n');
            lines.map(|line| HunkLine { tag, text: line.to_owned() }).collect::<Vec<_>>()
        };
        hunk.lines = [lines(&old, LineTag::Removed), lines(&new, LineTag::Added)].concat();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use acp_lifecycle::Secrets;
    use acp_types::{FileChangeOperation, diff};

    use super::redact_change;

    #[test]
    fn a_stored_change_contains_no_secret_even_across_lines() {
        let secrets =
            Secrets::new(["one-secret-value".to_owned(), "first half\nsecond half".to_owned()]);
        let old = "a\nfirst half\nsecond half\nkey=one-secret-value\nb\n";
        let new = "a\nfirst half\nsecond half\nkey=2\nb\n";
        let deadline = Instant::now() + Duration::from_secs(9);
        let mut change =
            diff::diff_texts(Path::new("/f"), FileChangeOperation::Modify, old, new, deadline);
        redact_change(&mut change, &secrets);
        let shown = format!("{change:?}");
        for secret in ["one-secret-value", "first half", "second half"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("key=2"), "{shown}");
    }
}
