//! Previews: commands that change copies of the writable folders.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use callboard_sandbox::{
    CopyOnWriteFolder, Isolation, LayerContent, LayerEntry, LayerEntryKind, MissingName,
    ProcessSession, ReadOnlyPath, SandboxCommand, SandboxError, SandboxPolicy, SetupFailure,
    SetupStep, probe_preview, read_layer,
};
use pretty_assertions::assert_eq;

use crate::endings::{PATIENCE, stop_set_up};
use crate::tools::is_installed;
use crate::world::{Snapshot, World};
use crate::{complaints, is_supported, run, shell, table};

/// Names that the policy of a world protects, and a name that it masks.
const PROTECTED: [&str; 9] = [
    "AGENTS.md",
    "CLAUDE.md",
    "docs/rules.md",
    ".git/config",
    ".git/hooks",
    ".git/config.worktree",
    ".git/info",
    ".github",
    ".envrc",
];

/// More entries than a command of a test makes.
const MANY: usize = 100_000;

fn new_layer(layer: &Path) -> PathBuf {
    for folder in ["upper", "work"] {
        fs::create_dir_all(layer.join(folder)).unwrap();
    }
    layer.to_owned()
}

/// Creates an empty layer beside the project of a world.
fn layer_of(world: &World, name: &str) -> PathBuf {
    new_layer(&world.home.with_file_name(name))
}

fn with_preview(mut policy: SandboxPolicy, path: &Path, layer: &Path) -> SandboxPolicy {
    policy.preview.push(CopyOnWriteFolder::new(path, layer));
    policy
}

/// Returns the policy of a world, with a preview of the project, and the layer.
fn preview_of(world: &World) -> (SandboxPolicy, PathBuf) {
    let layer = layer_of(world, "layer");
    (with_preview(world.policy(), &world.project, &layer), layer)
}

/// Returns whether previews work here, and prints the reason if they do not. Fails if the variable
/// `SANDBOX_TESTS_REQUIRE` requires them.
fn is_possible() -> bool {
    if !is_supported(Isolation::Namespaces) {
        return false;
    }
    let world = World::new();
    let result = probe_preview(&preview_of(&world).0);
    if let Err(failure) = &result {
        eprintln!("SKIPPED: {failure}");
    }
    let required = std::env::var("SANDBOX_TESTS_REQUIRE").unwrap_or_default().to_lowercase();
    assert!(result.is_ok() || !required.contains("preview"), "previews are required");
    result.is_ok()
}

fn read(layer: &Path) -> LayerContent {
    read_layer(layer, MANY).unwrap()
}

/// Returns one text for each entry: its kind, its path, and its mode.
fn lines(content: &LayerContent) -> Vec<String> {
    assert!(!content.is_cut);
    content.entries.iter().map(line).collect()
}

fn line(entry: &LayerEntry) -> String {
    let (path, mode) = (entry.path.to_string_lossy(), entry.mode);
    match entry.kind {
        LayerEntryKind::Removed => format!("removed {path}"),
        LayerEntryKind::Folder { is_opaque: true } => format!("opaque {path} {mode:o}"),
        LayerEntryKind::Folder { is_opaque: false } => format!("folder {path} {mode:o}"),
        LayerEntryKind::File => format!("file {path} {mode:o}"),
        LayerEntryKind::Link => format!("link {path}"),
        LayerEntryKind::Special => format!("special {path} {mode:o}"),
        _ => unreachable!(),
    }
}

/// Tries to run a command, and returns the failure of the set-up.
fn failure(world: &World, policy: &SandboxPolicy, isolation: Isolation) -> SetupFailure {
    let result = shell(world, policy, isolation, "echo ran > ran").spawn();
    let failure = setup_failure(result.map(|child| child.wait().unwrap()), SetupStep::Overlay);
    assert!(!world.project.join("ran").exists());
    assert_eq!(world.leftovers(), [""; 0]);
    failure
}

fn setup_failure<T: std::fmt::Debug>(
    result: Result<T, SandboxError>,
    step: SetupStep,
) -> SetupFailure {
    match result.unwrap_err() {
        SandboxError::Setup(failure) if failure.step == step => failure,
        error => unreachable!("{error}"),
    }
}

/// Lines that run in a project with the files `data/a`, `data/b` and `data/sub/c`, and the entries
/// of the layer afterwards.
const CHANGES: &[(&str, &[&str])] = &[
    ("cat data/a; ls -R > /dev/null", &[]),
    ("echo new > new", &["file new 644"]),
    ("echo x >> data/a", &["folder data 755", "file data/a 644"]),
    (": >> data/a", &["folder data 755", "file data/a 644"]),
    ("chmod 4700 data/a", &["folder data 755", "file data/a 4700"]),
    ("chmod 700 data", &["folder data 700"]),
    ("rm data/a", &["folder data 755", "removed data/a"]),
    ("rm data/a; echo x > data/a", &["folder data 755", "file data/a 644"]),
    ("rm data/a; mkdir data/a", &["folder data 755", "opaque data/a 755"]),
    ("mv data/a data/z", &["folder data 755", "removed data/a", "file data/z 644"]),
    ("rm -r data", &["removed data"]),
    ("rm -r data; echo x > data", &["file data 644"]),
    ("rm -rf data && mkdir data && echo x > data/new", &["opaque data 755", "file data/new 644"]),
    // The system marks only the outermost of these folders.
    (
        "rm -rf data && mkdir -p data/sub/deep && echo x > data/sub/new",
        &[
            "opaque data 755",
            "opaque data/sub 755",
            "opaque data/sub/deep 755",
            "file data/sub/new 644",
        ],
    ),
    ("mkdir -p m/n/o", &["folder m 755", "folder m/n 755", "folder m/n/o 755"]),
    ("mkdir m; rmdir m; echo x > n; rm n", &[]),
    (
        "mv data moved",
        &[
            "removed data",
            "folder moved 755",
            "file moved/a 644",
            "file moved/b 644",
            "folder moved/sub 755",
            "file moved/sub/c 644",
        ],
    ),
    ("ln data/a hard", &["folder data 755", "file data/a 644", "file hard 644"]),
    (
        "ln -s data/sub s; ln -s / root; ln -s none data/n",
        &["folder data 755", "link data/n", "link root", "link s"],
    ),
    ("head -c 9000000 /dev/zero > big", &["file big 644"]),
    ("mkfifo fifo", &["special fifo 644"]),
    (": > \"$(printf 'odd\\377 \\nx')\"", &["file odd\u{fffd} \nx 644"]),
    (
        "mkdir -p closed/in; echo x > closed/in/f; chmod 0 closed/in/f closed/in closed",
        &["folder closed 0", "folder closed/in 0", "file closed/in/f 0"],
    ),
    ("chmod 0 data .", &["folder data 0"]),
    ("mkdir a a.b; echo x > a/c", &["folder a 755", "file a/c 644", "folder a.b 755"]),
];

#[test]
fn changes_are_in_the_layer_and_not_in_the_folder() {
    if !is_possible() {
        return;
    }
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before_all = mounts();
    for (line, expected) in CHANGES {
        let world = World::new();
        fs::create_dir_all(world.project.join("data/sub")).unwrap();
        for name in ["a", "b", "sub/c"] {
            fs::write(world.project.join("data").join(name), name).unwrap();
        }
        let before = Snapshot::of(&world.project);
        let (policy, layer) = preview_of(&world);
        let line = format!("umask 022; {line}");
        let output = run(&world, &policy, Isolation::Namespaces, &line);
        assert!(output.code == Some(0), "{line}: {}", output.text);
        assert_eq!(before.differences(&Snapshot::of(&world.project)), [""; 0], "{line}");
        let content = read(&layer);
        assert_eq!(lines(&content), *expected, "{line}");
        // The caller can read each file now.
        for entry in &content.entries {
            if entry.kind == LayerEntryKind::File {
                fs::read(layer.join("upper").join(&entry.path)).unwrap();
            }
        }
        open_work_folder(&layer);
        fs::remove_dir_all(&layer).unwrap();
    }
    assert_eq!(mounts(), before_all);
}

/// The kernel creates closed folders in the folder `work`.
fn open_work_folder(layer: &Path) {
    let status = std::process::Command::new("chmod").args(["-R", "u+rwx"]).arg(layer).status();
    assert!(status.unwrap().success());
}

#[test]
fn content_of_a_layer_is_limited() {
    if !is_possible() {
        return;
    }
    let world = World::new();
    let (policy, layer) = preview_of(&world);
    let line = "mkdir -p a/b c d; touch a/b/1 a/b/2 c/1 d/1; ln -s c e";
    assert_eq!(run(&world, &policy, Isolation::Namespaces, line).text, "");
    let paths = |content: &LayerContent| {
        content.entries.iter().map(|it| it.path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = ["a", "a/b", "a/b/1", "a/b/2", "c", "c/1", "d", "d/1", "e"];
    for most in 0..all.len() {
        let content = read_layer(&layer, most).unwrap();
        assert!(content.is_cut && content.entries.len() == most, "{most}: {content:?}");
    }
    let content = read_layer(&layer, all.len()).unwrap();
    assert!(!content.is_cut && paths(&content) == all, "{content:?}");
    let world = World::new();
    let (policy, layer) = preview_of(&world);
    let line = "i=0; while [ $i -lt 200 ]; do mkdir z; cd z; i=$((i + 1)); done; touch deep";
    assert_eq!(run(&world, &policy, Isolation::Namespaces, line).text, "");
    let content = read(&layer);
    assert!(content.is_cut && content.entries.len() > 100 && content.entries.len() < 200);
    assert_eq!(read_layer(&layer.join("missing"), 1).unwrap_err().raw_os_error(), Some(2));
}

/// Tools can mark removed files by attributes.
#[test]
fn marks_of_tools_are_read_and_placeholders_are_not() {
    let world = World::new();
    let layer = layer_of(&world, "layer");
    for number in 0..9 {
        let placeholder = layer.join("upper").join(number.to_string());
        drop(UnixListener::bind(&placeholder).unwrap());
        fs::set_permissions(&placeholder, fs::Permissions::from_mode(0o1444)).unwrap();
    }
    let folder = layer.join("upper/folder");
    fs::create_dir(&folder).unwrap();
    for name in ["a", "b"] {
        fs::write(folder.join(name), "").unwrap();
    }
    // Some names in the folder are not even read.
    assert!(read_layer(&layer, 1).unwrap().is_cut);
    let set = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).is_ok()
    };
    if !set(&folder.join("a"), "user.overlay.whiteout", b"") {
        eprintln!("SKIPPED: the file system has no attributes");
        return;
    }
    let kinds = || read(&layer).entries.iter().map(|entry| entry.kind).collect::<Vec<_>>();
    let folder_kind = |is_opaque| LayerEntryKind::Folder { is_opaque };
    let (removed, file) = (LayerEntryKind::Removed, LayerEntryKind::File);
    assert_eq!(kinds(), [folder_kind(false), file, file]);
    assert!(set(&folder, "user.overlay.opaque", b"x"));
    assert_eq!(kinds(), [folder_kind(false), removed, file]);
    assert!(set(&folder, "user.overlay.opaque", b"y"));
    assert_eq!(kinds(), [folder_kind(true), file, file]);
    assert!(set(&folder, "user.overlay.opaque", b"yes"));
    assert_eq!(kinds(), [folder_kind(false), file, file]);
}

#[test]
fn no_line_of_the_table_escapes_from_a_preview() {
    if !is_possible() {
        return;
    }
    let mut failures = Vec::new();
    for escape in table::file_escapes().filter(|it| it.holds_in(Isolation::Namespaces)) {
        let world = World::new();
        let (before, project) = (world.snapshot(), Snapshot::of(&world.project));
        let (policy, layer) = preview_of(&world);
        let output = run(&world, &policy, Isolation::Namespaces, escape.line);
        let mut complaints = complaints(&world, &before, &output.text);
        complaints.extend(project.differences(&Snapshot::of(&world.project)));
        complaints.extend(protected_entries(&layer));
        if !complaints.is_empty() {
            failures.push(format!("{}: {complaints:?}\n{}", escape.line, output.text));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the entries of a layer that change a protected name, or a masked one.
fn protected_entries(layer: &Path) -> Vec<String> {
    let content = read(layer);
    let is_protected = |entry: &&LayerEntry| {
        PROTECTED.iter().chain(&[".env"]).any(|name| entry.path.starts_with(name))
    };
    content.entries.iter().filter(is_protected).map(line).collect()
}

#[test]
fn random_changes_do_not_escape_from_a_preview() {
    if !is_possible() {
        return;
    }
    let (count, seed) = (4000, std::process::id());
    let world = World::new();
    let (before, project) = (world.snapshot(), Snapshot::of(&world.project));
    let (policy, layer) = preview_of(&world);
    let line = format!("exec \"$ATTACK\" mutate {seed} {count}");
    let output = run(&world, &policy, Isolation::Namespaces, &line);
    assert_eq!(output.code, Some(0), "{}", output.text);
    assert_eq!(before.differences(&world.snapshot()), [""; 0], "seed {seed}");
    assert_eq!(project.differences(&Snapshot::of(&world.project)), [""; 0], "seed {seed}");
    assert_eq!(protected_entries(&layer), [""; 0], "seed {seed}");
    // The changes have an effect.
    assert!(!read(&layer).entries.is_empty());
}

#[test]
fn layer_cannot_be_reached_and_links_do_not_leave_the_folder() {
    if !is_possible() {
        return;
    }
    let world = World::new();
    fs::write(world.project.join("a"), "real").unwrap();
    let (project, before) = (Snapshot::of(&world.project), world.snapshot());
    let (policy, layer) = preview_of(&world);
    let line = "echo changed > a; cd src; \
                cat \"$LAYER/upper/a\"; ls -A \"$LAYER\"; echo ESCAPED > \"$LAYER/upper/b\"; \
                mkdir \"$LAYER/upper\"; mv \"$LAYER\" \"$LAYER-2\"; \
                cat /proc/self/root/\"$LAYER/upper/a\"; grep -c \"$LAYER\" /proc/self/mountinfo; \
                echo root >> /proc/self/root/\"$PROJECT/a\"; echo cwd >> /proc/self/cwd/../a; \
                echo ESCAPED > ../../outside/file; echo ESCAPED > ../../new; \
                for to in \"$OUTSIDE/l\" \"$TMPDIR/l\" \"$LAYER/l\" /tmp/l /dev/shm/l; do \
                ln ../a \"$to\" && echo ESCAPED; done; \
                for from in \"$OUTSIDE/file\" \"$TMPDIR/t\"; do \
                ln \"$from\" ../l && echo ESCAPED; done; \
                mknod ../c c 0 0; cat ../a";
    let line = format!("touch \"$TMPDIR/t\"; {line}");
    let mut command = shell(&world, &policy, Isolation::Namespaces, &line);
    command.envs([("LAYER", &layer)]).helper_command().stdout(Stdio::piped()).stderr(Stdio::null());
    let output = command.spawn().unwrap().into_parts().0.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // The table of mounts contains the path of the empty folder that covers the layer.
    assert_eq!(text, "1\nchanged\nroot\ncwd\n");
    assert_eq!(project.differences(&Snapshot::of(&world.project)), [""; 0]);
    assert_eq!(before.differences(&world.snapshot()), [""; 0]);
    let entries = read(&layer).entries;
    assert_eq!(
        entries.iter().map(|entry| entry.path.as_path()).collect::<Vec<_>>(),
        [Path::new("a")]
    );
    assert!(!world.home.with_file_name("new").exists());
}

#[test]
fn preview_that_could_change_a_folder_is_refused() {
    if !is_possible() {
        return;
    }
    let world = World::new();
    let before = Snapshot::of(&world.project);
    let (policy, layer) = preview_of(&world);
    let inner = world.project.join("docs");
    let refused = |change: &dyn Fn(&mut SandboxPolicy), reason: &str| {
        let mut policy = policy.clone();
        change(&mut policy);
        let failure = failure(&world, &policy, Isolation::Namespaces);
        assert!(failure.reason.contains(reason), "{failure}");
        assert!(probe_preview(&policy).is_err());
    };
    refused(&|it| it.writable.push(inner.clone()), "not a folder of the preview");
    refused(&|it| it.writable = vec![inner.clone()], "not a folder of the preview");
    refused(&|it| it.writable.clear(), "not a writable folder");
    refused(&|it| it.preview.push(it.preview[0].clone()), "not a writable folder");
    refused(&|it| it.preview[0].path = "/no/such/folder".into(), "No such file");
    refused(&|it| it.preview[0].layer = "/no/such/folder".into(), "No such file");
    refused(&|it| it.preview[0].layer = layer.join("upper"), "No such file");
    let same = "is in it, or is the same folder";
    refused(&|it| it.preview[0].layer = new_layer(&world.private_tmp().join("layer")), same);
    refused(&|it| it.tmp = Some(inner.clone()), same);
    refused(&|it| it.tmp = Some(world.project.clone()), same);
    refused(&|it| it.tmp = Some(layer.join("upper")), same);
    refused(&|it| it.tmp = Some(layer.parent().unwrap().to_owned()), same);
    refused(&|it| it.preview[0].layer = layer.parent().unwrap().to_owned(), same);
    let cache = CopyOnWriteFolder::new("/usr/share", &inner);
    refused(&|it| it.copy_on_write.push(cache.clone()), same);
    for layer in [layer.clone(), new_layer(&layer.join("inner"))] {
        let entry = CopyOnWriteFolder::new(&inner, layer);
        let add_inner = |policy: &mut SandboxPolicy| {
            policy.writable.push(inner.clone());
            policy.preview.push(entry.clone());
        };
        refused(&add_inner, same);
    }
    assert_eq!(before.differences(&Snapshot::of(&world.project)), [""; 0]);
    let failure = failure(&world, &policy, Isolation::Landlock);
    assert!(failure.reason.contains("namespaces"), "{failure}");
    // The layer is still usable after all these refusals.
    assert_eq!(run(&world, &policy, Isolation::Namespaces, "echo x > new").code, Some(0));
    assert_eq!(read(&layer).entries.len(), 1);
}

#[test]
fn layer_is_used_only_once() {
    if !is_possible() {
        return;
    }
    let world = World::new();
    let (policy, layer) = preview_of(&world);
    for _ in 0..2 {
        assert_eq!(probe_preview(&policy), Ok(()));
    }
    assert_eq!(read(&layer).entries, []);
    assert_eq!(run(&world, &policy, Isolation::Namespaces, "echo x > src/new").code, Some(0));
    let refused = |policy: &SandboxPolicy| {
        let failure = failure(&world, policy, Isolation::Namespaces);
        assert!(failure.reason.contains("it was used before"), "{failure}");
    };
    refused(&policy);
    assert_eq!(read(&layer).entries.len(), 2);
    // The kernel does not remove this folder. It would mount the overlay read-only.
    let layer = layer_of(&world, "other");
    fs::create_dir_all(layer.join("work/work/a/b/c/d")).unwrap();
    refused(&with_preview(world.policy(), &world.project, &layer));
}

#[test]
fn writable_folders_in_each_other_have_their_own_layers() {
    if !is_possible() {
        return;
    }
    let world = World::new();
    let inner = world.project.join("src");
    let before = Snapshot::of(&world.project);
    let (mut policy, layer) = preview_of(&world);
    let inner_layer = layer_of(&world, "inner");
    policy.writable.extend([inner.clone(), world.home.with_file_name("project-link")]);
    let policy = with_preview(policy, &inner, &inner_layer);
    let line = "echo x > src/new; echo y > ../project/src/../new; mv src/main.rs .; mv src other; \
                rm -rf src; ls -A src";
    let output = run(&world, &policy, Isolation::Namespaces, line);
    assert!(output.text.contains("Device or resource busy"), "{}", output.text);
    let kinds = |layer: &Path| lines(&read(layer)).join(" ").replace(" 644", "");
    let [outer, inner] = [kinds(&layer), kinds(&inner_layer)];
    assert!(outer.contains("file main.rs") && outer.contains("file new"), "{outer}");
    assert!(!outer.contains("src/"), "{outer}");
    assert_eq!(inner, "removed main.rs");
    assert_eq!(before.differences(&Snapshot::of(&world.project)), [""; 0]);
}

#[test]
fn paths_may_contain_any_byte_and_may_be_long() {
    if !is_possible() {
        return;
    }
    let world = World::new();
    let base = world.home.with_file_name("base");
    let odd = OsString::from_vec(b"a:b,c\\,d\\\\:e=f \xff\n\\057".to_vec());
    let project = base.join(&odd).join("long".repeat(60)).join("p".repeat(200));
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("file"), "real").unwrap();
    let link = base.join("link");
    symlink(&project, &link).unwrap();
    for (number, (path, in_preview)) in
        [(&project, &project), (&link, &project), (&project, &link)].into_iter().enumerate()
    {
        let layer = new_layer(&base.join("layer").join(&odd).join(number.to_string()));
        let mut policy =
            with_preview(SandboxPolicy::from_writable_folders([path]), in_preview, &layer);
        let name = ReadOnlyPath::new(project.join("missing"), MissingName::Protected);
        policy.read_only = vec![name];
        let mut command = shell(
            &world,
            &policy,
            Isolation::Namespaces,
            "echo x > file; echo x > missing; pwd -P",
        );
        command.helper_command().current_dir(path).stdout(Stdio::piped()).stderr(Stdio::null());
        let output = command.spawn().unwrap().into_parts().0.wait_with_output().unwrap();
        assert_eq!(output.stdout, [project.as_os_str().as_encoded_bytes(), b"\n"].concat());
        assert_eq!(lines(&read(&layer)), ["file file 644"]);
        assert_eq!(fs::read_to_string(project.join("file")).unwrap(), "real");
        assert!(!project.join("missing").exists());
    }
}

#[test]
fn working_directory_is_in_the_copy() {
    if !is_possible() {
        return;
    }
    for (name, is_visible) in [("src", true), (".git/objects", true), ("hidden", false)] {
        let world = World::new();
        fs::create_dir(world.project.join("hidden")).unwrap();
        let (mut policy, layer) = preview_of(&world);
        policy.masked.push(world.project.join("hidden"));
        let mut command = shell(&world, &policy, Isolation::Namespaces, "echo x > new");
        command.helper_command().current_dir(world.project.join(name));
        let result = command.spawn().map(|child| child.wait().unwrap().0.code());
        assert_eq!(result.is_ok(), is_visible, "{name}: {result:?}");
        if let Err(error) = result {
            assert!(error.to_string().contains("cannot enter the folder"), "{error}");
        } else {
            assert!(layer.join("upper").join(name).join("new").exists());
        }
        assert!(!world.project.join(name).join("new").exists());
        assert_eq!(world.leftovers(), [""; 0]);
    }
}

#[test]
fn folders_that_are_replaced_during_the_set_up_are_refused() {
    if !is_possible() {
        return;
    }
    for (replaced, cwd, step) in [
        ("project", "outside", SetupStep::Overlay),
        ("layer", "outside", SetupStep::Overlay),
        ("project/src", "project/src", SetupStep::WorkingDirectory),
    ] {
        let world = World::new();
        let path = |name| world.home.with_file_name(name);
        let layer = layer_of(&world, "layer");
        let mut policy = SandboxPolicy::from_writable_folders([&world.project, &world.home]);
        policy = with_preview(policy, &world.project, &layer);
        policy = with_preview(policy, &world.home, &layer_of(&world, "other"));
        // The placeholder of the first name shows that all folders are recorded. The set-up stops
        // before it creates the other placeholder.
        let [first, last] = ["first", "tools/last"].map(|name| world.home.join(name));
        let names = [&first, &last].map(|name| ReadOnlyPath::new(name, MissingName::Protected));
        policy.read_only = names.into();
        let stop = stop_set_up(&world.home.join("tools"));
        let result = std::thread::scope(|scope| {
            let started = scope.spawn(|| {
                let mut command = shell(&world, &policy, Isolation::Namespaces, "exit 3");
                command.helper_command().current_dir(path(cwd));
                command.spawn().map(|child| child.wait().unwrap().0.code())
            });
            let begun = Instant::now();
            while fs::symlink_metadata(&first).is_err() {
                assert!(begun.elapsed() < PATIENCE, "there is no placeholder");
            }
            fs::rename(path(replaced), path("moved")).unwrap();
            match replaced {
                "layer" => drop(new_layer(&layer)),
                _ => fs::create_dir(path(replaced)).unwrap(),
            }
            drop(stop);
            started.join().unwrap()
        });
        assert_eq!(setup_failure(result, step).errno, Some(libc::ESTALE), "{replaced}");
    }
}

#[test]
fn attributes_of_the_folder_are_those_of_the_real_folder() {
    if !is_possible() {
        return;
    }
    let is_root = rustix::process::geteuid().is_root();
    for mode in [0o755, 0o700, 0o2770, 0o1777, 0o555] {
        let world = World::new();
        let set_mode = |mode| fs::Permissions::from_mode(mode);
        fs::set_permissions(&world.project, set_mode(mode)).unwrap();
        if is_root {
            std::os::unix::fs::chown(&world.project, Some(1), Some(2)).unwrap();
            fs::set_permissions(&world.project, set_mode(mode)).unwrap();
        }
        let real = fs::metadata(&world.project).unwrap();
        let layer = layer_of(&world, "layer");
        let policy = with_preview(
            SandboxPolicy::from_writable_folders([&world.project]),
            &world.project,
            &layer,
        );
        let line = "stat -c '%a %u %g' .; echo x > new && stat -c %g new";
        let output = run(&world, &policy, Isolation::Namespaces, line);
        let expected = format!("{mode:o} {} {}\n", real.uid(), real.gid());
        assert!(output.text.starts_with(&expected), "{mode:o}: {}", output.text);
        assert_eq!(output.code == Some(0), is_root || mode != 0o555, "{mode:o}");
        if mode & 0o2000 != 0 {
            assert!(output.text.ends_with(&format!("\n{}\n", real.gid())), "{}", output.text);
        }
        fs::set_permissions(&world.project, set_mode(0o755)).unwrap();
    }
}

/// The user namespace of an ordinary user has only one user and one group, so the kernel cannot
/// copy the files of others.
#[test]
fn folder_of_another_user_is_refused() {
    if !is_possible() || rustix::process::geteuid().is_root() {
        return;
    }
    let world = World::new();
    let layer = layer_of(&world, "layer");
    let policy =
        with_preview(SandboxPolicy::from_writable_folders(["/usr"]), Path::new("/usr"), &layer);
    let failure = failure(&world, &policy, Isolation::Namespaces);
    assert!(failure.reason.contains("the owner and the group"), "{failure}");
}

#[test]
fn sockets_are_hidden_in_a_copy_and_new_ones_work() {
    if !is_possible() || !is_installed("python3") {
        return;
    }
    let world = World::new();
    let listener = UnixListener::bind(world.project.join("socket")).unwrap();
    let (policy, layer) = preview_of(&world);
    let line = "SOCKET=$PROJECT/socket \"$ATTACK\" attack connect-path; python3 -c '\n\
        import socket\n\
        server = socket.socket(socket.AF_UNIX); server.bind(\"own\"); server.listen()\n\
        client = socket.socket(socket.AF_UNIX); client.connect(\"own\")\n'";
    let output = run(&world, &policy, Isolation::Namespaces, line);
    assert_eq!(output.code, Some(0), "{}", output.text);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "{}", output.text);
    let kinds: Vec<_> = read(&layer).entries.into_iter().map(|it| (it.path, it.kind)).collect();
    assert_eq!(kinds, [("own".into(), LayerEntryKind::Special)]);
}

#[test]
fn folder_in_the_hidden_tmp_has_a_preview() {
    if !is_possible() {
        return;
    }
    let world = World::new();
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let project = folder.path().join("a/project");
    fs::create_dir_all(&project).unwrap();
    let layer = new_layer(&folder.path().join("layer"));
    let mut policy =
        with_preview(SandboxPolicy::from_writable_folders([&project]), &project, &layer);
    policy.tmp = Some(world.private_tmp());
    let mut command = shell(&world, &policy, Isolation::Namespaces, "echo x > new; ls -A ../..");
    command.helper_command().current_dir(&project).stdout(Stdio::piped());
    let result = command.spawn().map(|child| child.into_parts().0.wait_with_output().unwrap());
    match result {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "a\n"),
        // The file system of `/tmp` may be one that keeps no changes.
        Err(error) => return eprintln!("SKIPPED: {error}"),
    }
    assert_eq!(lines(&read(&layer)), ["file new 644"]);
    assert_eq!(fs::read_dir(&project).unwrap().count(), 0);
}

#[test]
fn git_works_in_a_copy() {
    if !is_possible() || !is_installed("git") {
        return;
    }
    let world = World::new();
    let init = "rm -rf .git; git init -q && git config user.name n && \
                git config user.email e@example.com && git add -A && git commit -qm a";
    let policy = SandboxPolicy::from_writable_folders([&world.project]);
    assert_eq!(run(&world, &policy, Isolation::Namespaces, init).code, Some(0));
    let before = Snapshot::of(&world.project);
    let (mut policy, _) = preview_of(&world);
    policy.masked.clear();
    let line = "set -e; git status --porcelain; echo x > src/f; git add -A; git commit -qm b; \
                git checkout -qb other; git mv src/f g; git commit -qm c; git checkout -q -; \
                git merge -q other; git gc -q; git status --porcelain; git log --oneline | wc -l";
    let output = run(&world, &policy, Isolation::Namespaces, line);
    assert_eq!((output.code, output.text.as_str()), (Some(0), "3\n"));
    assert_eq!(before.differences(&Snapshot::of(&world.project)), [""; 0]);
}

/// A mount in the folder is not in the overlay, and another path of a mount could be writable.
#[test]
fn mounts_of_a_folder_of_the_preview_are_found() {
    if !is_possible() {
        return;
    }
    let program = std::env::current_exe().unwrap();
    for (setup, result) in [
        ("true", "RAN exec"),
        ("mount --bind project outside", "RAN exec"),
        ("mount --bind project/src outside/folder", "RAN exec"),
        ("mount --bind project project", "RAN exec"),
        ("mount --bind project project && mount -o remount,bind,noexec project", "RAN noexec"),
        ("mount -t tmpfs none project/src", "project/src is a separate mount"),
        ("mount --bind outside project/docs", "project/docs is a separate mount"),
        ("mount --bind outside layer/upper", "layer/upper is a separate mount"),
        ("mount --bind project tmp", "it contains BASE/tmp, is in it"),
        ("mount --bind project/src tmp", "it contains BASE/tmp, is in it"),
        ("mkdir tmp/in && mount --bind project/src tmp/in", "it contains BASE/tmp/in, is in it"),
        ("mount --bind layer/upper tmp", "it contains BASE/tmp, is in it"),
        (
            "mount --bind project layer && mkdir layer/upper layer/work",
            "it contains BASE/layer, is in it",
        ),
    ] {
        let world = World::new();
        let base = world.home.parent().unwrap();
        layer_of(&world, "layer");
        fs::write(world.project.join("src/a"), "real").unwrap();
        let line = format!("{setup} && exec \"$0\" preview::report_preview --exact --nocapture");
        let mut command = std::process::Command::new("unshare");
        command.args(["-rm", "sh", "-c", &line]).arg(&program).env("PREVIEW", base);
        let output = command.current_dir(base).output().unwrap();
        if !output.status.success() {
            eprintln!("SKIPPED: unshare -rm does not work, or {setup} does not");
            continue;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let expected = result.replace("BASE", base.to_str().unwrap());
        assert!(text.contains(&expected) || text.contains("SKIPPED"), "{setup}: {text}");
        assert_eq!(fs::read_to_string(world.project.join("src/a")).unwrap(), "real", "{setup}");
        assert!(!world.project.join("new").exists());
    }
}

/// Test body of a copy of this program.
#[test]
fn report_preview() {
    let Some(base) = std::env::var_os("PREVIEW").map(PathBuf::from) else { return };
    if !is_supported(Isolation::Namespaces) {
        println!("SKIPPED");
        return;
    }
    let project = base.join("project");
    let mut policy = with_preview(
        SandboxPolicy::from_writable_folders([&project]),
        &project,
        &base.join("layer"),
    );
    policy.tmp = Some(base.join("tmp"));
    let session = ProcessSession::Inherited;
    let mut command = SandboxCommand::new("sh", &policy, Isolation::Namespaces, session).unwrap();
    let line = "echo x > new && echo x > src/a || exit 1; \
                for file in ../outside/src/a ../outside/folder/a; do echo x > $file; done; \
                cp \"$(command -v cat)\" t; if ./t new; then echo RAN exec; else echo RAN noexec; fi";
    command
        .args(["-c", line])
        .envs([("PATH", "/usr/bin:/bin")])
        .helper_command()
        .current_dir(&project);
    match command.spawn() {
        Ok(child) => drop(child.wait().unwrap()),
        Err(error) => println!("{error}"),
    }
}

/// A folder that is not writable is still readable if it has no overlay.
#[test]
fn copy_of_another_folder_is_writable_or_readable() {
    if !is_possible() {
        return;
    }
    let world = World::new();
    let cache = world.home.join("cache:a\\,b");
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join("file"), "real\n").unwrap();
    let layer = layer_of(&world, "layer:a\\,b");
    let mut policy = world.policy();
    policy.copy_on_write = vec![CopyOnWriteFolder::new(&cache, &layer)];
    let line = "cd \"$HOME\"/cache*; cat file; echo x >> file; cat file";
    for expected in ["real\nreal\nx\n", "real\nx\nreal\nx\nx\n"] {
        assert_eq!(run(&world, &policy, Isolation::Namespaces, line).text, expected);
    }
    assert_eq!(lines(&read(&layer)), ["file file 644"]);
    assert_eq!(fs::read_to_string(cache.join("file")).unwrap(), "real\n");
    open_work_folder(&layer);
    fs::remove_dir_all(&layer).unwrap();
    let text = run(&world, &policy, Isolation::Namespaces, line).text;
    assert!(text.starts_with("real\n") && text.ends_with("real\n"), "{text}");
    assert!(text.contains("Read-only file system"), "{text}");
}

/// Prints the cost of a preview: `cargo test --release -- --ignored --nocapture cost`.
#[test]
#[ignore = "a measurement"]
fn cost_of_a_preview() {
    const RUNS: usize = 100;
    let world = World::new();
    for name in 0..1000 {
        fs::write(world.project.join(name.to_string()), "text\n").unwrap();
    }
    let median = |has_preview: bool, line: &str| {
        let run_once = |number: usize| {
            let mut policy = world.policy();
            policy.limits = callboard_sandbox::SandboxLimits::default();
            if has_preview {
                let name = format!("layer{}-{number}", line.len());
                policy = with_preview(policy, &world.project, &layer_of(&world, &name));
            }
            let begun = Instant::now();
            let child = shell(&world, &policy, Isolation::Namespaces, line).spawn().unwrap();
            let started = begun.elapsed();
            assert!(child.wait().unwrap().0.success());
            (started, begun.elapsed())
        };
        let (mut starts, mut ends): (Vec<_>, Vec<_>) = (0..RUNS).map(run_once).unzip();
        starts.sort();
        ends.sort();
        (starts[RUNS / 2].as_secs_f64() * 1000.0, ends[RUNS / 2].as_secs_f64() * 1000.0)
    };
    for line in ["true", "for i in $(seq 0 999); do echo x >> $i; done"] {
        for has_preview in [false, true] {
            let (start, end) = median(has_preview, line);
            eprintln!("preview {has_preview}, {line}: {start:.2} ms to start, {end:.2} ms in all");
        }
    }
}
