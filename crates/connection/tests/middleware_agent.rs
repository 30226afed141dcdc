//! The example of an agent around tools without ACP, behind the fault-injecting client.

use acp_conformance::{Agent, Behaviour, Error, Permission, Side, Timing, text_of};
use acp_types::schema::v1::{PermissionOptionKind, ToolCall, ToolCallContent};
use pretty_assertions::assert_eq;
use tempfile::NamedTempFile;

#[path = "../examples/middleware_agent.rs"]
#[expect(dead_code, reason = "the program's `main` serves what is judged here")]
mod example;

/// The agent with a session, and a note of two lines.
async fn start(behaviour: impl Into<Behaviour>) -> Result<(Agent, NamedTempFile), Error> {
    let note = NamedTempFile::new()?;
    std::fs::write(&note, "one\ntwo\n")?;
    let mut agent = Agent::in_process(example::agent(None), behaviour);
    agent.initialize().await?;
    agent.new_session(&std::env::temp_dir()).await?;
    Ok((agent, note))
}

/// What each call shows last.
fn texts(agent: &Agent) -> Vec<String> {
    let calls = agent.client.session("note").calls();
    let text = |call: &&ToolCall| text_of(call.content.last()?).map(str::to_owned);
    calls.iter().filter_map(text).collect()
}

#[tokio::test]
async fn foreign_tools_live_the_whole_life_of_a_call() -> Result<(), Error> {
    let rejected = "Rejected by the user. It did not run.";
    for (permission, expected, lines) in [
        (PermissionOptionKind::AllowOnce, ["2 lines", "added", "3 lines", "added"], 4),
        (PermissionOptionKind::RejectOnce, ["2 lines", rejected, "2 lines", rejected], 2),
    ] {
        let (mut agent, note) = start(Permission::Select(permission)).await?;
        for _ in 0..2 {
            let path = note.path().to_str().unwrap();
            assert_eq!(agent.turn("note", path).await?, "end_turn");
        }
        assert_eq!(texts(&agent), expected);
        let text = std::fs::read_to_string(&note)?;
        assert_eq!(text.lines().count(), lines);
        let asked = agent.client.asked[0].request.tool_call.fields.content.as_deref();
        let Some([ToolCallContent::Diff(diff)]) = asked else { panic!("{asked:?}") };
        assert_eq!(diff.old_text.as_deref(), Some("one\ntwo\n"));
        assert_eq!(diff.new_text, "one\ntwo\none more line\n");
        let is_done = |line: &str| line.contains(r#""message":"counting","percent":100"#);
        assert!(agent.client.transcript().lines().any(is_done));
        agent.end().await?;
        assert_eq!(agent.client.faults_of(Side::Agent), []);
    }
    Ok(())
}

#[tokio::test]
async fn a_yes_that_comes_after_the_cancel_changes_nothing() -> Result<(), Error> {
    let behaviour = Behaviour { timing: Timing::AfterCancel, ..Behaviour::default() };
    let (mut agent, note) = start(behaviour).await?;
    let prompt = agent.prompt("note", note.path().to_str().unwrap()).await?;
    agent.until(|client| !client.asked.is_empty()).await?;
    agent.cancel("note").await?;
    assert_eq!(agent.stop_reason(&prompt).await?, "cancelled");
    agent.end().await?;
    let texts = texts(&agent);
    assert!(texts[1].starts_with("Cancelled "), "{texts:?}");
    assert_eq!(std::fs::read_to_string(&note)?, "one\ntwo\n");
    assert_eq!(agent.client.faults_of(Side::Agent), []);
    Ok(())
}
