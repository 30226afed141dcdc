//! Tests of calls in a spawned task. The task's future must be `Send` and `'static`.

use std::sync::Arc;

use acp_lifecycle::{BatchCall, CancellationToken, Effects, SessionHandle, ToolMiddleware};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::stage::Stage;

/// The tools of an agent, found by name.
struct Tools(Vec<String>);

impl Tools {
    async fn run(&self, name: &str, args: Value) -> Result<String, String> {
        tokio::task::yield_now().await;
        let found = self.0.iter().find(|tool| *tool == name).ok_or("no such tool")?;
        Ok(format!("{found} of {args}"))
    }

    /// Runs a loop whose calls borrow their names from a model's reply.
    async fn turn(self: Arc<Self>, session: SessionHandle) -> Vec<Result<String, String>> {
        let (cancel, tools) = (CancellationToken::new(), ToolMiddleware::new(session));
        let tools = tools.with_effects(|_, _| Effects::empty());
        let reply: Vec<_> =
            ["one", "two"].map(|name| (format!("id-{name}"), name.to_owned())).into();
        let calls = reply.iter().map(|(id, name)| BatchCall::new(id, name, json!(1))).collect();
        let run = |name, args| self.run(name, args);
        let mut results = tools.call_batch(&"t".into(), calls, &cancel, run).await;
        for (_, name) in &reply {
            let find = |name: &str, args: Value| {
                let (tools, name) = (self.clone(), name.to_owned());
                async move { tools.run(&name, args).await }
            };
            results.push(tools.call(&"t".into(), "again", name, json!(2), &cancel, find).await);
        }
        results.into_iter().map(|result| result.map_err(|ended| ended.text)).collect()
    }
}

#[tokio::test]
async fn a_spawned_loop_may_borrow_the_names_of_its_calls() {
    let stage = Stage::new(None);
    let tools = Arc::new(Tools(vec!["one".to_owned()]));
    let results = tokio::spawn(tools.turn(stage.session.clone())).await.unwrap();
    let results: Vec<_> = results.iter().map(|it| it.as_deref().map_err(|it| &**it)).collect();
    let expected = [Ok("one of 1"), Err("no such tool"), Ok("one of 2"), Err("no such tool")];
    assert_eq!(results, expected);
}
