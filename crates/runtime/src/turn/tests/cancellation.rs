//! Tests of turns that are cancelled at every possible point: before each poll of the turn, and
//! between two polls of work that runs at the same time.

use std::future::poll_fn;

use super::*;
use acp_types::schema::v1::ToolCallStatus;
use pretty_assertions::assert_eq;

/// A model that calls tools. Its replies are, in this order: an error (only if `fails_first` is
/// true), text with parallel calls, calls that need permission, and a reply without calls.
#[derive(Debug)]
struct ToolCallingModel {
    fails_first: bool,
}

impl Model for ToolCallingModel {
    fn name(&self) -> &'static str {
        "caller"
    }

    fn reply(&self, request: ModelRequest) -> ReplyStream {
        let mut events =
            vec![ModelEvent::Thought("Well".to_owned()), ModelEvent::Text("So".to_owned())];
        let last = match request.index + usize::from(!self.fails_first) {
            0 => ModelEvent::Error(error(ModelErrorKind::Transient)),
            1 => {
                events.extend([call("a", "look"), call("b", "look")].concat());
                ModelEvent::Stop(ModelStopReason::ToolCalls)
            }
            2 => {
                let calls = [call("c", "alter"), call("d", "look"), call("e", "alter")];
                events.extend(calls.concat());
                ModelEvent::Stop(ModelStopReason::ToolCalls)
            }
            _ => ModelEvent::Stop(ModelStopReason::EndTurn),
        };
        events.push(last);
        let slowly = |event| async {
            yield_now().await;
            event
        };
        stream::iter(events).then(slowly).boxed()
    }
}

/// The point at which a turn is cancelled.
#[derive(Clone, Copy, Debug)]
enum CancelPoint {
    /// Before the poll of the turn with this number.
    Poll(usize),
    /// After another task, which runs at the same time, has yielded this number of times.
    Tick(usize),
}

/// Runs a turn that is cancelled at `point`, and checks the result. Returns whether the turn
/// reached the point.
async fn is_cancelled_well(point: CancelPoint) -> bool {
    let stage = TurnFixture::new();
    let (cancel, started) = (stage.cancel.clone(), stage.started.clone());
    let started_before = Arc::new(Mutex::new(None));
    let fire = {
        let (cancel, started, before) = (cancel.clone(), started.clone(), started_before.clone());
        move || {
            before.lock().unwrap().get_or_insert_with(|| started.load(SeqCst));
            cancel.cancel();
        }
    };
    let ticking = tokio::spawn({
        let fire = fire.clone();
        async move {
            let CancelPoint::Tick(ticks) = point else { return };
            for _ in 0..ticks {
                yield_now().await;
            }
            fire();
        }
    });
    // With a `Tick`, the model must not fail, because the retry would wait for the clock. The clock
    // is paused, and does not advance while the other task is ready.
    let caller = Arc::new(ToolCallingModel { fails_first: matches!(point, CancelPoint::Poll(_)) });
    let mut history = History::default();
    let blocks = vec![ContentBlock::from("go")];
    let mut running = Box::pin(stage.run(&caller, &mut history, blocks));
    let mut polls = 0;
    let ending = poll_fn(|context| {
        if matches!(point, CancelPoint::Poll(at) if at == polls) {
            fire();
        }
        polls += 1;
        running.as_mut().poll(context)
    });
    let ending = ending.await;
    drop(running);
    ticking.abort();
    let started_before = *started_before.lock().unwrap();

    let seen = stage.end().await;
    check_valid(&history);
    assert_eq!(seen.client_state.violations(), [], "{point:?}");
    assert!(seen.turn_answered && seen.after_the_answer == 0, "{point:?}");
    let is_final = |status| matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
    assert!(seen.client_state.observed_calls().all(|call| is_final(call.status)), "{point:?}");
    match started_before {
        Some(before) => {
            assert_eq!(ending, Ok(StopReason::Cancelled), "{point:?}");
            assert_eq!(started.load(SeqCst), before, "a tool began after it, {point:?}");
        }
        None => {
            assert_eq!(ending, Ok(StopReason::EndTurn), "{point:?}");
            assert_eq!(started.load(SeqCst), 5);
        }
    }
    started_before.is_some()
}

/// Cancels a turn at each point, until a turn ends before its point. Returns the number of points.
async fn points(point: fn(usize) -> CancelPoint) -> usize {
    for at in 0.. {
        if !is_cancelled_well(point(at)).await {
            return at;
        }
    }
    unreachable!("a turn ends")
}

#[tokio::test(start_paused = true)]
async fn a_turn_cancelled_before_any_poll_is_answered_and_starts_no_call() {
    let polls = points(CancelPoint::Poll).await;
    assert!(polls > 30, "{polls} polls are a turn that does not do much");
}

#[tokio::test(start_paused = true)]
async fn a_turn_cancelled_between_any_polls_is_answered_and_starts_no_call() {
    let ticks = points(CancelPoint::Tick).await;
    assert!(ticks > 50, "{ticks} ticks are a turn that does not do much");
}
