//! The command `/model`, which lists the available models, or selects another model.

use callboard_text::escape_invisible;

use super::{SlashCommand, SlashCommandContext, format_choice_line};
use crate::options::{ChangeOrigin, OptionSelection};

pub(super) fn command() -> SlashCommand {
    let description = "show the models, or change to another one";
    SlashCommand::new("model", description, |asked| Box::pin(show_or_set_model(asked)))
        .with_hint("[NAME]")
}

async fn show_or_set_model(asked: SlashCommandContext<'_>) -> String {
    let name = asked.arguments;
    if name.is_empty() {
        return list_models(asked);
    }
    let set = asked.options.open_and_set_model(name.to_owned(), ChangeOrigin::Command);
    match asked.cancel.run_until_cancelled(set).await {
        Some(Ok(())) => format!("The model is `{}` now.", current_model_name(asked)),
        Some(Err(error)) => {
            format!(
                "The model is still `{}`: {}.",
                current_model_name(asked),
                escape_invisible(&error)
            )
        }
        None => format!("The model is still `{}`.", current_model_name(asked)),
    }
}

/// Returns the name of the model, escaped for display.
pub(super) fn current_model_name(asked: SlashCommandContext<'_>) -> String {
    escape_invisible(asked.options.active_options().model.name())
}

fn list_models(asked: SlashCommandContext<'_>) -> String {
    asked.options.advertise_unrequested_changes();
    let current = asked.options.active_options().model.name().to_owned();
    let lines =
        asked.options.inspect_selection(OptionSelection::model_choices).into_iter().map(|model| {
            let name = Some(model.name).filter(|name| *name != model.value);
            let text: Vec<_> = name.into_iter().chain(model.description).collect();
            format_choice_line(
                &escape_invisible(&model.value),
                &text.join(". "),
                model.value == current,
            )
        });
    let lines: String = lines.collect();
    format!("{lines}\n`/model NAME` changes to another one, even if it is not listed.")
}
