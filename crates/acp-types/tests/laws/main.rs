//! The laws of documents, patches, projections and observers, over random lives of calls.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail by a panic")]

mod life;
mod schema;

use acp_types::observe;
use acp_types::schema::{MaybeUndefined, v2};
use acp_types::wire::{self, v1::Surface};
use acp_types::{Output, TerminalPatch, TerminalReport, ToolCallPatch, ToolCallReport};
use pretty_assertions::assert_eq;
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::{collection::vec, prop_assert, prop_assert_eq};

use life::{Life, Step};

const KEY: &str = "callboard";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn composing_then_applying_equals_applying_in_turn(
        start in life::patch(), a in life::patch(), b in life::patch(), c in life::patch(),
    ) {
        let mut report = ToolCallReport::new("c".into());
        start.apply(&mut report);
        let (mut turns, mut left, mut right) = (report.clone(), report.clone(), report);
        for patch in [&a, &b, &c] {
            patch.clone().apply(&mut turns);
        }
        a.clone().then(b.clone()).then(c.clone()).apply(&mut left);
        a.then(b.then(c)).apply(&mut right);
        prop_assert_eq!(&left, &turns);
        prop_assert_eq!(&right, &turns);
    }

    #[test]
    fn terminal_patches_compose(patches in vec(life::terminal_patch(), 0..6), cut in any::<proptest::sample::Index>()) {
        let mut turns = TerminalReport::new("t".into());
        patches.iter().for_each(|patch| patch.clone().apply(&mut turns));
        let (first, rest) = patches.split_at(cut.index(patches.len() + 1));
        let mut composed = TerminalReport::new("t".into());
        for part in [first, rest] {
            let all = part.iter().cloned().fold(TerminalPatch::default(), TerminalPatch::then);
            all.apply(&mut composed);
        }
        prop_assert_eq!(composed, turns);
    }

    #[test]
    fn an_empty_patch_changes_nothing(patch in life::patch()) {
        prop_assert_eq!(ToolCallPatch::new().then(patch.clone()), patch.clone());
        prop_assert_eq!(patch.clone().then(ToolCallPatch::new()), patch);
    }

    #[test]
    fn a_v1_client_that_shows_text_holds_the_lossy_document(life in life::life()) {
        v1_holds(&life, Surface::Text);
    }

    #[test]
    fn a_v1_client_that_shows_terminals_holds_the_lossy_document(life in life::life()) {
        v1_holds(&life, Surface::Meta);
    }

    #[test]
    fn a_v2_client_holds_the_document(life in life::life()) {
        v2_holds(&life);
    }

    #[test]
    fn lossy_v1_is_idempotent(life in life::life()) {
        let once = wire::v1::lossy_v1(life.documents().0);
        prop_assert_eq!(wire::v1::lossy_v1(once.clone()), once);
    }

    #[test]
    fn what_is_told_again_says_nothing(life in life::life()) {
        let mut sent = wire::v1::Sent::new(Surface::Meta);
        let mut all = ToolCallPatch::new();
        for step in &life.steps {
            if let Step::Call(patch) = step && !patch.status.is_some_and(acp_types::Status::is_final) {
                all = all.then(patch.clone());
                // Appending twice is no repetition.
                if let acp_types::ContentPatch::Append(_) = all.content {
                    all.content = acp_types::ContentPatch::Keep;
                }
            }
        }
        drop(sent.tool_call(&"c".into(), &all));
        prop_assert!(sent.tool_call(&"c".into(), &all).is_empty());
    }
}

fn v1_holds(life: &Life, surface: Surface) {
    let mut sent = wire::v1::Sent::new(surface);
    let mut observer = observe::v1::Observer::new();
    for step in life.flushed() {
        let updates = match step {
            Step::Call(patch) => sent.tool_call(&"c".into(), &patch),
            Step::Terminal(patch) => sent.terminal(&"t".into(), &patch),
            Step::Ask => {
                let request = sent.permission("s".into(), &"c".into(), Vec::new()).unwrap();
                schema::check_v1_permission(&request);
                observer.permission(&request);
                Vec::new()
            }
        };
        for update in updates {
            schema::check_v1(&update);
            observer.update(&update);
        }
    }
    observer.turn_answered();
    assert_eq!(observer.violations(), []);

    let (report, terminal) = life.documents();
    let expected = wire::v1::tool_call(&report, surface, KEY, |_| Some(&terminal));
    assert_eq!(observer.tool_call("c"), Some(&expected));
    if surface == Surface::Meta && life.shows_terminal_first() {
        let shown = observer.terminal("t").expect("the terminal was opened");
        assert_shows(&terminal.output, shown.output.as_bytes());
        assert_eq!(shown.exit.is_some(), terminal.exit.is_some());
    }
}

fn v2_holds(life: &Life) {
    let mut sent = wire::v2::Sent::new();
    let mut observer = observe::v2::Observer::new();
    for step in life.flushed() {
        let updates = match step {
            Step::Call(patch) => sent.tool_call(&"c".into(), &patch),
            Step::Terminal(patch) => sent.terminal(&"t".into(), &patch),
            Step::Ask => {
                let options = vec![v2::PermissionOption::new(
                    "allow",
                    "Allow",
                    v2::PermissionOptionKind::AllowOnce,
                )];
                let request = sent.permission("s".into(), &"c".into(), options).unwrap();
                schema::check_v2_permission(&request);
                observer.permission(&request);
                Vec::new()
            }
        };
        for update in updates {
            schema::check_v2(&update);
            observer.update(&update);
        }
    }
    observer.turn_answered(|_| false);
    assert_eq!(observer.violations(), []);

    let (report, terminal) = life.documents();
    let mut expected = wire::v2::tool_call(&report, KEY);
    let mut held = observer.tool_call("c").expect("the call was announced").clone();
    // What was never said stands at its default.
    for call in [&mut expected, &mut held] {
        call.content = MaybeUndefined::Value(call.content.value().cloned().unwrap_or_default());
        call.locations = MaybeUndefined::Value(call.locations.value().cloned().unwrap_or_default());
        call.capabilities =
            MaybeUndefined::Value(call.capabilities.value().cloned().unwrap_or_default());
        if call.meta.value().is_none_or(|meta| meta[KEY] == serde_json::json!({})) {
            call.meta = MaybeUndefined::Undefined;
        }
    }
    assert_eq!(held, expected);
    if let Some((shown, output)) = observer.terminal("t") {
        assert_shows(&terminal.output, output);
        assert_eq!(shown.exit_status.value().is_some(), terminal.exit.is_some());
    }
}

/// What is shown is all output, or begins and ends as the output does, around marked gaps.
fn assert_shows(output: &Output, shown: &[u8]) {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.left_out() == 0 && !lossy(shown).contains("bytes left out") {
        let whole = [output.head(), output.tail()].concat();
        assert_eq!(lossy(shown), lossy(&whole));
    } else {
        assert!(lossy(shown).starts_with(&lossy(output.head())), "the head is not shown");
        assert!(lossy(shown).ends_with(&lossy(output.tail())), "the tail is not shown");
    }
}
