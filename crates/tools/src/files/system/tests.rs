//! All fences hold the same table, and the kernel's also holds against a race.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::pretence::{self, FileSystem};
use super::{Audience, Entry, Kind, portable, unix};

fn tree() -> TempDir {
    let outer = tempfile::tempdir().unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    let root = outer.path().join("root");
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::write(root.join("dir/file"), "inside").unwrap();
    symlink("dir/file", root.join("in")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink(outer.path(), root.join("out-dir")).unwrap();
    outer
}

/// What a folder says of a file that is to be written.
macro_rules! holds_writable {
    ($root:expr) => {
        assert!(!$root.is_removed() && $root.dir(Path::new("dir/file")).is_err());
        let dir = $root.dir(Path::new("dir")).unwrap();
        dir.require_taking().unwrap();
        dir.require_writable(OsStr::new("file")).unwrap();
        let missing = dir.require_writable(OsStr::new("nothing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(!dir.is_mounted(OsStr::new("file")) && dir.room().unwrap() > 0);
        if let Some(mode) = dir.take_mode(OsStr::new("file")).unwrap() {
            dir.set_mode(OsStr::new("file"), mode).unwrap();
            assert_eq!(dir.take_mode(OsStr::new("file")).unwrap(), Some(mode));
        }
        assert!(!dir.is_removed());
        assert!(dir.set_mode(OsStr::new("nothing"), 0o600).is_err());
    };
}

/// Checks one kind of root, of which `pin` makes one.
macro_rules! holds {
    ($name:ident, $pin:expr) => {
        #[test]
        fn $name() {
            let outer = tree();
            let root = $pin(&outer.path().join("root")).unwrap();
            for (path, expected) in [
                ("dir/file", Ok("inside")),
                ("in", Ok("inside")),
                ("nothing", Err(io::ErrorKind::NotFound)),
                ("dir/file/more", Err(io::ErrorKind::NotADirectory)),
                ("out", Err(io::ErrorKind::CrossesDevices)),
                ("out-dir/secret", Err(io::ErrorKind::CrossesDevices)),
                ("dir/../../secret", Err(io::ErrorKind::CrossesDevices)),
                ("../secret", Err(io::ErrorKind::CrossesDevices)),
            ] {
                let mut text = String::new();
                let read =
                    root.open(Path::new(path)).and_then(|mut file| file.read_to_string(&mut text));
                assert_eq!(
                    read.map(|_| text.as_str()).map_err(|error| error.kind()),
                    expected,
                    "{path}"
                );
                let straight = root
                    .open_straight(Path::new(path))
                    .map(drop)
                    .and_then(|()| root.metadata_straight(Path::new(path)));
                let has_link = path == "in";
                assert_eq!(straight.is_ok(), expected.is_ok() && !has_link, "{path}");
                let looked = root.metadata(Path::new(path)).map(|metadata| metadata.is_file());
                assert_eq!(looked.ok(), expected.ok().map(|_| true), "{path}");
            }
            holds_writable!(root);
            assert!(root.dir_straight(Path::new("out-dir")).is_err());
            let one = |path| root.dir_straight(Path::new(path)).unwrap().itself().unwrap();
            assert_eq!(one("dir"), one("dir"));

            let dir = root.dir(Path::new("")).unwrap();
            let (mut entries, more) = dir.entries(9).unwrap();
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            let kinds = [
                ("dir", Kind::Directory),
                ("in", Kind::Link),
                ("out", Kind::Link),
                ("out-dir", Kind::Link),
            ];
            let kinds = kinds.map(|(name, kind)| Entry { name: name.into(), kind });
            assert_eq!((&entries[..], more), (&kinds[..], false));
            assert!(dir.entries(2).unwrap().1 && dir.entries_while(9, || false).unwrap().1);
            assert_eq!(dir.read_link(OsStr::new("in")).unwrap(), "dir/file");

            let [a, b, link] = ["a", "b", "in"].map(OsStr::new);
            dir.create(a, Audience::Owner).unwrap().write_all(b"new").unwrap();
            assert!(dir.create(a, Audience::Everyone).is_err());
            dir.create(b, Audience::Everyone).unwrap();
            assert_eq!(dir.rename(a, b).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            dir.replace(a, b).unwrap();
            dir.rename(b, a).unwrap();
            assert_eq!(dir.kind(b).unwrap_err().kind(), io::ErrorKind::NotFound);
            assert!(dir.change(link).is_err());
            let mut text = String::new();
            dir.change(a).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "new");
            dir.link(a, b).unwrap();
            assert_eq!(dir.identity(a).unwrap(), dir.identity(b).unwrap());
            dir.remove(b).unwrap();
            let mut other = dir.create(b, Audience::Everyone).unwrap();
            other.write_all(b"other").unwrap();
            let mut text = String::new();
            match dir.sync().and_then(|()| dir.exchange(a, b)) {
                Ok(()) => drop(dir.open(b).unwrap().read_to_string(&mut text).unwrap()),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
                    dir.open(a).unwrap().read_to_string(&mut text).unwrap();
                }
            }
            assert_eq!(text, "new");
            assert!(dir.open(link).is_err());
            dir.remove(b).unwrap();
            dir.remove(a).unwrap();
            dir.create_dir(a).unwrap();
            assert_eq!(dir.kind(a).unwrap(), Kind::Directory);
            assert!(dir.remove_dir(OsStr::new("dir")).is_err());
            dir.remove_dir(a).unwrap();
            assert!(dir.kind(a).is_err());
        }
    };
}

/// Looks at what is in a root of one kind.
macro_rules! looks {
    ($name:ident, $pin:expr) => {
        #[test]
        fn $name() {
            let outer = tree();
            let dir = $pin(&outer.path().join("root")).unwrap().dir(Path::new("")).unwrap();
            let inner = dir.dir(OsStr::new("dir")).unwrap();
            assert!(inner.is_beside(&dir));
            let look = inner.look(OsStr::new("file")).unwrap();
            assert_eq!((look.kind, look.bytes), (Kind::File, 6));
            assert_eq!(look, inner.look(OsStr::new("file")).unwrap());
            let holds = |name| inner.hold(OsStr::new(name)).is_ok();
            assert_eq!(["file", "missing"].map(holds), [true, false]);
            assert!(dir.dir(OsStr::new("out-dir")).is_err());
        }
    };
}

looks!(a_look_tells_what_is_there, unix::Root::pin);
looks!(a_portable_look_tells_what_is_there, portable::Root::pin);

holds!(the_kernel_fence_holds, unix::Root::pin);
holds!(the_compared_fence_holds, unix::Root::pin_compared);
holds!(the_portable_fence_holds, portable::Root::pin);

#[test]
fn a_root_tells_its_fence() {
    let outer = tree();
    assert_eq!(
        unix::Root::pin(outer.path()).unwrap().is_kernel_fenced(),
        cfg!(target_os = "linux")
    );
    assert!(!unix::Root::pin_compared(outer.path()).unwrap().is_kernel_fenced());
    assert!(!portable::Root::pin(outer.path()).unwrap().is_kernel_fenced());
    let metadata = fs::metadata(outer.path().join("secret")).unwrap();
    let copy = fs::File::create(outer.path().join("copy")).unwrap();
    let secret = fs::File::open(outer.path().join("secret")).unwrap();
    assert!(portable::copy_access(&secret, &copy).unwrap());
    assert_eq!(portable::links(&metadata), unix::links(&metadata));
    assert!(!portable::is_executable(&secret) && !unix::is_executable(&secret));
    let secret = outer.path().join("secret");
    assert!(portable::look(&secret).unwrap().is_file() && unix::look(&secret).unwrap().is_file());
    let root = outer.path().canonicalize().unwrap().join("root");
    assert!(!portable::Root::pin_straight(&root).unwrap().is_of_processes());
    assert!(unix::Root::pin_straight(&root).is_ok());
    assert!(portable::Root::pin_straight(&root.join("out-dir")).is_err());
    assert!(unix::Root::pin_straight(&root.join("out-dir")).is_err());
    let outer_dir = unix::Root::pin(outer.path()).unwrap().dir(Path::new("")).unwrap();
    assert_ne!(outer_dir.itself().unwrap(), outer_dir.identity(OsStr::new("root")).unwrap());
    let identity = unix::identity_of(&metadata);
    assert_eq!(outer_dir.identity(OsStr::new("secret")).unwrap(), identity);
    assert_eq!(portable::identity_of(&metadata), portable::identity_of(&metadata));
}

#[test]
fn where_the_kernel_has_no_fence_a_root_that_is_another_one_now_is_closed() {
    let outer = tree();
    let (root, aside) = (outer.path().join("root"), outer.path().join("aside"));
    let pinned = unix::Root::pin_compared(&root).unwrap();
    fs::rename(&root, &aside).unwrap();
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::write(root.join("dir/file"), "another").unwrap();
    assert!(pinned.open(Path::new("dir/file")).is_err());
    assert!(pinned.dir_straight(Path::new("dir")).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn no_way_leads_through_what_a_process_has_open() {
    let outer = tree();
    let secret = outer.path().join("secret");
    assert!(unix::look(&secret).unwrap().is_file());
    assert_eq!(unix::look(&outer.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    for link in ["/proc/self/root", "/proc/self/cwd", "/proc/thread-self/root"] {
        for path in [link.to_owned(), format!("{link}{}", secret.display()), format!("{link}/none")]
        {
            let kind = unix::look(Path::new(&path)).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::CrossesDevices, "{path}");
        }
    }
    assert!(unix::Root::pin(Path::new("/proc/self")).unwrap().is_of_processes());
    assert!(!unix::Root::pin(outer.path()).unwrap().is_of_processes());
}

#[cfg(target_os = "linux")]
#[test]
fn who_swaps_a_directory_for_a_link_gets_nothing_from_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let outer = tempfile::tempdir().unwrap();
    let [root, evil] = ["root", "evil"].map(|name| outer.path().join(name));
    for (dir, text) in [(&root.join("dir"), "inside"), (&evil, "secret")] {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("file"), text).unwrap();
    }
    symlink(&evil, root.join("link")).unwrap();
    let pinned = unix::Root::pin(&root).unwrap();
    let done = AtomicBool::new(false);
    let (mut inside, mut outside) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (dir, link) = (root.join("dir"), root.join("link"));
            while !done.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        for _ in 0..20_000 {
            let mut text = String::new();
            let opened = pinned.open(Path::new("dir/file"));
            if opened.and_then(|mut file| file.read_to_string(&mut text)).is_ok() {
                *if text == "inside" { &mut inside } else { &mut outside } += 1;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(outside, 0);
    assert!(inside > 0);
}

#[test]
fn a_name_that_something_has_stays_on_every_file_system() {
    for file_system in [FileSystem::Whole].into_iter().chain(pretence::LESSER) {
        println!("{file_system:?}");
        let outer = tree();
        let dir = unix::Root::pin(&outer.path().join("root")).unwrap().dir(Path::new("")).unwrap();
        let [file, other, link, inner, new] = ["file", "other", "in", "dir", "new"].map(OsStr::new);
        dir.create(file, Audience::Owner).unwrap().write_all(b"file").unwrap();
        dir.create(other, Audience::Owner).unwrap();
        dir.create_dir(OsStr::new("empty")).unwrap();
        pretence::on(file_system, || {
            for (from, to) in [(file, "other"), (file, "empty"), (inner, "empty"), (inner, "file")]
            {
                let error = dir.rename(from, OsStr::new(to)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{from:?} {to}");
            }
            // It stays where it is, and nothing is left of the way.
            assert!(dir.rename(inner, OsStr::new("dir/dir")).is_err());
            assert!(dir.rename(OsStr::new("missing"), new).is_err());
            assert_eq!(dir.kind(new).unwrap_err().kind(), io::ErrorKind::NotFound);
            let into = dir.dir(OsStr::new("empty")).unwrap();
            for (name, kind) in [(file, Kind::File), (inner, Kind::Directory), (link, Kind::Link)] {
                let identity = dir.identity(name).unwrap();
                dir.rename_into(name, &into, new).unwrap();
                assert_eq!(
                    (into.kind(new).unwrap(), into.identity(new).unwrap()),
                    (kind, identity)
                );
                assert!(dir.kind(name).is_err());
                into.rename_into(new, &dir, name).unwrap();
            }
        });
        let text = fs::read_to_string(outer.path().join("root/dir/file")).unwrap();
        assert_eq!((text.as_str(), dir.entries(9).unwrap().0.len()), ("inside", 7));
    }
}
