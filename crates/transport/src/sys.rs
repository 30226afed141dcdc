//! The standard streams of this process, and their platform-specific handling.

use std::fs::File;
use std::io;

/// Takes exclusive ownership of standard input and output. Other code in this process and child
/// processes can no longer use them.
///
/// The function duplicates the descriptors 0 and 1 with close-on-exec, and returns the duplicates.
/// Then it redirects descriptor 0 to `/dev/null`, and descriptor 1 to the standard error. Therefore
/// a stray `println!` or a child process can neither read the client's messages nor write between
/// our messages. Call this function once, before any thread starts.
///
/// # Errors
///
/// Returns an error if the process is out of descriptors or `/dev/null` cannot be opened.
#[cfg(unix)]
pub(crate) fn take_stdio() -> io::Result<(File, File)> {
    use std::os::fd::AsFd as _;

    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((input.into(), output.into()))
}

/// Returns whether every writer of an input has closed it. The input may still contain unread
/// bytes.
///
/// Only pipes and sockets are detected. The end of a file is found by reading it.
#[cfg(unix)]
pub(crate) fn is_hung_up(input: &File) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[cfg(target_os = "linux")]
    let asked = PollFlags::RDHUP;
    #[cfg(not(target_os = "linux"))]
    let asked = PollFlags::empty();
    let mut input = [PollFd::new(input, asked)];
    let now = Timespec::default();
    poll(&mut input, Some(&now)).is_ok() && input[0].revents().intersects(asked | PollFlags::HUP)
}

/// Always returns `false`: on Windows only reading detects the end.
#[cfg(windows)]
pub(crate) fn is_hung_up(_input: &File) -> bool {
    false
}

/// Duplicates standard input and output.
///
/// The isolation is weaker than on Unix: the original handles stay in place, so a stray `println!`
/// still reaches the client.
///
/// # Errors
///
/// Returns an error if a handle cannot be duplicated.
#[cfg(windows)]
pub(crate) fn take_stdio() -> io::Result<(File, File)> {
    use std::os::windows::io::AsHandle as _;

    let input = io::stdin().as_handle().try_clone_to_owned()?;
    let output = io::stdout().as_handle().try_clone_to_owned()?;
    Ok((input.into(), output.into()))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use pretty_assertions::assert_eq;

    use super::*;

    /// Environment variable that marks the child process of a test. The child runs this test
    /// program again, and takes its own standard streams.
    const CHILD_MARKER_ENV: &str = "CALLBOARD_TEST_TAKE_STDIO";

    #[test]
    fn a_pipe_is_hung_up_when_its_writer_is_gone_though_bytes_are_left() {
        let (reader, mut writer) = io::pipe().unwrap();
        let reader = File::from(std::os::fd::OwnedFd::from(reader));
        assert!(!is_hung_up(&reader));
        writer.write_all(b"left").unwrap();
        assert!(!is_hung_up(&reader));
        drop(writer);
        assert!(is_hung_up(&reader));
    }

    #[test]
    fn stray_output_and_children_cannot_reach_the_client() {
        if std::env::var_os(CHILD_MARKER_ENV).is_some() {
            return echo_through_taken_streams();
        }
        let mut copy = Command::new(std::env::current_exe().unwrap())
            .args(["sys::tests::stray_output_and_children_cannot_reach_the_client", "--exact"])
            .arg("--nocapture")
            .env(CHILD_MARKER_ENV, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        copy.stdin.take().unwrap().write_all(b"from the client").unwrap();
        let output = copy.wait_with_output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));

        assert!(out.ends_with("\n<from the client>"), "{out}");
        assert!(!out.contains("stray"), "{out}");
        assert!(err.contains("stray line") && err.contains("stray child, read <>"), "{err}");
    }

    fn echo_through_taken_streams() {
        let (mut input, mut output) = take_stdio().unwrap();
        for stream in [&input, &output] {
            let flags = rustix::io::fcntl_getfd(stream).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "a child would have it");
        }
        println!("stray line");
        let child = Command::new("sh").args(["-c", "echo \"stray child, read <$(cat)>\""]).status();
        assert!(child.unwrap().success());

        let mut read = String::new();
        input.read_to_string(&mut read).unwrap();
        write!(output, "\n<{read}>").unwrap();
        assert_eq!(read, "from the client");
    }
}
