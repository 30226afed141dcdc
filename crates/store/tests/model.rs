//! Checks that random operations have the same results in memory and in SQLite.
#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
#![cfg(feature = "sqlite")]

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use acp_store::{
    AttachmentId, MemorySessionStore, NewSession, OpenSession, RecordStream, RetentionPolicy,
    SessionChange, SessionCwdPaths, SessionFilter, SessionHolder, SessionRecord, SessionSearch,
    SessionStore, SessionStoreError, SqliteSessionStore,
};
use acp_types::schema::v1::SessionId;
use proptest::prelude::*;

/// An operation on one of a few sessions.
#[derive(Debug, Clone)]
enum Operation {
    Create(u8, Vec<Step>),
    Open(u8),
    Close(u8),
    Write(u8, Vec<Step>),
    Fork(u8, u8, Option<u32>),
    Delete(u8),
    Prune(Option<u8>, Option<u16>),
    /// Closes all sessions and opens the stores again.
    Restart,
    /// Sets the clock to a later or an earlier time.
    Clock(u8),
}

/// A change. There are few possible values, so that many changes affect the same data.
#[derive(Debug, Clone)]
enum Step {
    Prompt(Content),
    Append(Content),
    Fold(Content),
    Title(u8),
    Part(u8, Option<u8>),
    Move(u8),
    Truncate(u8),
}

#[derive(Debug, Clone)]
struct Content {
    word: u8,
    subject: Option<u8>,
    is_of_model: bool,
    starts: bool,
    /// Length of the whole form, if the record has a short form.
    heavy: Option<u32>,
    attachment: Option<u8>,
}

fn content() -> impl Strategy<Value = Content> {
    let heavy = proptest::option::of(prop_oneof![1..50_u32, 60_000..70_000_u32]);
    let attachment = proptest::option::weighted(0.2, 0..3_u8);
    let subject = proptest::option::of(0..3_u8);
    let of_stream = (any::<bool>(), proptest::bool::weighted(0.1));
    (0..6_u8, subject, of_stream, heavy, attachment).prop_map(
        |(word, subject, (is_of_model, starts), heavy, attachment)| Content {
            word,
            subject,
            is_of_model,
            starts,
            heavy,
            attachment,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => content().prop_map(Step::Prompt),
        4 => content().prop_map(Step::Append),
        4 => content().prop_map(Step::Fold),
        1 => (0..3_u8).prop_map(Step::Title),
        2 => (0..3_u8, proptest::option::of(0..3_u8)).prop_map(|(name, value)| Step::Part(name, value)),
        1 => (0..3_u8).prop_map(Step::Move),
        1 => (0..4_u8).prop_map(Step::Truncate),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let session = || 0..4_u8;
    let steps = || proptest::collection::vec(step(), 0..6);
    prop_oneof![
        3 => (session(), content(), steps()).prop_map(|(session, first, mut steps)| {
            steps.insert(0, Step::Prompt(first));
            Operation::Create(session, steps)
        }),
        2 => session().prop_map(Operation::Open),
        2 => session().prop_map(Operation::Close),
        12 => (session(), steps()).prop_map(|(session, steps)| Operation::Write(session, steps)),
        1 => (session(), session(), proptest::option::of(0..4_u32))
            .prop_map(|(from, into, keep)| Operation::Fork(from, into, keep)),
        1 => session().prop_map(Operation::Delete),
        1 => (proptest::option::of(any::<u8>()), proptest::option::of(any::<u16>()))
            .prop_map(|(keep, bytes)| Operation::Prune(keep, bytes)),
        1 => Just(Operation::Restart),
        2 => any::<u8>().prop_map(Operation::Clock),
    ]
}

fn id(session: u8) -> SessionId {
    SessionId::new(format!("s{session}"))
}

fn folder(number: u8) -> SessionCwdPaths {
    SessionCwdPaths {
        cwd: PathBuf::from(format!("/link{number}")),
        // Some canonical paths equal the name of another folder.
        canonical: PathBuf::from(if number == 0 { "/link1" } else { "/real" }),
    }
}

const WORDS: [&str; 6] = ["alpha", "beta gamma", "Alphabet", "delta; beta", "epsilon", ""];

fn record(content: &Content) -> SessionRecord {
    let text = WORDS[usize::from(content.word)];
    let mut record = SessionRecord::new("text", 1, &text).unwrap();
    if let Some(bytes) = content.heavy {
        let whole = text.to_owned() + &"x".repeat(bytes as usize);
        let attachments = content.attachment.map(|byte| vec![byte; 10].into());
        record = SessionRecord::new("heavy", 2, &whole).unwrap();
        record = record.with_short_form(&text, attachments.into_iter().collect()).unwrap();
    }
    if let Some(subject) = content.subject {
        record = record.with_subject(format!("c{subject}"));
    }
    if content.is_of_model {
        record = record.with_stream(RecordStream::Model);
    }
    if content.starts {
        record = record.with_stream_start();
    }
    if text.is_empty() { record } else { record.with_search_text(text) }
}

fn change(step: &Step) -> SessionChange {
    match step {
        Step::Prompt(content) => SessionChange::Prompt(record(content)),
        Step::Append(content) => SessionChange::Append(record(content)),
        // A fold without a subject is refused.
        Step::Fold(content) => SessionChange::Fold(record(content)),
        Step::Title(number) => SessionChange::Title(format!("title {number}")),
        Step::Part(name, value) => SessionChange::Part {
            name: format!("part {name}"),
            json: value.map(|value| value.to_string()),
        },
        Step::Move(number) => SessionChange::Move(folder(*number)),
        Step::Truncate(keep) => SessionChange::Truncate { keep: (*keep).into() },
    }
}

/// A store and its open sessions.
struct Side<S> {
    store: S,
    open: HashMap<u8, Box<dyn OpenSession>>,
}

impl<S: SessionStore> Side<S> {
    fn new(store: S) -> Self {
        Self { store, open: HashMap::new() }
    }

    /// Executes an operation and returns its result as text.
    fn run(&mut self, operation: &Operation, now: SystemTime) -> String {
        let changes = |steps: &[Step]| steps.iter().map(change).collect::<Vec<_>>();
        match operation {
            Operation::Create(session, steps) => {
                let new = NewSession::new(id(*session), folder(*session % 3));
                let created = self.store.create(&new, &changes(steps), now);
                self.keep(*session, created)
            }
            Operation::Open(session) => {
                let opened = self.store.open(&id(*session));
                self.keep(*session, opened)
            }
            Operation::Close(session) => self.open.remove(session).is_some().to_string(),
            Operation::Write(session, steps) => match self.open.get_mut(session) {
                Some(open) => shown(&open.write(&changes(steps), now)),
                None => String::new(),
            },
            Operation::Fork(from, into, keep) => {
                let new = NewSession::new(id(*into), folder(*into % 3));
                let forked = self.store.fork(&id(*from), &new, *keep, now);
                self.keep(*into, forked)
            }
            Operation::Delete(session) => shown(&self.store.delete(&id(*session))),
            Operation::Prune(keep, bytes) => {
                let mut retention = RetentionPolicy::default();
                retention.keep = keep.map(|seconds| Duration::from_secs(seconds.into()));
                retention.max_bytes = bytes.map(u64::from);
                shown(&self.store.prune(&retention, now))
            }
            Operation::Restart => {
                self.open.clear();
                String::new()
            }
            Operation::Clock(_) => String::new(),
        }
    }

    fn keep(
        &mut self,
        session: u8,
        opened: Result<Box<dyn OpenSession>, SessionStoreError>,
    ) -> String {
        shown(&opened.map(|open| {
            let opened = open.id().clone();
            self.open.insert(session, open);
            opened
        }))
    }

    /// Returns everything that can be read from the store, as text.
    fn readable_data(&self) -> Vec<String> {
        let store = &self.store;
        let mut data = Vec::new();
        for cwd in [None, Some("/link0"), Some("/link1"), Some("/real")] {
            let cwd = cwd.map(PathBuf::from);
            let mut filter = SessionFilter::default();
            filter.cwd = cwd.clone();
            filter.limit = Some(2);
            loop {
                let page = store.list(&filter);
                data.push(shown(&page));
                filter.cursor = page.ok().and_then(|page| page.next);
                if filter.cursor.is_none() {
                    break;
                }
            }
            for words in ["alpha", "beta", "g b", "eps", "x"] {
                let mut search = SessionSearch::new(words);
                search.cwd = cwd.clone();
                search.limit = Some(5);
                data.push(shown(&store.search(&search)));
            }
        }
        for session in (0..4).map(id) {
            data.push(shown(&store.summary(&session)));
            data.push(shown(&store.prompts(&session, 0)));
            data.push(shown(&store.prompts(&session, 1)));
            data.push(shown(&store.parts(&session)));
            for stream in [RecordStream::Client, RecordStream::Model] {
                for budget in [0, 100, 65_000, u64::MAX] {
                    data.extend(loaded(store, &session, stream, budget));
                }
            }
            for byte in 0..3 {
                let attachment = AttachmentId::for_bytes(&[byte; 10]);
                data.push(shown(&store.attachment(&session, attachment)));
            }
        }
        data
    }
}

fn loaded(
    store: &impl SessionStore,
    session: &SessionId,
    stream: RecordStream,
    budget: u64,
) -> Vec<String> {
    let mut load = match store.begin_load(session, stream, budget) {
        Ok(load) => load,
        Err(error) => return vec![kind(&error)],
    };
    let mut data = Vec::new();
    loop {
        let page = store.load_next_records(&mut load).unwrap();
        if page.is_empty() {
            data.push(format!("{} damaged", load.damaged));
            return data;
        }
        data.extend(page.iter().map(|record| {
            let json = record.json.len();
            let beginning = &record.json[..json.min(40)];
            let mut record = record.clone();
            record.json = format!("{beginning} {json}");
            format!("{record:?}")
        }));
    }
}

/// Formats a result; an error is formatted by its kind.
fn shown<T: Debug>(result: &Result<T, SessionStoreError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => kind(error),
    }
}

fn kind(error: &SessionStoreError) -> String {
    let debug = format!("{error:?}");
    debug.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn sqlite(folder: &Path) -> SqliteSessionStore {
    let holder = SessionHolder::new(1, "test", SystemTime::UNIX_EPOCH);
    SqliteSessionStore::open(folder, holder, || 4).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn random_operations_have_the_same_results_in_memory_and_in_sqlite(
        operations in proptest::collection::vec(operation(), 1..40)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut memory = Side::new(MemorySessionStore::new());
        let mut sqlite_side = Side::new(sqlite(folder.path()));
        let mut now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        for operation in &operations {
            match operation {
                Operation::Clock(seconds) => {
                    now = SystemTime::UNIX_EPOCH + Duration::from_secs(900 + u64::from(*seconds));
                }
                _ => now += Duration::from_millis(1),
            }
            let (expected, found) = (memory.run(operation, now), sqlite_side.run(operation, now));
            prop_assert_eq!(found, expected, "{:?}", operation);
            if matches!(operation, Operation::Restart) {
                drop(sqlite_side);
                sqlite_side = Side::new(sqlite(folder.path()));
            }
        }
        let (found, expected) = (sqlite_side.readable_data(), memory.readable_data());
        prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found, expected);
        }
        prop_assert_eq!(sqlite_side.store.find_integrity_faults().unwrap(), Vec::<String>::new());
    }
}

/// Number of random runs: the value of `PROPTEST_CASES`, or 64.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
}
