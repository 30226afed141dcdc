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

use crate::behaviour::{OutputTruncation, ScriptedCommand, ServiceBehaviour, TerminalService};
use crate::limits::MAX_TERMINAL_OUTPUT_BYTES;
use crate::service_reply::ServiceReply;

#[derive(Debug, Default)]
pub(crate) struct OpenTerminals {
    terminals: HashMap<String, HostedTerminal>,
    last_id: u64,
}

#[derive(Debug)]
struct HostedTerminal {
    output: Arc<Mutex<Vec<u8>>>,
    limit: Option<usize>,
    exit: watch::Receiver<Option<Value>>,
    kill: Arc<Notify>,
}

impl OpenTerminals {
    /// Serves a request of the agent about a terminal.
    ///
    /// # Errors
    ///
    /// Returns the message of a JSON-RPC error.
    pub(crate) fn serve_terminal_request(
        &mut self,
        method: &str,
        params: &Value,
        how: &TerminalService,
    ) -> Result<ServiceReply, String> {
        if method == "terminal/create" {
            return self.create(params, how.scripted_command.as_ref()).map(ServiceReply::Now);
        }
        let id = params["terminalId"].as_str().unwrap_or_default();
        let terminal = self.terminals.get(id).ok_or("no such terminal")?;
        Ok(match method {
            "terminal/output" => ServiceReply::Now(terminal.output_response(how.truncation)),
            "terminal/wait_for_exit" => {
                ServiceReply::Later(wait_for_exit_status(terminal.exit.clone()).boxed())
            }
            "terminal/kill" => {
                terminal.kill.notify_one();
                ServiceReply::Now(json!({}))
            }
            "terminal/release" => {
                terminal.kill.notify_one();
                self.terminals.remove(id);
                ServiceReply::Now(json!({}))
            }
            _ => return Err("no such method".to_owned()),
        })
    }

    pub(crate) fn open_terminal_count(&self) -> usize {
        self.terminals.len()
    }

    fn create(
        &mut self,
        params: &Value,
        scripted: Option<&ScriptedCommand>,
    ) -> Result<Value, String> {
        let output = Arc::<Mutex<Vec<u8>>>::default();
        let (exited, exit) = watch::channel(None);
        let kill = Arc::<Notify>::default();
        if let Some(scripted) = scripted {
            tokio::spawn(write_scripted_output(scripted.output.clone(), Arc::clone(&output)));
            tokio::spawn(wait_for_scripted_exit(scripted.exit.clone(), Arc::clone(&kill), exited));
        } else {
            let child = terminal_command(params).spawn().map_err(|error| error.to_string())?;
            tokio::spawn(run_terminal_command(
                child,
                Arc::clone(&output),
                Arc::clone(&kill),
                exited,
            ));
        }
        self.last_id += 1;
        let id = format!("terminal-{}", self.last_id);
        let limit = params["outputByteLimit"].as_u64();
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        self.terminals.insert(id.clone(), HostedTerminal { output, limit, exit, kill });
        Ok(json!({ "terminalId": id }))
    }
}

impl HostedTerminal {
    fn output_response(&self, cut: OutputTruncation) -> Value {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = match cut {
            OutputTruncation::ToRequestedLimit => {
                last_bytes(&output, self.limit.unwrap_or(usize::MAX))
            }
            OutputTruncation::KeepLastBytes(bytes) => last_bytes(&output, bytes),
            OutputTruncation::KeepFirstBytes(bytes) => &output[..bytes.min(output.len())],
        };
        json!({
            "output": String::from_utf8_lossy(shown),
            "truncated": shown.len() < output.len(),
            "exitStatus": *self.exit.borrow(),
        })
    }
}

impl Drop for HostedTerminal {
    fn drop(&mut self) {
        self.kill.notify_one();
    }
}

fn last_bytes(output: &[u8], bytes: usize) -> &[u8] {
    &output[output.len().saturating_sub(bytes)..]
}

impl TerminalService {
    /// Returns the behaviour of the client for a method.
    pub(crate) fn behaviour_for_method(&self, method: &str) -> ServiceBehaviour {
        self.method_overrides.get(method).copied().unwrap_or(self.service)
    }
}

/// Waits until the exit status is known, and returns it.
async fn wait_for_exit_status(mut exit: watch::Receiver<Option<Value>>) -> Value {
    let status = exit.wait_for(Option::is_some).await;
    let status = status.ok().and_then(|status| status.clone());
    status.unwrap_or_else(|| json!({}))
}

/// Writes the output of a scripted command.
async fn write_scripted_output(texts: Vec<(Duration, String)>, output: Arc<Mutex<Vec<u8>>>) {
    for (pause, text) in texts {
        sleep(pause).await;
        output.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(text.as_bytes());
    }
}

/// Waits until a scripted command exits or is killed.
async fn wait_for_scripted_exit(
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

/// Returns the command of a `terminal/create` request.
fn terminal_command(params: &Value) -> Command {
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
    // Start the command in a separate process group, so that its child processes can be killed with
    // the command.
    #[cfg(unix)]
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Collects the output of a command until it exits or is killed.
async fn run_terminal_command(
    mut child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    killed: Arc<Notify>,
    exited: watch::Sender<Option<Value>>,
) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let streams = async {
        tokio::join!(collect_output(stdout, &output), collect_output(stderr, &output));
    };
    tokio::select! {
        () = streams => {}
        () = killed.notified() => kill_tree(&mut child),
    }
    let status = tokio::select! {
        status = child.wait() => Some(status),
        () = killed.notified() => None,
    };
    let status = match status {
        Some(status) => status,
        None => {
            kill_tree(&mut child);
            child.wait().await
        }
    };
    exited.send_replace(Some(status.map_or_else(|_| json!({}), exit_status_json)));
}

async fn collect_output(stream: Option<impl AsyncRead + Unpin>, output: &Mutex<Vec<u8>>) {
    let Some(mut stream) = stream else { return };
    let mut bytes = vec![0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_TERMINAL_OUTPUT_BYTES.saturating_sub(output.len());
        output.extend_from_slice(&bytes[..read.min(room)]);
    }
}

/// Kills a command and the processes that it started.
fn kill_tree(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok())
        && let Some(group) = rustix::process::Pid::from_raw(group)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    drop(child.start_kill());
}

#[cfg(unix)]
fn exit_status_json(status: ExitStatus) -> Value {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.signal().map(|signal| signal.to_string());
    json!({"exitCode": status.code(), "signal": signal})
}

#[cfg(not(unix))]
fn exit_status_json(status: ExitStatus) -> Value {
    json!({"exitCode": status.code()})
}
