//! The scripted server of models as a program, for tests in other languages and for
//! `cargo xtask accept`.
//!
//! `model_server FILE` takes one answer a line, as JSON (`callboard_models::mock_server::Answer`),
//! and gives them in turn in whatever dialect it is asked. On standard output it tells, a JSON
//! object a line, where it listens, and then of each request when its answer is over: how long
//! after the end of the answer before it it came (`gap_us`), and whether its answer was told or
//! whoever asked was gone (`told`). It ends with its standard input.

use std::error::Error;
use std::io::Write as _;
use std::{env, fs, io};

use callboard_models::mock_server::{MockResponse, ModelServer, RecordedRequest, ResponseOutcome};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args_os().nth(1).ok_or("usage: model_server FILE")?;
    let script = fs::read_to_string(file)?;
    let answers =
        script.lines().map(serde_json::from_str::<MockResponse>).collect::<Result<Vec<_>, _>>();
    let server = ModelServer::start(answers?).await?;
    print_line(&json!({"listening": server.address().to_string()}))?;
    let (input, ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        drop(input);
    });
    tokio::select! {
        told = report_requests(&server) => told?,
        _ = ended => {}
    }
    Ok(())
}

async fn report_requests(server: &ModelServer) -> io::Result<()> {
    let mut nth = 0;
    let is_over = |asked: &RecordedRequest| asked.outcome != ResponseOutcome::Pending;
    while server.wait_until(|asked| asked.get(nth).is_some_and(is_over)).await {
        // No copy of all: that would take longer with each request, and be measured with the agent.
        let line = server.with_requests(|asked| {
            let before = nth.checked_sub(1).and_then(|before| asked.get(before));
            asked.get(nth).map(|asked| report_line(asked, before))
        });
        line.map_or(Ok(()), |line| print_line(&line))?;
        nth += 1;
    }
    Ok(())
}

fn report_line(asked: &RecordedRequest, before: Option<&RecordedRequest>) -> Value {
    let gap = before.and_then(|before| match before.outcome {
        ResponseOutcome::Sent(at) => {
            Some(asked.received_at.saturating_duration_since(at).as_micros() as u64)
        }
        ResponseOutcome::Disconnected(_) | ResponseOutcome::Pending => None,
    });
    json!({"path": asked.path, "gap_us": gap, "told": matches!(asked.outcome, ResponseOutcome::Sent(_))})
}

fn print_line(line: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
