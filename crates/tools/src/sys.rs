//! What the operating system does for the tools. It knows nothing of tools.

#[cfg_attr(target_os = "linux", path = "sys/environment_linux.rs")]
pub(crate) mod environment;
pub(crate) mod fs;
#[cfg_attr(not(unix), path = "sys/process_portable.rs")]
pub(crate) mod process;
