//! A permission request: everything that is being decided on, none of it cut, and the options.

use acp_types::schema::v1::{PermissionOption, RequestPermissionRequest, ToolCallContent};
use anstyle::Style;

use super::{Card, Extent, Named, Owner, Page, block_text, diff, hash, input, safe, unfence};

impl Card {
    /// Prints what is decided on: of the call what was not shown as a whole.
    pub(crate) fn ask(
        &mut self,
        request: &RequestPermissionRequest,
        bytes: usize,
        page: &mut Page,
    ) {
        self.learn(&request.tool_call, bytes, page);
        let asks = page.words.say("asks");
        let fields = &request.tool_call.fields;
        let title = fields.title.as_deref().filter(|title| !title.trim().is_empty());
        let title = title.map_or_else(|| self.title.clone(), safe::exact);
        let is_named = self.is_named_last(page)
            && self.live.named.as_ref().is_some_and(|named| named.is_whole && named.title == title);
        self.make_way(page);
        if is_named {
            page.write(page.palette.ask, &format!("▸ {asks}\n"));
        } else {
            page.write(page.palette.ask, &format!("▸ {title}"));
            page.write(page.palette.dim, format!("  {}", page.words.kind(self.kind)).trim_end());
            page.write(page.palette.ask, &format!("  {asks}\n"));
            self.live.named = Some(Named { title: title.clone(), is_whole: true });
        }
        page.owner = Owner::Call(self.id.clone());
        let input = fields.raw_input.as_ref().unwrap_or(&self.live.input);
        let command = input::command(input);
        let content = fields.content.as_deref().unwrap_or_default();
        let has_diff = content.iter().any(|item| matches!(item, ToolCallContent::Diff(_)));
        // A diff says all that the input of an edit does, and in place.
        let fields = if has_diff { Vec::new() } else { input::fields(input) };
        // A title that holds the whole command, as Callboard's do, says it already.
        let is_in_title =
            |command: &&String| title.contains(&format!("`{}`", safe::exact(command)));
        if let Some(command) = command.as_ref().filter(|command| !is_in_title(command)) {
            input::lines("$ ", command).iter().for_each(|line| page.line(&format!("  {line}")));
        }
        fields.iter().for_each(|line| page.line(&format!("  {line}")));
        self.show_whole(content, command.as_deref(), page);
        if request.tool_call.fields.content.is_none() {
            self.show_texts(page);
        }
    }

    fn show_whole(&mut self, content: &[ToolCallContent], command: Option<&str>, page: &mut Page) {
        for item in content {
            match item {
                ToolCallContent::Diff(diff) => {
                    let hash = hash((&diff.path, &diff.old_text, &diff.new_text));
                    if self.shown(hash) != Some(true) {
                        diff::print(diff, &mut Extent::Whole, page);
                        self.remember(hash, true);
                    }
                }
                ToolCallContent::Content(item) => {
                    let text = block_text(&item.content, &page.words);
                    let (_, text) = unfence(&text);
                    let is_command = command.is_some_and(|it| input::is_mere_command(text, it));
                    if !is_command && self.shown(hash(text)) != Some(true) {
                        input::lines("", text)
                            .iter()
                            .for_each(|line| page.line(&format!("  {line}")));
                        self.remember(hash(text), true);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Prints what a person may answer.
pub(crate) fn print_options(options: &[PermissionOption], page: &mut Page) {
    for (at, option) in options.iter().enumerate() {
        page.write(page.palette.ask, &format!("  {}", at + 1));
        page.write(Style::new(), &format!("  {}\n", safe::exact(&option.name)));
    }
}
