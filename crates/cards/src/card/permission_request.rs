//! Prints a permission request: everything that the user would approve, without truncation, and the
//! options.

use acp_types::schema::v1::{
    PermissionOption, RequestPermissionRequest, ToolCallContent, ToolCallStatus,
};
use anstyle::Style;

use super::{
    Card, LineBudget, Page, PrintedTitle, TextOwner, block_text_or_placeholder, diff, hash,
    raw_input, sanitise, split_fence_language_and_body,
};

impl Card {
    /// Prints a permission request. Parts of the call that were already printed as a whole are
    /// skipped.
    pub(crate) fn print_permission_request(
        &mut self,
        request: &RequestPermissionRequest,
        bytes: usize,
        page: &mut Page,
    ) {
        self.apply_update(&request.tool_call, bytes, page);
        if self.status == ToolCallStatus::InProgress {
            self.print_output_so_far(request, page);
        }
        let asks = page.words.text_for_key("asks");
        let fields = &request.tool_call.fields;
        let title = fields.title.as_deref().filter(|title| !title.trim().is_empty());
        let title = title.map_or_else(|| self.title.clone(), sanitise::escape_line);
        let is_named = self.is_title_printed_last(page)
            && self
                .open
                .printed_title
                .as_ref()
                .is_some_and(|named| named.is_whole && named.title == title);
        self.separate_from_previous_text(page);
        if is_named {
            page.write_styled_text(page.palette.ask, &format!("▸ {asks}\n"));
        } else {
            page.write_styled_text(page.palette.ask, &format!("▸ {title}"));
            page.write_styled_text(
                page.palette.dim,
                format!("  {}", page.words.kind_name(self.kind)).trim_end(),
            );
            page.write_styled_text(page.palette.ask, &format!("  {asks}\n"));
            self.open.printed_title = Some(PrintedTitle { title: title.clone(), is_whole: true });
        }
        page.owner = TextOwner::Call(self.id.clone());
        let input = fields.raw_input.as_ref().unwrap_or(&self.open.input);
        let command = raw_input::command_text(input);
        let content = fields.content.as_deref().unwrap_or_default();
        let has_diff = content.iter().any(|item| matches!(item, ToolCallContent::Diff(_)));
        // For an edit, the diff contains all information of the input.
        let fields =
            if has_diff { Vec::new() } else { raw_input::format_fields_except_command(input) };
        // A title from Callboard contains the whole command, so the command is not repeated.
        let is_in_title =
            |command: &&String| title.contains(&format!("`{}`", sanitise::escape_line(command)));
        if let Some(command) = command.as_ref().filter(|command| !is_in_title(command)) {
            raw_input::format_with_hanging_indent("$ ", command)
                .iter()
                .for_each(|line| page.write_line(&format!("  {line}")));
        }
        fields.iter().for_each(|line| page.write_line(&format!("  {line}")));
        self.print_untruncated_content(content, command.as_deref(), page);
        if request.tool_call.fields.content.is_none() {
            self.print_held_back_texts(page);
        }
        // The content of the request replaces the earlier texts, e.g. the note of an excerpt.
        self.open.texts.clear();
    }

    /// Prints the output so far, if the command already runs and needs permission for a further
    /// effect.
    fn print_output_so_far(&mut self, request: &RequestPermissionRequest, page: &mut Page) {
        for item in request.tool_call.fields.content.iter().flatten() {
            if let ToolCallContent::Content(item) = item
                && let text = block_text_or_placeholder(&item.content, &page.words)
                && let ("console", output) = split_fence_language_and_body(&text)
            {
                self.print_new_console_output(output, page);
            }
        }
    }

    fn print_untruncated_content(
        &mut self,
        content: &[ToolCallContent],
        command: Option<&str>,
        page: &mut Page,
    ) {
        let meta_key = page.meta_key.clone();
        for items in content.chunk_by(|a, b| diff::are_of_same_file(a, b, &meta_key)) {
            let new =
                self.select_diffs_by_printed_state(items, |printed| printed != Some(true), page);
            if !new.is_empty() {
                self.print_and_remember_diffs(&new, &mut LineBudget::Unlimited, page);
            }
            let [ToolCallContent::Content(item)] = items else { continue };
            let text = block_text_or_placeholder(&item.content, &page.words);
            let (language, text) = split_fence_language_and_body(&text);
            let is_command =
                command.is_some_and(|it| raw_input::is_console_text_without_output(text, it));
            let is_output = self.status == ToolCallStatus::InProgress && language == "console";
            if !is_command && !is_output && self.printed_completeness(hash(text)) != Some(true) {
                raw_input::format_with_hanging_indent("", text)
                    .iter()
                    .for_each(|line| page.write_line(&format!("  {line}")));
                self.remember_printed(hash(text), true);
            }
        }
    }
}

/// Prints the options of a permission request.
pub(crate) fn print_options(options: &[PermissionOption], page: &mut Page) {
    for (at, option) in options.iter().enumerate() {
        page.write_styled_text(page.palette.ask, &format!("  {}", at + 1));
        page.write_styled_text(
            Style::new(),
            &format!("  {}\n", sanitise::escape_line(&option.name)),
        );
    }
}
