//! `limits`: generates the page of the book that lists every constant of the crates' `limits.rs`
//! files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::process::{TaskError, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

const PAGE: &str = "docs/limits.md";

const HEAD: &str = "\
# Limits

Every bound has a name and a reason in a `limits.rs`, one for each crate. This page is made from
those files by `cargo xtask limits`; `cargo xtask tidy` fails while it is out of date. Constants
that are public can be read by programs that use the crate. None of them is
configuration; `SessionConfig` of `acp-lifecycle` lowers or raises what people will want to tune.
";

/// One constant of a `limits.rs`.
struct LimitConstant {
    /// The heading comment above the group of constants; empty before the first heading.
    group: String,
    name: String,
    doc: String,
    is_duration: bool,
    value: String,
}

/// Writes the page of limits, `docs/limits.md`.
pub(crate) fn write_limits_page(
    workspace: &Workspace,
    ui: &mut Ui<'_>,
    _: &[String],
) -> TaskResult {
    let path = workspace.root.join(PAGE);
    let text = render_page(&read_limits_by_crate(&workspace.root)?);
    fs::write(&path, text).map_err(|error| TaskError::Failed(format!("{PAGE}: {error}")))?;
    ui.print_line_to_stdout(PAGE);
    Ok(())
}

/// Returns the path of the page of limits if the page differs from the output of
/// [`write_limits_page`].
pub(crate) fn page_path_if_outdated(root: &Path) -> Result<Option<&'static str>, TaskError> {
    let crates = read_limits_by_crate(root)?;
    let written = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    Ok((!crates.is_empty() && written != render_page(&crates)).then_some(PAGE))
}

/// Reads the constants of all crates that have a `limits.rs`. The keys are the names of the crates.
fn read_limits_by_crate(root: &Path) -> Result<BTreeMap<String, Vec<LimitConstant>>, TaskError> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let folder = entry.path();
        let manifest = read_file(&folder.join("Cargo.toml"))?;
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let name = name.unwrap_or_default().trim_matches('"').to_owned();
        let mut texts = Vec::new();
        read_limits_files(&folder.join("src"), &mut texts)?;
        let bounds: Vec<_> = texts.iter().flat_map(|text| parse_limits(text)).collect();
        if !bounds.is_empty() {
            found.insert(name, bounds);
        }
    }
    Ok(found)
}

/// Reads every `limits.rs` in a folder and its subfolders. The file of a folder comes before those
/// of its subfolders.
fn read_limits_files(folder: &Path, texts: &mut Vec<String>) -> Result<(), TaskError> {
    let own = folder.join("limits.rs");
    if own.is_file() {
        texts.push(read_file(&own)?);
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries.map(|entry| entry.path()).filter(|it| it.is_dir()).collect();
    folders.sort();
    folders.iter().try_for_each(|folder| read_limits_files(folder, texts))
}

fn read_file(path: &Path) -> Result<String, TaskError> {
    fs::read_to_string(path)
        .map_err(|error| TaskError::Failed(format!("{}: {error}", path.display())))
}

/// Parses the constants of one `limits.rs`.
fn parse_limits(text: &str) -> Vec<LimitConstant> {
    let (mut group, mut doc) = (String::new(), String::new());
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(doc_line) = line.strip_prefix("///") {
            doc = format!("{doc} {}", doc_line.trim()).trim().to_owned();
        } else if let Some(title) = line.strip_prefix("// ")
            && lines.peek().is_none_or(|next| next.is_empty())
        {
            title.trim_matches(['-', ' ']).clone_into(&mut group);
        } else if let Some((_, rest)) = line.split_once("const ") {
            let mut item = rest.to_owned();
            while !item.ends_with(';')
                && let Some(more) = lines.next()
            {
                item = format!("{item} {}", more.trim());
            }
            let (name, rest) = item.split_once(": ").unwrap_or((&item, ""));
            let (kind, value) = rest.split_once('=').unwrap_or((rest, ""));
            found.push(LimitConstant {
                group: group.clone(),
                name: name.to_owned(),
                doc: std::mem::take(&mut doc),
                is_duration: kind.trim() == "Duration",
                value: value.trim_matches([' ', ';']).to_owned(),
            });
        }
    }
    found
}

fn render_page(crates: &BTreeMap<String, Vec<LimitConstant>>) -> String {
    let everywhere = crates.values().flatten().map(|bound| (&*bound.name, &*bound.value));
    let everywhere: BTreeMap<_, _> = everywhere.collect();
    let mut page = HEAD.to_owned();
    for (name, bounds) in crates {
        page.push_str(&format!("\n## `{name}`\n"));
        let own = bounds.iter().map(|bound| (&*bound.name, &*bound.value));
        let values: BTreeMap<_, _> = everywhere.clone().into_iter().chain(own).collect();
        let mut group = None;
        for bound in bounds {
            if group != Some(&bound.group) {
                if !bound.group.is_empty() {
                    page.push_str(&format!("\n### {}\n", bound.group));
                }
                page.push_str("\n| limit | value | constant |\n|---|---|---|\n");
            }
            group = Some(&bound.group);
            let (doc, value) = (format_doc_cell(&bound.doc), format_value_cell(bound, &values));
            page.push_str(&format!("| {doc} | {value} | `{}` |\n", bound.name));
        }
    }
    page
}

/// Formats a doc comment as a table cell. The targets of intra-doc links are removed.
fn format_doc_cell(doc: &str) -> String {
    let mut text = String::new();
    let mut rest = doc;
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((name, after)) = after.split_once("`]") else { break };
        text = format!("{text}{before}`{name}`");
        let target = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        rest = target.map_or(after, |(_, after)| after);
    }
    (text + rest).replace('|', "\\|")
}

/// Formats the value of a constant with a readable unit. A value that cannot be evaluated is shown
/// as Rust code.
fn format_value_cell(bound: &LimitConstant, values: &BTreeMap<&str, &str>) -> String {
    let verbatim = || format!("`{}`", bound.value);
    let written = &*bound.value;
    if bound.is_duration {
        let of = |unit: &str| written.strip_prefix(unit)?.strip_suffix(')');
        let seconds = of("Duration::from_secs(").and_then(|it| Some(1_000 * evaluate(it, values)?));
        let millis = || evaluate(of("Duration::from_millis(")?, values);
        return seconds.or_else(millis).map_or_else(verbatim, format_duration);
    }
    let counted = bound.doc.split(' ').take(2).any(|word| word.eq_ignore_ascii_case("bytes"));
    let is_bytes = counted || bound.name.contains("BYTES");
    match evaluate(written, values) {
        Some(number) if is_bytes => format_byte_count(number),
        Some(number) => group_thousands(number),
        None => verbatim(),
    }
}

fn format_duration(millis: u64) -> String {
    let units = [(86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    match units.into_iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", group_thousands(millis / unit)),
        None => format!("{} ms", group_thousands(millis)),
    }
}

fn format_byte_count(number: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| number > 0 && number.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", group_thousands(number / unit)),
        None => format!("{} bytes", group_thousands(number)),
    }
}

/// Formats a number with a comma before each group of three digits.
fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let at = |index: usize| index > 0 && (digits.len() - index).is_multiple_of(3);
    digits.chars().enumerate().fold(String::new(), |text, (index, digit)| {
        if at(index) { format!("{text},{digit}") } else { format!("{text}{digit}") }
    })
}

/// Evaluates sums, differences, products and shifts of numbers and constants. Only the forms that
/// occur in the `limits.rs` files are supported.
fn evaluate(expression: &str, values: &BTreeMap<&str, &str>) -> Option<u64> {
    // If the value is different in tests, only the value of the released program is shown.
    let released = expression.rsplit_once("else {").map(|(_, rest)| rest.trim_matches([' ', '}']));
    let expression = released.unwrap_or(expression);
    let expression = expression.strip_suffix(" as u64").unwrap_or(expression).trim();
    let parts = |operator| {
        let (left, right) = split_at_last_operator(expression, operator)?;
        Some((evaluate(left, values)?, evaluate(right, values)?))
    };
    if let Some((left, right)) = parts(" << ") {
        return Some(left << right);
    }
    if let Some((left, right)) = parts(" + ") {
        return Some(left + right);
    }
    if let Some((left, right)) = parts(" - ") {
        return left.checked_sub(right);
    }
    if let Some((left, right)) = parts(" * ") {
        return Some(left * right);
    }
    if let Some(inner) = expression.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
        return evaluate(inner, values);
    }
    let number = expression.replace('_', "").parse().ok();
    number.or_else(|| evaluate(values.get(expression).filter(|it| **it != expression)?, values))
}

/// Splits an expression at the last occurrence of an operator that is not in parentheses.
fn split_at_last_operator<'a>(expression: &'a str, operator: &str) -> Option<(&'a str, &'a str)> {
    let is_outside = |at: &usize| {
        let before = &expression[..*at];
        before.matches('(').count() == before.matches(')').count()
    };
    let at = expression.rmatch_indices(operator).map(|(at, _)| at).find(is_outside)?;
    Some((&expression[..at], &expression[at + operator.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
//! Bounds.

// ---- Lines ----

/// Bytes of a line, of [`DEPTH`](super::DEPTH) levels.
pub const LINE: usize = 16 << 20;

/// Bytes of four lines.
pub(crate) const LINES: usize = (LINE + 2) * 4 - 8;

// Time

/// How long it waits.
// Longer in tests.
const WAIT: Duration =
    Duration::from_millis(if cfg!(test) { 10_000 } else { 300 });

/// How long it is kept.
const AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Lines a|b.
const COUNT: u32 = 12_000;
";

    #[test]
    fn a_page_lists_every_bound_in_its_unit() {
        let page = render_page(&BTreeMap::from([("a".to_owned(), parse_limits(FILE))]));
        let rows: Vec<_> = page.lines().skip_while(|line| !line.starts_with("## ")).collect();
        let head = ["", "| limit | value | constant |", "|---|---|---|"];
        let lines = [
            "| Bytes of a line, of `DEPTH` levels. | 16 MiB | `LINE` |",
            "| Bytes of four lines. | 64 MiB | `LINES` |",
        ];
        let time = [
            "| How long it waits. | 300 ms | `WAIT` |",
            "| How long it is kept. | 7 days | `AGE` |",
            "| Lines a\\|b. | 12,000 | `COUNT` |",
        ];
        let groups = [&["", "### Lines"][..], &head, &lines, &["", "### Time"], &head, &time];
        assert_eq!(rows, [&["## `a`"][..], &groups.concat()].concat());
    }

    #[test]
    fn a_page_is_stale_until_it_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(page_path_if_outdated(root).unwrap(), None);
        fs::create_dir_all(root.join("crates/a/src")).unwrap();
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::write(root.join("crates/a/Cargo.toml"), "[package]\nname = \"a\"\n").unwrap();
        fs::write(root.join("crates/a/src/limits.rs"), FILE).unwrap();
        assert_eq!(page_path_if_outdated(root).unwrap(), Some(PAGE));
        let target = root.join("target");
        let workspace =
            Workspace { root: root.to_owned(), target, metadata: serde_json::Value::Null };
        write_limits_page(&workspace, &mut Ui::new(&mut Vec::new()), &[]).unwrap();
        assert_eq!(page_path_if_outdated(root).unwrap(), None);
        fs::write(root.join("crates/a/src/limits.rs"), FILE.replace("16 <<", "8 <<")).unwrap();
        assert_eq!(page_path_if_outdated(root).unwrap(), Some(PAGE));
    }
}
