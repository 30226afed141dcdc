//! Tests of the permission requests of a session, the rules that answers add, and the handling of
//! rejections.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

use acp_lifecycle::rules::{RuleChange, RuleStoreError};
use acp_lifecycle::{
    AcceptEditsPolicy, AllowInProjectPolicy, AskAlwaysPolicy, AskExceptReadsPolicy, CallEnd,
    Effect, Effects, Matcher, OutboxItem, PermissionAnswer, PermissionId, PermissionOutcome,
    PermissionSubject, PermitDecision, Policy, ReadOnlyPolicy, Rule, RuleScope, Secrets, Session,
    Timestamp, UnaskedDenialReason, Verdict, limits,
};
use acp_types::{CallEndReason, Content, ContentBlock, ToolCallId, ToolCallPatch, ToolKind};
use pretty_assertions::assert_eq;

/// Maximum number of changes of stored rules that wait to be saved.
const MAX_UNSAVED_RULE_CHANGES: usize = 1024;

/// A session in which permission is requested for calls.
struct Stage {
    session: Session,
    now: Timestamp,
    calls: u32,
}

impl Stage {
    fn new() -> Self {
        let now = Timestamp { monotonic: Instant::now(), wall: SystemTime::now() };
        Self { session: Session::new("/p"), now, calls: 0 }
    }

    fn with_store(rules: Result<Vec<Rule>, RuleStoreError>) -> Self {
        let mut stage = Self::new();
        stage.session.add_loaded_rules(rules);
        stage.session.enable_project_rule_options();
        stage
    }

    fn announce(&mut self) -> ToolCallId {
        self.calls += 1;
        let id = ToolCallId::new(format!("c{}", self.calls));
        let patch = ToolCallPatch::for_new_call("tool", "Tool", ToolKind::Execute);
        assert!(self.session.announce_call(&id, &"t1".into(), patch, self.now));
        id
    }

    fn permit_whole(&mut self, effects: &Effects, is_whole: bool) -> PermitDecision {
        let id = self.announce();
        let subject = PermissionSubject::for_call("tool", &"args".into(), "/p".as_ref(), b"");
        self.session.decide_or_ask_permission(&id, effects, subject, is_whole, self.now)
    }

    fn permit(&mut self, effects: &Effects) -> PermitDecision {
        self.permit_whole(effects, true)
    }

    fn asked(&mut self, effects: &Effects) -> PermissionId {
        match self.permit(effects) {
            PermitDecision::AwaitingAnswer(number) => number,
            other => panic!("{other:?}"),
        }
    }

    fn options(&self, number: PermissionId) -> Vec<String> {
        let request = self.session.pending_permission_request(number).expect("it waits");
        request.options.iter().map(|option| option.name.clone()).collect()
    }

    fn select(&mut self, number: PermissionId, option: &str) -> Option<PermissionOutcome> {
        self.session.answer_permission(number, selected(option, None))
    }

    /// Takes all items from the outbox.
    fn sent(&mut self) -> Vec<OutboxItem> {
        let now = self.now.monotonic;
        std::iter::from_fn(|| self.session.poll(now)).collect()
    }

    fn rules(&self) -> Vec<String> {
        self.session
            .rules()
            .iter()
            .map(|rule| rule.describe(|path| self.session.display_path(path)))
            .collect()
    }
}

fn selected(option: &str, reason: Option<&str>) -> PermissionAnswer {
    PermissionAnswer::Selected { option_id: option.to_owned(), reason: reason.map(str::to_owned) }
}

fn run(command: &str) -> Effects {
    Effects::from(Effect::Run { command: command.to_owned(), cwd: "/p".into() })
}

fn write(path: &str) -> Effect {
    Effect::Write(path.into())
}

fn reason(outcome: Option<PermissionOutcome>) -> Option<String> {
    match outcome {
        Some(PermissionOutcome::Rejected { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_option_names_the_remembered_effects_and_their_duration() {
    let mut stage = Stage::with_store(Ok(vec![]));
    let number = stage.asked(&run("cargo\ntest"));
    let expected = [
        "Allow once",
        "Always allow `cargo\\ntest` in this session",
        "Always allow `cargo\\ntest` in this project",
        "Reject once",
        "Always reject `cargo\\ntest` in this session",
    ];
    assert_eq!(stage.options(number), expected);
    // If rules cannot be saved, the request has no option for the project.
    let mut stage = Stage::new();
    let number = stage.asked(&run("ls"));
    assert!(!stage.options(number).iter().any(|option| option.ends_with("in this project")));
}

#[test]
fn a_common_command_is_remembered_for_the_project_by_its_first_words() {
    for (line, words) in [
        ("cargo test -p x", Some("cargo test")),
        ("git diff HEAD", Some("git diff")),
        ("cargo nextest run a", Some("cargo nextest run")),
        ("ls", Some("ls")),
        ("cargo test --config x", None),
        ("cargo test; cargo test", None),
        ("cargo test > a", None),
        ("cargo test $X", None),
        ("cargo", None),
        ("cargo publish", None),
        ("cat /etc/passwd", None),
        ("/tmp/cat a", None),
        ("git push", None),
    ] {
        let mut stage = Stage::with_store(Ok(vec![]));
        let number = stage.asked(&run(line));
        let remembered = match words {
            Some(words) => format!("commands that begin with `{words}`"),
            None => format!("`{line}`"),
        };
        let options = stage.options(number);
        assert_eq!(options[1], format!("Always allow `{line}` in this session"));
        assert_eq!(options[2], format!("Always allow {remembered} in this project"));
        stage.select(number, "allow_project").expect("it is answered");
        assert_eq!(stage.rules(), [format!("allow {remembered} in this project")]);
        assert!(matches!(stage.permit(&run(line)), PermitDecision::Granted(_)), "{line}");
    }
}

#[test]
fn an_answer_remembers_exactly_the_effects_of_its_option() {
    let call = Effects::from_iter([Effect::Read("/r".into()), write("/p/a"), write("/p/b")]);
    for (option, remembered) in [
        ("allow", &[][..]),
        ("reject", &[]),
        ("allow_always", &["allow changing a in this session", "allow changing b in this session"]),
        (
            "allow_project",
            &["allow changing a in this project", "allow changing b in this project"],
        ),
        (
            "reject_always",
            &["reject changing a in this session", "reject changing b in this session"],
        ),
    ] {
        let mut stage = Stage::with_store(Ok(vec![]));
        let number = stage.asked(&call);
        let name = "Always allow changing a, changing b in this session";
        assert!(stage.options(number).iter().any(|option| option == name));
        stage.select(number, option).expect("it is answered");
        assert_eq!(stage.rules(), remembered, "{option}");
    }
    // If the policy asks about reading a file, the options name the file, and the answer is
    // remembered.
    let mut stage = Stage::new();
    stage.session.replace_policy(Arc::new(AskAlwaysPolicy));
    let number = stage.asked(&Effects::from(Effect::Read("/p/r".into())));
    assert_eq!(stage.options(number)[1], "Always allow reading r in this session");
    stage.select(number, "allow_always").expect("it is answered");
    assert_eq!(stage.rules(), ["allow reading r in this session"]);
}

#[test]
fn an_answer_applies_once_if_nothing_may_be_remembered() {
    let once = ["Allow once", "Reject once"];
    let unreadable = || Stage::with_store(Err(RuleStoreError::new("broken")));
    let long = run(&"x".repeat(300));
    let ask = Rule::new(RuleScope::User, Matcher::Tool("tool".to_owned()), Verdict::Ask);
    for (mut stage, effects, is_whole) in [
        (Stage::with_store(Ok(vec![])), Effects::from(Effect::Unknown), true),
        (Stage::with_store(Ok(vec![])), run("ls"), false),
        (Stage::with_store(Ok(vec![])), long, true),
        (Stage::with_store(Ok(vec![ask])), run("ls"), true),
        (unreadable(), run("ls"), true),
        (unreadable(), Effects::from(Effect::Read("/p/a".into())), true),
    ] {
        let PermitDecision::AwaitingAnswer(number) = stage.permit_whole(&effects, is_whole) else {
            panic!("{effects:?} is asked about")
        };
        assert_eq!(stage.options(number), once, "{effects:?}");
        // An option that is not part of the request is not a valid answer.
        let outcome = stage.select(number, "allow_always");
        assert!(matches!(&outcome, Some(PermissionOutcome::Unanswered(_))), "{outcome:?}");
        assert!(stage.rules().iter().all(|rule| rule.starts_with("ask about")));
    }
}

#[test]
fn only_rules_that_outlive_the_session_are_returned_for_saving() {
    let mut stage = Stage::with_store(Ok(vec![]));
    let number = stage.asked(&run("a"));
    stage.select(number, "allow_always");
    assert_eq!(stage.session.take_rule_changes(), []);
    let number = stage.asked(&run("b"));
    stage.select(number, "allow_project");
    let added = Rule::new(
        RuleScope::Project,
        Matcher::Effect(Effect::Run { command: "b".into(), cwd: "/p".into() }),
        Verdict::Allow,
    );
    assert_eq!(stage.session.take_rule_changes(), [RuleChange::Add(added.clone())]);
    assert_eq!(stage.session.take_rule_changes(), []);
    assert!(matches!(stage.permit(&run("b")), PermitDecision::Granted(_)));
    assert!(stage.session.revoke_rule(&added) && !stage.session.revoke_rule(&added));
    assert_eq!(stage.session.take_rule_changes(), [RuleChange::Remove(added.clone())]);
    assert!(matches!(stage.permit(&run("b")), PermitDecision::AwaitingAnswer(_)));
    // A rule that could not be saved is listed as a rule of the session.
    assert!(stage.session.add_rule(added.clone()));
    stage.session.limit_unsaved_rule_to_session(RuleChange::Add(added));
    assert_eq!(stage.rules(), ["allow `a` in this session", "allow `b` in this session"]);
}

#[test]
fn a_turn_rule_ends_with_its_turn() {
    let mut stage = Stage::new();
    let matcher = Matcher::Tool("tool".to_owned());
    assert!(stage.session.add_rule(Rule::new(RuleScope::Turn, matcher, Verdict::Allow)));
    assert!(matches!(stage.permit(&run("a")), PermitDecision::Granted(_)));
    // The client withdraws a prompt that waits.
    stage.session.end_unstarted_turn(&"t2".into(), stage.now);
    assert!(matches!(stage.permit(&run("a")), PermitDecision::Granted(_)));
    stage.session.end_turn(&"t0".into(), CallEndReason::Turn, stage.now);
    assert!(matches!(stage.permit(&run("a")), PermitDecision::AwaitingAnswer(_)));
}

#[test]
fn stored_rules_apply_and_a_denial_takes_precedence() {
    let of = |scope, verdict| Rule::new(scope, Matcher::Kind(ToolKind::Execute), verdict);
    let allowed = of(RuleScope::Project, Verdict::Allow);
    let mut stage = Stage::with_store(Ok(vec![allowed.clone()]));
    assert!(matches!(stage.permit(&run("a")), PermitDecision::Granted(_)));
    let mut stage = Stage::with_store(Ok(vec![allowed, of(RuleScope::User, Verdict::Deny)]));
    assert!(matches!(stage.permit(&run("a")), PermitDecision::Denied(UnaskedDenialReason::Rule)));
    // If there are more rules than the maximum, a denying rule may be missing, so the client is
    // asked about every call.
    let many =
        (0..5000).map(|n| Rule::new(RuleScope::User, Matcher::Tool(n.to_string()), Verdict::Allow));
    let mut stage = Stage::with_store(Ok(many.collect()));
    let read = Effects::from(Effect::Read("/p/a".into()));
    assert!(matches!(stage.permit(&read), PermitDecision::AwaitingAnswer(_)));
}

#[test]
fn a_denial_after_the_request_takes_precedence_over_the_answer() {
    let mut stage = Stage::new();
    let (first, second, third) =
        (stage.asked(&run("a")), stage.asked(&run("a")), stage.asked(&run("b")));
    stage.select(first, "reject_always");
    assert!(matches!(
        stage.select(second, "allow"),
        Some(PermissionOutcome::Denied(UnaskedDenialReason::Rule))
    ));
    stage.session.replace_policy(Arc::new(ReadOnlyPolicy));
    assert!(matches!(
        stage.select(third, "allow_always"),
        Some(PermissionOutcome::Denied(UnaskedDenialReason::Policy))
    ));
    assert_eq!(stage.rules(), ["reject `a` in this session"]);
}

#[test]
fn a_rejection_without_a_reason_is_asked_about_once() {
    let mut stage = Stage::new();
    stage.session.enable_rejection_reason_requests();
    let number = stage.asked(&run("a"));
    stage.sent();
    assert!(stage.select(number, "reject").is_none());
    assert_eq!(stage.sent(), [OutboxItem::RejectionReasonRequest(number)]);
    // A second answer to an already answered request has no effect.
    assert!(stage.select(number, "allow").is_none());
    assert_eq!(stage.sent(), []);
    let said = stage.session.apply_rejection_reason(number, Some(" Not\nnow\u{202e}. "));
    assert_eq!(reason(said).as_deref(), Some("Not\\nnow\\u{202e}."));
    assert!(stage.session.apply_rejection_reason(number, Some("again")).is_none());
    assert!(stage.select(number, "allow").is_none());
}

#[test]
fn a_reason_is_requested_only_if_it_is_missing_and_useful() {
    let mut stage = Stage::new();
    let number = stage.asked(&run("a"));
    assert_eq!(reason(stage.select(number, "reject")), None);
    stage.session.enable_rejection_reason_requests();
    let number = stage.asked(&run("a"));
    let said = stage.session.answer_permission(number, selected("reject", Some("because")));
    assert_eq!(reason(said).as_deref(), Some("because"));
    let number = stage.asked(&run("a"));
    let outcome = stage.select(number, "nothing like that");
    assert!(matches!(&outcome, Some(PermissionOutcome::Unanswered(_))), "{outcome:?}");
    let number = stage.asked(&run("a"));
    assert_eq!(reason(stage.select(number, "reject_always")), None);
}

#[test]
fn the_request_for_a_reason_is_withdrawn_with_its_call() {
    let mut stage = Stage::new();
    stage.session.enable_rejection_reason_requests();
    let number = stage.asked(&run("a"));
    stage.sent();
    assert!(stage.select(number, "reject").is_none());
    stage.session.finish_call(&"c1".into(), CallEnd::cancelled(CallEndReason::Turn), stage.now);
    assert!(!stage.sent().contains(&OutboxItem::RejectionReasonRequest(number)));
    assert!(stage.session.pending_permission_request(number).is_none());
    assert!(stage.session.apply_rejection_reason(number, Some("late")).is_none());
}

#[test]
fn a_reason_is_truncated_and_an_empty_reason_is_none() {
    for (said, heard) in [("", None), (" \n ", None), ("x", Some(1)), ("\u{0}", Some(5))] {
        let mut stage = Stage::new();
        let number = stage.asked(&run("a"));
        let outcome = stage.session.answer_permission(number, selected("reject", Some(said)));
        assert_eq!(reason(outcome).map(|reason| reason.len()), heard, "{said:?}");
    }
    for long in ["ä".repeat(5000), "\u{1}".repeat(5000)] {
        let mut stage = Stage::new();
        let number = stage.asked(&run("a"));
        let outcome = stage.session.answer_permission(number, selected("reject", Some(&long)));
        assert!(reason(outcome).unwrap().len() <= limits::MAX_REJECTION_REASON_BYTES);
    }
}

#[test]
fn a_call_with_full_content_notes_that_not_everything_is_shown() {
    let mut stage = Stage::new();
    let id = stage.announce();
    let items = vec![Content::from_text("x"); limits::MAX_CONTENT_ITEMS + 1];
    stage.session.update_call(&id, ToolCallPatch::new().with_content(items), stage.now);
    let subject = PermissionSubject::for_call("tool", &"args".into(), "/p".as_ref(), b"");
    let effects = Effects::from(Effect::Write("/p/a".into()));
    let PermitDecision::AwaitingAnswer(number) =
        stage.session.decide_or_ask_permission(&id, &effects, subject, true, stage.now)
    else {
        panic!("it is asked about")
    };
    assert_eq!(stage.options(number), ["Allow once", "Reject once"]);
    let shown = &stage.session.board().open_call_report(&id).unwrap().content;
    let Some(Content::Block(ContentBlock::Text(last))) = shown.last() else { panic!("{shown:?}") };
    assert!(last.text.starts_with("Not everything"), "{last:?}");
}

#[test]
fn unsaved_rule_changes_are_limited_and_further_rules_stay_in_the_session() {
    let mut session = Session::new("/p");
    let rule = |number: usize| {
        Rule::new(RuleScope::User, Matcher::Tool(number.to_string()), Verdict::Deny)
    };
    for number in 0..=MAX_UNSAVED_RULE_CHANGES {
        assert!(session.add_rule(rule(number)));
    }
    let last = session.rules().iter().last().unwrap();
    let mut in_session = rule(MAX_UNSAVED_RULE_CHANGES);
    in_session.scope = RuleScope::Session;
    assert_eq!(*last, in_session);
    let changes = session.take_rule_changes();
    assert_eq!(changes.len(), MAX_UNSAVED_RULE_CHANGES);
    assert_eq!(changes.last().unwrap().rule(), &rule(MAX_UNSAVED_RULE_CHANGES - 1));
}

/// Returns the content that a call shows in addition to its title.
fn notes(stage: &Stage) -> String {
    let id = ToolCallId::new(format!("c{}", stage.calls));
    let report = stage.session.board().open_call_report(&id).expect("it is open");
    let texts = report.content.iter().filter_map(|item| match item {
        Content::Block(ContentBlock::Text(text)) => Some(text.text.clone()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_remembered_command_asks_again_after_unreviewed_changes() {
    let mut stage = Stage::with_store(Ok(vec![]));
    stage.session.replace_policy(Arc::new(AcceptEditsPolicy::new(["/p"])));
    for command in ["sh scripts/check.sh", "cargo test", "git status"] {
        let number = stage.asked(&run(command));
        assert!(matches!(
            stage.select(number, "allow_project"),
            Some(PermissionOutcome::Granted(_))
        ));
        assert!(matches!(stage.permit(&run(command)), PermitDecision::Granted(_)), "{command}");
    }
    let edit = Effects::from(write("/p/scripts/check.sh"));
    assert!(matches!(stage.permit(&edit), PermitDecision::Granted(_)));
    // This command reads files of the project, but runs none of them.
    assert!(matches!(stage.permit(&run("git status")), PermitDecision::Granted(_)));
    let number = stage.asked(&run("sh scripts/check.sh"));
    assert!(
        notes(&stage).contains("These files were changed without a question: scripts/check.sh."),
        "{}",
        notes(&stage)
    );
    assert_eq!(stage.options(number), ["Allow once", "Reject once"]);
    assert!(matches!(stage.select(number, "reject"), Some(PermissionOutcome::Rejected { .. })));
    let number = stage.asked(&run("cargo test -q"));
    assert!(matches!(stage.select(number, "allow"), Some(PermissionOutcome::Granted(_))));
    // The change was made before the last command was permitted, so the change is now reviewed.
    assert!(matches!(stage.permit(&run("sh scripts/check.sh")), PermitDecision::Granted(_)));
    // A change that was shown to the user counts as reviewed.
    stage.session.replace_policy(Arc::new(AskExceptReadsPolicy));
    let number = stage.asked(&edit);
    assert!(matches!(stage.select(number, "allow"), Some(PermissionOutcome::Granted(_))));
    assert!(matches!(stage.permit(&run("cargo test")), PermitDecision::Granted(_)));
}

#[test]
fn an_answer_is_outdated_if_files_change_after_its_request() {
    let mut stage = Stage::new();
    stage.session.replace_policy(Arc::new(AcceptEditsPolicy::new(["/p"])));
    let mut number = stage.asked(&run("make"));
    // The first request does not name the file, because the file has not changed yet. After the
    // second request, the file is changed again.
    for _ in 0..2 {
        assert!(matches!(
            stage.permit(&Effects::from(write("/p/a.rs"))),
            PermitDecision::Granted(_)
        ));
        assert!(matches!(stage.select(number, "allow_always"), Some(PermissionOutcome::Outdated)));
        assert!(stage.rules().is_empty());
        number = stage.asked(&run("make"));
        assert!(notes(&stage).contains("These files were changed without a question: a.rs."));
        assert_eq!(
            stage.session.pending_permission_request(number).unwrap().unreviewed_changed_files(),
            [Path::new("/p/a.rs")]
        );
    }
    // A command that runs no file is not affected by changed files.
    let reads = stage.asked(&run("git status"));
    assert!(matches!(stage.permit(&Effects::from(write("/p/b.rs"))), PermitDecision::Granted(_)));
    assert!(matches!(stage.select(reads, "allow"), Some(PermissionOutcome::Granted(_))));
    // If a request is permitted, only the files that the request named become reviewed. Other
    // changed files stay unreviewed.
    stage.session.replace_policy(Arc::new(AllowInProjectPolicy));
    assert!(matches!(stage.select(number, "allow"), Some(PermissionOutcome::Granted(_))));
    stage.session.replace_policy(Arc::new(AcceptEditsPolicy::new(["/p"])));
    let number = stage.asked(&run("make"));
    assert_eq!(
        stage.session.pending_permission_request(number).unwrap().unreviewed_changed_files().len(),
        2
    );
    let other = stage.asked(&run("make"));
    for number in [number, other] {
        assert!(matches!(stage.select(number, "allow"), Some(PermissionOutcome::Granted(_))));
    }
}

#[test]
fn a_note_shows_no_secret() {
    let mut stage = Stage::with_store(Ok(vec![]));
    let number = stage.asked(&run("cargo test"));
    stage.select(number, "allow_project");
    stage.session.set_secrets(Secrets::new(["hunter2hunter2"]));
    stage.asked(&run("cargo test -- --hunter2hunter2"));
    assert!(notes(&stage).contains("`--[redacted]` is not a word"), "{}", notes(&stage));
}

/// A policy that asks about everything, and counts its calls.
#[derive(Debug, Default)]
struct Counts(AtomicUsize);

impl Policy for Counts {
    fn judge(&self, _: &Effect) -> Verdict {
        self.0.fetch_add(1, Ordering::Relaxed);
        Verdict::Ask
    }
}

#[test]
fn a_policy_is_called_once_for_each_effect_when_a_call_is_judged() {
    let mut stage = Stage::with_store(Ok(vec![]));
    let policy = Arc::new(Counts::default());
    stage.session.replace_policy(policy.clone());
    let count = || policy.0.swap(0, Ordering::Relaxed);
    let call = Effects::from_iter([write("/p/a"), write("/p/b")]);
    let number = stage.asked(&call);
    assert_eq!(count(), 2);
    stage.select(number, "allow_always");
    assert_eq!(count(), 2);
    // A rule allows the call now. The policy is still called once for each effect.
    assert!(matches!(stage.permit(&call), PermitDecision::Granted(_)));
    assert_eq!(count(), 2);
    let rule = stage.session.rules().iter().next().cloned().unwrap();
    stage.session.revoke_rule(&rule);
    let number = stage.asked(&call);
    stage.select(number, "reject_always");
    assert!(matches!(stage.permit(&call), PermitDecision::Denied(UnaskedDenialReason::Rule)));
    assert_eq!(count(), 6);
}

#[test]
fn a_request_names_the_word_that_a_rule_does_not_cover() {
    let mut stage = Stage::with_store(Ok(vec![]));
    let number = stage.asked(&run("cargo test"));
    stage.select(number, "allow_project");
    stage.asked(&run("cargo test -- --logfile x"));
    let expected = "Not covered by the rule for `cargo test`: `--logfile` is not a word of `cargo test` \
                    that is understood.";
    assert!(notes(&stage).contains(expected), "{}", notes(&stage));
}

#[test]
fn a_request_names_the_rules_that_cannot_be_read() {
    let mut stage = Stage::with_store(Err(RuleStoreError::new("user.json: line\u{1b} 1")));
    stage.asked(&run("ls"));
    let expected = "Each call needs permission, because the stored rules cannot be read: \
                    user.json: line\\u{1b} 1.";
    assert!(notes(&stage).contains(expected), "{}", notes(&stage));
}

#[test]
fn a_request_is_in_the_language_of_the_session() {
    let mut stage = Stage::with_store(Ok(vec![]));
    stage.session.set_locale("de");
    let number = stage.asked(&run("cargo test"));
    stage.select(number, "allow_project");
    let number = stage.asked(&run("cargo test -- --logfile x"));
    let expected = "Von der Regel für `cargo test` nicht gedeckt: `--logfile` ist kein Wort von \
                    `cargo test`, das verstanden wird.";
    assert_eq!(notes(&stage), expected);
    assert_eq!(stage.options(number)[0], "Einmal erlauben");
}
