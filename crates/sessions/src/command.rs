//! Runs the subcommand.

use std::path::Path;

use acp_store::SessionSearch;
use callboard_runtime::{PrunableData, PrunedData};
use callboard_text::{count_with_noun, escape_invisible_in_json, group_thousands};
use serde_json::Value;

use crate::args::{ListArgs, SessionArg, SessionsArgs, SessionsCommand};
use crate::context::SessionsContext;
use crate::error::SessionsError;
use crate::listing::{self, describe_session};
use crate::{export, show};

/// Runs the subcommand. Blocks the thread.
///
/// # Errors
///
/// Returns any [`SessionsError`]. Output that was printed before the error is valid.
pub fn run_sessions_command(
    args: SessionsArgs,
    mut context: SessionsContext<'_>,
) -> Result<(), SessionsError> {
    match args.command.unwrap_or(SessionsCommand::List(args.list)) {
        SessionsCommand::List(scope) => context.list(&scope),
        SessionsCommand::Search { text, scope } => context.search(text.join(" "), &scope),
        SessionsCommand::Show(SessionArg { id }) => {
            let session = context.archive.find_by_id_prefix(&id)?;
            let unread = show::show_session(&session, &mut context)?;
            context.print_unread_records_note(unread);
            Ok(())
        }
        SessionsCommand::Export { session, format, output } => {
            let session = context.archive.find_by_id_prefix(&session.id)?;
            let unread = match output {
                Some(path) if path != Path::new("-") => {
                    export::export_to_file(context.archive, &session, format, &path)?
                }
                _ => export::export_to_writer(context.archive, &session, format, context.terminal)?,
            };
            context.print_unread_records_note(unread);
            Ok(())
        }
        SessionsCommand::Delete { session, yes } => context.delete(&session.id, yes),
        SessionsCommand::Prune { dry_run: true } => context.print_prunable(),
        SessionsCommand::Prune { dry_run: false } => context.prune(),
    }
}

impl SessionsContext<'_> {
    fn list(&mut self, scope: &ListArgs) -> Result<(), SessionsError> {
        let mut rows = Vec::new();
        let mut count = 0;
        for session in self.archive.sessions((!scope.all).then_some(self.cwd)) {
            let session = session?;
            count += 1;
            match scope.json {
                true => rows.push(listing::session_json(&session, self.archive)),
                false => {
                    let line = listing::session_line(&session, self.archive, self.now, scope.all);
                    writeln!(self.terminal, "{line}")?;
                }
            }
        }
        self.print_rows_or_note(scope, rows, count, "stored session")
    }

    fn search(&mut self, words: String, scope: &ListArgs) -> Result<(), SessionsError> {
        let mut search = SessionSearch::new(words);
        search.cwd = (!scope.all).then(|| self.cwd.to_owned());
        let hits = self.archive.store().search(&search)?;
        let mut rows = Vec::new();
        for hit in &hits {
            match scope.json {
                true => rows.push(listing::hit_json(hit, &search, self.archive)),
                false => {
                    let lines = listing::hit_lines(hit, &search, self.archive, self.now);
                    writeln!(self.terminal, "{lines}")?;
                }
            }
        }
        self.print_rows_or_note(scope, rows, hits.len(), "match in a stored session")
    }

    /// Prints the rows of a list as JSON, or a note if there are none.
    fn print_rows_or_note(
        &mut self,
        scope: &ListArgs,
        rows: Vec<Value>,
        count: usize,
        what: &str,
    ) -> Result<(), SessionsError> {
        if scope.json {
            let rows = format!("{:#}", Value::Array(rows));
            writeln!(self.terminal, "{}", escape_invisible_in_json(&rows))?;
        } else if count == 0 {
            let place = match scope.all {
                true => String::new(),
                false => {
                    let folder = callboard_text::path_text(self.cwd);
                    format!(" of {folder}; `--all` includes other folders")
                }
            };
            self.terminal.print_note(&format!("there is no {what}{place}"));
        }
        Ok(())
    }

    fn delete(&mut self, beginning: &str, is_confirmed: bool) -> Result<(), SessionsError> {
        let session = self.archive.find_by_id_prefix(beginning)?;
        let described = describe_session(&session, self.archive, self.now);
        if !is_confirmed {
            match self.terminal.confirm(&format!("Delete {described}?")) {
                Some(true) => {}
                Some(false) => {
                    self.terminal.print_note("nothing was deleted");
                    return Ok(());
                }
                None => return Err(SessionsError::NotConfirmed),
            }
        }
        self.archive.delete(&session.id)?;
        writeln!(self.terminal, "Deleted {described}.")?;
        Ok(())
    }

    fn print_prunable(&mut self) -> Result<(), SessionsError> {
        let PrunableData { sessions, file_bytes, .. } =
            self.archive.data_to_prune(self.retention, self.now)?;
        for session in &sessions {
            let line = listing::session_line(session, self.archive, self.now, true);
            writeln!(self.terminal, "{line}")?;
        }
        let bytes = sessions.iter().map(|session| session.bytes).sum();
        let data = describe_pruned_data(sessions.len(), bytes, file_bytes);
        writeln!(self.terminal, "{data} would be deleted.")?;
        Ok(())
    }

    fn prune(&mut self) -> Result<(), SessionsError> {
        let PrunedData { sessions, bytes, file_bytes, .. } =
            self.archive.prune(self.retention, self.now)?;
        let data = describe_pruned_data(sessions.len(), bytes, file_bytes);
        writeln!(self.terminal, "{data} deleted.")?;
        Ok(())
    }

    fn print_unread_records_note(&mut self, unread: u64) {
        if unread > 0 {
            let records = count_with_noun(unread, "record", "records");
            self.terminal.print_note(&format!(
                "{records} of this session could not be read and {} left out",
                if unread == 1 { "was" } else { "were" },
            ));
        }
    }
}

/// Describes the data to remove: sessions, undo data and outputs.
fn describe_pruned_data(sessions: usize, bytes: u64, file_bytes: u64) -> String {
    let sessions = count_with_noun(sessions as u64, "session", "sessions");
    let sessions = format!("{sessions} ({} bytes)", group_thousands(bytes));
    match file_bytes {
        0 => sessions,
        _ => {
            format!("{sessions} and undo data and outputs ({} bytes)", group_thousands(file_bytes))
        }
    }
}
