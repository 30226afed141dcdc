//! The client of the test kit.

pub(crate) use callboard::testing::{Asked, Client, Permission};
