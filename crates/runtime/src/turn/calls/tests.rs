//! Tests of the maximum sizes of the results of one reply.

use super::{
    IMAGE_LEFT_OUT_NOTE, MAX_REPLY_IMAGE_BYTES, MAX_REPLY_RESULT_BYTES, MAX_RESULT_BYTES,
    max_len_per_result, truncate_results,
};
use callboard_models::{ContentPart, ToolResult};

#[test]
fn the_longest_results_are_truncated_first() {
    for (lens, room, expected) in [
        (vec![], 10, usize::MAX),
        (vec![3, 7], 10, usize::MAX),
        (vec![3, 8], 10, 7),
        (vec![100, 1, 100], 11, 5),
        (vec![100, 100], 0, 0),
    ] {
        assert_eq!(max_len_per_result(lens.clone(), room), expected, "{lens:?} in {room}");
    }
}

#[test]
fn results_keep_their_beginnings_and_ends_and_short_results_stay_complete() {
    let result = |len| ToolResult::new("a", "look", format!("a{}z", "€".repeat(len / 3)));
    let note = "[... 1000000 bytes left out ...]".len() + 2;
    for lens in [vec![10, 2 * MAX_RESULT_BYTES, MAX_RESULT_BYTES / 2], vec![100_000; 128]] {
        let before: Vec<_> = lens.iter().map(|len| result(*len)).collect();
        let mut after = before.clone();
        truncate_results(&mut after);
        let bytes: usize =
            after.iter().map(|result| result.text.len() - note.min(result.text.len())).sum();
        assert!(bytes <= MAX_REPLY_RESULT_BYTES, "{bytes}");
        for (before, after) in before.iter().zip(&after) {
            assert!(after.text.len() <= MAX_RESULT_BYTES + note);
            assert!(after.text.starts_with('a') && after.text.ends_with('z'));
            let is_cut = before.text != after.text;
            assert_eq!(after.text.contains("bytes left out"), is_cut);
        }
        assert!(lens.len() > 3 || before[0] == after[0] && before[2] == after[2]);
    }
}

#[test]
fn images_are_kept_while_there_is_room_and_otherwise_replaced_by_a_note() {
    let shows = |bytes: usize| {
        let (media_type, data) = ("image/png".into(), "A".repeat(bytes));
        let mut result = ToolResult::new("a", "look", "seen");
        result.parts = vec![ContentPart::Image { media_type, data }];
        result
    };
    let mut results = [shows(8), shows(MAX_REPLY_IMAGE_BYTES - 4), shows(8)];
    truncate_results(&mut results);
    assert_eq!(results.each_ref().map(|it| it.parts.len()), [1, 0, 1]);
    assert_eq!(results[1].text, format!("seen\n{IMAGE_LEFT_OUT_NOTE}"));
    assert_eq!(results[2].text, "seen");
}
