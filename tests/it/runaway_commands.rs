//! Commands that use up processes, output, disk space or memory. Each command is limited and
//! reported, and the agent continues.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::script::{call, end, run, text};
use crate::harness::session::call_text;
use crate::harness::{Agent, CALLBOARD, PermissionReply, SANDBOX};
use crate::sandbox::has_namespaces;

/// Id of the ordinary user that runs the agent. Root is not used, because other limits apply to
/// root.
const USER: u32 = 12345;

fn run_for(command: &str, timeout_ms: u32) -> Value {
    call("terminal", json!({"command": command, "timeout_ms": timeout_ms}))
}

#[tokio::test]
async fn runaway_commands_are_bounded_and_reported() {
    let scratch = Scratch::outside_tmp();
    let is_root = rustix::process::geteuid().is_root();
    let has_tools = ["unshare", "setpriv"].iter().all(|tool| {
        Command::new(tool).arg("--version").output().is_ok_and(|it| it.status.success())
    });
    if !is_root || !has_tools || !has_namespaces(&scratch) {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, wrapper) = (folder.path().join("callboard"), folder.path().join("wrapper"));
    let tmp = folder.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    // The program is copied by another process. If this process copied it, a process that another
    // thread starts meanwhile would inherit the copy as a file that is open for writing, and the
    // copy could not be executed.
    assert!(Command::new("cp").arg(CALLBOARD).arg(&program).status().unwrap().success());
    // The folder for temporary files has 8 MiB.
    let line = format!(
        "#!/bin/sh\nexport TMPDIR='{tmp}'\nexec unshare --mount sh -c 'mount -t tmpfs -o \
         size=8m,mode=1777 none \"$TMPDIR\" && exec setpriv --reuid {USER} --regid {USER} \
         --clear-groups \"$0\" \"$@\"' '{program}' \"$@\"\n",
        tmp = tmp.display(),
        program = program.display(),
    );
    fs::write(&wrapper, line).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let script = [
        run_for("bomb() { bomb | bomb & }; bomb; sleep 99", 3000),
        // The processes of the command before may still be ending, which delays the start.
        run_for("yes", 5000),
        run("truncate --size 100G sparse"),
        run("cat /dev/zero > /tmp/full"),
        run("echo x > /tmp/small || rm /tmp/full && echo alive > /tmp/small && cat /tmp/small"),
        end(),
        text("Done."),
    ];
    let model = scratch.model(&script.into());
    scratch.give_to(USER);
    let args = ["acp", SANDBOX, "--model", &model, "--mode", "auto"];
    let reply = PermissionReply::Select(PermissionOptionKind::RejectOnce);
    let mut agent = Agent::start_program(&wrapper, scratch, &args, reply, |_| ());
    agent.initialize().await.unwrap();
    agent.new_session().await;
    assert_eq!(agent.turn("go").await, "end_turn");
    let calls = agent.session().calls();
    let shown: Vec<_> = calls.iter().map(|call| (call.status, call_text(call))).collect();
    let expected = [
        (ToolCallStatus::Failed, "Resource temporarily unavailable"),
        (ToolCallStatus::Failed, "bytes left out"),
        (ToolCallStatus::Failed, "SIGXFSZ"),
        (ToolCallStatus::Failed, "No space left on device"),
        (ToolCallStatus::Completed, "alive"),
    ];
    for ((status, text), (expected, part)) in shown.iter().zip(expected) {
        assert!(*status == expected && text.contains(part), "{part}: {status:?} {text}");
    }
    assert_eq!(shown.len(), 5);
    agent.finish().await;
    let left = Command::new("pgrep").args(["-u", &USER.to_string(), "-f", "bomb"]).status();
    assert!(!left.unwrap().success());
}
