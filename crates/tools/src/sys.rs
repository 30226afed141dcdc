//! What the operating system does for the tools. It knows nothing of tools.

pub(crate) mod fs;
