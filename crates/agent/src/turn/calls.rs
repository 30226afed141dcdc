//! Runs the calls of one reply, as many side by side as their order allows.

use std::path::PathBuf;

use acp_lifecycle::{End, Ended, OpenCall, perform};
use acp_tools::Reach;
use acp_types::schema::v1::ImageContent;
use acp_types::{Content, Reason, Status, ToolCallPatch};
use callboard_models::{Call, Part, ToolResult};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::begun::Begun;
use super::order::{Order, Touch};
use super::{Turn, results};
use crate::limits;

impl Turn<'_> {
    /// Runs the calls of one reply in their [`Order`]. Returns the results, in the order in which
    /// the calls were made, and the fault, if one was fatal: after it no further call begins.
    pub(super) async fn run_calls(&self, calls: Vec<Begun>) -> (Vec<ToolResult>, Option<String>) {
        let mut order = Order::new(&self.touches(&calls).await);
        let mut results: Vec<_> = calls.iter().map(|begun| not_run(&begun.call)).collect();
        let mut waiting: Vec<_> = calls.into_iter().map(Some).collect();
        let (mut running, mut fault) = (FuturesUnordered::new(), None);
        loop {
            while fault.is_none()
                && running.len() < limits::MAX_PARALLEL_CALLS
                && let Some(place) = order.begin()
                && let Some(begun) = waiting[place].take()
            {
                running.push(async move { (place, self.run_call(begun).await) });
            }
            let Some((place, ended)) = running.next().await else { break };
            order.end(place);
            results[place].is_error = ended.status != Status::Completed;
            if ended.is_fatal {
                fault = Some(ended.text.clone());
            }
            results[place].text = ended.text;
            results[place].parts = ended.images.into_iter().map(part).collect();
        }
        // What never ran is dropped here, which ends it.
        drop(waiting);
        results::fit(&mut results);
        (results, fault)
    }

    /// Finds out what each call touches. A single call, or calls that change nothing, need no look
    /// at the disk.
    async fn touches(&self, calls: &[Begun]) -> Vec<Touch> {
        let reach = |begun: &Begun| Some(self.registry.spec(&begun.call.name)?.reach);
        let changes = calls.iter().any(|begun| reach(begun) == Some(Reach::Changes));
        let files: Vec<Option<Vec<PathBuf>>> = match changes && calls.len() > 1 {
            false => vec![None; calls.len()],
            true => self.files(calls).await,
        };
        let touch = |(begun, files)| match reach(begun) {
            // What nobody knows is refused at once.
            None | Some(Reach::Nothing) => Touch::Session(begun.call.name.clone()),
            Some(Reach::Reads) => Touch::Reads(files),
            Some(Reach::Changes) => Touch::Changes(files),
            Some(_) => Touch::Anything,
        };
        calls.iter().zip(files).map(touch).collect()
    }

    async fn files(&self, calls: &[Begun]) -> Vec<Option<Vec<PathBuf>>> {
        let named: Vec<_> = calls
            .iter()
            .map(|begun| {
                let args = begun.arguments().ok()?;
                Some(self.registry.locations(&begun.call.name, args, self.context))
            })
            .collect();
        let workspace = self.context.workspace.clone();
        let settle = move || {
            let settled = |location: &acp_types::Location| {
                let at = workspace.resolve_path(location.path()).ok()?;
                Some(workspace.settle(&at).ok()?.path().to_owned())
            };
            let files =
                |named: Option<Vec<_>>| named?.iter().map(settled).collect::<Option<Vec<_>>>();
            named.into_iter().map(|named| files(named).filter(|files| !files.is_empty())).collect()
        };
        let settled = tokio::select! {
            settled = tokio::task::spawn_blocking(settle) => settled.ok(),
            () = self.cancel.cancelled() => None,
        };
        // After a panic nobody knows the files, so that any may be touched; after a cancel no call
        // runs.
        settled.unwrap_or_else(|| vec![None; calls.len()])
    }

    async fn run_call(&self, begun: Begun) -> Ended {
        let (open, call, args) = begun.into_parts();
        let id = open.handle().id().clone();
        let ended = match args {
            Ok(args) => self.perform(open, &call.name, args).await,
            Err(text) => refuse(open, &call, text),
        };
        self.touched(&id).await;
        ended
    }

    /// Makes a call that the user asked for, not the model, which knows nothing of what it does.
    /// To be awaited to its end, which comes soon after a cancel. None if there is no such tool.
    pub(crate) async fn call(&self, name: &str, args: Value) -> Option<Ended> {
        self.registry.spec(name)?;
        let open = self.announce(name, name)?;
        Some(self.perform(open, name, args).await)
    }

    pub(super) async fn perform(&self, open: OpenCall, name: &str, args: Value) -> Ended {
        // A task of its own, so that a panic outside of the tool ends one call only.
        let tool = self.registry.call(name, args, self.context);
        let ended = tokio::spawn(perform(open, tool)).await.unwrap_or_else(|_| lost());
        if ended.ends_turn {
            // Its neighbours must not keep the turn from ending.
            self.cancel.cancel();
        }
        ended
    }
}

fn part(image: ImageContent) -> Part {
    Part::Image { media_type: image.mime_type, data: image.data }
}

fn not_run(call: &Call) -> ToolResult {
    ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        text: "It was not run, because the turn could not go on.".to_owned(),
        parts: Vec::new(),
        is_error: true,
    }
}

/// Ends a call whose arguments nobody can read.
fn refuse(open: OpenCall, call: &Call, text: String) -> Ended {
    let patch = ToolCallPatch::new()
        .raw_input(Value::String(call.arguments.clone()))
        .raw_output(json!({ "error": text, "code": "invalid_arguments" }))
        .append(Content::text(text.clone()));
    open.finish(End::failed(Reason::Error).with(patch));
    Ended::new(Status::Failed, Some(Reason::Error), text)
}

fn lost() -> Ended {
    let text = "The call was lost by a fault of the agent.";
    Ended::new(Status::Cancelled, Some(Reason::Dropped), text)
}
