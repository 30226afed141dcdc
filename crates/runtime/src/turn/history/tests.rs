//! Checks that every provider accepts the messages of any history, even after any number of its
//! messages was removed.

use std::sync::Arc;

use acp_lifecycle::{Session, SessionHandle};
use acp_store::{MemorySessionStore, RecordStream};
use callboard_models::{ChatMessage, ContentPart, ModelToolCall, TokenUsage, ToolResult};
use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_oneof, proptest};

use super::{History, LEFT_OUT_NOTE};
use crate::limits::MAX_HISTORY_IMAGE_BYTES;
use crate::stored_sessions::tests::{held_recording, records};

fn reply(text: &str, calls: usize) -> ChatMessage {
    let call = |number| ModelToolCall::new(format!("c{number}"), "look", "{}");
    let calls = (0..calls).map(call).collect();
    ChatMessage::Assistant { text: text.to_owned(), thought: String::new(), calls, replay: None }
}

fn results(calls: usize) -> ChatMessage {
    let result = |number| ToolResult::new(format!("c{number}"), "look", "0123456789");
    ChatMessage::ToolResults((0..calls).map(result).collect())
}

fn history(messages: impl IntoIterator<Item = ChatMessage>) -> History {
    let mut history = History::default();
    messages.into_iter().for_each(|message| drop(history.push_message_within_limits(message)));
    history
}

fn history_messages(history: &History) -> Vec<ChatMessage> {
    history.messages().iter().map(|message| (**message).clone()).collect()
}

/// Asserts that the messages obey the rules that every provider enforces.
pub(in crate::turn) fn check_valid(history: &History) {
    let mut waiting = Vec::new();
    for message in history.messages().iter() {
        let results = match &**message {
            ChatMessage::ToolResults(results) => {
                results.iter().map(|it| it.call_id.clone()).collect()
            }
            _ => Vec::new(),
        };
        assert_eq!(waiting, results, "each call has its result, right behind it");
        waiting = match &**message {
            ChatMessage::Assistant { text, calls, .. } => {
                assert!(!text.is_empty() || !calls.is_empty(), "a reply is never empty");
                calls.iter().map(|call| call.id.clone()).collect()
            }
            _ => Vec::new(),
        };
    }
    assert_eq!(waiting, [""; 0]);
    let mut size = super::MessagesSize::default();
    history
        .messages()
        .iter()
        .for_each(|message| size.add(super::MessagesSize::from_message(message)));
    assert_eq!(history.size, size);
}

#[test]
fn an_aborted_turn_leaves_no_call_without_a_result() {
    let mut history = history([ChatMessage::user("go"), reply("So", 2)]);
    history.add_results_for_lost_calls();
    let Some(ChatMessage::ToolResults(lost)) = history_messages(&history).pop() else {
        panic!("no results")
    };
    assert!(lost.iter().all(|lost| lost.is_error && lost.text.contains("may have been completed")));
    check_valid(&history);
    let mended = history_messages(&history);
    history.add_results_for_lost_calls();
    assert_eq!(history_messages(&history), mended);
}

#[test]
fn a_refused_prompt_and_later_messages_are_removed_and_earlier_ones_kept() {
    let before = [ChatMessage::user("hello"), reply("Hello.", 0)];
    let mut history = history(before.clone());
    let prompt = history.push_message_within_limits(ChatMessage::user("hello"));
    history.push_text_reply("I will".to_owned(), String::new(), None);
    history.truncate_from(&prompt);
    assert_eq!(history_messages(&history), before);
    history.truncate_from(&prompt);
    assert_eq!(history_messages(&history), before);
    check_valid(&history);
}

#[test]
fn an_empty_reply_is_not_added_to_the_history() {
    let mut history = history([ChatMessage::user("go")]);
    history.push_text_reply(" \n".to_owned(), "Hm.".to_owned(), None);
    assert_eq!(history_messages(&history), [ChatMessage::user("go")]);
}

#[test]
fn the_oldest_messages_are_removed_first_and_the_newest_prompt_and_reply_kept() {
    let left_out = || ChatMessage::Context(LEFT_OUT_NOTE.to_owned());
    let turn =
        |prompt: &str| [ChatMessage::user(prompt), reply("Look", 1), results(1), reply("So.", 0)];
    let whole = [turn("one"), turn("two")].concat();
    let all = history(whole.clone()).byte_len();
    for (bytes, kept) in [
        (all, None),
        (all - 1, Some(&whole[1..])),
        (all - 10, Some(&whole[3..])),
        (26, Some(&whole[4..])),
        (25, Some(&whole[7..])),
    ] {
        let mut history = history(whole.clone());
        assert_eq!(history.drop_oldest_messages(bytes), kept.is_some(), "{bytes}");
        if let Some(kept) = kept {
            let prompt = (!kept.contains(&whole[4])).then(|| whole[4].clone());
            let expected: Vec<_> =
                [left_out()].into_iter().chain(prompt).chain(kept.iter().cloned()).collect();
            assert_eq!(history_messages(&history), expected, "{bytes}");
        }
        check_valid(&history);
    }
    let mut history = history(whole.clone());
    assert!(history.drop_oldest_messages(0));
    assert_eq!(history_messages(&history), [left_out(), whole[4].clone(), whole[7].clone()]);
    assert!(!history.drop_oldest_messages(0), "nothing is left that could be left out");
}

#[test]
fn the_oldest_of_too_many_images_are_omitted_without_their_texts() {
    let shows = |bytes: usize| {
        let ChatMessage::ToolResults(mut results) = results(1) else { unreachable!() };
        results[0].parts =
            vec![ContentPart::Image { media_type: "image/png".into(), data: "A".repeat(bytes) }];
        [reply("Look", 1), ChatMessage::ToolResults(results)]
    };
    let (all, quarter) = (MAX_HISTORY_IMAGE_BYTES, MAX_HISTORY_IMAGE_BYTES / 4);
    for (sizes, shown) in [
        (&[quarter; 4][..], &[true; 4][..]),
        (&[quarter; 5], &[false, false, false, true, true]),
        (&[quarter, quarter, quarter, quarter + 1], &[false, false, false, true]),
        (&[all, 1], &[false, true]),
    ] {
        let mut history = history([ChatMessage::user("go")]);
        for message in sizes.iter().flat_map(|bytes| shows(*bytes)) {
            drop(history.push_message_within_limits(message));
        }
        check_valid(&history);
        let messages = history_messages(&history);
        let results = messages.iter().filter_map(|message| match message {
            ChatMessage::ToolResults(results) => Some(&results[0]),
            _ => None,
        });
        let results: Vec<_> = results.collect();
        let is_shown: Vec<_> = results.iter().map(|result| !result.parts.is_empty()).collect();
        assert_eq!(is_shown, shown, "{sizes:?}");
        for result in results {
            assert!(result.text.starts_with("0123456789"));
            assert_eq!(result.text.contains("left out to make room"), result.parts.is_empty());
        }
        assert_eq!(messages.len(), 1 + 2 * sizes.len());
    }
}

#[test]
fn the_request_index_of_a_selected_model_begins_at_zero() {
    let mut history = History::default();
    let asked = [0, 0, 1, 1, 2].map(|taken_up| history.take_request_index(taken_up));
    assert_eq!(asked, [0, 1, 0, 1, 0]);
    let usage = |cost_micros| {
        let mut usage = TokenUsage::default();
        (usage.input_tokens, usage.cost_micros) = (Some(3), cost_micros);
        usage
    };
    assert_eq!(history.usage_totals().cost_micros, None);
    history.add_usage(&usage(Some(5)));
    history.add_usage(&usage(None));
    let spent = history.usage_totals();
    assert_eq!((spent.requests, spent.input_tokens, spent.cost_micros), (5, 6, Some(5)));
}

fn exchange() -> impl Strategy<Value = Vec<ChatMessage>> {
    prop_oneof![
        Just(vec![ChatMessage::user("a prompt")]),
        (1..4_usize).prop_map(|calls| vec![reply("", calls), results(calls)]),
        Just(vec![reply("So.", 0)]),
        Just(vec![ChatMessage::Context("By the way".to_owned())]),
    ]
}

proptest! {
    #[test]
    fn every_provider_accepts_the_remaining_messages(
        exchanges in vec(exchange(), 0..12),
        rooms in vec(0..400_usize, 1..4),
    ) {
        let mut history = history(exchanges.concat());
        for room in rooms {
            let before = history.messages().to_vec();
            let is_shorter = history.drop_oldest_messages(room);
            check_valid(&history);
            assert_eq!(before.len() > history.messages().len() || before.first() != history.messages().first(), is_shorter);
            let prompt = before.iter().rfind(|it| matches!(***it, ChatMessage::User(_)));
            assert!(prompt.is_none_or(|prompt| history.messages().iter().any(|it| Arc::ptr_eq(it, prompt))));
        }
    }
}

#[tokio::test]
async fn a_refused_prompt_is_removed_from_the_store() {
    let store = MemorySessionStore::new();
    let (recording, open) = held_recording(&store);
    open.send(()).unwrap();
    let handle = SessionHandle::new(Session::new("/p"), std::time::SystemTime::now);
    recording.record_prompt(&"t1".into(), &["hi".into()], &handle);
    let mut history = history([ChatMessage::user("first"), reply("answer", 0)]);
    history.set_session_recording(Some(recording.clone()));
    history.queue_messages_to_store(&handle);
    let refused = history.push_message_within_limits(ChatMessage::user("refused"));
    history.queue_messages_to_store(&handle);
    recording.commit().await;
    let stored = || records(&store, "s", RecordStream::Model);
    assert_eq!(stored(), ["model_message"; 3]);
    history.truncate_from(&refused);
    // The next prompt has as many messages as the refused one.
    drop(history.push_message_within_limits(ChatMessage::user("next")));
    history.queue_messages_to_store(&handle);
    recording.commit().await;
    assert_eq!(stored(), ["model_reset", "model_message", "model_message", "model_message"]);
}
