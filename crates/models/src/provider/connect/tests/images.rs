//! Tests of images in tool results, in the requests of each dialect.

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::{ContentPart, ModelToolCall};

/// Requests a reply to a tool result that contains an image. Returns the request that the provider
/// receives.
async fn sent_request(provider: Provider, name: &str) -> Value {
    let (url, asked) = serve_responses(vec![format_response("400 Bad", "", "{}")]).await;
    let model = create_model(ProviderSettings {
        base_url: Some(url),
        ..ProviderSettings::new(provider, name)
    });
    let (call_id, name) = ("call_1".to_owned(), "read_file".to_owned());
    let call =
        ModelToolCall { id: call_id.clone(), name: name.clone(), arguments: "{}".to_owned() };
    let image = ContentPart::Image { media_type: "image/png".to_owned(), data: data() };
    let result = ToolResult {
        call_id,
        name,
        text: "a picture".to_owned(),
        parts: vec![image],
        is_error: false,
    };
    let (text, thought) = (String::new(), String::new());
    let messages = vec![
        ChatMessage::user("look"),
        ChatMessage::Assistant { text, thought, calls: vec![call], replay: None },
        ChatMessage::ToolResults(vec![result]),
    ];
    collect_events(&model, request(messages)).await;
    asked.await.unwrap().remove(0).body
}

/// Returns image data that is long enough to be replaced by a placeholder.
fn data() -> String {
    "iVBORw0KGgoA".repeat(100)
}

#[tokio::test]
async fn an_image_is_sent_where_the_dialect_accepts_it() {
    for (provider, pointer, before) in [
        (Provider::Anthropic, "/messages/2/content/0/content/1/source/data", ""),
        (Provider::OpenAi, "/messages/4/content/1/image_url/url", "data:image/png;base64,"),
        (Provider::OpenAiResponses, "/input/2/output/1/image_url", "data:image/png;base64,"),
        (Provider::Gemini, "/contents/2/parts/0/functionResponse/parts/0/inlineData/data", ""),
        (Provider::Ollama, "/messages/4/images/0", ""),
    ] {
        let body = sent_request(provider, NAME).await;
        let expected = Value::from(format!("{before}{}", data()));
        assert_eq!(body.pointer(pointer), Some(&expected), "{provider:?}: {body:#}");
        assert_eq!(body.to_string().matches(&data()).count(), 1, "{provider:?}: {body:#}");
    }
}

#[tokio::test]
async fn a_model_without_images_gets_a_placeholder() {
    let body = sent_request(Provider::OpenAi, "gpt-3.5-turbo").await.to_string();
    assert!(!body.contains(&data()) && body.contains("[An image was here"), "{body}");
}
