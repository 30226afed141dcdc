//! Measures an SQLite store: `store_figures first|load|memory|list|append|wait N`. Each measurement
//! prints one line `figures {"value": …}`. `cargo xtask accept` compares the value with a target.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a measurement may fail by a panic")]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use acp_store::{
    NewSession, OpenSession, RecordForm, RecordStream, RetentionPolicy, SessionChange,
    SessionCwdPaths, SessionFilter, SessionHolder, SessionRecord, SessionStore as _,
    SessionStoreError, SqliteSessionStore, StoreWriter,
};
use acp_types::schema::v1::SessionId;
use serde_json::{Value, json};

/// Maximum number of bytes of a session that a load returns in their whole form. The agent uses the
/// same budget.
const BUDGET: u64 = 8 << 20;
/// Number of turns of the large session; the next constant is the number of bytes of each call. The
/// session has 600 MB in 40,000 records.
const TURNS: usize = 300;
const CALL_BYTES: usize = 15_000;
/// Number of processes that write at the same time; the next constant is the interval at which one
/// of them is killed.
const PROCESSES: usize = 8;
const KILL_INTERVAL: Duration = Duration::from_secs(1);

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let number = |n: &str| n.parse::<usize>().unwrap();
    let figures = match arguments[..] {
        [figure @ ("first" | "load" | "memory"), n] => measure_large_session(figure, number(n)),
        ["list", n] => measure_list_pages(number(n)),
        ["append", n] => measure_streamed_turns(number(n)),
        ["wait", n] => measure_eight_processes(number(n)),
        // Modes of the child processes, which the measurements start.
        ["load-process", folder] => return load_large_session(Path::new(folder)),
        ["turns-process", folder, session, n] => {
            return record_turns(Path::new(folder), SessionId::new(session), number(n));
        }
        _ => panic!("usage: store_figures first|load|memory|list|append|wait N"),
    };
    println!("figures {figures}");
}

fn open_store(folder: &Path) -> SqliteSessionStore {
    let holder = SessionHolder::new(std::process::id(), "here", SystemTime::UNIX_EPOCH);
    SqliteSessionStore::open(folder, holder, || u64::from(std::process::id())).unwrap()
}

fn new_session(id: &str) -> NewSession {
    let folder = SessionCwdPaths { cwd: "/project".into(), canonical: "/project".into() };
    NewSession::new(SessionId::new(id), folder)
}

fn prompt_change(text: &str) -> SessionChange {
    SessionChange::Prompt(SessionRecord::new("user", 1, &text).unwrap().with_search_text(text))
}

fn create_session(store: &SqliteSessionStore, id: &str) -> Box<dyn OpenSession> {
    store
        .create(&new_session(id), &[prompt_change("Fix the failing test")], SystemTime::now())
        .unwrap()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Stores a session of `n` records and loads it in another process.
fn measure_large_session(figure: &str, n: usize) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let mut session = create_session(&store, "large");
    let whole = "x".repeat(CALL_BYTES);
    let begin = Instant::now();
    for turn in 0..TURNS {
        let call = |number: usize| {
            let record = SessionRecord::new("call", 1, &whole).unwrap();
            let brief = format!("{turn} {number} {}", "y".repeat(300));
            SessionChange::Append(record.with_short_form(&brief, vec![]).unwrap())
        };
        let calls = (0..n / TURNS).map(call);
        let changes: Vec<_> = [prompt_change(&turn.to_string())].into_iter().chain(calls).collect();
        session.write(&changes, SystemTime::now()).unwrap();
    }
    store.sync().unwrap();
    let written = millis(begin.elapsed());
    drop((session, store));
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.arg("load-process").arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["records"], 1 + TURNS + n / TURNS * TURNS);
    figures["written"] = written.into();
    figures["value"] = figures[figure].clone();
    figures
}

/// Opens the store and loads the large session.
fn load_large_session(folder: &Path) {
    let begin = Instant::now();
    let store = open_store(folder);
    let mut load =
        store.begin_load(&SessionId::new("large"), RecordStream::Client, BUDGET).unwrap();
    let (mut records, mut whole, mut first, mut last) = (0, 0, None, None);
    loop {
        let page = store.load_next_records(&mut load).unwrap();
        first.get_or_insert_with(|| begin.elapsed());
        let Some(newest) = page.last() else { break };
        last = Some(newest.form);
        records += page.len();
        whole += page.iter().filter(|record| record.json.len() >= CALL_BYTES).count();
    }
    let (all, status) = (begin.elapsed(), std::fs::read_to_string("/proc/self/status").unwrap());
    assert_eq!((last, load.damaged), (Some(RecordForm::Whole), 0));
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: f64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    let (first, all) = (millis(first.unwrap()), millis(all));
    println!(
        "{}",
        json!({"first": first, "load": all, "memory": peak / 1024.0, "records": records, "whole": whole})
    );
}

/// Stores `n` sessions and reads pages of their list.
fn measure_list_pages(n: usize) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    (0..n).for_each(|number| drop(create_session(&store, &format!("s{number}"))));
    let mut pages = Vec::new();
    let mut read = |cwd: Option<&str>| {
        let mut filter = SessionFilter::default();
        filter.cwd = cwd.map(Into::into);
        let mut listed = 0;
        loop {
            let begin = Instant::now();
            let page = store.list(&filter).unwrap();
            pages.push(millis(begin.elapsed()));
            listed += page.sessions.len();
            filter.cursor = page.next;
            if filter.cursor.is_none() {
                assert_eq!(listed, n);
                return;
            }
        }
    };
    read(None);
    read(Some("/project"));
    let mut retention = RetentionPolicy::default();
    retention.max_bytes = Some(0);
    let begin = Instant::now();
    let pruned = store.prune(&retention, SystemTime::now()).unwrap();
    let pruning = millis(begin.elapsed()) / pruned.sessions.len() as f64;
    pages.sort_by(f64::total_cmp);
    let (p99, slowest) = (pages[pages.len() * 99 / 100], pages.last().copied());
    json!({"value": p99, "slowest_ms": slowest, "median_ms": median(pages), "pruned_each_ms": pruning})
}

/// Records `n` turns. In each turn, the answer arrives in 1,000 pieces, and each piece is a record.
/// At the end of the turn, one record replaces these records.
fn measure_streamed_turns(n: usize) -> Value {
    const PIECES: usize = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    let writer = StoreWriter::start(Arc::new(store.clone())).unwrap();
    let recorder = writer.recorder_for_open_session(create_session(&store, "streamed"));
    let piece = "a few words ";
    let (mut queued, mut committed, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..n {
        let subject = format!("m{turn}");
        let record =
            |text: &str| SessionRecord::new("text", 1, &text).unwrap().with_subject(&subject);
        let now = SystemTime::now();
        recorder.queue_changes(vec![prompt_change("next")], now).wait_blocking().unwrap();
        let begin = Instant::now();
        for _ in 0..PIECES {
            drop(recorder.queue_changes(vec![SessionChange::Append(record(piece))], now));
        }
        queued.push(begin.elapsed().as_secs_f64() * 1e6 / PIECES as f64);
        writer.wait_for_queued_writes().wait_blocking().unwrap();
        committed.push(begin.elapsed().as_secs_f64() * 1e6 / PIECES as f64);
        let text = piece.repeat(PIECES);
        let begin = Instant::now();
        let message = record(&text).with_search_text(&*text);
        recorder.queue_changes(vec![SessionChange::Fold(message)], now).wait_blocking().unwrap();
        whole.push(millis(begin.elapsed()));
    }
    json!({
        "value": median(queued),
        "committed_us": median(committed), "folded_ms": median(whole),
    })
}

/// Records turns of a session. Prints for each turn the time until its commit.
fn record_turns(folder: &Path, id: SessionId, n: usize) {
    let store = open_store(folder);
    let done = match store.summary(&id) {
        Ok(summary) => summary.prompts as usize,
        Err(SessionStoreError::UnknownSession(_)) => 0,
        Err(error) => panic!("{error}"),
    };
    let writer = StoreWriter::start(Arc::new(store.clone())).unwrap();
    let recorder = match done {
        0 => writer.recorder_for_new_session(new_session(&id.0)),
        _ => writer.recorder_for_open_session(store.open(&id).unwrap()),
    };
    for turn in done + 1..=n {
        let (begin, now) = (Instant::now(), SystemTime::now());
        let mut changes = vec![prompt_change(&turn.to_string())];
        let call = format!("c{turn}");
        let record = |text: &str| SessionRecord::new("text", 1, &text).unwrap().with_subject(&call);
        for piece in 0..10 {
            changes.push(SessionChange::Append(record(&piece.to_string())));
            drop(recorder.queue_changes(std::mem::take(&mut changes), now));
        }
        // Every hundredth text is long enough to be stored in a file.
        let text = "x".repeat(if turn.is_multiple_of(100) { 70_000 } else { 1_000 });
        let answer = record(&format!("answer {turn}")).with_stream(RecordStream::Model);
        let last = vec![SessionChange::Fold(record(&text)), SessionChange::Append(answer)];
        if let Err(error) = recorder.queue_changes(last, now).wait_blocking() {
            println!("error {error:?}");
            return;
        }
        println!("{turn} {}", begin.elapsed().as_micros());
    }
}

struct RecordingProcess {
    child: Child,
    acknowledged: BTreeSet<usize>,
}

/// Starts a process, and sends each line of its output together with the process's number. `None`
/// marks the end of the output.
fn start_process(
    folder: &Path,
    number: usize,
    n: usize,
    lines: &Sender<(usize, Option<String>)>,
) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("turns-process").arg(folder).args([format!("s{number}"), n.to_string()]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let (output, lines) = (BufReader::new(child.stdout.take().unwrap()), lines.clone());
    thread::spawn(move || {
        for line in output.lines() {
            drop(lines.send((number, Some(line.unwrap()))));
        }
        drop(lines.send((number, None)));
    });
    child
}

/// Runs eight processes, each of which records `n` turns. Every second, one of them is killed. At
/// the end, every acknowledged turn must be stored.
fn measure_eight_processes(n: usize) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (sender, lines) = channel();
    let start = |number| start_process(folder, number, n, &sender);
    let process = |number| RecordingProcess { child: start(number), acknowledged: BTreeSet::new() };
    let mut processes: Vec<_> = (0..PROCESSES).map(process).collect();
    let (begin, mut kill_at) = (Instant::now(), Instant::now() + KILL_INTERVAL);
    let (mut running, mut kills, mut log_bytes) = (PROCESSES, 0, 0);
    let (mut longest, mut waits) = (0.0_f64, Vec::new());
    while running > 0 {
        match lines.recv_timeout(kill_at.saturating_duration_since(Instant::now())) {
            Ok((number, Some(line))) => {
                let (turn, micros) = line.split_once(' ').unwrap();
                assert_ne!(turn, "error", "{line}");
                processes[number].acknowledged.insert(turn.parse().unwrap());
                let wait = micros.parse::<f64>().unwrap() / 1000.0;
                longest = longest.max(wait);
                waits.push(wait);
            }
            Ok((number, None)) => {
                use std::os::unix::process::ExitStatusExt as _;

                let status = processes[number].child.wait().unwrap();
                if status.signal().is_some() {
                    processes[number].child = start(number);
                } else {
                    assert!(status.success(), "{status}");
                    running -= 1;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let log = std::fs::metadata(folder.join("sessions.sqlite3-wal"));
                log_bytes = log.map_or(log_bytes, |log| log_bytes.max(log.len()));
                let numbers = (kills..kills + PROCESSES).map(|number| number % PROCESSES);
                let mut running =
                    numbers.filter(|it| processes[*it].child.try_wait().unwrap().is_none());
                if let Some(number) = running.next() {
                    processes[number].child.kill().unwrap();
                    kills += 1;
                }
                kill_at = Instant::now() + KILL_INTERVAL;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let store = open_store(folder);
    for (number, process) in processes.iter().enumerate() {
        let id = SessionId::new(format!("s{number}"));
        let mut load = store.begin_load(&id, RecordStream::Model, u64::MAX).unwrap();
        let mut stored = BTreeSet::new();
        loop {
            let page = store.load_next_records(&mut load).unwrap();
            if page.is_empty() {
                break;
            }
            stored.extend(page.iter().map(|record| record.prompt as usize));
        }
        assert_eq!(load.damaged, 0);
        assert!(process.acknowledged.is_subset(&stored), "an acknowledged turn is lost");
    }
    assert_eq!(store.find_integrity_faults().unwrap(), Vec::<String>::new());
    json!({
        "value": longest, "median_ms": median(waits), "kills": kills,
        "secs": begin.elapsed().as_secs_f64(), "log_mib": log_bytes >> 20,
    })
}
