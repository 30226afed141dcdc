//! Formats the table of all calls, with the number and the size of their messages.

use acp_types::schema::v1::ToolCallStatus;
use callboard_text::count_with_noun;

use super::card::Card;
use super::sanitise;
use super::ui_text::protocol_kind_word;

/// Totals of several calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallTotals {
    calls: usize,
    updates: usize,
    bytes: usize,
    millis: u64,
}

impl CallTotals {
    /// Adds a call.
    pub(super) fn add_card(&mut self, card: &Card) {
        self.calls += 1;
        self.updates += card.updates;
        self.bytes += card.bytes;
        self.millis += card.duration_ms.unwrap_or(0);
    }
}

/// Minimum width of the first column.
const MIN_TITLE_COLUMNS: usize = 12;

const COLUMN_COUNT: usize = 6;

/// Formats the table of `cards`, with the totals of evicted calls.
pub(super) fn render_call_table(cards: &[Card], earlier: CallTotals, width: usize) -> String {
    let mut totals = earlier;
    cards.iter().for_each(|card| totals.add_card(card));
    let head = ["call", "kind", "status", "updates", "bytes", "ms"].map(str::to_owned);
    let mut rows = vec![head];
    if earlier.calls > 0 {
        rows.push(totals_row(
            count_with_noun(earlier.calls as u64, "earlier call", "earlier calls"),
            earlier,
        ));
    }
    rows.extend(cards.iter().map(call_row));
    rows.push(totals_row(count_with_noun(totals.calls as u64, "call", "calls"), totals));
    align_columns(rows, width)
}

fn call_row(card: &Card) -> [String; COLUMN_COUNT] {
    let status = match card.status {
        ToolCallStatus::Pending => "pending",
        ToolCallStatus::InProgress => "in_progress",
        ToolCallStatus::Completed => "completed",
        ToolCallStatus::Failed if card.is_cancelled => "cancelled",
        _ => "failed",
    };
    let millis = card.duration_ms.map_or_else(|| "–".to_owned(), |millis| millis.to_string());
    [
        card.title.replace('\t', " "),
        protocol_kind_word(card.kind).to_owned(),
        status.to_owned(),
        card.updates.to_string(),
        card.bytes.to_string(),
        millis,
    ]
}

fn totals_row(title: String, sums: CallTotals) -> [String; COLUMN_COUNT] {
    let [updates, bytes] = [sums.updates, sums.bytes].map(|sum| sum.to_string());
    [title, String::new(), String::new(), updates, bytes, sums.millis.to_string()]
}

/// Aligns words to the left and numbers to the right. Titles are truncated to fit the width.
fn align_columns(mut rows: Vec<[String; COLUMN_COUNT]>, width: usize) -> String {
    let widest = |rows: &[[String; COLUMN_COUNT]], column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let others: usize = (1..COLUMN_COUNT).map(|column| 2 + widest(&rows, column)).sum();
    for row in &mut rows {
        row[0] =
            sanitise::truncate_line(&row[0], width.saturating_sub(others).max(MIN_TITLE_COLUMNS));
    }
    let [title, kind, status, updates, bytes, millis]: [usize; COLUMN_COUNT] =
        std::array::from_fn(|column| widest(&rows, column));
    let lines = rows.iter().map(|[a, b, c, d, e, f]| {
        format!("{a:title$}  {b:kind$}  {c:status$}  {d:>updates$}  {e:>bytes$}  {f:>millis$}\n")
    });
    lines.collect()
}
