//! An agent with one custom tool. The tool sends more updates than any client reads.
//!
//! The example shows how to build an agent with the library: a `Tool`, the tool's titles, and the
//! same transport and sessions as in the `callboard` program. `cargo xtask accept slow-client` and
//! `cargo xtask accept never-reading` test this example with clients that read slowly or not at
//! all. The prompt `tool flood {"patches": 1000000}` starts the flood.

use std::error::Error;
use std::sync::Arc;

use acp_lifecycle::{Grant, PinnedPlan, Titles};
use acp_tools::{
    CallDescription, Context, Invocation, OutputDisplay, Registry, SideEffects, Spec, Tool,
    ToolError, ToolOutput, ToolPreview,
};
use acp_types::{Progress, TerminalExit, TerminalId, ToolKind};
use callboard_models::direct::DirectModel;
use callboard_runtime::{CodingAgent, serve};
use schemars::JsonSchema;
use serde::Deserialize;

const TITLES: &str = "flood-pending = Flood\nflood = Flood with { $patches } patches\n";

/// Number of patches after which the tool waits for a slow client and checks for a cancel.
const PATCHES_PER_CHECK: u64 = 64;

/// A tool that updates its own call many times.
#[derive(Debug)]
struct FloodTool;

/// The arguments of the tool.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Number of updates; every second update is a line of output, the others are progress.
    patches: u64,
}

impl Tool for FloodTool {
    type Args = Args;
    type Plan = u64;

    fn spec(&self) -> Spec {
        Spec::new("flood", "Changes its own card as often as it is told.", ToolKind::Other)
            .with_side_effects(SideEffects::Nothing)
            .with_display(OutputDisplay::Terminal)
    }

    fn describe(&self, args: &Args, _: &Context) -> CallDescription {
        CallDescription::new("flood").with_argument("patches", args.patches.to_string())
    }

    async fn preview(&self, args: Args, _: Invocation<'_>) -> Result<ToolPreview<u64>, ToolError> {
        Ok(ToolPreview::new(args.patches))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<u64>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let patches = pinned.release(grant)?;
        let call = invocation.call;
        let terminal = TerminalId::new(call.id().0.clone());
        let mut done = 0;
        while done < patches && !call.cancel_token().is_cancelled() {
            if done % PATCHES_PER_CHECK == 0 {
                // While the tool waits for a client, it must still notice a cancel.
                tokio::select! {
                    () = call.session().wait_while_client_stalled() => tokio::task::yield_now().await,
                    () = call.cancel_token().cancelled() => {}
                }
            }
            done += 1;
            if done % 2 == 0 {
                call.report_progress(Progress::new(done as f64).with_total(patches as f64));
            } else {
                call.append_terminal_output(&terminal, format!("line {done}\n").as_bytes());
            }
        }
        call.exit_terminal(&terminal, TerminalExit { code: Some(0), signal: None });
        Ok(ToolOutput::new(format!("{done} patches")))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut tools = Registry::new(Titles::parse("en", TITLES)?);
    tools.add(FloodTool);
    let agent =
        CodingAgent::new(Arc::new(DirectModel::default()), callboard_process::env::own_env())
            .with_tools(tools);
    serve(agent, acp_transport::stdio()?).await.map_err(|error| error.message)?;
    Ok(())
}
