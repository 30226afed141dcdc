//! A turn that is cancelled at each point at which it can be: before each time it is polled, and
//! between any two polls of anything that runs beside it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

use acp_lifecycle::{
    Answer, Effect, Effects, Grant, Item, Pinned, Session, Sink, Titles, Unreachable, drive,
};
use acp_tools::{
    Description, Draft, Invocation, Output, Spec, Surface, Tool, ToolError, Workspace,
};
use acp_types::ToolKind;
use acp_types::observe::v1::Observer;
use acp_types::schema::v1::ToolCallStatus;
use acp_types::wire::v1::{self, Sent};
use futures::stream;
use pretty_assertions::assert_eq;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::yield_now;

use super::*;
use crate::model::Model;

const TITLES: &str = "look = Look\nlook-pending = Look\nalter = Alter\nalter-pending = Alter\n";

/// How often a client, a tool and a model let others go first before they go on.
const STEPS: usize = 3;

/// Works for a few steps. `look` runs with its like, `alter` runs alone and is asked about.
#[derive(Debug)]
struct Worker {
    name: &'static str,
    reach: Reach,
    started: Arc<AtomicUsize>,
}

#[derive(Deserialize, JsonSchema)]
struct Args {
    path: std::path::PathBuf,
}

impl Tool for Worker {
    type Args = Args;
    type Plan = ();

    fn spec(&self) -> Spec {
        Spec {
            name: self.name,
            aliases: &[],
            description: "Works for a few steps.",
            kind: ToolKind::Other,
            reach: self.reach,
            title: self.name,
            surface: Surface::Content,
        }
    }

    fn describe(&self, _: &Args, _: &Context) -> Description {
        Description::new(self.name)
    }

    async fn preview(&self, args: Args, _: &Context) -> Result<Draft<()>, ToolError> {
        yield_now().await;
        let mut draft = Draft::new(());
        if self.reach == Reach::Changes {
            draft.effects = Effects::from(Effect::Write(args.path));
        }
        Ok(draft)
    }

    async fn run(
        &self,
        pinned: Pinned<()>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        pinned.release(grant)?;
        self.started.fetch_add(1, SeqCst);
        for step in 0..STEPS {
            invocation.call.append(Content::text(format!("step {step}")));
            yield_now().await;
        }
        Ok(Output { text: "done".to_owned(), ..Output::default() })
    }
}

/// Says something, calls tools side by side, then those that are asked about, then is done.
#[derive(Debug)]
struct Caller;

impl Model for Caller {
    fn name(&self) -> &'static str {
        "caller"
    }

    fn reply(&self, request: Request) -> Reply {
        let mut events = vec![Event::Thought("Well".to_owned()), Event::Text("So".to_owned())];
        let stop = match request.index {
            0 => {
                events.extend([call("a", "look"), call("b", "look")].concat());
                Stop::ToolCalls
            }
            1 => {
                let calls = [call("c", "alter"), call("d", "look"), call("e", "alter")];
                events.extend(calls.concat());
                Stop::ToolCalls
            }
            _ => Stop::EndTurn,
        };
        events.push(Event::Stop(stop));
        let slowly = |event| async {
            yield_now().await;
            event
        };
        stream::iter(events).then(slowly).boxed()
    }
}

/// A call whose arguments come in pieces.
fn call(id: &str, name: &str) -> Vec<Event> {
    let id = id.to_owned();
    let arguments = format!(r#"{{"path": "/{id}"}}"#);
    let mut events = vec![Event::CallStart { id: id.clone(), name: name.to_owned() }];
    for piece in arguments.as_bytes().chunks(5) {
        let fragment = str::from_utf8(piece).unwrap().to_owned();
        events.push(Event::CallArguments { id: id.clone(), fragment });
    }
    events.push(Event::CallEnd { id });
    events
}

/// What the client saw.
#[derive(Default)]
struct Seen {
    observer: Observer,
    is_answered: bool,
    after_the_answer: usize,
}

/// Allows what it is asked, after a while.
struct Client {
    handle: SessionHandle,
    sent: Sent,
    seen: Arc<Mutex<Seen>>,
}

impl Sink for Client {
    fn deliver(&mut self, item: Item) -> Result<(), Unreachable> {
        let mut seen = self.seen.lock().unwrap();
        seen.after_the_answer += usize::from(seen.is_answered);
        match item {
            Item::ToolCall(id, patch) => {
                for update in self.sent.tool_call(&id, &patch) {
                    seen.observer.update(&update);
                }
            }
            Item::Permission(number) => {
                let request = self.handle.request(number).unwrap();
                let request = self.sent.permission("s".into(), &request.call, request.options);
                seen.observer.permission(&request.unwrap());
                let handle = self.handle.clone();
                drop(tokio::spawn(async move {
                    for _ in 0..STEPS {
                        yield_now().await;
                    }
                    let option_id = "allow".to_owned();
                    handle.answer(number, Answer::Selected { option_id, reason: None });
                }));
            }
            Item::Answer(_) => {
                seen.observer.turn_answered();
                seen.is_answered = true;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Between what the turn is cancelled.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// Before the turn is polled for this time.
    Poll(usize),
    /// When everything that can run has had this many turns.
    Tick(usize),
}

/// Runs a turn that is cancelled at a point; returns whether it came that far.
async fn is_cancelled_well(point: Point) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
    let context = Context { workspace: Arc::new(workspace), env: Arc::default() };
    let started = Arc::<AtomicUsize>::default();
    let mut registry = Registry::new(Titles::parse("en", TITLES).unwrap());
    for (name, reach) in [("look", Reach::Reads), ("alter", Reach::Changes)] {
        registry.add(Worker { name, reach, started: started.clone() });
    }
    let handle = SessionHandle::new(Session::new(folder.path()), || SystemTime::UNIX_EPOCH);
    let seen = Arc::<Mutex<Seen>>::default();
    let client =
        Client { handle: handle.clone(), sent: Sent::new(v1::Surface::Text), seen: seen.clone() };
    let stop = CancellationToken::new();
    let driver = tokio::spawn(drive(handle.clone(), client, stop.clone()));

    let cancel = CancellationToken::new();
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
            let Point::Tick(ticks) = point else { return };
            for _ in 0..ticks {
                yield_now().await;
            }
            fire();
        }
    });
    let turn = Turn {
        name: "t1",
        chosen: &|| Chosen::of(Arc::new(Caller)),
        registry: &registry,
        context: &context,
        handle: &handle,
        cancel: &cancel,
    };
    let mut history = History::default();
    let mut running = pin!(run(turn, &mut history, "go".to_owned()));
    let mut polls = 0;
    let ending = poll_fn(|context| {
        if matches!(point, Point::Poll(at) if at == polls) {
            fire();
        }
        polls += 1;
        running.as_mut().poll(context)
    });
    let ending = ending.await;
    ticking.abort();
    let started_before = *started_before.lock().unwrap();

    // As the session does it.
    handle.end_turn("t1", Reason::Turn);
    cancel.cancel();
    // Whatever is left over gets its turn, and its time.
    tokio::time::advance(Duration::from_secs(10)).await;
    for _ in 0..100 {
        yield_now().await;
    }
    stop.cancel();
    driver.await.unwrap();

    let seen = seen.lock().unwrap();
    assert_eq!(seen.observer.violations(), [], "{point:?}");
    assert!(seen.is_answered && seen.after_the_answer == 0, "{point:?}");
    let is_final = |status| matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
    assert!(seen.observer.tool_calls().all(|call| is_final(call.status)), "{point:?}");
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

/// Cancels at point after point until the turn has ended before; returns how many there are.
async fn points(point: fn(usize) -> Point) -> usize {
    for at in 0.. {
        if !is_cancelled_well(point(at)).await {
            return at;
        }
    }
    unreachable!("a turn ends")
}

#[tokio::test(start_paused = true)]
async fn cancelled_before_any_of_its_polls_a_turn_is_answered_so_and_starts_nothing_more() {
    let polls = points(Point::Poll).await;
    assert!(polls > 30, "{polls} polls are a turn that does not do much");
}

#[tokio::test(start_paused = true)]
async fn cancelled_between_any_polls_of_its_calls_a_turn_is_answered_so_and_starts_nothing_more() {
    let ticks = points(Point::Tick).await;
    assert!(ticks > 50, "{ticks} ticks are a turn that does not do much");
}
