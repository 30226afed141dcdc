//! `/model`: the available models, and changing the model.

use callboard_text::visible;

use super::{CommandContext, SlashCommand, choice_line};
use crate::options::{ChangeOrigin, Selection};

pub(super) fn command() -> SlashCommand {
    let description = "show the models, or change to another one";
    SlashCommand::new("model", description, |asked| Box::pin(run(asked))).with_hint("[NAME]")
}

async fn run(asked: CommandContext<'_>) -> String {
    let name = asked.arguments;
    if name.is_empty() {
        return list_models(asked);
    }
    let set = asked.options.set_model(name.to_owned(), ChangeOrigin::Command);
    match asked.cancel.run_until_cancelled(set).await {
        Some(Ok(())) => format!("The model is `{}` now.", current_model_name(asked)),
        Some(Err(error)) => {
            format!("The model is still `{}`: {}.", current_model_name(asked), visible(&error))
        }
        None => format!("The model is still `{}`.", current_model_name(asked)),
    }
}

/// Returns the name of the model, safe to show.
pub(super) fn current_model_name(asked: CommandContext<'_>) -> String {
    visible(asked.options.active().model.name())
}

fn list_models(asked: CommandContext<'_>) -> String {
    asked.options.refresh();
    let current = asked.options.active().model.name().to_owned();
    let lines = asked.options.with_selection(Selection::model_choices).into_iter().map(|model| {
        let name = Some(model.name).filter(|name| *name != model.value);
        let text: Vec<_> = name.into_iter().chain(model.description).collect();
        choice_line(&visible(&model.value), &text.join(". "), model.value == current)
    });
    let lines: String = lines.collect();
    format!("{lines}\n`/model NAME` changes to another one, even if it is not listed.")
}
