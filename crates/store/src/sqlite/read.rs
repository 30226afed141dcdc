//! Reads of the database, each in one transaction.

use std::path::Path;

use acp_types::schema::v1::SessionId;
use callboard_text::{normalise, unquote_path};
use rusqlite::{Error, OptionalExtension as _, Row, ToSql, Transaction, params};

use super::fault::TransactionFault;
use super::files::LargeContentFolder;
use super::row::{COLUMNS, RecordRow, record_stream_number, row_id};
use super::write::{folder_checksum, part_checksum, session_row_id_range};
use crate::error::SessionStoreError;
use crate::limits::{MAX_INDEXED_SPELLINGS, MAX_PAGE_PROMPTS, MAX_PARTS};
use crate::load::{RecordPage, SessionLoadProgress, first_whole_record_number};
use crate::record::RecordStream;
use crate::search::{SearchHit, SessionSearch};
use crate::session::{
    PromptSummary, SessionCwdPaths, SessionFilter, SessionPage, SessionSummary, StoredParts,
};
use crate::time::time_from_millis;

/// Returns the key of a session that is stored completely.
pub(super) fn find_session_key(
    transaction: &Transaction<'_>,
    session: &SessionId,
) -> Result<i64, TransactionFault> {
    let sql = "SELECT key FROM session WHERE id = ?1 AND is_whole = 1";
    let found = transaction.prepare_cached(sql)?.query_row([&*session.0], |row| row.get(0));
    let unknown = || SessionStoreError::UnknownSession(session.clone()).into();
    found.optional()?.ok_or_else(unknown)
}

const SUMMARY: &str =
    "id, cwd, canonical, folder_sum, parent, title, created, updated, prompts, bytes";

pub(super) fn summary(
    transaction: &Transaction<'_>,
    session: &SessionId,
) -> Result<SessionSummary, TransactionFault> {
    let sql = format!("SELECT {SUMMARY} FROM session WHERE id = ?1 AND is_whole = 1");
    let found = transaction
        .prepare_cached(&sql)?
        .query_row([&*session.0], |row| to_summary(row, to_folder(row, 1)?));
    let unknown = || SessionStoreError::UnknownSession(session.clone()).into();
    found.optional()?.ok_or_else(unknown)
}

/// Reads the columns of [`SUMMARY`]. `folder` is the folder in these columns.
fn to_summary(row: &Row<'_>, folder: SessionCwdPaths) -> Result<SessionSummary, Error> {
    let text = |at| Ok::<_, Error>(row.get_ref(at)?.as_str()?);
    let (id, cwd, canonical) = (text(0)?, text(1)?, text(2)?);
    let is_intact = row.get_ref(3)?.as_blob()? == folder_checksum(id, cwd, canonical);
    let number = |at| row.get::<_, i64>(at).map(|number| u64::try_from(number).unwrap_or_default());
    let (created, updated) = (time_from_millis(number(6)?), time_from_millis(number(7)?));
    let mut summary = SessionSummary::new(SessionId::new(id), created, updated);
    summary.folder = is_intact.then_some(folder);
    summary.parent = row.get::<_, Option<String>>(4)?.map(SessionId::new);
    summary.title = row.get(5)?;
    summary.prompts = row.get(8)?;
    summary.bytes = number(9)?;
    Ok(summary)
}

pub(super) fn list(
    transaction: &Transaction<'_>,
    filter: &SessionFilter,
) -> Result<SessionPage, TransactionFault> {
    let (updated, id) = filter.parse_cursor()?.unwrap_or((u64::MAX >> 1, ""));
    let updated = updated.cast_signed();
    let general: &[&dyn ToSql] = params![updated, id];
    let ordered = |index: &str| {
        format!(
            "SELECT key FROM session INDEXED BY {index} WHERE (updated, id) < (?1, ?2) \
             ORDER BY updated DESC, id DESC"
        )
    };
    // If an index is damaged, the sessions are found more slowly in another index.
    let (newest, others) = (ordered("session_updated"), ordered("session_cwd"));
    let mut keys = vec![(&*newest, general), (&*others, general)];
    let cwd = filter.cwd.as_deref().map(normalise);
    let cwd = cwd.as_deref();
    let of_folder =
        cwd.map(|cwd| folder_sessions_statement(transaction, cwd)).transpose()?.flatten();
    let params: Vec<&dyn ToSql>;
    match &of_folder {
        Some((_, names)) if names.is_empty() => keys.clear(),
        Some((sql, names)) => {
            let names = names.iter().map(|name| name as &dyn ToSql);
            params = general.iter().copied().chain(names).collect();
            keys.insert(0, (sql, &params));
        }
        None => {}
    }
    let sql =
        format!("SELECT {SUMMARY} FROM session WHERE key = ?1 AND is_whole = 1 AND prompts > 0");
    let mut statement = transaction.prepare_cached(&sql)?;
    let read = |key| {
        let found = statement.query_row([key], |row| {
            let folder = to_folder(row, 1)?;
            is_folder_selected_by_cwd(&folder, cwd).then(|| to_summary(row, folder)).transpose()
        });
        Ok(found.optional()?.flatten())
    };
    let found = read_rows_skipping_damaged(transaction, &keys, filter.page_size() + 1, read)?;
    Ok(SessionPage::from_possibly_too_many(found.rows_unless_all_damaged()?, filter.page_size()))
}

/// Returns a statement for [`read_rows_skipping_damaged`] and the statement's parameters after the
/// cursor. The statement finds the sessions of a normalised folder in two indexes. The parameters
/// are the spellings of the folder's path that are stored. Returns `None` if an index is damaged,
/// or if there are too many spellings.
pub(super) fn folder_sessions_statement(
    transaction: &Transaction<'_>,
    cwd: &Path,
) -> Result<Option<(String, Vec<String>)>, TransactionFault> {
    let (mut selects, mut names) = (Vec::new(), Vec::new());
    for column in ["cwd", "canonical"] {
        let spellings = match stored_spellings(transaction, column, cwd) {
            Err(fault) if fault.is_damage() => return Ok(None),
            spellings => spellings?,
        };
        for spelling in spellings {
            names.push(spelling);
            selects.push(format!(
                "SELECT key, updated, id FROM session WHERE (updated, id) < (?1, ?2) \
                 AND {column} = ?{}",
                names.len() + 2
            ));
        }
    }
    // The order by all columns lets SQLite merge the indexes instead of sorting the sessions.
    let sql = selects.join(" UNION ") + " ORDER BY updated DESC, id DESC, key DESC";
    Ok((names.len() <= MAX_INDEXED_SPELLINGS).then_some((sql, names)))
}

/// Returns the paths in a column that are spellings of this normalised path.
fn stored_spellings(
    transaction: &Transaction<'_>,
    column: &str,
    cwd: &Path,
) -> Result<Vec<String>, TransactionFault> {
    // Each step seeks the next path in the index, however many sessions have the same path.
    let sql = format!(
        "WITH RECURSIVE name(text) AS (SELECT min({column}) FROM session UNION ALL \
         SELECT (SELECT min({column}) FROM session WHERE {column} > text) FROM name \
         WHERE text IS NOT NULL) SELECT text FROM name WHERE text IS NOT NULL"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let is_spelling = |name: &String| normalise(&unquote_path(name)) == cwd;
    let names = names.filter(|name| name.as_ref().map_or(true, is_spelling));
    Ok(names.collect::<Result<_, _>>()?)
}

/// Reads a folder, which may be damaged, from two neighbouring columns.
fn to_folder(row: &Row<'_>, at: usize) -> Result<SessionCwdPaths, Error> {
    let path = |at| row.get::<_, String>(at).map(|text| unquote_path(&text).into_owned());
    Ok(SessionCwdPaths { cwd: path(at)?, canonical: path(at + 1)? })
}

/// Returns whether a folder has this normalised path.
fn is_folder_selected_by_cwd(folder: &SessionCwdPaths, cwd: Option<&Path>) -> bool {
    cwd.is_none_or(|cwd| folder.is_at_normalised_path(cwd))
}

pub(super) fn prompts(
    transaction: &Transaction<'_>,
    session: &SessionId,
    after: u32,
) -> Result<Vec<PromptSummary>, TransactionFault> {
    let (first, last) = session_row_id_range(find_session_key(transaction, session)?);
    let keys = "SELECT id FROM record INDEXED BY record_prompt \
                WHERE begins_prompt = 1 AND id BETWEEN ?1 AND ?2 ORDER BY id";
    let keys: (_, &[&dyn ToSql]) = (keys, params![first, last]);
    let sql = "SELECT prompt, at, text FROM record WHERE id = ?1 AND prompt > ?2";
    let mut statement = transaction.prepare_cached(sql)?;
    let read = |id| {
        let found = statement.query_row(params![id, after], |row| {
            let text: Option<String> = row.get(2)?;
            let at = time_from_millis(row.get::<_, i64>(1)?.cast_unsigned());
            Ok(PromptSummary::new(row.get(0)?, at, &text.unwrap_or_default()))
        });
        Ok(found.optional()?)
    };
    read_rows_skipping_damaged(transaction, &[keys], MAX_PAGE_PROMPTS, read)?
        .rows_unless_all_damaged()
}

pub(super) fn parts(
    transaction: &Transaction<'_>,
    session: &SessionId,
) -> Result<StoredParts, TransactionFault> {
    let mut found = StoredParts::default();
    for part in part_rows(transaction, session)? {
        match part {
            PartRow::Intact(name, json) => drop(found.parts.insert(name, json)),
            PartRow::Damaged(_) => found.damaged += 1,
        }
    }
    Ok(found)
}

/// A part as a row of the database.
pub(super) enum PartRow {
    /// The name and the JSON of the part.
    Intact(String, String),
    /// The name, if it can be read.
    Damaged(Option<String>),
}

pub(super) fn part_rows(
    transaction: &Transaction<'_>,
    session: &SessionId,
) -> Result<Vec<PartRow>, TransactionFault> {
    let key = find_session_key(transaction, session)?;
    let of_session: &[&dyn ToSql] = params![key];
    let keys = [
        ("SELECT rowid FROM part WHERE session = ?1", of_session),
        ("SELECT rowid FROM part NOT INDEXED WHERE session = ?1", of_session),
    ];
    let mut statement =
        transaction.prepare_cached("SELECT name, json, sum FROM part WHERE rowid = ?1")?;
    let read = |rowid| {
        let part = statement.query_row([rowid], |row| {
            let (name, json) = (row.get::<_, String>(0), row.get::<_, String>(1));
            let sum: Vec<u8> = row.get(2).unwrap_or_default();
            Ok(match (name, json) {
                (Ok(name), Ok(json)) if sum == part_checksum(&session.0, &name, &json) => {
                    PartRow::Intact(name, json)
                }
                (name, _) => PartRow::Damaged(name.ok()),
            })
        });
        match part.optional().map_err(TransactionFault::from) {
            Err(fault) if !fault.is_damage() => Err(fault),
            // The index refers to a row that does not exist or is on a damaged page.
            part => Ok(Some(part.ok().flatten().unwrap_or(PartRow::Damaged(None)))),
        }
    };
    let FoundRows { mut rows, damage, .. } =
        read_rows_skipping_damaged(transaction, &keys, MAX_PARTS, read)?;
    // If rows could not be read, one damaged part stands for all of them: their number and names
    // are unknown.
    rows.extend(damage.map(|_| PartRow::Damaged(None)));
    Ok(rows)
}

pub(super) fn begin_load(
    transaction: &Transaction<'_>,
    session: &SessionId,
    stream: RecordStream,
    budget: u64,
) -> Result<SessionLoadProgress, TransactionFault> {
    let key = find_session_key(transaction, session)?;
    let sql = "SELECT next FROM session WHERE key = ?1";
    let end = transaction.query_row(sql, [key], |row| row.get::<_, u32>(0))?.into();
    let mut load = SessionLoadProgress::new(session.clone(), stream, end);
    match find_load_and_whole_starts(transaction, key, stream, budget) {
        Ok((next, whole_from)) => (load.next, load.whole_from) = (next, whole_from),
        // An index is damaged, but the records may still be readable.
        Err(fault) if fault.is_damage() => (load.whole_from, load.damaged) = (end, 1),
        Err(fault) => return Err(fault),
    }
    Ok(load)
}

/// Returns the number of the first record of a load, and the number from which on records with a
/// short form are returned in their whole form.
fn find_load_and_whole_starts(
    transaction: &Transaction<'_>,
    key: i64,
    stream: RecordStream,
    budget: u64,
) -> Result<(u64, u64), TransactionFault> {
    let (first, last) = session_row_id_range(key);
    let range = params![first, last, record_stream_number(stream)];
    let start: Option<i64> = transaction
        .prepare_cached(
            "SELECT id FROM record INDEXED BY record_start WHERE starts_stream = 1 \
             AND id BETWEEN ?1 AND ?2 AND stream = ?3 ORDER BY id DESC LIMIT 1",
        )?
        .query_row(range, |row| row.get(0))
        .optional()?;
    let mut heavy = transaction.prepare_cached(
        "SELECT id, json_bytes FROM record INDEXED BY record_heavy WHERE brief IS NOT NULL \
         AND id BETWEEN ?1 AND ?2 AND stream = ?3 ORDER BY id DESC",
    )?;
    let heavy = heavy.query_map(range, |row| {
        Ok((seq_from_row_id(row.get(0)?), row.get::<_, i64>(1)?.cast_unsigned()))
    });
    Ok((start.map_or(0, seq_from_row_id), first_whole_record_number(heavy?, budget)?))
}

fn seq_from_row_id(id: i64) -> u64 {
    id.cast_unsigned() & u64::from(u32::MAX)
}

/// Fills a page with the next records, and skips damaged pages of the database.
pub(super) fn load_next_records(
    transaction: &Transaction<'_>,
    files: &LargeContentFolder,
    load: &mut SessionLoadProgress,
) -> Result<RecordPage, TransactionFault> {
    let key = find_session_key(transaction, &load.session)?;
    let mut page = RecordPage::begin(load);
    while load.next < load.end && !page.is_full() {
        match fill_page(transaction, files, key, load, &mut page) {
            Ok(()) => {}
            Err(fault) if fault.is_damage() => {
                load.damaged += 1;
                load.next = find_next_readable_record(transaction, key, load)?;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(page)
}

fn fill_page(
    transaction: &Transaction<'_>,
    files: &LargeContentFolder,
    key: i64,
    load: &mut SessionLoadProgress,
    page: &mut RecordPage,
) -> Result<(), TransactionFault> {
    // If a record is returned in its short form, its whole JSON is not read.
    let sql = format!(
        "SELECT {COLUMNS}, CASE WHEN brief IS NULL OR id >= ?4 THEN json END FROM record \
         WHERE id BETWEEN ?1 AND ?2 AND stream = ?3 ORDER BY id"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let mut rows = statement.query(params![
        row_id(key, load.next),
        row_id(key, load.end - 1),
        record_stream_number(load.stream),
        row_id(key, load.whole_from.min(u64::from(u32::MAX))),
    ])?;
    while let Some(row) = rows.next()? {
        load.next = seq_from_row_id(row.get(0)?) + 1;
        let (record, is_damaged) = match RecordRow::from_row(row, &load.session.0) {
            Ok(Some(row)) => row.into_stored_record(files, load.whole_from),
            _ => (None, true),
        };
        load.damaged += u64::from(is_damaged);
        if let Some(record) = record {
            page.push(record);
        }
        if page.is_full() {
            return Ok(());
        }
    }
    load.next = load.end;
    Ok(())
}

/// Returns the number of the next readable record after a damaged record. Returns the end of the
/// load if no later record is readable. Neighbouring records share a database page, so the next
/// records are probably damaged too. The search therefore uses growing steps.
fn find_next_readable_record(
    transaction: &Transaction<'_>,
    key: i64,
    load: &SessionLoadProgress,
) -> Result<u64, TransactionFault> {
    let can_read = |from: u64| {
        let sql = "SELECT * FROM record WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT 1";
        let found = transaction.prepare_cached(sql).and_then(|mut statement| {
            let range = params![row_id(key, from), row_id(key, load.end - 1)];
            statement.query(range)?.next().map(drop)
        });
        match found.map_err(TransactionFault::from) {
            Ok(()) => Ok(true),
            Err(fault) if fault.is_damage() => Ok(false),
            Err(fault) => Err(fault),
        }
    };
    let (mut damaged, mut step) = (load.next, 1);
    let mut readable = loop {
        let from = load.next + step;
        if from >= load.end {
            break load.end;
        }
        if can_read(from)? {
            break from;
        }
        (damaged, step) = (from, step * 2);
    };
    while readable - damaged > 1 {
        let middle = damaged + (readable - damaged) / 2;
        match can_read(middle)? {
            true => readable = middle,
            false => damaged = middle,
        }
    }
    Ok(readable)
}

pub(super) fn search(
    transaction: &Transaction<'_>,
    search: &SessionSearch,
) -> Result<Vec<SearchHit>, TransactionFault> {
    let terms = search.search_terms();
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let query: Vec<_> = terms.iter().map(|term| format!("\"{term}\"*")).collect();
    let query = query.join(" ");
    let keys = "SELECT rowid FROM search WHERE search MATCH ?1 ORDER BY rowid DESC";
    let keys: (_, &[&dyn ToSql]) = (keys, params![query]);
    let sql = "SELECT cwd, canonical, session.id, title, prompt, at, text FROM session, record \
               WHERE session.key = ?1 >> 32 AND record.id = ?1 AND is_whole = 1 AND prompts > 0";
    let cwd = search.cwd.as_deref().map(normalise);
    let mut statement = transaction.prepare_cached(sql)?;
    let read = |id| {
        let found = statement.query_row([id], |row| {
            if !is_folder_selected_by_cwd(&to_folder(row, 0)?, cwd.as_deref()) {
                return Ok(None);
            }
            let session = SessionId::new(row.get::<_, String>(2)?);
            let at = time_from_millis(row.get::<_, i64>(5)?.cast_unsigned());
            let mut hit = SearchHit::new(session, row.get(4)?, at, row.get(6)?);
            hit.title = row.get(3)?;
            Ok(Some(hit))
        });
        Ok(found.optional()?.flatten())
    };
    read_rows_skipping_damaged(transaction, &[keys], search.max_hits(), read)?
        .rows_unless_all_damaged()
}

/// Rows that were read one by one, and a fault of rows that could not be read.
struct FoundRows<T> {
    rows: Vec<T>,
    /// Whether at least one row could be read, even if that row was skipped.
    is_any_readable: bool,
    damage: Option<TransactionFault>,
}

impl<T> FoundRows<T> {
    fn new() -> Self {
        Self { rows: Vec::new(), is_any_readable: false, damage: None }
    }

    /// Returns the rows, or the fault if no row could be read.
    fn rows_unless_all_damaged(self) -> Result<Vec<T>, TransactionFault> {
        match self.damage {
            Some(fault) if !self.is_any_readable => Err(fault),
            _ => Ok(self.rows),
        }
    }
}

/// Reads at most `max` rows one by one, so that a damaged page hides only the rows on it. Each
/// statement in `keys` finds the keys of the rows, in the order of the rows. If an index that a
/// statement uses is damaged, the next statement is tried. `read` returns `None` for a row that is
/// skipped.
fn read_rows_skipping_damaged<T>(
    transaction: &Transaction<'_>,
    keys: &[(&str, &[&dyn ToSql])],
    max: usize,
    mut read: impl FnMut(i64) -> Result<Option<T>, TransactionFault>,
) -> Result<FoundRows<T>, TransactionFault> {
    let mut found = FoundRows::new();
    for (sql, params) in keys {
        found = FoundRows::new();
        match read_rows_for_key_query(transaction, sql, params, max, &mut read, &mut found) {
            Err(fault) if fault.is_damage() => found.damage = Some(fault),
            Err(fault) => return Err(fault),
            Ok(()) => break,
        }
    }
    Ok(found)
}

fn read_rows_for_key_query<T>(
    transaction: &Transaction<'_>,
    keys: &str,
    params: &[&dyn ToSql],
    max: usize,
    mut read: impl FnMut(i64) -> Result<Option<T>, TransactionFault>,
    found: &mut FoundRows<T>,
) -> Result<(), TransactionFault> {
    let mut statement = transaction.prepare_cached(keys)?;
    let mut rows = statement.query(params)?;
    while found.rows.len() < max
        && let Some(row) = rows.next()?
    {
        match read(row.get(0)?) {
            Ok(value) => {
                found.is_any_readable = true;
                found.rows.extend(value);
            }
            Err(fault) if fault.is_damage() => found.damage = Some(fault),
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}
