//! Tests of a call whose preview is outdated when the call runs. The preview is repeated.
//! Permission is requested again unless the effect is exactly the permitted effect.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use acp_lifecycle::{
    CallExecutor, CallFailure, CallHandle, CallOutcome, CallPreview, CallSuccess,
    ClientUnreachable, Effect, Effects, Grant, OutboxItem, OutboxSink, PermissionAnswer,
    PermissionSubject, PinnedPlan, Policy, Session, SessionHandle, Verdict, drive_session,
    execute_call,
};
use acp_types::client_state::v1::V1ClientState;
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use acp_types::{CallEndReason, Status, ToolCallPatch, ToolKind};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Maximum number of previews of a call before the call runs.
const MAX_PREVIEWS: u32 = 3;

/// The result of a preview: the bytes and the path of the file that the tool would change, or
/// `None` if there is no such file.
type Find = Option<(&'static [u8], &'static str)>;

/// A tool whose consecutive previews give the results in `finds`. The tool can run only with the
/// last result.
struct Chases {
    finds: VecDeque<Find>,
    runs: Arc<Mutex<u32>>,
    /// Whether the first run sets a policy that denies every effect.
    denies: bool,
}

impl CallExecutor for Chases {
    type Plan = ();

    async fn preview(&mut self, _: &CallHandle) -> Result<CallPreview<()>, CallFailure> {
        let gone = || CallFailure::recoverable("gone", "It is gone.");
        let (found, path) = self.finds[0].ok_or_else(gone)?;
        let subject = PermissionSubject::for_call("tool", &json!({}), "/".as_ref(), found);
        let effects = Effects::from(Effect::Write(path.into()));
        let patch = ToolCallPatch::new().with_title("Do it");
        Ok(CallPreview::new(PinnedPlan::new((), subject), effects).with_patch(patch))
    }

    async fn run(
        &mut self,
        pinned: PinnedPlan<()>,
        grant: Grant,
        call: &CallHandle,
    ) -> Result<CallSuccess, CallFailure> {
        if self.denies {
            call.session().update(|session, _| session.replace_policy(Arc::new(Denies)));
        }
        pinned.release(grant).expect("the grant is for this");
        *self.runs.lock().unwrap() += 1;
        self.finds.pop_front();
        if self.finds.is_empty() {
            return Ok(CallSuccess::new("done"));
        }
        let mut failure = CallFailure::recoverable("changed", "It changed.");
        failure.is_outdated = true;
        Err(failure)
    }
}

#[derive(Debug)]
struct Denies;

impl Policy for Denies {
    fn judge(&self, _: &Effect) -> Verdict {
        Verdict::Deny
    }
}

/// A client that gives configured answers in order and records what it receives.
struct Client {
    session: SessionHandle,
    answers: VecDeque<&'static str>,
    sent: V1Projection,
    received: Arc<Mutex<(u32, V1ClientState)>>,
}

impl OutboxSink for Client {
    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        let (asked, client_state) = &mut *self.received.lock().unwrap();
        match item {
            OutboxItem::ToolCall(id, patch) => {
                self.sent
                    .updates_for_call_patch(&id, &patch)
                    .iter()
                    .for_each(|update| client_state.apply_session_update(update));
            }
            OutboxItem::PermissionRequest(number) => {
                *asked += 1;
                let request = self.session.pending_permission_request(number).unwrap();
                let request = self.sent.permission_request_for_call(
                    "s".into(),
                    &request.call,
                    request.options,
                );
                client_state.apply_permission_request(&request.unwrap());
                let option_id = self.answers.pop_front().unwrap().to_owned();
                self.session.answer_permission(
                    number,
                    PermissionAnswer::Selected { option_id, reason: None },
                );
            }
            _ => {}
        }
        Ok(())
    }
}

struct Lived {
    ended: CallOutcome,
    asked: u32,
    runs: u32,
    may_have_acted: Option<bool>,
}

async fn live(finds: &[Find], answers: impl Into<VecDeque<&'static str>>) -> Lived {
    live_if(finds, answers, false).await
}

async fn live_if(
    finds: &[Find],
    answers: impl Into<VecDeque<&'static str>>,
    denies: bool,
) -> Lived {
    let session = SessionHandle::new(Session::new("/p"), SystemTime::now);
    let (runs, received) = (Arc::default(), Arc::<Mutex<(u32, V1ClientState)>>::default());
    let client = Client {
        session: session.clone(),
        answers: answers.into(),
        sent: V1Projection::new(TerminalDisplay::Text),
        received: received.clone(),
    };
    let stop = CancellationToken::new();
    let driver = tokio::spawn(drive_session(session.clone(), client, stop.clone()));
    let patch = ToolCallPatch::for_new_call("tool", "Tool", ToolKind::Edit);
    let open =
        session.announce_call(&"c".into(), &"t".into(), patch, &CancellationToken::new()).unwrap();
    let tool = Chases { finds: finds.iter().copied().collect(), runs: Arc::clone(&runs), denies };
    let ended = execute_call(open, tool).await;
    session.end_turn(&"t".into(), CallEndReason::Turn);
    stop.cancel();
    driver.await.unwrap();
    let (asked, client_state) = &mut *received.lock().unwrap();
    client_state.check_calls_ended();
    assert_eq!(client_state.violations(), []);
    let runs = *runs.lock().unwrap();
    let may_have_acted = session.call_report(&"c".into()).unwrap().meta.may_have_acted;
    Lived { ended, asked: *asked, runs, may_have_acted }
}

#[tokio::test(start_paused = true)]
async fn a_changed_preview_is_asked_about_again() {
    for (second, asked) in [
        ((&b"a"[..], "/p/f"), 1),
        ((b"b", "/p/f"), 2),
        // The second preview would change another file.
        ((b"a", "/p/g"), 2),
    ] {
        let lived = live(&[Some((b"a", "/p/f")), Some(second)], ["allow", "allow"]).await;
        assert_eq!((lived.ended.status, lived.ended.text.as_str()), (Status::Completed, "done"));
        assert_eq!((lived.asked, lived.runs), (asked, 2), "{second:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_preview_can_be_rejected() {
    let finds = [Some((&b"a"[..], "/p/f")), Some((b"b", "/p/f"))];
    let lived = live(&finds, ["allow", "reject"]).await;
    let ended = lived.ended;
    assert_eq!((ended.status, ended.reason), (Status::Failed, Some(CallEndReason::User)));
    assert_eq!((lived.asked, lived.runs, lived.may_have_acted), (2, 1, Some(false)));
}

#[tokio::test(start_paused = true)]
async fn a_preview_that_changes_each_time_fails_the_call() {
    let finds = [&b"a"[..], b"b", b"c", b"d"].map(|found| Some((found, "/p/f")));
    let lived = live(&finds, ["allow"; 4]).await;
    assert_eq!((lived.ended.status, lived.ended.text.as_str()), (Status::Failed, "It changed."));
    assert_eq!((lived.asked, lived.runs), (MAX_PREVIEWS, MAX_PREVIEWS));
}

#[tokio::test(start_paused = true)]
async fn a_preview_that_fails_later_is_not_asked_about_again() {
    let lived = live(&[Some((b"a", "/p/f")), None], ["allow"]).await;
    assert_eq!((lived.ended.status, lived.ended.text.as_str()), (Status::Failed, "It is gone."));
    assert_eq!((lived.asked, lived.runs), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_denied_after_its_first_run_does_not_run_again() {
    let finds = [Some((&b"a"[..], "/p/f")); 2];
    let lived = live_if(&finds, ["allow"], true).await;
    assert_eq!(lived.ended.status, Status::Failed);
    assert_eq!((lived.asked, lived.runs), (1, 1));
}
