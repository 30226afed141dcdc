//! Tests of permissions that an approver decides instead of the client.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use acp_lifecycle::{
    AcceptEditsPolicy, CallExecutor, CallFailure, CallHandle, CallPreview, CallSuccess, Effect,
    Effects, Grant, Matcher, PermissionAnswer, PermissionSubject, PermitDecision, PinnedPlan, Rule,
    RuleScope, SessionHandle, ToolMiddleware, Verdict, execute_call,
};
use acp_types::{
    CallEndReason, Content, ContentBlock, Status, ToolCallPatch, ToolCallReport, ToolKind,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::stage::{Stage, pass};

async fn tool(_: &str, _: Value) -> Result<String, String> {
    Ok("done".to_owned())
}

fn tools(stage: &Stage) -> ToolMiddleware {
    ToolMiddleware::new(stage.session.clone())
        .with_effects(|_, _| Effect::Connect("example.org".to_owned()).into())
        .with_kinds(|_| Some(ToolKind::Fetch))
}

#[tokio::test(start_paused = true)]
async fn an_approver_sees_the_whole_call_and_the_client_is_not_asked() {
    for (answer, end) in [
        (PermissionAnswer::allow_once(), Ok("done".to_owned())),
        (
            PermissionAnswer::reject_once(Some("no".to_owned())),
            Err((
                Status::Failed,
                Some(CallEndReason::Approver),
                "Rejected by the approver. It did not run. It said: no",
            )),
        ),
        (
            PermissionAnswer::reject_once(None),
            Err((
                Status::Failed,
                Some(CallEndReason::Approver),
                "Rejected by the approver. It did not run.",
            )),
        ),
    ] {
        let stage = Stage::new(None);
        // If the client rejected the call, the session would request the reason.
        stage.session.update(|session, _| session.enable_rejection_reason_requests());
        let received = Arc::new(Mutex::new(Vec::new()));
        let (sees, given) = (received.clone(), answer.clone());
        stage.session.set_approver(move |request, call| {
            let (effects, subject) = (request.effects(), request.subject());
            sees.lock().unwrap().push(json!({
                "tool": subject.tool(), "kind": effects.tool_kind(), "args": subject.args(),
                "title": call.title,
                "effects": effects.iter().collect::<Vec<_>>(),
            }));
            let answer = given.clone();
            async move {
                pass(1_000).await;
                Some(answer)
            }
        });
        let args = json!({ "q": 1 });
        let call = tools(&stage).call(&"t".into(), "a", "fetch", args, &stage.cancel, tool).await;
        let result =
            call.as_ref().map_err(|ended| (ended.status, ended.reason, ended.text.as_str()));
        assert_eq!(result.cloned(), end, "{answer:?}");
        let expected = json!({
            "tool": "fetch", "kind": "fetch", "args": {"q": 1}, "title": "fetch q: 1",
            "effects": [{"connect": "example.org"}],
        });
        assert_eq!(*received.lock().unwrap(), [expected]);
        if let Err((.., text)) = end {
            assert_eq!(
                stage.ended("t/a").content,
                [Content::from_text(text)],
                "the client reads it too"
            );
            let (_, meta) = stage.shown("t/a").await;
            assert_eq!(meta.reason, Some(CallEndReason::Approver));
        }
        assert!(stage.received.lock().unwrap().asked.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_is_asked_if_the_approver_does_not_decide() {
    let stage = Stage::new(Some("allow"));
    stage.session.set_approver(|_, _| async { None });
    let call = tools(&stage).call(&"t".into(), "a", "x", json!({}), &stage.cancel, tool).await;
    assert_eq!(call, Ok("done".to_owned()));
    assert_eq!(stage.received.lock().unwrap().asked.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_approver_is_asked_only_without_a_rule_and_overrides_no_denial() {
    let stage = Stage::new(None);
    let rule = |verdict| {
        let matcher = Matcher::Effect(Effect::Connect("example.org".to_owned()));
        Rule::new(RuleScope::Session, matcher, verdict)
    };
    let session = stage.session.clone();
    stage.session.set_approver(move |_, _| {
        // This rule denies the call while the approver decides.
        session.update(|session, _| session.add_rule(rule(Verdict::Deny)));
        async { Some(PermissionAnswer::allow_once()) }
    });
    for id in ["a", "b"] {
        let call = tools(&stage).call(&"t".into(), id, "x", json!({}), &stage.cancel, tool).await;
        assert_eq!(call.unwrap_err().reason, Some(CallEndReason::Permission));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_does_not_wait_for_its_approver() {
    let stage = Stage::new(None);
    stage.session.set_approver(|_, _| std::future::pending());
    let tools = tools(&stage);
    let turn = "t".into();
    let call = tools.call(&turn, "a", "x", json!({}), &stage.cancel, tool);
    let cancel = async {
        pass(5).await;
        stage.cancel.cancel();
    };
    let (ended, ()) = tokio::join!(call, cancel);
    assert_eq!(ended.unwrap_err().reason, Some(CallEndReason::Turn));
    let (_, meta) = stage.shown("t/a").await;
    assert_eq!(meta.reason, Some(CallEndReason::Turn));
}

/// Returns the effects of `write` and `run`.
fn acts(name: &str, args: &Value) -> Effects {
    let word = args["of"].as_str().unwrap_or_default();
    match name {
        "write" => Effect::Write(word.into()).into(),
        _ => Effect::Run { command: word.to_owned(), cwd: "/p".into() }.into(),
    }
}

/// For each permission request, the unreviewed files and the shown content.
type Asked = Arc<Mutex<Vec<(Vec<PathBuf>, String)>>>;

/// A session in which edits need no permission and a rule allows `sh x.sh`.
struct Scripts {
    stage: Stage,
    tools: ToolMiddleware,
    calls: u32,
}

impl Scripts {
    fn new() -> Self {
        let stage = Stage::new(Some("allow"));
        let matcher =
            Matcher::Effect(Effect::Run { command: "sh x.sh".to_owned(), cwd: "/p".into() });
        let rule = Rule::new(RuleScope::Session, matcher, Verdict::Allow);
        assert!(stage.session.update(|session, _| session.add_rule(rule)));
        let tools = ToolMiddleware::new(stage.session.clone()).with_effects(acts);
        Self { stage, tools, calls: 0 }
    }

    fn accepting_edits(self) -> Self {
        let policy = Arc::new(AcceptEditsPolicy::new(["/p"]));
        self.stage.session.update(|session, _| session.replace_policy(policy));
        self
    }

    /// Executes a call, and asserts that the call completes.
    async fn call(&mut self, name: &str, of: &str) {
        self.calls += 1;
        let (id, args) = (self.calls.to_string(), json!({ "of": of }));
        let done = self.tools.call(&"t".into(), &id, name, args, &self.stage.cancel, tool).await;
        assert_eq!(done, Ok("done".to_owned()), "{name} {of}");
    }

    /// Answers the requests in order, and returns the unreviewed files and the shown content of
    /// each request.
    fn approve(&self, answers: impl Into<VecDeque<Option<PermissionAnswer>>>) -> Asked {
        let (asked, answers) = (Asked::default(), Mutex::new(answers.into()));
        let sees = asked.clone();
        self.stage.session.set_approver(move |request, call| {
            sees.lock().unwrap().push((request.unreviewed_changed_files().to_vec(), texts(&call)));
            let answer = answers.lock().unwrap().pop_front().expect("it is asked too often");
            async { answer }
        });
        asked
    }

    fn asked_client(&self) -> usize {
        self.stage.received.lock().unwrap().asked.len()
    }
}

fn texts(call: &ToolCallReport) -> String {
    let texts = call.content.iter().filter_map(|item| match item {
        Content::Block(ContentBlock::Text(text)) => Some(text.text.clone()),
        _ => None,
    });
    texts.collect()
}

const NOTE: &str = "These files were changed without a question: x.sh. The command may run them.";

#[tokio::test(start_paused = true)]
async fn an_approver_receives_unreviewed_files_but_does_not_count_as_a_person() {
    let mut scripts = Scripts::new().accepting_edits();
    let asked = scripts.approve([
        Some(PermissionAnswer::allow_once()),
        Some(PermissionAnswer::allow_once()),
        None,
    ]);
    scripts.call("write", "/p/x.sh").await;
    let shown = (vec![PathBuf::from("/p/x.sh")], NOTE.to_owned());
    for count in 1..=3 {
        scripts.call("run", "sh x.sh").await;
        assert_eq!(*asked.lock().unwrap(), vec![shown.clone(); count]);
    }
    // From here on, the change counts as shown to a person.
    assert_eq!(scripts.asked_client(), 1);
    scripts.call("run", "sh x.sh").await;
    assert_eq!((asked.lock().unwrap().len(), scripts.asked_client()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn files_changed_with_an_approvers_permission_stay_unreviewed() {
    let mut scripts = Scripts::new();
    let asked = scripts.approve([Some(PermissionAnswer::allow_once()), None]);
    scripts.call("run", "sh x.sh").await;
    scripts.call("write", "/p/x.sh").await;
    scripts.call("run", "sh x.sh").await;
    let unseen = |at: usize| asked.lock().unwrap()[at].0.clone();
    assert_eq!((unseen(0), unseen(1)), (vec![], vec!["/p/x.sh".into()]));
    assert_eq!(scripts.asked_client(), 1);
}

/// Changes a file without a permission request.
fn edit(session: &SessionHandle) {
    session.update(|session, now| {
        let id = "edit".into();
        session.announce_call(&id, &"t".into(), ToolCallPatch::new().with_title("Edit"), now);
        let subject = PermissionSubject::for_call("write", &json!({}), "/p".as_ref(), b"");
        let edit = Effect::Write("/p/a.rs".into()).into();
        let permit = session.decide_or_ask_permission(&id, &edit, subject, true, now);
        assert!(matches!(permit, PermitDecision::Granted(_)));
    });
}

#[tokio::test(start_paused = true)]
async fn files_that_change_while_an_approver_decides_are_named_in_a_second_request() {
    let mut scripts = Scripts::new().accepting_edits();
    let (session, asked) = (scripts.stage.session.clone(), Arc::<Mutex<Vec<_>>>::default());
    let sees = asked.clone();
    scripts.stage.session.set_approver(move |request, _| {
        let mut received = sees.lock().unwrap();
        received.push(request.unreviewed_changed_files().to_vec());
        if received.len() == 1 {
            edit(&session);
        }
        async { Some(PermissionAnswer::allow_once()) }
    });
    scripts.call("run", "make").await;
    assert_eq!(*asked.lock().unwrap(), [vec![], vec![PathBuf::from("/p/a.rs")]]);
}

/// Runs `make`. During the first run, a file is changed, and the run reports that its preview is
/// outdated.
struct Makes(bool);

impl CallExecutor for Makes {
    type Plan = ();

    async fn preview(&mut self, _: &CallHandle) -> Result<CallPreview<()>, CallFailure> {
        let subject = PermissionSubject::for_call("make", &json!({}), "/p".as_ref(), b"");
        Ok(CallPreview::new(PinnedPlan::new((), subject), acts("run", &json!({ "of": "make" }))))
    }

    async fn run(
        &mut self,
        pinned: PinnedPlan<()>,
        grant: Grant,
        call: &CallHandle,
    ) -> Result<CallSuccess, CallFailure> {
        pinned.release(grant).unwrap();
        if std::mem::take(&mut self.0) {
            edit(call.session());
            let mut failure = CallFailure::recoverable("changed", "It changed.");
            failure.is_outdated = true;
            return Err(failure);
        }
        Ok(CallSuccess::default())
    }
}

#[tokio::test(start_paused = true)]
async fn an_outdated_call_is_asked_about_again_if_files_have_changed() {
    let scripts = Scripts::new().accepting_edits();
    let asked = scripts
        .approve([Some(PermissionAnswer::allow_once()), Some(PermissionAnswer::allow_once())]);
    let Stage { session, cancel, .. } = &scripts.stage;
    let patch = ToolCallPatch::for_new_call("make", "Make", ToolKind::Execute);
    let open = session.announce_call(&"c".into(), &"t".into(), patch, cancel).unwrap();
    assert_eq!(execute_call(open, Makes(true)).await.status, Status::Completed);
    let unseen = asked.lock().unwrap().iter().map(|(unseen, _)| unseen.clone()).collect::<Vec<_>>();
    assert_eq!(unseen, [vec![], vec![PathBuf::from("/p/a.rs")]]);
}

#[tokio::test(start_paused = true)]
async fn an_approver_cannot_add_rules_that_outlive_the_session() {
    let mut scripts = Scripts::new();
    scripts.stage.session.update(|session, _| session.enable_project_rule_options());
    let project =
        PermissionAnswer::Selected { option_id: "allow_project".to_owned(), reason: None };
    let offered = Arc::<Mutex<Vec<String>>>::default();
    let (sees, answers) = (offered.clone(), Mutex::new(VecDeque::from([Some(project), None])));
    scripts.stage.session.set_approver(move |request, _| {
        let ids = request.options.iter().map(|option| option.id.clone());
        *sees.lock().unwrap() = ids.collect();
        let answer = answers.lock().unwrap().pop_front().unwrap();
        async { answer }
    });
    let (args, cancel) = (json!({ "of": "cargo test" }), scripts.stage.cancel.clone());
    let ended = scripts.tools.call(&"t".into(), "a", "run", args, &cancel, tool).await.unwrap_err();
    assert_eq!((ended.status, ended.reason), (Status::Failed, Some(CallEndReason::Permission)));
    assert_eq!(*offered.lock().unwrap(), ["allow", "allow_always", "reject", "reject_always"]);
    assert!(scripts.stage.session.update(|session, _| session.take_rule_changes()).is_empty());
    // A request to the client still offers to remember a rule beyond the session, because the code
    // that handles the client's answer saves the rule.
    scripts.call("run", "cargo test").await;
    assert_eq!(scripts.stage.received.lock().unwrap().asked[0].options.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_approver_that_panics_permits_nothing() {
    let stage = Stage::new(Some("allow"));
    let panics = |at_once: bool| {
        stage.session.set_approver(move |_, _| {
            assert!(!at_once, "a planted panic");
            async { panic!("a planted panic") }
        });
    };
    for (id, at_once) in [("a", true), ("b", false)] {
        panics(at_once);
        let call = tools(&stage).call(&"t".into(), id, "x", json!({}), &stage.cancel, tool).await;
        let text = "Not permitted: the permission check had an internal error. It did not run.";
        assert_eq!(call.unwrap_err().text, text);
    }
    assert!(stage.received.lock().unwrap().asked.is_empty());
}
