//! Long outputs of commands, run by the whole agent. Measures the memory, the delay of the first
//! output, and the delay of another session; also checks the output that the client receives.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::agent::{AgentProcess, DEADLINE};
use super::figures::{callboard_command, median, read_memory_mib};
use super::scratch::ScratchFolders;
use crate::process::TaskError;

/// First number that a command writes. Each line of the output is one nine-digit number.
const FIRST_NUMBER: u64 = 100_000_000;

/// Number of bytes per line of the command's output.
const LINE_BYTES: u64 = 10;

/// Number of bytes of the output before the measured output.
const WARM_UP_BYTES: u64 = 10_000_000;

/// Maximum number of bytes of a command's output that the agent stores in a file.
const FILE_BYTES: u64 = 64 * 1024 * 1024 - 64;

/// Maximum number of bytes of the line of one update.
const UPDATE_BYTES: usize = 60 * 1024;

/// Maximum number of updates per second, and the number of additional updates at the start and the
/// end.
const UPDATE_RATE: f64 = 20.0;
const EXTRA_UPDATES: f64 = 6.0;

/// Time limit for the command with the longest output.
const OUTPUT_DEADLINE: Duration = Duration::from_secs(1_800);

/// Delay between two turns of the other session.
const READ_PAUSE: Duration = Duration::from_millis(5);

/// The way in which a client displays the output of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientDisplay {
    /// As a terminal that the agent updates. Its lines end with `\r\n`.
    Terminal,
    Text,
}

/// Runs a command that writes 10 MB and then a command that writes n bytes, for each kind of
/// display. Returns the maximum resident memory of the agent in MiB. Also checks the final output,
/// its counts, its file, and the rate and size of the updates.
pub(super) fn peak_memory_of_long_output(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let mut peak: f64 = 0.0;
    for surface in [ClientDisplay::Terminal, ClientDisplay::Text] {
        let mut writing = OutputSession::start(built, surface)?;
        for bytes in [WARM_UP_BYTES, n.into()] {
            writing.run_and_check_output(bytes)?;
        }
        peak = peak.max(read_memory_mib(writing.agent.pid(), "VmHWM:")?);
    }
    Ok(peak)
}

/// Runs turns that read a file while a command of another session writes n bytes. Returns the 99th
/// percentile of the milliseconds of such a turn.
pub(super) fn read_latency_during_output(
    built: &ReleasePrograms,
    n: u32,
) -> Result<f64, TaskError> {
    let mut writing = OutputSession::start(built, ClientDisplay::Terminal)?;
    writing.scratch.write_file("cwd/a.txt", &"twenty-five bytes a line\n".repeat(100))?;
    let other = open_new_session(&mut writing.agent, &writing.scratch)?;
    let output = ExpectedOutput::new(n.into(), ClientDisplay::Terminal);
    let mut seen = ReceivedOutput::default();
    let run = writing.prompt_params(&output.tool_prompt());
    writing.agent.send_request("session/prompt", &run)?;
    let look = json!({"sessionId": other, "prompt": [{"type": "text", "text": "read a.txt"}]});
    let (begun, mut times) = (Instant::now(), Vec::new());
    while !seen.is_finished() {
        if begun.elapsed() > OUTPUT_DEADLINE {
            return Err(TaskError::Failed("the command did not end".to_owned()));
        }
        let (start, mut has_read) = (Instant::now(), false);
        let answer =
            writing.agent.request_and_wait("session/prompt", &look, DEADLINE, |message| {
                if message["params"]["sessionId"] == writing.session {
                    seen.record_update(message);
                } else if message["params"]["update"]["status"] == "completed" {
                    has_read = true;
                }
            })?;
        if answer["stopReason"] != "end_turn" || !has_read {
            return Err(TaskError::Failed(format!("unexpected response to a read: {answer}")));
        }
        if seen.started_at.is_some() {
            times.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        thread::sleep(READ_PAUSE);
    }
    seen.check_against(&output)?;
    times.sort_by(f64::total_cmp);
    let index = times.len() * 99 / 100;
    times.get(index).copied().ok_or_else(|| TaskError::Failed("nothing was read".to_owned()))
}

/// Runs a short command n times for each kind of display. Returns the median of the milliseconds
/// from the prompt to the first output at the client, for the slower display.
pub(super) fn first_output_latency(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let mut longest: f64 = 0.0;
    for surface in [ClientDisplay::Terminal, ClientDisplay::Text] {
        let mut writing = OutputSession::start(built, surface)?;
        // The quotes are in the command line but not in the output, so that the check below matches
        // only the output.
        let prompt = writing.prompt_params("run echo o''n stage; sleep 0.3");
        let mut times = Vec::new();
        for _ in 0..n {
            let (begun, mut first) = (Instant::now(), None);
            let shows = |message: &Value| {
                if first.is_none() && message.to_string().contains("on stage") {
                    first = Some(begun.elapsed().as_secs_f64() * 1000.0);
                }
            };
            writing.agent.request_and_wait("session/prompt", &prompt, DEADLINE, shows)?;
            times.push(first.ok_or_else(|| TaskError::Failed("nothing was shown".to_owned()))?);
        }
        longest = longest.max(median(times));
    }
    Ok(longest)
}

/// Runs n commands that write 10 MB to a terminal which the client shows. Returns the median time
/// of their turns in milliseconds.
pub(super) fn terminal_output_time(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let mut writing = OutputSession::start(built, ClientDisplay::Terminal)?;
    let prompt = writing.prompt_params("run seq 1 1400000");
    let time = |_| {
        let begun = Instant::now();
        writing.agent.request_and_wait("session/prompt", &prompt, DEADLINE, |_| ())?;
        Ok(begun.elapsed().as_secs_f64() * 1000.0)
    };
    Ok(median((0..n).map(time).collect::<Result<_, TaskError>>()?))
}

/// An agent that runs the commands of its prompts, with one open session.
struct OutputSession {
    agent: AgentProcess,
    session: Value,
    surface: ClientDisplay,
    scratch: ScratchFolders,
}

impl OutputSession {
    fn start(built: &ReleasePrograms, surface: ClientDisplay) -> Result<Self, TaskError> {
        let scratch = ScratchFolders::new("output")?;
        let mut command = callboard_command(built, &scratch, "direct");
        let mut agent = AgentProcess::start(command.args(["--mode", "auto"]))?;
        let meta = json!({"terminal_output": surface == ClientDisplay::Terminal});
        let params = json!({"protocolVersion": 1, "clientCapabilities": {"_meta": meta}});
        agent.request_and_wait("initialize", &params, DEADLINE, |_| ())?;
        let session = open_new_session(&mut agent, &scratch)?;
        Ok(Self { agent, session, surface, scratch })
    }

    fn prompt_params(&self, text: &str) -> Value {
        json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]})
    }

    /// Runs a command that writes this number of bytes, and checks the output that the client
    /// received.
    fn run_and_check_output(&mut self, bytes: u64) -> Result<(), TaskError> {
        let output = ExpectedOutput::new(bytes, self.surface);
        let mut seen = ReceivedOutput::default();
        let prompt = self.prompt_params(&output.tool_prompt());
        self.agent.request_and_wait("session/prompt", &prompt, OUTPUT_DEADLINE, |message| {
            seen.record_update(message);
        })?;
        seen.check_against(&output)
    }
}

fn open_new_session(
    agent: &mut AgentProcess,
    scratch: &ScratchFolders,
) -> Result<Value, TaskError> {
    let params = json!({"cwd": scratch.cwd(), "mcpServers": []});
    let mut session = agent.request_and_wait("session/new", &params, DEADLINE, |_| ())?;
    Ok(session["sessionId"].take())
}

/// The expected output of a command, computed when needed instead of stored.
struct ExpectedOutput {
    lines: u64,
    end: &'static str,
}

impl ExpectedOutput {
    fn new(bytes: u64, surface: ClientDisplay) -> Self {
        let end = if surface == ClientDisplay::Terminal { "\r\n" } else { "\n" };
        Self { lines: bytes / LINE_BYTES, end }
    }

    fn shell_command(&self) -> String {
        format!("seq {FIRST_NUMBER} {}", FIRST_NUMBER + self.lines - 1)
    }

    fn tool_prompt(&self) -> String {
        let timeout = OUTPUT_DEADLINE.as_millis();
        format!("tool terminal {}", json!({"command": self.shell_command(), "timeout_ms": timeout}))
    }

    fn line_width(&self) -> u64 {
        LINE_BYTES - 1 + self.end.len() as u64
    }

    fn total_bytes(&self) -> u64 {
        self.lines * self.line_width()
    }

    /// Returns up to `len` bytes of the output, from offset `at`.
    fn bytes_at(&self, at: u64, len: usize) -> Vec<u8> {
        let skipped = (at % self.line_width()) as usize;
        let lines = at / self.line_width()..self.lines;
        let mut text = String::with_capacity(len + skipped + LINE_BYTES as usize);
        for line in lines.take_while(|line| {
            (line - at / self.line_width()) * self.line_width() < (len + skipped) as u64
        }) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{}{}", FIRST_NUMBER + line, self.end);
        }
        let bytes = text.into_bytes();
        bytes.into_iter().skip(skipped).take(len).collect()
    }

    /// Returns whether a file contains the beginning of the output. If the output is longer, a line
    /// with the number of missing bytes must follow.
    fn is_stored_in(&self, path: &str) -> Result<bool, std::io::Error> {
        let mut file = File::open(path)?;
        let kept = self.total_bytes().min(FILE_BYTES);
        let (mut at, mut part) = (0, vec![0; 1 << 20]);
        while at < kept {
            let len = part.len().min((kept - at) as usize);
            file.read_exact(&mut part[..len])?;
            if part[..len] != self.bytes_at(at, len) {
                return Ok(false);
            }
            at += len as u64;
        }
        let mut rest = String::new();
        file.read_to_string(&mut rest)?;
        let expected = match self.total_bytes() - kept {
            0 => String::new(),
            more => format!("\n[... {more} bytes have no room here]\n"),
        };
        Ok(rest == expected)
    }
}

/// The state of a tool call and its output, as received by the client.
#[derive(Default)]
struct ReceivedOutput {
    status: String,
    /// Complete output that the agent sent for the terminal of the call.
    terminal: String,
    /// Text content of the call, as last sent by the agent.
    text: String,
    result: Value,
    started_at: Option<Instant>,
    seconds: f64,
    updates: u32,
    largest: usize,
}

impl ReceivedOutput {
    fn is_finished(&self) -> bool {
        matches!(&*self.status, "completed" | "failed")
    }

    fn record_update(&mut self, message: &Value) {
        let update = &message["params"]["update"];
        if !matches!(update["sessionUpdate"].as_str(), Some("tool_call" | "tool_call_update")) {
            return;
        }
        let begun = *self.started_at.get_or_insert_with(Instant::now);
        self.seconds = begun.elapsed().as_secs_f64();
        self.updates += 1;
        // The agent serializes messages in the same way and adds a newline, so this is the number
        // of bytes of the line that it sent.
        self.largest = self.largest.max(message.to_string().len() + 1);
        if let Some(status) = update["status"].as_str() {
            status.clone_into(&mut self.status);
        }
        if let Some(data) = update["_meta"]["terminal_output"]["data"].as_str() {
            self.terminal.push_str(data);
        }
        let items = update["content"].as_array().into_iter().flatten();
        let mut texts = items.filter_map(|item| item["content"]["text"].as_str());
        if let Some(text) = texts.next() {
            text.clone_into(&mut self.text);
        }
        if !update["rawOutput"].is_null() {
            self.result = update["rawOutput"].clone();
        }
    }

    /// Returns the output as displayed by the client.
    fn displayed_output(&self, output: &ExpectedOutput) -> Option<String> {
        if output.end == "\r\n" {
            // Before each gap, the agent resets the colours. This reset is not part of the
            // command's output.
            return Some(self.terminal.replace("\u{1b}[0m\n[… ", "\n[… "));
        }
        let text =
            self.text.strip_prefix(&format!("```console\n$ {}\n", output.shell_command()))?;
        text.strip_suffix("```").map(str::to_owned)
    }

    fn check_against(&self, output: &ExpectedOutput) -> Result<(), TaskError> {
        let failed =
            |what: String| Err(TaskError::Failed(format!("{}: {what}", output.shell_command())));
        let Self { status, result, updates, seconds, largest, .. } = self;
        if status != "completed" {
            return failed(format!("the call ended as {status}: {result}"));
        }
        let has =
            |at: usize, piece: &str| output.bytes_at(at as u64, piece.len()) == piece.as_bytes();
        let Some(view) = self.displayed_output(output) else {
            return failed("its text is not shown as one of a command".to_owned());
        };
        let end = end_offset_if_pieces_match(&view, has);
        if end != Some(output.total_bytes() as usize) || !view.contains(" bytes left out …]") {
            return failed(format!(
                "of {} bytes the client's view ends at {end:?}",
                output.total_bytes()
            ));
        }
        if (&result["outputBytes"], &result["outputLines"])
            != (&json!(output.total_bytes()), &json!(output.lines))
        {
            return failed(format!("wrong counts: {result}"));
        }
        match output.is_stored_in(result["outputFile"].as_str().unwrap_or_default()) {
            Ok(true) => {}
            other => return failed(format!("the file does not match the output: {other:?}")),
        }
        if *largest > UPDATE_BYTES || f64::from(*updates) > seconds * UPDATE_RATE + EXTRA_UPDATES {
            return failed(format!("{updates} updates of up to {largest} bytes in {seconds} s"));
        }
        Ok(())
    }
}

/// Returns the end offset of `view` in the whole output. A gap contains the number of omitted
/// bytes. Returns `None` if a piece of `view` is not at the offset that results from the gaps
/// before the piece. `has` returns whether a piece occurs at an offset.
pub(super) fn end_offset_if_pieces_match(
    view: &str,
    has: impl Fn(usize, &str) -> bool,
) -> Option<usize> {
    let past = |at: usize, piece: &str| has(at, piece).then_some(at + piece.len());
    let (mut rest, mut at) = (view, 0);
    while let Some((piece, gap)) = rest.split_once("\n[… ") {
        let (bytes, behind) = gap.split_once(" bytes left out …]\n")?;
        at = past(at, piece)? + bytes.parse::<usize>().ok()?;
        rest = behind;
    }
    past(at, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_must_be_at_the_offset_that_the_gaps_imply() {
        let output = "one\ntwo\nthree\n";
        for (view, end) in [
            ("", Some(0)),
            ("one\ntwo\nthree\n", Some(14)),
            ("one\nt", Some(5)),
            ("one\n\n[… 4 bytes left out …]\nthree\n", Some(14)),
            ("\n[… 4 bytes left out …]\nt\n[… 3 bytes left out …]\nthree\n", Some(14)),
            ("one\n\n[… 3 bytes left out …]\nthree\n", None),
            ("one\n\n[… many bytes left out …]\nthree\n", None),
            ("two\n", None),
        ] {
            let has = |at: usize, piece: &str| output[at..].starts_with(piece);
            assert_eq!(end_offset_if_pieces_match(view, has), end, "{view:?}");
        }
    }

    #[test]
    fn the_expected_bytes_of_any_range_are_computed() {
        for surface in [ClientDisplay::Terminal, ClientDisplay::Text] {
            let output = ExpectedOutput::new(50, surface);
            let all: String = (0..5).map(|line| format!("10000000{line}{}", output.end)).collect();
            assert_eq!(output.total_bytes() as usize, all.len());
            for at in 0..all.len() {
                for len in 0..all.len() + 3 {
                    let end = all.len().min(at + len);
                    assert_eq!(output.bytes_at(at as u64, len), &all.as_bytes()[at..end]);
                }
            }
        }
    }

    #[test]
    fn a_view_a_count_or_a_file_that_is_wrong_is_found() {
        let output = ExpectedOutput::new(50, ClientDisplay::Text);
        let path = std::env::temp_dir().join(format!("output-{}", std::process::id()));
        std::fs::write(&path, output.bytes_at(0, 50)).unwrap();
        let text = |gap: u32| {
            let view = format!("100000000\n\n[… {gap} bytes left out …]\n100000004\n");
            format!("```console\n$ seq 100000000 100000004\n{view}```")
        };
        let judged = |text: &str, bytes: u32, path: &str| {
            let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
            let raw = json!({"outputBytes": bytes, "outputLines": 5, "outputFile": path});
            let update = json!({"sessionUpdate": "tool_call_update", "status": "completed",
                "content": content, "rawOutput": raw});
            let mut seen = ReceivedOutput::default();
            seen.record_update(&json!({"params": {"update": update}}));
            seen.check_against(&output).is_ok()
        };
        let file = path.to_str().unwrap();
        assert!(judged(&text(30), 50, file));
        assert!(!judged(&text(29), 50, file));
        assert!(!judged("", 50, file));
        assert!(!judged(&text(30), 51, file));
        assert!(!judged(&text(30), 50, "/dev/null"));
        std::fs::remove_file(path).unwrap();
    }
}
