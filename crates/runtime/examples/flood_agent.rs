//! Callboard with one tool of its own, which tells more than any client wants to hear.
//!
//! It shows how an agent is made of the library: a `Tool`, its titles, and the same transport and
//! sessions as the shipped program has. `cargo xtask accept slow-client` and `never-reading` hold
//! it against clients that read little or nothing. Ask it for `tool flood {"patches": 1000000}`.

use std::error::Error;
use std::sync::Arc;

use acp_lifecycle::{Grant, Pinned, Titles};
use acp_tools::{
    Context, Description, Draft, Invocation, Output, Reach, Registry, Spec, Surface, Tool,
    ToolError,
};
use acp_types::{Exit, Progress, TerminalId, ToolKind};
use callboard_models::direct::Direct;
use callboard_runtime::{Agent, serve};
use schemars::JsonSchema;
use serde::Deserialize;

const TITLES: &str = "flood-pending = Flood\nflood = Flood with { $patches } patches\n";

/// Patches between two looks at whether anyone reads, or wants it to stop.
const AT_ONCE: u64 = 64;

/// Changes its own card, over and over.
#[derive(Debug)]
struct Flood;

/// How often.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// How many changes, every second one a line of output and the others progress.
    patches: u64,
}

impl Tool for Flood {
    type Args = Args;
    type Plan = u64;

    fn spec(&self) -> Spec {
        Spec::new("flood", "Changes its own card as often as it is told.", ToolKind::Other)
            .with_reach(Reach::Nothing)
            .with_surface(Surface::Terminal)
    }

    fn describe(&self, args: &Args, _: &Context) -> Description {
        Description::new("flood").with("patches", args.patches.to_string())
    }

    async fn preview(&self, args: Args, _: Invocation<'_>) -> Result<Draft<u64>, ToolError> {
        Ok(Draft::new(args.patches))
    }

    async fn run(
        &self,
        pinned: Pinned<u64>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<Output, ToolError> {
        let patches = pinned.release(grant)?;
        let call = invocation.call;
        let terminal = TerminalId::new(call.id().0.clone());
        let mut done = 0;
        while done < patches && !call.cancel().is_cancelled() {
            if done % AT_ONCE == 0 {
                // Who waits for a client has to hear that nobody waits for it any more.
                tokio::select! {
                    () = call.session().unstalled() => tokio::task::yield_now().await,
                    () = call.cancel().cancelled() => {}
                }
            }
            done += 1;
            if done % 2 == 0 {
                call.progress(Progress::new(done as f64).with_total(patches as f64));
            } else {
                call.terminal_output(&terminal, format!("line {done}\n").as_bytes());
            }
        }
        call.terminal_exit(&terminal, Exit { code: Some(0), signal: None });
        Ok(Output::new(format!("{done} patches")))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut tools = Registry::new(Titles::parse("en", TITLES)?);
    tools.add(Flood);
    let agent =
        Agent::new(Arc::new(Direct::default()), callboard_process::env::parent()).with_tools(tools);
    serve(agent, acp_transport::stdio()?).await.map_err(|error| error.message)?;
    Ok(())
}
