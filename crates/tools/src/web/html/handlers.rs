//! Converts tables, preformatted text and inline code to Markdown.
//!
//! The table converter of the library `htmd` is not used for two reasons. It pads all cells of a
//! column to the same width, which may need much more memory than the page. It also omits the
//! headers of rows.

use std::rc::Rc;

use callboard_text::wrap_in_code_fence;
use htmd::Element;
use htmd::element_handler::{HandlerResult, Handlers};
use markup5ever_rcdom::{Node, NodeData};

use crate::web::limits::{MAX_TABLE_CELLS, MAX_TABLE_SPAN};

use super::attributes::{KeptAttribute, attribute};
use super::elements::{find_outermost_nodes, is_named, text_of};

type Handle = Rc<Node>;

/// A row of a table: its cells, and whether they are all headers.
struct Row {
    cells: Vec<String>,
    is_header: bool,
}

/// Converts a table with several columns. A table that is only used for the layout of a page
/// becomes paragraphs.
pub(super) fn convert_table(handlers: &dyn Handlers, element: Element<'_>) -> HandlerResult {
    let rows = find_rows(element.node);
    let captions = find_outermost_nodes(element.node, |node| is_named(node, "caption"));
    let caption = captions.first().map(|caption| text_of(caption).trim().to_owned());
    let is_layout = !is_data_table(&rows);
    let rows = convert_rows_expanding_spans(handlers, &rows);
    let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or_default();
    let mut text = "\n\n".to_owned();
    if let Some(caption) = caption.filter(|caption| !caption.is_empty()) {
        text += &format!("{caption}\n\n");
    }
    // Filling short rows with empty cells may need much more memory than the page.
    let is_sparse = rows.len().saturating_mul(columns) > MAX_TABLE_CELLS;
    if is_layout || is_sparse || columns < 2 {
        for row in &rows {
            let cells: Vec<_> =
                row.cells.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
            let has_blocks = cells.iter().any(|cell| cell.contains('\n'));
            text += &cells.join(if has_blocks { "\n\n" } else { " " });
            text += "\n\n";
        }
        return text.into();
    }
    let mut body = &rows[..];
    match rows.split_first() {
        Some((first, rest)) if first.is_header || rest.iter().any(|row| !row.is_header) => {
            push_row(&mut text, &first.cells, columns);
            body = rest;
        }
        _ => push_row(&mut text, &[], columns),
    }
    text += &format!("|{}\n", " --- |".repeat(columns));
    body.iter().for_each(|row| push_row(&mut text, &row.cells, columns));
    text.push('\n');
    text.into()
}

/// Returns the rows of a table. The rows of nested tables are not returned.
fn find_rows(table: &Handle) -> Vec<Handle> {
    let is_row_or_inner =
        |node: &Handle| is_named(node, "tr") || is_named(node, "table") && !Rc::ptr_eq(node, table);
    let mut rows = find_outermost_nodes(table, is_row_or_inner);
    rows.retain(|node| is_named(node, "tr"));
    rows
}

fn is_cell(node: &Handle) -> bool {
    is_named(node, "td") || is_named(node, "th")
}

/// Returns whether a table contains data, and is not only used for the layout of a page. A table
/// for layout contains other tables, has only one row, or has rows of different lengths and no
/// headers. A table with several lines of code in a cell does not count as data either, because a
/// cell in Markdown cannot contain them.
fn is_data_table(rows: &[Handle]) -> bool {
    let cells = || rows.iter().flat_map(|row| row.children.borrow().clone()).filter(is_cell);
    let is_inner = |node: &Handle| {
        is_named(node, "table") || is_named(node, "pre") && text_of(node).trim().contains('\n')
    };
    let has_inner = cells().any(|cell| !find_outermost_nodes(&cell, is_inner).is_empty());
    let is_uniform = rows.windows(2).all(|pair| {
        let count =
            |row: &Handle| row.children.borrow().iter().filter(|node| is_cell(node)).count();
        count(&pair[0]) == count(&pair[1])
    });
    // Some generators use a table to arrange the parts of a function signature.
    let has_bracket = cells().any(|cell| matches!(text_of(&cell).trim(), "(" | ")"));
    let is_list = is_uniform && rows.len() > 1 && !has_bracket;
    !has_inner && (is_list || cells().any(|cell| is_named(&cell, "th")))
}

/// Converts the rows of a table. A cell that spans columns or rows is followed by empty cells.
fn convert_rows_expanding_spans(handlers: &dyn Handlers, rows: &[Handle]) -> Vec<Row> {
    // For each column, the number of following rows that its last cell spans.
    let mut spanned: Vec<usize> = Vec::new();
    let mut total = 0;
    let mut converted = Vec::new();
    for row in rows {
        let mut cells = Vec::new();
        let inner: Vec<Handle> =
            row.children.borrow().iter().filter(|it| is_cell(it)).cloned().collect();
        for cell in &inner {
            push_empty_rowspan_cells(&mut cells, &mut spanned);
            // A few cells may span more cells than the page has bytes, so the total is limited.
            let is_full = total + cells.len() > MAX_TABLE_CELLS;
            let span = |name| if is_full { 1 } else { span_of(cell, name) };
            let start = cells.len();
            cells.push(handlers.walk_children(cell).content.trim().to_owned());
            cells.resize(start + span(KeptAttribute::ColumnSpan), String::new());
            spanned.resize(spanned.len().max(cells.len()), 0);
            spanned[start..cells.len()].fill(span(KeptAttribute::RowSpan) - 1);
        }
        push_empty_rowspan_cells(&mut cells, &mut spanned);
        total += cells.len();
        if total > MAX_TABLE_CELLS {
            spanned.clear();
        }
        let is_header = !inner.is_empty() && inner.iter().all(|cell| is_named(cell, "th"));
        converted.push(Row { cells, is_header });
    }
    converted
}

/// Adds an empty cell in each column that a cell of an earlier row spans.
fn push_empty_rowspan_cells(cells: &mut Vec<String>, spanned: &mut [usize]) {
    while let Some(rows @ 1..) = spanned.get_mut(cells.len()) {
        *rows -= 1;
        cells.push(String::new());
    }
}

/// Returns the number of columns or rows that a cell spans.
fn span_of(cell: &Handle, name: KeptAttribute) -> usize {
    let span = attribute(cell, name).and_then(|value| value.trim().parse().ok());
    span.unwrap_or(1).clamp(1, MAX_TABLE_SPAN)
}

fn push_row(text: &mut String, cells: &[String], columns: usize) {
    text.push('|');
    for column in 0..columns {
        let cell = cells.get(column).map(String::as_str).unwrap_or_default();
        let words = cell.split_whitespace().collect::<Vec<_>>().join(" ");
        text.push(' ');
        text.push_str(&words.replace('|', "\\|"));
        text.push_str(" |");
    }
    text.push('\n');
}

/// Converts preformatted text to a code block. The library `htmd` does this only for `<pre>`
/// elements that contain `<code>`.
pub(super) fn convert_preformatted(
    _: &dyn Handlers,
    element: Element<'_>,
) -> Option<HandlerResult> {
    let code = text_of(element.node);
    // The parser has already removed one line break after the start tag.
    let code = code.trim_end_matches(['\n', ' ']);
    if code.trim().is_empty() {
        return None;
    }
    let inner = find_outermost_nodes(element.node, |node| is_named(node, "code"));
    let language = std::iter::once(element.node).chain(&inner).find_map(language_of);
    let fenced = wrap_in_code_fence(&language.unwrap_or_default(), code);
    Some(format!("\n\n{}\n\n", fenced.trim_end()).into())
}

/// Converts inline code. Markup inside the code is removed, because it would become part of the
/// code. Code with one link becomes a link as a whole. Code with several links is split at the
/// links. Code with line breaks becomes a code block.
pub(super) fn convert_code(element: &Handle) -> HandlerResult {
    let code = text_of(element);
    if !find_outermost_nodes(element, |node| is_named(node, "br")).is_empty() {
        let lines: Vec<_> = code.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        return format!("\n\n{}\n\n", wrap_in_code_fence("", &lines.join("\n")).trim_end()).into();
    }
    let mut links = find_outermost_nodes(element, |node| link_of(node).is_some());
    let parts = if links.len() < 2 {
        vec![(code, links.pop().and_then(|link| link_of(&link)))]
    } else {
        split_code_at_links(element)
    };
    let is_split = parts.len() > 1;
    let shown = |(code, link): (String, Option<String>)| {
        // A comma between two links is not formatted as code.
        let is_comma = is_split && link.is_none() && code.trim() == ",";
        if is_comma { code.replace('\n', " ") } else { quote_code(&code, link) }
    };
    parts.into_iter().map(shown).collect::<String>().into()
}

fn link_of(node: &Handle) -> Option<String> {
    attribute(node, KeptAttribute::Href)
}

/// Splits code into its links and the texts between them.
fn split_code_at_links(element: &Handle) -> Vec<(String, Option<String>)> {
    let is_text = |node: &Handle| matches!(node.data, NodeData::Text { .. });
    let mut parts: Vec<(String, Option<String>)> = Vec::new();
    for node in find_outermost_nodes(element, |node| is_text(node) || link_of(node).is_some()) {
        match (parts.last_mut(), link_of(&node)) {
            (Some((code, None)), None) => code.push_str(&text_of(&node)),
            (_, link) => parts.push((text_of(&node), link)),
        }
    }
    parts
}

/// Returns code in backticks. If `link` is set, the code links to this target.
fn quote_code(code: &str, link: Option<String>) -> String {
    let words = code.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() {
        return code.to_owned();
    }
    let runs = words.split(|letter| letter != '`').map(str::len);
    let ticks = "`".repeat(1 + runs.max().unwrap_or_default());
    let pad = if words.starts_with('`') || words.ends_with('`') { " " } else { "" };
    let quoted = format!("{ticks}{pad}{words}{pad}{ticks}");
    let converted = match link {
        Some(target) => {
            format!("[{quoted}]({})", target.replace('(', "%28").replace(')', "%29"))
        }
        None => quoted,
    };
    // Keep a space that separates the code from the text around it. In the page, this space may be
    // inside the element.
    let start = if code.starts_with(char::is_whitespace) { " " } else { "" };
    let end = if code.ends_with(char::is_whitespace) { " " } else { "" };
    format!("{start}{converted}{end}")
}

/// Returns the language that a class of an element names.
fn language_of(node: &Handle) -> Option<String> {
    let classes = attribute(node, KeptAttribute::Class)?;
    let names = classes.split_ascii_whitespace().filter_map(|class| {
        ["language-", "lang-", "highlight-source-"].iter().find_map(|it| class.strip_prefix(it))
    });
    let is_name = |name: &&str| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"+-#._".contains(&byte);
        (1..=32).contains(&name.len()) && name.bytes().all(is_valid)
    };
    let mut names = names.filter(is_name);
    names.next().map(str::to_owned)
}
