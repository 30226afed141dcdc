//! Tests of random replies. Independent calls run in parallel, and calls that use the same file run
//! one after the other.

use proptest::prelude::{Strategy, prop_oneof};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use proptest::{collection::vec, sample::select};
use serde_json::json;

use super::*;

/// A call of a random reply: its tool, the name of its file, and its number of steps.
type RandomCall = (&'static str, &'static str, usize);

fn random_call() -> impl Strategy<Value = RandomCall> {
    let tool = prop_oneof![3 => select(vec!["look"]), 4 => select(vec!["alter"]), 1 => select(vec!["order"])];
    // Names of four files and a folder. The empty name may stand for any file.
    let names =
        vec!["a", "./a", "linked-a", "b", "sub/c", "sub/../sub/c", "linked/c", "sub", "d", ""];
    (tool, select(names), 0..6_usize)
}

/// Returns the file to which a name refers. Returns `None` if the name may stand for any file.
fn file(name: &str) -> Option<&str> {
    Some(match name {
        "a" | "./a" | "linked-a" => "a",
        "sub/c" | "sub/../sub/c" | "linked/c" => "sub/c",
        "" => return None,
        other => other,
    })
}

/// Returns whether the later of two calls must wait for the earlier call.
fn is_ordered(one: RandomCall, other: RandomCall) -> bool {
    let share = match (file(one.1), file(other.1)) {
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
        _ => true,
    };
    match (one.0, other.0) {
        ("look", "look") | ("order", "order") => false,
        ("order", _) | (_, "order") => true,
        _ => share,
    }
}

/// Runs the calls as one reply. Returns the starts and ends of the calls, in the order in which
/// they happened.
async fn run_reply(reply: &[RandomCall]) -> Vec<Step> {
    let stage = TurnFixture::new();
    let root = stage.folder.path();
    std::fs::create_dir(root.join("sub")).unwrap();
    std::fs::write(root.join("a"), "").unwrap();
    std::os::unix::fs::symlink("a", root.join("linked-a")).unwrap();
    std::os::unix::fs::symlink("sub", root.join("linked")).unwrap();
    let model = Arc::new(calls(reply));
    let mut history = History::default();
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    assert_eq!(ending, Ok(StopReason::EndTurn));
    check_valid(&history);
    let results = history.messages().iter().find_map(|message| match &**message {
        ChatMessage::ToolResults(results) => Some(results),
        _ => None,
    });
    let said: Vec<_> = results.unwrap().iter().map(|result| result.text.clone()).collect();
    let expected: Vec<_> = (0..reply.len()).map(|place| place.to_string()).collect();
    assert_eq!(said, expected, "results come in the order of their calls");
    let log = stage.log.lock().unwrap().clone();
    let seen = stage.end().await;
    assert_eq!(seen.client_state.violations(), []);
    log
}

fn calls(reply: &[RandomCall]) -> reply_endings::FakeModel {
    let made = reply.iter().enumerate().flat_map(|(place, (tool, path, steps))| {
        let args = json!({"path": path, "steps": steps, "says": place.to_string()});
        call_with(&place.to_string(), tool, &args.to_string())
    });
    let first = made.chain([ModelEvent::Stop(ModelStopReason::ToolCalls)]).collect();
    reply_endings::FakeModel::new(vec![
        first,
        vec![ModelEvent::Text("Done.".into()), ModelEvent::Stop(ModelStopReason::EndTurn)],
    ])
}

/// Returns the maximum number of calls that ran at the same time. Panics if a call began before the
/// end of an earlier call for which it must wait.
fn check_order(reply: &[RandomCall], log: &[Step]) -> usize {
    let at = |step: &Step| log.iter().position(|other| other == step).unwrap();
    for later in 0..reply.len() {
        for earlier in (0..later).filter(|earlier| is_ordered(reply[*earlier], reply[later])) {
            let (end, begin) = (Step::End(earlier.to_string()), Step::Begin(later.to_string()));
            assert!(at(&end) < at(&begin), "{later} overtook {earlier} in {reply:?}: {log:?}");
        }
    }
    let mut running = 0_usize;
    let together = log.iter().map(|step| {
        match step {
            Step::Begin(_) => running += 1,
            Step::End(_) => running -= 1,
        }
        running
    });
    together.max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn calls_of_random_replies_keep_the_order_of_each_file() {
    let mut runner = TestRunner::default();
    let mut together = 0;
    for _ in 0..100 {
        let reply = vec(random_call(), 2..10).new_tree(&mut runner).unwrap().current();
        together = together.max(check_order(&reply, &run_reply(&reply).await));
    }
    assert!(together > 2, "at most {together} calls ran at once");
}

#[tokio::test(start_paused = true)]
async fn calls_that_share_no_file_run_in_parallel_up_to_the_limit() {
    let count = limits::MAX_PARALLEL_CALLS + 4;
    for (tool, names, together) in [
        ("look", &["a"][..], limits::MAX_PARALLEL_CALLS),
        ("look", &[""], limits::MAX_PARALLEL_CALLS),
        ("order", &["a"], limits::MAX_PARALLEL_CALLS),
        ("alter", &["a", "b", "sub/c", "d"], 4),
        ("alter", &["a", "linked-a"], 1),
        ("alter", &[""], 1),
    ] {
        let reply: Vec<_> = names.iter().cycle().take(count).map(|name| (tool, *name, 5)).collect();
        assert_eq!(check_order(&reply, &run_reply(&reply).await), together, "{tool} {names:?}");
    }
}
