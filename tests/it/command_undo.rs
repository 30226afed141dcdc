//! Changes by commands without a preview: they are shown on the card of the command, and `undo` and
//! `rewind` restore them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use acp_conformance::TerminalService;
use acp_types::schema::v1::{ToolCallContent, ToolCallStatus};
use pretty_assertions::assert_eq;

use crate::harness::scratch::Scratch;
use crate::harness::script::Model;
use crate::harness::session::call_text;
use crate::harness::{Agent, Options, PermissionReply, SANDBOX};
use crate::previews::{Random, entries, random_commands, random_seed};
use crate::sandbox::has_namespaces;

async fn ready(scratch: Scratch, options: impl Into<Options>, sandbox: Option<&str>) -> Agent {
    for (name, text) in [("a.txt", "one\ntwo\n"), ("b.txt", "b\n"), ("dir/c.txt", "c\n")] {
        let path = scratch.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let model = scratch.model(&Model::Direct);
    let args = ["acp", "--model", &model, "--mode", "auto"];
    let args: Vec<_> = args.into_iter().chain(sandbox).collect();
    let mut agent = Agent::start_in(scratch, &args, &[], options);
    agent.initialize().await.expect("it initializes");
    agent.new_session().await;
    agent
}

const CHANGES: &str = "run echo three >> a.txt; rm b.txt; mkdir -p new/empty; echo n > new/n.txt; \
                       chmod 755 dir/c.txt; ln -s a.txt link; echo done";

/// Returns the paths of the diffs on the card of the last call.
fn shown(agent: &Agent) -> Vec<String> {
    let calls = agent.session().calls();
    let content = calls.last().unwrap().content.iter();
    let diffs = content.filter_map(|item| match item {
        ToolCallContent::Diff(diff) => diff.path.file_name(),
        _ => None,
    });
    let mut names: Vec<_> = diffs.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn changes_of_a_command_are_shown_and_undone() {
    let mut agent = ready(Scratch::new(), Options::default(), None).await;
    let before = entries(&agent.scratch.cwd());
    assert_eq!(agent.turn(CHANGES).await, "end_turn");
    let call = *agent.session().calls().last().unwrap();
    assert_eq!(call.status, ToolCallStatus::Completed);
    assert_eq!(shown(&agent), ["a.txt", "b.txt", "n.txt"]);
    let text = call_text(call);
    for note in [
        "The file permissions of dir/c.txt change from 644 to 755.",
        "Adds the folder new/empty",
        "Adds link, a link to a.txt.",
    ] {
        assert!(text.contains(note), "{note}: {text}");
    }
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    agent.turn("undo").await;
    assert_eq!(entries(&agent.scratch.cwd()), before);
    // The undo of a folder needs permission too.
    agent.turn("run mkdir -p alone/in").await;
    agent.turn("/mode read-only").await;
    agent.turn("undo").await;
    assert!(agent.scratch.path("alone/in").exists());
    let asked = agent.client.permission_requests.len();
    agent.turn("/mode ask").await;
    agent.turn("/undo").await;
    assert_eq!(agent.client.permission_requests.len(), asked + 1);
    let said = agent.session().message_text();
    assert!(said.contains("Took back the last change, of alone/in, alone."), "{said}");
    let card = call_text(agent.session().calls().last().unwrap());
    let note = "Removes these folders if they contain nothing else: alone/in, alone.";
    assert!(card.contains(note), "{card}");
    assert_eq!(entries(&agent.scratch.cwd()), before);
    agent.turn("/mode auto").await;
    // A command without changes adds nothing that could be undone.
    agent.turn("run cat a.txt").await;
    assert_eq!(shown(&agent), Vec::<String>::new());
    agent.turn("undo").await;
    assert!(format!("{:?}", agent.session()).contains("There is nothing to undo"));
    agent.finish().await;
}

/// Runs [`CHANGES`], and undoes them.
async fn change_and_undo(agent: &mut Agent) {
    let before = entries(&agent.scratch.cwd());
    agent.turn(CHANGES).await;
    assert_ne!(entries(&agent.scratch.cwd()), before);
    agent.turn("undo").await;
    assert_eq!(entries(&agent.scratch.cwd()), before);
}

#[tokio::test]
async fn an_undo_without_a_state_folder_removes_the_new_file_and_succeeds() {
    let (args, env) = (["acp", "--model", "direct"], [("XDG_STATE_HOME", "/proc/nope")]);
    let allow = PermissionReply::SelectId("allow");
    let mut agent = Agent::start_in(Scratch::new(), &args, &env, allow);
    agent.initialize().await.unwrap();
    agent.new_session().await;
    agent.turn("write new.txt\n<<<\nx\n>>>\nundo").await;
    let call = *agent.session().calls().last().unwrap();
    assert_eq!(call.status, ToolCallStatus::Completed, "{}", call_text(call));
    assert!(!call_text(call).contains("left unchanged"), "{}", call_text(call));
    assert!(!agent.scratch.path("new.txt").exists());
    agent.finish().await;
}

#[tokio::test]
async fn an_undo_of_too_many_changes_states_this_reason() {
    let mut agent = ready(Scratch::new(), PermissionReply::SelectId("allow"), None).await;
    agent.turn("run mkdir many; cd many; seq 1100 | xargs touch").await;
    for undo in ["/undo", "/rewind 1"] {
        let before = agent.session().message_text().len();
        agent.turn(undo).await;
        let said = agent.session().message_text()[before..].to_owned();
        let folder = agent.scratch.cwd();
        let reason = format!(
            "Some changes in the project folder {} are not undone: a command changed too many \
             files and folders.",
            folder.display()
        );
        assert!(said.contains(&reason), "{undo}: {said}");
        assert!(!said.contains("no copy"), "{undo}: {said}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn an_undo_of_a_changed_link_names_the_link_once() {
    let mut agent = ready(Scratch::new(), PermissionReply::SelectId("allow"), None).await;
    agent.turn("run ln -s a.txt link").await;
    agent.turn("run ln -sf b.txt link").await;
    agent.turn("/undo").await;
    let said = agent.session().message_text();
    assert!(said.contains("Took back the last change, of link.\n"), "{said}");
    assert_eq!(fs::read_link(agent.scratch.path("link")).unwrap().to_str(), Some("a.txt"));
    // A skipped link is named once too, with its copy.
    agent.turn("run ln -sf b.txt link").await;
    fs::remove_file(agent.scratch.path("link")).unwrap();
    fs::write(agent.scratch.path("link"), "theirs").unwrap();
    for (undo, reason) in [
        ("/undo", "it has been changed since. Its content before"),
        ("/rewind 4", "it has been changed since."),
    ] {
        let before = agent.session().message_text().len();
        agent.turn(undo).await;
        let said = agent.session().message_text()[before..].to_owned();
        assert_eq!(said.matches("link is left unchanged").count(), 1, "{said}");
        assert!(said.contains(&format!("link is left unchanged: {reason}")), "{said}");
    }
    agent.finish().await;
}

/// The client runs the command, but in the same folders.
#[tokio::test]
async fn changes_of_a_command_in_a_terminal_of_the_client_are_undone() {
    let options = Options::default().with_terminals(TerminalService::default());
    let mut agent = ready(Scratch::new(), options, None).await;
    change_and_undo(&mut agent).await;
    agent.finish().await;
}

/// Returns an agent whose commands run in a sandbox, if the system has one.
async fn ready_in_sandbox() -> Option<Agent> {
    let scratch = Scratch::outside_tmp();
    match has_namespaces(&scratch) {
        true => Some(ready(scratch, Options::default(), Some(SANDBOX)).await),
        false => None,
    }
}

#[tokio::test]
async fn changes_of_a_sandboxed_command_are_undone() {
    let Some(mut agent) = ready_in_sandbox().await else { return };
    change_and_undo(&mut agent).await;
    agent.finish().await;
}

/// The call ends before the command, so only the changes so far are recorded.
#[tokio::test]
async fn a_command_that_continues_in_the_background_says_what_is_not_recorded() {
    let mut agent = ready(Scratch::new(), Options::default(), None).await;
    let started = r#"{"command": "sleep 600", "background": true}"#;
    let continued = r#"{"command": "echo x > made; sleep 600", "background_after_ms": 500}"#;
    for args in [started, continued] {
        agent.turn(&format!("tool terminal {args}")).await;
        let text = call_text(agent.session().calls().last().unwrap());
        assert!(text.contains("from now on cannot be undone"), "{text}");
    }
    agent.turn("undo").await;
    assert!(!agent.scratch.path("made").exists());
    agent.finish().await;
}

/// The sandbox keeps placeholders in the project while a command runs.
#[tokio::test]
async fn placeholders_of_the_sandbox_are_no_changes() {
    let Some(mut agent) = ready_in_sandbox().await else { return };
    let background = r#"tool terminal {"command": "sleep 600", "background_after_ms": 300}"#;
    for prompt in [background, "run true"] {
        agent.turn(prompt).await;
        let text = call_text(agent.session().calls().last().unwrap());
        assert!(!text.contains("These changes"), "{prompt}: {text}");
    }
    agent.turn("tool terminal_stop {\"id\": \"bg-1\"}").await;
    agent.turn("run true").await;
    agent.turn("undo").await;
    assert!(format!("{:?}", agent.session()).contains("There is nothing to undo"));
    agent.finish().await;
}

#[tokio::test]
async fn changes_of_a_cancelled_command_are_undone() {
    let mut agent = ready(Scratch::new(), Options::default(), None).await;
    let before = entries(&agent.scratch.cwd());
    let id = agent.prompt("run echo x > made; rm b.txt; echo ready; sleep 600").await;
    let session = agent.session_id();
    agent.until_shown(&session, "ready").await;
    agent.cancel().await;
    assert_eq!(agent.stop_reason(&id).await, "cancelled");
    assert_ne!(entries(&agent.scratch.cwd()), before);
    agent.turn("undo").await;
    assert_eq!(entries(&agent.scratch.cwd()), before);
    agent.finish().await;
}

#[tokio::test]
async fn a_command_that_makes_a_commit_says_that_the_commit_stays() {
    let mut agent = ready(Scratch::new(), Options::default(), None).await;
    let git = "git -c user.name=a -c user.email=a@example.com";
    agent.turn("run git init -q").await;
    agent.turn(&format!("run {git} add . && {git} commit -qm one")).await;
    let text = call_text(agent.session().calls().last().unwrap());
    assert!(text.contains("the stash of a git repository"), "{text}");
    agent.finish().await;
}

/// Any change is restored, with contents, modes and links.
#[tokio::test]
async fn each_random_command_is_undone() {
    let mut agent = ready(Scratch::new(), Options::default(), None).await;
    let mut random = Random(random_seed());
    for number in 0..random_commands() {
        let shown = random.write_script(&agent);
        let before = entries(&agent.scratch.cwd());
        assert_eq!(agent.turn("run sh script.sh").await, "end_turn");
        let after = entries(&agent.scratch.cwd());
        let text = call_text(agent.session().calls().last().unwrap());
        assert!(!text.contains("cannot be undone"), "{number}: {shown}{text}");
        if before != after && random.below(2) == 0 {
            agent.turn("undo").await;
            assert_eq!(entries(&agent.scratch.cwd()), before, "undo of {number}: {shown}");
        }
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_restored_file_has_its_old_mode() {
    let mut agent = ready(Scratch::new(), Options::default(), None).await;
    let mode = |agent: &Agent| {
        fs::metadata(agent.scratch.path("a.txt")).unwrap().permissions().mode() & 0o777
    };
    agent.turn("run chmod 640 a.txt").await;
    agent.turn("run rm a.txt").await;
    agent.turn("undo").await;
    assert_eq!(mode(&agent), 0o640);
    agent.finish().await;
}

/// Clients show two equal texts as a change of all lines.
#[tokio::test]
async fn the_undo_of_a_mode_names_both_modes_and_shows_no_diff() {
    let mut agent = ready(Scratch::new(), PermissionReply::SelectId("allow"), None).await;
    for undo in ["undo", "/rewind 3"] {
        agent.turn("run chmod 755 a.txt").await;
        agent.turn(undo).await;
        let texts =
            agent.session().calls().last().unwrap().content.iter().filter(
                |item| matches!(item, ToolCallContent::Diff(diff) if diff.old_text.is_some()),
            );
        assert_eq!(texts.count(), 0, "{undo}");
        let card = call_text(agent.session().calls().last().unwrap());
        let note = "The file permissions of a.txt change from 755 to 644.";
        assert!(card.contains(note), "{undo}: {card}");
        let mode = fs::metadata(agent.scratch.path("a.txt")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{undo}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn an_undo_names_the_folders_that_it_does_not_remove() {
    let mut agent = ready(Scratch::new(), PermissionReply::SelectId("allow"), None).await;
    for (undo, note) in [
        ("undo", "These folders are left, because they are not empty or cannot be removed: new"),
        ("/rewind 3", "new is left unchanged: it is a folder that is not empty."),
    ] {
        agent.turn("run mkdir -p new/inner; echo n > new/n.txt").await;
        fs::write(agent.scratch.path("new/theirs.txt"), "of another program").unwrap();
        agent.turn(undo).await;
        let card = call_text(agent.session().calls().last().unwrap());
        assert!(card.contains(note), "{undo}: {card}");
        assert_eq!(entries(&agent.scratch.path("new")).len(), 1, "{undo}");
        fs::remove_dir_all(agent.scratch.path("new")).unwrap();
    }
    agent.finish().await;
}
