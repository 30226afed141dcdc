//! Tests that all kinds of confinement behave in the same way. Another test checks that an attacker
//! cannot bypass the kernel's confinement by a race.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::simulated_file_system::{self, SimulatedFileSystem};
use super::{DirectoryEntry, FileKind, FileVisibility, portable, unix};

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

/// Checks the permissions and attributes of a directory and of a file in it.
macro_rules! holds_writable {
    ($root:expr) => {
        assert!(!$root.is_removed() && $root.open_dir(Path::new("dir/file")).is_err());
        let dir = $root.open_dir(Path::new("dir")).unwrap();
        dir.require_can_create().unwrap();
        dir.require_file_writable(OsStr::new("file")).unwrap();
        let missing = dir.require_file_writable(OsStr::new("nothing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(!dir.is_mounted(OsStr::new("file")) && dir.free_bytes().unwrap() > 0);
        if let Some(mode) = dir.restrict_file_to_owner(OsStr::new("file")).unwrap() {
            dir.set_mode_following_links(OsStr::new("file"), mode).unwrap();
            assert_eq!(dir.restrict_file_to_owner(OsStr::new("file")).unwrap(), Some(mode));
        }
        assert!(!dir.is_removed());
        assert!(dir.set_mode_following_links(OsStr::new("nothing"), 0o600).is_err());
    };
}

/// Checks one kind of pinned directory. The expression `$pin` creates it.
macro_rules! holds {
    ($name:ident, $pin:expr) => {
        #[test]
        #[expect(clippy::too_many_lines, reason = "one table for each implementation")]
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
                let read = root
                    .open_file(Path::new(path))
                    .and_then(|mut file| file.read_to_string(&mut text));
                assert_eq!(
                    read.map(|_| text.as_str()).map_err(|error| error.kind()),
                    expected,
                    "{path}"
                );
                let straight = root
                    .open_file_without_links(Path::new(path))
                    .map(drop)
                    .and_then(|()| root.metadata_without_links(Path::new(path)));
                let has_link = path == "in";
                assert_eq!(straight.is_ok(), expected.is_ok() && !has_link, "{path}");
                let is_file = root.metadata(Path::new(path)).map(|metadata| metadata.is_file());
                assert_eq!(is_file.ok(), expected.ok().map(|_| true), "{path}");
            }
            holds_writable!(root);
            assert!(root.open_dir_without_links(Path::new("out-dir")).is_err());
            let one =
                |path| root.open_dir_without_links(Path::new(path)).unwrap().own_id().unwrap();
            assert_eq!(one("dir"), one("dir"));

            let dir = root.open_dir(Path::new("")).unwrap();
            let (mut entries, more) = dir.entries(9).unwrap();
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            let kinds = [
                ("dir", FileKind::Directory),
                ("in", FileKind::Link),
                ("out", FileKind::Link),
                ("out-dir", FileKind::Link),
            ];
            let kinds = kinds.map(|(name, kind)| DirectoryEntry { name: name.into(), kind });
            assert_eq!((&entries[..], more), (&kinds[..], false));
            assert!(dir.entries(2).unwrap().1 && dir.entries_while(9, || false).unwrap().1);
            assert_eq!(dir.read_link(OsStr::new("in")).unwrap(), "dir/file");

            let [a, b, link] = ["a", "b", "in"].map(OsStr::new);
            dir.create_new_file(a, FileVisibility::Owner).unwrap().write_all(b"new").unwrap();
            assert!(dir.create_new_file(a, FileVisibility::Everyone).is_err());
            dir.create_new_file(b, FileVisibility::Everyone).unwrap();
            assert_eq!(
                dir.rename_to_unused(a, b).unwrap_err().kind(),
                io::ErrorKind::AlreadyExists
            );
            dir.rename_over(a, b).unwrap();
            dir.rename_to_unused(b, a).unwrap();
            assert_eq!(dir.entry_kind(b).unwrap_err().kind(), io::ErrorKind::NotFound);
            assert!(dir.open_read_write(link).is_err());
            let mut text = String::new();
            dir.open_read_write(a).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "new");
            dir.create_hard_link(a, b).unwrap();
            assert_eq!(dir.entry_id(a).unwrap(), dir.entry_id(b).unwrap());
            dir.remove_file(b).unwrap();
            let mut other = dir.create_new_file(b, FileVisibility::Everyone).unwrap();
            other.write_all(b"other").unwrap();
            let mut text = String::new();
            match dir.sync().and_then(|()| dir.exchange(a, b)) {
                Ok(()) => drop(dir.open_file(b).unwrap().read_to_string(&mut text).unwrap()),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
                    dir.open_file(a).unwrap().read_to_string(&mut text).unwrap();
                }
            }
            assert_eq!(text, "new");
            assert!(dir.open_file(link).is_err());
            dir.remove_file(b).unwrap();
            dir.remove_file(a).unwrap();
            dir.create_dir(a).unwrap();
            assert_eq!(dir.entry_kind(a).unwrap(), FileKind::Directory);
            assert!(dir.remove_dir(OsStr::new("dir")).is_err());
            dir.remove_dir(a).unwrap();
            assert!(dir.entry_kind(a).is_err());
        }
    };
}

/// Checks the metadata of the entries in one kind of pinned directory.
macro_rules! looks {
    ($name:ident, $pin:expr) => {
        #[test]
        fn $name() {
            let outer = tree();
            let dir = $pin(&outer.path().join("root")).unwrap().open_dir(Path::new("")).unwrap();
            let inner = dir.open_dir(OsStr::new("dir")).unwrap();
            assert!(inner.is_on_same_file_system(&dir));
            let look = inner.entry_metadata(OsStr::new("file")).unwrap();
            assert_eq!((look.kind, look.bytes), (FileKind::File, 6));
            assert_eq!(look, inner.entry_metadata(OsStr::new("file")).unwrap());
            let holds = |name| inner.hold_open(OsStr::new(name)).is_ok();
            assert_eq!(["file", "missing"].map(holds), [true, false]);
            assert!(dir.open_dir(OsStr::new("out-dir")).is_err());
        }
    };
}

looks!(a_look_tells_what_is_there, unix::PinnedDirectory::pin);
looks!(a_portable_look_tells_what_is_there, portable::PinnedDirectory::pin);

holds!(the_kernel_fence_holds, unix::PinnedDirectory::pin);
holds!(the_compared_fence_holds, unix::PinnedDirectory::pin_with_path_comparison);
holds!(the_portable_fence_holds, portable::PinnedDirectory::pin);

#[test]
fn a_pinned_directory_reports_its_confinement() {
    let outer = tree();
    assert_eq!(
        unix::PinnedDirectory::pin(outer.path()).unwrap().has_kernel_confinement(),
        cfg!(target_os = "linux")
    );
    assert!(
        !unix::PinnedDirectory::pin_with_path_comparison(outer.path())
            .unwrap()
            .has_kernel_confinement()
    );
    assert!(!portable::PinnedDirectory::pin(outer.path()).unwrap().has_kernel_confinement());
    let metadata = fs::metadata(outer.path().join("secret")).unwrap();
    let copy = fs::File::create(outer.path().join("copy")).unwrap();
    let secret = fs::File::open(outer.path().join("secret")).unwrap();
    assert!(portable::copy_access(&secret, &copy).unwrap());
    assert_eq!(portable::link_count(&metadata), unix::link_count(&metadata));
    assert!(!portable::is_executable(&secret) && !unix::is_executable(&secret));
    let secret = outer.path().join("secret");
    assert!(
        portable::path_metadata_following_links(&secret).unwrap().is_file()
            && unix::path_metadata_following_links(&secret).unwrap().is_file()
    );
    let root = outer.path().canonicalize().unwrap().join("root");
    assert!(!portable::PinnedDirectory::pin_without_links(&root).unwrap().is_procfs());
    assert!(unix::PinnedDirectory::pin_without_links(&root).is_ok());
    assert!(portable::PinnedDirectory::pin_without_links(&root.join("out-dir")).is_err());
    assert!(unix::PinnedDirectory::pin_without_links(&root.join("out-dir")).is_err());
    let outer_dir =
        unix::PinnedDirectory::pin(outer.path()).unwrap().open_dir(Path::new("")).unwrap();
    assert_ne!(outer_dir.own_id().unwrap(), outer_dir.entry_id(OsStr::new("root")).unwrap());
    let identity = unix::metadata_file_id(&metadata);
    assert_eq!(outer_dir.entry_id(OsStr::new("secret")).unwrap(), identity);
    assert_eq!(portable::metadata_file_id(&metadata), portable::metadata_file_id(&metadata));
}

#[test]
fn without_kernel_confinement_a_replaced_directory_is_rejected() {
    let outer = tree();
    let (root, aside) = (outer.path().join("root"), outer.path().join("aside"));
    let pinned = unix::PinnedDirectory::pin_with_path_comparison(&root).unwrap();
    fs::rename(&root, &aside).unwrap();
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::write(root.join("dir/file"), "another").unwrap();
    assert!(pinned.open_file(Path::new("dir/file")).is_err());
    assert!(pinned.open_dir_without_links(Path::new("dir")).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn links_to_open_files_of_processes_are_rejected() {
    let outer = tree();
    let secret = outer.path().join("secret");
    assert!(unix::path_metadata_following_links(&secret).unwrap().is_file());
    assert_eq!(
        unix::path_metadata_following_links(&outer.path().join("none")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    for link in ["/proc/self/root", "/proc/self/cwd", "/proc/thread-self/root"] {
        for path in [link.to_owned(), format!("{link}{}", secret.display()), format!("{link}/none")]
        {
            let kind = unix::path_metadata_following_links(Path::new(&path)).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::CrossesDevices, "{path}");
        }
    }
    assert!(unix::PinnedDirectory::pin(Path::new("/proc/self")).unwrap().is_procfs());
    assert!(!unix::PinnedDirectory::pin(outer.path()).unwrap().is_procfs());
}

#[cfg(target_os = "linux")]
#[test]
fn swapping_a_directory_for_a_link_reads_nothing_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let outer = tempfile::tempdir().unwrap();
    let [root, evil] = ["root", "evil"].map(|name| outer.path().join(name));
    for (dir, text) in [(&root.join("dir"), "inside"), (&evil, "secret")] {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("file"), text).unwrap();
    }
    symlink(&evil, root.join("link")).unwrap();
    let pinned = unix::PinnedDirectory::pin(&root).unwrap();
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
            let opened = pinned.open_file(Path::new("dir/file"));
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
fn rename_never_replaces_an_existing_name() {
    for file_system in
        [SimulatedFileSystem::FullFeatured].into_iter().chain(simulated_file_system::LIMITED)
    {
        println!("{file_system:?}");
        let outer = tree();
        let dir = unix::PinnedDirectory::pin(&outer.path().join("root"))
            .unwrap()
            .open_dir(Path::new(""))
            .unwrap();
        let [file, other, link, inner, new] = ["file", "other", "in", "dir", "new"].map(OsStr::new);
        dir.create_new_file(file, FileVisibility::Owner).unwrap().write_all(b"file").unwrap();
        dir.create_new_file(other, FileVisibility::Owner).unwrap();
        dir.create_dir(OsStr::new("empty")).unwrap();
        simulated_file_system::run_on(file_system, || {
            for (from, to) in [(file, "other"), (file, "empty"), (inner, "empty"), (inner, "file")]
            {
                let error = dir.rename_to_unused(from, OsStr::new(to)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{from:?} {to}");
            }
            // After the failed renaming, the directory has its old name, and no empty placeholder
            // remains.
            assert!(dir.rename_to_unused(inner, OsStr::new("dir/dir")).is_err());
            assert!(dir.rename_to_unused(OsStr::new("missing"), new).is_err());
            assert_eq!(dir.entry_kind(new).unwrap_err().kind(), io::ErrorKind::NotFound);
            let into = dir.open_dir(OsStr::new("empty")).unwrap();
            for (name, kind) in
                [(file, FileKind::File), (inner, FileKind::Directory), (link, FileKind::Link)]
            {
                let identity = dir.entry_id(name).unwrap();
                dir.rename_to_unused_in(name, &into, new).unwrap();
                assert_eq!(
                    (into.entry_kind(new).unwrap(), into.entry_id(new).unwrap()),
                    (kind, identity)
                );
                assert!(dir.entry_kind(name).is_err());
                into.rename_to_unused_in(new, &dir, name).unwrap();
            }
        });
        let text = fs::read_to_string(outer.path().join("root/dir/file")).unwrap();
        assert_eq!((text.as_str(), dir.entries(9).unwrap().0.len()), ("inside", 7));
    }
}
