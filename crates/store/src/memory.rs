//! A store in memory for tests. It is the simplest store that obeys every rule of the trait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use acp_types::schema::v1::SessionId;
use callboard_text::head;

use crate::implement::{
    PruneBudget, RecordPage, check_changes, check_first_changes, first_whole_record_number,
    has_words_beginning_with_terms, millis_since_epoch, time_from_millis,
};
use crate::limits::{MAX_PAGE_PROMPTS, MAX_PARTS, MAX_PRUNED, MAX_SESSION_BYTES, MAX_TITLE_BYTES};
use crate::{
    AttachmentId, NewSession, OpenSession, PromptSummary, PruneCompletion, PruneReport, RecordForm,
    RecordStream, RetentionPolicy, SearchHit, SessionChange, SessionCwdPaths, SessionFilter,
    SessionLoadProgress, SessionPage, SessionRecord, SessionSearch, SessionStore,
    SessionStoreError, SessionSummary, StoredParts, StoredRecord,
};

/// Stores sessions in memory. The sessions are lost when the last clone of the store is dropped.
#[derive(Debug, Clone, Default)]
pub struct MemorySessionStore(Arc<Mutex<MemorySessions>>);

#[derive(Debug, Default)]
struct MemorySessions {
    by_id: BTreeMap<String, MemorySession>,
    /// Number of sessions that were ever stored, including removed ones.
    count: u64,
}

#[derive(Debug, Clone)]
struct MemorySession {
    /// Number of sessions that were stored before this one.
    order: u64,
    is_open: bool,
    folder: SessionCwdPaths,
    parent: Option<SessionId>,
    title: Option<String>,
    created: u64,
    updated: u64,
    prompts: u32,
    /// Number of the next record.
    next: u64,
    records: BTreeMap<u64, RecordEntry>,
    parts: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
struct RecordEntry {
    prompt: u32,
    begins_prompt: bool,
    at: u64,
    record: Arc<SessionRecord>,
}

impl MemorySessionStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock_sessions(&self) -> MutexGuard<'_, MemorySessions> {
        // Each session is replaced by one assignment, so a panic cannot leave a session partly
        // changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert_new_session(
        &self,
        new: &NewSession,
        session: MemorySession,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError> {
        let mut sessions = self.lock_sessions();
        let order = sessions.count;
        sessions.require_unused_id(new)?;
        sessions.count += 1;
        sessions.by_id.insert(new.id.to_string(), MemorySession { order, ..session });
        Ok(Box::new(OpenMemorySession { id: new.id.clone(), store: self.clone() }))
    }
}

impl MemorySessions {
    fn find_session(&self, id: &SessionId) -> Result<&MemorySession, SessionStoreError> {
        self.by_id.get(&*id.0).ok_or_else(|| SessionStoreError::UnknownSession(id.clone()))
    }

    fn require_unused_id(&self, new: &NewSession) -> Result<(), SessionStoreError> {
        new.check_id_and_folder()?;
        match self.by_id.contains_key(&*new.id.0) {
            true => Err(SessionStoreError::SessionExists(new.id.clone())),
            false => Ok(()),
        }
    }

    fn find_closed(&mut self, id: &SessionId) -> Result<&mut MemorySession, SessionStoreError> {
        let unknown = || SessionStoreError::UnknownSession(id.clone());
        let session = self.by_id.get_mut(&*id.0).ok_or_else(unknown)?;
        match session.is_open {
            true => Err(SessionStoreError::Held { session: id.clone(), holder: None }),
            false => Ok(session),
        }
    }
}

impl SessionStore for MemorySessionStore {
    fn create(
        &self,
        new: &NewSession,
        first: &[SessionChange],
        now: SystemTime,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError> {
        check_first_changes(first)?;
        self.lock_sessions().require_unused_id(new)?;
        let mut session = MemorySession::new(new, now);
        session.apply(&new.id, first, now)?;
        self.insert_new_session(new, session)
    }

    fn open(&self, id: &SessionId) -> Result<Box<dyn OpenSession>, SessionStoreError> {
        self.lock_sessions().find_closed(id)?.is_open = true;
        Ok(Box::new(OpenMemorySession { id: id.clone(), store: self.clone() }))
    }

    fn summary(&self, id: &SessionId) -> Result<SessionSummary, SessionStoreError> {
        Ok(self.lock_sessions().find_session(id)?.summary(id))
    }

    fn list(&self, filter: &SessionFilter) -> Result<SessionPage, SessionStoreError> {
        let after = filter.parse_cursor()?;
        let sessions = self.lock_sessions();
        let is_wanted = |(id, session): &(&String, &MemorySession)| {
            session.is_listed_in_folder(filter.cwd.as_deref())
                && after.is_none_or(|after| (session.updated, id.as_str()) < after)
        };
        let mut found: Vec<_> = sessions.by_id.iter().filter(is_wanted).collect();
        found.sort_by_key(|(id, session)| std::cmp::Reverse((session.updated, *id)));
        found.truncate(filter.page_size() + 1);
        let summaries = found.iter().map(|(id, it)| it.summary(&SessionId::new(id.as_str())));
        Ok(SessionPage::from_possibly_too_many(summaries.collect(), filter.page_size()))
    }

    fn prompts(&self, id: &SessionId, after: u32) -> Result<Vec<PromptSummary>, SessionStoreError> {
        let sessions = self.lock_sessions();
        let entries = sessions.find_session(id)?.records.values();
        let entries = entries.filter(|entry| entry.begins_prompt && entry.prompt > after);
        let prompts = entries.take(MAX_PAGE_PROMPTS).map(|entry| {
            let text = entry.record.searchable_text().unwrap_or_default();
            PromptSummary::new(entry.prompt, time_from_millis(entry.at), text)
        });
        Ok(prompts.collect())
    }

    fn parts(&self, id: &SessionId) -> Result<StoredParts, SessionStoreError> {
        let mut stored = StoredParts::default();
        stored.parts.clone_from(&self.lock_sessions().find_session(id)?.parts);
        Ok(stored)
    }

    fn begin_load(
        &self,
        id: &SessionId,
        stream: RecordStream,
        budget: u64,
    ) -> Result<SessionLoadProgress, SessionStoreError> {
        let sessions = self.lock_sessions();
        let session = sessions.find_session(id)?;
        let of_stream = || session.records_in_stream(stream).rev();
        let starts = |(_, entry): &(u64, &RecordEntry)| entry.record.starts_stream;
        let heavy = of_stream().filter(|(_, entry)| entry.record.brief.is_some());
        let heavy = heavy.map(|(seq, entry)| Ok((seq, entry.record.json.len() as u64)));
        let mut load = SessionLoadProgress::new(id.clone(), stream, session.next);
        load.next = of_stream().find(starts).map_or(0, |(seq, _)| seq);
        load.whole_from = first_whole_record_number(heavy, budget)?;
        Ok(load)
    }

    fn load_next_records(
        &self,
        load: &mut SessionLoadProgress,
    ) -> Result<Vec<StoredRecord>, SessionStoreError> {
        let sessions = self.lock_sessions();
        let session = sessions.find_session(&load.session)?;
        let mut page = RecordPage::begin(load);
        let range = load.next..load.end;
        for (seq, entry) in
            session.records_in_stream(load.stream).filter(|(seq, _)| range.contains(seq))
        {
            load.next = seq + 1;
            page.push(entry.to_stored_record(seq, load.whole_from));
            if page.is_full() {
                break;
            }
        }
        Ok(page.records)
    }

    fn attachment(
        &self,
        id: &SessionId,
        attachment: AttachmentId,
    ) -> Result<Vec<u8>, SessionStoreError> {
        let sessions = self.lock_sessions();
        let records = sessions.by_id.get(&*id.0).into_iter().flat_map(|it| it.records.values());
        let mut attachments = records.flat_map(|entry| &entry.record.attachments);
        let found = attachments.find(|bytes| AttachmentId::for_bytes(bytes) == attachment);
        let found = found.ok_or_else(|| SessionStoreError::UnknownAttachment(id.clone()))?;
        Ok(found.to_vec())
    }

    fn fork(
        &self,
        from: &SessionId,
        into: &NewSession,
        keep: Option<u32>,
        now: SystemTime,
    ) -> Result<Box<dyn OpenSession>, SessionStoreError> {
        let mut copy = self.lock_sessions().find_session(from)?.clone();
        let keep = keep.unwrap_or(copy.prompts);
        if keep == 0 {
            return Err(SessionStoreError::UnknownPrompt { session: from.clone(), prompt: keep });
        }
        copy.truncate(from, keep)?;
        let next = copy.records.last_key_value().map_or(0, |(seq, _)| seq + 1);
        let fresh = MemorySession::new(into, now);
        let parent = Some(from.clone());
        let MemorySession { folder, created, updated, .. } = fresh;
        self.insert_new_session(
            into,
            MemorySession { folder, parent, created, updated, next, is_open: true, ..copy },
        )
    }

    fn delete(&self, id: &SessionId) -> Result<(), SessionStoreError> {
        let mut sessions = self.lock_sessions();
        sessions.find_closed(id)?;
        sessions.by_id.remove(&*id.0);
        Ok(())
    }

    fn search(&self, search: &SessionSearch) -> Result<Vec<SearchHit>, SessionStoreError> {
        let terms = search.search_terms();
        let sessions = self.lock_sessions();
        let in_folder = |(_, session): &(&String, &MemorySession)| {
            session.is_listed_in_folder(search.cwd.as_deref())
        };
        let mut found: Vec<_> = sessions.by_id.iter().filter(in_folder).collect();
        found.sort_by_key(|(_, session)| std::cmp::Reverse(session.order));
        let hits = found.iter().flat_map(|(id, session)| {
            let records = session.records.values().rev();
            records.filter_map(|entry| {
                let text = entry.record.searchable_text()?;
                let is_found = !terms.is_empty() && has_words_beginning_with_terms(text, &terms);
                let (id, at) = (SessionId::new(id.as_str()), time_from_millis(entry.at));
                is_found.then(|| {
                    let mut hit = SearchHit::new(id, entry.prompt, at, text.to_owned());
                    hit.title.clone_from(&session.title);
                    hit
                })
            })
        });
        Ok(hits.take(search.max_hits()).collect())
    }

    fn prune(
        &self,
        retention: &RetentionPolicy,
        now: SystemTime,
    ) -> Result<PruneReport, SessionStoreError> {
        let mut sessions = self.lock_sessions();
        let bytes = sessions.by_id.values().map(MemorySession::byte_len).sum();
        let mut pruning = PruneBudget::new(retention, now, bytes, None);
        let closed = sessions.by_id.iter().filter(|(_, session)| !session.is_open);
        let closed = closed.map(|(id, it)| (it.prompts > 0, it.updated, id.clone(), it.byte_len()));
        let mut closed: Vec<_> = closed.collect();
        closed.sort();
        let mut pruned = PruneReport::default();
        for (is_listed, updated, id, bytes) in closed {
            if is_listed && !pruning.should_prune(time_from_millis(updated)) {
                return Ok(pruned);
            }
            if pruned.sessions.len() == MAX_PRUNED {
                pruned.outcome = PruneCompletion::More;
                return Ok(pruned);
            }
            sessions.by_id.remove(&id);
            pruning.subtract_pruned_bytes(bytes);
            pruned.bytes += bytes;
            pruned.sessions.push(SessionId::new(id));
        }
        if pruning.has_surplus_bytes() {
            pruned.outcome = PruneCompletion::Held;
        }
        Ok(pruned)
    }

    fn sync(&self) -> Result<(), SessionStoreError> {
        Ok(())
    }
}

impl MemorySession {
    fn new(new: &NewSession, now: SystemTime) -> Self {
        Self {
            order: 0,
            is_open: true,
            folder: new.folder.clone(),
            parent: None,
            title: None,
            created: millis_since_epoch(now),
            updated: millis_since_epoch(now),
            prompts: 0,
            next: 0,
            records: BTreeMap::new(),
            parts: BTreeMap::new(),
        }
    }

    fn summary(&self, id: &SessionId) -> SessionSummary {
        let (created, updated) = (time_from_millis(self.created), time_from_millis(self.updated));
        let mut summary = SessionSummary::new(id.clone(), created, updated);
        summary.folder = Some(self.folder.clone());
        summary.parent.clone_from(&self.parent);
        summary.title.clone_from(&self.title);
        summary.prompts = self.prompts;
        summary.bytes = self.byte_len();
        summary
    }

    fn is_listed_in_folder(&self, cwd: Option<&std::path::Path>) -> bool {
        self.prompts > 0 && cwd.is_none_or(|cwd| self.folder.is_at_path(cwd))
    }

    fn byte_len(&self) -> u64 {
        let records = self.records.values().map(|entry| entry.record.byte_len());
        let parts = self.parts.iter().map(|(name, json)| name.len() + json.len());
        records.chain(parts).sum::<usize>() as u64
    }

    fn records_in_stream(
        &self,
        stream: RecordStream,
    ) -> impl DoubleEndedIterator<Item = (u64, &RecordEntry)> {
        let entries = self.records.iter().map(|(seq, entry)| (*seq, entry));
        entries.filter(move |(_, entry)| entry.record.stream == stream)
    }

    fn apply(
        &mut self,
        id: &SessionId,
        changes: &[SessionChange],
        now: SystemTime,
    ) -> Result<(), SessionStoreError> {
        for change in changes {
            match change {
                SessionChange::Prompt(record) => {
                    self.prompts += 1;
                    self.store_record(None, true, record, now)?;
                }
                SessionChange::Append(record) => self.store_record(None, false, record, now)?,
                SessionChange::Fold(record) => {
                    let prompt = self.prompts;
                    let is_same = |(_, entry): &(u64, &RecordEntry)| {
                        entry.prompt == prompt
                            && !entry.begins_prompt
                            && entry.record.subject == record.subject
                    };
                    let same = self.records_in_stream(record.stream).filter(is_same);
                    let same: Vec<_> = same.map(|(seq, _)| seq).collect();
                    same.iter().for_each(|seq| drop(self.records.remove(seq)));
                    self.store_record(same.first().copied(), false, record, now)?;
                }
                SessionChange::Title(title) => {
                    self.title = Some(head(title, MAX_TITLE_BYTES).to_owned());
                }
                SessionChange::Part { name, json: Some(json) } => {
                    self.parts.insert(name.clone(), json.clone());
                    if self.parts.len() > MAX_PARTS {
                        let what = "a session has too many parts";
                        return Err(SessionStoreError::Invalid(what));
                    }
                }
                SessionChange::Part { name, json: None } => drop(self.parts.remove(name)),
                SessionChange::Move(folder) => self.folder = folder.clone(),
                SessionChange::Truncate { keep } => {
                    self.truncate(id, *keep)?;
                    self.updated = self.updated.max(millis_since_epoch(now));
                }
            }
        }
        match self.byte_len() {
            bytes if bytes > MAX_SESSION_BYTES => Err(SessionStoreError::TooLarge {
                what: "a session",
                bytes,
                max: MAX_SESSION_BYTES,
            }),
            _ => Ok(()),
        }
    }

    fn store_record(
        &mut self,
        place: Option<u64>,
        begins_prompt: bool,
        record: &SessionRecord,
        now: SystemTime,
    ) -> Result<(), SessionStoreError> {
        if self.prompts == 0 {
            return Err(SessionStoreError::Invalid("a record comes before the first prompt"));
        }
        let seq = place.unwrap_or(self.next);
        self.next = self.next.max(seq + 1);
        self.updated = self.updated.max(millis_since_epoch(now));
        let (prompt, at, record) =
            (self.prompts, millis_since_epoch(now), Arc::new(record.clone()));
        self.records.insert(seq, RecordEntry { prompt, begins_prompt, at, record });
        Ok(())
    }

    fn truncate(&mut self, id: &SessionId, keep: u32) -> Result<(), SessionStoreError> {
        if keep > self.prompts {
            return Err(SessionStoreError::UnknownPrompt { session: id.clone(), prompt: keep });
        }
        self.records.retain(|_, entry| entry.prompt <= keep);
        self.prompts = keep;
        Ok(())
    }
}

impl RecordEntry {
    fn to_stored_record(&self, seq: u64, whole_from: u64) -> StoredRecord {
        let form = if seq < whole_from { RecordForm::Brief } else { RecordForm::Whole };
        StoredRecord::new(seq, self.prompt, time_from_millis(self.at), &self.record, form)
    }
}

/// An open session of the store.
#[derive(Debug)]
struct OpenMemorySession {
    id: SessionId,
    store: MemorySessionStore,
}

impl OpenSession for OpenMemorySession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn write(
        &mut self,
        changes: &[SessionChange],
        now: SystemTime,
    ) -> Result<(), SessionStoreError> {
        check_changes(changes)?;
        let mut sessions = self.store.lock_sessions();
        let mut changed = sessions.find_session(&self.id)?.clone();
        changed.apply(&self.id, changes, now)?;
        sessions.by_id.insert(self.id.to_string(), changed);
        Ok(())
    }
}

impl Drop for OpenMemorySession {
    fn drop(&mut self) {
        if let Some(session) = self.store.lock_sessions().by_id.get_mut(&*self.id.0) {
            session.is_open = false;
        }
    }
}
