//! Tests of the guarantee G4 with random ends of tasks. A call ends once, in time and with a
//! reason, even if its task is aborted or its handle is dropped.

use std::cell::Cell;

use acp_lifecycle::execute_call;
use acp_types::schema::v1::ToolCallStatus;
use pretty_assertions::assert_eq;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use proptest::{collection::vec, option::of};
use tokio::task::JoinHandle;

use crate::performing::{Act, Client, Stage, pass};

/// The behaviour of a call, and the event that ends its task.
#[derive(Debug, Clone, Copy)]
struct Fate {
    act: Act,
    /// Whether the call's handle is dropped instead of being passed to `execute_call`.
    is_dropped: bool,
    /// Delay in seconds after which the call's task is aborted.
    aborted_after: Option<u64>,
}

fn fate() -> impl Strategy<Value = Fate> {
    let act = select(vec![
        Act::Succeed,
        Act::Fail,
        Act::Panic,
        Act::PanicInPreview,
        Act::Hang,
        Act::StopOnCancel,
    ]);
    let dropped = prop_oneof![4 => Just(false), 1 => Just(true)];
    (act, dropped, of(0..3_u64)).prop_map(|(act, is_dropped, aborted_after)| Fate {
        act,
        is_dropped,
        aborted_after,
    })
}

fn client() -> impl Strategy<Value = Client> {
    select(vec![
        Client::Answers("allow"),
        Client::Answers("reject"),
        Client::SaysCancelled,
        Client::Errs,
        Client::IsSilent,
    ])
}

async fn live(fates: &[Fate], client: Client, cancelled_after: Option<u64>) {
    let stage = Stage::new(client);
    let mut tasks: Vec<(Option<u64>, JoinHandle<_>)> = Vec::new();
    for (number, fate) in fates.iter().enumerate() {
        let open = stage.announce_as(&format!("c{number}")).expect("the id is new");
        if !fate.is_dropped {
            let task = tokio::spawn(execute_call(open, stage.tool(fate.act)));
            tasks.push((fate.aborted_after, task));
        }
    }
    for second in 0..3 {
        if cancelled_after == Some(second) {
            stage.cancel.cancel();
        }
        let due = tasks.iter().filter(|(after, _)| *after == Some(second));
        due.for_each(|(_, task)| task.abort());
        pass(1).await;
    }
    // A call without a task ends before the end of its turn.
    for (number, fate) in fates.iter().enumerate() {
        let client_state = stage.client_state.lock().unwrap();
        let status = client_state.observed_call(&format!("c{number}")).map(|call| call.status);
        if fate.is_dropped || fate.aborted_after.is_some() {
            let is_over = [ToolCallStatus::Completed, ToolCallStatus::Failed].map(Some);
            assert!(is_over.contains(&status), "{fate:?}: {status:?}");
        }
    }
    // The longest grace period expires soon after the end of the turn, so all tasks finish.
    stage.status().await;
    assert!(tasks.iter().all(|(_, task)| task.is_finished()), "a task outlives its turn");
    let client_state = stage.client_state.lock().unwrap();
    for number in 0..fates.len() {
        let call =
            client_state.observed_call(&format!("c{number}")).expect("every call is announced");
        let is_done = call.status == ToolCallStatus::Completed;
        let meta = call.meta.as_ref().map(|meta| meta["callboard"].clone()).unwrap_or_default();
        assert_eq!(meta["reason"].is_null(), is_done, "{call:?}");
        assert!(is_done || call.raw_output.is_some(), "{call:?}");
    }
}

/// Uses a fifth of `PROPTEST_CASES`, but at least 400 cases, because each case starts a runtime.
/// The macro `proptest!` would restore the full number of cases.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: (ProptestConfig::default().cases / 5).max(400),
        source_file: Some(file!()),
        ..ProptestConfig::default()
    }
}

#[test]
fn g4_every_call_ends_with_a_reason() {
    let (config, lives) = (config(), Cell::new(0));
    let cases = config.cases;
    let fates = (vec(fate(), 1..5), client(), of(0..3_u64));
    let outcome = TestRunner::new(config).run(&fates, |(fates, client, cancelled_after)| {
        lives.set(lives.get() + 1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(live(&fates, client, cancelled_after));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // proptest runs the recorded failures in addition to the random cases.
    assert!((cases..cases + 100).contains(&lives.get()), "{} lives for {cases}", lives.get());
}
