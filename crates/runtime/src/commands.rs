//! The slash commands. The agent itself answers some commands. The other commands are the prompts
//! of a model that accepts only commands.

mod effort;
mod help;
mod mcp;
mod mode;
mod model;
mod permissions;
mod rewind;
mod undo;
mod usage;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use acp_lifecycle::{CancellationToken, SessionHandle, ToolUsage};
use acp_tools::Context;
use acp_types::{AvailableCommand, SessionStatePart};
use futures::future::BoxFuture;

use crate::offered_tools::OfferedTools;
use crate::options::{ActiveOptions, SessionOptions};
use crate::permission::RulePersister;
use crate::rewind::SessionRewind;
use crate::turn::Turn;
use crate::usage_totals::UsageTotals;

/// A prompt such as `/usage` that the agent itself answers, with any model.
///
/// ```
/// use callboard_runtime::SlashCommand;
///
/// let ticket = SlashCommand::new("ticket", "open a ticket", |command| {
///     Box::pin(async move { format!("Opened: {}", command.arguments) })
/// });
/// // For `CodingAgent::with_slash_command`.
/// let ticket = ticket.with_hint("TITLE");
/// ```
#[derive(Clone)]
pub struct SlashCommand {
    name: Cow<'static, str>,
    description: Cow<'static, str>,
    hint: Cow<'static, str>,
    is_offered: fn(&ActiveOptions, &OfferedTools) -> bool,
    /// Whether the command needs a stored session.
    needs_storage: bool,
    run: Arc<CommandFn>,
}

type CommandFn = dyn for<'a> Fn(SlashCommandContext<'a>) -> BoxFuture<'a, String> + Send + Sync;

impl SlashCommand {
    /// Creates a command from its name (without the slash), a short description, and a function
    /// that runs the command and returns the answer in Markdown. The agent awaits the function to
    /// its end, even after a cancel.
    #[must_use]
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        run: impl for<'a> Fn(SlashCommandContext<'a>) -> BoxFuture<'a, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            hint: Cow::default(),
            is_offered: |_, _| true,
            needs_storage: false,
            run: Arc::new(run),
        }
    }

    /// Sets the placeholder for the arguments, such as `[NUMBER]`.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Lists the command only if the model or the session supports it. If the command is used
    /// anyway, its answer says that the command is not supported.
    fn with_availability(self, is_offered: fn(&ActiveOptions, &OfferedTools) -> bool) -> Self {
        Self { is_offered, ..self }
    }

    /// Lists the command only in sessions that are stored.
    fn with_storage_required(self) -> Self {
        Self { needs_storage: true, ..self }
    }

    /// Returns the name and the hint, as in `/effort [LEVEL]`.
    fn usage(&self) -> String {
        format!("/{} {}", self.name, self.hint).trim_end().to_owned()
    }
}

impl fmt::Debug for SlashCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SlashCommand").field(&self.usage()).finish()
    }
}

/// The slash commands of an agent.
#[derive(Clone, Debug)]
pub(crate) struct SlashCommands(Arc<Vec<SlashCommand>>);

impl SlashCommands {
    /// Returns the built-in commands. An embedder may remove built-in commands.
    pub(crate) fn builtin() -> Self {
        let all = [
            model::command(),
            effort::command(),
            mode::command(),
            permissions::command(),
            mcp::command(),
            undo::command(),
            rewind::rewind_command(),
            rewind::fork_command(),
            usage::command(),
            help::command(),
        ];
        Self(Arc::new(all.into()))
    }

    /// Adds a command, or replaces the command of the same name.
    pub(crate) fn add_or_replace(&mut self, command: SlashCommand) {
        let all = Arc::make_mut(&mut self.0);
        match all.iter_mut().find(|other| other.name == command.name) {
            Some(other) => *other = command,
            None => all.push(command),
        }
    }

    /// If the session is not stored, removes the commands that need a stored session.
    pub(crate) fn remove_needing_storage_unless(&mut self, is_stored: bool) {
        Arc::make_mut(&mut self.0).retain(|command| is_stored || !command.needs_storage);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.0).retain(|command| command.name != name);
    }

    /// Returns the client's command menu: these commands, and the commands of the model. A model
    /// that accepts any text as a prompt has no commands.
    pub(crate) fn available_commands(
        &self,
        chosen: &ActiveOptions,
        tools: &OfferedTools,
    ) -> SessionStatePart {
        let ours = self.offered_commands(chosen, tools);
        let ours = ours.map(|it| available_command(&it.name, &it.description, &it.hint));
        let models = chosen.model.commands(&tools.specs()).into_iter();
        let models = models.filter(|it| self.0.iter().all(|ours| ours.name != it.name));
        let models = models.map(|it| available_command(&it.name, &it.description, &it.hint));
        SessionStatePart::Commands(models.chain(ours).collect())
    }

    fn offered_commands(
        &self,
        chosen: &ActiveOptions,
        tools: &OfferedTools,
    ) -> impl Iterator<Item = &SlashCommand> {
        self.0.iter().filter(|command| (command.is_offered)(chosen, tools))
    }

    /// Returns the command with which a prompt begins, and the arguments after its name.
    pub(crate) fn find_command<'a>(&self, prompt: &'a str) -> Option<(&SlashCommand, &'a str)> {
        let line = prompt.trim().strip_prefix('/')?;
        let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Some((self.0.iter().find(|command| command.name == name)?, arguments.trim()))
    }
}

/// The input of a slash command: its arguments, and the session in which it is used.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct SlashCommandContext<'a> {
    /// The text after the command's name, without surrounding white space.
    pub arguments: &'a str,
    /// The calls, the rules and the usage of the session.
    pub session: &'a SessionHandle,
    /// The files that tools may reach, and the environment of commands.
    pub context: &'a Context,
    /// Cancelled together with the turn.
    pub cancel: &'a CancellationToken,
    /// The turn in which the command is used.
    pub(crate) turn: Turn<'a>,
    pub(crate) options: &'a Arc<SessionOptions>,
    pub(crate) commands: &'a SlashCommands,
    /// Saves the session's rules; `None` if rules are not saved.
    pub(crate) rule_persister: Option<&'a Arc<RulePersister>>,
    /// Token usage of the session's replies so far.
    pub(crate) usage_totals: UsageTotals,
    /// For each tool, the calls of the session that ended in earlier processes.
    pub(crate) earlier_calls: &'a [(String, ToolUsage)],
    /// The rewinds of the session; `None` if the session is not stored.
    pub(crate) rewind: Option<&'a SessionRewind>,
    /// The number of the prompt that contains the command.
    pub(crate) prompt: u32,
}

impl<'a> SlashCommandContext<'a> {
    /// Creates the context of a command in a turn; [`run_slash_command`] finds the command.
    pub(crate) fn new(
        turn: Turn<'a>,
        options: &'a Arc<SessionOptions>,
        commands: &'a SlashCommands,
        rule_persister: Option<&'a Arc<RulePersister>>,
        (usage_totals, earlier_calls): (UsageTotals, &'a [(String, ToolUsage)]),
        (rewind, prompt): (Option<&'a SessionRewind>, u32),
    ) -> Self {
        let (session, context, cancel) = (turn.handle, turn.context, turn.cancel);
        Self {
            arguments: "",
            session,
            context,
            cancel,
            turn,
            options,
            commands,
            rule_persister,
            usage_totals,
            earlier_calls,
            rewind,
            prompt,
        }
    }
}

impl fmt::Debug for SlashCommandContext<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("SlashCommandContext");
        shown.field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

fn available_command(name: &str, description: &str, hint: &str) -> AvailableCommand {
    let command = AvailableCommand::new(name, description);
    if hint.is_empty() { command } else { command.with_hint(hint) }
}

/// Runs the slash command that a prompt names, and returns the command's answer. The future must be
/// awaited to its end, even after a cancel, so that the command's own tool call can end first.
/// After a cancel, the future ends soon.
pub(crate) async fn run_slash_command(
    prompt: &str,
    asked: SlashCommandContext<'_>,
) -> Option<String> {
    let (command, arguments) = asked.commands.find_command(prompt)?;
    let saved = async || match asked.rule_persister {
        Some(keeper) => asked.cancel.run_until_cancelled(keeper.save_pending_changes()).await,
        None => Some(Ok(())),
    };
    // A rule that cannot be saved applies only to the session. Pending saves are awaited, so that
    // the command sees the final scope of each rule. The persister logs failures of these saves.
    if saved().await.is_none() {
        return Some("Cancelled before it began.".to_owned());
    }
    let mut said = (command.run)(SlashCommandContext { arguments, ..asked }).await;
    if let Some(Err(error)) = saved().await {
        said.push_str(&format!("\nThe stored rules could not be changed: {error}"));
    }
    Some(said)
}

/// Formats one line of a list of choices.
fn format_choice_line(value: &str, text: &str, is_chosen: bool) -> String {
    let mark = if is_chosen { " ← now" } else { "" };
    match text {
        "" => format!("- `{value}`{mark}\n"),
        text => format!("- `{value}`: {text}{mark}\n"),
    }
}
