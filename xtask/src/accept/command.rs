//! Commands of our own that are cancelled while they run, or leave something running: how soon the
//! turn is answered, and how soon the process is gone.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Built;
use super::agent::{Agent, DEADLINE, Next};
use super::figures::{call, callboard, end, median, open_session};
use super::scratch::Scratch;
use crate::process::Stop;

/// How long a message is waited for before it is looked whether the process is gone.
const LOOK: Duration = Duration::from_micros(100);

/// Milliseconds from a cancel to the answer of its turn, the median of n.
pub(super) fn cancelled(built: &Built, n: u32) -> Result<f64, Stop> {
    Ok(median(cancel(built, n)?.into_iter().map(|end| end.answered).collect()))
}

/// Milliseconds from a cancel until the command's process is gone, the median of n.
pub(super) fn gone(built: &Built, n: u32) -> Result<f64, Stop> {
    Ok(median(cancel(built, n)?.into_iter().map(|end| end.gone).collect()))
}

/// Milliseconds from a prompt whose command leaves a process running to the answer of its turn, the
/// median of n; that process is gone then.
pub(super) fn left_running(built: &Built, n: u32) -> Result<f64, Stop> {
    let scratch = Scratch::new("background-left")?;
    let left = json!({"command": "sleep 1000 & echo $! > pid"});
    let turns = (call("terminal", &left) + &end()).repeat(n as usize);
    let file = scratch.write("script.jsonl", &turns)?;
    let model = format!("script:{}", file.display());
    let mut command = callboard(built, &scratch, &model);
    let mut agent = Agent::start(command.args(["--mode", "auto"]))?;
    let session = open_session(&mut agent, &scratch.cwd())?;
    let prompt = json!([{"type": "text", "text": "go"}]);
    let pid = scratch.cwd().join("pid");
    let mut times = Vec::new();
    for _ in 0..n {
        let asked = Instant::now();
        let prompted = json!({"sessionId": session, "prompt": prompt});
        agent.request("session/prompt", &prompted, DEADLINE, |_| {})?;
        times.push(asked.elapsed().as_secs_f64() * 1000.0);
        let process = begun(&pid)?;
        if Path::new(&process).exists() {
            return Err(Stop::Failed(format!("{process} is left")));
        }
        let forgotten = fs::remove_file(&pid);
        forgotten.map_err(|error| Stop::Failed(format!("{}: {error}", pid.display())))?;
    }
    Ok(median(times))
}

/// What came how many milliseconds after a cancel.
struct End {
    answered: f64,
    gone: f64,
}

fn cancel(built: &Built, n: u32) -> Result<Vec<End>, Stop> {
    let scratch = Scratch::new("cancel-command")?;
    let run = call("terminal", &json!({"command": "echo $$ > pid; exec sleep 600"}));
    let file = scratch.write("script.jsonl", &run.repeat(n as usize))?;
    let model = format!("script:{}", file.display());
    let mut command = callboard(built, &scratch, &model);
    let mut agent = Agent::start(command.args(["--mode", "auto"]))?;
    let session = open_session(&mut agent, &scratch.cwd())?;
    (0..n).map(|_| turn(&mut agent, &session, &scratch.cwd().join("pid"))).collect()
}

/// Lets a turn begin its command and cancels it.
fn turn(agent: &mut Agent, session: &Value, pid: &Path) -> Result<End, Stop> {
    let prompt = json!([{"type": "text", "text": "go"}]);
    agent.send("session/prompt", &json!({"sessionId": session, "prompt": prompt}))?;
    let process = begun(pid)?;
    // Everything that the running command is told of has been sent by now, or comes first.
    let begun = Instant::now();
    agent.notify("session/cancel", &json!({ "sessionId": session }))?;
    let ms = || begun.elapsed().as_secs_f64() * 1000.0;
    let (mut answered, mut gone) = (None, None);
    loop {
        match agent.next("session/prompt", Instant::now() + LOOK)? {
            Some(Next::Answered(answer)) if answer["stopReason"] == "cancelled" => {
                answered = Some(ms());
            }
            Some(Next::Answered(other)) => {
                return Err(Stop::Failed(format!("the turn was answered by {other}")));
            }
            Some(Next::Told(_)) | None => {}
        }
        if gone.is_none() && !Path::new(&process).exists() {
            gone = Some(ms());
        }
        if let (Some(answered), Some(gone)) = (answered, gone) {
            let forgotten = fs::remove_file(pid);
            forgotten.map_err(|error| Stop::Failed(format!("{}: {error}", pid.display())))?;
            return Ok(End { answered, gone });
        }
        if begun.elapsed() > DEADLINE {
            return Err(Stop::Failed(format!("answered: {answered:?}, gone: {gone:?}")));
        }
    }
}

/// Waits until the command has told its process, and returns where the system tells of that.
fn begun(pid: &Path) -> Result<String, Stop> {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        let told = fs::read_to_string(pid).unwrap_or_default();
        if let Some(id) = told.strip_suffix('\n') {
            return Ok(format!("/proc/{id}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Stop::Failed("the command did not begin".to_owned()))
}
