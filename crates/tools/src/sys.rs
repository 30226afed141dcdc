//! What the operating system does for the tools. It knows nothing of tools.

pub(crate) mod fs;
#[cfg_attr(not(unix), path = "sys/process_portable.rs")]
pub(crate) mod process;
