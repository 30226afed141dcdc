//! Checks that providers accept every shortened session.

use callboard_models::ContentPart;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn prompt(text: &str) -> Arc<ChatMessage> {
    Arc::new(ChatMessage::user(text))
}

fn assistant_message(text: &str, calls: &[&str]) -> Arc<ChatMessage> {
    let call = |id: &&str| ModelToolCall::new((*id).to_owned(), "read_file", "{}");
    let calls = calls.iter().map(call).collect();
    let (text, thought) = (text.to_owned(), String::new());
    Arc::new(ChatMessage::Assistant { text, thought, calls, replay: None })
}

fn tool_results_message(results: &[(&str, usize)]) -> Arc<ChatMessage> {
    let result = |(id, bytes): &(&str, usize)| {
        ToolResult::new((*id).to_owned(), "read_file", "r".repeat(*bytes))
    };
    Arc::new(ChatMessage::ToolResults(results.iter().map(result).collect()))
}

/// Returns a reason why a provider would reject these messages. Returns `None` if they are valid.
fn invalid_reason(messages: &[Arc<ChatMessage>]) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        match &**message {
            ChatMessage::ToolResults(results) => {
                let ids: Vec<_> = results.iter().map(|result| result.call_id.clone()).collect();
                if ids != open {
                    return Some(format!("{index}: results of {ids:?}, not of {open:?}"));
                }
                open.clear();
            }
            _ if !open.is_empty() => return Some(format!("{index}: {open:?} have no results")),
            ChatMessage::Assistant { .. } if index == 0 => {
                return Some("begins by a reply".to_owned());
            }
            ChatMessage::Assistant { calls, .. } => {
                open = calls.iter().map(|call| call.id.clone()).collect();
            }
            ChatMessage::User(_) | ChatMessage::Context(_) => {}
        }
    }
    (!open.is_empty()).then(|| format!("{open:?} have no results at the end"))
}

#[test]
fn older_results_are_cleared_first_and_the_newest_are_kept() {
    let mut messages = vec![prompt("go")];
    for _ in 0..12 {
        messages.extend([assistant_message("", &["x"]), tool_results_message(&[("x", 10_000)])]);
    }
    let before = messages.clone();
    let texts = |messages: &[Arc<ChatMessage>]| -> Vec<_> {
        messages.iter().flat_map(|it| tool_results(it).iter().map(|it| it.text.len())).collect()
    };
    assert_eq!(clear_older_results(&mut messages, u64::MAX), 0);
    assert_eq!(messages, before);
    assert_eq!(clear_older_results(&mut messages, total_estimated_bytes(&before) - 15_000), 2);
    assert_eq!(
        texts(&messages)[..3],
        [CLEARED_RESULT_NOTE.len(), CLEARED_RESULT_NOTE.len(), 10_000]
    );
    assert_eq!(clear_older_results(&mut messages, 0), 12 - KEPT_NEWEST_RESULTS - 2);
    assert_eq!(
        texts(&messages)[12 - KEPT_NEWEST_RESULTS - 1..][..2],
        [CLEARED_RESULT_NOTE.len(), 10_000]
    );
    assert_eq!(texts(&before), [10_000; 12], "what others hold is not changed");
    assert_eq!(invalid_reason(&messages), None);
}

#[test]
fn short_results_and_the_newest_of_one_reply_are_kept() {
    let many: Vec<_> =
        (0..KEPT_NEWEST_RESULTS + 1).map(|_| ("x", MIN_CLEARED_RESULT_BYTES + 1)).collect();
    let mut messages =
        vec![tool_results_message(&[("s", MIN_CLEARED_RESULT_BYTES)]), tool_results_message(&many)];
    assert_eq!(clear_older_results(&mut messages, 0), 1);
    assert_eq!(tool_results(&messages[0])[0].text.len(), MIN_CLEARED_RESULT_BYTES);
    assert_eq!(tool_results(&messages[1])[0].text, CLEARED_RESULT_NOTE);
}

#[test]
fn the_newest_prompt_is_kept_even_if_the_work_on_it_is_long() {
    let mut messages = vec![prompt("old"), assistant_message("done", &[]), prompt("new")];
    for _ in 0..9 {
        messages.extend([assistant_message("", &["x"]), tool_results_message(&[("x", 1_000)])]);
    }
    let split = split_history(&mut messages, 2_500);
    assert_eq!(split, HistorySplit { prompt: Some(2), tail: 17 });
    assert_eq!(split.old_messages(&messages).len(), 16);
    let joined = split.replace_old_messages(&messages, "told".to_owned());
    assert_eq!(*joined[0], ChatMessage::Context("told".to_owned()));
    assert_eq!(*joined[1], ChatMessage::user("new"));
    assert_eq!(joined[2..], messages[17..]);
    assert_eq!(invalid_reason(&joined), None);
}

#[test]
fn results_that_exceed_the_room_are_truncated_in_the_middle() {
    let mut messages = vec![
        prompt("go"),
        assistant_message("", &["a", "b"]),
        tool_results_message(&[("a", 50_000), ("b", 50_000)]),
    ];
    let split = split_history(&mut messages, 10_000);
    assert_eq!(split.tail, 0);
    assert!(total_estimated_bytes(&messages) <= 10_000, "{}", total_estimated_bytes(&messages));
    for result in tool_results(&messages[2]) {
        assert!(result.text.contains(LEFT_OUT_NOTE) && result.text.starts_with("rrr"));
    }
}

#[test]
fn a_cut_splits_no_character() {
    for max in 0..200 {
        let cut = cut_middle(&"é🎭".repeat(100), max);
        assert!(cut.len() <= max.max(LEFT_OUT_NOTE.len()), "{max}: {}", cut.len());
    }
    assert_eq!(cut_middle("short", 5), "short");
}

#[test]
fn the_newest_plan_is_found() {
    let todo = |args: serde_json::Value| ChatMessage::Assistant {
        text: String::new(),
        thought: String::new(),
        calls: vec![ModelToolCall::new(String::new(), "todo_write", args.to_string())],
        replay: None,
    };
    let first = todo(json!({"todos": [{"content": "a", "status": "pending"}]}));
    let second =
        todo(json!({"todos": [{"content": "a", "status": "completed"}, {"content": "b"}]}));
    let broken = todo(json!({"todos": 1}));
    let user = ChatMessage::User(vec![ContentPart::Text(String::new())]);
    assert_eq!(latest_plan(&[&user], "todo_write"), None);
    assert_eq!(
        latest_plan(&[&first, &second, &broken, &user], "todo_write").as_deref(),
        Some("- [completed] a\n- [pending] b")
    );
}

/// Generates sessions that consist of prompts, replies with results, and context messages.
fn sessions() -> impl Strategy<Value = Vec<Arc<ChatMessage>>> {
    let bytes = || prop_oneof![0..100usize, 0..5_000usize, 0..100_000usize];
    let step = (bytes(), proptest::collection::vec(bytes(), 0..5)).prop_map(|(bytes, results)| {
        let ids: Vec<_> = (0..results.len()).map(|n| format!("c{n}")).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let reply = assistant_message(&"s".repeat(bytes), &ids);
        let results: Vec<_> = ids.iter().copied().zip(results).collect();
        if results.is_empty() { vec![reply] } else { vec![reply, tool_results_message(&results)] }
    });
    let user = (0..5_000usize).prop_map(|bytes| vec![prompt(&"u".repeat(bytes))]);
    let context = bytes().prop_map(|it| vec![Arc::new(ChatMessage::Context("c".repeat(it)))]);
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
        prop_assert_eq!(invalid_reason(&before), None);
        let newest = |messages: &[Arc<ChatMessage>]| messages
            .iter()
            .rev()
            .find(|it| matches!(***it, ChatMessage::User(_)))
            .cloned();
        clear_older_results(&mut messages, goal);
        prop_assert_eq!(invalid_reason(&messages), None);
        let replaced = goal / 4;
        let split = split_history(&mut messages, goal - replaced);
        let after = split.replace_old_messages(&messages, "t".repeat((replaced - 16) as usize));
        prop_assert_eq!(invalid_reason(&after), None);
        prop_assert!(total_estimated_bytes(&after) <= goal, "{} > {}", total_estimated_bytes(&after), goal);
        prop_assert_eq!(newest(&after), newest(&before));
        let kept = usize::from(split.prompt.is_some()) + messages.len() - split.tail;
        prop_assert_eq!(split.old_messages(&messages).len() + kept, before.len());
    }
}
