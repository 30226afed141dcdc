//! Tools that are known only at run time, and an adapter for typed tools.

use std::fmt;

use acp_lifecycle::{ErasedPlan, Grant, PinnedPlan};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{
    CallDescription, Context, Invocation, Spec, Tool, ToolHint, ToolOutput, ToolPreview, ToolRole,
    default_paths_read_by_preview,
};
use crate::error::ToolError;
use crate::schema::shorten_generated_schema;

/// A tool whose name, description and schema are known only at run time, e.g. a tool of a server.
///
/// This trait is like [`Tool`], but the arguments are JSON and the plan is an [`ErasedPlan`]. Every
/// [`Tool`] also implements this trait. [`Registry::add_dyn`](crate::Registry::add_dyn) adds a
/// `DynTool` to a session.
///
/// Arguments are only validated against the schema if [`DynTool::accepts_unchanged`] does this.
///
/// ```
/// use acp_lifecycle::{ErasedPlan, Grant, PinnedPlan};
/// use acp_tools::{DynTool, Invocation, Registry, Spec, ToolError, ToolOutput, ToolPreview};
/// use futures::FutureExt as _;
/// use futures::future::BoxFuture;
/// use serde_json::{Value, json};
///
/// /// Returns its own arguments.
/// #[derive(Debug)]
/// struct Echo(String);
///
/// impl DynTool for Echo {
///     fn spec(&self) -> Spec {
///         Spec::new(self.0.clone(), "Returns its arguments.", acp_types::ToolKind::Other)
///     }
///
///     fn input_schema(&self) -> Value {
///         json!({ "type": "object", "properties": { "text": { "type": "string" } } })
///     }
///
///     fn preview<'a>(
///         &'a self,
///         args: Value,
///         _: Invocation<'a>,
///     ) -> BoxFuture<'a, Result<ToolPreview<ErasedPlan>, ToolError>> {
///         async move { Ok(ToolPreview::new(Box::new(args) as ErasedPlan)) }.boxed()
///     }
///
///     fn run<'a>(
///         &'a self,
///         pinned: PinnedPlan<ErasedPlan>,
///         grant: Grant,
///         _: Invocation<'a>,
///     ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
///         async move {
///             let plan = pinned.release(grant)?;
///             let Ok(args) = plan.downcast::<Value>() else {
///                 return Err(ToolError::fatal("a plan of another tool"));
///             };
///             Ok(ToolOutput::new(args.to_string()))
///         }
///         .boxed()
///     }
/// }
///
/// let mut registry = Registry::builtin();
/// registry.add_dyn(Box::new(Echo("echo".to_owned())));
/// assert!(registry.spec("echo").is_some());
/// # Ok::<(), acp_lifecycle::TitlesError>(())
/// ```
pub trait DynTool: fmt::Debug + Send + Sync {
    /// Returns the name, the description and other static data of the tool. Must always return the
    /// same value.
    fn spec(&self) -> Spec;

    /// Returns the purpose for which the agent itself may call the tool. By default, there is none.
    fn role(&self) -> Option<ToolRole> {
        None
    }

    /// Returns a usage hint that the model receives in addition to the description. By default,
    /// there is none.
    fn hint(&self) -> Option<ToolHint> {
        None
    }

    /// Returns the JSON Schema of the arguments. The schema must describe an object, and must
    /// always be the same. Models receive the schema without the keywords that begin with `x-`.
    fn input_schema(&self) -> Value;

    /// Returns whether the tool accepts the arguments unchanged. If this method returns `false`,
    /// the registry converts the arguments to the form of the schema. For example, numbers in
    /// strings become numbers. Unknown fields are removed and reported to the model.
    ///
    /// By default, all arguments are accepted unchanged.
    fn accepts_unchanged(&self, args: &Value) -> bool {
        let _ = args;
        true
    }

    /// Describes a call, based only on its arguments. Returns `None` if the arguments are invalid.
    ///
    /// By default, the title consists of the name of the tool and the arguments. If
    /// [`Spec::with_title_message_key`] sets another key, the title is the message with this key.
    fn describe(&self, args: &Value, context: &Context) -> Option<CallDescription> {
        let _ = context;
        Some(
            CallDescription::new(self.spec().title_message_key_unless_name())
                .with_argument("arguments", format_arguments_for_title(args)),
        )
    }

    /// Returns the paths of the files whose text the preview shows or quotes. See
    /// [`Tool::paths_read_by_preview`].
    ///
    /// By default, a tool that may change files returns the paths of [`describe`](Self::describe).
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the call is impossible. No permission is requested after this error.
    fn paths_read_by_preview<'a>(
        &'a self,
        args: Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Vec<String>, ToolError>> {
        let describe = || self.describe(&args, context);
        ready(Ok(default_paths_read_by_preview(self.spec().side_effects, describe))).boxed()
    }

    /// Determines the effects of a call. Must not have side effects. See [`Tool::preview`].
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the call is impossible. No permission is requested after this error.
    fn preview<'a>(
        &'a self,
        args: Value,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolPreview<ErasedPlan>, ToolError>>;

    /// Runs a call for which permission was given. See [`Tool::run`].
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the call failed.
    fn run<'a>(
        &'a self,
        pinned: PinnedPlan<ErasedPlan>,
        grant: Grant,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

impl<T: Tool> DynTool for T {
    fn spec(&self) -> Spec {
        Tool::spec(self)
    }

    fn role(&self) -> Option<ToolRole> {
        Tool::role(self)
    }

    fn hint(&self) -> Option<ToolHint> {
        Tool::hint(self)
    }

    fn input_schema(&self) -> Value {
        let mut schema = schemars::schema_for!(T::Args).to_value();
        if let Value::Object(schema) = &mut schema {
            // Some model servers require the keyword `properties`, even if the tool has no
            // arguments.
            schema.entry("properties").or_insert_with(|| json!({}));
        }
        shorten_generated_schema(&mut schema);
        schema
    }

    fn accepts_unchanged(&self, args: &Value) -> bool {
        T::Args::deserialize(args).is_ok()
    }

    fn describe(&self, args: &Value, context: &Context) -> Option<CallDescription> {
        let args = T::Args::deserialize(args).ok()?;
        Some(Tool::describe(self, &args, context))
    }

    fn paths_read_by_preview<'a>(
        &'a self,
        args: Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Vec<String>, ToolError>> {
        Box::pin(async move {
            Tool::paths_read_by_preview(self, &parse_args(self, args)?, context).await
        })
    }

    fn preview<'a>(
        &'a self,
        args: Value,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolPreview<ErasedPlan>, ToolError>> {
        Box::pin(async move {
            let draft = Tool::preview(self, parse_args(self, args)?, invocation).await?;
            Ok(ToolPreview {
                plan: Box::new(draft.plan) as ErasedPlan,
                locations: draft.locations,
                changes: draft.changes,
                effects: draft.effects,
                cwd: draft.cwd,
                pre_image: draft.pre_image,
                notes: draft.notes,
            })
        })
    }

    fn run<'a>(
        &'a self,
        pinned: PinnedPlan<ErasedPlan>,
        grant: Grant,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match pinned.downcast() {
                Some(pinned) => Tool::run(self, pinned, grant, invocation).await,
                None => Err(ToolError::fatal("a plan was given to another tool")),
            }
        })
    }
}

/// Deserializes the arguments of a tool. The error names the argument that is invalid.
fn parse_args<T: Tool>(tool: &T, args: Value) -> Result<T::Args, ToolError> {
    serde_path_to_error::deserialize(args).map_err(|error| {
        let (name, path) = (Tool::spec(tool).name, error.path().to_string());
        let place = if path == "." { String::new() } else { format!(" {path}:") };
        let what = error.into_inner();
        ToolError::invalid_arguments(format!("The arguments of {name} do not fit:{place} {what}."))
    })
}

/// Formats the arguments of a call for its title: `query: "x", limit: 3`.
fn format_arguments_for_title(args: &Value) -> String {
    let word = |(name, value): (&String, &Value)| match value {
        // The text is not escaped. An incomplete argument contains a placeholder, and an escaped
        // placeholder would not be found in the title.
        Value::String(text) => format!("{name}: \"{text}\""),
        other => format!("{name}: {other}"),
    };
    let words: Vec<_> = args.as_object().into_iter().flatten().map(word).collect();
    words.join(", ")
}
