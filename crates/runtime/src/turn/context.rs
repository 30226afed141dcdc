//! What a turn does beside asking: its model hears what changed around the session, and the session
//! is kept within what its model takes.

use acp_tools::ToolRole;
use acp_types::ToolCallId;
use agent_client_protocol::v1::schema::ContentBlock;

use super::Turn;
use super::history::History;
use crate::context::{self, Made, Maker, ReadRules, System};
use crate::options::Chosen;
use crate::prompt;

impl Turn<'_> {
    /// Returns what stands before the messages; nothing for a model that does not listen.
    pub(super) fn system(&self, chosen: &Chosen) -> System {
        match context::is_told(&*chosen.model) {
            true => self.surroundings.system(chosen.mode, self.tools),
            false => System::default(),
        }
    }

    /// Makes room before the next request is too long for its model.
    pub(super) async fn keep_within(&self, history: &mut History) {
        let chosen = (self.chosen)();
        if !context::is_told(&*chosen.model) {
            return;
        }
        let weight = self.system(&chosen).weight + history.weight();
        if history.budget(&chosen).is_near(weight) {
            self.make_room(&chosen, history).await;
        }
    }

    /// Makes room after the model refused the request as too long. Returns whether there is more
    /// than before.
    pub(super) async fn make_more_room(&self, history: &mut History) -> bool {
        let chosen = (self.chosen)();
        if !context::is_told(&*chosen.model) {
            return self.leave_out_half(history);
        }
        let weight = self.system(&chosen).weight + history.weight();
        history.budget(&chosen).refused(weight);
        self.make_room(&chosen, history).await
    }

    async fn make_room(&self, chosen: &Chosen, history: &mut History) -> bool {
        let plan_tool = self.registry.for_role(ToolRole::Plan).map(|spec| spec.name);
        let maker = Maker {
            model: &*chosen.model,
            handle: self.handle,
            cancel: self.cancel,
            beside: self.system(chosen).weight,
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
        self.surroundings.forget();
        self.add_news(history).await;
        true
    }

    fn leave_out_half(&self, history: &mut History) -> bool {
        let is_shorter = history.shorten(history.byte_len() / 2);
        if is_shorter {
            self.send_notice(
                "The session is too long for the model: its older half is left out.".into(),
            );
        }
        is_shorter
    }

    /// Tells the model what it does not know yet of commands in the background, of what was written
    /// late, of the project's instructions and of files that changed.
    pub(super) async fn add_news(&self, history: &mut History) {
        self.add_ended_commands(history).await;
        self.add_late_writes(history).await;
        let chosen = (self.chosen)();
        if !context::is_told(&*chosen.model) {
            return;
        }
        let window = history.budget(&chosen).window();
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {}
            news = self.surroundings.news(window, self.secrets.all(), self.read_rules()) => {
                for message in news {
                    history.say(message);
                }
            }
        }
    }

    /// Reads the files that a prompt links to, and returns what there is to tell of them. The model
    /// is told of their surroundings, and of changes, as if it had read them itself.
    pub(super) async fn read_links(&self, blocks: &[ContentBlock]) -> Option<String> {
        let linked = async {
            let linked = prompt::linked(blocks, &self.context.workspace, self.read_rules()).await?;
            self.surroundings.saw(linked.files).await;
            Some(linked.text)
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            linked = linked => linked,
        }
    }

    fn read_rules(&self) -> ReadRules {
        ReadRules(self.handle.with(|session, _| session.rules().clone()))
    }

    /// Notes which files a call has read or written.
    pub(super) async fn touched(&self, call: &ToolCallId) {
        if let Some(report) = self.handle.tool_call(call) {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {}
                () = self.surroundings.touched(&report) => {}
            }
        }
    }
}
