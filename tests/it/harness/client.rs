//! The client of the test kit.

pub(crate) use acp_conformance::{Asked, Client, Permission};
