//! Tests the tool loop example of a rig agent, with a model that plays a script.

use acp_conformance::{AgentTestError, AgentUnderTest, PermissionReply, Side, call_text};
use acp_types::schema::v1::PermissionOptionKind;
use pretty_assertions::assert_eq;

#[path = "../examples/rig_tool_loop.rs"]
#[expect(dead_code, reason = "the program's `main` serves what is judged here")]
mod example;

#[tokio::test]
async fn the_calls_of_a_reply_are_permitted_and_the_model_reads_their_results()
-> Result<(), AgentTestError> {
    for (answer, expected) in [
        (PermissionOptionKind::AllowOnce, "2 words"),
        (PermissionOptionKind::RejectOnce, "Rejected by the user. It did not run."),
    ] {
        let (rig, http) = example::scripted_agent().unwrap();
        let mut agent =
            AgentUnderTest::in_process(example::agent(rig, None), PermissionReply::Select(answer));
        agent.initialize().await?;
        agent.new_session(&std::env::temp_dir()).await?;
        assert_eq!(
            agent.prompt_and_wait_for_stop("rig", "Publish this: one two").await?,
            "end_turn"
        );
        let session = agent.client.session("rig");
        assert_eq!(session.message_text(), "Done.");
        let shown: Vec<_> = session.calls().into_iter().map(call_text).collect();
        assert_eq!(shown, ["2 words", expected]);
        let requests = http.requests();
        assert_eq!(requests.len(), 2);
        let told = String::from_utf8_lossy(&requests[1].body);
        assert!(told.contains("2 words") && told.contains(expected), "{told}");
        agent.close_input_and_wait_for_exit().await?;
        assert_eq!(agent.client.violations_by(Side::Agent), []);
    }
    Ok(())
}
