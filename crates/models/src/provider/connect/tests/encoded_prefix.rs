//! Tests that a request has the same body in both cases: with a prefix from the cache, and with all
//! messages encoded again.

use std::sync::Arc;

use proptest::prelude::*;
use rig_core::message::{
    AssistantContent, AssistantMessage, CallId, Text, ToolCall, ToolFunction, ToolName,
};

use super::{NAME, collect_events, format_response, model, request, serve_responses};
use crate::limits;
use crate::{
    ChatMessage, ContentPart, ModelToolCall, ProviderReplay, ToolResult,
    provider::{Provider, replay},
};

/// A step of a session.
#[derive(Clone, Debug)]
enum Step {
    Prompt(String),
    Image,
    Note(String),
    Reply(String, Vec<Id>, ReplayKind),
    /// Removes this number of messages from the end.
    TakeBack(usize),
}

/// Kinds of replay data of a reply.
#[derive(Clone, Copy, Debug)]
enum ReplayKind {
    Nothing,
    Ids,
    Turn,
}

/// A provider's id of a call: a new id, a repeated id, or no id.
#[derive(Clone, Copy, Debug)]
enum Id {
    New,
    Same,
    None,
}

fn text() -> impl Strategy<Value = String> {
    let long = || Just("\"long\" é\n".repeat(limits::MIN_CACHED_TEXT_BYTES / 8));
    prop_oneof![4 => "[a-z\"\\\\]{1,8}", 1 => long(), 1 => Just(" ".to_owned())]
}

fn step() -> impl Strategy<Value = Step> {
    let id = prop_oneof![6 => Just(Id::New), 1 => Just(Id::Same), 1 => Just(Id::None)];
    let kept = prop_oneof![1 => Just(ReplayKind::Nothing), 2 => Just(ReplayKind::Ids), 2 => Just(ReplayKind::Turn)];
    let reply = (text(), prop::collection::vec(id, 0..3), kept);
    prop_oneof![
        1 => text().prop_map(Step::Prompt),
        1 => Just(Step::Image),
        1 => text().prop_map(Step::Note),
        8 => reply.prop_map(|(text, ids, kept)| Step::Reply(text, ids, kept)),
        1 => (1..4_usize).prop_map(Step::TakeBack),
    ]
}

fn reply(
    origin: &Arc<str>,
    place: usize,
    text: &str,
    ids: &[Id],
    kept: ReplayKind,
) -> [ChatMessage; 2] {
    let wire: Vec<_> = (0..)
        .zip(ids)
        .map(|(nth, id)| match id {
            Id::New => CallId::from_wire(format!("id{place}x{nth}")),
            Id::Same => CallId::from_wire("same"),
            Id::None => CallId::from_wire(""),
        })
        .collect();
    let calls: Vec<_> = (0..ids.len())
        .map(|nth| ModelToolCall {
            id: format!("call_{nth}"),
            name: "read_file".into(),
            arguments: format!("{{\"path\":\"{place}\"}}"),
        })
        .collect();
    let kept = match kept {
        ReplayKind::Nothing => None,
        ReplayKind::Ids => Some(replay::StoredReply::Ids(wire)),
        ReplayKind::Turn => {
            let text_block = AssistantContent::Text(Text::new("As given."));
            let calls = calls.iter().zip(wire).map(|(call, id)| {
                let name = ToolName::new(call.name.clone()).unwrap();
                let function = ToolFunction::parse(name, &call.arguments);
                AssistantContent::ToolCall(ToolCall::new(id, function))
            });
            let content = [text_block].into_iter().chain(calls).collect();
            Some(replay::StoredReply::Turn(AssistantMessage::new(content)))
        }
    };
    let items = kept.map(|kept| serde_json::to_value(kept).unwrap());
    let replay = items.map(|items| ProviderReplay { origin: origin.clone(), items });
    let results = calls.iter().map(|call| ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        text: format!("{place} {text}"),
        parts: Vec::new(),
        is_error: place.is_multiple_of(2),
    });
    let results = ChatMessage::ToolResults(results.collect());
    [ChatMessage::Assistant { text: text.into(), thought: "Hm.".into(), calls, replay }, results]
}

/// Returns the messages of each request of a session.
fn requests(origin: &Arc<str>, steps: &[Step]) -> Vec<Vec<Arc<ChatMessage>>> {
    let mut messages = vec![Arc::new(ChatMessage::user("begin"))];
    let mut requests = vec![messages.clone()];
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Prompt(text) => messages.push(ChatMessage::user(&**text).into()),
            Step::Image => {
                let image =
                    ContentPart::Image { media_type: "image/png".into(), data: "AA==".into() };
                messages.push(ChatMessage::User(vec![image]).into());
            }
            Step::Note(text) => messages.push(ChatMessage::Context(text.clone()).into()),
            Step::Reply(text, ids, kept) => {
                let [reply, results] = reply(origin, place, text, ids, *kept);
                messages.push(reply.into());
                if ids.is_empty() {
                    messages.push(ChatMessage::user("go on").into());
                } else {
                    messages.push(results.into());
                }
            }
            Step::TakeBack(count) => {
                messages.truncate(messages.len().saturating_sub(*count).max(1));
            }
        }
        requests.push(messages.clone());
    }
    requests
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_cached_prefix_equals_a_new_encoding(
        steps in prop::collection::vec(step(), 1..10),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for provider in Provider::ALL {
            runtime.block_on(check_same_request(provider, &steps));
        }
    }
}

async fn check_same_request(provider: Provider, steps: &[Step]) {
    let refusal = format_response("400 Bad Request", "content-length: 0", "");
    let (url, asked) = serve_responses(vec![refusal; 2 * (steps.len() + 1)]).await;
    let origin = replay::replay_origin(&format!("{}/{NAME}", provider.name()), Some(&url));
    let one = model(provider, &url);
    let first = request(Vec::new());
    for messages in requests(&origin, steps) {
        let request = crate::ModelRequest { messages: messages.into(), ..first.clone() };
        collect_events(&one, request.clone()).await;
        collect_events(&model(provider, &url), request).await;
    }
    let asked = asked.await.unwrap();
    for (index, pair) in asked.chunks(2).enumerate() {
        let [kept, anew] = pair else { panic!("{} requests came", asked.len()) };
        assert_eq!(kept.body, anew.body, "{provider:?}, request {index} of {steps:?}");
        assert!(kept.body.is_object(), "{:?}", kept.head);
    }
}
