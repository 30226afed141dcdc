//! Removes line numbers from an edit if the model copied them from the output of `read_file`.

use std::ops::Range;

/// Returns both texts of an edit without line numbers. If a line of the old text has no number, or
/// if the numbers are not consecutive, returns `None`. A number in the new text is only removed if
/// it also occurs in the old text, or continues the numbers of the old text. Other numbers are text
/// of the file, e.g. the first column of a table.
pub(super) fn strip_line_numbers(old: &str, new: &str) -> Option<(String, String)> {
    let mut carried: Option<Range<u32>> = None;
    let mut numbered = |line| {
        let (number, rest) =
            split_line_number(line).or_else(|| parse_number_of_blank_line(line))?;
        let follows = carried.as_ref().is_none_or(|carried| carried.end == number);
        let first = carried.as_ref().map_or(number, |carried| carried.start);
        carried = Some(first..number.checked_add(1)?);
        follows.then_some(rest)
    };
    let old_text: String = old.split_inclusive('\n').map(&mut numbered).collect::<Option<_>>()?;
    let Range { start, mut end } = carried?;
    let plain = |line| match split_line_number(line).or_else(|| parse_number_of_blank_line(line)) {
        Some((number, rest)) if (start..=end).contains(&number) => {
            end = end.max(number.saturating_add(1));
            rest
        }
        _ => line,
    };
    (!old_text.trim().is_empty())
        .then(|| (old_text, new.split_inclusive('\n').map(plain).collect()))
}

/// Splits a line into its line number and the text after the tab.
fn split_line_number(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.split_once('\t')?;
    let number = number.trim_start_matches(' ');
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| is_number)?, rest))
}

/// Parses the line number of a blank line whose tab is missing.
fn parse_number_of_blank_line(line: &str) -> Option<(u32, &str)> {
    let number = line.trim_end_matches(['\r', '\n']);
    let is_number = number.trim().bytes().all(|byte| byte.is_ascii_digit());
    Some((number.trim().parse().ok().filter(|_| is_number)?, &line[number.len()..]))
}

#[cfg(test)]
mod tests {
    use super::strip_line_numbers;

    #[test]
    fn numbers_are_taken_off_where_each_line_has_the_next_one() {
        let stripped = |old, new| strip_line_numbers(old, new);
        let texts = |old: &str, new: &str| Some((old.to_owned(), new.to_owned()));
        for (old, new, expected) in [
            ("     9\ta\n    10\t\tb\n", "     9\tx\nnew\n", texts("a\n\tb\n", "x\nnew\n")),
            ("9\ta\n    10\n    11\tb", "x", texts("a\n\nb", "x")),
            (
                "     9\ta\n    10\n    11\tb\n",
                "     9\tx\n    10\n    11\tb\n    12\n    13\tc\n",
                texts("a\n\nb\n", "x\n\nb\n\nc\n"),
            ),
            // The numbers in the inserted lines are text of the table, not line numbers.
            (
                "     9\tid\tname\n",
                "     9\tid\tname\n1\tAnn\n17\tBob\n12\n",
                texts("id\tname\n", "id\tname\n1\tAnn\n17\tBob\n12\n"),
            ),
            ("     9\ta\n    11\tb\n", "x", None),
            ("     9\ta\nb\n", "x", None),
            ("+9\ta\n", "x", None),
            ("a", "x", None),
            ("12", "x", None),
            ("     9\t\n", "x", None),
        ] {
            assert_eq!(stripped(old, new), expected, "{old:?}");
        }
    }
}
