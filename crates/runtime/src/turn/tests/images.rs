//! Tests of images in results, with models that accept images and models that refuse them.

use acp_types::schema::v1::ImageContent;
use callboard_models::ToolResult;
use pretty_assertions::assert_eq;

use super::reply_endings::FakeModel;
use super::*;

/// Runs a turn with one call whose result is an image. The given number of requests with the result
/// fail with this error. Returns whether the turn succeeded, the number of requests, the results in
/// the history, and the updates to the client.
async fn turn_with_image(
    fault: &ModelError,
    refusals: usize,
) -> (bool, usize, Vec<ToolResult>, ClientRecord) {
    let shows = r#"{"path": "/a", "says": "an image"}"#;
    let first = [call_with("a", "look", shows), vec![ModelEvent::Stop(ModelStopReason::ToolCalls)]]
        .concat();
    let refuses = vec![vec![ModelEvent::Error(fault.clone())]; refusals];
    let model = Arc::new(FakeModel::new([vec![first], refuses].concat()));
    let (stage, mut history) = (TurnFixture::new(), History::default());
    let ending = stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await;
    check_valid(&history);
    let results = history.messages().iter().find_map(|message| match &**message {
        ChatMessage::ToolResults(results) => Some(results.clone()),
        _ => None,
    });
    (ending.is_ok(), model.requests(), results.unwrap(), stage.end().await)
}

/// Returns the error of a provider that refuses an image.
fn refused_image() -> ModelError {
    error(ModelErrorKind::InvalidRequest)
}

#[tokio::test(start_paused = true)]
async fn an_image_in_a_result_is_sent_to_the_model() {
    let (is_ok, requests, results, _) = turn_with_image(&refused_image(), 0).await;
    assert_eq!((is_ok, requests), (true, 2));
    assert_eq!(results[0].text, "an image");
    let (media_type, data) = ("image/png".to_owned(), "AA==".to_owned());
    assert_eq!(results[0].parts, [ContentPart::Image { media_type, data }]);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_refused_image_is_repeated_without_the_image() {
    let too_large = error(ModelErrorKind::ContextTooLong).with_status(413);
    for (fault, refusals) in [(refused_image(), 1), (refused_image(), 2), (too_large, 1)] {
        let (is_ok, requests, results, seen) = turn_with_image(&fault, refusals).await;
        assert_eq!((is_ok, requests), (refusals < 2, 3));
        assert_eq!(results[0].parts, []);
        assert!(results[0].text.starts_with("an image\n[The model does not"), "{results:?}");
        assert!(seen.thought.contains("sent again without it"), "{}", seen.thought);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_has_another_cause_is_not_blamed_on_an_image() {
    for (kind, status) in [(ModelErrorKind::Other, 429), (ModelErrorKind::Auth, 403)] {
        let fault = error(kind).with_status(status);
        let (is_ok, requests, results, seen) = turn_with_image(&fault, 1).await;
        assert_eq!((is_ok, requests), (false, 2), "{fault}");
        assert_eq!((&*results[0].text, results[0].parts.len()), ("an image", 1), "{fault}");
        assert!(!seen.thought.contains("image"), "{}", seen.thought);
    }
}

/// Returns the number of images in the prompts and results of a request.
fn count_images(messages: &[Arc<ChatMessage>]) -> usize {
    let images = |parts: &[ContentPart]| {
        parts.iter().filter(|part| matches!(part, ContentPart::Image { .. })).count()
    };
    let counts = messages.iter().map(|message| match &**message {
        ChatMessage::User(parts) => images(parts),
        ChatMessage::ToolResults(results) => results.iter().map(|it| images(&it.parts)).sum(),
        _ => 0,
    });
    counts.sum()
}

#[tokio::test(start_paused = true)]
async fn after_a_switch_to_a_model_without_images_older_images_are_omitted() {
    let shows = r#"{"path": "/a", "says": "an image"}"#;
    let look = [call_with("a", "look", shows), vec![ModelEvent::Stop(ModelStopReason::ToolCalls)]];
    let seen = vec![ModelEvent::Text("I see.".into()), ModelEvent::Stop(ModelStopReason::EndTurn)];
    let refusal = vec![ModelEvent::Error(refused_image())];
    let replies = vec![look.concat(), seen.clone(), refusal.clone(), seen, refusal];
    let model = Arc::new(FakeModel::new(replies).with_images());
    let (stage, mut history) = (TurnFixture::new(), History::default());
    let image = || ContentBlock::Image(ImageContent::new("AAAA", "image/png"));
    let prompt = vec![ContentBlock::from("look at it"), image()];
    stage.run(&model, &mut history, prompt).await.unwrap();
    stage.run(&model, &mut history, vec![ContentBlock::from("and now?")]).await.unwrap();
    check_valid(&history);
    let asked = model.asked.lock().unwrap().clone();
    let images: Vec<_> = asked.iter().map(|messages| count_images(messages)).collect();
    assert_eq!(images, [1, 2, 2, 0]);
    assert_eq!(history.messages().len(), asked[3].len() + 1);
    // A refused image of the newest prompt is reported to the user.
    let before = history.messages().to_vec();
    stage.run(&model, &mut history, vec![image()]).await.unwrap_err();
    assert_eq!((model.requests(), history.messages().to_vec()), (5, before));
    let thought = stage.end().await.thought;
    assert_eq!(thought.matches("without the images of this session").count(), 1, "{thought}");
}

#[tokio::test(start_paused = true)]
async fn images_that_are_not_the_cause_of_a_refusal_stay() {
    let seen = vec![ModelEvent::Text("I see.".into()), ModelEvent::Stop(ModelStopReason::EndTurn)];
    let refusal = vec![ModelEvent::Error(refused_image())];
    let model = Arc::new(FakeModel::new(vec![seen, refusal.clone(), refusal]).with_images());
    let (stage, mut history) = (TurnFixture::new(), History::default());
    let image = vec![ContentBlock::Image(ImageContent::new("AAAA", "image/png"))];
    stage.run(&model, &mut history, image).await.unwrap();
    stage.run(&model, &mut history, vec![ContentBlock::from("and now?")]).await.unwrap_err();
    let asked = model.asked.lock().unwrap().clone();
    let images: Vec<_> = asked.iter().map(|messages| count_images(messages)).collect();
    assert_eq!((images, count_images(history.messages())), (vec![1, 1, 0], 1));
    drop(stage.end().await);
}

#[tokio::test(start_paused = true)]
async fn a_refused_image_of_the_newest_prompt_does_not_omit_older_images() {
    let seen = vec![ModelEvent::Text("I see.".into()), ModelEvent::Stop(ModelStopReason::EndTurn)];
    let replies = vec![seen, vec![ModelEvent::Error(refused_image())]];
    let model = Arc::new(FakeModel::new(replies).with_images());
    let (stage, mut history) = (TurnFixture::new(), History::default());
    let image = || vec![ContentBlock::Image(ImageContent::new("AAAA", "image/png"))];
    stage.run(&model, &mut history, image()).await.unwrap();
    stage.run(&model, &mut history, image()).await.unwrap_err();
    assert_eq!((model.requests(), count_images(history.messages())), (2, 1));
    drop(stage.end().await);
}

/// This image is larger than the maximum length of a line to the client.
#[tokio::test(start_paused = true)]
async fn an_image_of_two_megabytes_reaches_the_model() {
    let mut stage = TurnFixture::new();
    stage.tools = OfferedTools::new(Registry::builtin());
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    png.resize(2_000_000, 0);
    std::fs::write(stage.folder.path().join("shot.png"), &png).unwrap();
    let reads = call_with("a", "read_file", r#"{"path": "shot.png"}"#);
    let model = Arc::new(FakeModel::new(vec![
        [reads, vec![ModelEvent::Stop(ModelStopReason::ToolCalls)]].concat(),
    ]));
    let mut history = History::default();
    stage.run(&model, &mut history, vec![ContentBlock::from("go")]).await.unwrap();
    let asked = model.asked.lock().unwrap().clone();
    let Some(ChatMessage::ToolResults(results)) = asked[1].last().map(|message| &**message) else {
        panic!("no results were told")
    };
    let [ContentPart::Image { media_type, data }] = &results[0].parts[..] else {
        panic!("{results:?}")
    };
    assert_eq!((media_type.as_str(), data.len()), ("image/png", png.len().div_ceil(3) * 4));
    assert!(data.starts_with("iVBORw0KGgoAAAAA"));
    let seen = stage.end().await;
    let shown = serde_json::to_string(seen.client_state.observed_calls().next().unwrap()).unwrap();
    assert!(shown.contains("resource_link") && shown.len() < 4_096, "{shown}");
}
