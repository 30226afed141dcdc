//! Previews of commands: a command runs on copies of the project folders, and its changes are made
//! only if the user allows them.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use acp_types::schema::v1::{PermissionOptionKind, ToolCallStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::scratch::Scratch;
use crate::harness::script::Model;
use crate::harness::session::call_text;
use crate::harness::{Agent, Options, PermissionReply, SANDBOX};
use crate::sandbox::has_namespaces;

/// Selects the preview, and then allows its changes.
const PREVIEW: PermissionReply = PermissionReply::SelectFirstOffered(&["preview", "allow"]);
/// Selects the preview, and then rejects its changes.
const REJECT_CHANGES: PermissionReply = PermissionReply::SelectFirstOffered(&["preview", "reject"]);

/// The folder for temporary files of the agent, beside the project.
const TEMPORARY: &str = "../temporary";

async fn ready(mode: &str, config: &str, options: impl Into<Options>) -> Option<Agent> {
    ready_with_rules(mode, config, &[], options).await
}

async fn ready_with_rules(
    mode: &str,
    config: &str,
    rules: &[Value],
    options: impl Into<Options>,
) -> Option<Agent> {
    let scratch = Scratch::outside_tmp();
    if !has_namespaces(&scratch) {
        return None;
    }
    scratch.write_config(config);
    scratch.write_rules(rules);
    for (name, text) in [("a.txt", "one\ntwo\n"), ("b.txt", "b\n"), ("dir/c.txt", "c\n")] {
        let path = scratch.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let model = scratch.model(&Model::Direct);
    let args = ["acp", SANDBOX, "--model", &model, "--mode", mode];
    let temporary = scratch.path(TEMPORARY);
    fs::create_dir(&temporary).unwrap();
    let env = [("TMPDIR", temporary.to_str().unwrap())];
    let mut agent = Agent::start_in(scratch, &args, &env, options);
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    Some(agent)
}

/// Runs a line of shell as a script, and returns the status and the text of its call.
async fn run_line(agent: &mut Agent, line: &str) -> (ToolCallStatus, String) {
    fs::write(agent.scratch.path("script.sh"), line).unwrap();
    assert_eq!(agent.turn("run sh script.sh").await, "end_turn");
    let calls = agent.session().calls();
    let call = calls.last().expect("a call");
    (call.status, call_text(call))
}

/// Returns all entries of the project with their kinds, modes and contents, except the script.
fn project(agent: &Agent) -> Vec<(PathBuf, String)> {
    entries(&agent.scratch.cwd())
}

pub(crate) fn entries(root: &Path) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            let text = if kind.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if kind.is_dir() {
                folders.push(path.clone());
                format!("folder {mode:o}")
            } else {
                let bytes = fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1000)]).into_owned();
                let mut hasher = DefaultHasher::new();
                bytes.hash(&mut hasher);
                format!("{mode:o} {:016x} {text}", hasher.finish())
            };
            let name = path.strip_prefix(root).unwrap().to_owned();
            if name.as_os_str() != "script.sh" {
                found.push((name, text));
            }
        }
    }
    found.sort();
    found
}

const CHANGES: &str = "echo three >> a.txt; rm b.txt; mkdir -p new/empty; echo n > new/n.txt; \
                       chmod 755 dir/c.txt; ln -s a.txt link; echo done";

#[tokio::test]
async fn allowed_changes_of_a_preview_are_made_and_can_be_undone() {
    let Some(mut agent) = ready("ask", "", PREVIEW).await else { return };
    let before = project(&agent);
    let (status, text) = run_line(&mut agent, CHANGES).await;
    assert_eq!(status, ToolCallStatus::Completed, "{text}");
    assert!(text.contains("done") && text.contains("now applied"), "{text}");
    let requests = &agent.client.permission_requests;
    let options: Vec<_> = requests[0].request.options.iter().map(|it| &*it.option_id.0).collect();
    assert_eq!(options.last(), Some(&"preview"));
    assert_eq!(requests[0].request.options.last().unwrap().kind, PermissionOptionKind::AllowOnce);
    let second = &requests[1].request;
    assert!(second.options.iter().all(|it| &*it.option_id.0 != "preview"));
    assert_eq!(second.options.len(), 2, "the answer is not remembered: {:?}", second.options);
    let after = project(&agent);
    let names: Vec<_> =
        after.iter().filter(|entry| !before.contains(entry)).map(|it| &it.0).collect();
    let expected = ["a.txt", "dir/c.txt", "link", "new", "new/empty", "new/n.txt"];
    assert_eq!(names, expected.map(Path::new));
    assert!(!agent.scratch.path("b.txt").exists());
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    let mode = fs::metadata(agent.scratch.path("dir/c.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    agent.turn("undo").await;
    assert_eq!(project(&agent), before);
    agent.finish().await;
}

#[tokio::test]
async fn a_rejected_preview_changes_nothing() {
    let Some(mut agent) = ready("ask", "", REJECT_CHANGES).await else { return };
    let before = project(&agent);
    let (status, text) = run_line(&mut agent, CHANGES).await;
    assert_eq!(status, ToolCallStatus::Failed, "{text}");
    assert!(text.contains("done") && text.contains("not applied"), "{text}");
    let second = format!("{:?}", agent.client.permission_requests[1].request);
    assert!(second.contains("one\\ntwo\\nthree\\n"), "{second}");
    assert_eq!(project(&agent), before);
    agent.finish().await;
}

#[tokio::test]
async fn nothing_of_a_preview_remains_on_disk_or_mounted() {
    for permission in [PREVIEW, REJECT_CHANGES] {
        let Some(mut agent) = ready("ask", "", permission).await else { return };
        // The overlays are mounted in another namespace, which a remaining process would keep.
        let project = fs::canonicalize(agent.scratch.cwd()).unwrap().display().to_string();
        let is_overlay = |line: &&str| line.contains(" overlay ") && line.contains(&project);
        let mounts = format!("{CHANGES}\ngrep ' overlay ' /proc/self/mountinfo");
        let (_, text) = run_line(&mut agent, &mounts).await;
        assert!(text.lines().any(|line| is_overlay(&line)), "{text}");
        assert_eq!(agent.client.permission_requests.len(), 2);
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let mounts = processes.filter_map(|it| fs::read_to_string(it.join("mountinfo")).ok());
        for mounts in mounts {
            assert_eq!(mounts.lines().find(is_overlay), None);
        }
        agent.finish().await;
        let left = fs::read_dir(agent.scratch.path(TEMPORARY)).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, Vec::<OsString>::new());
    }
}

#[tokio::test]
async fn a_command_without_changes_asks_no_second_question() {
    let Some(mut agent) = ready("ask", "", PREVIEW).await else { return };
    let (status, text) = run_line(&mut agent, "cat a.txt").await;
    assert_eq!(status, ToolCallStatus::Completed, "{text}");
    assert!(text.contains("two") && text.contains("changed no files"), "{text}");
    assert_eq!(agent.client.permission_requests.len(), 1);
    agent.finish().await;
}

/// The settings decide, even in a mode that asks nothing.
#[tokio::test]
async fn the_configuration_decides_whether_previews_are_offered() {
    let never = "[terminal]\npreview = 'never'\n";
    if let Some(mut agent) = ready("ask", never, PREVIEW).await {
        run_line(&mut agent, CHANGES).await;
        let options = &agent.client.permission_requests[0].request.options;
        assert!(options.iter().all(|option| &*option.option_id.0 != "preview"), "{options:?}");
        assert!(!agent.scratch.path("b.txt").exists());
        agent.finish().await;
    }
    let always = "[terminal]\npreview = 'always'\n";
    if let Some(mut agent) = ready("auto", always, REJECT_CHANGES).await {
        let before = project(&agent);
        run_line(&mut agent, CHANGES).await;
        assert_eq!(agent.client.permission_requests.len(), 1);
        assert_eq!(project(&agent), before);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_preview_of_a_command_with_a_network_or_too_many_changes_is_impossible() {
    let Some(mut agent) = ready("ask", "", REJECT_CHANGES).await else { return };
    fs::hard_link(agent.scratch.path("a.txt"), agent.scratch.path("other.txt")).unwrap();
    let before = project(&agent);
    for (line, expected) in [
        ("echo x > made; curl -f http://example.invalid/", "wants to connect to example.invalid"),
        ("head -c 40000000 /dev/zero > large", "changes more than"),
        ("echo x >> a.txt", "has several hard links"),
        ("python3 -c 'import os; os.rename(\"dir\", \"moved\")'", "cannot be renamed"),
    ] {
        let (status, text) = run_line(&mut agent, line).await;
        assert_eq!(status, ToolCallStatus::Failed, "{line}: {text}");
        assert!(text.contains(expected), "{line}: {text}");
        assert_eq!(project(&agent), before, "{line}");
    }
    agent.finish().await;
}

/// Returns the text of the last permission request.
fn last_question(agent: &Agent) -> String {
    let request = &agent.client.permission_requests.last().unwrap().request;
    serde_json::to_string(&request.tool_call).unwrap()
}

/// The content of generated folders and repositories is not shown, but what is removed is.
#[tokio::test]
async fn removed_folders_are_shown() {
    let Some(mut agent) = ready("ask", "", PREVIEW).await else { return };
    for name in ["node_modules/a/a.js", "sub/.git/HEAD", "sub/.git/objects/x"] {
        fs::create_dir_all(agent.scratch.path(name).parent().unwrap()).unwrap();
        fs::write(agent.scratch.path(name), name).unwrap();
    }
    let before = project(&agent);
    for (line, expected) in [
        ("rm -rf node_modules", "node_modules: A directory with"),
        ("rm -rf sub/.git", "sub/.git: A directory with"),
    ] {
        let (_, text) = run_line(&mut agent, line).await;
        assert!(last_question(&agent).contains(expected), "{line}: {}", last_question(&agent));
        assert_ne!(project(&agent), before, "{line}: {text}");
        agent.turn("undo").await;
        assert_eq!(project(&agent), before, "{line}");
    }
    run_line(&mut agent, "rm -rf node_modules/a; mkdir -p target; echo x > target/x").await;
    let question = last_question(&agent);
    assert!(question.contains("0 files, 0 bytes; 2 files and folders are removed"), "{question}");
    assert!(question.contains("target changes: 1 file, 2 bytes."), "{question}");
    assert!(!agent.scratch.path("node_modules/a").exists());
    fs::write(agent.scratch.path("node_modules/c.js"), "").unwrap();
    run_line(&mut agent, "rm -rf node_modules; mkdir node_modules; echo b > node_modules/b").await;
    let question = last_question(&agent);
    assert!(question.contains("1 file, 2 bytes; 1 file or folder is removed"), "{question}");
    agent.finish().await;
}

/// A command in the background or with input cannot avoid a preview that the user requires.
#[tokio::test]
async fn a_required_preview_cannot_be_avoided_by_arguments() {
    let always = "[terminal]\npreview = 'always'\n";
    let reject = PermissionReply::Select(PermissionOptionKind::RejectOnce);
    let Some(mut agent) = ready("auto", always, reject).await else { return };
    for argument in ["\"background\": true", "\"tty\": true", "\"background_after_ms\": 60000"] {
        let args = format!("{{\"command\": \"touch made\", {argument}}}");
        agent.turn(&format!("tool terminal {args}")).await;
        assert!(!agent.scratch.path("made").exists(), "{argument}");
    }
    assert_eq!(agent.client.permission_requests.len(), 3);
    agent.finish().await;
}

#[tokio::test]
async fn a_preview_that_is_cancelled_at_its_question_states_that_nothing_was_applied() {
    let config = "[terminal]\npreview = \"always\"\n";
    let Some(mut agent) = ready("auto", config, PermissionReply::NoReply).await else { return };
    fs::write(agent.scratch.path("script.sh"), "echo changed > a.txt").unwrap();
    let prompt = agent.prompt("run sh script.sh").await;
    agent.until(|client| !client.permission_requests.is_empty()).await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&prompt).await, "cancelled");
    let call = agent.call("terminal");
    assert_eq!(call.status, ToolCallStatus::Failed);
    let shown = call_text(&call);
    assert!(shown.contains("Its changes were not applied."), "{shown}");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_denied_change_is_named_and_nothing_is_applied() {
    let matcher = json!({"path": {"access": "write", "glob": "/**/a.txt"}});
    let rule = json!({"scope": "user", "matcher": matcher, "verdict": "deny"});
    let Some(mut agent) = ready_with_rules("ask", "", &[rule], PREVIEW).await else { return };
    let before = project(&agent);
    let (status, text) = run_line(&mut agent, CHANGES).await;
    assert_eq!(status, ToolCallStatus::Failed, "{text}");
    assert!(text.contains("A rule denies changing a.txt"), "{text}");
    assert_eq!(project(&agent), before);
    agent.finish().await;
}

/// The layer of a replaced folder does not mark the folders in it.
#[tokio::test]
async fn a_folder_in_a_replaced_folder_replaces_its_content_too() {
    let Some(mut agent) = ready("ask", "", PREVIEW).await else { return };
    let line = "mkdir -p dir/inner; echo old > dir/inner/old.txt";
    run_line(&mut agent, line).await;
    let before = project(&agent);
    let line = "rm -rf dir; mkdir -p dir/inner; echo new > dir/inner/new.txt";
    let (_, text) = run_line(&mut agent, line).await;
    let names = |folder: &str| entries(&agent.scratch.path(folder)).len();
    assert_eq!((names("dir"), names("dir/inner")), (2, 1), "{text}");
    agent.turn("undo").await;
    assert_eq!(project(&agent), before);
    agent.finish().await;
}

/// Links that exist before, and links of the command itself, lead nowhere.
#[tokio::test]
async fn a_preview_writes_through_no_link() {
    let Some(mut agent) = ready("ask", "", PREVIEW).await else { return };
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::write(outside.path().join("file"), "outside").unwrap();
    symlink(outside.path(), agent.scratch.path("out")).unwrap();
    run_line(&mut agent, "echo x > out/file; rm -r dir; ln -s out dir; echo x > dir/file").await;
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "outside");
    assert_eq!(fs::read_link(agent.scratch.path("dir")).unwrap(), PathBuf::from("out"));
    agent.finish().await;
}

/// Number of random commands; `cargo xtask accept previews` runs more of them.
pub(crate) fn random_commands() -> u32 {
    std::env::var("PREVIEWED_COMMANDS").map_or(12, |number| number.parse().unwrap())
}

/// The seed of the random commands.
pub(crate) fn random_seed() -> u64 {
    std::env::var("SEED").map_or(7, |seed| seed.parse().unwrap())
}

/// A generator of random numbers, so that a failure can be repeated with the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // A linear congruential generator with the constants of Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one_of<'a>(&mut self, all: &[&'a [u8]]) -> &'a [u8] {
        all[self.below(all.len())]
    }

    /// Returns a path in the project as a word of shell.
    fn path(&mut self) -> Vec<u8> {
        const NAMES: &[&[u8]] = &[b"a.txt", b"b.txt", b"dir", b"d", b"\xff\xfe", b"\xc3\xbc x"];
        let depth = 1 + self.below(3);
        let names: Vec<_> = (0..depth).map(|_| self.one_of(NAMES)).collect();
        [b"'", &names.join(&b'/')[..], b"'"].concat()
    }

    /// Returns a line of shell that changes the project in some way, or fails.
    fn line(&mut self) -> Vec<u8> {
        const COMMANDS: &[&[u8]] = &[
            b"printf 'new\\n' > A",
            b"printf 'more\\n' >> A",
            b"head -c 200000 /dev/zero > A",
            b"rm -rf A",
            b"rm -rf A; mkdir -p A",
            b"mkdir -p A; printf x > A/n",
            b"rmdir A",
            b"mv A B",
            // A copy of a folder into itself depends on the order of the entries.
            b"cp A B",
            b"ln -sfn B A",
            b"test -f A && chmod 755 A",
            b"test -f A && chmod 600 A",
            b"sed -i 's/o/0/' A",
            b"touch A",
        ];
        let (command, a, b) = (self.one_of(COMMANDS), self.path(), self.path());
        let mut line = Vec::new();
        for byte in command {
            match byte {
                b'A' => line.extend(&a),
                b'B' => line.extend(&b),
                other => line.push(*other),
            }
        }
        line.push(b'\n');
        line
    }

    /// Writes a script of some lines to the project, and returns it as text.
    pub(crate) fn write_script(&mut self, agent: &Agent) -> String {
        let lines: Vec<_> = (0..1 + self.below(6)).map(|_| self.line()).collect();
        let script = lines.concat();
        fs::write(agent.scratch.path("script.sh"), &script).unwrap();
        String::from_utf8_lossy(&script).into_owned()
    }
}

/// Copies the project, and runs the script in the copy without a sandbox. Returns the entries of
/// the copy.
fn run_in_copy(agent: &Agent) -> Vec<(PathBuf, String)> {
    let copy = tempfile::tempdir_in("/var/tmp").unwrap();
    let folder = copy.path().join("project");
    let copied = Command::new("cp").arg("-a").arg(agent.scratch.cwd()).arg(&folder).status();
    assert!(copied.unwrap().success());
    let _any = Command::new("sh").arg("script.sh").current_dir(&folder).output().unwrap();
    entries(&folder)
}

#[tokio::test]
async fn a_preview_makes_the_changes_that_the_command_makes_in_a_copy() {
    let Some(mut agent) = ready("ask", "", PREVIEW).await else { return };
    let mut random = Random(random_seed());
    for number in 0..random_commands() {
        let shown = random.write_script(&agent);
        let (before, expected) = (project(&agent), run_in_copy(&agent));
        let questions = agent.client.permission_requests.len();
        assert_eq!(agent.turn("run sh script.sh").await, "end_turn");
        let calls = agent.session().calls();
        let text = call_text(calls.last().unwrap());
        assert_eq!(project(&agent), expected, "{number}: {shown}{text}");
        let is_changed = before != expected;
        let asked = agent.client.permission_requests.len() - questions;
        assert_eq!(asked, 1 + usize::from(is_changed), "{number}: {shown}{text}");
        if is_changed && random.below(2) == 0 {
            agent.turn("undo").await;
            assert_eq!(project(&agent), before, "undo of {number}: {shown}");
        }
    }
    agent.finish().await;
}
