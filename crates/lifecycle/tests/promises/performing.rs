//! Tests of the guarantees G2, G4 and G7 with the async handles and paused time.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use acp_lifecycle::{
    CallExecutor, CallFailure, CallHandle, CallOutcome, CallPreview, CallSuccess,
    ClientUnreachable, Effect, Effects, Grant, OpenCall, OutboxItem, OutboxSink, PermissionAnswer,
    PermissionId, PermissionSubject, PinnedPlan, Session, SessionHandle, drive_session,
    execute_call,
};
use acp_types::client_state::v1::V1ClientState;
use acp_types::schema::v1::ToolCallStatus;
use acp_types::wire::v1::{TerminalDisplay, V1Projection};
use acp_types::{CallEndReason, Status, ToolCallPatch, ToolKind};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The behaviour of the test tool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Act {
    Succeed,
    Fail,
    Panic,
    PanicInPreview,
    Hang,
    StopOnCancel,
}

/// The behaviour of the test client when it receives a permission request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Client {
    Answers(&'static str),
    SaysCancelled,
    Errs,
    IsSilent,
    IsGone,
    /// The client panics whenever an item is delivered.
    Panics,
    /// The client panics whenever an item is about to be delivered.
    PanicsBefore,
    /// The client panics whenever the driver waits for it, and allows everything.
    PanicsInWait,
}

pub(crate) struct Tool {
    act: Act,
    ran: Arc<Mutex<bool>>,
}

impl CallExecutor for Tool {
    type Plan = ();

    async fn preview(&mut self, _: &CallHandle) -> Result<CallPreview<()>, CallFailure> {
        assert!(self.act != Act::PanicInPreview, "a planted panic");
        let subject = PermissionSubject::for_call("tool", &json!({}), "/".as_ref(), b"");
        let patch = ToolCallPatch::new().with_title("Do it");
        let effects = Effects::from(Effect::Write("/p/f".into()));
        Ok(CallPreview::new(PinnedPlan::new((), subject), effects).with_patch(patch))
    }

    async fn run(
        &mut self,
        pinned: PinnedPlan<()>,
        grant: Grant,
        call: &CallHandle,
    ) -> Result<CallSuccess, CallFailure> {
        pinned.release(grant).expect("the grant is for this");
        *self.ran.lock().unwrap() = true;
        match self.act {
            Act::Succeed => Ok(CallSuccess::new("done")),
            Act::Panic => panic!("a planted panic"),
            Act::Hang => std::future::pending().await,
            Act::StopOnCancel => {
                call.cancel_token().cancelled().await;
                let mut failure = CallFailure::recoverable("stopped", "half done");
                failure.reason = CallEndReason::Turn;
                Err(failure)
            }
            _ => Err(CallFailure::recoverable("no_luck", "It did not work.")),
        }
    }
}

/// A sink that projects items to messages for a client, and observes these messages.
struct Wire {
    session: SessionHandle,
    client: Client,
    sent: V1Projection,
    client_state: Arc<Mutex<V1ClientState>>,
    asked: Arc<Mutex<Vec<PermissionId>>>,
}

impl OutboxSink for Wire {
    async fn wait_until_ready(&mut self) {
        assert!(self.client != Client::PanicsInWait, "a planted panic");
    }

    async fn before_deliver(&mut self, _: &OutboxItem) {
        assert!(self.client != Client::PanicsBefore, "a planted panic");
    }

    fn deliver(&mut self, item: OutboxItem) -> Result<(), ClientUnreachable> {
        if self.client == Client::IsGone {
            return Err(ClientUnreachable);
        }
        assert!(self.client != Client::Panics, "a planted panic");
        let mut client_state = self.client_state.lock().unwrap();
        match item {
            OutboxItem::ToolCall(id, patch) => {
                self.sent
                    .updates_for_call_patch(&id, &patch)
                    .iter()
                    .for_each(|update| client_state.apply_session_update(update));
            }
            OutboxItem::PermissionRequest(id) => {
                self.asked.lock().unwrap().push(id);
                let request = self.session.pending_permission_request(id).unwrap();
                let request = self.sent.permission_request_for_call(
                    "s".into(),
                    &request.call,
                    request.options,
                );
                client_state.apply_permission_request(&request.unwrap());
                let answer = match self.client {
                    Client::Answers(option) => {
                        PermissionAnswer::Selected { option_id: option.to_owned(), reason: None }
                    }
                    Client::PanicsInWait => {
                        PermissionAnswer::Selected { option_id: "allow".to_owned(), reason: None }
                    }
                    Client::SaysCancelled => PermissionAnswer::Cancelled,
                    Client::Errs => PermissionAnswer::Failed("no".to_owned()),
                    _ => return Ok(()),
                };
                self.session.answer_permission(id, answer);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A session with its client and an announced call.
pub(crate) struct Stage {
    pub(crate) session: SessionHandle,
    pub(crate) client_state: Arc<Mutex<V1ClientState>>,
    asked: Arc<Mutex<Vec<PermissionId>>>,
    ran: Arc<Mutex<bool>>,
    pub(crate) cancel: CancellationToken,
}

impl Stage {
    pub(crate) fn new(client: Client) -> Self {
        let session = SessionHandle::new(Session::new("/p"), SystemTime::now);
        let client_state = Arc::<Mutex<V1ClientState>>::default();
        let asked = Arc::<Mutex<Vec<PermissionId>>>::default();
        let wire = Wire {
            session: session.clone(),
            client,
            sent: V1Projection::new(TerminalDisplay::Text),
            client_state: client_state.clone(),
            asked: asked.clone(),
        };
        tokio::spawn(drive_session(session.clone(), wire, CancellationToken::new()));
        Self { session, client_state, asked, ran: Arc::default(), cancel: CancellationToken::new() }
    }

    pub(crate) fn announce(&self) -> OpenCall {
        self.announce_as("c").expect("the id is new")
    }

    pub(crate) fn announce_as(&self, id: &str) -> Option<OpenCall> {
        let patch = ToolCallPatch::for_new_call("tool", "Tool", ToolKind::Edit);
        self.session.announce_call(&id.to_owned().into(), &"t".into(), patch, &self.cancel)
    }

    pub(crate) fn tool(&self, act: Act) -> Tool {
        Tool { act, ran: self.ran.clone() }
    }

    async fn perform(&self, act: Act) -> CallOutcome {
        execute_call(self.announce(), self.tool(act)).await
    }

    /// Waits until the driver has sent everything, then returns the call's status at the client.
    pub(crate) async fn status(&self) -> Option<ToolCallStatus> {
        self.session.end_turn(&"t".into(), CallEndReason::Turn);
        pass(9).await;
        let mut client_state = self.client_state.lock().unwrap();
        client_state.check_calls_ended();
        assert_eq!(client_state.violations(), []);
        client_state.observed_call("c").map(|call| call.status)
    }

    /// Returns the first permission request that the client received.
    pub(crate) fn asked(&self) -> PermissionId {
        self.asked.lock().unwrap()[0]
    }

    pub(crate) fn has_run(&self) -> bool {
        *self.ran.lock().unwrap()
    }
}

/// Advances the paused time after every other task has become idle.
pub(crate) async fn pass(seconds: u64) {
    let nothing = std::future::pending::<()>();
    drop(tokio::time::timeout(Duration::from_secs(seconds), nothing).await);
}

#[tokio::test(start_paused = true)]
async fn requests_are_withdrawn_in_the_order_in_which_they_were_made() {
    let stage = Stage::new(Client::IsSilent);
    for number in 1..=32 {
        let open = stage.announce_as(&format!("c{number}")).expect("the id is new");
        tokio::spawn(execute_call(open, stage.tool(Act::Succeed)));
    }
    pass(1).await;
    let asked = stage.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 32);
    let withdrawn = Arc::<Mutex<Vec<PermissionId>>>::default();
    for id in asked.clone() {
        let (session, withdrawn) = (stage.session.clone(), withdrawn.clone());
        tokio::spawn(async move {
            session.wait_until_permission_withdrawn(id).await;
            withdrawn.lock().unwrap().push(id);
        });
    }
    pass(1).await;
    assert!(withdrawn.lock().unwrap().is_empty());
    stage.status().await;
    assert_eq!(*withdrawn.lock().unwrap(), asked);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_end_ends_once_and_has_a_reason() {
    use Client::{Answers, Errs, IsGone, SaysCancelled};
    const REJECTED: (Status, Option<CallEndReason>) = (Status::Failed, Some(CallEndReason::User));
    const UNASKED: (Status, Option<CallEndReason>) =
        (Status::Failed, Some(CallEndReason::Permission));
    let allow = Answers("allow");
    for (client, act, expected, ran, ends_turn) in [
        (allow, Act::Succeed, (Status::Completed, None), true, false),
        (Answers("allow_always"), Act::Succeed, (Status::Completed, None), true, false),
        (allow, Act::Fail, (Status::Failed, Some(CallEndReason::Error)), true, false),
        (allow, Act::Panic, (Status::Failed, Some(CallEndReason::Error)), true, false),
        (allow, Act::PanicInPreview, (Status::Failed, Some(CallEndReason::Error)), false, false),
        (Answers("reject"), Act::Succeed, REJECTED, false, false),
        (Answers("reject_always"), Act::Succeed, REJECTED, false, false),
        (Answers("nonsense"), Act::Succeed, UNASKED, false, false),
        (Errs, Act::Succeed, UNASKED, false, false),
        (IsGone, Act::Succeed, UNASKED, false, false),
        (SaysCancelled, Act::Succeed, (Status::Cancelled, Some(CallEndReason::User)), false, true),
    ] {
        let stage = Stage::new(client);
        let ended = stage.perform(act).await;
        assert_eq!(
            (ended.status, ended.reason, ended.ends_turn),
            (expected.0, expected.1, ends_turn)
        );
        assert_eq!(stage.has_run(), ran);
        let shown = match (client, expected.0) {
            (IsGone, _) => None,
            (_, Status::Completed) => Some(ToolCallStatus::Completed),
            _ => Some(ToolCallStatus::Failed),
        };
        assert_eq!(stage.status().await, shown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_remembered_answer_is_not_requested_again() {
    let stage = Stage::new(Client::Answers("allow_always"));
    assert_eq!(stage.perform(Act::Succeed).await.status, Status::Completed);
    stage
        .session
        .update(|session, _| session.replace_policy(Arc::new(acp_lifecycle::AskExceptReadsPolicy)));
    let again = stage.announce_as("d").unwrap();
    assert_eq!(execute_call(again, stage.tool(Act::Succeed)).await.status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn cancel_while_permission_is_pending_ends_the_call_before_it_ran() {
    let stage = Stage::new(Client::IsSilent);
    let task = tokio::spawn(execute_call(stage.announce(), stage.tool(Act::Succeed)));
    pass(1).await;
    stage.cancel.cancel();
    let ended = task.await.unwrap();
    assert_eq!((ended.status, ended.reason), (Status::Cancelled, Some(CallEndReason::Turn)));
    assert!(ended.ends_turn && !stage.has_run());
    // The answer arrives too late, so the tool does not run.
    let id = stage.asked.lock().unwrap()[0];
    stage.session.answer_permission(
        id,
        PermissionAnswer::Selected { option_id: "allow".to_owned(), reason: None },
    );
    assert_eq!(stage.status().await, Some(ToolCallStatus::Failed));
    assert!(!stage.has_run());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_may_end_by_itself_and_is_dropped_after_its_grace() {
    for (act, expected) in
        [(Act::StopOnCancel, "half done"), (Act::Hang, "Cancelled with its turn.")]
    {
        let stage = Stage::new(Client::Answers("allow"));
        let task = tokio::spawn(execute_call(stage.announce(), stage.tool(act)));
        pass(1).await;
        stage.cancel.cancel();
        let ended = task.await.unwrap();
        assert_eq!((ended.status, ended.reason), (Status::Cancelled, Some(CallEndReason::Turn)));
        assert!(ended.text.starts_with(expected), "{}", ended.text);
        assert_eq!(stage.status().await, Some(ToolCallStatus::Failed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_future_is_dropped_ends() {
    let stage = Stage::new(Client::Answers("allow"));
    let task = tokio::spawn(execute_call(stage.announce(), stage.tool(Act::Hang)));
    pass(1).await;
    assert!(stage.has_run());
    task.abort();
    pass(1).await;
    assert_eq!(
        stage.client_state.lock().unwrap().observed_call("c").unwrap().status,
        ToolCallStatus::Failed
    );
    assert_eq!(stage.status().await, Some(ToolCallStatus::Failed));
}

/// A value that records, when it is dropped, whether the call is still open.
struct RecordsDrop(CallHandle, Arc<Mutex<Vec<bool>>>);

impl Drop for RecordsDrop {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.is_open());
    }
}

#[tokio::test(start_paused = true)]
async fn kept_values_are_dropped_after_the_end_of_their_call() {
    for act in [Act::Succeed, Act::Panic, Act::Hang] {
        let stage = Stage::new(Client::Answers("allow"));
        let (open, dropped) = (stage.announce(), Arc::default());
        let call = open.handle().clone();
        call.keep_until_end(RecordsDrop(call.clone(), Arc::clone(&dropped)));
        let task = tokio::spawn(execute_call(open, stage.tool(act)));
        pass(1).await;
        task.abort();
        pass(1).await;
        assert_eq!(*dropped.lock().unwrap(), [false], "{act:?}");
        call.keep_until_end(RecordsDrop(call.clone(), Arc::clone(&dropped)));
        assert_eq!(*dropped.lock().unwrap(), [false, false], "nothing is kept for what has ended");
    }
    let (stage, dropped) = (Stage::new(Client::IsSilent), Arc::default());
    let open = stage.announce();
    open.handle().keep_until_end(RecordsDrop(open.handle().clone(), Arc::clone(&dropped)));
    stage.session.end_turn(&"t".into(), CallEndReason::Shutdown);
    assert_eq!(*dropped.lock().unwrap(), [false]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_awaits_an_answer_ends_with_its_turn() {
    let stage = Stage::new(Client::IsSilent);
    let task = tokio::spawn(execute_call(stage.announce(), stage.tool(Act::Succeed)));
    pass(1).await;
    stage.session.end_turn(&"t".into(), CallEndReason::Shutdown);
    let ended = tokio::time::timeout(Duration::from_secs(1), task).await;
    assert!(ended.is_ok() && !stage.has_run());
}
