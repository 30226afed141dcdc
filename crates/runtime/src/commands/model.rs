//! `/model`: which models there are, and taking another one up.

use callboard_text::visible;

use super::{CommandContext, SlashCommand, choice};
use crate::options::{By, Selection};

pub(super) fn command() -> SlashCommand {
    let description = "show the models, or go on with another one";
    SlashCommand::new("model", description, |asked| Box::pin(run(asked))).with_hint("[NAME]")
}

async fn run(asked: CommandContext<'_>) -> String {
    let name = asked.arguments;
    if name.is_empty() {
        return list(asked);
    }
    let set = asked.options.set_model(name.to_owned(), By::Command);
    match asked.cancel.run_until_cancelled(set).await {
        Some(Ok(())) => format!("The model is `{}` now.", current(asked)),
        Some(Err(error)) => {
            format!("The model is still `{}`: {}.", current(asked), visible(&error))
        }
        None => format!("The model is still `{}`.", current(asked)),
    }
}

/// The name of the model, safe to show.
pub(super) fn current(asked: CommandContext<'_>) -> String {
    visible(asked.options.chosen().model.name())
}

fn list(asked: CommandContext<'_>) -> String {
    asked.options.refresh();
    let current = asked.options.chosen().model.name().to_owned();
    let lines = asked.options.with(Selection::models).into_iter().map(|model| {
        let name = Some(model.name).filter(|name| *name != model.value);
        let text: Vec<_> = name.into_iter().chain(model.description).collect();
        choice(&visible(&model.value), &text.join(". "), model.value == current)
    });
    let lines: String = lines.collect();
    format!("{lines}\n`/model NAME` goes on with another one, also one that is not in the list.")
}
