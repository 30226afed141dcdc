//! Runs the scripted model server as a program, for tests in other languages and for `cargo xtask
//! accept`.
//!
//! `model_server FILE` reads one response per line of FILE, as JSON
//! (`callboard_models::mock_server::MockResponse`). The program sends these responses in order,
//! each in the dialect of its request. It writes one JSON object per line to standard output. The
//! first line of the output contains the address on which the server listens. Each later line
//! describes one request whose response has ended. `bytes` is the size of the request's body.
//! `gap_us` is the time in microseconds between the end of the previous response and the request.
//! `was_sent` states whether the client stayed until the whole response was sent. The server exits
//! when its standard input ends.

use std::error::Error;
use std::io::Write as _;
use std::{env, fs, io};

use callboard_models::mock_server::{MockResponse, ModelServer, RecordedRequest, ResponseProgress};
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
        result = report_requests(&server) => result?,
        _ = ended => {}
    }
    Ok(())
}

async fn report_requests(server: &ModelServer) -> io::Result<()> {
    let mut nth = 0;
    let is_over = |asked: &RecordedRequest| asked.progress != ResponseProgress::Pending;
    while server.wait_until_requests_match(|asked| asked.get(nth).is_some_and(is_over)).await {
        // `inspect_requests` only borrows the requests. A copy of all requests would take more time
        // with each request, and the agent would seem slower.
        let line = server.inspect_requests(|asked| {
            let before = nth.checked_sub(1).and_then(|before| asked.get(before));
            asked.get(nth).map(|asked| report_line(asked, before))
        });
        line.map_or(Ok(()), |line| print_line(&line))?;
        nth += 1;
    }
    Ok(())
}

fn report_line(asked: &RecordedRequest, before: Option<&RecordedRequest>) -> Value {
    let gap = before.and_then(|before| match before.progress {
        ResponseProgress::Sent(at) => {
            Some(asked.received_at.saturating_duration_since(at).as_micros() as u64)
        }
        _ => None,
    });
    let was_sent = matches!(asked.progress, ResponseProgress::Sent(_));
    json!({"path": asked.path, "bytes": asked.body.len(), "gap_us": gap, "was_sent": was_sent})
}

fn print_line(line: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
