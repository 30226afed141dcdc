//! The command `/mcp`, which lists the MCP servers of the session, or restarts one of these
//! servers.

use std::fmt::Write as _;
use std::future::ready;

use acp_mcp::{McpServerState, McpServerStatus, McpServers};
use callboard_text::{count_with_noun, escape_invisible};

use super::{SlashCommand, SlashCommandContext};

pub(super) fn command() -> SlashCommand {
    let description = "list the MCP servers and their tools, or start a server again";
    SlashCommand::new("mcp", description, |asked| Box::pin(ready(list_or_restart(asked))))
        .with_hint("[restart NAME]")
        .with_availability(|_, tools| tools.servers().is_some())
}

fn list_or_restart(asked: SlashCommandContext<'_>) -> String {
    let Some(servers) = asked.turn.tools.servers() else {
        return "This session has no MCP servers.".to_owned();
    };
    match asked.arguments.split_once(char::is_whitespace) {
        None if asked.arguments.is_empty() => list_servers(servers),
        Some(("restart", name)) if asked.turn.tools.restart_server(name.trim()) => {
            format!("The MCP server {} is being started again.", name.trim())
        }
        Some(("restart", name)) => format!("There is no MCP server {}.", name.trim()),
        _ => "`/mcp` lists the servers, and `/mcp restart NAME` starts one again.".to_owned(),
    }
}

fn list_servers(servers: &McpServers) -> String {
    let mut text = String::new();
    for McpServerStatus { name, state, is_sandboxed, .. } in servers.statuses() {
        let mark = if is_sandboxed { " (sandboxed)" } else { "" };
        let name = format!("**{}**{mark}", escape_invisible(&name));
        // Writing to a string cannot fail.
        let _ = match state {
            McpServerState::Ready { tools } => {
                let count = count_with_noun(tools.len() as u64, "tool", "tools");
                let names: Vec<_> = tools.iter().map(|tool| escape_invisible(&tool.name)).collect();
                writeln!(text, "- {name}: {count}: {}", names.join(", "))
            }
            McpServerState::Starting => writeln!(text, "- {name}: starting"),
            McpServerState::Failed { reason } => {
                writeln!(text, "- {name}: does not run: {reason}")
            }
            _ => Ok(()),
        };
    }
    text
}
