//! The client's `terminal/*` methods: commands that the client runs for the agent.

use std::collections::HashMap;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::behaviour::{Cut, Scripted, Service, Terminals};
use crate::limits::MAX_TERMINAL_BYTES;
use crate::served::Served;

/// The terminals that are open.
#[derive(Debug, Default)]
pub(crate) struct Running {
    terminals: HashMap<String, Terminal>,
    last_id: u64,
}

#[derive(Debug)]
struct Terminal {
    output: Arc<Mutex<Vec<u8>>>,
    limit: Option<usize>,
    exit: watch::Receiver<Option<Value>>,
    kill: Arc<Notify>,
}

impl Running {
    /// Serves a request.
    ///
    /// # Errors
    ///
    /// What is wrong, as the message of a JSON-RPC error.
    pub(crate) fn serve(
        &mut self,
        method: &str,
        params: &Value,
        how: &Terminals,
    ) -> Result<Served, String> {
        if method == "terminal/create" {
            return self.create(params, how.scripted.as_ref()).map(Served::Now);
        }
        let id = params["terminalId"].as_str().unwrap_or_default();
        let terminal = self.terminals.get(id).ok_or("no such terminal")?;
        Ok(match method {
            "terminal/output" => Served::Now(terminal.output(how.cut)),
            "terminal/wait_for_exit" => Served::Later(exited(terminal.exit.clone()).boxed()),
            "terminal/kill" => {
                terminal.kill.notify_one();
                Served::Now(json!({}))
            }
            "terminal/release" => {
                terminal.kill.notify_one();
                self.terminals.remove(id);
                Served::Now(json!({}))
            }
            _ => return Err("no such method".to_owned()),
        })
    }

    /// Returns how many there are.
    pub(crate) fn count(&self) -> usize {
        self.terminals.len()
    }

    fn create(&mut self, params: &Value, scripted: Option<&Scripted>) -> Result<Value, String> {
        let output = Arc::<Mutex<Vec<u8>>>::default();
        let (exited, exit) = watch::channel(None);
        let kill = Arc::<Notify>::default();
        if let Some(scripted) = scripted {
            tokio::spawn(write(scripted.output.clone(), Arc::clone(&output)));
            tokio::spawn(end(scripted.exit.clone(), Arc::clone(&kill), exited));
        } else {
            let child = command(params).spawn().map_err(|error| error.to_string())?;
            tokio::spawn(run(child, Arc::clone(&output), Arc::clone(&kill), exited));
        }
        self.last_id += 1;
        let id = format!("terminal-{}", self.last_id);
        let limit = params["outputByteLimit"].as_u64();
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        self.terminals.insert(id.clone(), Terminal { output, limit, exit, kill });
        Ok(json!({ "terminalId": id }))
    }
}

impl Terminal {
    fn output(&self, cut: Cut) -> Value {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = match cut {
            Cut::AsAsked => last(&output, self.limit.unwrap_or(usize::MAX)),
            Cut::Beginning(bytes) => last(&output, bytes),
            Cut::End(bytes) => &output[..bytes.min(output.len())],
        };
        json!({
            "output": String::from_utf8_lossy(shown),
            "truncated": shown.len() < output.len(),
            "exitStatus": *self.exit.borrow(),
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.kill.notify_one();
    }
}

fn last(output: &[u8], bytes: usize) -> &[u8] {
    &output[output.len().saturating_sub(bytes)..]
}

impl Terminals {
    /// Whether a method works.
    pub(crate) fn serves(&self, method: &str) -> Service {
        self.but.get(method).copied().unwrap_or(self.service)
    }
}

/// The exit status, when there is one.
async fn exited(mut exit: watch::Receiver<Option<Value>>) -> Value {
    let status = exit.wait_for(Option::is_some).await;
    let status = status.ok().and_then(|status| status.clone());
    status.unwrap_or_else(|| json!({}))
}

/// Writes what a scripted command writes.
async fn write(texts: Vec<(Duration, String)>, output: Arc<Mutex<Vec<u8>>>) {
    for (pause, text) in texts {
        sleep(pause).await;
        output.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(text.as_bytes());
    }
}

/// Ends a scripted command when it ends by itself or is killed.
async fn end(
    exit: Option<(Duration, Value)>,
    killed: Arc<Notify>,
    exited: watch::Sender<Option<Value>>,
) {
    let ended = async {
        match exit {
            Some((after, status)) => {
                sleep(after).await;
                status
            }
            None => std::future::pending().await,
        }
    };
    let status = tokio::select! {
        status = ended => status,
        () = killed.notified() => json!({"exitCode": null, "signal": "SIGKILL"}),
    };
    exited.send_replace(Some(status));
}

/// The command of a `terminal/create`.
fn command(params: &Value) -> Command {
    let texts = |list: &Value| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let mut command = Command::new(params["command"].as_str().unwrap_or_default());
    command.args(texts(&params["args"]));
    for variable in params["env"].as_array().into_iter().flatten() {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            command.env(name, value);
        }
    }
    if let Some(cwd) = params["cwd"].as_str() {
        command.current_dir(cwd);
    }
    // What it starts ends with it.
    #[cfg(unix)]
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Collects the output of a command until it ends by itself or is killed.
async fn run(
    mut child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    killed: Arc<Notify>,
    exited: watch::Sender<Option<Value>>,
) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let streams = async {
        tokio::join!(collect(stdout, &output), collect(stderr, &output));
    };
    tokio::select! {
        () = streams => {}
        () = killed.notified() => kill(&mut child),
    }
    let status = tokio::select! {
        status = child.wait() => Some(status),
        () = killed.notified() => None,
    };
    let status = match status {
        Some(status) => status,
        None => {
            kill(&mut child);
            child.wait().await
        }
    };
    exited.send_replace(Some(status.map_or_else(|_| json!({}), describe)));
}

async fn collect(stream: Option<impl AsyncRead + Unpin>, output: &Mutex<Vec<u8>>) {
    let Some(mut stream) = stream else { return };
    let mut bytes = vec![0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_TERMINAL_BYTES.saturating_sub(output.len());
        output.extend_from_slice(&bytes[..read.min(room)]);
    }
}

/// Kills a command and what it started.
fn kill(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok())
        && let Some(group) = rustix::process::Pid::from_raw(group)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    drop(child.start_kill());
}

#[cfg(unix)]
fn describe(status: ExitStatus) -> Value {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.signal().map(|signal| signal.to_string());
    json!({"exitCode": status.code(), "signal": signal})
}

#[cfg(not(unix))]
fn describe(status: ExitStatus) -> Value {
    json!({"exitCode": status.code()})
}
