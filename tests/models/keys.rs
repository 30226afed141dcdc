//! A key is for the provider's header alone: no log, no update, no error, no child sees it.

use callboard::testing::models::{Answer, Call, Dialect, ModelServer, Reply};
use serde_json::json;

use crate::case::{KEY, done, provider, reach};
use crate::it::harness::scratch::Scratch;
use crate::it::harness::{Agent, Options};

#[tokio::test]
async fn a_key_is_told_to_its_provider_and_to_nobody_else() {
    for dialect in Dialect::ALL {
        // The server repeats the key, as some do in what they say of it.
        let wrong = format!("Incorrect API key provided: {KEY}");
        let env = "env; tr '\\0' '\\n' < /proc/self/environ";
        let server = ModelServer::start([
            Reply::new().call(Call::new("terminal", &json!({"command": env}))).into(),
            Reply::new().text(&format!("It is {KEY}.")).into(),
            Answer::error(401, &wrong),
            done(),
        ])
        .await
        .unwrap();
        let model = format!("{}/scripted", provider(dialect));
        let mut agent = Agent::start_changed(
            Scratch::new(),
            &["acp", "--model", &model],
            Options::default(),
            |command| {
                reach(command, &server, dialect);
                command.env("RUST_LOG", "trace").env("CALLBOARD_LOG", "trace");
            },
        );
        agent.initialize().await.unwrap();
        agent.new_session().await;
        assert_eq!(agent.turn("go").await, "end_turn");
        let prompt = agent.prompt("again").await;
        agent.answer(&prompt).await.unwrap_err();
        agent.finish().await;

        let asked = server.replies();
        let carries = |text: &str| text.contains(KEY);
        let header = asked[0].headers.iter().any(|(_, value)| carries(value));
        assert!(header || carries(&asked[0].path), "{dialect:?}: the provider needs the key");
        // What the command of the first call put out is part of the second request.
        assert!(
            asked[1].json().to_string().contains("XDG_STATE_HOME"),
            "{dialect:?}: {}",
            asked[1].json()
        );
        assert!(!carries(&asked[1].json().to_string()), "{dialect:?}: what a command could see");
        assert!(!carries(&agent.client.transcript()), "{dialect:?}: what the client was told");
        let log = agent.log();
        assert!(log.len() > 1000, "the log is on: {log}");
        let at = log.find(KEY).map(|at| log[at.saturating_sub(200)..at].to_owned());
        assert_eq!(at, None, "{dialect:?}: the log");
    }
}
