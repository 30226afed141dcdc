//! What a turn does beside asking: its model hears what changed around the session, and the session
//! is kept within what its model takes.

use acp_tools::ToolRole;
use acp_types::ToolCallId;
use agent_client_protocol::v1::schema::ContentBlock;

use super::history::History;
use super::{Turn, updates};
use crate::context::{self, Made, Maker, ReadRules, System};
use crate::options::Chosen;
use crate::prompt;

/// Returns what stands before the messages; nothing for a model that does not listen.
pub(super) fn system(turn: &Turn<'_>, chosen: &Chosen) -> System {
    match context::is_told(&*chosen.model) {
        true => turn.surroundings.system(chosen.mode, turn.tools),
        false => System::default(),
    }
}

/// Makes room before the next request is too long for its model.
pub(super) async fn keep_within(turn: &Turn<'_>, history: &mut History) {
    let chosen = (turn.chosen)();
    if !context::is_told(&*chosen.model) {
        return;
    }
    let weight = system(turn, &chosen).weight + history.weight();
    if history.budget(&chosen).is_near(weight) {
        make_room(turn, &chosen, history).await;
    }
}

/// Makes room after the model refused the request as too long. Returns whether there is more
/// than before.
pub(super) async fn make_more_room(turn: &Turn<'_>, history: &mut History) -> bool {
    let chosen = (turn.chosen)();
    if !context::is_told(&*chosen.model) {
        return leave_out_half(turn, history);
    }
    let weight = system(turn, &chosen).weight + history.weight();
    history.budget(&chosen).refused(weight);
    make_room(turn, &chosen, history).await
}

async fn make_room(turn: &Turn<'_>, chosen: &Chosen, history: &mut History) -> bool {
    let plan_tool = turn.registry.for_role(ToolRole::Plan).map(|spec| spec.name);
    let maker = Maker {
        model: &*chosen.model,
        handle: turn.handle,
        cancel: turn.cancel,
        beside: system(turn, chosen).weight,
        index: history.requests(chosen.taken_up),
        plan_tool: plan_tool.as_deref(),
    };
    let budget = history.budget(chosen).clone();
    let mut messages = history.messages().to_vec();
    let made = maker.make(&budget, &mut messages).await;
    match made {
        Made::Nothing => return false,
        Made::Cancelled { asked } => {
            history.count_requests(chosen.taken_up, asked);
            return false;
        }
        Made::Room { asked, usage } => {
            history.count_requests(chosen.taken_up, asked);
            if let Some(usage) = usage {
                history.count_usage(&usage);
            }
        }
    }
    history.replace(messages);
    // What was told may be among what was left out.
    turn.surroundings.forget();
    add_news(turn, history).await;
    true
}

fn leave_out_half(turn: &Turn<'_>, history: &mut History) -> bool {
    let is_shorter = history.shorten(history.byte_len() / 2);
    if is_shorter {
        updates::send_notice(
            turn.handle,
            "The session is too long for the model: its older half is left out.".into(),
        );
    }
    is_shorter
}

/// Tells the model what it does not know yet of commands in the background, of what was written
/// late, of the project's instructions and of files that changed.
pub(super) async fn add_news(turn: &Turn<'_>, history: &mut History) {
    updates::add_ended_commands(turn, history).await;
    updates::add_late_writes(turn, history).await;
    let chosen = (turn.chosen)();
    if !context::is_told(&*chosen.model) {
        return;
    }
    let window = history.budget(&chosen).window();
    tokio::select! {
        biased;
        () = turn.cancel.cancelled() => {}
        news = turn.surroundings.news(window, turn.secrets.all(), read_rules(turn)) => {
            for message in news {
                history.say(message);
            }
        }
    }
}

/// Reads the files that a prompt links to, and returns what there is to tell of them. The model
/// is told of their surroundings, and of changes, as if it had read them itturn.
pub(super) async fn read_links(turn: &Turn<'_>, blocks: &[ContentBlock]) -> Option<String> {
    let linked = async {
        let linked = prompt::linked(blocks, &turn.context.workspace, read_rules(turn)).await?;
        turn.surroundings.saw(linked.files).await;
        Some(linked.text)
    };
    tokio::select! {
        biased;
        () = turn.cancel.cancelled() => None,
        linked = linked => linked,
    }
}

fn read_rules(turn: &Turn<'_>) -> ReadRules {
    ReadRules(turn.handle.with(|session, _| session.rules().clone()))
}

/// Notes which files a call has read or written.
pub(super) async fn touched(turn: &Turn<'_>, call: &ToolCallId) {
    if let Some(report) = turn.handle.tool_call(call) {
        tokio::select! {
            biased;
            () = turn.cancel.cancelled() => {}
            () = turn.surroundings.touched(&report) => {}
        }
    }
}
