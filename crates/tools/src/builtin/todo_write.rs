//! `todo_write`: replaces the list of steps that the model plans. The client shows this list as the
//! plan of the session.

use acp_lifecycle::{Grant, PinnedPlan};
use acp_types::{Plan, PlanEntry, PlanPriority, PlanStatus, ToolKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::ToolError;
use crate::limits::{MAX_TODO_BYTES, MAX_TODOS};
use crate::tool::{
    CallDescription, Context, Invocation, OutputDisplay, SideEffects, Spec, Tool, ToolHint,
    ToolOutput, ToolPreview, ToolRole,
};

/// The tool `todo_write`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TodoWrite;

/// The complete list of steps.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// All steps in order; an empty list removes the plan.
    #[schemars(extend("x-aliases" = ["plan", "items", "tasks", "steps", "list", "todo_list"]))]
    todos: Vec<Todo>,
}

// A step of the plan. Models receive no comment of this type.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Todo {
    #[schemars(extend("x-aliases" = ["text", "title", "task", "step", "description", "name", "subject"]))]
    content: String,
    #[schemars(extend("x-aliases" = ["state"], "x-fallback" = "pending"))]
    #[serde(default)]
    status: Status,
    /// Medium by default.
    #[schemars(extend("x-hidden" = true))]
    #[schemars(extend("x-aliases" = ["importance"], "x-fallback" = "medium"))]
    priority: Option<Priority>,
    /// An id that the model chooses.
    #[schemars(extend("x-hidden" = true))]
    id: Option<String>,
}

// The progress of a step. Models receive no comments of this type.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    #[default]
    #[schemars(extend("x-aliases" = ["todo", "open", "new", "not_started", "planned", "waiting"]))]
    Pending,
    #[schemars(extend("x-aliases" = ["doing", "active", "started", "current", "running", "wip"]))]
    InProgress,
    #[schemars(extend("x-aliases" = ["done", "complete", "finished", "closed", "resolved"]))]
    Completed,
    #[schemars(extend("x-aliases" = ["canceled", "skipped", "dropped", "abandoned"]))]
    Cancelled,
}

// The priority of a step. Models receive no comments of this type.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priority {
    High,
    Medium,
    Low,
}

impl Tool for TodoWrite {
    type Args = Args;
    type Plan = Plan;

    fn spec(&self) -> Spec {
        Spec {
            name: "todo_write".into(),
            aliases: &["todo"],
            description: "Replaces the plan that the user sees. Send every step each time, \
                          with its status."
                .into(),
            kind: ToolKind::Think,
            side_effects: SideEffects::Nothing,
            title: "todo-write".into(),
            display: OutputDisplay::Content,
        }
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::Plan)
    }

    fn hint(&self) -> Option<ToolHint> {
        let text = "\
            - Plan work of three steps or more with todo_write. Keep one step in progress, and mark \
            each as completed as soon as it is.";
        Some(ToolHint::new(text))
    }

    fn describe(&self, args: &Args, _: &Context) -> CallDescription {
        let done = args.todos.iter().filter(|todo| matches!(todo.status, Status::Completed));
        CallDescription::new("todo-write")
            .with_argument("done", done.count().to_string())
            .with_argument("count", args.todos.len().to_string())
    }

    async fn preview(&self, args: Args, _: Invocation<'_>) -> Result<ToolPreview<Plan>, ToolError> {
        if args.todos.len() > MAX_TODOS {
            let message = format!("A plan has at most {MAX_TODOS} steps. Join some of them.");
            return Err(ToolError::invalid_arguments(message));
        }
        let too_long = |todo: &Todo| todo.content.len() > MAX_TODO_BYTES;
        if let Some(at) = args.todos.iter().position(too_long) {
            let message = format!("Step {} is over {MAX_TODO_BYTES} bytes. Shorten it.", at + 1);
            return Err(ToolError::invalid_arguments(message));
        }
        let entries = args.todos.into_iter().map(plan_entry).collect();
        Ok(ToolPreview::new(Plan::new(entries)))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<Plan>,
        grant: Grant,
        invocation: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let plan = pinned.release(grant)?;
        let open = |entry: &&PlanEntry| {
            matches!(entry.status, PlanStatus::Pending | PlanStatus::InProgress)
        };
        let open = plan.entries.iter().filter(open).count();
        let is_open = if open == 1 { "step is open" } else { "steps are open" };
        let (text, steps) = (format!("The plan is set; {open} {is_open}."), plan.entries.len());
        invocation.call.session().send_plan(plan);
        Ok(ToolOutput {
            text,
            raw_output: Some(json!({ "steps": steps, "open": open })),
            ..ToolOutput::default()
        })
    }
}

fn plan_entry(todo: Todo) -> PlanEntry {
    let priority = match todo.priority {
        Some(Priority::High) => PlanPriority::High,
        Some(Priority::Low) => PlanPriority::Low,
        Some(Priority::Medium) | None => PlanPriority::Medium,
    };
    let status = match todo.status {
        Status::Pending => PlanStatus::Pending,
        Status::InProgress => PlanStatus::InProgress,
        Status::Completed => PlanStatus::Completed,
        Status::Cancelled => PlanStatus::Cancelled,
    };
    PlanEntry::new(todo.content, priority, status).with_id(todo.id)
}
