//! Tests of the verdicts on connections of commands.

use std::time::SystemTime;

use acp_lifecycle::rules::HostPattern;
use acp_lifecycle::{
    Effect, Matcher, OpenCall, PermissionAnswer, Policy, Rule, RuleScope, Session, SessionHandle,
};
use acp_types::{ToolCallPatch, ToolKind};
use pretty_assertions::assert_eq;

use super::*;

/// Allows everything. A program that embeds the agent may set such a policy.
#[derive(Debug)]
struct AllowAll;

impl Policy for AllowAll {
    fn judge(&self, _: &Effect) -> Verdict {
        Verdict::Allow
    }
}

/// Opens the call of a command. The user allows every connection once.
fn open_command() -> OpenCall {
    let session = SessionHandle::new(Session::new("/p"), SystemTime::now);
    session.set_approver(|_, _| std::future::ready(Some(PermissionAnswer::allow_once())));
    let patch = ToolCallPatch::for_new_call("terminal", "Terminal", ToolKind::Execute);
    session.announce_call(&"t/c".into(), &"t".into(), patch, &CancellationToken::new()).unwrap()
}

/// Returns whether a command with this call may connect to private addresses of `a.example`.
async fn allows_private_addresses(open: &OpenCall) -> bool {
    let session = Arc::new(SessionConnections::default());
    let titles = Arc::new(Titles::default());
    let connections = session.add_command(open.handle().clone(), titles, false);
    let destination = Destination { host: "a.example".to_owned(), port: 80 };
    let verdict = session.judge(Some(connections.proxy_user().to_owned()), destination).await;
    let ConnectionVerdict::Allow { allows_private_addresses } = verdict else {
        panic!("{verdict:?}")
    };
    allows_private_addresses
}

#[tokio::test]
async fn only_a_rule_about_the_host_allows_its_private_addresses() {
    let named = Matcher::Host(HostPattern::parse("*.example").unwrap());
    for (matcher, expected) in [
        (None, false),
        (Some(Matcher::Tool("terminal".to_owned())), false),
        (Some(Matcher::Kind(ToolKind::Execute)), false),
        (Some(named), true),
    ] {
        let open = open_command();
        if let Some(matcher) = matcher.clone() {
            let rule = Rule::new(RuleScope::Session, matcher, Verdict::Allow);
            assert!(open.handle().session().update(|session, _| session.add_rule(rule)));
        }
        assert_eq!(allows_private_addresses(&open).await, expected, "{matcher:?}");
    }
}

#[tokio::test]
async fn a_permissive_policy_allows_no_private_addresses() {
    let open = open_command();
    drop(open.handle().session().update(|session, _| session.replace_policy(Arc::new(AllowAll))));
    assert!(!allows_private_addresses(&open).await);
}
