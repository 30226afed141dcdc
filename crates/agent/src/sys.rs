//! Files as the operating system has them: those that are the user's alone, and those that are no
//! pipe.

pub(crate) mod private;
