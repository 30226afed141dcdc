//! Adds and removes MCP servers in the text of the configuration file. Everything else in the text
//! stays as it is, byte for byte.
//!
//! The parser is only used to locate values in the text. If the parsed values were serialized, line
//! ends and layout would be lost. Each result is parsed again, and must differ from the original
//! text only by the added or removed server.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// The table of all servers.
const SERVERS: &str = "mcp_servers";

/// The reason why a text is not edited. `place` is a byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextEditError {
    /// The text is not TOML.
    Syntax { place: usize, what: String },
    /// There is a server with this name.
    Exists { place: usize },
    /// There is no server with this name.
    Missing,
    /// The table of servers has a form that only the user can edit.
    Form { place: usize },
}

type SpannedTable<'a> = (Range<usize>, &'a DeTable<'a>);

/// Adds a server, with these keys and values, to a text.
pub(super) fn add_server(
    text: &str,
    name: &str,
    fields: &[(&str, Value)],
) -> Result<String, TextEditError> {
    let root = parse(text)?;
    let (place, added) = match find_servers(&root)? {
        Some((_, servers)) if let Some((key, _)) = find_table_entry(servers, name) => {
            return Err(TextEditError::Exists { place: key.span().start });
        }
        Some((span, servers)) if is_inline(text, &span) => {
            (span.start, insert_inline(text, &span, servers, name, fields))
        }
        _ => (text.len(), append_section(text, name, fields)),
    };
    let insert = |servers: &mut Table| {
        let fields = fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        drop(servers.insert(name.to_owned(), Value::Table(fields.collect())));
    };
    if differs_only_by_server_change(text, &added, insert) {
        Ok(added)
    } else {
        Err(TextEditError::Form { place })
    }
}

/// Removes a server from a text, with the comments directly above it.
pub(super) fn remove_server(text: &str, name: &str) -> Result<String, TextEditError> {
    let root = parse(text)?;
    let (span, servers) = find_servers(&root)?.ok_or(TextEditError::Missing)?;
    let (key, server) = find_table_entry(servers, name).ok_or(TextEditError::Missing)?;
    let removed = match is_inline(text, &span) {
        true => remove_inline(text, &span, servers, key.span().start..server.span().end),
        false => remove_server_lines(text, &root, server),
    };
    let is_right =
        differs_only_by_server_change(text, &removed, |servers| drop(servers.remove(name)));
    if is_right { Ok(removed) } else { Err(TextEditError::Form { place: key.span().start }) }
}

fn parse(text: &str) -> Result<DeTable<'_>, TextEditError> {
    let root = DeTable::parse(text).map_err(|error| TextEditError::Syntax {
        place: error.span().map_or(text.len(), |span| span.start),
        // The full error would quote the file, which may contain a key.
        what: error.message().replace('\n', ", "),
    });
    root.map(Spanned::into_inner)
}

fn find_servers<'a>(root: &'a DeTable<'a>) -> Result<Option<SpannedTable<'a>>, TextEditError> {
    let Some((_, servers)) = find_table_entry(root, SERVERS) else { return Ok(None) };
    match servers.get_ref() {
        DeValue::Table(table) => Ok(Some((servers.span(), table))),
        _ => Err(TextEditError::Form { place: servers.span().start }),
    }
}

fn find_table_entry<'a>(
    table: &'a DeTable<'a>,
    name: &str,
) -> Option<(&'a Spanned<toml::de::DeString<'a>>, &'a Spanned<DeValue<'a>>)> {
    table.iter().find(|(key, _)| &**key.get_ref() == name)
}

/// Returns whether a table is written with braces.
fn is_inline(text: &str, span: &Range<usize>) -> bool {
    text[span.clone()].starts_with('{')
}

/// Returns whether `change` converts the servers in `before` to the servers in `after`, and
/// everything else in the two texts is equal.
fn differs_only_by_server_change(
    before: &str,
    after: &str,
    change: impl FnOnce(&mut Table),
) -> bool {
    let parse = |text: &str| {
        let mut rest: Table = text.parse().ok()?;
        match rest.remove(SERVERS) {
            Some(Value::Table(servers)) => Some((rest, servers)),
            Some(_) => None,
            None => Some((rest, Table::new())),
        }
    };
    let (Some((rest, mut servers)), Some(after)) = (parse(before), parse(after)) else {
        return false;
    };
    change(&mut servers);
    (rest, servers) == after
}

/// Appends a section to a text.
fn append_section(text: &str, name: &str, fields: &[(&str, Value)]) -> String {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut added = text.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        added.push_str(end);
    }
    if !text.is_empty() {
        added.push_str(end);
    }
    added.push_str(&format!("[{SERVERS}.{}]{end}", key_text(name)));
    for (key, value) in fields {
        added.push_str(&format!("{key} = {value}{end}"));
    }
    added
}

/// Inserts a server into a table with braces.
fn insert_inline(
    text: &str,
    span: &Range<usize>,
    servers: &DeTable<'_>,
    name: &str,
    fields: &[(&str, Value)],
) -> String {
    let fields: Vec<_> = fields.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let entry = format!("{} = {{ {} }}", key_text(name), fields.join(", "));
    let (place, separator) = match key_and_value_spans(servers).iter().map(|span| span.end).max() {
        Some(end) => (end, ", "),
        None => (span.start + 1, " "),
    };
    format!("{}{separator}{entry}{}", &text[..place], &text[place..])
}

/// Removes an entry, from its key to its value, from a table with braces.
fn remove_inline(
    text: &str,
    span: &Range<usize>,
    servers: &DeTable<'_>,
    entry: Range<usize>,
) -> String {
    let others = key_and_value_spans(servers);
    let before = others.iter().map(|other| other.end).filter(|end| *end <= entry.start).max();
    let after = others.iter().map(|other| other.start).filter(|start| *start >= entry.end).min();
    let removed = match (before, after) {
        (Some(end), _) => end..entry.end,
        (None, Some(start)) => entry.start..start,
        (None, None) => {
            let rest = &text[entry.end..];
            let comma =
                rest.trim_start().strip_prefix(',').map_or(0, |more| rest.len() - more.len());
            span.start + 1..entry.end + comma
        }
    };
    format!("{}{}", &text[..removed.start], &text[removed.end..])
}

/// Removes all lines of a server, the comments directly above them, and one of the two blank lines
/// that would meet there.
fn remove_server_lines(text: &str, root: &DeTable<'_>, server: &Spanned<DeValue<'_>>) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut spans = vec![];
    push_spans(server, &mut spans);
    let is_statement = lines_touched_by_spans(&lines, &key_and_value_spans(root));
    let mut removed = lines_touched_by_spans(&lines, &spans);
    let is_comment = |at: usize| !is_statement[at] && lines[at].trim_start().starts_with('#');
    let is_blank = |at: usize| !is_statement[at] && lines[at].trim().is_empty();
    let of_server: Vec<_> = (0..lines.len()).filter(|at| removed[*at]).collect();
    for pair in of_server.windows(2) {
        let between = pair[0] + 1..pair[1];
        if !is_statement[between.clone()].contains(&true) {
            removed[between].fill(true);
        }
    }
    let is_first = |at: &usize| removed[*at] && (*at == 0 || !removed[at - 1]);
    let blocks: Vec<_> = (0..lines.len()).filter(is_first).collect();
    for first in blocks.into_iter().rev() {
        let comments = (0..first).rev().take_while(|at| is_comment(*at));
        let start = comments.last().unwrap_or(first);
        removed[start..first].fill(true);
        let end = (first..lines.len()).find(|at| !removed[*at]).unwrap_or(lines.len());
        let ends_at_gap = end == lines.len() || is_blank(end);
        if ends_at_gap && start > 0 && is_blank(start - 1) {
            removed[start - 1] = true;
        } else if ends_at_gap && start == 0 && end < lines.len() {
            removed[end] = true;
        }
    }
    let kept = lines.iter().zip(&removed).filter(|(_, removed)| !**removed);
    kept.map(|(line, _)| *line).collect()
}

/// Returns for each line whether one of the spans touches it.
fn lines_touched_by_spans(lines: &[&str], spans: &[Range<usize>]) -> Vec<bool> {
    let ends = lines.iter().scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    });
    let ends: Vec<usize> = ends.collect();
    let mut touched = vec![false; lines.len()];
    for span in spans {
        let line = |at: usize| ends.partition_point(|end| *end <= at);
        let last = line(span.end.saturating_sub(1).max(span.start));
        touched[line(span.start)..=last].fill(true);
    }
    touched
}

/// Returns the byte ranges of all keys and values below a table.
fn key_and_value_spans(table: &DeTable<'_>) -> Vec<Range<usize>> {
    let mut spans = vec![];
    for (key, value) in table {
        spans.push(key.span());
        push_spans(value, &mut spans);
    }
    spans
}

fn push_spans(value: &Spanned<DeValue<'_>>, spans: &mut Vec<Range<usize>>) {
    // The byte range of a table covers its header or its braces. If the table has none of them, the
    // range covers its first key.
    spans.push(value.span());
    match value.get_ref() {
        DeValue::Table(table) => spans.extend(key_and_value_spans(table)),
        DeValue::Array(items) => items.iter().for_each(|item| push_spans(item, spans)),
        _ => {}
    }
}

/// Returns a key, in quotes if it needs them.
pub(super) fn key_text(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(is_bare) {
        return name.to_owned();
    }
    let mut quoted = String::from('"');
    for letter in name.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(letter)));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
