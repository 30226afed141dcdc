//! Paths in the arguments of foreign calls.

use std::path::{Path, PathBuf};

use acp_lifecycle::{Effect, Effects, ToolMiddleware};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::stage::Stage;

async fn tool(_: &str, args: Value) -> Result<String, String> {
    Ok(args["path"].to_string())
}

fn reads(_: &str, args: &Value) -> Effects {
    args["path"].as_str().map_or(Effect::Unknown, |path| Effect::Read(path.into())).into()
}

#[tokio::test(start_paused = true)]
async fn files_outside_of_the_sessions_folder_are_asked_about() {
    for (path, requests) in [
        ("/p/a", 0),
        ("a", 0),
        ("./b/../a", 0),
        ("/other/a", 1),
        ("../other", 1),
        ("/p/../other", 1),
        ("/pp/a", 1),
    ] {
        let stage = Stage::new(Some("allow"));
        let tools = ToolMiddleware::new(stage.session.clone()).with_effects(reads);
        let args = json!({ "path": path });
        tools.call(&"t".into(), "a", "read", args, &stage.cancel, tool).await.unwrap();
        assert_eq!(stage.received.lock().unwrap().asked.len(), requests, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn marks_of_the_callback_remain() {
    let stage = Stage::new(Some("allow"));
    let marked = |name: &str, args: &Value| {
        reads(name, args).with_outside_path_marks(|path| path == Path::new("/p/link"))
    };
    let tools = ToolMiddleware::new(stage.session.clone()).with_effects(marked);
    let args = json!({ "path": "/p/link" });
    tools.call(&"t".into(), "a", "read", args, &stage.cancel, tool).await.unwrap();
    assert_eq!(stage.received.lock().unwrap().asked.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn path_arguments_are_resolved_and_shown_as_the_model_wrote_them() {
    let stage = Stage::new(Some("allow"));
    let resolve = |path: &str| match path {
        "secret" => Err("The path secret is outside.".to_owned()),
        path => Ok(PathBuf::from("/p/real").join(path)),
    };
    let tools = ToolMiddleware::new(stage.session.clone())
        .with_effects(reads)
        .with_path_arguments(["path", "to"], resolve);
    let call =
        async |id, args| tools.call(&"t".into(), id, "read", args, &stage.cancel, tool).await;
    assert_eq!(call("a", json!({ "path": "x", "to": 1 })).await.unwrap(), "\"/p/real/x\"");
    let ended = call("b", json!({ "path": "secret" })).await.unwrap_err();
    assert_eq!(ended.text, "The path secret is outside.");
    assert_eq!(stage.received.lock().unwrap().asked.len(), 0);
    let (shown, _) = stage.shown("t/a").await;
    assert_eq!(shown["rawInput"], json!({ "path": "x", "to": 1 }));
    assert!(shown["title"].as_str().unwrap().contains("path: \"x\""), "{shown}");
}
