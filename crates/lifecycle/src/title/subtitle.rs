//! The subtitle: a text after the title of a running call that shows the call's progress.

use acp_types::Progress;
use callboard_text::{escape_invisible_truncated, head};

use crate::limits::MAX_SUBTITLE_BYTES;

/// The separator between a title and its subtitle.
pub const SUBTITLE_SEPARATOR: &str = " · ";

/// Joins a title and its subtitle.
pub(crate) fn join_title_and_subtitle(base: &str, subtitle: Option<&str>) -> String {
    match subtitle {
        Some(subtitle) => format!("{base}{SUBTITLE_SEPARATOR}{subtitle}"),
        None => base.to_owned(),
    }
}

/// Converts a text to one short visible line. Returns `None` for blank text.
pub(crate) fn text_to_subtitle_line(words: &str) -> Option<String> {
    let mut line = String::new();
    for word in words.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(head(word, MAX_SUBTITLE_BYTES + 1));
        if line.len() > MAX_SUBTITLE_BYTES {
            break;
        }
    }
    (!line.is_empty()).then(|| escape_invisible_truncated(&line, MAX_SUBTITLE_BYTES).0)
}

/// Formats the progress of a call, followed by the tool's message. A small number of steps is
/// formatted as `3/10`, and a larger number as a percentage. If the total is unknown, the current
/// value is used.
pub(crate) fn progress_text(progress: &Progress) -> String {
    let done = progress.current.max(0.0) + 0.0;
    let is_step = |number: f64| number.fract() == 0.0 && number <= MAX_COUNTED_STEPS;
    let counted = |total: &f64| *total > 1.0 && *total != 100.0 && is_step(*total) && is_step(done);
    let count = match (progress.total.filter(counted), progress.percent()) {
        _ if !progress.current.is_finite() => String::new(),
        (Some(total), _) => format!("{done}/{total}"),
        (None, Some(percent)) => format!("{percent} %"),
        (None, None) if done.fract() == 0.0 => format!("{done}"),
        (None, None) => format!("{done:.1}"),
    };
    let message = progress.message.as_deref().unwrap_or_default();
    if count.is_empty() { message.to_owned() } else { format!("{count} {message}") }
}

/// Largest number of steps that is shown as a number. For more steps, a percentage is shown.
const MAX_COUNTED_STEPS: f64 = 9_999.0;

#[cfg(test)]
mod tests {
    use super::{join_title_and_subtitle, progress_text, text_to_subtitle_line};
    use crate::limits::MAX_SUBTITLE_BYTES;
    use acp_types::Progress;
    use pretty_assertions::assert_eq;

    fn shown(current: f64, total: Option<f64>, message: &str) -> String {
        let message = Some(message.to_owned()).filter(|message| !message.is_empty());
        let progressed = Progress::new(current).with_total(total).with_message(message);
        text_to_subtitle_line(&progress_text(&progressed)).unwrap_or_default()
    }

    #[test]
    fn progress_is_steps_percent_or_a_count() {
        for (current, total, message, expected) in [
            (3.0, Some(10.0), "compiling…", "3/10 compiling…"),
            (0.0, Some(10.0), "", "0/10"),
            (12.0, Some(10.0), "", "12/10"),
            (40.0, Some(100.0), "", "40 %"),
            (0.25, Some(1.0), "", "25 %"),
            (1.0, Some(1.0), "", "100 %"),
            (2.5, Some(10.0), "half", "25 % half"),
            (999_999.0, Some(1_000_000.0), "", "99 %"),
            (2e9, Some(1e9), "", "100 %"),
            (7.0, None, "", "7"),
            (7.25, None, "read", "7.2 read"),
            (-3.0, Some(10.0), "", "0/10"),
            (-0.0, None, "", "0"),
            (3.0, Some(0.0), "", "3"),
            (3.0, Some(f64::NAN), "", "3"),
            (f64::NAN, Some(10.0), "lost count", "lost count"),
            (f64::INFINITY, None, "", ""),
        ] {
            assert_eq!(shown(current, total, message), expected, "{current} of {total:?}");
        }
    }

    #[test]
    fn any_text_becomes_one_short_visible_line() {
        assert_eq!(text_to_subtitle_line("a\n  b\r\n\u{2028}\tc"), Some("a b c".to_owned()));
        assert_eq!(
            text_to_subtitle_line("\u{1b}[2J\u{202e}x"),
            Some("\\u{1b}[2J\\u{202e}x".to_owned())
        );
        assert_eq!(text_to_subtitle_line(" \n\t"), None);
        for long in ["x".repeat(1_000_000), "ä ".repeat(1_000), "\u{200b}".repeat(1_000)] {
            let line = text_to_subtitle_line(&long).unwrap();
            assert!(line.len() <= MAX_SUBTITLE_BYTES && line.ends_with('…'), "{line}");
        }
        assert!(shown(1e300, None, "x").len() <= MAX_SUBTITLE_BYTES);
    }

    #[test]
    fn a_subtitle_is_shown_after_its_title() {
        assert_eq!(join_title_and_subtitle("Run `x`", Some("40 %")), "Run `x` · 40 %");
        assert_eq!(join_title_and_subtitle("Run `x`", None), "Run `x`");
    }
}
