//! Formats sessions and search hits as lines and as JSON.

use std::time::{Duration, SystemTime};

use acp_store::{SearchHit, SessionSearch, SessionSummary};
use callboard_runtime::SessionArchive;
use callboard_text::{
    count_with_noun, escape_invisible, escape_invisible_truncated, format_utc_date, path_text,
    rfc3339_utc,
};
use serde_json::{Value, json};

/// Maximum number of bytes of a title in a list.
const MAX_SHOWN_TITLE_BYTES: usize = 80;

/// Returns a short description of a session, e.g. ``sess_01K “Fix the test” (2 prompts, 5 min
/// ago)``.
pub(crate) fn describe_session(
    session: &SessionSummary,
    archive: &SessionArchive,
    now: SystemTime,
) -> String {
    let title = session
        .title
        .as_ref()
        .map(|title| format!(" “{}”", redact_and_truncate_title(title, archive)));
    let prompts = count_with_noun(session.prompts.into(), "prompt", "prompts");
    let (id, age) = (&session.id, age_text(session.updated, now));
    format!("{id}{} ({prompts}, {age})", title.unwrap_or_default())
}

pub(crate) fn session_line(
    session: &SessionSummary,
    archive: &SessionArchive,
    now: SystemTime,
    shows_folder: bool,
) -> String {
    let title = session
        .title
        .as_deref()
        .map_or("–".into(), |title| redact_and_truncate_title(title, archive));
    let folder = match &session.folder {
        Some(folder) if shows_folder => format!("  {}", escape_invisible(&path_text(&folder.cwd))),
        None if shows_folder => "  (the record of its folder is damaged)".to_owned(),
        _ => String::new(),
    };
    format!("{}  {:>10}  {title}{folder}", session.id, age_text(session.updated, now))
}

pub(crate) fn session_json(session: &SessionSummary, archive: &SessionArchive) -> Value {
    json!({
        "sessionId": session.id,
        "title": session.title.as_deref().map(|title| archive.redact(title)),
        "cwd": session.folder.as_ref().map(|folder| path_text(&folder.cwd)),
        "createdAt": rfc3339_utc(session.created),
        "updatedAt": rfc3339_utc(session.updated),
        "prompts": session.prompts,
        "bytes": session.bytes,
        "parent": session.parent,
    })
}

pub(crate) fn hit_lines(
    hit: &SearchHit,
    search: &SessionSearch,
    archive: &SessionArchive,
    now: SystemTime,
) -> String {
    let title = hit
        .title
        .as_deref()
        .map_or("–".into(), |title| redact_and_truncate_title(title, archive));
    let excerpt = search.excerpt(&archive.redact(&hit.text));
    let (id, age, prompt) = (&hit.session, age_text(hit.at, now), hit.prompt);
    format!("{id}  {age:>10}  {title}\n    {prompt}: {}", escape_invisible(&excerpt))
}

pub(crate) fn hit_json(hit: &SearchHit, search: &SessionSearch, archive: &SessionArchive) -> Value {
    json!({
        "sessionId": hit.session,
        "title": hit.title.as_deref().map(|title| archive.redact(title)),
        "prompt": hit.prompt,
        "at": rfc3339_utc(hit.at),
        "excerpt": search.excerpt(&archive.redact(&hit.text)),
    })
}

fn redact_and_truncate_title(title: &str, archive: &SessionArchive) -> String {
    escape_invisible_truncated(&archive.redact(title), MAX_SHOWN_TITLE_BYTES).0
}

/// Returns the time since the last update of a session. Returns the date of the update if it was
/// long ago, or if it is in the future (e.g. because the clock was set back).
fn age_text(updated: SystemTime, now: SystemTime) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match now.duration_since(updated).as_ref().map(Duration::as_secs) {
        Ok(0..MINUTE) => "now".to_owned(),
        Ok(seconds @ MINUTE..HOUR) => format!("{} min ago", seconds / MINUTE),
        Ok(seconds @ HOUR..DAY) => format!("{} h ago", seconds / HOUR),
        Ok(seconds) if seconds < 100 * DAY => format!("{} d ago", seconds / DAY),
        _ => format_utc_date(updated),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_age_has_a_suitable_unit_and_a_future_time_is_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (seconds, expected) in [
            (0, "now"),
            (59, "now"),
            (60, "1 min ago"),
            (3599, "59 min ago"),
            (3600, "1 h ago"),
            (86_399, "23 h ago"),
            (86_400, "1 d ago"),
            (8_640_000, "2023-08-06"),
        ] {
            assert_eq!(age_text(now - Duration::from_secs(seconds), now), expected, "{seconds}");
        }
        assert_eq!(age_text(now + Duration::from_secs(86_400), now), "2023-11-15");
    }
}
