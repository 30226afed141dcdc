//! The chart of the README: the figures of the table in `docs/performance.md` as bars.

use std::fmt::Write as _;
use std::iter;

/// The columns of the chart, by the text in the head of the table.
const COLUMNS: [&str; 3] = ["ready, ms", "memory, MiB", "read call, ms"];
const TITLES: [&str; 3] = [
    "From the start of the program to the first session, in ms",
    "Memory of all processes after 13 turns, in MiB",
    "A call that reads a file, with the request and the reply after it, in ms",
];

/// Sizes in pixels.
const WIDTH: usize = 760;
const MARGIN: usize = 20;
const NAME_WIDTH: usize = 150;
const VALUE_WIDTH: usize = 70;
const BAR_HEIGHT: usize = 14;
const ROW_HEIGHT: usize = 20;
const TITLE_HEIGHT: usize = 30;

/// Draws the table whose first column is `agent`, of a page in Markdown, as an SVG image. The first
/// row of the table has another colour. A value that is no number has no bar.
///
/// # Errors
///
/// The name of a missing column.
pub(crate) fn draw_chart(page: &str) -> Result<String, String> {
    let mut lines = page.lines().skip_while(|line| !line.starts_with("| agent |"));
    let head: Vec<_> = lines.next().map_or_else(Vec::new, |line| split_row(line).collect());
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<_>> = rows.map(|line| split_row(line).collect()).collect();
    let group_height = TITLE_HEIGHT + ROW_HEIGHT * rows.len() + MARGIN / 2;
    let height = MARGIN + group_height * COLUMNS.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"#ffffff\"/>\n"
    );
    let groups = COLUMNS.iter().zip(TITLES).zip((MARGIN..).step_by(group_height));
    for ((column, title), top) in groups {
        let index = head.iter().position(|name| name == column);
        let index = index.ok_or_else(|| format!("the table has no column `{column}`"))?;
        let value = |row: &[&str]| row.get(index).and_then(|cell| cell.parse::<f64>().ok());
        let largest = rows.iter().filter_map(|row| value(row)).fold(f64::MIN_POSITIVE, f64::max);
        let text = |svg: &mut String, x: usize, y: usize, anchor: &str, text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            // Writing to a string does not fail.
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"#24292f\">{text}</text>"
            );
        };
        text(&mut svg, MARGIN, top + 12, "start", title);
        let colours = iter::once("#0969da").chain(iter::repeat("#9aa4ae"));
        let tops = (top + TITLE_HEIGHT - BAR_HEIGHT / 2..).step_by(ROW_HEIGHT);
        for ((row, colour), top) in rows.iter().zip(colours).zip(tops) {
            let baseline = top + BAR_HEIGHT - 3;
            let left = MARGIN + NAME_WIDTH;
            text(&mut svg, left - 8, baseline, "end", row.first().copied().unwrap_or_default());
            let Some(number) = value(row) else {
                text(&mut svg, left + 4, baseline, "start", "–");
                continue;
            };
            let room = (WIDTH - 2 * MARGIN - NAME_WIDTH - VALUE_WIDTH) as f64;
            let width = (room * number / largest).max(1.0).round() as usize;
            let _ = writeln!(
                svg,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{BAR_HEIGHT}\" \
                 rx=\"2\" fill=\"{colour}\"/>"
            );
            text(&mut svg, left + width + 6, baseline, "start", row[index]);
        }
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn split_row(line: &str) -> impl Iterator<Item = &str> {
    line.trim_matches('|').split('|').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_of_the_page_is_current() {
        let chart = draw_chart(include_str!("../../../docs/performance.md"));
        assert_eq!(
            chart.unwrap(),
            include_str!("../../../docs/performance.svg"),
            "`cargo xtask picture` updates the chart"
        );
    }

    #[test]
    fn bars_are_proportional_and_a_missing_value_has_none() {
        let page = "Text\n\n| agent | ready, ms | memory, MiB | read call, ms |\n|---|---:|---:|---:|\n\
                    | ours | 5.0 | 20 | 1 |\n| <other> | 50.0 | 40 | – |\n\n| agent | x |\n";
        let chart = draw_chart(page).unwrap();
        let widths: Vec<_> = chart
            .lines()
            .filter_map(|line| line.split_once("width=\"")?.1.split_once('"'))
            .map(|(width, _)| width.parse::<usize>().unwrap())
            .collect();
        // The image and its background are first.
        assert_eq!(widths, [760, 760, 50, 500, 250, 500, 500]);
        assert_eq!(chart.matches(">&lt;other><").count(), 3);
        assert_eq!(chart.matches(">–<").count(), 1);
        let missing = draw_chart(&page.replace("memory", "Memory")).unwrap_err();
        assert_eq!(missing, "the table has no column `memory, MiB`");
    }
}
