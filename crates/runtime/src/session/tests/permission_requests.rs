//! Tests of permission requests whose content is too long to be shown in full.

use std::sync::Arc;

use acp_types::limits::MAX_FILE_CHANGE_BYTES;
use acp_types::schema::v1::{PermissionOptionKind, ToolCallContent};
use callboard_models::direct::DirectModel;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::start;
use acp_conformance::{AgentUnderTest, ClientBehaviour, FormReply, PermissionReply, content_text};

/// Returns the kinds of the options and the content of the permission request for a command of the
/// direct model.
async fn permission_request(prompt: &str) -> (Vec<PermissionOptionKind>, Vec<ToolCallContent>) {
    let agent =
        crate::agent::CodingAgent::new(Arc::new(DirectModel::default()), std::iter::empty());
    let mut agent = AgentUnderTest::in_process(agent, PermissionReply::NoReply);
    agent.initialize().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let session = agent.new_session(folder.path()).await.unwrap();
    agent.send_prompt(&session, prompt).await.unwrap();
    agent.wait_until(|client| !client.permission_requests.is_empty()).await.unwrap();
    let asked = agent.client.permission_requests.swap_remove(0).request;
    let kinds = asked.options.iter().map(|option| option.kind).collect();
    (kinds, asked.tool_call.fields.content.unwrap())
}

const ONCE: [PermissionOptionKind; 2] =
    [PermissionOptionKind::AllowOnce, PermissionOptionKind::RejectOnce];

#[tokio::test]
async fn a_change_that_does_not_fit_is_shown_as_far_as_it_does_and_allowed_only_once() {
    let line = format!("{}\n", "x".repeat(99));
    let lines = MAX_FILE_CHANGE_BYTES / line.len() * 2;
    let prompt = |lines: usize| format!("write big.txt\n<<<\n{}>>>", line.repeat(lines));
    let (kinds, content) = permission_request(&prompt(lines)).await;
    assert_eq!(kinds, ONCE);
    let [ToolCallContent::Diff(diff), cut, note] = &content[..] else { panic!("{content:?}") };
    let shown = diff.new_text.lines().filter(|shown| *shown == line.trim_end()).count();
    assert!(shown > lines / 4 && shown < lines, "{shown} of {lines}");
    let cut = content_text(cut).unwrap();
    assert!(cut.ends_with(&format!("/big.txt: +{} −0 more lines are not shown.", lines - shown)));
    assert!(content_text(note).unwrap().starts_with("Not everything of this call is shown"));

    let (kinds, content) = permission_request(&prompt(3)).await;
    assert!(kinds.len() > ONCE.len() && content.len() == 1, "{kinds:?} {content:?}");
}

#[tokio::test]
async fn what_its_title_cannot_hold_is_allowed_only_once() {
    for (bytes, is_whole) in [(4 * 1024, true), (4 * 1024 + 1, false)] {
        let (mut agent, session, _) = start(PermissionReply::NoReply).await;
        let args = json!({"why": "x".repeat(bytes)});
        agent.send_prompt(&session, &format!("tool undo {args}")).await.unwrap();
        agent.wait_until(|client| !client.permission_requests.is_empty()).await.unwrap();
        let asked = &agent.client.permission_requests[0].request;
        assert_eq!(asked.tool_call.fields.raw_input, Some(args));
        let kinds: Vec<_> = asked.options.iter().map(|option| option.kind).collect();
        assert_eq!(kinds != ONCE, is_whole, "{kinds:?}");
    }
}

#[tokio::test]
async fn the_reason_that_a_form_tells_reaches_the_model_and_one_never_told_holds_up_no_cancel() {
    let rejects = PermissionReply::Select(PermissionOptionKind::RejectOnce);
    for (form, expected) in [
        (FormReply::Fill("use make"), "Rejected by the user. It did not run. They said: use make"),
        (FormReply::Decline, "Rejected by the user. It did not run."),
        (FormReply::NoReply, "Cancelled with its turn. It did not run."),
    ] {
        let behaviour = ClientBehaviour::from(rejects).with_form(form);
        let (mut agent, session, _) = start(behaviour).await;
        let prompt = agent.send_prompt(&session, "tool undo {}").await.unwrap();
        agent.wait_until(|client| !client.forms.is_empty()).await.unwrap();
        if matches!(form, FormReply::NoReply) {
            agent.cancel_and_send_deferred_replies(&session).await.unwrap();
        }
        agent.wait_for_stop_reason(&prompt).await.unwrap();
        let output =
            agent.client.session(&session).only_call_of_tool("undo").unwrap().raw_output.clone();
        assert_eq!(output.unwrap()["error"], expected);
    }
}
