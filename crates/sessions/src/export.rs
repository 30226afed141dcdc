//! Exports a session to a file or to the output.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use acp_cards::Transcript;
use acp_store::SessionSummary;
use acp_types::schema::v1::ClientCapabilities;
use acp_types::wire::{ClientMessage as _, v1::SessionUpdateParams};
use callboard_runtime::SessionArchive;
use callboard_text::{escape_invisible_in_json, rfc3339_utc};
use serde_json::json;

use crate::args::ExportFormat;
use crate::error::SessionsError;
use crate::show::capabilities_with_terminals;

/// Writes a session to a file that only the user can read. If there is already a file, it is
/// replaced only after the new file is complete. Links are followed, and anything else than a file,
/// e.g. a pipe, is written directly. Returns the number of records of the session that could not be
/// read.
pub(crate) fn export_to_file(
    archive: &SessionArchive,
    session: &SessionSummary,
    format: ExportFormat,
    path: &Path,
) -> Result<u64, SessionsError> {
    let failed = |source| SessionsError::File { path: path.to_owned(), source };
    let write = |file: &File| {
        let mut file = BufWriter::new(file);
        let exported = export_to_writer(archive, session, format, &mut file).and_then(|unread| {
            file.flush()?;
            Ok(unread)
        });
        exported.map_err(|error| match error {
            SessionsError::Output(source) => failed(source),
            error => error,
        })
    };
    if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return write(&File::options().write(true).open(path).map_err(failed)?);
    }
    let target = path.canonicalize().unwrap_or_else(|_missing| path.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    // `NamedTempFile::new_in` would name the temporary file in its error.
    let new = tempfile::Builder::new()
        .make_in(folder.unwrap_or(Path::new(".")), create_private_file)
        .map_err(failed)?;
    let unread = write(new.as_file())?;
    new.persist(&target).map_err(|error| failed(error.error))?;
    Ok(unread)
}

/// Creates a file that only the user can read.
fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes a session. Returns the number of its records that could not be read.
pub(crate) fn export_to_writer(
    archive: &SessionArchive,
    session: &SessionSummary,
    format: ExportFormat,
    out: &mut (impl Write + ?Sized),
) -> Result<u64, SessionsError> {
    match format {
        ExportFormat::Jsonl => write_update_lines(archive, session, out),
        ExportFormat::Html => {
            let (transcript, unread) = read_transcript(archive, session)?;
            transcript.write_html(out)?;
            Ok(unread)
        }
        ExportFormat::Markdown => {
            let (transcript, unread) = read_transcript(archive, session)?;
            transcript.write_markdown(out)?;
            Ok(unread)
        }
    }
}

fn read_transcript(
    archive: &SessionArchive,
    session: &SessionSummary,
) -> Result<(Transcript, u64), SessionsError> {
    let cwd = session.folder.as_ref().map_or("/".into(), |folder| folder.cwd.clone());
    let mut transcript = Transcript::new(cwd).with_date(rfc3339_utc(session.updated));
    if let Some(title) = &session.title {
        transcript = transcript.with_title(archive.redact(title));
    }
    let unread =
        archive.for_each_replayed_update(session, &capabilities_with_terminals(), |params| {
            transcript.add_update(&params.update);
            ControlFlow::Continue(())
        })?;
    Ok((transcript, unread))
}

fn write_update_lines(
    archive: &SessionArchive,
    session: &SessionSummary,
    mut out: &mut (impl Write + ?Sized),
) -> Result<u64, SessionsError> {
    let mut failure = None;
    let unread =
        archive.for_each_replayed_update(session, &ClientCapabilities::new(), |params| {
            match write_update_line(&mut out, &params) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(unread),
    }
}

/// Writes a notification in one line, as the transport does.
fn write_update_line(out: &mut impl Write, params: &SessionUpdateParams) -> io::Result<()> {
    let message = json!({"jsonrpc": "2.0", "method": params.method(), "params": params.params()?});
    // Any text of the session may contain escape sequences for terminals.
    let line = escape_invisible_in_json(&message.to_string()) + "\n";
    // The whole line is written with one call, because standard output is flushed after each call.
    out.write_all(line.as_bytes())
}
