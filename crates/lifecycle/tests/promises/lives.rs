//! Tests of the guarantees G1, G2, G3, G5, G6, G7 and G8 with random lifecycles of a session. A
//! lifecycle contains calls, turns, output, requests and answers. The clients read at different
//! speeds and use different versions: v1 with text, v1 with terminals, and draft v2.
//!
//! `PROPTEST_CASES` changes the number of lifecycles per test. `PROPTEST_RNG_SEED` sets the seed.

mod clients;
mod event;
mod order;
mod permits;
mod world;

use acp_types::{Content, ToolCallPatch};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, prop_assert, proptest};
use proptest::sample::select;

use event::{Event, Pace, Reply, Wish};
use world::World;

fn live(pace: Pace, events: impl IntoIterator<Item = Event>) {
    let mut world = World::new(pace);
    events.into_iter().for_each(|event| world.happen(event));
    world.end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_lifecycle_keeps_the_guarantees_for_reading_clients(
        pace in select(&[Pace::Quick, Pace::OnEvent][..]), events in vec(event::event(), 0..60),
    ) {
        live(pace, events);
    }

    #[test]
    fn every_lifecycle_keeps_the_guarantees_for_stuck_and_leaving_clients(
        pace in select(&[Pace::Stuck, Pace::Leaving][..]), events in vec(event::event(), 0..60),
    ) {
        live(pace, events);
    }

    #[test]
    fn updates_of_one_call_keep_the_minimum_interval(gaps in vec(0..40_u64, 1..80)) {
        let mut world = World::new(Pace::OnEvent);
        for event in [Event::Announce(1), Event::Start(1), Event::Take(9)] {
            world.happen(event);
        }
        let (start, mut sent) = (world.now.monotonic, 0);
        let id = world.call_id(1);
        for gap in gaps {
            let patch = ToolCallPatch::new().with_appended_content(Content::from_text("x"));
            world.session.update_call(&id, patch, world.now);
            while world.session.poll(world.now.monotonic).is_some() {
                sent += 1;
            }
            world.now.monotonic += std::time::Duration::from_millis(gap);
        }
        let most = (world.now.monotonic - start).as_millis() / 50;
        prop_assert!(sent <= most, "{sent} updates where {most} may be");
    }
}

/// A fence releases the held reports before it. If the fence is withdrawn, a held report must still
/// be sent before the later changes of its call.
#[test]
fn a_held_report_comes_before_the_changes_of_its_call() {
    let events = vec![
        Event::Stream(1),
        Event::Stream(3),
        Event::Ask(1, Wish::Write),
        Event::Adopt(3, 1),
        Event::Flush,
    ];
    live(Pace::Stuck, events);
}

#[test]
fn lifecycles_that_once_broke_a_guarantee() {
    let allow = || Event::Answer(0, Reply::Option("allow"));
    for events in [
        vec![Event::Announce(3), Event::Ask(3, Wish::Write), allow()],
        vec![
            Event::Announce(1),
            Event::Take(1),
            Event::Append(1, "a"),
            Event::Start(1),
            Event::Append(1, ""),
        ],
        // These parents would form a cycle, but a call must never be its own ancestor. A parent
        // ends after its children.
        vec![
            Event::Announce(1),
            Event::Announce(2),
            Event::Announce(3),
            Event::Adopt(1, 2),
            Event::Adopt(2, 3),
            Event::Adopt(3, 1),
            Event::Finish(1, 2),
        ],
        // A due report must not overtake an earlier message when the request behind it is removed.
        vec![
            Event::Say("a"),
            Event::Stream(0),
            Event::Take(1),
            Event::Say("a"),
            Event::Stream(2),
            Event::Ask(0, Wish::Write),
            Event::ReportWithin(2, 0),
            allow(),
            Event::Take(4),
        ],
    ] {
        live(Pace::OnEvent, events);
    }
}
