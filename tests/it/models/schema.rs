//! Models without support for tool calls. These models write JSON that conforms to a JSON Schema.

use callboard_models::mock_server::{Dialect, MockReply, ModelServer, RecordedRequest};
use serde_json::json;

use crate::models::case::{count_runs, start_configured, strings};

#[tokio::test]
async fn json_that_conforms_to_the_schema_is_a_call() {
    for dialect in Dialect::ALL {
        let call = json!({"tool": "terminal", "arguments": {"command": "echo ran >> ran.txt"}});
        let call = call.to_string();
        let said = |text: &str| {
            let pieces = text.as_bytes().chunks(5).map(|piece| str::from_utf8(piece).unwrap());
            pieces.fold(MockReply::new(), MockReply::with_text).into()
        };
        let server = ModelServer::start([said(&call), said("{\"text\": \"It is \\\"done\\\".\"}")])
            .await
            .unwrap();
        let mut agent = start_configured(&server, dialect, "tools = 'json_schema'").await;
        assert_eq!(agent.turn("go").await, "end_turn");
        assert_eq!(
            (&*agent.session().message_text(), count_runs(&agent)),
            ("It is \"done\".", 1),
            "{dialect:?}"
        );
        agent.finish().await;

        let bodies: Vec<_> =
            server.reply_requests().iter().map(RecordedRequest::body_json).collect();
        assert!(bodies[0]["tools"].is_null(), "{dialect:?}: {}", bodies[0]["tools"]);
        let schema =
            ["/response_format", "/text/format", "/output_config", "/generationConfig", "/format"];
        let sent = schema.iter().find_map(|place| bodies[0].pointer(place)).expect("a schema");
        assert!(strings(sent).iter().any(|text| text == "terminal"), "{dialect:?}: {sent}");
        let history = strings(&bodies[1]);
        assert!(history.contains(&call), "{dialect:?}: {history:?}");
        assert!(history.iter().any(|text| text.starts_with("terminal result:")), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_reply_that_is_not_json_is_text() {
    let reply = MockReply::new().with_text("I would rather ").with_text("talk.").into();
    let server = ModelServer::start([reply]).await.unwrap();
    let mut agent = start_configured(&server, Dialect::OpenAiChat, "tools = 'json_schema'").await;
    assert_eq!(agent.turn("go").await, "end_turn");
    assert_eq!(agent.session().message_text(), "I would rather talk.");
    agent.finish().await;
}
