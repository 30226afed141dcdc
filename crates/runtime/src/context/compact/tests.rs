//! Whatever is left out, what is left is a session that a provider takes.

use callboard_models::Part;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn prompt(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text))
}

fn said(text: &str, calls: &[&str]) -> Arc<Message> {
    let call = |id: &&str| Call {
        id: (*id).to_owned(),
        name: "read_file".to_owned(),
        arguments: "{}".to_owned(),
    };
    let calls = calls.iter().map(call).collect();
    let (text, thought) = (text.to_owned(), String::new());
    Arc::new(Message::Assistant { text, thought, calls, replay: None })
}

fn came_to(results: &[(&str, usize)]) -> Arc<Message> {
    let result = |(id, bytes): &(&str, usize)| ToolResult {
        call_id: (*id).to_owned(),
        name: "read_file".to_owned(),
        text: "r".repeat(*bytes),
        parts: Vec::new(),
        is_error: false,
    };
    Arc::new(Message::ToolResults(results.iter().map(result).collect()))
}

/// Returns what is wrong with messages, as a provider sees it.
fn fault(messages: &[Arc<Message>]) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        match &**message {
            Message::ToolResults(results) => {
                let ids: Vec<_> = results.iter().map(|result| result.call_id.clone()).collect();
                if ids != open {
                    return Some(format!("{index}: results of {ids:?}, not of {open:?}"));
                }
                open.clear();
            }
            _ if !open.is_empty() => return Some(format!("{index}: {open:?} have no results")),
            Message::Assistant { .. } if index == 0 => return Some("begins by a reply".to_owned()),
            Message::Assistant { calls, .. } => {
                open = calls.iter().map(|call| call.id.clone()).collect();
            }
            Message::User(_) | Message::Context(_) => {}
        }
    }
    (!open.is_empty()).then(|| format!("{open:?} have no results at the end"))
}

#[test]
fn older_results_go_first_and_the_newest_stay() {
    let mut messages = vec![prompt("go")];
    for _ in 0..12 {
        messages.extend([said("", &["x"]), came_to(&[("x", 10_000)])]);
    }
    let before = messages.clone();
    let texts = |messages: &[Arc<Message>]| -> Vec<_> {
        messages.iter().flat_map(|it| results(it).iter().map(|it| it.text.len())).collect()
    };
    assert_eq!(clear_results(&mut messages, u64::MAX), 0);
    assert_eq!(messages, before);
    assert_eq!(clear_results(&mut messages, weigh(&before) - 15_000), 2);
    assert_eq!(texts(&messages)[..3], [CLEARED.len(), CLEARED.len(), 10_000]);
    assert_eq!(clear_results(&mut messages, 0), 12 - KEPT_RESULTS - 2);
    assert_eq!(texts(&messages)[12 - KEPT_RESULTS - 1..][..2], [CLEARED.len(), 10_000]);
    assert_eq!(texts(&before), [10_000; 12], "what others hold is not changed");
    assert_eq!(fault(&messages), None);
}

#[test]
fn short_results_and_the_newest_of_one_reply_are_kept() {
    let many: Vec<_> = (0..KEPT_RESULTS + 1).map(|_| ("x", CLEARED_OVER_BYTES + 1)).collect();
    let mut messages = vec![came_to(&[("s", CLEARED_OVER_BYTES)]), came_to(&many)];
    assert_eq!(clear_results(&mut messages, 0), 1);
    assert_eq!(results(&messages[0])[0].text.len(), CLEARED_OVER_BYTES);
    assert_eq!(results(&messages[1])[0].text, CLEARED);
}

#[test]
fn the_newest_prompt_stays_also_when_the_work_on_it_is_long() {
    let mut messages = vec![prompt("old"), said("done", &[]), prompt("new")];
    for _ in 0..9 {
        messages.extend([said("", &["x"]), came_to(&[("x", 1_000)])]);
    }
    let split = split(&mut messages, 2_500);
    assert_eq!(split, Split { prompt: Some(2), tail: 17 });
    assert_eq!(split.old(&messages).len(), 16);
    let joined = split.join(&messages, "told".to_owned());
    assert_eq!(*joined[0], Message::Context("told".to_owned()));
    assert_eq!(*joined[1], Message::user("new"));
    assert_eq!(joined[2..], messages[17..]);
    assert_eq!(fault(&joined), None);
}

#[test]
fn results_that_are_too_long_for_all_room_are_cut_in_the_middle() {
    let mut messages =
        vec![prompt("go"), said("", &["a", "b"]), came_to(&[("a", 50_000), ("b", 50_000)])];
    let split = split(&mut messages, 10_000);
    assert_eq!(split.tail, 0);
    assert!(weigh(&messages) <= 10_000, "{}", weigh(&messages));
    for result in results(&messages[2]) {
        assert!(result.text.contains(LEFT_OUT) && result.text.starts_with("rrr"));
    }
}

#[test]
fn a_cut_splits_no_character() {
    for max in 0..200 {
        let cut = cut(&"é🎭".repeat(100), max);
        assert!(cut.len() <= max.max(LEFT_OUT.len()), "{max}: {}", cut.len());
    }
    assert_eq!(cut("short", 5), "short");
}

#[test]
fn the_newest_plan_is_found() {
    let todo = |args: serde_json::Value| Message::Assistant {
        text: String::new(),
        thought: String::new(),
        calls: vec![Call {
            id: String::new(),
            name: "todo_write".to_owned(),
            arguments: args.to_string(),
        }],
        replay: None,
    };
    let first = todo(json!({"todos": [{"content": "a", "status": "pending"}]}));
    let second =
        todo(json!({"todos": [{"content": "a", "status": "completed"}, {"content": "b"}]}));
    let broken = todo(json!({"todos": 1}));
    let user = Message::User(vec![Part::Text(String::new())]);
    assert_eq!(plan(&[&user], "todo_write"), None);
    assert_eq!(
        plan(&[&first, &second, &broken, &user], "todo_write").as_deref(),
        Some("- [completed] a\n- [pending] b")
    );
}

/// Sessions as they come: prompts, replies with their results, what is told beside.
fn sessions() -> impl Strategy<Value = Vec<Arc<Message>>> {
    let bytes = || prop_oneof![0..100usize, 0..5_000usize, 0..100_000usize];
    let step = (bytes(), proptest::collection::vec(bytes(), 0..5)).prop_map(|(bytes, results)| {
        let ids: Vec<_> = (0..results.len()).map(|n| format!("c{n}")).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let reply = said(&"s".repeat(bytes), &ids);
        let results: Vec<_> = ids.iter().copied().zip(results).collect();
        if results.is_empty() { vec![reply] } else { vec![reply, came_to(&results)] }
    });
    let user = (0..5_000usize).prop_map(|bytes| vec![prompt(&"u".repeat(bytes))]);
    let context = bytes().prop_map(|it| vec![Arc::new(Message::Context("c".repeat(it)))]);
    let steps = proptest::collection::vec(prop_oneof![6 => step, 2 => user, 1 => context], 0..40);
    steps.prop_map(|steps| [vec![prompt("first")], steps.concat()].concat())
}

proptest! {
    #[test]
    fn a_compacted_session_is_valid_within_its_goal_and_has_its_newest_prompt(
        mut messages in sessions(),
        goal in 12_000..200_000u64,
    ) {
        let before = messages.clone();
        prop_assert_eq!(fault(&before), None);
        let newest = |messages: &[Arc<Message>]| messages
            .iter()
            .rev()
            .find(|it| matches!(***it, Message::User(_)))
            .cloned();
        clear_results(&mut messages, goal);
        prop_assert_eq!(fault(&messages), None);
        let told = goal / 4;
        let split = split(&mut messages, goal - told);
        let after = split.join(&messages, "t".repeat((told - 16) as usize));
        prop_assert_eq!(fault(&after), None);
        prop_assert!(weigh(&after) <= goal, "{} > {}", weigh(&after), goal);
        prop_assert_eq!(newest(&after), newest(&before));
        let kept = usize::from(split.prompt.is_some()) + messages.len() - split.tail;
        prop_assert_eq!(split.old(&messages).len() + kept, before.len());
    }
}
