//! Malformed lines, sent one by one or together, and lines of the maximum allowed size or number of
//! items.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::figures::{callboard_command, read_memory_mib};
use super::raw_agent::RawAgent;
use super::scratch::ScratchFolders;
use super::seed::Random;
use crate::process::TaskError;

#[path = "../../../tests/it/malformed/table.rs"]
mod table;

use table::{ROWS, Row};

/// Starts a process for each malformed line, sends the line and then `initialize`. Returns the
/// maximum time, in seconds, from the start of a process to its response to `initialize`. Each line
/// is sent n times.
pub(super) fn max_startup_with_malformed_line(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("malformed")?;
    let mut longest = Duration::ZERO;
    for _ in 0..n {
        for row in ROWS {
            let survived = time_to_initialize_after_line(built, &scratch, row);
            longest = longest.max(survived.map_err(|stop| error_with_row_name(row, stop))?);
        }
    }
    Ok(longest.as_secs_f64())
}

fn time_to_initialize_after_line(
    built: &ReleasePrograms,
    scratch: &ScratchFolders,
    row: &Row,
) -> Result<Duration, TaskError> {
    let start = Instant::now();
    let mut agent = RawAgent::start(&mut callboard_command(built, scratch, "direct"))?;
    agent.send_line(&row.line(17))?;
    agent.send_line(BARRIER)?;
    let mut seen = Vec::new();
    loop {
        let error = parse_error_response(&agent.wait_for_next_line()?)?;
        if error.0 == "barrier" {
            break;
        }
        seen.push(error);
    }
    if !seen.iter().eq(&row.expected(17, false)) {
        return Err(TaskError::Failed(format!("unexpected responses {seen:?}")));
    }
    initialize(&mut agent)?;
    Ok(start.elapsed())
}

/// Sends every malformed line n times to one process, in random order. Returns the number of
/// missing and surplus responses.
pub(super) fn malformed_line_miscounts(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("malformed-shuffled")?;
    let mut agent = RawAgent::start(&mut callboard_command(built, &scratch, "direct"))?;
    initialize(&mut agent)?;
    let order = shuffled_malformed_lines(n, &mut built.seed.create_rng());
    let mut expected: HashMap<(String, i64), i64> = HashMap::new();
    for (id, row) in (0..).zip(&order) {
        if let Some((id, code)) = row.expected(id, true) {
            *expected.entry((id.to_string(), code)).or_default() += 1;
        }
    }
    let mut input = agent.take_input();
    let sending = std::thread::spawn(move || {
        for (id, row) in (0..).zip(order) {
            input.send_line(&row.line(id))?;
        }
        input.send_line(BARRIER).map(|()| input)
    });
    loop {
        let (id, code) = parse_error_response(&agent.wait_for_next_line()?)?;
        if id == "barrier" {
            break;
        }
        *expected.entry((id.to_string(), code)).or_default() -= 1;
    }
    let died = |_| TaskError::Failed("the sending thread panicked".to_owned());
    // The agent's input stays open until the last response has arrived.
    let _input = sending.join().map_err(died)??;
    Ok(expected.values().map(|left| left.unsigned_abs() as f64).sum())
}

fn shuffled_malformed_lines(n: u32, random: &mut Random) -> Vec<&'static Row> {
    let mut order: Vec<_> = (0..n).flat_map(|_| ROWS).collect();
    random.shuffle(&mut order);
    order
}

/// Sends n MiB without a newline to a process, and returns its maximum resident memory in MiB.
pub(super) fn endless_line_memory(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("no-newline")?;
    let mut agent = RawAgent::start(&mut callboard_command(built, &scratch, "direct"))?;
    let mebibyte = vec![b'['; 1 << 20];
    (0..n).try_for_each(|_| agent.write_bytes(&mebibyte))?;
    agent.write_bytes(b"\n")?;
    let (id, code) = parse_error_response(&agent.wait_for_next_line()?)?;
    if (&id, code) != (&Value::Null, -32700) {
        return Err(TaskError::Failed(format!("unexpected response {code} to {id}")));
    }
    initialize(&mut agent)?;
    read_memory_mib(agent.pid(), "VmHWM:")
}

/// Sends each kind of dense line n times to a separate process. Returns the maximum resident memory
/// of the processes, in MiB.
pub(super) fn dense_line_memory(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let scratch = ScratchFolders::new("dense-line")?;
    let cwd = json!(scratch.cwd()).to_string();
    let mut most: f64 = 0.0;
    for dense in DENSE {
        let line = dense.build_line(&cwd, DENSE_BYTES);
        let mut agent = RawAgent::start(&mut callboard_command(built, &scratch, "direct"))?;
        initialize(&mut agent)?;
        let sent = (0..n).try_for_each(|_| agent.send_line(line.as_bytes()));
        let answered =
            sent.and_then(|()| (0..n).try_for_each(|_| dense.check_response(&mut agent)));
        answered.map_err(|stop| error_with_name(dense.name, stop))?;
        most = most.max(read_memory_mib(agent.pid(), "VmHWM:")?);
    }
    Ok(most)
}

/// A kind of very large line: a `session/new` request whose `_meta` contains an array of `count`
/// items.
struct DenseLine {
    name: &'static str,
    /// One item. `*` in the item is replaced by text that extends the line to the allowed length.
    item: &'static str,
    count: usize,
    is_accepted: bool,
}

/// Total number of bytes of the items. The rest of the 16 MiB is for the other parts of the line.
const DENSE_BYTES: usize = 15_800_000;

const DENSE: &[DenseLine] = &[
    DenseLine { name: "zeros", item: "0,", count: DENSE_BYTES / 2, is_accepted: false },
    DenseLine { name: "as many zeros as may be", item: "0,", count: 99_900, is_accepted: true },
    DenseLine { name: "one string", item: "\"*\",", count: 1, is_accepted: true },
    DenseLine { name: "strings", item: "\"*\",", count: 99_900, is_accepted: true },
    DenseLine { name: "arrays of one", item: "[\"*\"],", count: 19_900, is_accepted: true },
    DenseLine { name: "objects of one", item: "{\"a\":\"*\"},", count: 16_600, is_accepted: true },
    DenseLine {
        name: "objects of a long key",
        item: "{\"*\":0},",
        count: 16_600,
        is_accepted: true,
    },
    DenseLine {
        name: "objects within objects",
        item: "{\"*\":{\"*\":{\"*\":{\"*\":{\"*\":{\"*\":{\"*\":{\"*\":0}}}}}}}},",
        count: 2_430,
        is_accepted: true,
    },
];

impl DenseLine {
    /// Returns the line, with items of about `bytes` bytes in total.
    fn build_line(&self, cwd: &str, bytes: usize) -> String {
        let stars = self.item.matches('*').count() * self.count;
        let room = bytes.saturating_sub(self.item.len() * self.count);
        let item = match room.checked_div(stars) {
            Some(bytes) => self.item.replace('*', &"s".repeat(bytes)),
            None => self.item.to_owned(),
        };
        let items = item.repeat(self.count);
        format!(
            r#"{{"jsonrpc":"2.0","id":"dense","method":"session/new","params":{{"cwd":{cwd},"mcpServers":[],"_meta":{{"x":[{items}0]}}}}}}"#
        )
    }

    fn check_response(&self, agent: &mut RawAgent) -> Result<(), TaskError> {
        loop {
            let answer = agent.wait_for_next_json_line()?;
            if answer["method"].is_string() {
                // The message is a notification of a session that was opened by an earlier line.
                continue;
            }
            let is_accepted = answer["result"]["sessionId"].is_string();
            // If too many requests run at once, the agent responds that it is busy.
            let is_busy = answer["error"]["data"]["reason"] == "busy";
            if is_accepted == self.is_accepted || (self.is_accepted && is_busy) {
                return Ok(());
            }
            return Err(TaskError::Failed(format!("unexpected response {answer}")));
        }
    }
}

const INITIALIZE: &[u8] =
    br#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":1}}"#;

/// A request that is always answered with an error, even before the agent is initialized. The
/// response to it arrives after the responses to all earlier lines.
const BARRIER: &[u8] = br#"{"jsonrpc":"2.0","id":"barrier","method":"none"}"#;

fn initialize(agent: &mut RawAgent) -> Result<(), TaskError> {
    agent.send_line(INITIALIZE)?;
    let answer = agent.wait_for_next_json_line()?;
    match (answer["id"].as_str(), answer["result"]["protocolVersion"].as_u64()) {
        (Some("init"), Some(1)) => Ok(()),
        _ => Err(TaskError::Failed(format!("unexpected response to initialize: {answer}"))),
    }
}

fn parse_error_response(line: &str) -> Result<(Value, i64), TaskError> {
    table::error(line).map_err(TaskError::Failed)
}

fn error_with_row_name(row: &Row, stop: TaskError) -> TaskError {
    error_with_name(row.name, stop)
}

fn error_with_name(name: &str, stop: TaskError) -> TaskError {
    TaskError::Failed(format!("{name}: {}", stop.message().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::seed::Seed;

    #[test]
    fn each_row_occurs_n_times() {
        let order = shuffled_malformed_lines(3, &mut Seed::new(Some(1)).create_rng());
        assert_eq!(order.len(), 3 * ROWS.len());
        for row in ROWS {
            assert_eq!(order.iter().filter(|other| other.name == row.name).count(), 3);
        }
    }

    #[test]
    fn a_dense_line_is_json_and_nearly_16_mib_unless_it_would_be_more() {
        for dense in DENSE {
            let line = dense.build_line("\"/\"", DENSE_BYTES);
            assert!(line.len() < 16 << 20, "{}", dense.name);
            let is_full = line.len() > 15_000_000 || !dense.item.contains('*');
            assert!(is_full, "{}: {}", dense.name, line.len());
            // A debug build would parse the whole line slowly, so a shorter line is parsed here.
            let few = DenseLine { count: dense.count.min(1_000), ..*dense };
            let value: Value = serde_json::from_str(&few.build_line("\"/\"", 0)).unwrap();
            let items = value["params"]["_meta"]["x"].as_array().unwrap();
            assert_eq!(items.len(), few.count + 1, "{}", dense.name);
        }
    }
}
