//! Laws of documents, patches, projections and client states, checked for random lifecycles of
//! calls.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail by a panic")]

mod lifecycle;
mod schema;

use acp_types::client_state;
use acp_types::schema::{MaybeUndefined, v1};
use acp_types::wire::{self, v1::TerminalDisplay};
use acp_types::{
    PermissionOption, PermissionOptionKind, TerminalOutput, TerminalPatch, TerminalReport,
    ToolCallPatch, ToolCallReport,
};
use pretty_assertions::assert_eq;
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::{collection::vec, prop_assert, prop_assert_eq};

use lifecycle::{CallLifecycle, Step};

const KEY: &str = "callboard";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn composing_then_applying_equals_applying_in_turn(
        start in lifecycle::patch(), a in lifecycle::patch(), b in lifecycle::patch(), c in lifecycle::patch(),
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
    fn terminal_patches_compose(patches in vec(lifecycle::terminal_patch(), 0..6), cut in any::<proptest::sample::Index>()) {
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
    fn an_empty_patch_changes_nothing(patch in lifecycle::patch()) {
        prop_assert_eq!(ToolCallPatch::new().then(patch.clone()), patch.clone());
        prop_assert_eq!(patch.clone().then(ToolCallPatch::new()), patch);
    }

    #[test]
    fn a_v1_client_that_shows_text_holds_the_lossy_document(life in lifecycle::lifecycle()) {
        assert_v1_client_holds(&life, TerminalDisplay::Text);
    }

    #[test]
    fn a_v1_client_that_shows_terminals_holds_the_lossy_document(life in lifecycle::lifecycle()) {
        assert_v1_client_holds(&life, TerminalDisplay::MetaEvents);
    }

    #[test]
    fn a_v2_client_holds_the_document(life in lifecycle::lifecycle()) {
        assert_v2_client_holds(&life);
    }

    #[test]
    fn lossy_v1_is_idempotent(life in lifecycle::lifecycle()) {
        let once = wire::v1::reduce_to_v1(life.documents().0);
        prop_assert_eq!(wire::v1::reduce_to_v1(once.clone()), once);
    }

    #[test]
    fn a_repeated_patch_sends_no_message(life in lifecycle::lifecycle()) {
        let mut sent = wire::v1::V1Projection::new(TerminalDisplay::MetaEvents);
        let mut all = ToolCallPatch::new();
        for step in &life.steps {
            if let Step::Call(patch) = step && !patch.status.is_some_and(acp_types::Status::is_final) {
                all = all.then(patch.clone());
                // Leave out appended content, because the second application of the patch would
                // append it again.
                if let acp_types::ContentPatch::Append(_) = all.content {
                    all.content = acp_types::ContentPatch::Keep;
                }
            }
        }
        drop(sent.updates_for_call_patch(&"c".into(), &all));
        prop_assert!(sent.updates_for_call_patch(&"c".into(), &all).is_empty());
    }
}

fn assert_v1_client_holds(life: &CallLifecycle, surface: TerminalDisplay) {
    let mut sent = wire::v1::V1Projection::new(surface);
    let mut client_state = client_state::v1::V1ClientState::new();
    let mut report = ToolCallReport::new("c".into());
    let mut terminal = TerminalReport::new("t".into());
    let mut bytes = SentBytes::default();
    for step in life.flushed() {
        let updates = match step {
            Step::Call(patch) => {
                patch.clone().apply(&mut report);
                sent.updates_for_call_patch(&"c".into(), &patch)
            }
            Step::Terminal(patch) => {
                patch.clone().apply(&mut terminal);
                sent.updates_for_terminal_patch(&"t".into(), &patch)
            }
            Step::Ask => {
                let request =
                    sent.permission_request_for_call("s".into(), &"c".into(), options()).unwrap();
                schema::check_v1_permission(&request);
                client_state.apply_permission_request(&request);
                bytes.sent += json_bytes(&request);
                Vec::new()
            }
        };
        for update in updates {
            schema::check_v1(&update);
            client_state.apply_session_update(&update);
            bytes.count(&update);
        }
        let document = wire::v1::tool_call_from_report(&report, surface, KEY, |_| Some(&terminal));
        bytes.largest = bytes.largest.max(json_bytes(&document));
    }
    client_state.check_calls_ended();
    assert_eq!(client_state.violations(), []);

    let expected = wire::v1::tool_call_from_report(&report, surface, KEY, |_| Some(&terminal));
    assert_eq!(client_state.observed_call("c"), Some(&expected));
    assert_eq!(life.documents(), (report, terminal.clone()));
    if surface == TerminalDisplay::MetaEvents && life.shows_terminal_first() {
        let shown = client_state.observed_terminal("t").expect("the terminal was opened");
        assert_shows_text(&terminal.output, &shown.output);
        assert_eq!(shown.exit.is_some(), terminal.exit.is_some());
    }
    bytes.check();
}

fn options() -> Vec<PermissionOption> {
    vec![PermissionOption::new("allow", "Allow", PermissionOptionKind::AllowOnce)]
}

/// Numbers of bytes that were sent on a v1 connection for one call.
#[derive(Default)]
struct SentBytes {
    sent: usize,
    /// Number of bytes of appended terminal output.
    appended: usize,
    /// Maximum size of the document in bytes.
    largest: usize,
}

impl SentBytes {
    fn count(&mut self, update: &wire::v1::WireUpdate) {
        let bytes = json_bytes(update);
        self.sent += bytes;
        let v1::SessionUpdate::ToolCallUpdate(update) = &**update else {
            return;
        };
        if update.meta.as_ref().is_some_and(|meta| meta.contains_key("terminal_output")) {
            self.appended += bytes;
        }
        let ends = [v1::ToolCallStatus::Completed, v1::ToolCallStatus::Failed];
        if !update.fields.status.is_some_and(|status| ends.contains(&status)) {
            assert!(bytes <= 60 * 1024, "a streamed update of {bytes} bytes");
        }
    }

    fn check(&self) {
        let Self { sent, appended, largest } = self;
        let bound = 3 * largest + 64 * 1024 + appended;
        assert!(*sent <= bound, "{sent} bytes sent of a document of {largest}");
    }
}

fn json_bytes(message: &impl serde::Serialize) -> usize {
    serde_json::to_vec(message).expect("a message is JSON").len()
}

fn assert_v2_client_holds(life: &CallLifecycle) {
    let mut sent = wire::v2::V2Projection::new();
    let mut client_state = client_state::v2::V2ClientState::new();
    for step in life.flushed() {
        let updates = match step {
            Step::Call(patch) => sent.updates_for_call_patch(&"c".into(), &patch),
            Step::Terminal(patch) => sent.updates_for_terminal_patch(&"t".into(), &patch),
            Step::Ask => {
                let request =
                    sent.permission_request_for_call("s".into(), &"c".into(), options()).unwrap();
                schema::check_v2_permission(&request);
                client_state.apply_permission_request(&request);
                Vec::new()
            }
        };
        for update in updates {
            schema::check_v2(&update);
            client_state.apply_session_update(&update);
        }
    }
    client_state.check_calls_ended(|_| false);
    assert_eq!(client_state.violations(), []);

    let (report, terminal) = life.documents();
    let mut expected = wire::v2::tool_call_from_report(&report, KEY);
    let mut held = client_state.observed_call("c").expect("the call was announced").clone();
    // Fields that were never sent have their default values.
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
    if let Some((shown, output)) = client_state.observed_terminal("t") {
        assert_shows(&terminal.output, output);
        assert_eq!(shown.exit_status.value().is_some(), terminal.exit.is_some());
    }
}

/// Asserts that the shown bytes are the whole output. If bytes were omitted, asserts that the shown
/// bytes begin with the head and end with the tail.
fn assert_shows(output: &TerminalOutput, shown: &[u8]) {
    if output.omitted_bytes() == 0 {
        assert_eq!(shown, [output.head(), output.tail()].concat());
    } else {
        assert!(shown.starts_with(output.head()), "the head is not shown");
        assert!(shown.ends_with(output.tail()), "the tail is not shown");
    }
}

/// Asserts the same as [`assert_shows`], for decoded text. A character that is split at the end of
/// the head or at the start of the tail is not compared.
fn assert_shows_text(output: &TerminalOutput, shown: &str) {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (head, tail) = (lossy(output.head()), lossy(output.tail()));
    if output.omitted_bytes() == 0 {
        assert_eq!(shown, lossy(&[output.head(), output.tail()].concat()));
    } else {
        let cut = char::REPLACEMENT_CHARACTER;
        assert!(shown.starts_with(head.trim_end_matches(cut)), "the head is not shown");
        assert!(shown.ends_with(tail.trim_start_matches(cut)), "the tail is not shown");
    }
}
