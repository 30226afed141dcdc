//! The results of one reply's calls within their bounds: each alone, and all together.

use callboard_models::{Part, ToolResult};
use callboard_text::{counted, head, tail};

use crate::limits::{MAX_REPLY_IMAGE_BYTES, MAX_REPLY_RESULT_BYTES, MAX_RESULT_BYTES};

/// Cuts results that are too long, by leaving out their middle. Where all together are too long,
/// the longest are cut first, and all of these alike. Of what they show, the first stays.
pub(super) fn fit(results: &mut [ToolResult]) {
    let mut room = MAX_REPLY_IMAGE_BYTES;
    for result in &mut *results {
        let bytes: usize = result.parts.iter().map(Part::byte_len).sum();
        match room.checked_sub(bytes) {
            Some(left) => room = left,
            None => result.hide(NOT_SHOWN),
        }
    }
    let lens = results.iter().map(|result| result.text.len().min(MAX_RESULT_BYTES));
    let share = share(lens.collect(), MAX_REPLY_RESULT_BYTES);
    for result in results {
        if result.text.len() > share.min(MAX_RESULT_BYTES) {
            result.text = cut(&result.text, share.min(MAX_RESULT_BYTES));
        }
    }
}

/// Returns what each may have so that all together have at most `room`.
fn share(mut lens: Vec<usize>, mut room: usize) -> usize {
    lens.sort_unstable();
    for (place, len) in lens.iter().enumerate() {
        let share = room / (lens.len() - place);
        if *len > share {
            return share;
        }
        room -= len;
    }
    usize::MAX
}

fn cut(text: &str, max: usize) -> String {
    let (start, end) = (head(text, max / 2), tail(text, max / 2));
    let left_out = text.len() - start.len() - end.len();
    let what = counted(left_out as u64, "byte is left out here", "bytes are left out here");
    format!("{start}\n[{what}]\n{end}")
}

const NOT_SHOWN: &str =
    "[The image is left out here: there are too many in one reply. Look at fewer at once.]";

#[cfg(test)]
mod tests {
    use super::{
        MAX_REPLY_IMAGE_BYTES, MAX_REPLY_RESULT_BYTES, MAX_RESULT_BYTES, NOT_SHOWN, cut, fit, share,
    };
    use callboard_models::{Part, ToolResult};

    #[test]
    fn the_longest_give_way_first() {
        for (lens, room, expected) in [
            (vec![], 10, usize::MAX),
            (vec![3, 7], 10, usize::MAX),
            (vec![3, 8], 10, 7),
            (vec![100, 1, 100], 11, 5),
            (vec![100, 100], 0, 0),
        ] {
            assert_eq!(share(lens.clone(), room), expected, "{lens:?} in {room}");
        }
    }

    #[test]
    fn results_keep_their_beginnings_and_ends_and_short_ones_all_they_say() {
        let result = |len| ToolResult {
            call_id: "a".to_owned(),
            name: "look".to_owned(),
            text: format!("a{}z", "€".repeat(len / 3)),
            parts: Vec::new(),
            is_error: false,
        };
        let note = "[1000000 bytes are left out here]".len() + 2;
        for lens in [vec![10, 2 * MAX_RESULT_BYTES, MAX_RESULT_BYTES / 2], vec![100_000; 128]] {
            let before: Vec<_> = lens.iter().map(|len| result(*len)).collect();
            let mut after = before.clone();
            fit(&mut after);
            let bytes: usize =
                after.iter().map(|result| result.text.len() - note.min(result.text.len())).sum();
            assert!(bytes <= MAX_REPLY_RESULT_BYTES, "{bytes}");
            for (before, after) in before.iter().zip(&after) {
                assert!(after.text.len() <= MAX_RESULT_BYTES + note);
                assert!(after.text.starts_with('a') && after.text.ends_with('z'));
                let is_cut = before.text != after.text;
                assert_eq!(after.text.contains("bytes are left out here"), is_cut);
            }
            assert!(lens.len() > 3 || before[0] == after[0] && before[2] == after[2]);
        }
        assert_eq!(cut("abcdef", 2), "a\n[4 bytes are left out here]\nf");
    }

    #[test]
    fn images_are_shown_as_long_as_there_is_room_and_missed_in_words() {
        let shows = |bytes: usize| ToolResult {
            call_id: "a".to_owned(),
            name: "look".to_owned(),
            text: "seen".to_owned(),
            parts: vec![Part::Image { media_type: "image/png".into(), data: "A".repeat(bytes) }],
            is_error: false,
        };
        let mut results = [shows(8), shows(MAX_REPLY_IMAGE_BYTES - 4), shows(8)];
        fit(&mut results);
        assert_eq!(results.each_ref().map(|it| it.parts.len()), [1, 0, 1]);
        assert_eq!(results[1].text, format!("seen\n{NOT_SHOWN}"));
        assert_eq!(results[2].text, "seen");
    }
}
